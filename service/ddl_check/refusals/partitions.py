"""Partitions that TiDB refuses: definitions, and the management of partitions that are there.

Source: upstream tidb `pkg/parser/ast/ddl.go` (PartitionOptions.Validate), `pkg/ddl/partition.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.executor.intervals import interval_partitions
from ticdc_bridge.schemas.ddl.parser.partition_definitions import Interval, PartitionBy, PartitionDef
from ticdc_bridge.schemas.model.table import Column, KnownPartition, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.functions import of_calls

_VALUES: Final = {"RANGE": "LESS THAN", "LIST": "IN"}
_INTEGERS: Final = (Kind.INTEGER, Kind.BIT, Kind.YEAR)
_OF_KEY: Final = tuple(kind for kind in Kind if kind not in (Kind.JSON, Kind.VECTOR))
_OF_COLUMNS: Final = (Kind.INTEGER, Kind.TEXT, Kind.BINARY, Kind.DATE, Kind.DATETIME, Kind.TIME)
_STRINGS: Final = (Kind.TEXT, Kind.BINARY)
_LOBS: Final = ("text", "blob")
_NUMERIC: Final = ("int", "fraction")
_WRONG_KINDS: Final = {
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.TIME), (*_NUMERIC, "bits")),
    **dict.fromkeys(_STRINGS, _NUMERIC), Kind.INTEGER: ("text", "fraction", "bits"),
}  # fmt: skip
"""Kinds of literals that TiDB does not take for a column of RANGE COLUMNS and LIST COLUMNS."""

# What an expression may call (upstream `pkg/expression/function_traits.go`, AllowedPartitionFuncMap), and operators.
_CALLED: Final = frozenset("""
    to_days to_seconds dayofmonth month dayofyear quarter yearweek year weekday dayofweek day hour minute second
    time_to_sec microsecond unix_timestamp from_days extract abs ceiling datediff floor mod ceil timestampdiff div from
""".split())  # fmt: skip
_NO_WHOLE: Final = (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.TEXT, Kind.BINARY)
_DATES: Final = (Kind.DATE, Kind.DATETIME)
_TIMES: Final = (Kind.TIME, Kind.DATETIME)
_ARGUMENTS: Final = {
    **dict.fromkeys("to_days to_seconds dayofmonth month dayofyear quarter yearweek year weekday dayofweek day datediff"
                    .split(), _DATES),
    **dict.fromkeys(("hour", "minute", "second", "time_to_sec", "microsecond"), _TIMES),
    **dict.fromkeys(("from_days", "extract"), (*_DATES, *_TIMES)),
    "unix_timestamp": (Kind.TIMESTAMP,),
}  # fmt: skip
"""Function → the types of which a column has to be among its arguments (upstream checkPartitionExprArgs)."""
_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_OF_TIMESTAMPS: Final = frozenset(("unix_timestamp", "timestampdiff", "ceil"))
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?")
_PLAIN: Final = re.compile(r"[0-9a-z]*")  # in every collation in this order
_TEXT: Final = re.compile(r"[0-9A-Za-z]*")  # in the collations that go by code points
_BY_CODE: Final = ("utf8mb4_bin", "utf8_bin", "latin1_bin", "ascii_bin")
NOT_INCREASING: Final = Refusal(1493, "VALUES LESS THAN value must be strictly increasing for each partition")
_Row = tuple[int | str | None, ...]


def of_partitioning(table: Table, spread: PartitionBy) -> Iterator[Refusal]:
    """Of PARTITION BY, in CREATE TABLE and ALTER TABLE alike."""
    yield from _of_counts(spread)
    kind = spread.method.partition(" ")[0]
    if kind in _VALUES and not spread.interval and not spread.partitions:
        yield Refusal(1492, f"For {kind} partitions each partition must be defined")
    if kind == "SYSTEM_TIME" and sorted({one.values for one in spread.partitions}) != ["CURRENT", "HISTORY"]:
        yield Refusal(4128, "Wrong Partitions: must have at least one HISTORY and exactly one last CURRENT")
    width = len(spread.names) if spread.method.endswith("COLUMNS") else 0
    for one in spread.partitions:
        yield from of_values(one, kind, width)
    yield from of_partition_names(spread.partitions, ())
    yield from of_literals(table, spread.partitions, spread.method, spread.names)
    made = interval_partitions(spread, table)
    yield from of_order(table, spread.partitions or made or (), spread.method, spread.names)
    yield from _of_columns(table, spread)
    if spread.interval is not None:
        yield from _of_interval(table, spread, spread.interval)
        if made is None:
            yield _unsupported("INTERVAL: LAST PARTITION not matching FIRST + n INTERVALs")


def _unsupported(text: str) -> Refusal:
    return Refusal(8200, f"Unsupported {text}")


def _of_interval(table: Table, spread: PartitionBy, interval: Interval) -> Iterator[Refusal]:
    """Upstream generatePartitionDefinitionsFromInterval."""
    by_columns = spread.method.endswith("COLUMNS")
    if not spread.method.startswith("RANGE"):
        yield _unsupported("INTERVAL partitioning, only allowed on RANGE partitioning")
    if by_columns and len(spread.names) > 1:
        yield _unsupported("INTERVAL partitioning, does not allow RANGE COLUMNS with more than one column")
    columns = [c for name in spread.names if by_columns and (c := find(table.columns, name))]
    if any(c.type.kind not in (*_INTEGERS, *_DATES) for c in columns):
        yield _unsupported("INTERVAL partitioning, only supports Date, Datetime and INT types")
    if interval.first is None or interval.last is None:
        yield _unsupported("INTERVAL partitioning, currently requires FIRST and LAST partitions to be defined")
    if interval.unit and interval.unit not in _UNITS:
        yield _unsupported(f"INTERVAL partitioning, only supports {', '.join(_UNITS)} as time unit")
    if not interval.positive:
        yield _unsupported("INTERVAL, should be a positive number")
    if any(end is not None and end.kind == "null" for end in (interval.first, interval.last)):
        yield _unsupported("INTERVAL partitioning: Error when generating partition values")


def _may_have_parts(spread: PartitionBy) -> bool:
    return spread.subpartitioned and spread.method.startswith(tuple(_VALUES))


def _of_counts(spread: PartitionBy) -> Iterator[Refusal]:
    count, partitions = spread.count, spread.partitions
    if count == 0:
        yield Refusal(1504, "Number of partitions = 0 is not an allowed value")
    elif count is not None and partitions and count != len(partitions):
        yield Refusal(1484, "Wrong number of partitions defined, mismatch with previous setting")
    if spread.subpartitions == 0:
        yield Refusal(1504, "Number of subpartitions = 0 is not an allowed value")
    written = {one.subpartitions for one in partitions}
    if len(written) > 1 or (spread.subpartitions and written - {0, spread.subpartitions}):
        yield Refusal(1485, "Wrong number of subpartitions defined, mismatch with previous setting")
    elif (spread.subpartitioned or any(written)) and not _may_have_parts(spread):
        text = "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for subpartitioning"
        yield Refusal(1500, text)
    if max(count or 0, len(partitions)) > 8192:
        yield Refusal(1499, "Too many partitions (including subpartitions) were defined")


def of_values(one: PartitionDef, kind: str, width: int) -> Iterator[Refusal]:
    wanted = _VALUES.get(kind, "")
    if one.values in ("HISTORY", "CURRENT"):
        if kind != "SYSTEM_TIME":
            yield Refusal(4113, "Wrong partitioning type, expected type: `SYSTEM_TIME`")
    elif one.values and one.values != wanted:
        owner = "RANGE" if one.values == "LESS THAN" else "LIST"
        yield Refusal(1480, f"Only {owner} PARTITIONING can use VALUES {one.values} in partition definition")
    elif wanted and not one.values:
        yield Refusal(1479, f"Syntax : {kind} PARTITIONING requires definition of VALUES {wanted} for each partition")
    elif one.values == "LESS THAN" and len(one.literals) != (width or 1):
        yield _wrong_width("RANGE", width)
    elif one.values == "IN" and _widths(one) - {width or 1}:
        yield _wrong_width("LIST", width)
    elif one.values == "IN" and one.has_maxvalue:
        yield Refusal(1656, "Cannot use MAXVALUE as value in VALUES IN")


def of_literals(table: Table, made: Sequence[PartitionDef], method: str, columns: Sequence[str]) -> Iterator[Refusal]:
    """Of what is a literal among the values: its type against that of the columns, or INT for an expression.

    columns: of the partitions; of an expression of one column that one alone.
    """
    by_columns = method.endswith("COLUMNS")
    found = [find(table.columns, name) for name in columns]
    unsigned = not by_columns and len(found) == 1 and found[0] is not None and found[0].unsigned
    for one in made:
        tuples = [tuple(v for values in one.literals for v in values)] if one.values == "LESS THAN" else one.literals
        for value, column in ((v, c) for values in tuples for v, c in zip(values, found or [None], strict=False)):
            if one.values == "LESS THAN" and value.kind == "null":
                yield Refusal(1566, "Not allowed to use NULL value in VALUES LESS THAN")
            elif not by_columns and value.kind in ("text", "fraction"):
                yield Refusal(1697, f"VALUES value for partition '{one.name}' must have type INT")
            elif unsigned and value.text.startswith("-"):
                yield Refusal(1563, "Partition constant is out of partition function domain")
            elif by_columns and column is not None and value.kind in _wrong_kinds(column):
                yield Refusal(1654, "Partition column values of incorrect type")


def _wrong_kinds(column: Column) -> tuple[str, ...]:
    """Of a VARCHAR, any literal is taken."""
    return () if column.type.name in ("varchar", "varbinary") else _WRONG_KINDS.get(column.type.kind, ())


def of_order(
    table: Table, made: Sequence[PartitionDef | KnownPartition], method: str, names: Sequence[str]
) -> Iterator[Refusal]:
    """Of the values of partitions, as far as they are known. names: of the columns by which rows are spread."""
    kind, columns = method.partition(" ")[0], [find(table.columns, name) for name in names]
    if kind == "RANGE" and any(one.has_maxvalue and one.single for one in made[:-1]):
        yield Refusal(1481, "MAXVALUE can only be used in last partition definition")
    rows = [_weights(row, columns) for one in made for row in one.rows]
    if kind == "RANGE" and any(is_less(row, later, columns) is False for row, later in pairwise(rows)):
        yield NOT_INCREASING
    if kind == "LIST" and (len(set(rows)) < len(rows) or sum(one.has_default for one in made) > 1):
        yield Refusal(1495, "Multiple definition of same constant in list partitioning")


def _weights(row: _Row, columns: Sequence[Column | None]) -> _Row:
    """With texts as their columns' collations compare them, as far as that is plain; a number too is one to a text."""
    texts = [
        str(part) if isinstance(part, int) and column is not None and column.type.kind in _STRINGS else part
        for part, column in zip(row, [*columns, *[None] * len(row)], strict=False)
    ]
    return tuple(
        part.lower() if isinstance(part, str) and _ignores_case(column) and _PLAIN.fullmatch(part.lower()) else part
        for part, column in zip(texts, [*columns, *[None] * len(row)], strict=False)
    )


def _ignores_case(column: Column | None) -> bool:
    return column is not None and column.collate.endswith("_ci")


def is_less(row: _Row, later: _Row, columns: Sequence[Column | None]) -> bool | None:
    """Whether one end comes before another; None where a collation decides that is not known here."""
    for part, other, column in zip(row, later, [*columns, *[None] * len(row)], strict=False):
        if part == other:
            continue
        if part is None or other is None:
            return other is None
        if isinstance(part, int) and isinstance(other, int):
            return part < other
        by_code = column is not None and column.type.kind is Kind.TEXT and column.collate in _BY_CODE
        for plain in (_DATE, _TEXT if by_code else _PLAIN):
            if plain.fullmatch(str(part)) and plain.fullmatch(str(other)):
                return str(part) < str(other)
        return None
    return False


def _widths(one: PartitionDef) -> set[int]:
    return {len(values) for values in one.literals if values[0].kind != "default"}


def _wrong_width(kind: str, width: int) -> Refusal:
    if width:
        return Refusal(1653, "Inconsistency in usage of column lists for partitioning")
    return Refusal(1657, f"Cannot have more than one value for this type of {kind} partitioning")


def of_partition_names(added: Sequence[PartitionDef], names: Sequence[str]) -> Iterator[Refusal]:
    """names: of partitions that stay."""
    taken = {name.lower() for name in names}
    for one in added:
        if not one.name or one.name.endswith(" "):
            yield Refusal(1567, "Incorrect partition name")
        if one.name.lower() in taken:
            yield Refusal(1517, f"Duplicate partition name {one.name}")
        taken.add(one.name.lower())


def _of_columns(table: Table, spread: PartitionBy) -> Iterator[Refusal]:
    if spread.method == "KEY" or spread.method.endswith("COLUMNS"):
        lower = [name.lower() for name in spread.names]
        for name in dict.fromkeys(n for n in lower if lower.count(n) > 1):
            yield Refusal(1652, f"Duplicate partition field name '{name}'")
        for name in spread.names:
            if find(table.columns, name) is None:
                yield Refusal(1488, "Field in list of fields for partition function not found in table")
    yield from (_not_allowed(name) for name in spread.functions if name not in _CALLED)
    yield from of_calls(spread.calls, lambda call: _not_allowed(call.name))
    if spread.method in ("HASH", "RANGE", "LIST") and not spread.plain and _is_constant(table, spread):
        text = "Constant, random or timezone-dependent expressions in (sub)partitioning function are not allowed"
        yield Refusal(1486, text)
    if spread.plain and not spread.method.endswith("COLUMNS") and find(table.columns, spread.names[0]) is None:
        yield Refusal(1054, f"Unknown column '{spread.names[0]}' in 'expression'")
    columns = [c for name in spread.names if (c := find(table.columns, name))]
    if not (spread.plain or spread.method.endswith("COLUMNS") or spread.method == "KEY"):
        yield from _of_result(spread, columns)
    allowed: tuple[Kind, ...] = _OF_COLUMNS if spread.method.endswith("COLUMNS") else _INTEGERS
    if spread.method == "KEY":
        allowed = _OF_KEY
    elif not (spread.plain or spread.method.endswith("COLUMNS")):
        return  # an expression decides
    for column in columns:
        if column.type.kind not in allowed or column.type.name.endswith(_LOBS):
            text = "is of a not allowed type for this type of partitioning"
            yield Refusal(1659, f"Field '{column.name}' {text}")


def _not_allowed(function: str) -> Refusal:
    return Refusal(1564, f"This partition function is not allowed ({function})")


def _of_result(spread: PartitionBy, columns: Sequence[Column]) -> Iterator[Refusal]:
    """An expression of + - * %, ABS and MOD alone is no whole number where a column or a number of it is none."""
    whole = not spread.fractions and all(column.type.kind not in _NO_WHOLE for column in columns)
    others = {name.lower() for name in spread.names} - {column.name.lower() for column in columns}
    if columns and not whole and others <= set(spread.functions) <= {"abs", "mod"}:
        yield Refusal(1491, "The PARTITION function returns the wrong type")


def _is_constant(table: Table, spread: PartitionBy) -> bool:
    """Whether an expression names no column, or calls a function that none of its columns is for."""
    found = {name: find(table.columns, name) for name in spread.names}
    kinds = {column.type.kind for column in found.values() if column is not None}
    if Kind.TIMESTAMP in kinds and not _OF_TIMESTAMPS.intersection(spread.functions):
        return True  # operators and the other functions take none
    if any(column is None and name.lower() not in spread.functions for name, column in found.items()):
        return False  # units, and columns that are not there
    called = [_ARGUMENTS[name] for name in spread.functions if name in _ARGUMENTS]
    return not kinds or not all(kinds.intersection(allowed) for allowed in called)
