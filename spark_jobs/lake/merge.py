"""Applies change events to a table of the lake until it equals TiDB's. Upsert and delete by key; the newest wins.

Deleted keys are kept with their commit_ts in a second table beside it (`spark_jobs.lake.tombstones`): an older change
that comes late (TiCDC sends at least once) brings no row back. So a run that is repeated gives the same table. Its
columns follow the table's history (`spark_jobs.lake.table_columns`); changes that are older than a column's type become
what TiDB made of its rows, as those do.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.charsets import collation_weight
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake import table_columns
from ticdc_bridge.spark_jobs.lake.change_checks import ChangeCounts, check_counts, count_changes, describe_unfit
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, emptied_at, load_again, unsure_step, unsure_text
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import NO_TABLE, UnsupportedTable
from ticdc_bridge.spark_jobs.lake.direct_merge import NO_VECTORS, REFUSALS, DirectTable
from ticdc_bridge.spark_jobs.lake.engines.base import Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.null_values import IS_DELETE, IS_NULL, MESSAGE, without_null_values
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, Tombstones
from ticdc_bridge.spark_jobs.lake.untimed_deletes import is_since, kafka_position, order_changes
from ticdc_bridge.spark_jobs.pipeline.result import Summary, TableMerge

KIND = table_columns.TableKind()
_TIDY_EVERY = 64
"""Of so many batches one writes the deleted keys anew, that their files don't become too many."""
ROW_MESSAGE = "_place"
"""Column of a table without a key (spark_jobs.lake.keyless): the message that a row came with."""
DROPPED = "in a dropped partition"
"""What rows are counted as that were in a partition which was dropped after them."""
_DELETE_POSITION = "delete_position"
"""Column of the newest changes, where some deletes have no commit_ts (spark_jobs.lake.untimed_deletes)."""


class WriteRows(Protocol):
    """Brings changes into a current table: by commit_ts, by offset (offset_order), without a key (keyless)."""

    def __call__(
        self, columns: TableColumns, changes: DataFrame, rows: RowValues, counts: ChangeCounts, forgotten_ts: int,
        summary: Summary,
    ) -> int:  # fmt: skip
        """How many rows or keys it wrote. forgotten_ts: deletes up to there are not kept by key any more."""


def check_has_key(columns: TableColumns, table: Table, exists: bool) -> None:
    """SetupError USAGE for a table without a key; STOPPED where the rows that are there came without one."""
    if not any(c.handle_key for c in table.columns):
        details = (
            f"table {columns.settings.id} has no primary or NOT NULL unique key: its rows can't be distinguished."
            f" {Hint.WITHOUT_KEY_APPEND} appends inserts and counts updates and deletes; {Hint.CHANGELOG} has all"
        )
        raise SetupError("USAGE", details=details)
    if exists and ROW_MESSAGE in columns.types().keys() - table_columns.column_names(table):
        details = (
            f"its rows were appended while the table had no key ({Hint.WITHOUT_KEY_APPEND}), and it has one now."
            f" {table_columns.load_into_new(columns.settings.id)}"
        )
        raise SetupError("STOPPED", where=columns.lake_table.location, details=details)


@dataclass(frozen=True)
class CurrentTable:
    """A table of the lake that is as the table in TiDB is, and need not be there yet.

    check_key: SetupError USAGE or STOPPED for a table whose key, or lack of one, `write` can't write by. loading: the
    TSO of the snapshot that the changes are, None for those of a changefeed.
    """

    columns: TableColumns
    write: WriteRows
    check_key: Callable[[TableColumns, Table, bool], None] = check_has_key
    loading: int | None = None

    def _since(self, emptied: int) -> int:
        """Up to where changes are none of the table's: a TRUNCATE (`emptied`), or a snapshot that has them all."""
        loaded = self.columns.time_of(table_columns.LOADED)
        return emptied if loaded == self.loading else max(emptied, loaded)

    def merge(self, changes: DataFrame, table: Table, steps: list[SchemaChange], summary: Summary) -> int:
        """Applies row changes (change_schema.CHANGES with maps, and `position`); how many keys it wrote.

        steps: the table's history, [] without DDL. SetupError USAGE for a table without handle key, STOPPED where a
        change can't be made exactly.
        """
        began, settings = time.monotonic(), self.columns.settings
        self.check_key(self.columns, table, self.columns.lake_table.exists())
        self.columns.refuse_names(table)
        try:
            keys, newest_ts = self.open_directly(table, steps).merge_frame(changes)
        except REFUSALS as why:
            if str(why) not in (NO_VECTORS, NO_TABLE):
                summary.ways[str(settings.id), str(why)] += 1
        else:
            summary.ways[str(settings.id), ""] += 1
            summary.merges[str(settings.id)] = TableMerge(time.monotonic() - began, newest_ts)
            return keys
        rows = RowValues(self.columns.values, table, [] if settings.by_offset else steps)
        if settings.by_offset:  # no offset is before or after a statement
            rows.refuse_other_columns(changes, bool(steps))
        emptied = emptied_at(rows.steps)
        since = self._since(emptied)
        rows.refuse_older_key(changes.where(is_since(since)))
        unsure = unsure_step(rows.steps, since)
        unsure_ts = unsure.commit_ts if unsure else -1
        counts = count_changes(changes, rows, since, (since, unsure_ts), keeps_past=False)
        if unsure is not None and (counts.unsure or self._has_rows_before(unsure, since)):
            raise self._unsure_error(unsure)
        if settings.by_offset and counts.newest_ts is not None:
            raise self.columns.stopped("changes have a commit_ts, which orders them: leave out --order offset")
        check_counts(counts, settings, summary)
        if counts.emptied:
            summary.skipped["before TRUNCATE" if since == emptied else "before the snapshot"] += counts.emptied
        if counts.emptied == counts.changes and _is_loaded(since, emptied, rows.steps):
            return 0
        forgotten_ts = self.columns.follow_or_create(table, rows.steps)
        self.columns.create_tombstones(table)
        written = self.write(self.columns, changes, rows, counts, forgotten_ts, summary)
        summary.merges[str(settings.id)] = TableMerge(time.monotonic() - began, counts.newest_ts)
        return written

    def open_directly(self, table: Table, steps: list[SchemaChange]) -> DirectTable:
        """The table to be written without Spark's MERGE. UnsupportedTable where that can't be."""
        if self.write is not write_by_commit_ts or self.loading is not None:
            raise UnsupportedTable(NO_VECTORS)
        return DirectTable.of(self.columns, table, steps)

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the table, if there is one, to where the history is. As `merge` without rows."""
        if self.columns.can_follow():
            emptied = emptied_at(steps)
            if _is_loaded(since := self._since(emptied), emptied, steps):
                return
            unsure = unsure_step(steps, since)
            if unsure is not None and self._has_rows_before(unsure, since):
                raise self._unsure_error(unsure)
            self.columns.follow(table, steps)

    def _has_rows_before(self, step: SchemaChange, since: int) -> bool:
        """True if the table has rows from before a statement that it does not follow yet."""
        lake_table = self.columns.lake_table
        if not lake_table.exists() or int(lake_table.properties().get(table_columns.APPLIED, 0)) >= step.commit_ts:
            return False
        return not lake_table.read().where(f"{COMMIT_TS} > {since} AND {COMMIT_TS} <= {step.commit_ts}").isEmpty()

    def _unsure_error(self, step: SchemaChange) -> SetupError:
        if step.unclear:
            details = f"SHOW CREATE TABLE at commit_ts {step.commit_ts}: {step.unclear}"
            return self.columns.stopped(f"{details}. {table_columns.load_into_new(self.columns.settings.id)}")
        return self.columns.stopped(unsure_text(step.unsure, step.commit_ts, step.why, self.columns.settings.id))


def _is_loaded(since: int, emptied: int, steps: Sequence[SchemaChange]) -> bool:
    """True if a snapshot follows all statements: its columns may be those of later ones, which are not read yet.

    since, emptied: up to where changes are none of the table's, by a snapshot or by a TRUNCATE.
    """
    return since > emptied and bool(steps) and all(step.commit_ts <= since for step in steps)


def count_newest(newest: DataFrame, rows: RowValues, columns: TableColumns, forgotten_ts: int) -> Row:
    """The last changes of the keys: `keys`, how many; `deleted`, of how many keys deletes are to be remembered; `late`,
    how many are older than the deletes that were forgotten; `dropped`: of how many the row was in a partition that was
    dropped after it.

    SetupError STOPPED where it is not known whose row it is, or what a value of a row became.
    """

    def oldest(name: SparkColumn) -> SparkColumn:
        return F.min(F.when(name.isNotNull(), F.struct("commit_ts", name.alias("column"))))

    is_deleted = F.col("is_deleted")
    dropped = F.col("dropped") if "dropped" in newest.columns else F.lit(False)
    row = (
        newest.coalesce(1)
        .agg(
            F.count(F.lit(1)).alias("keys"),
            F.count_if(_has_delete(newest)).alias("deleted"),
            F.count_if(~is_deleted & (F.col("commit_ts") < forgotten_ts)).alias("late"),
            F.count_if(dropped).alias("dropped"),
            F.count_if(dropped.isNull()).alias("doubtful"),
            oldest(F.when(~is_deleted, F.col("bad"))).alias("bad"),
            oldest(rows.lacking_key()).alias("lacking"),
        )
        .collect()[0]
    )
    if row["doubtful"]:
        raise columns.doubt_error()
    if row["bad"] is not None:
        reason = describe_unfit(row["bad"]["column"], row["bad"]["commit_ts"])
        advice = load_again(columns.settings.id)
        raise columns.stopped(f"{reason}. No later change of the row is available. {advice}")
    if row["lacking"] is not None:
        raise rows.lacking_key_error(*row["lacking"])
    columns.refuse_partitions(newest.where("NOT is_deleted"), rows.value_pairs)
    return row


def write_by_commit_ts(
    columns: TableColumns, changes: DataFrame, rows: RowValues, counts: ChangeCounts, forgotten_ts: int,
    summary: Summary,
) -> int:  # fmt: skip
    """A WriteRows: of a key's changes the one with the newest commit_ts counts."""
    null_values, lake_table = columns.settings.null_values, columns.lake_table
    tombstones = columns.tombstones(rows.keys)
    if counts.are_few:
        changes = changes.coalesce(1)  # no shuffle then
    if null_values and counts.untimed_deletes:
        changes = without_null_values(changes, rows.deleted_keys(), tombstones.messages())
        counts = replace(counts, untimed_deletes=changes.where(IS_NULL).count())
    # Changes from before a TRUNCATE go only now, and stay where deletes have no commit_ts: they tell which change
    # such a delete follows; without them one of before it would take a row that came after (docs/decisions/0040).
    if not counts.untimed_deletes:
        older_deletes = F.expr(IS_DELETE) if null_values else F.lit(False)
        changes = changes.where(is_since(counts.since) | older_deletes)
    newest = _newest(columns, changes, rows, tombstones, counts)
    if dropped := rows.dropped_sql(counts.since, counts.first_rows):  # the key tells the partition: no older change
        newest = newest.withColumn("dropped", F.expr(f"NOT is_deleted AND ({dropped})"))  # brings it back
        newest = newest.withColumn("is_deleted", F.col("is_deleted") | F.coalesce("dropped", F.lit(False)))
    # Spark computes what is persisted again when a table changes that it is made of: here the deleted keys, of
    # which each delete would then look like one that was read before (docs/decisions/0031).
    newest = keep_rows(tombstones.mark_late(newest, counts.first_rows), counts.are_few)
    found = count_newest(newest, rows, columns, forgotten_ts)
    if not found["keys"]:
        return 0
    if found["dropped"]:
        summary.skipped[DROPPED] += found["dropped"]
    # Before the rows go: a job that is killed between the two finds the deletes again, which change nothing twice;
    # the other way round a late change would bring a row back (docs/decisions/0031, 0042).
    if found["deleted"]:
        # By a hash of what the batch has, so that one that comes again decides the same (docs/decisions/0039).
        is_tidy_time = crc32(str(counts.newest_ts).encode()) % _TIDY_EVERY == 0
        tombstones.add_deleted(newest.where(_has_delete(newest)), is_tidy_time)
    _refuse_alike_keys(newest, rows, columns)
    if found["late"]:
        # Deleted keys are forgotten by `maintain`, and when the table gets another key: a late row may be one of them.
        stored = lake_table.read().alias("t")
        same = [F.col(f"t.{quote_name(column)}").eqNullSafe(F.col(f"s.{name}")) for column, name in rows.key_pairs]
        late = newest.where(f"NOT is_deleted AND NOT late AND commit_ts < {forgotten_ts}").alias("s")
        row = late.join(stored, same, "left_anti").select("commit_ts").first()
        if row is not None:
            raise columns.stopped(
                f"the change at commit_ts {row['commit_ts']} comes late. Since then the table got another key, or"
                " `maintain` removed the deleted keys of that time, so whether its row was deleted is not known."
                f" {load_again(columns.settings.id)}"
            )
    values = [*rows.value_pairs, (COMMIT_TS, "commit_ts")]
    delete_if = (
        f"s.is_deleted AND (s.commit_ts > t.{COMMIT_TS}"
        f" OR NOT s.is_timed AND (s.commit_ts IS NULL OR s.commit_ts >= t.{COMMIT_TS}))"
    )
    # A row that comes again at its own commit_ts is not written again (docs/decisions/0042).
    update_if = f"NOT s.is_deleted AND s.commit_ts > t.{COMMIT_TS}"
    upserted = newest.where("NOT late").drop("bad", "deleted_until_ts", "late", "messages", "dropped", _DELETE_POSITION)
    lake_table.merge(upserted, Upsert(rows.key_pairs, values, update_if, "NOT s.is_deleted", delete_if))
    return int(found["keys"])


def _refuse_alike_keys(newest: DataFrame, rows: RowValues, columns: TableColumns) -> None:
    """SetupError STOPPED for a key that TiDB's collation takes for that of a row that stays: the old row is missing."""
    names, alike = rows.key_names, {n: c for n, c in zip(rows.key_names, rows.keys, strict=True) if "_ci" in c.collate}
    if not alike or columns.settings.on_lossy != "error":
        return
    stays = columns.lake_table.read().select(*rows.stored_keys()).join(newest.select(*names), names, "left_anti")
    comes = newest.where("NOT is_deleted AND NOT late").select("commit_ts", *names)
    others = comes.select(*names).union(stays.select(*names)).toDF(*(f"other_{n}" for n in names))
    # Spark's collation finds what may be the same, and TiDB's decides.
    forms = {n: f"collate(rtrim({{}}{n}), 'UNICODE_CI_AI')" if n in alike else f"{{}}{n}" for n in names}
    same = " AND ".join(f"{form.format('')} = {form.format('other_')}" for form in forms.values())
    pairs = comes.join(others, F.expr(same)).where(" OR ".join(f"{n} <> other_{n}" for n in alike))
    for row in pairs.orderBy(F.desc("commit_ts")).collect():
        key, other = ([collation_weight(row[of + n], c.collate) for n, c in alike.items()] for of in ("", "other_"))
        if key == other:
            raise columns.stopped(
                f"the key of the change at commit_ts {row['commit_ts']} equals another row's by its collation, and TiDB"
                " has one of the two: the update was sent without its old row. Let the changefeed send old rows; if"
                f" TiDB compares keys by their bytes (no new collations), {Hint.ON_LOSSY_FLAG} keeps both."
                f" {load_again(columns.settings.id)}"
            )


def _newest(
    columns: TableColumns, changes: DataFrame, rows: RowValues, tombstones: Tombstones, counts: ChangeCounts
) -> DataFrame:
    """One row a key: its last change. A row whose key was updated is deleted under its old key.

    `deleted_until_ts`: up to where older changes bring no row of the key back. Where deletes have no commit_ts:
    `delete_position`, of the last one; `early`, `_deleted_until_ts`, `_delete_position` as mark_late takes them.
    """
    null_values, names, emptied = columns.settings.null_values, rows.key_names, emptied_at(rows.steps)
    has_positions = bool(counts.untimed_deletes) or tombstones.have_positions()
    order_columns = [F.col(name) for name in ("commit_ts", "position", "row")]
    message = F.expr(f"if({IS_DELETE}, source, NULL)" if null_values else "NULL").cast(MESSAGE).alias("message")
    more = [*order_columns, message, *([kafka_position()] if has_positions else [])]
    both = rows.changes_of_keys(changes, more)
    if null_values:  # a table of before a DROP may have had another key
        has_key = F.expr("turn = 1 OR " + " AND ".join(f"{n} IS NOT NULL" for n in names))
        both = both.where(is_since(emptied) | has_key)
    both = both.withColumn("is_timed", F.col("commit_ts").isNotNull())
    both = both.withColumn("is_deleted", (F.col("turn") == 0) | ~F.col("is_timed"))
    # At one commit_ts a delete comes before an insert: an update of the key is both (docs/decisions/0031).
    bound, order = F.lit(None).cast("bigint"), [F.desc_nulls_last("commit_ts"), F.desc("turn")]
    if has_positions:
        stored = columns.lake_table.read().select(*rows.stored_keys(), F.col(COMMIT_TS).alias("_row_ts"))
        times, deleted_keys = stored if counts.untimed_deletes else None, tombstones.by_key(names)
        both, bound, order = order_changes(both, names, times, deleted_keys, counts.clocks_agree, emptied)
    last = Window.partitionBy(*names).orderBy(*order, F.desc("position"), F.desc("row"))
    both = both.withColumn("_n", F.row_number().over(last)).withColumn("deleted_until_ts", bound)
    deleted_until_ts = F.greatest("deleted_until_ts", F.expr("if(is_deleted AND is_timed, commit_ts, NULL)"))
    if null_values:
        key = Window.partitionBy(*names)
        both = both.withColumn("messages", F.collect_set("message").over(key))
        last_delete = F.max(F.when(F.col("message").isNotNull(), F.col("commit_ts"))).over(key)
        deleted_until_ts = F.greatest(deleted_until_ts, last_delete)
    newest = both.withColumn("deleted_until_ts", deleted_until_ts).where("_n = 1")
    return newest.drop("_n", "position", "row", "turn", "bound", "moment", "kafka_position", "message")


def _has_delete(newest: DataFrame) -> Any:
    """Whether a key of the newest changes has a delete to remember."""
    is_deleted = F.col("deleted_until_ts").isNotNull()
    return is_deleted | F.col(_DELETE_POSITION).isNotNull() if _DELETE_POSITION in newest.columns else is_deleted
