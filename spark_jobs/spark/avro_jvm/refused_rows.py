"""Rows that the reader refuses go through Python's workers, the others never (avro_jvm/RefusedRows.java).

Spark's own operator for a Python function sends every row to a worker and back. So rows become objects of one
partition's iterator here, which asks Spark's evaluator of Python functions for the refused ones alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from spark_jobs.spark import avro_jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ANSWER = "_told"


def ask_python(
    read: DataFrame, answer: Column, metric: str, left_out: Column,
    columns: Callable[[Column], Iterable[Column]],
) -> DataFrame:  # fmt: skip
    """Rows with the reader's struct as their second column → `columns` of the rows.

    answer: the Python function of a refused row, which the row has as ANSWER then; it gives NULL for others. left_out:
    which of the columns' rows are left out and counted, by the observed metric. columns: of the whole row as a struct.
    """
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F

    spark: Any = read.sparkSession
    sql, seq = spark._jvm.org.apache.spark.sql, spark._jvm.PythonUtils.toSeq
    types, plans = sql.types, sql.catalyst.plans.logical
    asked = read.select("*", answer.alias(ANSWER))
    plan, whole = (frame._jdf.queryExecution().analyzed() for frame in (read, asked))
    function = whole.expressions().last().child()
    sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # whose settings an operator takes
    scan = sql.execution.LocalTableScanExec(plan.output(), seq([]), spark._jvm.scala.Option.empty())
    python = sql.execution.python.ArrowEvalPythonExec(
        seq([function]), seq([whole.output().last()]), scan, function.evalType()
    )
    of = avro_jvm.class_of(spark, "RefusedRows")
    iterator = avro_jvm.instance(spark, of, python.evaluatorFactory(), read._jdf.schema())
    row_class = types.ObjectType(spark._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow"))

    def struct(argument: Any) -> Column:
        row = avro_jvm.invoke(spark, iterator, "row", asked._jdf.schema(), argument)
        return Column(sql.classic.ExpressionUtils.column(row))

    def expression(column: Column) -> Any:
        return spark._jsparkSession.expression(column._jc)

    fields = (types.StructField(name, row_class, True, types.Metadata.empty()) for name in ("_row", "_answered"))
    given, answered = map(sql.catalyst.types.DataTypeUtils.toAttribute, fields)
    none = F.lit(None).cast(asked.schema[ANSWER].dataType).alias(ANSWER)
    row = avro_jvm.invoke(spark, iterator, "row", row_class, expression(F.struct(*read.columns, none)))
    plan = plans.MapPartitions(iterator, answered, plans.DeserializeToObject(row, given, plan))
    rows = struct(sql.catalyst.expressions.BoundReference(0, row_class, True))
    plan = plans.SerializeFromObject(seq([expression(column) for column in columns(rows)]), plan)
    # The count stands above: right on top of this operator Spark prunes fields of structs, and where these are no
    # CreateNamedStruct it reads those that are left at the wrong places (ObjectSerializerPruning).
    count = F.count(F.when(left_out, 1)).alias("rows")
    plan = plans.CollectMetrics(metric, seq([expression(count)]), plan, read._jdf.id())
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark).where(~left_out)
