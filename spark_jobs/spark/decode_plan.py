"""How a DataFrame of messages is decoded: by kernels, by the JVM's reader of Avro, or by the codec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, row_type
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.arrow.arrow_types import spark_schema_of
from ticdc_bridge.spark_jobs.arrow.change_schema import CHANGES, HEADERS_COLUMN, arrow_schema, metric, tidb_row
from ticdc_bridge.spark_jobs.arrow.table_rows import BINARY, FORMATS, TableRows, rows_schema
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_changes, warm_table_rows
from ticdc_bridge.spark_jobs.arrow.worker_functions import DecodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, OnLossy, TableView
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.left_out_rows import leave_out, without_skipped
from ticdc_bridge.spark_jobs.spark.sql_expressions import is_of, typed_row
from ticdc_bridge.spark_jobs.spark.temporal_sql import typed_view
from ticdc_bridge.spark_jobs.spark.transport import map_messages


def typed_decode(
    frame: DataFrame,
    side: CodecConfig,
    id_: TableId,
    missing: Missing,
    types: SparkTypes = EXACT,
    on_lossy: OnLossy = "error",
) -> DataFrame | None:
    """Messages with Kafka's columns → change events with structs; None where the kernels don't read this.

    They read formats that need definitions, and a table whose definitions are known. types, on_lossy: as TableView.
    """
    if side.tables is None or not (side.format in FORMATS and warm_table_rows(side.format)):
        return None
    with suppress(WireError):  # what is not known any more is for the decoder to say
        if version := side.tables.at(id_, None):
            table = version.table
            key = [c.name for c in table.columns if c.name in table.handle_key]
            return _decode_by_kernels(frame, replace(side, view=TableView(table, types, missing, on_lossy)), key)
    return None


def avro_decode(frame: DataFrame, side: CodecConfig, key: Sequence[str]) -> DataFrame | None:
    """TiCDC Avro of a table without definitions, other tables that are known left out before; None without numba.

    side: with a view of the newest registered value schema. key: the names of the newest key schema.
    """
    assert side.view is not None
    if not warm_table_rows("avro"):
        return None
    return _decode_by_kernels(frame, side, key, others="late_tables")


def _decode_by_kernels(
    frame: DataFrame, side: CodecConfig, key: Sequence[str], others: str = "other_tables"
) -> DataFrame:
    view = side.view
    assert view is not None
    reader = None if view.types.kinds else avro_jvm.class_of(frame.sparkSession, "BinaryRows")
    schema, id_ = rows_schema(view.table, side.format, "headers" in frame.columns, reader is not None), view.table.id
    kind = _with_tidb_types(schema, view.table, certain=side.tables is not None)
    changes = _select_table(map_messages(frame, TableRows(side, schema, tuple(key)), kind), id_, others)

    def side_of(name: str) -> Column:
        return F.col(name) if reader is None else _read_binary(changes, reader, name)

    return typed_view(changes.select(*_columns(id_, list(key), changes.columns, side_of)), side)


def _read_binary(changes: DataFrame, reader: Any, name: str) -> Column:
    """A side, from its binary row where it has one."""
    spark: Any = changes.sparkSession
    target = avro_jvm.instance(spark, reader, len(changes.schema[name].dataType))  # type: ignore[arg-type]
    kind = changes._jdf.schema().apply(name).dataType()
    argument = spark._jsparkSession.expression(F.col(BINARY[name])._jc)
    row = avro_jvm.invoke(spark, target, "row", kind, argument, nullable=True)
    read = Column(spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(row))
    return F.coalesce(read, F.col(name)).alias(name)


def _with_tidb_types(rows: Any, table: Table, certain: bool) -> StructType:
    """The schema; before and after say their columns' TiDB types. They come so from Python: no plan pays for it."""
    schema, row = spark_schema_of(rows), tidb_row(table, certain=certain)
    return StructType([StructField(f.name, row) if f.name in ("before", "after") else f for f in schema])


def _select_table(rows: DataFrame, id_: TableId, others: str = "other_tables") -> DataFrame:
    """Rows of the table, errors and watermarks; what else there is is counted, by the metric `others`."""
    odd = F.col("odd")
    same_table = is_of(id_, odd["db"], odd["table"])
    ours = odd.isNull() | odd["kind"].isin("error", "watermark") | F.coalesce(same_table, F.lit(False))
    if "schema_id" not in rows.columns:  # each of Avro's messages has an event, or is an error
        rows = without_skipped(rows, odd["kind"], f".{id_}")
    return leave_out(rows, metric(others, id_), F.when(~ours, "other"), {"other": "rows"})


def _columns(id_: TableId, key: list[str], have: list[str], side_of: Callable[[str], Column]) -> list[Column]:
    """The columns of a change event (spark_jobs.arrow.change_schema.CHANGES). have: of what the workers gave; side_of:
    the row before or after."""
    odd = F.col("odd")
    names = F.array(*map(F.lit, key)) if key else F.array().cast("array<string>")
    error = F.struct(
        odd["code"].alias("code"), odd["detail"].alias("detail"), odd["key_bytes"].alias("key"),
        odd["value_bytes"].alias("value"),
    )  # fmt: skip
    kernel = odd.isNull()
    schema_id, flags = odd["schema_id"], F.array().cast("array<string>")
    if "schema_id" in have:  # Avro's (spark_jobs.arrow.table_rows)
        schema_id = F.coalesce(F.col("schema_id"), schema_id)
        flags = F.when(F.col("op_unknown"), F.array(F.lit("op_unknown"))).otherwise(flags)
    headers = [F.col("headers")] if "headers" in have else []
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
        side_of("before"),
        side_of("after"),
        F.when(kernel, flags).otherwise(odd["flags"]).alias("flags"),
        odd["ddl_type"].alias("ddl_type"),
        odd["query"].alias("query"),
        F.col("row"),
        F.col("source"),
        F.when(odd["code"].isNotNull(), error).alias("error"),
        *headers,
    ]


ViewOptions = tuple[SparkTypes, Missing, OnLossy]


def typed_changes_of(
    frame: DataFrame, side: CodecConfig, id_: TableId, check: str, view_options: ViewOptions
) -> DataFrame:
    types, missing, on_lossy = view_options
    if side.format == "avro" and side.tables is None:
        avro_changes = _avro_by_schemas(frame, side, id_, check, view_options)
        if avro_changes is not None:
            return avro_changes
    changes = typed_decode(frame, side, id_, missing, types, on_lossy)
    if changes is not None:
        return changes
    side = replace(side, view=TableView(newest_table(side, id_), *view_options))
    return apply_view(decoded_changes(frame, side, f".{id_}"), side)


def _avro_by_schemas(
    frame: DataFrame, side: CodecConfig, id_: TableId, check: str, view_options: ViewOptions
) -> DataFrame | None:
    """TiCDC Avro of one table by its registered schemas; None where the codec has to read it."""
    from ticdc_bridge.spark_jobs.spark.avro_jvm.plan import AvroPlan

    types, missing, _ = view_options
    # A stream meets ids that nobody knows yet: the kernels read them like others, the JVM's reader leaves them.
    exact = check == "exact" or frame.isStreaming
    plan = AvroPlan.of(side, id_, exact=exact, missing=missing)
    if plan is None:
        return None
    side = replace(side, view=TableView(plan.table, *view_options))
    plan = replace(plan, side=side)

    def workers() -> DataFrame | None:
        return avro_decode(plan.without_others(frame), side, plan.key)

    def in_jvm() -> DataFrame | None:
        read = plan.decode(frame, keep=types != EXACT)
        return None if read is None else typed_view(read, side)

    first, second = (workers, in_jvm) if exact and (frame.isStreaming or types != EXACT) else (in_jvm, workers)
    changes = first()
    return second() if changes is None else changes


def apply_view(events: DataFrame, side: CodecConfig) -> DataFrame:
    """Change events with plain maps → before and after as structs of the table that the side has in view."""
    assert side.view is not None
    row = tidb_row(side.view.table, certain=side.tables is not None)
    return typed_view(typed_changes(events, side.view.table, row), side)


def decoded_changes(frame: DataFrame, side: CodecConfig, name: str = "") -> DataFrame:
    """By the compiled readers and, for what they leave, the in-process codec. name: of its metrics."""
    if side.tables is not None or side.format == "avro":
        warm_changes(side.format, side.view is not None)
    columns = f"{CHANGES}, {HEADERS_COLUMN}" if "headers" in frame.columns else CHANGES
    changes = map_messages(frame, DecodeBatches(side, arrow_schema(columns)), columns)
    return without_skipped(changes, F.col("kind"), name)


def typed_changes(events: DataFrame, table: Table, row: StructType | None = None) -> DataFrame:
    """Change events with plain maps → before and after as structs of one table's columns; other tables left out.

    row: the struct's type, where it has metadata.
    """
    of_table = is_of(table.id, F.col("db"), F.col("table"))
    ours = F.col("kind").isin("error", "watermark") | F.coalesce(of_table, F.lit(False))
    counted = events.observe(metric("other_tables", table.id), F.count(F.when(~ours, 1)).alias("rows"))
    kind = row or row_type(table)
    columns = [
        F.expr(typed_row(name, table)).cast(kind).alias(name) if name in ("before", "after") else F.col(name)
        for name in events.columns
    ]
    return counted.where(ours).select(*columns)
