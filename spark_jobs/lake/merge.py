"""`merge`: changes → a Delta table as the table in TiDB is. Upsert and delete by key; the newest commit_ts wins.

Deleted keys are kept with their commit_ts in a second table beside it (`spark_jobs.lake.tombstones`): an older change
that comes late (TiCDC sends at least once) brings no row back. So a run that is repeated gives the same table. Its
columns follow the table's history (`spark_jobs.lake.merge_columns`); changes that are older than a column's type become
what TiDB made of its rows, as those do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from schemas.model.errors import SetupError
from schemas.model.spark_types import quoted
from schemas.model.table import Column, Table
from spark_jobs.lake.column_history import SchemaChange, added, names_over_time, types_over_time
from spark_jobs.lake.conversions import converter
from spark_jobs.lake.engines.base import Upsert
from spark_jobs.lake.merge_columns import APPLIED, NUMBERS, MergeColumns
from spark_jobs.lake.tombstones import COMMIT_TS
from spark_jobs.pipeline.result import Summary
from spark_jobs.pipeline.table_view import NOT_TYPED, OnLossy
from spark_jobs.spark.sql_expressions import sql_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class MergeTarget(MergeColumns):
    """A Delta table that changes are merged into. on_lossy: a value that its type can't hold stops the job, or is NULL
    and counted.
    """

    on_lossy: OnLossy = "error"

    def merge(self, changes: DataFrame, table: Table, steps: list[SchemaChange], summary: Summary) -> int:
        """Applies row changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`); how many keys it
        wrote.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known.
        SetupError USAGE for a table without handle key, STOPPED where a change can't be made exactly.
        """
        keys = [c for c in table.columns if c.handle_key]
        if not keys:
            details = f"table {self.id} has neither a primary key nor a NOT NULL unique key: rows can't be told apart"
            raise SetupError("USAGE", details=details)
        if any(c.name.lower() == COMMIT_TS for c in table.columns):
            raise SetupError("USAGE", details=f"table {self.id} has a column {COMMIT_TS} of its own")
        emptied = max((s.commit_ts for s in steps if s.emptied), default=-1)
        rows = changes.where(F.col("commit_ts").isNull() | (F.col("commit_ts") > emptied))
        if self.on_lossy == "error":
            self._refuse_unfit(rows, table, steps)
        self._refuse_unsure(rows, steps, emptied)
        unburied = -1
        if self.delta.exists():
            unburied = self._follow(table, steps)
        else:
            self._create(table, max((s.commit_ts for s in steps), default=0))
        summary.skipped.update({"before TRUNCATE": n} if (n := changes.count() - rows.count()) else {})
        missing = rows.where("commit_ts is null and op <> 'd'").count()
        if missing:
            details = f"{missing} changes have no commit_ts (enable-tidb-extension): the newest one can't be known"
            raise SetupError("STOPPED", where=str(self.id), details=details)
        self._refuse_key_only(rows)
        if self.on_lossy == "flag" and (count := self._unfit(rows, table, steps).count()):
            summary.flags[NOT_TYPED] += count
        newest = self._newest(rows, table, keys, steps).persist()
        try:
            if len(steps) > 1:
                self._refuse_bad(newest)
            self._refuse_keyless(newest, keys)
            return self._apply(newest.drop("bad"), table, keys, unburied)
        finally:
            newest.unpersist()

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the Delta table, if there is one, to where the history is. As `merge` without rows."""
        if self.delta.exists():
            self._refuse_unsure(None, steps, max((s.commit_ts for s in steps if s.emptied), default=-1))
            self._follow(table, steps)

    # ---- rows
    def _refuse_unsure(self, rows: DataFrame | None, steps: list[SchemaChange], emptied: int) -> None:
        """A statement after which nobody can tell which rows are there, and rows that are older."""
        unsure = [step for step in steps if step.unsure and step.commit_ts > emptied]
        if not unsure:
            return
        step, copies = unsure[-1], []
        if self.delta.exists() and int(self.delta.properties().get(APPLIED, 0)) < step.commit_ts:
            there = self.delta.read()
            copies.append(there.where(f"{COMMIT_TS} > {emptied}").select(F.col(COMMIT_TS).alias("commit_ts")))
        if rows is not None:
            copies.append(rows.where("op <> 'd'").select("commit_ts"))
        if any(not one.where(f"commit_ts <= {step.commit_ts}").isEmpty() for one in copies):
            details = (
                f"{step.unsure} at commit_ts {step.commit_ts}: a changefeed does not tell which rows it took away or"
                " brought back. Begin anew in another place, with changes that come after it and a copy of the table"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _unfit(self, rows: DataFrame, table: Table, steps: list[SchemaChange]) -> DataFrame:
        """Rows with a value that its column's type can't hold: such a zero date has no Spark type but text."""
        kinds = self.types.kinds
        columns = [c for c in table.columns if c.type.kind in kinds and not c.virtual]
        unfit = F.lit(False)
        for column in columns:
            for side in ("before", "after"):
                text = self._text(side, column, steps)[0]
                unfit = unfit | (F.expr(text).isNotNull() & self._convert(text, column).isNull())
        return rows.where(unfit) if columns else rows.limit(0)

    def _refuse_unfit(self, rows: DataFrame, table: Table, steps: list[SchemaChange]) -> None:
        if not self.types.kinds:
            return
        found = self._unfit(rows, table, steps).select("commit_ts").first()
        if found is not None:
            details = (
                f"the change at commit_ts {found['commit_ts']} has a date or time that Spark's types can't hold:"
                " --types exact keeps it as text, --on-lossy flag writes NULL"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_key_only(self, rows: DataFrame) -> None:
        cut = rows.where("op <> 'd' and array_contains(flags, 'handle_key_only')").limit(1).collect()
        if cut:
            details = f"a change at commit_ts {cut[0]['commit_ts']} carries only its key (a large message)"
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_keyless(self, newest: DataFrame, keys: list[Column]) -> None:
        """A change that lacks a column of the key, which is never NULL: nobody can tell whose it is."""
        lacking = F.coalesce(*(F.when(F.col(f"k_{n}").isNull(), F.lit(c.name)) for n, c in enumerate(keys)))
        found = newest.select("commit_ts", lacking.alias("lacking")).where("lacking IS NOT NULL").first()
        if found is not None:
            details = (
                f"the change at commit_ts {found['commit_ts']} has no value of column {found['lacking']}, which is in"
                " the key: nobody can tell whose row it is. Is the definition that of the table?"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse_bad(self, newest: DataFrame) -> None:
        """A row that is in the table and has, from an older version, what its column can't be made of now."""
        found = newest.where("bad IS NOT NULL AND NOT gone").first()
        if found is not None:
            details = (
                f"column {found['bad']}: its value in the change at commit_ts {found['commit_ts']} is none of the type"
                " that the column has now, or nobody can tell what TiDB made of it, and no later change of the row is"
                " here"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)

    def _bad(self, column: Column, steps: list[SchemaChange]) -> Any:
        """The column's name where its value (after) can't be made one of the column's type."""
        text, _, received = self._text("after", column, steps)
        return F.when(F.expr(f"({received}) IS NOT NULL") & self._convert(text, column).isNull(), F.lit(column.name))

    def _newest(self, rows: DataFrame, table: Table, keys: list[Column], steps: list[SchemaChange]) -> DataFrame:
        """One row a key: its last change. A row whose key was updated is deleted under its old key."""
        from pyspark.sql import Window

        shown = [c for c in table.columns if not c.virtual]
        written_keys = [self._value("after", c, steps) for c in keys]
        new = [c.alias(f"k_{n}") for n, c in enumerate(written_keys)]
        # Some changefeeds tell of the old row what changed: a key column that it lacks is as it was.
        told = (F.coalesce(self._value("before", c, steps), now) for c, now in zip(keys, written_keys, strict=True))
        old = [c.alias(f"k_{n}") for n, c in enumerate(told)]
        values = [self._value("after", c, steps).alias(f"v_{n}") for n, c in enumerate(shown)]
        none = [F.lit(None).cast(self._type(c)).alias(f"v_{n}") for n, c in enumerate(shown)]
        place = [F.col("commit_ts"), F.col("position"), F.col("row")]
        changed = [c for c in shown if c.type.kind in NUMBERS or types_over_time(steps, c)] if len(steps) > 1 else []
        bad = F.coalesce(*(self._bad(c, steps) for c in changed), F.lit(None).cast("string")).alias("bad")
        written = rows.where("op <> 'd'").select(F.lit(1).alias("turn"), *place, *new, *values, bad)
        none.append(F.lit(None).cast("string").alias("bad"))
        deleted = rows.where("op = 'd' or before is not null").select(F.lit(0).alias("turn"), *place, *old, *none)
        names = [f"k_{n}" for n in range(len(keys))]
        key = Window.partitionBy(*names)
        # Avro's deletes tell no commit_ts: theirs is that of the change before them, after which they come.
        so_far = key.orderBy("position", "row").rowsBetween(Window.unboundedPreceding, 0)
        both = written.unionByName(deleted).withColumn("known", F.col("commit_ts").isNotNull())
        both = both.withColumn("turn", F.when(F.col("known"), F.col("turn")).otherwise(2))
        both = both.withColumn("commit_ts", F.coalesce("commit_ts", F.max("commit_ts").over(so_far)))
        # At one commit_ts a delete comes before an insert.
        last = key.orderBy(F.desc_nulls_last("commit_ts"), F.desc("turn"), F.desc("position"), F.desc("row"))
        newest = both.withColumn("_n", F.row_number().over(last)).where("_n = 1").drop("_n", "position", "row")
        return newest.withColumn("gone", F.col("turn") != 1).drop("turn")

    def _value(self, side: str, column: Column, steps: list[SchemaChange]) -> Any:
        """A column of a row, by the name that it had at the row's commit_ts; what TiDB shows where it was not there."""
        text, present, _ = self._text(side, column, steps)
        typed = self._convert(text, column)
        value = self._shown(column, steps)
        if value is None:
            return typed
        return F.when(F.expr(present), typed).otherwise(F.expr(self._constant(column, value)))

    def _shown(self, column: Column, steps: list[SchemaChange]) -> Any:
        """What rows show that are older than the column; None: NULL, or not known."""
        first = added(steps, column.name)
        value = None if first is None else self._filled(first)[1]
        for _, old, new in types_over_time(steps, column) if value is not None else ():
            convert = converter(old, new)
            try:
                value = convert(value) if convert else value
            except ValueError as error:
                details = f"column {column.name}: nobody can tell what TiDB made of its default {value!r}: {error}"
                raise SetupError("STOPPED", where=str(self.id), details=details) from error
        return value

    def _text(self, side: str, column: Column, steps: list[SchemaChange]) -> tuple[str, str, str]:
        """SQL: a column's text in plain form, whether the row has the column, and the text as it was received."""
        text = f"{side}[{sql_literal(column.name)}]"
        present = f"map_contains_key({side}, {sql_literal(column.name)})"
        for until, name in reversed(names_over_time(steps, column.name)):
            then = "CAST(NULL AS string)" if name is None else f"{side}[{sql_literal(name)}]"
            there = "false" if name is None else f"map_contains_key({side}, {sql_literal(name)})"
            text = f"CASE WHEN commit_ts <= {until} THEN {then} ELSE {text} END"
            present = f"CASE WHEN commit_ts <= {until} THEN {there} ELSE {present} END"
        received = text
        for until, old, new in types_over_time(steps, column):
            if converter(old, new) is not None:
                # Avro's deletes tell no commit_ts: digits and lengths can be brought to the new form all the same.
                when = f"commit_ts <= {until}" + (" OR commit_ts IS NULL" if old.type.kind is new.type.kind else "")
                text = f"CASE WHEN {when} THEN {self._converted(text, old, new)} ELSE {text} END"
        return text, present, received

    def _apply(self, newest: DataFrame, table: Table, keys: list[Column], unburied: int) -> int:
        shown = [c for c in table.columns if not c.virtual]
        names = [f"k_{n}" for n in range(len(keys))]
        count = newest.count()
        if not count:
            return 0
        stones = self._stones(keys)
        stones.bury(newest.where("gone and known").select(*names, "commit_ts"))
        self._refuse_unburied(newest, keys, unburied)
        pairs = [(c.name, name) for name, c in zip(names, keys, strict=True)]
        values = [*((c.name, f"v_{n}") for n, c in enumerate(shown)), (COMMIT_TS, "commit_ts")]
        gone = (
            f"s.gone AND (s.commit_ts > t.{COMMIT_TS}"
            f" OR NOT s.known AND (s.commit_ts IS NULL OR s.commit_ts >= t.{COMMIT_TS}))"
        )
        written = f"NOT s.gone AND s.commit_ts >= t.{COMMIT_TS}"
        self.delta.merge(stones.without_late(newest), Upsert(pairs, values, written, "NOT s.gone", gone))
        return count

    def _refuse_unburied(self, newest: DataFrame, keys: list[Column], until: int) -> None:
        """Deleted keys are forgotten when the table gets another key: a row that comes late may be one of them."""
        if until < 0:
            return
        there = self.delta.read().alias("t")
        same = [F.col(f"t.{quoted(c.name)}").eqNullSafe(F.col(f"s.k_{n}")) for n, c in enumerate(keys)]
        late = newest.where(f"NOT gone AND commit_ts < {until}").alias("s")
        found = late.join(there, same, "left_anti").select("commit_ts").first()
        if found is not None:
            details = (
                f"the change at commit_ts {found['commit_ts']} comes late, and the table has another key since: nobody"
                " can tell whether its row was deleted. Merge the whole changelog into a new table"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
