"""Iceberg tables written by Iceberg's runtime for Spark, in Spark's SQL: columns are known by field id.

The table's properties decide between copy-on-write and merge-on-read (`write.merge.mode` …), and its layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import widens
from ticdc_bridge.spark_jobs.io.locations import split_table_name, without_file_scheme
from ticdc_bridge.spark_jobs.lake.engines import iceberg_defaults
from ticdc_bridge.spark_jobs.lake.engines.base import Commit, RowFile, TableColumn, convert_errors
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import SqlTable, column_sql, property_sql, view_of
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

APPLICATION, BATCH = "bridge.application", "bridge.batch"
"""Keys of a snapshot's summary: the stream that committed it, and the number of its batch."""
ACCEPTS_ROWS = ("write.spark.accept-any-schema", "true")
"""Table property, and its value, by which Spark leaves it to Iceberg how rows fit a table's columns."""
_CATALOG = "spark.sql.catalog."
_SETTINGS = (
    "{0}=org.apache.iceberg.spark.SparkCatalog, and {0}.type=hadoop with {0}.warehouse=PATH, {0}.type=rest or jdbc with"
    " {0}.uri=URI, {0}.type=hive or glue"
)
_STORED: Mapping[str, str] = {"tinyint": "int", "smallint": "int"}
"""Spark's types that Iceberg keeps as another."""
_HIDDEN = "*********(redacted)"
"""What Spark shows of a property with a word such as token or url, which a table or a column may be called."""
_PARTITIONS = re.compile(r"^PARTITIONED BY \((.*)\)$", re.MULTILINE)
_ICEBERG = re.compile(r"org\.apache\.iceberg\.\w+\.\w+: ([^\n]+)|Unsupported table change: ([^\n]+)")
_NO_CLASS = re.compile(r"Cannot find catalog plugin class|ClassNotFoundException: org\.apache\.iceberg")


def _error_of(table: SparkIceberg, error: Exception) -> SetupError | None:
    """The error of Iceberg, or of the catalog, as a SetupError; None for an error of the query's own."""
    text = str(error)
    if _NO_CLASS.search(text):
        details = (
            f"{table.location}: this Spark session has no jars of Iceberg's: start it with spark.jars.packages="
            "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 (4.0: …-4.0_2.13:1.11.0)"
        )
        return SetupError("JAR_MISSING", details=details)
    match = _ICEBERG.search(text)
    if match is None:
        return None
    return SetupError("STOPPED", where=table.location, details=f"Iceberg: {(match[1] or match[2]).strip()[:500]}")


@convert_errors(_error_of)
@dataclass(frozen=True)
class SparkIceberg(SqlTable):
    """A LakeTable by CATALOG.DB.TABLE. SetupError USAGE for fewer parts, or a catalog the session does not know."""

    name: str

    def __post_init__(self) -> None:
        catalog = split_table_name(self.name)[0]
        self._check_catalog(self.location, catalog, _SETTINGS)
        # A catalog that keeps tables would show them as they were before another writer's commit.
        cache = f"{_CATALOG}{catalog}.cache-enabled"
        if self.spark.conf.get(cache, None) is None:
            self.spark.conf.set(cache, "false")

    @property
    def location(self) -> str:
        return f"iceberg:{self.name}"

    @property
    def _sql_name(self) -> str:
        return ".".join(map(quote_name, split_table_name(self.name)))

    # ---- what is there
    def folder(self) -> str:
        return without_file_scheme(self.properties()["location"])

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self._sql_name)

    def prepare(self) -> dict[str, str]:
        self.spark.catalog.refreshTable(self._sql_name)
        properties = self.properties()
        if not properties.get("format", "").startswith("iceberg"):
            details = "the catalog has another kind of table there: choose another name"
            raise SetupError("STOPPED", where=self.location, details=details)
        return properties

    def read(self) -> DataFrame:
        return self.spark.table(self._sql_name)

    def properties(self) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self._sql_name}").collect()
        found: dict[str, str] = {row["key"]: row["value"] for row in rows}
        if _HIDDEN in found.values() and not is_connect(self.spark):
            found |= iceberg_defaults.read_properties(self.spark, self._sql_name)
        return found

    def text_partitions(self) -> Sequence[str]:
        return ()

    def version(self) -> int | None:
        snapshot = self.properties().get("current-snapshot-id", "none")
        return None if snapshot == "none" else int(snapshot)

    def commits(self, most: int | None = None) -> list[Commit]:
        """The snapshots that the table is made of."""
        rows = self.spark.sql(f"SELECT snapshot_id, parent_id, summary FROM {self._sql_name}.snapshots").collect()
        by_id = {row["snapshot_id"]: row for row in rows}
        now, chain = self.version(), list[Commit]()
        at = None if now is None else by_id.get(now)
        while at is not None and len(chain) != most:
            chain.append(Commit(at["snapshot_id"], dict(at["summary"])))
            at = by_id.get(at["parent_id"])
        return chain

    def column_type(self, kind: str) -> str:
        if kind.startswith("interval"):
            details = (
                f"{self.location}: Iceberg has no type for intervals: leave out {Hint.TIME} interval (TIME is text)"
            )
            raise SetupError("USAGE", details=details)
        return _STORED.get(kind, kind)

    # ---- changes of the table
    def create(
        self, columns: Sequence[TableColumn], properties: Mapping[str, str], partitioned_by: Sequence[str] = (),
        clustered_by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._create_namespace()
        pairs = ", ".join(property_sql(*pair) for pair in properties.items())
        columns_sql = ", ".join(map(column_sql, columns))
        properties_sql = f" TBLPROPERTIES ({pairs})" if pairs else ""
        layout = f" PARTITIONED BY ({', '.join(map(quote_name, partitioned_by))})" if partitioned_by else ""
        self.spark.sql(f"CREATE TABLE {self._sql_name} ({columns_sql}) USING iceberg{layout}{properties_sql}")
        if clustered_by:
            self._alter(f"WRITE ORDERED BY {', '.join(map(quote_name, clustered_by))}")

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        """Every type that `column_type` gives can be added to every table."""

    def add(self, column: TableColumn, value: str | None = None, others: str = "false") -> bool:
        if value is not None:
            files = self.spark.table(f"{self._sql_name}.data_files")
            constant = iceberg_defaults.constant_of(self.spark, self.properties(), files, column.type, value)
            if constant is not None and self.read().where(others).isEmpty():
                return iceberg_defaults.add(self.spark, self._sql_name, column, constant)
        self._alter(f"ADD COLUMNS ({column_sql(column)})")
        return False

    def reorder(self, names: Sequence[str]) -> None:
        have = self.read().columns
        for n, name in enumerate(names):
            if have[n] != name:
                where = "FIRST" if n == 0 else f"AFTER {quote_name(names[n - 1])}"
                self._alter(f"ALTER COLUMN {quote_name(name)} {where}")
                have.remove(name)
                have.insert(n, name)

    def widen(self, name: str, kind: str) -> bool:
        have = self.read().schema[name].dataType.simpleString()
        same_scale = have.startswith("decimal") and widens(have, kind) and have.split(",")[1] == kind.split(",")[1]
        if not (same_scale or (have, kind) in (("int", "bigint"), ("float", "double"))):
            return False
        self._alter(f"ALTER COLUMN {quote_name(name)} TYPE {kind}")
        return True

    # ---- changes of its rows
    def overwrite(self, frame: DataFrame) -> None:
        """Rows alone where the columns stay; else the table is replaced, under its partitioning and order of rows."""
        if not self.exists():
            self._create_namespace()
            self._replace(frame, "")
            return
        if _columns_of(frame, self.column_type) == _columns_of(self.read(), self.column_type):
            frame.writeTo(self._sql_name).overwrite(F.lit(True))
            return
        order = self.properties().get("sort-order")
        match = _PARTITIONS.search(self.spark.sql(f"SHOW CREATE TABLE {self._sql_name}").collect()[0][0])
        self._replace(frame, f" PARTITIONED BY ({match[1]})" if match else "")
        if order is not None:
            self._alter(f"WRITE ORDERED BY {order}")

    def add_rows(self, frame: DataFrame) -> None:
        frame.writeTo(self._sql_name).append()

    def add_files(self, files: Sequence[RowFile]) -> bool:
        del files  # they would need Iceberg's numbers of the columns
        return False

    def create_for(self, frame: DataFrame, properties: Mapping[str, str]) -> None:
        """The table without rows, with the columns of a frame."""
        self._create_namespace()
        writer = self.spark.createDataFrame([], frame.schema).writeTo(self._sql_name).using("iceberg")
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        writer.create()

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """Columns go by name; new ones and wider types widen the table, which needs ACCEPTS_ROWS for that."""
        writer = frame.writeTo(self._sql_name).option("mergeSchema", "true").option("check-ordering", "false")
        writer.options(**options).append()

    def purge(self) -> None:
        self._call("rewrite_data_files", ", options => map('delete-file-threshold', '1')")

    def compact(self) -> None:
        self._call("rewrite_data_files")

    def expire(self, keep_hours: int) -> None:
        applications = [commit.facts.get(APPLICATION) for commit in self.commits()]
        newest = max((applications.index(application) for application in {*applications} - {None}), default=0)
        older = f"TIMESTAMP '{datetime.now(UTC) - timedelta(hours=keep_hours):%Y-%m-%d %H:%M:%S} UTC'"
        self._call("expire_snapshots", f", older_than => {older}, retain_last => {newest + 1}")

    # ---- how
    def _call(self, procedure: str, arguments: str = "") -> None:
        catalog, *names = map(quote_name, split_table_name(self.name))
        table = sql_literal(".".join(names))
        self.spark.sql(f"CALL {catalog}.system.{procedure}(table => {table}{arguments})")

    def _create_namespace(self) -> None:
        namespace = ".".join(map(quote_name, split_table_name(self.name)[:-1]))
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")

    def _replace(self, frame: DataFrame, layout: str) -> None:
        with view_of(frame) as source:
            self.spark.sql(f"CREATE OR REPLACE TABLE {self._sql_name} USING iceberg{layout} AS SELECT * FROM {source}")


def _columns_of(frame: DataFrame, type_in_table: Callable[[str], str]) -> list[tuple[str, str]]:
    return [(f.name, type_in_table(f.dataType.simpleString())) for f in frame.schema]
