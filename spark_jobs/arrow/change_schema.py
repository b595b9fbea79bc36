"""The schemas of messages and change events in a DataFrame, and the names in them (types: docs/reference.md)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, struct
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.arrow import arrow_types
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.io.parquet import HEADERS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_TEXT, _TEXTS, _TIME, _BYTES = pa.string(), pa.list_(pa.string()), pa.timestamp("us", "UTC"), pa.binary()
PLAIN_ROW: Any = pa.map_(_TEXT, _TEXT)
"""A row in plain form."""
_SOURCE = pa.struct([("topic", _TEXT), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", _TIME)])
_ERROR = pa.struct([("code", _TEXT), ("detail", _TEXT), ("key", _BYTES), ("value", _BYTES)])


def change_schema(row: Any = PLAIN_ROW, headers: bool = True) -> Any:
    """The Arrow schema of a change event.

    Args:
        row: the type of `before` and `after`: PLAIN_ROW, or a struct of one table's columns.
        headers: with the record headers of its message; NULL where a message has none.
    """
    columns = [
        ("kind", _TEXT), ("op", _TEXT), ("commit_ts", pa.int64()), ("commit_time", _TIME), ("db", _TEXT),
        ("table", _TEXT), ("schema_id", pa.int32()), ("table_version", pa.int64()), ("key", _TEXTS), ("before", row),
        ("after", row), ("flags", _TEXTS), ("ddl_type", pa.int32()), ("query", _TEXT),
        ("row", pa.int32()),  # counts the events of one message
        ("source", _SOURCE), ("error", _ERROR),
    ]  # fmt: skip
    return pa.schema([*columns, ("headers", HEADERS)] if headers else columns)


def message_schema() -> Any:
    """The Arrow schema of messages that were written; one that failed is itself, with its error."""
    error = pa.struct([("code", _TEXT), ("detail", _TEXT)])
    columns = [("topic", _TEXT), ("partition", pa.int32()), ("key", _BYTES), ("value", _BYTES), ("timestamp", _TIME)]
    return pa.schema([*columns, ("headers", HEADERS), ("error", error)])


CHANGES = arrow_types.ddl_of(change_schema(headers=False))
"""Change events with rows in plain form, as Spark DDL."""
SOURCE = arrow_types.sql_type_of(_SOURCE)
MESSAGES = arrow_types.ddl_of(message_schema())


def change_type(row: StructType | None = None, headers: bool = True) -> StructType:
    """`change_schema` as Spark has it, without asking a JVM. row: as `tidb_row` gives it; None: in plain form."""
    from pyspark.sql.types import StructField, StructType

    schema = arrow_types.spark_schema_of(
        change_schema(PLAIN_ROW if row is None else arrow_types.arrow_type_of(row.jsonValue()), headers)
    )
    if row is None:
        return schema
    return StructType([StructField(f.name, row) if f.name in ("before", "after") else f for f in schema])


@lru_cache(64)
def tidb_row(table: Table, types: SparkTypes = EXACT, certain: bool = True) -> StructType:
    """The struct of a table's rows, with each column's TiDB type as metadata (schemas.model.spark_types)."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(struct(table, types, certain))


def arrow_schema(ddl: str) -> Any:
    """Spark DDL → Arrow schema, as mapInArrow must yield it."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return arrow_types.arrow_schema_of(schema)


SKIPPED = ("tombstone", "empty")
"""Kinds of rows that workers give for a message without an event (spark_jobs.pipeline.result.MessageResult.skipped)."""


UNWRITTEN = (*SKIPPED, "ddl", "truncate", "watermark", "bootstrap")
"""Kinds of messages, or events of them, for which nothing was written. Workers give a row for each, with the kind as
the detail of an error without a code (spark_jobs.spark.left_out_rows.without_unwritten).
"""


def metric(name: str, table: TableId) -> str:
    """Name of an observed metric: of one table, so that the plans of several can stand in one query."""
    return f"ticdc_bridge_{name}.{table}"
