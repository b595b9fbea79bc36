"""What the plans of all formats share: names of metrics, and which types hold which."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from spark_jobs.arrow.change_schema import SKIPPED, UNWRITTEN
from spark_jobs.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_numbers = count(1)


def without_skipped(events: DataFrame, kind: Column, name: str = "") -> DataFrame:
    """Without the rows that stand for a message without an event, which are counted (`count_skipped`)."""
    frame, skipped = count_skipped(events, kind, name)
    return frame.where(~skipped)


def count_skipped(events: DataFrame, kind: Column, name: str = "") -> tuple[DataFrame, Column]:
    """(the events, which of their rows stand for a message without an event).

    These are counted: metric `ticdc_bridge_tombstones`, with `name` or a number of its own, has `rows` (tombstones) and
    `empty` (messages that hold nothing).
    """
    from pyspark.sql import functions as F

    counts = [F.count(F.when(kind == one, 1)).alias(of) for one, of in zip(SKIPPED, ("rows", "empty"), strict=True)]
    frame = events.observe(f"ticdc_bridge_tombstones{name or f'.{next(_numbers)}'}", *counts)
    return frame, F.coalesce(kind.isin(*SKIPPED), F.lit(False))


def observed_metrics(frame: DataFrame) -> dict[str, dict[str, int]]:
    """The observed metrics, by name and field, of a frame that was collected."""
    if is_connect(frame.sparkSession):
        told = frame.executionInfo
        return {name: dict(pairs) for name, pairs in (told.flows if told else ())}
    metrics: Any = frame._jdf.queryExecution().observedMetrics()
    names = metrics.keys().mkString("\0").split("\0") if metrics.size() else []
    rows = ((name, metrics.apply(name)) for name in names)
    return {name: {field: row.getAs(field) for field in row.schema().fieldNames()} for name, row in rows}


def without_unwritten(messages: DataFrame) -> DataFrame:
    """Without the rows that stand for what is not written in the other format, and without the column `skipped`.

    They are counted by kind (UNWRITTEN): metric `ticdc_bridge_skipped`, with a number of its own.
    """
    from pyspark.sql import functions as F

    skipped = F.col("skipped")
    counts = [F.count(F.when(skipped == kind, 1)).alias(kind) for kind in UNWRITTEN]
    frame = messages.observe(f"ticdc_bridge_skipped.{next(_numbers)}", *counts)
    return frame.where(skipped.isNull()).drop("skipped")
