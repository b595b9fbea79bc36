"""Values in plain form as columns of a table of the lake, in SQL: typed, converted as TiDB did, filled in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, spark_type
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BYTES, NUMBERS, Kind
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, column_now, is_added_by, unsure_text
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.partition_sql import Spread, UnknownRows, rows_of
from ticdc_bridge.spark_jobs.pipeline.conversions import converter, text_converter
from ticdc_bridge.spark_jobs.pipeline.table_view import READ as PYTHON
from ticdc_bridge.spark_jobs.pipeline.table_view import original_default
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
        """SQL: what TiDB made of a value of a column that got another type, in plain form; NULL: not known."""
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
        value = original_default(column)[1]
        if column.type.kind is Kind.TIMESTAMP and isinstance(value, str):
            value = values.shift_zone(value, "UTC", self.zone)[0]
        return value

    def fill_sql(self, step: SchemaChange | None, column: Column) -> str | None:
        """The value in rows from before a statement of a column that it added; None: nothing, or not known."""
        if step is None or not is_added_by(step, column.name) or (value := self.fill_value(column)) is None:
            return None
        return self.constant(column, value)

    def removed_rows(
        self, step: SchemaChange, steps: Sequence[SchemaChange], table: Table, sql_of: Callable[[str], str] = quote_name
    ) -> str:
        """SQL: whether a statement took a row away, in a table with the columns to which all steps lead; NULL where
        nobody can tell. sql_of: a column's value. SetupError STOPPED where it is known of no row.
        """
        assert step.removed is not None
        assert step.before is not None
        then = {c.name.lower(): c for c in step.before.columns}

        def spread(name: str) -> Spread:
            column = table.by_name.get(column_now(steps, step.commit_ts, name) or "")
            if column is None or column.type.kind is not then[name.lower()].type.kind:
                raise UnknownRows(f"column {name}, by which rows were spread, is not there as it was")
            value, kind = sql_of(column.name), self.type_of(column)
            if kind == "timestamp":
                return Spread(f"unix_seconds({value})", column, None)
            is_number = column.type.kind in NUMBERS
            return Spread(value if is_number else plain_sql(value, kind, column), column, self.zone)

        try:
            return rows_of(step.removed, spread)
        except ValueError as error:
            details = unsure_text(step.word, step.commit_ts, str(error), self.id)
            raise SetupError("STOPPED", where=str(self.id), details=details) from error

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


def plain_sql(name: str, kind: str, column: Column) -> str:
    """SQL: a value of a Spark type in plain form."""
    if kind == "string":
        return name
    if kind == "binary":
        return f"""'{{"hex":"' || lower(hex({name})) || '"}}'"""
    text = f"CAST({name} AS string)"
    if kind.startswith("timestamp"):  # without zeros at the end of the fraction
        # Not by date_format: that moves a DATETIME that the clocks of the session's zone skip.
        width = 20 + column.scale if column.scale else 19
        return f"rpad(rpad({text}, greatest(20, length({text})), '.'), {width}, '0')"
    return text
