"""Temporal columns as Spark's own types: a projection over text that workers have checked (pipeline.table_view)."""

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
    # Not a column that Spark would take for the same each time: else a filter on the result would be pushed below the
    # conversions, with a copy of all of them and of what they are made from, again and again.
    barrier = F.when(F.spark_partition_id() >= 0, casts[0]).alias(f"{_IMAGES['before']}0")
    typed = frame.select("*", barrier, *casts[1:])
    bad = [(c, text, text.isNotNull() & F.col(f"{short}{n}").isNull()) for short, n, text, c in cells]
    out: dict[str, Column] = {name: F.col(name) for name in frame.columns}
    for image in _IMAGES:
        row = F.struct(*_row(view, image, columns, certain=read.tables is not None))
        out[image] = F.when(F.col(image).isNotNull(), row)
    flags = [F.when(b, F.lit(f"{NOT_TYPED}:{c.name}")) for c, _, b in bad] if view.on_lossy == "flag" else []
    if transition_dates(zone):
        stamps = ((c, text) for c, text, _ in bad if c.type.kind is Kind.TIMESTAMP)
        flags += [F.when(folds(text, zone), F.lit(f"{FOLD}:{c.name}")) for c, text in stamps]
    if flags:
        out["flags"] = F.array_union("flags", F.array_compact(F.array(*flags)))
    if view.on_lossy == "error":
        details = []  # of INVALID_VALUE (schemas.model.errors), as the worker's check has it
        for c, text, is_bad in bad:
            reason = F.lit(f" is no value of Spark's {spark_type(c, view.types)}")
            detail = F.concat(F.lit(f"column {c.name}: "), F.substring(text, 1, 40), reason)
            details.append(F.when(is_bad, detail))
        typed, wrong = typed.withColumn("_wrong", F.coalesce(*details)), F.col("_wrong")
        out |= {
            row_image: F.when(wrong.isNotNull(), F.raise_error(wrong)).otherwise(out[row_image])
            for row_image in _IMAGES
        }
    return typed.select(*(column.alias(name) for name, column in out.items()))


def _row(view: TableView, image: str, typed: list[TableColumn], certain: bool) -> list[Column]:
    casts = {c.name: F.col(f"{_IMAGES[image]}{n}") for n, c in enumerate(typed)}
    columns = [c for c in view.table.columns if not c.virtual]
    return [casts.get(c.name, F.col(image)[c.name]).alias(c.name, metadata=metadata_of(c, certain)) for c in columns]


# ---- text → Spark's types, NULL for what they can't hold
def _timestamp(text: Column, zone: str) -> Column:
    """Java takes the first of two times, and moves one that never was: that is found by going back."""
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
    Kind.DATE: lambda text, _: F.when(text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d\z"), text.try_cast("date")),
    Kind.DATETIME: lambda text, _: F.when(
        text.rlike(r"^(?!0000)\d{4}-\d\d-\d\d " + _CLOCK), text.try_cast("timestamp_ntz")
    ),
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


def _is_risky(text: Column, zone: str) -> Column:
    return F.substring(text, 1, 10).isin(*sorted(transition_dates(zone)))


def folds(text: Column, zone: str) -> Column:
    """Clocks were set back: the offset of the day after gives another time with the same text."""
    clock, day = text.try_cast("timestamp_ntz"), F.expr("INTERVAL '1' DAY")
    later = _utc(clock + day, zone) - day
    return _is_risky(text, zone) & (_in_zone(later, zone) == clock) & (later != _utc(clock, zone))
