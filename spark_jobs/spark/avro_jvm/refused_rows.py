"""Rows that the reader refuses go through Python's workers, the others never (avro_jvm/RefusedRows.java).

Spark's own operator for a Python function sends every row to a worker and back. Here an operator of ours passes rows on
as they are and asks Spark's evaluator of Python functions about the refused ones alone. Spark's optimizer sees in it a
node that observes a metric, which it neither moves nor takes apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spark_jobs.spark import avro_jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ANSWER = "_told"


def ask_python(events: DataFrame, answer: Column, metric: str, columns: Iterable[Column]) -> DataFrame:
    """Change events, of which the refused ones have no `kind`, their first column → with what Python says of these.

    answer: the Python function of a refused row, which the row has as ANSWER then; it gives NULL for others. columns:
    those of the events, made of them and ANSWER. Events of the kind "other" are left out and counted, by the observed
    metric, as `rows`.
    """
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F

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
    rows = avro_jvm.instance(
        spark, avro_jvm.class_of(spark, "RefusedRows"), python.evaluatorFactory(), asked.output(), made.expressions()
    )
    avro_jvm.instance(spark, avro_jvm.class_of(spark, "RefusedRowsStrategy"), spark._jsparkSession.experimental())
    # All columns are named, so that none is pruned below the operator, which knows them by their places.
    whole = spark._jsparkSession.expression(F.struct(*events.columns)._jc)
    mark = avro_jvm.invoke(spark, rows, "mark", sql.types.DataType.fromDDL("int"), whole, nullable=True)
    count = F.count(Column(sql.classic.ExpressionUtils.column(mark))).alias("rows")
    node = sql.catalyst.plans.logical.CollectMetrics(
        metric, seq([spark._jsparkSession.expression(count._jc)]), plan, events._jdf.id()
    )
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, node), spark)
