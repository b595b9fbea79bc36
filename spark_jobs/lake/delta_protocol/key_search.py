"""The rows of a table that have one of some keys: only columns of the key are read, of row groups that can have one."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet

from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.lake.delta_protocol.data_file import arrow_type, path_of_file
from ticdc_bridge.spark_jobs.lake.delta_protocol.deletion_vector import read_vector
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import Action, Field, UnsupportedTable

AFTER_ALL = (1 << 63) - 1
"""The time of a row without one: nothing is newer than NULL."""


class FoundRows(NamedTuple):
    """Rows of a data file: their positions there, the numbers of their keys, their times, and the values of one more
    column, if it was asked for (`find_rows`).
    """

    add: Action
    positions: Any
    numbers: Any
    times: Any
    values: Any


def check_key(field: Field) -> None:
    """UnsupportedTable for a column whose values Arrow does not compare as Spark does."""
    kind, types = arrow_type(field), pa.types
    tests = (types.is_integer, types.is_decimal, types.is_string, types.is_binary, types.is_date)
    if not any(test(kind) for test in tests):
        raise UnsupportedTable(f"column {field.name} of its key is {field.kind}")


def find_rows(
    table: Path, files: Iterable[Action], key: Sequence[Field], time: Field, wanted: Sequence[Any], since: int,
    newer_only: bool = False, more: Field | None = None,
) -> Iterator[FoundRows]:  # fmt: skip
    """The rows of data files whose key is wanted. wanted: the key's columns, another key each row, which numbers it.

    since: the oldest change; the times of rows that are certainly older are -1, those of rows without one AFTER_ALL.
    newer_only: files whose rows are all older are left out. more: a column.
    """
    names = [field.physical for field in key]
    bounds = [(found["min"].as_py(), found["max"].as_py()) for found in map(pc.min_max, wanted)]
    for add in files:
        stats = json.loads(add.get("stats") or "{}")
        lows, highs, nulls = (stats.get(name, {}) for name in ("minValues", "maxValues", "nullCount"))
        newest = highs.get(time.physical)
        is_older = nulls.get(time.physical) == 0 and isinstance(newest, int) and newest < since
        of_file = [(lows.get(name), highs.get(name)) for name in names]
        if not all(map(_meet, of_file, bounds)) or (is_older and newer_only):
            continue
        matches, values = [(np.zeros(0, np.int64),) * 3], list[Any]()
        with pyarrow.parquet.ParquetFile(path_of_file(table, add["path"]), memory_map=True) as file:
            for begin, group in _groups(file, names, bounds):
                positions, numbers = match_keys(_read(file, group, key), wanted)
                times = np.full(len(positions), -1)
                if len(positions) and not is_older:
                    times = np.asarray(_read(file, group, [time])[0].fill_null(AFTER_ALL))[positions]
                if more is not None:
                    values.append(_read(file, group, [more])[0].take(pa.array(positions)))
                matches.append((positions + begin, numbers, times))
        positions, numbers, times = map(np.concatenate, zip(*matches, strict=True))
        found: Any = pa.chunked_array(values) if values else None
        if len(positions) and (descriptor := add.get("deletionVector")) is not None:
            gone = read_vector(table, descriptor)
            stays = np.array([position not in gone for position in positions.tolist()])
            positions, numbers, times = positions[stays], numbers[stays], times[stays]
            found = found.filter(pa.array(stays)) if values else None
        if len(positions):
            yield FoundRows(add, positions, numbers, times, found)


def match_keys(rows: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, Any]:
    """The positions of rows whose key is wanted, and the keys' numbers."""
    if len(wanted) == 1:
        numbers = np.asarray(pc.index_in(rows[0], wanted[0]).fill_null(-1))
        positions = np.flatnonzero(numbers >= 0)
        return positions, numbers[positions]
    names = [str(n) for n in range(len(wanted))]
    left, right = (pa.table([*of, pa.array(np.arange(len(of[0])))], [*names, "n"]) for of in (rows, wanted))
    both = left.join(right, names, join_type="inner", right_suffix="umber")
    return np.asarray(both.column("n")), np.asarray(both.column("number"))


def _groups(file: Any, names: Sequence[str], bounds: Sequence[tuple[Any, Any]]) -> Iterator[tuple[int, int]]:
    """The row groups that can have a key between the bounds: the position of their first row, and their numbers."""
    metadata, begin = file.metadata, 0
    indices = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    for number in range(metadata.num_row_groups if indices.keys() >= {*names} else 0):
        group = metadata.row_group(number)
        statistics = [group.column(indices[name]).statistics for name in names]
        of_group = [(of.min, of.max) if of is not None and of.has_min_max else (None, None) for of in statistics]
        if all(map(_meet, of_group, bounds)):
            yield begin, number
        begin += group.num_rows


def _read(file: Any, group: int, fields: Sequence[Field]) -> list[Any]:
    """Columns of a row group, of the table's types: a file may be older than a wider type, or than a column."""
    rows = file.read_row_group(group, columns=[field.physical for field in fields])
    found = {name: rows.column(name) for name in rows.column_names}
    columns = [(found.get(field.physical), arrow_type(field)) for field in fields]
    count = file.metadata.row_group(group).num_rows
    return [pa.nulls(count, kind) if of is None else of.cast(kind).combine_chunks() for of, kind in columns]


def _meet(first: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two ranges can have a value in common: they can where their ends can't be compared."""
    if any(type(end) is not type(other[0]) for end in first):
        return True
    return bool(first[0] <= other[1] and first[1] >= other[0])
