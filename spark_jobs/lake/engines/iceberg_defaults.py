"""An Iceberg column that is a constant in the rows that were there before it, without a new file: `initial-default`.

Tables of format version 3 have it (Iceberg's spec, "Default values"). Iceberg 1.12 refuses it in Spark's SQL, so its
Java API sets it. Only where Spark, pyiceberg 0.12 and DuckDB 1.5 all show the value and find it by a filter: pyiceberg
finds no date, timestamp or rounded float, DuckDB cuts text at a NUL, and Iceberg does not read files of ORC then.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn
from ticdc_bridge.spark_jobs.spark.session import is_connect

_VERSION: Final = 3
_TYPES: Final = frozenset(("int", "bigint", "double", "decimal", "string", "binary"))
"""Spark's types, without lengths, of such columns."""


def constant_of(
    spark: SparkSession, properties: Mapping[str, str], data_files: DataFrame, kind: str, value: str
) -> Any:
    """`value` (SQL) as Python has it, if it can be the `initial-default` of a column of type `kind`; else None."""
    if int(properties.get("format-version", 1)) < _VERSION or kind.split("(")[0] not in _TYPES or is_connect(spark):
        return None
    constant = spark.sql(f"SELECT {value}").collect()[0][0]
    is_cut = isinstance(constant, str) and "\0" in constant
    return constant if not is_cut and data_files.where("file_format <> 'PARQUET'").isEmpty() else None


def add(spark: SparkSession, name: str, column: TableColumn, constant: Any) -> bool:
    """Adds the column in one commit, without a `write-default`; whether the catalog has kept its `initial-default`."""
    jvm: Any = spark._jvm
    iceberg = jvm.org.apache.iceberg
    kind = iceberg.spark.SparkSchemaUtil.convert(jvm.org.apache.spark.sql.types.DataType.fromDDL(column.type))
    in_java = jvm.java.math.BigDecimal(str(constant)) if isinstance(constant, Decimal) else constant
    literal = iceberg.expressions.Expressions.lit(in_java)
    change = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name).updateSchema()
    change.addColumn(column.name, kind, column.comment or None, literal)
    change.updateColumnDefault(column.name, None).commit()
    made = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name).schema().findField(column.name)
    return made is not None and made.initialDefault() is not None


def read_properties(spark: SparkSession, name: str) -> dict[str, str]:
    """What a table itself has, of which Spark's SQL hides some."""
    jvm: Any = spark._jvm
    return dict(jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name).properties())
