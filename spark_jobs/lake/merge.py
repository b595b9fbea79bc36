"""`merge`: changes → a Delta table as the table in TiDB is. Upsert and delete by key; the newest commit_ts wins.

Deleted keys are kept with their commit_ts in a second table beside it (`spark_jobs.lake.tombstones`): an older change
that comes late (TiCDC sends at least once) brings no row back. So a run that is repeated gives the same table. Its
columns follow the table's history (`spark_jobs.lake.merge_columns`); changes that are older than a column's type become
what TiDB made of its rows, as those do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.spark_jobs.lake.bare_deletes import CLOCKS_AGREE, is_since, place_changes, place_of_source
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, emptied_at, types_over_time, unsure_step
from ticdc_bridge.spark_jobs.lake.engines.base import Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.merge_columns import APPLIED, NUMBERS, ORDER, column_names
from ticdc_bridge.spark_jobs.lake.null_values import IS_DELETE, IS_NULL, MESSAGE
from ticdc_bridge.spark_jobs.lake.row_values import INEXACT_KEY, RowValues
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, Tombstones
from ticdc_bridge.spark_jobs.pipeline.result import Summary, TableMerge
from ticdc_bridge.spark_jobs.pipeline.table_choice import NO_LAYOUT, TableLayout
from ticdc_bridge.spark_jobs.pipeline.table_view import NOT_TYPED

_WITH_OLDEST = ("unfit", "key_only", "rows")
"""Kinds of changes of which an error names the oldest."""
_FEW, _FEW_BYTES = 20_000, 1 << 24
_TIDY_EVERY = 64
"""Of so many batches one writes the deleted keys anew, that their files don't become too many."""
ROW_PLACE = "_place"
"""Column of a table without a key (spark_jobs.lake.keyless): the message that a row came with."""
_PLACED = "delete_place"
"""Column of the newest changes, where some deletes have no commit_ts (spark_jobs.lake.bare_deletes)."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What one pass over a run's changes tells, so that Spark plans and runs one job for all of it.

    emptied: older than the table's last TRUNCATE; the others are not. unfit: with a value that its column's type can't
    hold. unsure: older than a statement after which nobody can tell which rows are there. untimed: neither a delete
    nor with a commit_ts. bare_deletes: deletes without one (Avro). key_only: without their values. first_…: the oldest
    commit_ts of these. rows: all others but deletes; first_rows likewise. newest_ts: the newest of all. clocks_agree:
    see CLOCKS_AGREE. changes, size: how many there are, and the bytes of their values. inexact_key: a flag of a key.
    """

    emptied: int
    unfit: int
    unsure: int
    untimed: int
    bare_deletes: int
    key_only: int
    rows: int
    first_unfit: int | None
    first_key_only: int | None
    first_rows: int | None
    newest_ts: int | None
    clocks_agree: bool
    changes: int
    size: int | None
    inexact_key: str | None

    @property
    def are_few(self) -> bool:
        """Whether they may be brought to the driver: Spark plans and runs less for rows that it has there."""
        return self.changes <= _FEW and (self.size or 0) <= _FEW_BYTES


@dataclass(frozen=True, slots=True)
class NewestCounts:
    """The last changes of the keys: how many, how many keys have deletes to remember, and how many changes are older
    than the deletes that were forgotten.
    """

    keys: int
    deleted: int
    late: int


@dataclass(frozen=True)
class MergeTarget(RowValues):
    """A Delta table that changes are merged into. layout: of a table that is made."""

    layout: TableLayout = NO_LAYOUT

    def _layout(self, table: Table) -> tuple[Sequence[str], Sequence[str]]:
        """SetupError USAGE for a column that the table does not have."""
        names = {c.name.lower(): c.name for c in table.columns if not c.virtual}
        wanted = (*self.layout.partition_by, *self.layout.cluster_by)
        if missing := [name for name in wanted if name.lower() not in names]:
            details = f"table {self.id} has no column {missing[0]} to be partitioned or clustered by"
            raise SetupError("USAGE", details=details)
        partition_by, cluster_by = (
            [names[name.lower()] for name in some] for some in (self.layout.partition_by, self.layout.cluster_by)
        )
        return partition_by, cluster_by

    def merge(self, changes: DataFrame, table: Table, steps: list[SchemaChange], summary: Summary) -> int:
        """Applies row changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`); how many keys it
        wrote.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known.
        SetupError USAGE for a table without handle key, STOPPED where a change can't be made exactly.
        """
        began, is_there = time.monotonic(), self.delta.exists()
        self._check_key(table, is_there)
        self._refuse_names(table)
        if self.by_offset:
            self._refuse_other_columns(changes, table)
            steps = []  # no offset is before or after a statement
        emptied = emptied_at(steps)
        stays = is_since(emptied)
        self._refuse_older_key(changes.where(stays), steps)
        unsure = unsure_step(steps, emptied)
        counts = self._count(changes, stays, table, steps, unsure)
        if unsure is not None and (counts.unsure or self._has_rows_before(unsure, emptied)):
            self._refuse_unsure(unsure)
        self._refuse(counts)
        forgotten_ts = -1
        if is_there:
            forgotten_ts = self._follow(table, steps)
        else:
            self._create(table, steps)
        if counts.emptied:
            summary.skipped["before TRUNCATE"] += counts.emptied
        if counts.unfit:
            summary.flags[NOT_TYPED] += counts.unfit
        written = self._write(changes, table, steps, counts, forgotten_ts, summary)
        summary.merges[str(self.id)] = TableMerge(time.monotonic() - began, counts.newest_ts)
        return written

    def _check_key(self, table: Table, is_there: bool) -> None:
        """SetupError USAGE for a table without a key; STOPPED where the rows that are there came without one."""
        if not any(c.handle_key for c in table.columns):
            details = (
                f"table {self.id} has neither a primary key nor a NOT NULL unique key: rows can't be distinguished."
                " --without-key append appends what is inserted, and counts updates and deletes; --changelog has all"
            )
            raise SetupError("USAGE", details=details)
        if is_there and ROW_PLACE in self._columns().keys() - column_names(table):
            details = (
                "its rows were appended while the table had no key (--without-key append), and it has one now: merge"
                " the whole changelog, or a copy of the table and what follows, into another place"
            )
            raise SetupError("STOPPED", where=self.delta.location, details=details)

    def _write(
        self, changes: DataFrame, table: Table, steps: list[SchemaChange], counts: ChangeCounts, forgotten_ts: int,
        summary: Summary,
    ) -> int:  # fmt: skip
        """The changes since the last TRUNCATE into the table, whose columns are as they should be."""
        del summary
        keys = [c for c in table.columns if c.handle_key]
        tombstones = self._tombstones(keys)
        if counts.are_few:
            changes = changes.coalesce(1)  # no shuffle then
        if self.null_values and counts.bare_deletes:
            changes = self._without_null_values(changes, steps, tombstones)
            counts = replace(counts, bare_deletes=changes.where(IS_NULL).count())
        if not counts.bare_deletes:  # else those before it tell where deletes belong
            older_deletes = F.expr(IS_DELETE) if self.null_values else F.lit(False)
            changes = changes.where(is_since(emptied_at(steps)) | older_deletes)
        newest = self._newest(changes, table, tombstones, steps, counts)
        # Spark computes what is persisted again when a table changes that it is made of: here the deleted keys, of
        # which each delete would then look like one that was read before.
        newest = keep_rows(tombstones.mark_late(newest, counts.first_rows), counts.are_few)
        is_tidy_time = crc32(str(counts.newest_ts).encode()) % _TIDY_EVERY == 0
        return self._apply(newest, table, tombstones, forgotten_ts, is_tidy_time)

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the Delta table, if there is one, to where the history is. As `merge` without rows."""
        if self.delta.exists() and self.delta.properties().get(ORDER) != "offset":
            emptied = emptied_at(steps)
            unsure = unsure_step(steps, emptied)
            if unsure is not None and self._has_rows_before(unsure, emptied):
                self._refuse_unsure(unsure)
            self._follow(table, steps)

    # ---- rows
    def _count(
        self, changes: DataFrame, stays: Any, table: Table, steps: list[SchemaChange], unsure: SchemaChange | None
    ) -> ChangeCounts:
        """stays: whether a change is newer than the last TRUNCATE. unsure: the statement of `unsure_step`."""
        row = stays & (F.col("op") != "d")
        conditions = {
            "emptied": ~stays,
            "unfit": stays & self._find_unfit(table, steps),
            "unsure": row & (F.col("commit_ts") <= (unsure.commit_ts if unsure else -1)),
            "untimed": row & F.col("commit_ts").isNull(),
            "bare_deletes": stays & (F.col("op") == "d") & F.col("commit_ts").isNull(),
            "key_only": row & F.array_contains("flags", "handle_key_only"),
            "rows": row,
        }
        size = F.expr("aggregate(map_values(after), 0L, (sum, value) -> sum + coalesce(octet_length(value), 0))")
        inexact = F.when(stays, F.expr(INEXACT_KEY))
        named = (condition.alias(name) for name, condition in conditions.items())
        kinds = changes.select("commit_ts", *named, size.alias("size"), "source", inexact.alias("inexact_key"))
        counts = (F.count_if(name).alias(name) for name in conditions)
        oldest = (F.min(F.when(F.col(name), F.col("commit_ts"))).alias(f"first_{name}") for name in _WITH_OLDEST)
        whole = F.max("commit_ts").alias("newest_ts"), F.count(F.lit(1)).alias("changes"), F.sum("size").alias("size")
        more = F.expr(CLOCKS_AGREE).alias("clocks_agree"), F.max("inexact_key").alias("inexact_key")
        return ChangeCounts(**kinds.agg(*counts, *oldest, *whole, *more).collect()[0].asDict())

    def _has_rows_before(self, step: SchemaChange, emptied: int) -> bool:
        """Whether the Delta table has rows from before a statement that it does not follow yet."""
        if not self.delta.exists() or int(self.delta.properties().get(APPLIED, 0)) >= step.commit_ts:
            return False
        return not self.delta.read().where(f"{COMMIT_TS} > {emptied} AND {COMMIT_TS} <= {step.commit_ts}").isEmpty()

    def _refuse_unsure(self, step: SchemaChange) -> None:
        details = (
            f"{step.unsure} at commit_ts {step.commit_ts}: a changefeed does not tell which rows it took away or"
            " brought back. Start again in another place, with changes that come after it and a copy of the table"
        )
        if step.unclear:
            details = f"SHOW CREATE TABLE at commit_ts {step.commit_ts}: {step.unclear}"
        raise SetupError("STOPPED", where=str(self.id), details=details)

    def _refuse(self, counts: ChangeCounts) -> None:
        """Changes that can't be applied, the newest of which can't be known, or that lack their values."""
        self._refuse_inexact_key(counts.inexact_key)
        if counts.unfit and self.on_lossy == "error":
            details = (
                f"the change at commit_ts {counts.first_unfit} has a date or time that Spark's types can't hold:"
                " --types exact keeps it as text, --on-lossy flag writes NULL"
            )
        elif self.by_offset and counts.newest_ts is not None:
            details = "changes have a commit_ts, which orders them: leave out --order offset"
        elif counts.untimed and not self.by_offset:
            details = f"{counts.untimed} changes have no commit_ts, so that nothing orders them: {self.untimed}"
        elif counts.key_only:
            details = f"a change at commit_ts {counts.first_key_only} carries only its key (a large message)"
        else:
            return
        raise SetupError("STOPPED", where=str(self.id), details=details)

    def _count_newest(self, newest: DataFrame, keys: Sequence[Column], forgotten_ts: int) -> NewestCounts:
        """SetupError STOPPED where nobody can tell whose row one is, or what a value of a row became."""
        is_gone, lacking = F.col("gone"), (F.when(F.col(f"k_{n}").isNull(), F.lit(c.name)) for n, c in enumerate(keys))
        row = (
            newest.coalesce(1)
            .agg(
                F.count(F.lit(1)).alias("keys"),
                F.count_if(_is_deleted(newest)).alias("deleted"),
                F.count_if(~is_gone & (F.col("commit_ts") < forgotten_ts)).alias("late"),
                _oldest(F.when(~is_gone, F.col("bad"))).alias("bad"),
                _oldest(F.coalesce(*lacking)).alias("lacking"),
            )
            .collect()[0]
        )
        if row["bad"] is not None:
            details = (
                f"column {row['bad']['column']}: its value in the change at commit_ts {row['bad']['commit_ts']} is none"
                " of the type that the column has now, or nobody can tell what TiDB made of it, and no later change of"
                " the row is here"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
        if row["lacking"] is not None:
            details = (
                f"the change at commit_ts {row['lacking']['commit_ts']} has no value of column"
                f" {row['lacking']['column']}, which is in the key: nobody can tell whose row it is. Is the definition"
                " that of the table?"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)
        return NewestCounts(row["keys"], row["deleted"], row["late"])

    def _newest(
        self, rows: DataFrame, table: Table, tombstones: Tombstones, steps: list[SchemaChange], counts: ChangeCounts
    ) -> DataFrame:
        """One row a key: its last change. A row whose key was updated is deleted under its old key.

        `buried`: up to where older changes bring no row of the key back. Where deletes have no commit_ts:
        `delete_place`, of the last one; `early`, `_buried`, `_delete_place` as Tombstones.mark_late takes them.
        """
        keys = tombstones.keys
        placed = bool(counts.bare_deletes) or tombstones.have_places()
        place = [F.col("commit_ts"), F.col("position"), F.col("row"), *([place_of_source()] if placed else [])]
        message = F.expr(f"if({IS_DELETE}, source, NULL)" if self.null_values else "NULL").cast(MESSAGE)
        both = self._changes_of_keys(rows, table, steps, [*place, message.alias("message")])
        names = [f"k_{n}" for n in range(len(keys))]
        if self.null_values:  # a table of before a DROP may have had another key
            has_key = F.expr("turn = 1 OR " + " AND ".join(f"{n} IS NOT NULL" for n in names))
            both = both.where(is_since(emptied_at(steps)) | has_key)
        both = both.withColumn("known", F.col("commit_ts").isNotNull())
        both = both.withColumn("gone", (F.col("turn") == 0) | ~F.col("known"))
        # At one commit_ts a delete comes before an insert.
        bound, order = F.lit(None).cast("bigint"), [F.desc_nulls_last("commit_ts"), F.desc("turn")]
        if placed:
            times = self._row_times(keys, names) if counts.bare_deletes else None
            deleted_keys = tombstones.by_key(names)
            both, bound, order = place_changes(both, names, times, deleted_keys, counts.clocks_agree, emptied_at(steps))
        last = Window.partitionBy(*names).orderBy(*order, F.desc("position"), F.desc("row"))
        both = both.withColumn("_n", F.row_number().over(last)).withColumn("buried", bound)
        buried = F.greatest("buried", F.expr("if(gone AND known, commit_ts, NULL)"))
        if self.null_values:
            key = Window.partitionBy(*names)
            both = both.withColumn("messages", F.collect_set("message").over(key))
            buried = F.greatest(buried, F.max(F.when(F.col("message").isNotNull(), F.col("commit_ts"))).over(key))
        both = both.withColumn("buried", buried)
        return both.where("_n = 1").drop("_n", "position", "row", "turn", "bound", "moment", "place", "message")

    def _changes_of_keys(
        self, rows: DataFrame, table: Table, steps: list[SchemaChange], more: Sequence[SparkColumn]
    ) -> DataFrame:
        """A row of each key (k_0 …) that a change brings (`turn` 1, with v_0 …) and takes away (`turn` 0); more: other
        columns. `bad`: the name of a column whose value is none of its type.
        """
        columns, keys = [c for c in table.columns if not c.virtual], [c for c in table.columns if c.handle_key]
        written_keys = [self._value("after", c, steps) for c in keys]
        new = [c.alias(f"k_{n}") for n, c in enumerate(written_keys)]
        # Some changefeeds tell of the old row what changed: a key column that it lacks is as it was.
        old_keys = (F.coalesce(self._value("before", c, steps), now) for c, now in zip(keys, written_keys, strict=True))
        old = [c.alias(f"k_{n}") for n, c in enumerate(old_keys)]
        values = [self._value("after", c, steps).alias(f"v_{n}") for n, c in enumerate(columns)]
        none = [F.lit(None).cast(self._type(c)).alias(f"v_{n}") for n, c in enumerate(columns)]
        none.append(F.lit(None).cast("string").alias("bad"))
        changed = [c for c in columns if c.type.kind in NUMBERS or types_over_time(steps, c)] if len(steps) > 1 else []
        bad = F.coalesce(*(self._bad_column(c, steps) for c in changed), F.lit(None).cast("string")).alias("bad")
        upserts = rows.where("op <> 'd'").select(F.lit(1).alias("turn"), *more, *new, *values, bad)
        deleted = rows.where("op = 'd' or before is not null").select(F.lit(0).alias("turn"), *more, *old, *none)
        return upserts.unionByName(deleted)

    def _row_times(self, keys: Sequence[Column], names: list[str]) -> DataFrame:
        """The commit_ts (_row_ts) of the rows that are there, by key (`names`)."""
        columns = [F.col(quote_name(c.name)).alias(name) for name, c in zip(names, keys, strict=True)]
        return self.delta.read().select(*columns, F.col(COMMIT_TS).alias("_row_ts"))

    def _apply(
        self, newest: DataFrame, table: Table, tombstones: Tombstones, forgotten_ts: int, is_tidy_time: bool
    ) -> int:
        """newest: rows that stay the same, with `late`. is_tidy_time: for the deleted keys."""
        columns, keys = [c for c in table.columns if not c.virtual], tombstones.keys
        names = [f"k_{n}" for n in range(len(keys))]
        counts = self._count_newest(newest, keys, forgotten_ts)
        if not counts.keys:
            return 0
        if counts.deleted:
            tombstones.add_deleted(newest.where(_is_deleted(newest)), is_tidy_time)
        if counts.late:
            self._refuse_forgotten(newest, keys, forgotten_ts)
        pairs = [(c.name, name) for name, c in zip(names, keys, strict=True)]
        values = [*((c.name, f"v_{n}") for n, c in enumerate(columns)), (COMMIT_TS, "commit_ts")]
        delete_if = (
            f"s.gone AND (s.commit_ts > t.{COMMIT_TS}"
            f" OR NOT s.known AND (s.commit_ts IS NULL OR s.commit_ts >= t.{COMMIT_TS}))"
        )
        update_if = f"NOT s.gone AND s.commit_ts > t.{COMMIT_TS}"
        rows = newest.where("NOT late").drop("bad", "buried", "late", "messages", _PLACED)
        self.delta.merge(rows, Upsert(pairs, values, update_if, "NOT s.gone", delete_if))
        return counts.keys

    def _refuse_forgotten(self, newest: DataFrame, keys: Sequence[Column], until: int) -> None:
        """Deleted keys are forgotten when the table gets another key: a row that comes late may be one of them."""
        there = self.delta.read().alias("t")
        same = [F.col(f"t.{quote_name(c.name)}").eqNullSafe(F.col(f"s.k_{n}")) for n, c in enumerate(keys)]
        late = newest.where(f"NOT gone AND commit_ts < {until}").alias("s")
        row = late.join(there, same, "left_anti").select("commit_ts").first()
        if row is not None:
            details = (
                f"the change at commit_ts {row['commit_ts']} comes late, and the table has another key since: nobody"
                " can tell whether its row was deleted. Merge the whole changelog into a new table"
            )
            raise SetupError("STOPPED", where=str(self.id), details=details)


def _is_deleted(newest: DataFrame) -> Any:
    """Whether a key of the newest changes has a delete to remember."""
    is_deleted = F.col("buried").isNotNull()
    return is_deleted | F.col(_PLACED).isNotNull() if _PLACED in newest.columns else is_deleted


def _oldest(column: Any) -> Any:
    """Aggregate: {commit_ts, column} of the oldest change that has a name in `column`; NULL where none has."""
    return F.min(F.when(column.isNotNull(), F.struct("commit_ts", column.alias("column"))))
