"""`merge --without-key append`: of a table whose rows nothing tells apart, what is inserted is appended.

Updates and deletes can't be applied, as nobody can tell which row they mean: they are counted. A message that is read
again adds no row; one that TiCDC sends again does, as two equal rows may be two inserts.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake.change_checks import ChangeCounts
from ticdc_bridge.spark_jobs.lake.column_history import emptied_at
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.merge import KIND as MERGED
from ticdc_bridge.spark_jobs.lake.merge import ROW_MESSAGE
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.lake.untimed_deletes import is_since
from ticdc_bridge.spark_jobs.pipeline.result import Summary

KIND = MERGED._replace(metadata=(*MERGED.metadata, TableColumn(ROW_MESSAGE, "string")))
_LEFT_OUT = {"u": "update of a table without a key", "d": "delete of a table without a key"}


@dataclass(frozen=True)
class KeylessWriter:
    """A spark_jobs.lake.merge.RowWriter that appends inserts to a table without a key."""

    columns: TableColumns

    def check_key(self, table: Table, exists: bool) -> None:
        del table
        if exists and ROW_MESSAGE not in self.columns.types():
            details = (
                "its rows were merged by a key that the table does not have any more: append what follows"
                " (--without-key append) to another place"
            )
            raise SetupError("STOPPED", where=self.columns.lake_table.location, details=details)

    def write(
        self, changes: DataFrame, rows: RowValues, counts: ChangeCounts, forgotten_ts: int, summary: Summary
    ) -> int:
        del forgotten_ts
        changes = changes.where(is_since(emptied_at(rows.steps)))
        source = ("source.topic", "source.partition", "source.offset", F.unix_millis("source.timestamp"), "row")
        has_offset = F.col("source.topic").isNotNull() & F.col("source.offset").isNotNull()
        message_id = F.when(has_offset, F.concat_ws("/", *source)).alias("message_id")
        bad = rows.bad_column(rows.columns).alias("bad")
        received = changes.select("op", "commit_ts", message_id, *rows.values_after(), bad).dropDuplicates(
            ["message_id"]
        )
        inserted = keep_rows(received, counts.are_few).where("op IN ('c', 'r', 's')")
        self._check_rows(inserted)
        for row in changes.where("op IN ('u', 'd')").groupBy("op").count().collect():
            summary.skipped[_LEFT_OUT[row["op"]]] += row["count"]
        values = [*rows.value_pairs, (COMMIT_TS, "commit_ts"), (ROW_MESSAGE, "message_id")]
        if count := inserted.count():
            upsert = Upsert([(ROW_MESSAGE, "message_id")], values, update="false")
            self.columns.lake_table.merge(inserted.drop("op", "bad"), upsert)
        return count

    def _check_rows(self, rows: DataFrame) -> None:
        """SetupError STOPPED for a value that its column can't hold, and for rows of which the message is not known."""
        first = rows.where("bad IS NOT NULL OR message_id IS NULL").select("bad", "commit_ts").first()
        if first is None:
            return
        raise self.columns.stopped(
            f"column {first['bad']}: its value in the change at commit_ts {first['commit_ts']} is none of the type"
            " that the column has now, or nobody can tell what TiDB made of it"
            if first["bad"]
            else "rows of a table without a key are recognised by topic, partition and offset, which this input does"
            " not have: read them from Kafka, or from a file that has them"
        )
