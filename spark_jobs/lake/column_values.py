"""Values in plain form as columns of a table of the lake, in SQL: typed, converted as TiDB did, filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, spark_type
from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import BYTES, NUMBERS, Kind
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, is_added_by, with_defaults
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.pipeline.conversions import converter, text_converter
from ticdc_bridge.spark_jobs.pipeline.table_view import READ as PYTHON
from ticdc_bridge.spark_jobs.spark.sql_expressions import CAST_SQL, sql_literal
from ticdc_bridge.spark_jobs.spark.temporal_sql import READ


@dataclass(frozen=True)
class ColumnValues:
    """id: the table's, as the job names it. zone: of TIMESTAMP text."""

    spark: SparkSession
    lake_table: LakeTable
    id: TableId
    types: SparkTypes = EXACT
    zone: str = "UTC"

    def type_of(self, column: Column) -> str:
        """The Spark type of a column in the table."""
        return self.lake_table.column_type(spark_type(column, self.types))

    def conversion_sql(self, value: str, old: Column, new: Column) -> str:
        """SQL: what TiDB made of a value of a column that got another type, in plain form; NULL: nobody can tell."""
        name = f"bridge_{crc32(repr((old, new)).encode()):08x}"
        self.spark.udf.register(name, text_converter(old, new), "string")
        return f"{name}({value})"

    def convert(self, text: str, column: Column) -> Any:
        """A text in plain form as the column's type; NULL for what a temporal type or a number's can't hold."""
        if column.type.kind in self.types.kinds:
            return READ[column.type.kind](F.expr(text), self.zone)
        if column.type.kind in NUMBERS:
            return F.expr(f"try_cast(({text}) AS {self.type_of(column)})")
        convert = CAST_SQL.get(column.type.kind)
        return F.expr(convert(f"({text})", column) if convert else text)

    def from_exact(self, value: Any, column: Column) -> Any:
        """A value of the column's exact type as the table has it."""
        return READ[column.type.kind](value, self.zone) if column.type.kind in self.types.kinds else value

    def is_converted(self, old: Column, new: Column) -> bool:
        """True if a column of the table has other values after a change of type."""
        if converter(old, new) is None:
            return False
        typed = old.type.kind is new.type.kind and new.type.kind in self.types.kinds
        return not (typed and (new.scale or 0) >= (old.scale or 0))  # Spark's types have all digits

    def fill_value(self, column: Column) -> Any:
        """The value in rows from before the column came; TIMESTAMP text in their zone. None: NULL, or unknown."""
        value = with_defaults(column)[1]
        if column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
            value = values.shift_zone(value, "UTC", self.zone)[0]
        return value

    def fill_sql(self, step: SchemaChange | None, column: Column) -> str | None:
        """The value in rows from before a statement of a column that it added; None: nothing, or nobody knows."""
        if step is None or not is_added_by(step, column.name) or (value := self.fill_value(column)) is None:
            return None
        return self.constant(column, value)

    def constant(self, column: Column, value: Any) -> str:
        """A value in plain form as SQL of the column's Spark type; NULL for a zero date that it can't hold."""
        if column.type.kind in self.types.kinds:
            try:
                moment = PYTHON[column.type.kind](str(value), self.zone)
            except (ValueError, ArithmeticError):
                return f"CAST(NULL AS {self.type_of(column)})"
            text = f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC" if column.type.kind is Kind.TIMESTAMP else str(value)
            return f"CAST({sql_literal(text)} AS {self.type_of(column)})"
        if column.type.kind in BYTES:
            data = value if isinstance(value, bytes) else str(value).encode()
            return f"X'{data.hex()}'"
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return f"CAST({sql_literal(text)} AS {spark_type(column)})"
