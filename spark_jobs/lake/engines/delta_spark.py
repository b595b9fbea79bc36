"""Delta tables written by delta-spark, in Spark's SQL: columns are renamed, dropped and widened without a new file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.spark_jobs.lake.engines import delta_features, delta_files
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import column_sql, merge_sql, property_sql, update_sql, view_of
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SparkDelta:
    """A spark_jobs.lake.engines.base.LakeTable."""

    spark: SparkSession
    path: str

    @property
    def location(self) -> str:
        return f"delta:{self.path}"

    @property
    def _name(self) -> str:
        return delta_files.sql_name(self.path)

    @property
    def _at(self) -> tuple[SparkSession, str, str]:
        return self.spark, self.path, self._name

    def exists(self) -> bool:
        return delta_files.exists(self.spark, self.path)

    def column_type(self, kind: str) -> str:
        return kind

    def prepare(self) -> dict[str, str]:
        return self.properties()

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(delta_files.absolute_path(self.path))

    def properties(self) -> dict[str, str]:
        row = self.spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0]
        return dict(row["properties"])

    def set_property(self, name: str, value: str) -> None:
        self._alter(f"SET TBLPROPERTIES ({property_sql(name, value)})")

    def create(
        self, columns: Sequence[TableColumn], properties: Mapping[str, str], partitioned_by: Sequence[str] = (),
        clustered_by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        delta_files.clear_uncreated(self.spark, self.path)
        needed = delta_features.properties_for(self.spark, self.path, delta_features.names_in(columns))
        pairs = ", ".join(property_sql(*pair) for pair in {**needed, **properties}.items())
        if partitioned_by and clustered_by:
            details = f"{self.location}: a Delta table is partitioned or clustered, not both"
            raise SetupError("USAGE", details=details)
        words = "CLUSTER BY" if clustered_by else "PARTITIONED BY"
        names = ", ".join(map(quote_name, [*partitioned_by, *clustered_by]))
        layout = f" {words} ({names})" if names else ""
        columns_sql = ", ".join(map(column_sql, columns))
        self.spark.sql(f"CREATE TABLE {self._name} ({columns_sql}) USING delta{layout} TBLPROPERTIES ({pairs})")

    def overwrite(self, frame: DataFrame) -> None:
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        clusters: list[str] = []
        names = delta_features.field_names(frame.schema)
        if self.exists():  # its layout stays
            row = self.spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0].asDict()
            if partitions := [name for name in row["partitionColumns"] if name in frame.columns]:
                writer = writer.partitionBy(*partitions)
            clusters = [name for name in row.get("clusteringColumns") or () if name in frame.columns]
            for name in names:
                delta_features.need_for_name(*self._at, name)
        else:
            for name, value in delta_features.properties_for(self.spark, self.path, names).items():
                writer = writer.option(name, value)
        writer.save(delta_files.absolute_path(self.path))
        if clusters:
            self._alter(f"CLUSTER BY ({', '.join(map(quote_name, clusters))})")

    def add_rows(self, frame: DataFrame) -> None:
        frame.write.format("delta").mode("append").save(delta_files.absolute_path(self.path))

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        delta_files.allow_ntz(self.spark, self.path, types, have)

    def add(self, column: TableColumn, value: str | None = None, others: str = "false") -> bool:
        del value, others  # a default of Delta's is none for the rows that are there
        delta_features.need_for_name(*self._at, column.name)
        self._alter(f"ADD COLUMNS ({column_sql(column)})")
        return False

    def rename(self, old: str, new: str) -> None:
        delta_features.need(*self._at, delta_features.MAPPING, f"the new name {new!r} of column {old!r}")
        self._alter(f"RENAME COLUMN {quote_name(old)} TO {quote_name(new)}")

    def drop(self, name: str) -> None:
        delta_features.need(*self._at, delta_features.MAPPING, f"column {name!r}, which is dropped,")
        self._alter(f"DROP COLUMN {quote_name(name)}")

    def comment(self, name: str, text: str) -> None:
        self._alter(f"ALTER COLUMN {quote_name(name)} COMMENT {sql_literal(text)}")

    def reorder(self, names: Sequence[str]) -> None:
        """Columns stay where they are."""

    def widen(self, name: str, kind: str) -> bool:
        from pyspark.errors import PySparkException

        delta_features.need_for_type(*self._at, name, self.read().schema[name].dataType.simpleString(), kind)
        try:
            self._alter(f"ALTER COLUMN {quote_name(name)} TYPE {kind}")
        except PySparkException:
            return False
        return True

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._name} WHERE {where}")

    def update(self, values: Mapping[str, str], where: str) -> None:
        self.spark.sql(update_sql(self._name, values, where))

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        with view_of(frame) as source:
            self.spark.sql(merge_sql(self._name, source, upsert))

    def _alter(self, change: str) -> None:
        self.spark.sql(f"ALTER TABLE {self._name} {change}")
