"""Rows that are left out of a frame, and counted by an observed metric."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.arrow.change_schema import SKIPPED, UNWRITTEN
from ticdc_bridge.spark_jobs.spark.session import is_connect

_numbers = count(1)


def leave_out(frame: DataFrame, metric: str, kind: Column, fields: Mapping[str, str]) -> DataFrame:
    """The rows whose `kind` is NULL. The others are counted by kind, a key of `fields`, in the observed metric."""
    counts = [F.count(F.when(kind == name, 1)).alias(field) for name, field in fields.items()]
    return frame.observe(metric, *counts).where(kind.isNull())


def without_skipped(events: DataFrame, kind: Column, name: str = "") -> DataFrame:
    """Without the rows that stand for a message without an event. kind: of an event or of these.

    They are counted: metric `ticdc_bridge_tombstones`, with `name` or a number of its own, has `rows` (tombstones) and
    `empty` (messages that hold nothing).
    """
    fields = dict(zip(SKIPPED, ("rows", "empty"), strict=True))
    skipped = F.when(kind.isin(*SKIPPED), kind)
    return leave_out(events, f"ticdc_bridge_tombstones{name or f'.{next(_numbers)}'}", skipped, fields)


def without_unwritten(messages: DataFrame) -> DataFrame:
    """Without rows for what is not written: counted by kind (their detail) in the metric ticdc_bridge_skipped."""
    kind = F.when(F.col("error.code").isNull(), F.col("error.detail"))
    return leave_out(messages, f"ticdc_bridge_skipped.{next(_numbers)}", kind, {name: name for name in UNWRITTEN})


def observed_metrics(frame: DataFrame) -> dict[str, dict[str, int]]:
    """The observed metrics, by name and field, of a frame that was collected."""
    if is_connect(frame.sparkSession):
        execution = frame.executionInfo
        return {name: dict(pairs) for name, pairs in (execution.flows if execution else ())}
    metrics: Any = frame._jdf.queryExecution().observedMetrics()
    names = metrics.keys().mkString("\0").split("\0") if metrics.size() else []
    rows = ((name, metrics.apply(name)) for name in names)
    return {name: {field: row.getAs(field) for field in row.schema().fieldNames()} for name, row in rows}
