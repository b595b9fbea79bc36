"""Delta tables written by delta-spark, in Spark's SQL: columns are renamed, dropped and widened without a new file."""

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.spark_jobs.io.locations import is_catalog_name, without_file_scheme
from ticdc_bridge.spark_jobs.lake.engines import delta_features, delta_files
from ticdc_bridge.spark_jobs.lake.engines.base import Commit, RowFile, TableColumn, Upsert, convert_errors
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import SqlTable, column_sql, property_sql, set_for_now
from ticdc_bridge.spark_jobs.spark.session import is_connect

_MANY, _merged = 20, Counter[str]()
"""After so many batches into a table in this process (by its path) a warning says what they cost."""

_CHECKS_RETENTION = "spark.databricks.delta.retentionDurationCheck.enabled"
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_SETTINGS = "{0}=CLASS; a folder is written with a slash: ./{1}"
_OF_CATALOG = re.compile(r"\[(EXPECT_TABLE_NOT_VIEW|TABLE_OR_VIEW_ALREADY_EXISTS|INVALID_SCHEMA_OR_RELATION_NAME)\b")
_REFUSED = re.compile(r"DELTA_(?:UNSUPPORTED_DROP|VIOLATE|NOT_NULL|CANNOT_MODIFY|CONSTRAINT|GENERATED)\w+")


def _error_of(table: Any, error: Exception) -> SetupError | None:
    """SetupError STOPPED for what the layout of a table, or a rule that somebody gave it, does not allow; USAGE for a
    place that no table can be at.
    """
    if "DELTA_CANNOT_CREATE_LOG_PATH" in str(error):
        details = f"{table.location}: no folder can be made there: a file is above it, or it can't be written"
        return SetupError("USAGE", details=details)
    if match := _OF_CATALOG.search(str(error)):
        details = f"the catalog refuses it ({match[1]}): choose another name, or mend what it has there"
        return SetupError("STOPPED", where=table.location, details=details)
    if (match := _REFUSED.search(str(error))) is None:
        return None
    details = f"Delta refuses it ({match[0]}): change the table's layout or rules, or load it into a new place"
    return SetupError("STOPPED", where=table.location, details=details)


@convert_errors(_error_of)
@dataclass(frozen=True)
class SparkDelta(SqlTable):
    """A spark_jobs.lake.engines.base.LakeTable."""

    path: str

    def __post_init__(self) -> None:
        if is_catalog_name(self.path):
            settings = _SETTINGS.format("{0}", self.path)
            self._check_catalog(self.location, self.path.split(".")[0], settings, is_others=True)

    @property
    def location(self) -> str:
        return f"delta:{self.path}"

    @property
    def log_folder(self) -> str | None:
        """Where the table is, if it can be committed to from here (spark_jobs.lake.direct_merge); None: elsewhere."""
        if "://" in self.path or is_connect(self.spark):
            return None
        if is_catalog_name(self.path):
            folder = self.folder() if self.exists() else ""
            return folder if folder.startswith("/") else None
        hadoop: Any = self.spark.sparkContext._jsc.hadoopConfiguration()
        is_here = str(hadoop.get("fs.defaultFS", "file:")).startswith("file:")
        return delta_files.absolute_path(self.path) if is_here else None

    @property
    def _sql_name(self) -> str:
        return delta_files.sql_name(self.path)

    @property
    def _at(self) -> tuple[SparkSession, str, str]:
        return self.spark, self.path, self._sql_name

    def folder(self) -> str:
        if is_catalog_name(self.path):
            return without_file_scheme(self._details()["location"])
        return delta_files.absolute_path(self.path)

    def exists(self) -> bool:
        return delta_files.exists(self.spark, self.path)

    def column_type(self, kind: str) -> str:
        return kind

    def prepare(self) -> dict[str, str]:
        return dict(self._details(to_change=True)["properties"])

    def read(self) -> DataFrame:
        return delta_files.read(self.spark, self.path)

    def version(self) -> int | None:
        return int(self.spark.sql(f"DESCRIBE HISTORY {self._sql_name} LIMIT 1").collect()[0]["version"])

    def commits(self, most: int | None = None) -> list[Commit]:
        limit = f" LIMIT {most}" if most else ""
        rows = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name}{limit}").select("version", "userMetadata").collect()
        return [Commit(row["version"], delta_files.facts_in(row["userMetadata"])) for row in rows]

    def properties(self) -> dict[str, str]:
        return dict(self._details()["properties"])

    def text_partitions(self) -> Sequence[str]:
        return list(self._details()["partitionColumns"])

    def create(
        self, columns: Sequence[TableColumn], properties: Mapping[str, str], partitioned_by: Sequence[str] = (),
        clustered_by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        delta_files.clear_uncreated(self.spark, self.path)
        delta_files.create_schema(self.spark, self.path)
        needed = delta_features.properties_for(self.spark, self.path, delta_features.names_in(columns))
        pairs = ", ".join(property_sql(*pair) for pair in {**needed, **properties}.items())
        if partitioned_by and clustered_by:
            raise SetupError("USAGE", details=f"{self.location}: a Delta table is partitioned or clustered, not both")
        words = "CLUSTER BY" if clustered_by else "PARTITIONED BY"
        names = ", ".join(map(quote_name, [*partitioned_by, *clustered_by]))
        layout = f" {words} ({names})" if names else ""
        columns_sql = ", ".join(map(column_sql, columns))
        properties_sql = f" TBLPROPERTIES ({pairs})" if pairs else ""
        self.spark.sql(f"CREATE TABLE {self._sql_name} ({columns_sql}) USING delta{layout}{properties_sql}")

    def overwrite(self, frame: DataFrame) -> None:
        writer = frame.write.mode("overwrite").option("overwriteSchema", "true")
        clusters: list[str] = []
        names = delta_features.field_names(frame.schema)
        if self.exists():  # its layout stays
            details = self._details(to_change=True)
            if partitions := [name for name in details["partitionColumns"] if name in frame.columns]:
                writer = writer.partitionBy(*partitions)
            clusters = [name for name in details.get("clusteringColumns") or () if name in frame.columns]
            for name in names:
                delta_features.need_for_name(*self._at, name)
        else:
            delta_files.create_schema(self.spark, self.path)
            writer = writer.options(**delta_features.properties_for(self.spark, self.path, names))
        delta_files.save(writer, self.path)
        if clusters:
            self._alter(f"CLUSTER BY ({', '.join(map(quote_name, clusters))})")

    def add_rows(self, frame: DataFrame) -> None:
        delta_files.save(frame.write.mode("append"), self.path)

    def add_files(self, files: Sequence[RowFile]) -> bool:
        details = self._details()
        is_mapped = details["properties"].get(delta_features.MAPPING.property, "none") != "none"
        is_managed = any(feature.startswith("catalog") for feature in details["tableFeatures"] or ())
        if is_connect(self.spark) or is_mapped or is_managed or details["partitionColumns"]:
            return False
        added = delta_files.copy_into(self.folder(), files)
        if added is not None:
            jvm: Any = self.spark._jvm
            delta, actions = jvm.org.apache.spark.sql.delta, jvm.java.util.ArrayList()
            for entry in added:
                actions.add(delta.actions.Action.fromJson(json.dumps({"add": entry})))
            log = delta.DeltaLog.forTable(self.spark._jsparkSession, details["location"])
            rows = jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
            operation = getattr(getattr(delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
            transaction = log.startTransaction()
            transaction.readWholeTable()  # a merge at the same time, which does not see these rows, has a conflict then
            transaction.commit(rows, operation)
        return added is not None

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        super().merge(frame, upsert)
        _merged[path := delta_files.absolute_path(self.path)] += 1
        if _merged[path] == _MANY and self.properties().get("delta.enableDeletionVectors") != "true":
            print(
                f"warning: {self.location}: each batch writes the files anew that have a row it changes. With deletion"
                " vectors it writes the rows, at a tenth of the cost; not every reader knows them (docs/lake.md):"
                " --reader-features full for new tables, ALTER TABLE … SET TBLPROPERTIES"
                " ('delta.enableDeletionVectors' = 'true') for this one",
                file=sys.stderr,
            )

    def join_files(self, below: int) -> None:
        """Writes data files of fewer bytes as larger ones, and those with many rows that are gone without these."""
        with set_for_now(self.spark, "spark.databricks.delta.optimize.minFileSize", str(below)):
            self.spark.sql(f"OPTIMIZE {self._sql_name}")

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        delta_files.allow_ntz(self.spark, self.path, types, have)

    def add(self, column: TableColumn, value: str | None = None, others: str = "false") -> bool:
        del value, others  # a default of Delta's is none for the rows that are there
        delta_features.need_for_name(*self._at, column.name)
        self._alter(f"ADD COLUMNS ({column_sql(column)})")
        return False

    def rename(self, old: str, new: str) -> None:
        delta_features.need(*self._at, delta_features.MAPPING, f"the new name {new!r} of column {old!r}")
        super().rename(old, new)

    def drop(self, name: str) -> None:
        delta_features.need(*self._at, delta_features.MAPPING, f"column {name!r}, which is dropped,")
        super().drop(name)

    def reorder(self, names: Sequence[str]) -> None:
        """Columns stay where they are."""

    def widen(self, name: str, kind: str) -> bool:
        delta_features.need_for_type(*self._at, name, self.read().schema[name].dataType.simpleString(), kind)
        try:
            self._alter(f"ALTER COLUMN {quote_name(name)} TYPE {kind}")
        except PySparkException:
            return False
        return True

    def purge(self) -> None:
        self.spark.sql(f"REORG TABLE {self._sql_name} APPLY (PURGE)")

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self._sql_name}")

    def expire(self, keep_hours: int) -> None:
        """Numbers of batches are in the log, which VACUUM leaves."""
        tasks = str(self.spark.conf.get("spark.sql.shuffle.partitions"))
        with (
            set_for_now(self.spark, _CHECKS_RETENTION, "false"),  # it refuses less than a week
            set_for_now(self.spark, _LISTING_TASKS, tasks),  # it lists any folder by as many: 10,000 take a minute
        ):
            self.spark.sql(f"VACUUM {self._sql_name} RETAIN {keep_hours} HOURS")

    def _details(self, to_change: bool = False) -> dict[str, Any]:
        details: dict[str, Any] = self.spark.sql(f"DESCRIBE DETAIL {self._sql_name}").collect()[0].asDict()
        if to_change and details["format"] != "delta":
            why = f"the catalog has a table of {details['format']} there: choose another name"
            raise SetupError("STOPPED", where=self.location, details=why)
        return details
