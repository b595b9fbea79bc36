"""Craft, Open and TiCDC Debezium of one table in Spark: Arrow batches through the compiled kernels (typed_workers)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from schemas.event import MAX_TSO
from schemas.publish.spark import EXACT, Types
from schemas.table import Table, TableId
from spark_jobs.codec import Side
from spark_jobs.columns import arrow_schema, tidb_row
from spark_jobs.fitted import Fitted
from spark_jobs.history_tables import HistoryTables
from spark_jobs.plans import metric, without_skipped
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
    if side.format not in FORMATS or side.tables is None:
        return None
    versions = versions_of(side.tables, id_)
    if not versions:
        return None
    warm(side.format)
    table = versions[0].table
    until = side.tables.sure_until(versions[0]) if isinstance(side.tables, HistoryTables) else MAX_TSO
    schema, view = typed_schema(table), TableView(table, types, missing, on_lossy)
    typed = types != EXACT
    side = replace(side, view=view) if typed else side
    batches = TypedBatches(side, tuple(versions), arrow_schema(schema), missing, until)
    made = frame.mapInArrow(Fitted(batches, view) if typed else batches, _with_tidb_types(schema, table))
    key = [c.name for c in table.columns if c.name in table.handle_key]
    changes = _ours(made, id_).select(*_columns(id_, key))
    return typed_view(changes, replace(side, view=view))


def _with_tidb_types(ddl: str, table: Table) -> StructType:
    """The schema; before and after say their columns' TiDB types. They come so from Python: no plan pays for it."""
    from pyspark.sql.types import StructField, StructType

    schema, row = StructType.fromDDL(ddl), tidb_row(table)
    assert isinstance(schema, StructType)
    return StructType([StructField(f.name, row) if f.name in ("before", "after") else f for f in schema])


def _ours(found: DataFrame, id_: TableId) -> DataFrame:
    """Rows of the table, errors and watermarks; what else there is is counted."""
    from pyspark.sql import functions as F

    odd = F.col("odd")
    named = (odd["db"] == id_.db) & (odd["table"] == id_.table)
    ours = odd.isNull() | odd["kind"].isin("error", "watermark") | F.coalesce(named, F.lit(False))
    found = without_skipped(found, F.when(odd.isNotNull(), odd["kind"]), f".{id_}")
    return found.observe(metric("other_tables", id_), F.count(F.when(~ours, 1)).alias("rows")).where(ours)


def _columns(id_: TableId, key: list[str]) -> list[Column]:
    """The columns of a change event (spark_jobs.columns.CHANGES)."""
    from pyspark.sql import functions as F

    odd = F.col("odd")
    names = F.array(*map(F.lit, key)) if key else F.array().cast("array<string>")
    error = F.struct(
        odd["code"].alias("code"), odd["detail"].alias("detail"), odd["key_bytes"].alias("key"),
        odd["value_bytes"].alias("value"),
    )  # fmt: skip
    kernel = odd.isNull()
    return [
        F.when(kernel, F.lit("row")).otherwise(odd["kind"]).alias("kind"),
        F.col("op"),
        F.col("commit_ts"),
        F.timestamp_millis(F.shiftright("commit_ts", 18)).alias("commit_time"),
        F.when(kernel, F.lit(id_.db)).otherwise(odd["db"]).alias("db"),
        F.when(kernel, F.lit(id_.table)).otherwise(odd["table"]).alias("table"),
        odd["schema_id"].alias("schema_id"),
        F.col("table_version"),
        F.when(kernel, names).otherwise(odd["key"]).alias("key"),
        F.col("before"),
        F.col("after"),
        F.when(kernel, F.array().cast("array<string>")).otherwise(odd["flags"]).alias("flags"),
        odd["ddl_type"].alias("ddl_type"),
        odd["query"].alias("query"),
        F.col("row"),
        F.col("source"),
        F.when(odd["code"].isNotNull(), error).alias("error"),
    ]
