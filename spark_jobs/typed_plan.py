"""TiCDC's formats of one table in Spark: Arrow batches through the compiled kernels (typed_workers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from schemas.event import MAX_TSO
from schemas.publish.spark import EXACT, Types
from schemas.table import Table, TableId, TableVersion
from spark_jobs.codec import Side
from spark_jobs.columns import arrow_schema, tidb_row
from spark_jobs.fitted import Fitted
from spark_jobs.history_tables import HistoryTables
from spark_jobs.plans import metric, skipped_told
from spark_jobs.settled import map_batches
from spark_jobs.table_view import Missing, OnLossy, TableView
from spark_jobs.typed_view import typed_view
from spark_jobs.typed_workers import FORMATS, TypedBatches, typed_schema, versions_of, warm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def typed_decode(
    frame: DataFrame, side: Side, id_: TableId, missing: Missing, types: Types = EXACT, on_lossy: OnLossy = "error"
) -> DataFrame | None:
    """Messages with Kafka's columns → change events with structs; None where the kernels don't read this.

    They read formats that need definitions, and a table whose definitions are known. types, on_lossy: as TableView.
    """
    if side.tables is None or not (side.format in FORMATS or (side.format == "avro" and warm("avro"))):
        return None
    versions = versions_of(side.tables, id_)
    if not versions:
        return None
    warm(side.format)
    table = versions[0].table
    view = TableView(table, types, missing, on_lossy)
    key = [c.name for c in table.columns if c.name in table.handle_key]
    seen = replace(side, view=view)
    if side.format == "avro":
        changes = _ours(_avro(frame, seen, tuple(versions), key), id_)
    else:
        until = side.tables.sure_until(versions[0]) if isinstance(side.tables, HistoryTables) else MAX_TSO
        schema, typed = typed_schema(table), types != EXACT
        batches = TypedBatches(seen, tuple(versions), arrow_schema(schema), missing, until)
        made = map_batches(frame, Fitted(batches, view) if typed else batches, _with_tidb_types(schema, table))
        changes = _ours(made, id_)
    return typed_view(changes.select(*_columns(id_, key, changes.columns)), seen)


def avro_decode(frame: DataFrame, side: Side, key: Sequence[str]) -> DataFrame | None:
    """TiCDC Avro of a table without definitions, other tables that are known left out before; None without numba.

    side: with a view of the newest registered value schema. key: the names of the newest key schema.
    """
    assert side.view is not None
    if not warm("avro"):
        return None
    table = side.view.table
    changes = _ours(_avro(frame, side, (TableVersion(0, table),), list(key)), table.id, others="late_tables")
    return typed_view(changes.select(*_columns(table.id, list(key), changes.columns)), side)


def _avro(frame: DataFrame, side: Side, versions: tuple[TableVersion, ...], key: list[str]) -> DataFrame:
    from spark_jobs.avro_batches import AvroBatches, avro_schema

    view = side.view
    assert view is not None
    schema = avro_schema(view.table)
    batches = AvroBatches(side, versions, arrow_schema(schema), view.missing, key=tuple(key))
    run = batches if view.types == EXACT else Fitted(batches, view)
    wanted = frame.select(*(name for name in frame.columns if name != "headers"))  # Avro has none
    return map_batches(wanted, run, _with_tidb_types(schema, view.table, certain=side.tables is not None))


def _with_tidb_types(ddl: str, table: Table, certain: bool = True) -> StructType:
    """The schema; before and after say their columns' TiDB types. They come so from Python: no plan pays for it."""
    from pyspark.sql.types import StructField, StructType

    schema, row = StructType.fromDDL(ddl), tidb_row(table, certain=certain)
    assert isinstance(schema, StructType)
    return StructType([StructField(f.name, row) if f.name in ("before", "after") else f for f in schema])


def _ours(found: DataFrame, id_: TableId, others: str = "other_tables") -> DataFrame:
    """Rows of the table, errors and watermarks; what else there is is counted, by the metric `others`."""
    from pyspark.sql import functions as F

    odd = F.col("odd")
    named = (odd["db"] == id_.db) & (odd["table"] == id_.table)
    ours = odd.isNull() | odd["kind"].isin("error", "watermark") | F.coalesce(named, F.lit(False))
    theirs = ~ours
    if "schema_id" not in found.columns:  # each of Avro's messages has an event, or is an error
        # Both are counted before either is left out: between two counts, rows would be copied once more.
        found, skipped = skipped_told(found, F.when(odd.isNotNull(), odd["kind"]), f".{id_}")
        ours, theirs = ours & ~skipped, theirs & ~skipped
    return found.observe(metric(others, id_), F.count(F.when(theirs, 1)).alias("rows")).where(ours)


def _columns(id_: TableId, key: list[str], have: list[str]) -> list[Column]:
    """The columns of a change event (spark_jobs.columns.CHANGES). have: of what the workers gave."""
    from pyspark.sql import functions as F

    odd = F.col("odd")
    names = F.array(*map(F.lit, key)) if key else F.array().cast("array<string>")
    error = F.struct(
        odd["code"].alias("code"), odd["detail"].alias("detail"), odd["key_bytes"].alias("key"),
        odd["value_bytes"].alias("value"),
    )  # fmt: skip
    kernel = odd.isNull()
    schema_id, flags = odd["schema_id"], F.array().cast("array<string>")
    if "schema_id" in have:  # Avro's (spark_jobs.avro_batches)
        schema_id = F.coalesce(F.col("schema_id"), schema_id)
        flags = F.when(F.col("op_unknown"), F.array(F.lit("op_unknown"))).otherwise(flags)
    return [
        F.when(kernel, F.lit("row")).otherwise(odd["kind"]).alias("kind"),
        F.col("op"),
        F.col("commit_ts"),
        F.timestamp_millis(F.shiftright("commit_ts", 18)).alias("commit_time"),
        F.when(kernel, F.lit(id_.db)).otherwise(odd["db"]).alias("db"),
        F.when(kernel, F.lit(id_.table)).otherwise(odd["table"]).alias("table"),
        schema_id.alias("schema_id"),
        F.col("table_version"),
        F.when(kernel, names).otherwise(odd["key"]).alias("key"),
        F.col("before"),
        F.col("after"),
        F.when(kernel, flags).otherwise(odd["flags"]).alias("flags"),
        odd["ddl_type"].alias("ddl_type"),
        odd["query"].alias("query"),
        F.col("row"),
        F.col("source"),
        F.when(odd["code"].isNotNull(), error).alias("error"),
    ]
