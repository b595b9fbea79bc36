"""Which columns of two versions of a table are the same one."""

from __future__ import annotations

from dataclasses import replace

from ticdc_bridge.schemas.model.table import Column, Table


def with_ids_of(before: Table, after: Table) -> Table:
    """`after` as the next version of `before`, which nothing but its columns describes (SHOW CREATE TABLE, a registered
    schema): a column of the same name, in any letters, has the same id.

    Columns that are new have ids of their own, as TiDB gives them. Where others are gone at the same time, `may_be` has
    the ids of those that a new one may be, renamed.
    """
    own = {c.name.lower(): c for c in before.columns}
    now = {c.name.lower() for c in after.columns}
    gone = [c for c in before.columns if c.name.lower() not in now]
    last = max([before.last_column_id, *(c.id for c in before.columns)])
    columns: list[Column] = []
    for column in after.columns:
        same = own.get(column.name.lower())
        if same is not None:
            columns.append(replace(column, id=same.id, may_be=same.may_be))
            continue
        last += 1
        # A column that is computed when it is read has no values that it could have kept.
        may_be = {id_ for c in gone if not (c.virtual or column.virtual) for id_ in (c.id, *c.may_be)}
        columns.append(replace(column, id=last, may_be=tuple(sorted(may_be))))
    return replace(after, columns=tuple(columns), created_ts=before.created_ts, last_column_id=last)
