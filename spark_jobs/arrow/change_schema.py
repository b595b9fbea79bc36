"""The DataFrame form of messages and change events: their schemas, and the names in them (types: docs/reference.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, struct
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_HEADERS = "array<struct<key:string,value:binary>>"
SOURCE = "struct<topic:string,partition:int,offset:bigint,timestamp:timestamp>"
ERROR = "struct<code:string,detail:string,key:binary,value:binary>"


# What mapInArrow makes of a message with the plain form of its rows; `row` counts the events of one message.
CHANGES = (
    "kind string, op string, commit_ts bigint, commit_time timestamp, db string, `table` string, schema_id int,"
    " table_version bigint, `key` array<string>, before map<string,string>, after map<string,string>,"
    f" flags array<string>, ddl_type int, query string, row int, source {SOURCE}, error {ERROR}"
)
HEADERS_COLUMN = f"headers {_HEADERS}"
"""What change events have too where their messages have record headers; NULL where a message has none."""
MESSAGES = (
    "topic string, partition int, `key` binary, value binary, timestamp timestamp,"
    f" {HEADERS_COLUMN}, error struct<code:string,detail:string>"
)


def tidb_row(table: Table, types: SparkTypes = EXACT, certain: bool = True) -> StructType:
    """`row_type` with each column's TiDB type as metadata (schemas.model.spark_types.metadata_of)."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(struct(table, types, certain))


def arrow_schema(ddl: str) -> Any:
    """Spark DDL → Arrow schema, as mapInArrow must yield it."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return arrow_schema_of(schema)


SKIPPED = ("tombstone", "empty")
"""Kinds of rows that workers give for a message without an event (spark_jobs.pipeline.result.MessageResult.skipped)."""


UNWRITTEN = (*SKIPPED, "ddl", "truncate", "watermark", "bootstrap")
"""Kinds of messages, or events of them, for which nothing was written. Workers give a row for each, with the kind as
the detail of an error without a code (spark_jobs.spark.left_out_rows.without_unwritten).
"""


def metric(name: str, table: TableId) -> str:
    """Name of an observed metric: of one table, so that the plans of several can stand in one query."""
    return f"ticdc_bridge_{name}.{table}"
