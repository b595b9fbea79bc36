"""How a DataFrame of messages is decoded: by kernels, by the JVM's reader of Avro, or by the codec."""

from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema, change_type, metric, tidb_row
from ticdc_bridge.spark_jobs.arrow.changes import BINARY
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

ViewOptions = tuple[SparkTypes, Missing, OnLossy]


def typed_changes_of(
    frame: DataFrame, config: CodecConfig, id_: TableId, check: str, view_options: ViewOptions
) -> DataFrame:
    """Messages with Kafka's columns → change events of one table, with structs. view_options: as TableView has them."""
    if config.format == "avro" and config.tables is None:
        from ticdc_bridge.spark_jobs.spark.avro_jvm.plan import AvroPlan

        # A stream meets ids that nobody knows yet: the kernels read them like others, the JVM's reader leaves them.
        exact, types, missing = check == "exact" or frame.isStreaming, *view_options[:2]
        plan = AvroPlan.of(config, id_, exact=exact, missing=missing)
        if plan is not None:
            config = replace(config, view=TableView(plan.table, *view_options))
            kernels = warm_table_rows("avro")
            if types == EXACT and not (frame.isStreaming and kernels):
                changes = replace(plan, config=config).decode(frame)
                if changes is not None:
                    return changes
            if kernels:
                return _decode_in_workers(plan.without_others(frame), config, plan.key, others="late_tables")
    table = newest_table(config, id_, view_options[1])
    key = tuple(c.name for c in table.columns if c.name in table.handle_key) if config.tables is not None else None
    if config.tables is not None or config.format == "avro":
        warm_table_rows(config.format)
    return _decode_in_workers(frame, replace(config, view=TableView(table, *view_options)), key)


def _decode_in_workers(
    frame: DataFrame, config: CodecConfig, key: tuple[str, ...] | None, others: str = "other_tables"
) -> DataFrame:
    """By kernels and, for what they leave, the codec. key: of the table. others: the metric of what is of others."""
    assert config.view is not None
    view, headers = config.view, "headers" in frame.columns
    reader = None if view.types.kinds else avro_jvm.class_of(frame.sparkSession, "BinaryRows")
    kind = change_type(tidb_row(view.table, view.types, certain=config.tables is not None), headers)
    if reader is not None:  # the structs come so from Python, too: no plan pays for their metadata
        kind = kind.add(BINARY["before"], BinaryType()).add(BINARY["after"], BinaryType())
    changes = map_messages(frame, DecodeBatches(config, arrow_schema_of(kind), key), kind)
    if config.format != "avro":  # each of whose messages has an event, or is an error
        changes = without_skipped(changes, F.col("kind"), f".{view.table.id}")
    is_kept = F.col("kind").isNull() | F.col("kind").isin("error", "watermark")
    is_kept = is_kept | F.coalesce(is_of(view.table.id, F.col("db"), F.col("table")), F.lit(False))
    changes = leave_out(changes, metric(others, view.table.id), F.when(~is_kept, "other"), {"other": "rows"})
    # What is the same in every row does not come through Arrow (spark_jobs.arrow.changes.ChangeReader, key).
    none, id_ = F.array().cast("array<string>"), view.table.id
    names = F.array(*map(F.lit, key)) if key else none
    same = {"kind": F.lit("row"), "db": F.lit(id_.db), "table": F.lit(id_.table), "key": names}
    same["flags"] = F.coalesce("flags", none)
    columns = {name: F.col(name) for name in change_schema(headers=headers).names}
    columns |= {name: F.when(F.col("kind").isNull(), same[name]).otherwise(F.col(name)) for name in same}
    spark: Any = frame.sparkSession
    for name in BINARY if reader is not None else ():  # from its binary row, NULL where it has none
        target = avro_jvm.instance(spark, reader, len(changes.schema[name].dataType))  # type: ignore[arg-type]
        argument = spark._jsparkSession.expression(F.col(BINARY[name])._jc)
        row_type = changes._jdf.schema().apply(name).dataType()
        row = avro_jvm.invoke(spark, target, "row", row_type, argument, nullable=True)
        row_column = Column(spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(row))
        columns[name] = F.coalesce(row_column, F.col(name))
    return changes.select(*(column.alias(name) for name, column in columns.items()))


def decoded_changes(frame: DataFrame, config: CodecConfig) -> DataFrame:
    """Messages with Kafka's columns → change events with plain maps."""
    if config.tables is not None or config.format == "avro":
        warm_changes(config.format)
    headers = "headers" in frame.columns
    changes = map_messages(frame, DecodeBatches(config, change_schema(headers=headers)), change_type(headers=headers))
    return without_skipped(changes, F.col("kind"))


def apply_view(events: DataFrame, config: CodecConfig) -> DataFrame:
    """Plain maps → structs of the side's table; other tables' events are left out, and counted."""
    assert config.view is not None
    table = config.view.table
    row = tidb_row(table, certain=config.tables is not None)
    is_kept = F.col("kind").isin("error", "watermark")
    is_kept = is_kept | F.coalesce(is_of(table.id, F.col("db"), F.col("table")), F.lit(False))
    columns = [
        F.expr(typed_row(name, table)).cast(row).alias(name) if name in BINARY else F.col(name)
        for name in events.columns
    ]
    kept = leave_out(events, metric("other_tables", table.id), F.when(~is_kept, "other"), {"other": "rows"})
    return typed_view(kept.select(*columns), config)
