"""Delta tables written by deltalake, with no jar of Delta's: for `merge` where delta-spark can't be had.

Spark reads the files that the table's log names and makes the rows; deltalake commits them. It has neither column
mapping nor type widening, so a column that is renamed, dropped or of another type writes the table anew. Rows pass from
Spark to deltalake through Parquet files beside the table, a batch at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_ansi, quote_name
from ticdc_bridge.spark_jobs.io.locations import is_catalog_name
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, s3_endpoint, spark_location
from ticdc_bridge.spark_jobs.lake.engines import delta_files
from ticdc_bridge.spark_jobs.lake.engines.base import Commit, RowFile, TableColumn, Upsert, convert_errors
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now

if TYPE_CHECKING:
    from deltalake import DeltaTable

_NTZ = "timestampNtz"
# What deltalake can't write; it says so itself, in other words and late.
_NOT_WRITTEN = frozenset(("columnMapping", "typeWidening", "typeWidening-preview", "deletionVectors"))
_MISTAKEN = frozenset("[]^|\\%")  # letters of paths that it panics at, or takes for others
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def _error_of(table: Deltalake, error: Exception) -> SetupError | None:
    """SetupError STOPPED for what deltalake can't do."""
    from deltalake.exceptions import DeltaError

    if not isinstance(error, DeltaError | OSError):
        return None
    return SetupError("STOPPED", where=table.location, details=f"deltalake: {error}")


@convert_errors(_error_of)
@dataclass(frozen=True)
class Deltalake:
    """A LakeTable (lake.engines.base) in a folder or an object store. SetupError USAGE for a path of another scheme."""

    spark: SparkSession
    path: str

    def __post_init__(self) -> None:
        url = StoreUrl.of(self.path)
        is_foreign = "://" in self.path and (url is None or not url.store.deltalake)
        if is_foreign or is_catalog_name(self.path):
            details = (
                f"delta:{self.path}: deltalake writes only to folders, s3://, gs:// and abfs://;"
                f" {Hint.ENGINE} delta-spark writes there"
            )
            raise SetupError("USAGE", details=details)
        if bad := sorted(_MISTAKEN & {*self._location}):
            details = f"delta:{self.path}: deltalake can't write to a folder with {' '.join(bad)} in its name"
            raise SetupError("USAGE", details=details)

    @property
    def location(self) -> str:
        return f"delta:{self.path}"

    # ---- what is there
    def column_type(self, kind: str) -> str:
        return kind

    def folder(self) -> str:
        return delta_files.absolute_path(self.path)

    def exists(self) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self._location, self._options)

    def prepare(self) -> dict[str, str]:
        protocol = self._table().protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        if names := sorted(features & _NOT_WRITTEN):
            details = (
                f"the table has {', '.join(names)}, which deltalake can't write, nor read exactly: delta-spark made"
                f" it, go on with {Hint.ENGINE} delta-spark, or start again in another place"
            )
            raise SetupError("STOPPED", where=self.location, details=details)
        return self.properties()

    def version(self) -> int | None:
        return self._table().version()

    def commits(self, most: int | None = None) -> list[Commit]:
        return [Commit(e["version"], delta_files.facts_in(e.get("userMetadata"))) for e in self._table().history(most)]

    def read(self) -> DataFrame:
        self.prepare()  # Spark reads the files alone: rows that a vector marks as gone, NULL for mapped columns
        return self.read_at(None)

    def read_at(self, version: int | None) -> DataFrame:
        table = self._table(version)
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        uris = table.file_uris()  # as the log has them; Spark calls them otherwise
        files = [spark_location(unquote(u)) if StoreUrl.of(u) else unquote(urlsplit(u).path) for u in uris]
        if not files:
            return self.spark.createDataFrame([], schema)
        # The log's names are no patterns, whatever letters the folder has.
        reader = self.spark.read.schema(schema).option("__globPaths__", "false")
        if table.metadata().partition_columns:  # their values are in the names of folders alone
            reader = reader.option("basePath", self._location)
        return reader.parquet(*files)

    def properties(self) -> dict[str, str]:
        return {name: value for name, value in self._table().metadata().configuration.items() if value is not None}

    def text_partitions(self) -> Sequence[str]:
        return self._table().metadata().partition_columns

    # ---- changes of the table
    def create(
        self, columns: Sequence[TableColumn], properties: Mapping[str, str], partitioned_by: Sequence[str] = (),
        clustered_by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        from deltalake import DeltaTable, Schema

        if clustered_by:
            details = f"{self.location}: deltalake can't cluster a table: {Hint.ENGINE} delta-spark, or --partition-by"
            raise SetupError("USAGE", details=details)
        fields = [json.loads(_field(column).to_json()) for column in columns]
        schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
        DeltaTable.create(
            self._location, schema, partition_by=list(partitioned_by), configuration=dict(properties),
            raise_if_key_not_exists=False, storage_options=self._options,
        )  # fmt: skip

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._table().alter.set_table_properties(dict(properties), raise_if_not_exists=False)

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        from deltalake import TableFeatures

        del have  # the log tells
        table = self._table()
        if any("timestamp_ntz" in kind for kind in types) and _NTZ not in (table.protocol().reader_features or ()):
            table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)

    def add(self, column: TableColumn, value: str | None = None, others: str = "false") -> bool:
        del value, others  # a default of Delta's is none for the rows that are there
        self._table().alter.add_columns([_field(column)])
        return False

    def comment(self, name: str, text: str) -> None:
        self._table().alter.set_column_metadata(name, {"comment": text})

    def reorder(self, names: Sequence[str]) -> None:
        """Columns stay where they are."""

    def widen(self, name: str, kind: str) -> bool:
        del name, kind
        return False

    # ---- changes of its rows
    def overwrite(self, frame: DataFrame) -> None:
        from deltalake import write_deltalake

        layout = self._table().metadata().partition_columns if self.exists() else None
        with self._rows_of(frame) as rows:
            write_deltalake(
                self._location, rows, mode="overwrite", schema_mode="overwrite", partition_by=layout or None,
                storage_options=self._options,
            )  # fmt: skip

    def add_rows(self, frame: DataFrame) -> None:
        from deltalake import write_deltalake

        with self._rows_of(frame) as rows:
            write_deltalake(self._location, rows, mode="append", storage_options=self._options)

    def add_files(self, files: Sequence[RowFile]) -> bool:
        from deltalake.transaction import AddAction

        table = self._table()
        partitions = table.metadata().partition_columns
        added = None if partitions else delta_files.copy_into(self.path, files)
        if added is not None:
            actions = [
                AddAction(e["path"], e["size"], {}, e["modificationTime"], data_change=True, stats=e["stats"])
                for e in added
            ]
            table.create_write_transaction([*actions], "append", table.schema())
        return added is not None

    def rename(self, old: str, new: str) -> None:
        self.overwrite(self.read().withColumnRenamed(old, new))

    def drop(self, name: str) -> None:
        self.overwrite(self.read().drop(name))

    def delete(self, where: str) -> None:
        self.overwrite(self.read().where(~F.coalesce(F.expr(where), F.lit(False))))

    def update(self, values: Mapping[str, str], where: str) -> None:
        frame = self.read()
        columns = {
            name: F.when(F.expr(where), F.expr(value))
            .otherwise(F.col(quote_name(name)))
            .alias(name, metadata=frame.schema[name].metadata)
            for name, value in values.items()
        }
        self.overwrite(frame.withColumns(columns))

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        on = " AND ".join(f"t.{quote_ansi(column)} = s.{quote_ansi(source)}" for column, source in upsert.keys)
        values = {quote_ansi(column): f"s.{quote_ansi(source)}" for column, source in upsert.values}
        with self._rows_of(frame) as rows:
            merger = self._table().merge(rows, predicate=on, source_alias="s", target_alias="t")
            if upsert.delete:
                merger = merger.when_matched_delete(upsert.delete)
            merger = merger.when_matched_update(values, upsert.update)
            merger.when_not_matched_insert(values, upsert.insert).execute()

    def purge(self) -> None:
        """No file has such rows."""

    def compact(self) -> None:
        self._table().optimize.compact()

    def expire(self, keep_hours: int) -> None:
        self._table().vacuum(keep_hours, dry_run=False, enforce_retention_duration=False)

    # ---- how
    @property
    def _location(self) -> str:
        url = StoreUrl.of(self.path)
        if url is None:
            return delta_files.absolute_path(self.path)
        return f"{url.store.deltalake}://{url.authority}/{url.key}"

    @property
    def _options(self) -> dict[str, str]:
        """Options that deltalake does not take from the environment by itself."""
        endpoint = s3_endpoint() or ""
        return {"allow_http": "true"} if endpoint.startswith("http://") and "://" in self._location else {}

    def _table(self, version: int | None = None) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self._location, version, storage_options=self._options)

    @contextmanager
    def _rows_of(self, frame: DataFrame) -> Iterator[pa.RecordBatchReader]:
        """The frame's rows, as they are read from files that Spark writes."""
        # A name with an underscore is none of the table's files; beside them, as executors may be elsewhere.
        folder = path_of(self._location) / f"_bridge_rows-{uuid4().hex}"
        files = folder.url.files if isinstance(folder, ObjectPath) else None
        try:
            with set_for_now(frame.sparkSession, _TIMESTAMPS, "TIMESTAMP_MICROS"):  # INT96, Spark's own, has no zone
                frame.write.parquet(spark_location(str(folder)))
            paths = sorted(p.url.path if isinstance(p, ObjectPath) else str(p) for p in folder.glob("*.parquet"))
            yield _with_comments(ds.dataset(paths, format="parquet", filesystem=files), frame)
        finally:
            remove_folder(folder)


def _with_comments(rows: Any, frame: DataFrame) -> pa.RecordBatchReader:
    """Rows whose fields have the frame's comments, and may be NULL."""
    comments = {f.name: {"comment": f.metadata["comment"]} for f in frame.schema.fields if "comment" in f.metadata}
    fields = [pa.field(f.name, f.type, True, comments.get(f.name)) for f in rows.schema]
    schema = pa.schema(fields)
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _field(column: TableColumn) -> Any:
    from deltalake import Field

    described = {
        "name": column.name, "type": DataType.fromDDL(column.type).jsonValue(), "nullable": True,
        "metadata": {"comment": column.comment} if column.comment else {},
    }  # fmt: skip
    return Field.from_json(json.dumps(described))
