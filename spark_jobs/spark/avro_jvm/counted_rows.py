"""Rows that are left out and counted (avro_jvm/LeftOutRows.java), and refused ones that go through Python's workers
(avro_jvm/RefusedRows.java); all others pass as they are.

Spark's own operators cost each row more: its counts several expressions, its filter a copy, and its operator for a
Python function the way to a worker and back. Its optimizer sees a node that observes metrics, which it neither moves
nor takes apart; a strategy of ours plans our operator for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.arrow.change_schema import SKIPPED, UNWRITTEN
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.session import is_connect

ANSWER = "_told"
_numbers = count(1)


def leave_out(frame: DataFrame, metric: str, kind: Column, fields: Mapping[str, str]) -> DataFrame:
    """The rows whose `kind` is NULL. The others are counted: the observed metric has a field for each kind.

    kind: a deterministic expression, NULL or a key of `fields`.
    """
    of = avro_jvm.class_of(frame.sparkSession, "LeftOutRows", quiet=True)
    if of is None:
        counts = [F.count(F.when(kind == one, 1)).alias(field) for one, field in fields.items()]
        return frame.observe(metric, *counts).where(kind.isNull())
    spark: Any = frame.sparkSession
    kinds = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, len(fields))
    for n, one in enumerate(fields):
        kinds[n] = one
    plan, told = (one._jdf.queryExecution().analyzed() for one in (frame, frame.select(kind)))
    return _observe(frame, metric, [*fields.values()], _instance(spark, of, told.expressions(), plan.output(), kinds))


def without_skipped(events: DataFrame, kind: Column, name: str = "") -> DataFrame:
    """Without the rows that stand for a message without an event. kind: of an event or of these.

    They are counted: metric `ticdc_bridge_tombstones`, with `name` or a number of its own, has `rows` (tombstones) and
    `empty` (messages that hold nothing).
    """
    fields = dict(zip(SKIPPED, ("rows", "empty"), strict=True))
    skipped = F.when(kind.isin(*SKIPPED), kind)
    return leave_out(events, f"ticdc_bridge_tombstones{name or f'.{next(_numbers)}'}", skipped, fields)


def without_unwritten(messages: DataFrame) -> DataFrame:
    """Without the rows that stand for what is not written in the other format: their `error` has no code.

    They are counted by kind (UNWRITTEN), its detail: metric `ticdc_bridge_skipped`, with a number of its own.
    """
    kind = F.when(F.col("error.code").isNull(), F.col("error.detail"))
    return leave_out(messages, f"ticdc_bridge_skipped.{next(_numbers)}", kind, {one: one for one in UNWRITTEN})


def ask_python(events: DataFrame, answer: Column, metric: str, columns: Iterable[Column]) -> DataFrame:
    """Change events, of which the refused ones have no `kind`, their first column → with what Python says of these.

    answer: the Python function of a refused row, which the row has as ANSWER then; it gives NULL for others. columns:
    those of the events, made of them and ANSWER. Events of the kind "other" are left out and counted, by the observed
    metric, as `rows`.
    """
    spark: Any = events.sparkSession
    sql, seq = spark._jvm.org.apache.spark.sql, spark._jvm.PythonUtils.toSeq
    with_answer = events.select("*", answer.alias(ANSWER))
    plan, asked, made = (
        frame._jdf.queryExecution().analyzed() for frame in (events, with_answer, with_answer.select(*columns))
    )
    function = asked.expressions().last().child()
    sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # whose settings an operator takes
    scan = sql.execution.LocalTableScanExec(plan.output(), seq([]), spark._jvm.scala.Option.empty())
    python = sql.execution.python.ArrowEvalPythonExec(
        seq([function]), seq([asked.output().last()]), scan, function.evalType()
    )
    of = avro_jvm.class_of(spark, "RefusedRows")
    rows = _instance(spark, of, python.evaluatorFactory(), asked.output(), made.expressions())
    return _observe(events, metric, ["rows"], rows)


def observed_metrics(frame: DataFrame) -> dict[str, dict[str, int]]:
    """The observed metrics, by name and field, of a frame that was collected."""
    if is_connect(frame.sparkSession):
        told = frame.executionInfo
        return {name: dict(pairs) for name, pairs in (told.flows if told else ())}
    metrics: Any = frame._jdf.queryExecution().observedMetrics()
    names = metrics.keys().mkString("\0").split("\0") if metrics.size() else []
    rows = ((name, metrics.apply(name)) for name in names)
    return {name: {field: row.getAs(field) for field in row.schema().fieldNames()} for name, row in rows}


def _instance(spark: Any, of: Any, *arguments: Any) -> Any:
    """A new object of a class of CountedRows, in a session whose planner knows it."""
    avro_jvm.plan_operators(spark, "OwnOperators")
    return avro_jvm.instance(spark, of, *arguments)


def _observe(frame: DataFrame, metric: str, fields: Iterable[str], rows: Any) -> DataFrame:
    """The frame's rows as they go through `rows`, an object of CountedRows. fields: of the metric."""
    spark: Any = frame.sparkSession
    sql, seq = spark._jvm.org.apache.spark.sql, spark._jvm.PythonUtils.toSeq
    # All columns are named, so that none is pruned below the operator, which knows them by their places.
    whole = spark._jsparkSession.expression(F.struct(*frame.columns)._jc)
    mark = avro_jvm.invoke(spark, rows, "mark", sql.types.DataType.fromDDL("int"), whole, nullable=True)
    calls = F.count(Column(sql.classic.ExpressionUtils.column(mark)))
    metrics = [spark._jsparkSession.expression(calls.alias(field)._jc) for field in fields]
    plan = frame._jdf.queryExecution().analyzed()
    node = sql.catalyst.plans.logical.CollectMetrics(metric, seq(metrics), plan, frame._jdf.id())
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, node), spark)
