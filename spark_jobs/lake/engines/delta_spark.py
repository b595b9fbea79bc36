"""Delta tables written by delta-spark, in Spark's SQL: columns are renamed, dropped and widened without a new file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.model.names import quote_name
from spark_jobs.lake.engines import delta_files
from spark_jobs.lake.engines.base import TableColumn, Upsert
from spark_jobs.spark.sql_expressions import sql_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = "bridge_merge_source"
_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class SparkDelta:
    """A spark_jobs.lake.engines.base.LakeTable."""

    spark: SparkSession
    path: str

    @property
    def _name(self) -> str:
        return delta_files.sql_name(self.path)

    def exists(self) -> bool:
        return delta_files.exists(self.spark, self.path)

    def prepare(self) -> dict[str, str]:
        return self.properties()

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(delta_files.absolute_path(self.path))

    def properties(self) -> dict[str, str]:
        row = self.spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0]
        return dict(row["properties"])

    def set_property(self, name: str, value: str) -> None:
        self._alter(f"SET TBLPROPERTIES ({_property(name, value)})")

    def create(self, columns: Sequence[TableColumn], properties: Mapping[str, str]) -> None:
        delta_files.clear_uncreated(self.spark, self.path)
        pairs = ", ".join(_property(*one) for one in {**delta_files.PROPERTIES, **properties}.items())
        self.spark.sql(
            f"CREATE TABLE {self._name} ({', '.join(map(_column_sql, columns))}) USING delta TBLPROPERTIES ({pairs})"
        )

    def overwrite(self, frame: DataFrame) -> None:
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(delta_files.absolute_path(self.path))

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        delta_files.allow_ntz(self.spark, self.path, types, have)

    def add(self, column: TableColumn) -> None:
        self._alter(f"ADD COLUMNS ({_column_sql(column)})")

    def rename(self, old: str, new: str) -> None:
        self._map_columns()
        self._alter(f"RENAME COLUMN {quote_name(old)} TO {quote_name(new)}")

    def drop(self, name: str) -> None:
        self._map_columns()
        self._alter(f"DROP COLUMN {quote_name(name)}")

    def comment(self, name: str, text: str) -> None:
        self._alter(f"ALTER COLUMN {quote_name(name)} COMMENT {sql_literal(text)}")

    def widen(self, name: str, kind: str) -> bool:
        from pyspark.errors import PySparkException

        try:
            self._alter(f"ALTER COLUMN {quote_name(name)} TYPE {kind}")
        except PySparkException:
            return False
        return True

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._name} WHERE {where}")

    def update(self, name: str, value: str, where: str) -> None:
        self.spark.sql(f"UPDATE {self._name} SET {quote_name(name)} = {value} WHERE {where}")

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        frame.createOrReplaceTempView(_SOURCE)
        on = " AND ".join(f"t.{quote_name(ours)} <=> s.{quote_name(theirs)}" for ours, theirs in upsert.keys)
        pairs = [(quote_name(ours), f"s.{quote_name(theirs)}") for ours, theirs in upsert.values]
        self.spark.sql(
            f"MERGE INTO {self._name} t USING {_SOURCE} s ON {on}"
            + (f" WHEN MATCHED AND ({upsert.delete}) THEN DELETE" if upsert.delete else "")
            + f" WHEN MATCHED AND ({upsert.update}) THEN UPDATE SET {', '.join(f't.{a} = {b}' for a, b in pairs)}"
            f" WHEN NOT MATCHED AND ({upsert.insert}) THEN INSERT ({', '.join(a for a, _ in pairs)})"
            f" VALUES ({', '.join(b for _, b in pairs)})"
        )
        self.spark.catalog.dropTempView(_SOURCE)

    def _map_columns(self) -> None:
        """What a table needs whose columns get other names, or go: one that deltalake made lacks it."""
        if self.properties().get(_MAPPING, "none") == "none":
            self.set_property(_MAPPING, delta_files.PROPERTIES[_MAPPING])

    def _alter(self, change: str) -> None:
        self.spark.sql(f"ALTER TABLE {self._name} {change}")


def _column_sql(column: TableColumn) -> str:
    comment = f" COMMENT {sql_literal(column.comment)}" if column.comment else ""
    return f"{quote_name(column.name)} {column.type}{comment}"


def _property(name: str, value: str) -> str:
    return f"'{name}' = {sql_literal(value)}"
