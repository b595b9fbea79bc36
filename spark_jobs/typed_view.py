"""Temporal columns as Spark's own types: a projection on top of what every plan gives, text (schemas.publish.spark).

A text that the type can't hold is never a NULL without a word. Rows of the in-process decoder and of the kernels were
checked in the worker (spark_jobs.table_view, spark_jobs.fitted), whole messages at a time. Rows of a plan in the JVM
are checked here: such a plan gives the message with each row, as `_key` and `_value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from schemas.publish.spark import metadata_of, spark_type
from schemas.table import Column as TableColumn
from schemas.types import Kind
from spark_jobs.table_view import FOLD, NOT_TYPED, TableView, transition_dates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, VALUE = "_key", "_value"
_SIDES = {"before": "_b", "after": "_a"}
_CLOCK = r"\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?\z"


def typed_view(frame: DataFrame, view: TableView, zone: str, certain: bool) -> DataFrame:
    """Change events with exact structs → with the view's types. zone: of TIMESTAMP text; certain: as metadata_of."""
    from pyspark.sql import functions as F

    kinds = view.types.kinds
    columns = [c for c in view.table.columns if c.type.kind in kinds and not c.virtual]
    checked = KEY not in frame.columns
    names = [name for name in frame.columns if name not in (KEY, VALUE)]
    if not columns:
        return frame.select(*names)
    texts = {side: [F.col(side)[c.name] for c in columns] for side in _SIDES}
    read = frame.select(
        "*",
        *(
            F.struct(*(_READ[c.type.kind](t, zone).alias(f"c{n}") for n, (t, c) in _numbered(texts[side], columns)))
            .alias(short)
            for side, short in _SIDES.items()
        ),
    )  # fmt: skip
    bad = [
        (column, text, text.isNotNull() & F.col(short)[f"c{n}"].isNull())
        for side, short in _SIDES.items()
        for n, (text, column) in _numbered(texts[side], columns)
    ]
    if view.on_lossy == "error":
        read = read.withColumn("_wrong", F.coalesce(*(F.when(b, _detail(view, c, t)) for c, t, b in bad)))
        wrong = F.col("_wrong").isNotNull()
    else:
        wrong = F.lit(False)
    out: dict[str, Column] = {name: F.col(name) for name in names}
    for side in _SIDES:
        row = F.when(F.col(side).isNotNull(), F.struct(*_row(view, side, columns, certain)))
        if view.on_lossy == "error" and checked:
            row = F.when(wrong, F.raise_error(F.col("_wrong"))).otherwise(row)
        out[side] = row
    flags = [F.when(b, F.lit(f"{NOT_TYPED}:{c.name}")) for c, _, b in bad] if view.on_lossy == "flag" else []
    flags += [F.when(_folds(t, zone), F.lit(f"{FOLD}:{c.name}")) for c, t, _ in bad if _may_fold(c, zone)]
    if flags:
        out["flags"] = F.array_union("flags", F.array_compact(F.array(*flags)))
    if view.on_lossy == "error" and not checked:
        told = F.struct(F.lit("INVALID_VALUE").alias("code"), F.col("_wrong").alias("detail"),
                        F.col(KEY).alias("key"), F.col(VALUE).alias("value"))  # fmt: skip
        for name in names:
            if name not in ("kind", "row", "source", "error"):
                out[name] = F.when(~wrong, out[name])
        out["kind"] = F.when(wrong, F.lit("error")).otherwise(F.col("kind"))
        out["error"] = F.when(wrong, told).otherwise(F.col("error"))
    return read.select(*(column.alias(name) for name, column in out.items()))


def _numbered(texts: list[Column], columns: list[TableColumn]) -> enumerate[tuple[Column, TableColumn]]:
    return enumerate(zip(texts, columns, strict=True))


def _row(view: TableView, side: str, typed: list[TableColumn], certain: bool) -> list[Column]:
    from pyspark.sql import functions as F

    numbers = {c.name: n for n, c in enumerate(typed)}
    out = []
    for column in view.table.columns:
        if column.virtual:
            continue
        name = column.name
        value = F.col(_SIDES[side])[f"c{numbers[name]}"] if name in numbers else F.col(side)[name]
        out.append(value.alias(name, metadata=metadata_of(column, certain)))
    return out


def _detail(view: TableView, column: TableColumn, text: Column) -> Column:
    """The message of INVALID_VALUE (schemas.errors), as the worker's check has it."""
    from pyspark.sql import functions as F

    told = f" is no value of Spark's {spark_type(column, view.types)}"
    return F.concat(F.lit(f"column {column.name}: "), F.substring(text, 1, 40), F.lit(told))


# ---- text → Spark's types, NULL for what they can't hold
def _date(text: Column, _zone: str) -> Column:
    from pyspark.sql import functions as F

    return F.when(text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d\z"), text.try_cast("date"))


def _datetime(text: Column, _zone: str) -> Column:
    from pyspark.sql import functions as F

    return F.when(text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d " + _CLOCK), text.try_cast("timestamp_ntz"))


def _timestamp(text: Column, zone: str) -> Column:
    """Java takes the first of two times, and moves one that never was: that is told by going back."""
    from pyspark.sql import functions as F

    made = F.concat(text, F.lit(f" {_spark_zone(zone)}")).try_cast("timestamp")
    when = text.rlike(r"^(?!000[01]|9999)\d{4}-\d\d-\d\d " + _CLOCK)
    if transition_dates(zone):
        clock = text.try_cast("timestamp_ntz")
        never = _risky(text, zone) & (_there(_utc(clock, zone), zone) != clock)
        when = when & ~F.coalesce(never, F.lit(False))
    return F.when(when, made)


def _time(text: Column, _zone: str) -> Column:
    from pyspark.sql import functions as F

    minus = text.startswith("-")
    sign = F.when(minus, F.lit(-1)).otherwise(F.lit(1))
    parts = F.split(F.when(minus, F.substring(text, 2, 20)).otherwise(text), ":")
    hours, minutes = (parts[n].try_cast("int") * sign for n in (0, 1))
    seconds = parts[2].try_cast("decimal(8,6)") * sign
    made = F.make_dt_interval(F.lit(0), hours, minutes, seconds.cast("decimal(18,6)"))
    return F.when(text.rlike(r"^-?\d{2,3}:[0-5]\d:[0-5]\d(\.\d{1,6})?\z"), made)


_READ: Mapping[Kind, Callable[[Column, str], Column]] = {
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}


# ---- zones
def _spark_zone(zone: str) -> str:
    return zone.upper() if zone.upper() in ("UTC", "Z") else zone


def _utc(clock: Column, zone: str) -> Column:
    from pyspark.sql import functions as F

    return F.convert_timezone(F.lit(_spark_zone(zone)), F.lit("UTC"), clock)


def _there(utc: Column, zone: str) -> Column:
    from pyspark.sql import functions as F

    return F.convert_timezone(F.lit("UTC"), F.lit(_spark_zone(zone)), utc)


def _may_fold(column: TableColumn, zone: str) -> bool:
    return column.type.kind is Kind.TIMESTAMP and bool(transition_dates(zone))


def _risky(text: Column, zone: str) -> Column:
    from pyspark.sql import functions as F

    return F.substring(text, 1, 10).isin(*sorted(transition_dates(zone)))


def _folds(text: Column, zone: str) -> Column:
    """Clocks were set back: the offset of the day after gives another time with the same text."""
    from pyspark.sql import functions as F

    clock, day = text.try_cast("timestamp_ntz"), F.expr("INTERVAL '1' DAY")
    later = _utc(clock + day, zone) - day
    return _risky(text, zone) & (_there(later, zone) == clock) & (later != _utc(clock, zone))
