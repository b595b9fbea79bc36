"""`merge --without-key append`: of a table whose rows nothing tells apart, what is inserted is appended.

Updates and deletes can't be applied, as nobody can tell which row they mean: they are counted. A message that is read
again adds no row; one that TiCDC sends again does, as two equal rows may be two inserts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.lake.bare_deletes import is_since
from ticdc_bridge.spark_jobs.lake.column_history import emptied_at
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.merge import ROW_PLACE, ChangeCounts, MergeTarget
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ticdc_bridge.schemas.model.table import Table
    from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
    from ticdc_bridge.spark_jobs.pipeline.result import Summary

_LEFT_OUT = {"u": "update of a table without a key", "d": "delete of a table without a key"}


@dataclass(frozen=True)
class KeylessTarget(MergeTarget):
    """A table without a key, which inserts are appended to."""

    @property
    def metadata(self) -> tuple[TableColumn, ...]:
        return (*super().metadata, TableColumn(ROW_PLACE, "string"))

    def _check_key(self, table: Table, is_there: bool) -> None:
        del table
        if is_there and ROW_PLACE not in self._columns():
            details = (
                "its rows were merged by a key that the table does not have any more: append what follows"
                " (--without-key append) to another place"
            )
            raise SetupError("STOPPED", where=self.delta.location, details=details)

    def _write(
        self, changes: DataFrame, table: Table, steps: list[SchemaChange], counts: ChangeCounts, forgotten_ts: int,
        summary: Summary,
    ) -> int:  # fmt: skip
        changes = changes.where(is_since(emptied_at(steps)))
        columns = [c for c in table.columns if not c.virtual]
        source = ("source.topic", "source.partition", "source.offset", F.unix_millis("source.timestamp"), "row")
        is_told = F.col("source.topic").isNotNull() & F.col("source.offset").isNotNull()
        place = F.when(is_told, F.concat_ws("/", *source)).alias("place")
        values = [self._value("after", c, steps).alias(f"v_{n}") for n, c in enumerate(columns)]
        bad = F.coalesce(*(self._bad_column(c, steps) for c in columns)).alias("bad")
        rows = changes.select("op", "commit_ts", place, *values, bad).dropDuplicates(["place"])
        rows = keep_rows(rows, counts.are_few)
        self._check_rows(rows.where("op IN ('c', 'r')"))
        for row in changes.where("op IN ('u', 'd')").groupBy("op").count().collect():
            summary.skipped[_LEFT_OUT[row["op"]]] += row["count"]
        inserted = rows.where("op IN ('c', 'r')").drop("op", "bad")
        pairs = [*((c.name, f"v_{n}") for n, c in enumerate(columns)), (COMMIT_TS, "commit_ts")]
        upsert = Upsert([(ROW_PLACE, "place")], [*pairs, (ROW_PLACE, "place")], update="false")
        if count := inserted.count():
            self.delta.merge(inserted, upsert)
        return count

    def _check_rows(self, rows: DataFrame) -> None:
        """SetupError STOPPED for a value that its column can't hold, and for rows of which the message is not known."""
        first = rows.where("bad IS NOT NULL OR place IS NULL").select("bad", "commit_ts").first()
        if first is None:
            return
        details = (
            f"column {first['bad']}: its value in the change at commit_ts {first['commit_ts']} is none of the type"
            " that the column has now, or nobody can tell what TiDB made of it"
            if first["bad"]
            else "rows of a table without a key are recognised by topic, partition and offset, which this input does"
            " not have: read them from Kafka, or from a file that has them"
        )
        raise SetupError("STOPPED", where=str(self.id), details=details)
