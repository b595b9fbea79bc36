"""What a running Spark job would see of a change."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.publish.spark import spark_type
from service.history.dry_run.changes import TableChange


def seen(change: TableChange) -> list[str]:
    """In plain words, one line a fact; [] where a job sees nothing."""
    if change.before is None and change.after is None:
        return []
    if change.after is None:
        return [f"no more rows of {change.id}"]
    if change.before is None:
        return [f"rows of a new table {change.id}; a job with table='…' counts and skips them"]
    return list(_lines(change))


def _lines(change: TableChange) -> Iterator[str]:
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
    if change.renamed:
        yield f"rows of {after.id} instead of {before.id}; a job with table='{before.id}' counts and skips them"
    for column in change.added:
        if column.virtual:
            continue
        yield (
            f"`{column.name}` {spark_type(column)} in `after` of new rows (NULL in rows written before). A streaming "
            f"job "
            "with a table keeps the columns it started with: restart it to see the column; without a table it is a new "
            "key of the map"
        )
    for column in change.dropped:
        yield f"`{column.name}` is missing from new rows: NULL in a job that started with it"
    for old, new in change.pairs:
        if old.name != new.name:
            yield f"`{new.name}` instead of `{old.name}`: NULL under the old name until the job is restarted"
        a, b = spark_type(old), spark_type(new)
        if a != b:
            yield (
                f"`{new.name}` as {b} instead of {a}: a streaming job goes on with {a} and reports values that do not "
                "fit; a Delta sink needs its column changed"
            )
    old_key, new_key = change.handle_keys
    if old_key != new_key:
        yield f"`key` is {list(new_key)} instead of {list(old_key)}: merges by key must change with it"
