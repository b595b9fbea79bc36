"""What a changelog and a table of row versions share: columns that are never dropped, and the values of all changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, types_over_time
from ticdc_bridge.spark_jobs.lake.dropped_columns import ClearingStatement, WholeHistory, whole_history
from ticdc_bridge.spark_jobs.lake.merge_columns import NUMBERS, ORDER
from ticdc_bridge.spark_jobs.lake.row_values import INEXACT_KEY, RowValues
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_view import NOT_TYPED

CLEARED = "bridge.clearing_ts"
"""Table property: the newest statement that took rows away and was applied."""
COMMIT_TIME = "CAST(timestamp_millis(shiftright({0}, 18)) AS timestamp)"
"""SQL: the time of a commit_ts."""


@dataclass(frozen=True)
class PastRows(RowValues, ABC):
    """A table of the lake that has every change of a table's rows, over its DDL."""

    keeps_past: ClassVar[bool] = True

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the table, if there is one, to where the history is."""
        if self.delta.exists() and self.delta.properties().get(ORDER) != "offset":
            history = whole_history(table, steps)
            self._prepare(history)
            self._apply_clearing(history)

    @abstractmethod
    def _apply_clearing(self, history: WholeHistory) -> None:
        """Statements that took rows away, those that the table has not yet."""

    def _new_clearing(self, history: WholeHistory) -> list[ClearingStatement]:
        """The statements that are not applied yet and took rows away."""
        until = int(self.delta.properties().get(CLEARED, -1))

        def has_older(one: ClearingStatement) -> bool:
            return not self.delta.read().where(f"{self.time_column} <= {one.commit_ts}").isEmpty()

        return [one for one in history.clearing if one.commit_ts > until and not (one.is_first and not has_older(one))]

    def _record_cleared(self, history: WholeHistory) -> None:
        cleared = str(max((one.commit_ts for one in history.clearing), default=-1))
        if history.clearing and int(self.delta.properties().get(CLEARED, -1)) < int(cleared):
            self.delta.set_property(CLEARED, cleared)

    def _history(self, changes: DataFrame, table: Table, steps: list[SchemaChange]) -> WholeHistory:
        """SetupError USAGE for a table with a column that is called as one of ours."""
        if self.by_offset:
            self._refuse_other_columns(changes, table)
            steps = []  # no offset is before or after a statement
        history = whole_history(table, steps)
        self._refuse_names(history.table)
        return history

    def _prepare(self, history: WholeHistory) -> None:
        """The table with the columns that the history leads to."""
        if self.delta.exists():
            self._follow(history.table, history.steps)
        else:
            self._create(history.table, history.steps)

    # ---- values
    def _past_value(self, side: str, column: Column, history: WholeHistory) -> Any:
        """A column of a row: of `after`, what TiDB shows where it was not there yet; of `before`, what was sent."""
        if side == "before":
            return self._convert(self._text(side, column, history.steps)[0], column)
        value = self._value(side, column, history.steps)
        at = history.dropped.get(column.name)
        return value if at is None else F.when(F.col("commit_ts") <= at, value)

    def _check_values(self, changes: DataFrame, history: WholeHistory, summary: Summary) -> None:
        """SetupError STOPPED where a change lacks its values, or has one that can't become one of its column's type.

        Values that no Spark type holds are counted with --on-lossy flag.
        """
        columns, steps = [c for c in history.table.columns if not c.virtual], history.steps
        typed = [c for c in columns if c.type.kind in NUMBERS or types_over_time(steps, c)] if len(steps) > 1 else []
        bad = F.coalesce(*(self._bad_column(c, steps) for c in typed), F.lit(None).cast("string"))
        kinds = changes.select(
            "commit_ts",
            F.expr("op <> 'd' AND commit_ts IS NULL").alias("untimed"),
            self._find_unfit(history.table, steps).alias("unfit"),
            F.array_contains("flags", "handle_key_only").alias("key_only"),
            bad.alias("bad"),
            F.expr(INEXACT_KEY).alias("inexact_key"),
        )
        row = kinds.agg(
            F.count_if("unfit").alias("unfit"),
            F.count_if("untimed").alias("untimed"),
            F.min(F.when(F.col("unfit"), F.col("commit_ts"))).alias("first_unfit"),
            F.min(F.when(F.col("key_only"), F.col("commit_ts"))).alias("key_only"),
            F.min(F.when(F.col("bad").isNotNull(), F.struct("commit_ts", "bad"))).alias("bad"),
            F.max("inexact_key").alias("inexact_key"),
        ).collect()[0]
        self._refuse_inexact_key(row["inexact_key"])
        details = None
        if row["unfit"] and self.on_lossy == "error":
            details = (
                f"the change at commit_ts {row['first_unfit']} has a date or time that Spark's types can't hold:"
                " --types exact keeps it as text, --on-lossy flag writes NULL"
            )
        elif row["untimed"] and not self.by_offset:
            details = f"{row['untimed']} changes have no commit_ts, so that nothing orders them: {self.untimed}"
        elif row["key_only"] is not None:
            details = f"a change at commit_ts {row['key_only']} carries only its key (a large message)"
        elif row["bad"] is not None:
            details = (
                f"column {row['bad']['bad']}: its value in the change at commit_ts {row['bad']['commit_ts']} is none of"
                " the type that the column has now, or nobody can tell what TiDB made of it. Begin in another place,"
                " with the changes that come after the column got its type"
            )
        if details is not None:
            raise SetupError("STOPPED", where=str(self.id), details=details)
        if row["unfit"]:
            summary.flags[NOT_TYPED] += row["unfit"]
