"""Change events in plain form → columns of their table's types; what is unusual is Spark's (lake.row_values)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.spark_jobs.arrow.library import array_of, entries_of, keep, offsets_of, pa, pc

ORDER = {"\0commit_ts": "commit_ts", "\0position": "position", "\0row": "row"}
"""What orders changes of one key, by names that no column of a table has: columns of change events."""
SOURCE = "\0source"
"""Where Kafka has a change, by a name that no column of a table has; only where a delete need not have a commit_ts."""
_HEX, _DIGITS = '{"hex":"', (8, -2)


class UnusualChanges(Exception):
    """Changes that are left to Spark; the text says why."""


class ColumnShape(NamedTuple):
    """kind: the Arrow type in the table. is_bytes: the plain form is {"hex":"…"}. zone: of TIMESTAMP text."""

    kind: Any
    is_bytes: bool
    zone: str


@dataclass(frozen=True)
class TableShape:
    """What changes of a table have to be like. columns: all of them, by name. since: the commit_ts that all come after.
    inexact: flags of a value that a message does not hold exactly, which none of the key may have. folds: by columns of
    the key, how texts begin that may be two times.
    """

    columns: Mapping[str, ColumnShape]
    key: Sequence[str]
    since: int
    inexact: Sequence[str]
    folds: Mapping[str, Sequence[str]]


def typed_changes(changes: Any, shape: TableShape) -> tuple[Any, Any]:
    """Upserts, with all columns, and deletes, with those of the key; both with ORDER. An update of the key is both.

    changes: an Arrow table with `op`, `before`, `after` (maps), `flags` and ORDER, all of the table of `shape`; with
    `source` a delete need not have a commit_ts, and both results have SOURCE. UnusualChanges for one that Spark has to
    look at.
    """
    is_delete = pc.equal(changes.column("op"), "d")
    upserts, deletes = keep(changes, pc.invert(is_delete)), keep(changes, is_delete)
    oldest = pc.min(changes.column("commit_ts")).as_py()
    timed = upserts if "source" in changes.column_names else changes
    if (oldest is None and len(changes)) or timed.column("commit_ts").null_count:
        raise UnusualChanges("changes without a commit_ts")
    if oldest is not None and oldest <= shape.since:
        raise UnusualChanges("changes that are not newer than the table's last statement")
    bad = {f"{flag}:{name}" for flag in shape.inexact for name in shape.key}
    flags = {*_distinct(changes.column("flags"))} & bad or {*_distinct(upserts.column("flags"))} & {"handle_key_only"}
    if flags:
        raise UnusualChanges(f"changes with {min(flags)}")
    rows = _values(upserts.column("after"), shape, [*shape.columns])
    removed = _values(deletes.column("before"), shape, shape.key)
    if any(values.null_count for values in (*(rows[name] for name in shape.key), *removed.values())):
        raise UnusualChanges("changes without a value of their key")
    for name, days in shape.folds.items():
        for values in (rows[name], removed[name]):
            if pc.any(pc.is_in(pc.utf8_slice_codeunits(values, 0, 10), pa.array(days, pa.string()))).as_py():
                raise UnusualChanges("a TIMESTAMP in the key of a day on which clocks were set")
    numbers = pa.array(np.flatnonzero(np.asarray(upserts.column("before").is_valid())))
    new = {name: rows[name].take(numbers) for name in shape.key}
    moved = upserts.take(numbers)
    # Some changefeeds tell of the old row what changed: a key column that it lacks is as it was.
    old = _values(moved.column("before"), shape, shape.key, needs_all=False)
    old = {name: pc.coalesce(values, new[name]) for name, values in old.items()}
    is_moved = np.zeros(len(moved), bool)
    for name, values in old.items():
        is_moved |= ~np.asarray(pc.equal(values, new[name]))
    before = _with_order(old, moved).filter(pa.array(is_moved))
    return _with_order(rows, upserts), pa.concat_tables([_with_order(removed, deletes), before])


def _with_order(columns: Mapping[str, Any], changes: Any) -> Any:
    order = ORDER | ({SOURCE: "source"} if "source" in changes.column_names else {})
    return pa.table({**columns, **{name: changes.column(of) for name, of in order.items()}})


def _distinct(lists: Any) -> list[str]:
    texts: list[str] = pc.unique(pc.list_flatten(lists)).to_pylist()
    return texts


def _values(rows: Any, shape: TableShape, names: Sequence[str], needs_all: bool = True) -> dict[str, Any]:
    """Columns of rows in plain form; NULL where a row lacks one, if it may."""
    rows = rows.combine_chunks()
    if rows.null_count:
        raise UnusualChanges("changes without their row")
    counts, keys, items = entries_of(rows)
    width = int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0
    starts = pa.array(np.arange(0, len(keys), width or 1))
    found = {keys[n].as_py(): n for n in range(width)}
    # Mostly all rows have the same columns in the same order.
    is_alike = all(pc.all(pc.equal(keys.take(pc.add(starts, n)), name)).as_py() for name, n in found.items())
    made = dict[str, Any]()
    for name in names:
        is_found = is_alike and name in found
        if needs_all and len(rows) and not is_found and pc.sum(pc.equal(keys, name)).as_py() != len(rows):
            raise UnusualChanges(f"changes that lack column {name}")
        texts = items.take(pc.add(starts, found[name])) if is_found else pc.map_lookup(rows, name, "first")
        try:
            made[name] = _typed(texts, shape.columns[name])
        except (pa.ArrowInvalid, ValueError) as error:
            raise UnusualChanges(f"a value that does not fit the type of column {name}") from error
    return made


def _typed(texts: Any, column: ColumnShape) -> Any:
    """ValueError, ArrowInvalid for a text that is none of the column's values, or means two times."""
    if column.is_bytes:
        return _bytes_of(texts, column.kind)
    if pa.types.is_temporal(column.kind) and pc.any(pc.starts_with(texts, "0000")).as_py():
        raise ValueError("a date of the year 0")  # which Arrow has, and Spark's types do not
    if pa.types.is_timestamp(column.kind) and column.kind.tz is not None:
        return pc.assume_timezone(texts.cast(pa.timestamp("us")), column.zone).cast(column.kind)
    return texts.cast(column.kind)


def _bytes_of(texts: Any, kind: Any) -> Any:
    if not pc.all(pc.starts_with(texts.drop_null(), _HEX), min_count=0).as_py():
        raise ValueError("no bytes in plain form")
    digits = pc.utf8_slice_codeunits(texts, *_DIGITS)
    halves = np.asarray(pc.binary_length(digits).fill_null(0))
    if (halves % 2).any():
        raise ValueError("half a byte")
    data = bytes.fromhex("".join(digits.drop_null().to_pylist()))
    return array_of(kind, np.asarray(texts.is_valid()), offsets_of(halves // 2), data)
