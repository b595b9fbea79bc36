"""`merge --without-key append`: of a table whose rows nothing tells apart, what is inserted is appended.

Updates and deletes can't be applied, as it is not known which row they mean: they are counted. A message that is read
again adds no row; one that TiCDC sends again does, as two equal rows may be two inserts.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake.change_checks import ChangeCounts, describe_unfit
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.merge import DROPPED, ROW_MESSAGE
from ticdc_bridge.spark_jobs.lake.merge import KIND as MERGED
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns, load_into_new
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.lake.untimed_deletes import is_since
from ticdc_bridge.spark_jobs.pipeline.result import Summary

KIND = MERGED._replace(metadata=(*MERGED.metadata, TableColumn(ROW_MESSAGE, "string")))
_LEFT_OUT = {"u": "update of a table without a key", "d": "delete of a table without a key"}


def check_no_key(columns: TableColumns, table: Table, exists: bool) -> None:
    """SetupError STOPPED where the rows that are there were merged by a key."""
    del table
    if exists and ROW_MESSAGE not in columns.types():
        details = (
            "its rows were merged by a key that the table does not have any more."
            f" {load_into_new(columns.settings.id)} ({Hint.WITHOUT_KEY_APPEND})"
        )
        raise SetupError("STOPPED", where=columns.lake_table.location, details=details)


def append_inserts(
    columns: TableColumns, changes: DataFrame, rows: RowValues, counts: ChangeCounts, forgotten_ts: int,
    summary: Summary,
) -> int:  # fmt: skip
    """A spark_jobs.lake.merge.WriteRows: what is inserted into a table without a key.

    SetupError STOPPED for a value that its column can't hold, and for rows of which the message is not known.
    """
    del forgotten_ts
    changes = changes.where(is_since(counts.since))
    if not changes.where("array_contains(flags, 'op_unknown')").isEmpty():
        raise columns.stopped("its messages don't say whether a row is new or updated: let them (old values, _tidb_op)")
    source = ("source.topic", "source.partition", "source.offset", F.unix_millis("source.timestamp"), "row")
    has_offset = F.col("source.topic").isNotNull() & F.col("source.offset").isNotNull()
    message_id = F.when(has_offset, F.concat_ws("/", *source)).alias("message_id")
    bad = rows.bad_column(rows.columns).alias("bad")
    received = changes.select("op", "commit_ts", message_id, *rows.values_after(), bad).dropDuplicates(["message_id"])
    inserted = keep_rows(received, counts.are_few).where("op IN ('c', 'r', 's')")
    if dropped := rows.dropped_sql(counts.since, counts.first_rows):
        if not inserted.where(f"({dropped}) IS NULL").isEmpty():
            raise columns.doubt_error()
        summary.skipped[DROPPED] += inserted.where(dropped).count()
        inserted = inserted.where(f"NOT ({dropped})")
    first = inserted.where("bad IS NOT NULL OR message_id IS NULL").select("bad", "commit_ts").first()
    if first is not None:
        details = (
            "rows of a table without a key are recognised by topic, partition and offset, which this input does not"
            " have: read them from Kafka, or from a file that has them"
        )
        raise columns.stopped(describe_unfit(first["bad"], first["commit_ts"]) if first["bad"] else details)
    for row in changes.where("op IN ('u', 'd')").groupBy("op").count().collect():
        summary.skipped[_LEFT_OUT[row["op"]]] += row["count"]
    values = [*rows.value_pairs, (COMMIT_TS, "commit_ts"), (ROW_MESSAGE, "message_id")]
    columns.refuse_partitions(inserted, rows.value_pairs)
    if count := inserted.count():
        upsert = Upsert([(ROW_MESSAGE, "message_id")], values, update="false")
        columns.lake_table.merge(inserted.drop("op", "bad"), upsert)
    return count
