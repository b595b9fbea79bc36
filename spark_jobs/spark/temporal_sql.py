"""Temporal columns as Spark's own types: a projection on top of what every plan gives, text
(schemas.model.spark_types).

A text that the type can't hold is never a NULL without a word: rows were checked in the worker
(spark_jobs.pipeline.table_view, spark_jobs.arrow.table_columns), whole messages at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.spark_types import metadata_of, spark_type
from ticdc_bridge.schemas.model.table import Column as TableColumn
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import zone_of
from ticdc_bridge.spark_jobs.pipeline.table_view import FOLD, NOT_TYPED, TableView, transition_dates

_IMAGES = {"before": "_b", "after": "_a"}
_CLOCK = r"\d\d:[0-5]\d:[0-5]\d(\.\d{1,6})?\z"


def typed_view(frame: DataFrame, read: CodecConfig) -> DataFrame:
    """Change events with exact structs → with the types of the side's view."""
    view, zone = read.view, zone_of(read)
    assert view is not None
    columns = [c for c in view.table.columns if c.type.kind in view.types.kinds and not c.virtual]
    if not columns:
        return frame
    cells = [
        (short, n, F.col(row_image)[c.name], c) for row_image, short in _IMAGES.items() for n, c in enumerate(columns)
    ]
    casts = [READ[c.type.kind](text, zone).alias(f"{short}{n}") for short, n, text, c in cells]
    typed = frame.select("*", _barrier(casts[0]), *casts[1:])
    bad = [(c, text, text.isNotNull() & F.col(f"{short}{n}").isNull()) for short, n, text, c in cells]
    out: dict[str, Column] = {name: F.col(name) for name in frame.columns}
    for image in _IMAGES:
        row = F.struct(*_row(view, image, columns, certain=read.tables is not None))
        out[image] = F.when(F.col(image).isNotNull(), row)
    flags = [F.when(b, F.lit(f"{NOT_TYPED}:{c.name}")) for c, _, b in bad] if view.on_lossy == "flag" else []
    flags += [F.when(_folds(t, zone), F.lit(f"{FOLD}:{c.name}")) for c, t, _ in bad if _may_fold(c, zone)]
    if flags:
        out["flags"] = F.array_union("flags", F.array_compact(F.array(*flags)))
    if view.on_lossy == "error":
        typed = typed.withColumn("_wrong", F.coalesce(*(F.when(b, _detail(view, c, t)) for c, t, b in bad)))
        wrong = F.col("_wrong")
        out |= {
            row_image: F.when(wrong.isNotNull(), F.raise_error(wrong)).otherwise(out[row_image])
            for row_image in _IMAGES
        }
    return typed.select(*(column.alias(name) for name, column in out.items()))


def _barrier(column: Column) -> Column:
    """The column, but not one that Spark would take for the same each time.

    Else a filter on the result would be pushed below the conversions, with a copy of all of them and of what they are
    made from, again and again.
    """
    return F.when(F.spark_partition_id() >= 0, column).alias(f"{_IMAGES['before']}0")


def _row(view: TableView, image: str, typed: list[TableColumn], certain: bool) -> list[Column]:
    numbers = {c.name: n for n, c in enumerate(typed)}
    out = []
    for column in view.table.columns:
        if column.virtual:
            continue
        name = column.name
        value = F.col(f"{_IMAGES[image]}{numbers[name]}") if name in numbers else F.col(image)[name]
        out.append(value.alias(name, metadata=metadata_of(column, certain)))
    return out


def _detail(view: TableView, column: TableColumn, text: Column) -> Column:
    """The message of INVALID_VALUE (schemas.model.errors), as the worker's check has it."""
    reason = f" is no value of Spark's {spark_type(column, view.types)}"
    return F.concat(F.lit(f"column {column.name}: "), F.substring(text, 1, 40), F.lit(reason))


# ---- text → Spark's types, NULL for what they can't hold
def _date(text: Column, _zone: str) -> Column:
    return F.when(text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d\z"), text.try_cast("date"))


def _datetime(text: Column, _zone: str) -> Column:
    return F.when(text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d " + _CLOCK), text.try_cast("timestamp_ntz"))


def _timestamp(text: Column, zone: str) -> Column:
    """Java takes the first of two times, and moves one that never was: that is told by going back."""
    moment = F.concat(text, F.lit(f" {_spark_zone(zone)}")).try_cast("timestamp")
    when = text.rlike(r"^(?!000[01]|9999)\d{4}-\d\d-\d\d " + _CLOCK)
    if transition_dates(zone):
        clock = text.try_cast("timestamp_ntz")
        never = _is_risky(text, zone) & (_in_zone(_utc(clock, zone), zone) != clock)
        when = when & ~F.coalesce(never, F.lit(False))
    return F.when(when, moment)


def _time(text: Column, _zone: str) -> Column:
    minus = text.startswith("-")
    sign = F.when(minus, F.lit(-1)).otherwise(F.lit(1))
    words = F.split(F.when(minus, F.substring(text, 2, 20)).otherwise(text), ":")
    hours, minutes = (words[n].try_cast("int") * sign for n in (0, 1))
    seconds = words[2].try_cast("decimal(8,6)") * sign
    interval = F.make_dt_interval(F.lit(0), hours, minutes, seconds.cast("decimal(18,6)"))
    return F.when(text.rlike(r"^-?\d{2,3}:[0-5]\d:[0-5]\d(\.\d{1,6})?\z"), interval)


READ: Mapping[Kind, Callable[[Column, str], Column]] = {
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}


# ---- zones
def _spark_zone(zone: str) -> str:
    return zone.upper() if zone.upper() in ("UTC", "Z") else zone


def _utc(clock: Column, zone: str) -> Column:
    return F.convert_timezone(F.lit(_spark_zone(zone)), F.lit("UTC"), clock)


def _in_zone(utc: Column, zone: str) -> Column:
    return F.convert_timezone(F.lit("UTC"), F.lit(_spark_zone(zone)), utc)


def _may_fold(column: TableColumn, zone: str) -> bool:
    return column.type.kind is Kind.TIMESTAMP and bool(transition_dates(zone))


def _is_risky(text: Column, zone: str) -> Column:
    return F.substring(text, 1, 10).isin(*sorted(transition_dates(zone)))


def _folds(text: Column, zone: str) -> Column:
    """Clocks were set back: the offset of the day after gives another time with the same text."""
    clock, day = text.try_cast("timestamp_ntz"), F.expr("INTERVAL '1' DAY")
    later = _utc(clock + day, zone) - day
    return _is_risky(text, zone) & (_in_zone(later, zone) == clock) & (later != _utc(clock, zone))
