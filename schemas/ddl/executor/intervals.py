"""The partitions that INTERVAL makes (upstream tidb `pkg/ddl/partition.go`, GeneratePartDefsFromInterval)."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final

from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.partition_definitions import Interval, PartitionBy, PartitionDef, PartitionValue
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOST: Final = 8192
_DAYS: Final = {"DAY": 1, "WEEK": 7}
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_YEARS: Final = 9999


def interval_partitions(spread: PartitionBy, table: Table) -> Sequence[PartitionDef] | None:
    """Of whole numbers, and of a DATE by days or months. [] where they are not known here, None where none of them ends
    with LAST PARTITION, as TiDB asks."""
    made = spread.interval
    if made is None or made.amount is None or made.first is None or made.last is None or made.amount <= 0:
        return []
    column = find(table.columns, spread.names[0]) if len(spread.names) == 1 else None
    if not made.unit and made.first.kind == made.last.kind == "int":
        values, lowest = _numbers(made, int(made.first.text), int(made.last.text)), _lowest(spread, column)
    elif spread.method == "RANGE COLUMNS" and column is not None and column.type.kind is Kind.DATE:
        values, lowest = _dates(made), PartitionValue("text", "0000-01-01")
    else:
        return []
    if not values or (made.null and lowest is None):
        return [] if values is not None else None
    named = [PartitionDef(f"P_LT_{one.text}", "LESS THAN", ((one,),)) for one in values]
    if made.null and lowest is not None:
        named.insert(0, PartitionDef("P_NULL", "LESS THAN", ((lowest,),)))
    if made.maxvalue:
        named.append(PartitionDef("P_MAXVALUE", "LESS THAN", ((PartitionValue("maxvalue"),),)))
    return named


def _lowest(spread: PartitionBy, column: Column | None) -> PartitionValue | None:
    """Below all values; None where the type of an expression is not known."""
    if column is None or not (spread.plain or spread.method == "RANGE COLUMNS"):
        return None
    bits = column.type.bits if spread.method == "RANGE COLUMNS" else 64
    return PartitionValue("int", "0" if column.unsigned else str(-(1 << ((bits or 64) - 1))))


def _numbers(made: Interval, first: int, last: int) -> list[PartitionValue] | None:
    step = made.amount or 1
    if last < first or (last - first) % step:
        return None
    return [PartitionValue("int", str(n)) for n in range(first, last + 1, step)] if last - first < step * _MOST else []


def _dates(made: Interval) -> list[PartitionValue] | None:
    """[] for ends or units of another form."""
    if made.first is None or made.last is None or not (made.unit in _DAYS or made.unit in _MONTHS):
        return []
    if not all(one.kind == "text" and _DATE.fullmatch(one.text) for one in (made.first, made.last)):
        return []
    try:
        first, last = (date.fromisoformat(one.text) for one in (made.first, made.last))
        after = _days_after if made.unit in _DAYS else _months_after
        return _until(last, lambda n: after(first, n * (made.amount or 1) * {**_DAYS, **_MONTHS}[made.unit]))
    except (ValueError, OverflowError):
        return []


def _days_after(first: date, number: int) -> date:
    return first + timedelta(days=number)


def _months_after(first: date, number: int) -> date:
    years, month = divmod(first.month - 1 + number, 12)
    year = first.year + years
    if year > _YEARS:
        raise ValueError
    return date(year, month + 1, min(first.day, calendar.monthrange(year, month + 1)[1]))


def _until(last: date, end: Callable[[int], date]) -> list[PartitionValue] | None:
    found = list[PartitionValue]()
    for number in range(_MOST):
        one = end(number)
        if one > last:
            return None
        found.append(PartitionValue("text", one.isoformat()))
        if one == last:
            return found
    return []
