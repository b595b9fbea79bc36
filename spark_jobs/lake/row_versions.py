"""The versions of a table's rows (SCD type 2): each with the time from which and up to which it was in the table.

A change opens a version of its row, and the next change of the key, or a TRUNCATE, ends it. Versions of the keys in a
batch are made anew from the batch and from what is there, so a change that comes late splits a version, and one that
comes again changes nothing. A delete that ends no version that is known stands as a row without duration: of a version
that comes later it tells where that ends. Deletes without a commit_ts: spark_jobs.lake.untimed_ends.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake import untimed_ends
from ticdc_bridge.spark_jobs.lake.change_checks import check_counts, count_changes
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, unsure_text
from ticdc_bridge.spark_jobs.lake.dropped_columns import ClearingStatement, FullHistory, full_history
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.lake.null_values import IS_DELETE, IS_NULL, without_null_values
from ticdc_bridge.spark_jobs.lake.partition_sql import can_be_unknown
from ticdc_bridge.spark_jobs.lake.past_rows import CLEARED, COMMIT_TIME, new_clearing, past_history, record_cleared
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import LOADED, TableColumns, TableKind
from ticdc_bridge.spark_jobs.lake.tombstones import Tombstones
from ticdc_bridge.spark_jobs.lake.untimed_deletes import is_since, kafka_position
from ticdc_bridge.spark_jobs.pipeline.result import Summary

FROM_TS, TO_TS, FROM, TO = "_valid_from_ts", "_valid_to_ts", "_valid_from", "_valid_to"
"""Columns: the commit_ts and the time of a version's change, and of the one that ended it."""
MESSAGE = "_valid_to_message"
"""Column: the message of the delete that ended a version and has no commit_ts; TO_TS is NULL then, TO Kafka's time."""

_STORED = {
    "was": "string", "ended": "bigint", "ended_at": "timestamp", "stored_message": untimed_ends.MESSAGE,
    "message": untimed_ends.MESSAGE,
}  # fmt: skip
"""Columns of events (`_stored_events`) that a batch's own lack."""


KIND = TableKind(
    (
        TableColumn(FROM, "timestamp"), TableColumn(TO, "timestamp"), TableColumn(FROM_TS, "bigint"),
        TableColumn(TO_TS, "bigint"), TableColumn(MESSAGE, untimed_ends.MESSAGE)
    ), FROM_TS, keeps_past=True,
)  # fmt: skip


@dataclass(frozen=True)
class RowVersions:
    """A table of row versions, which need not be there yet."""

    columns: TableColumns

    def merge(self, changes: DataFrame, table: Table, steps: list[SchemaChange], summary: Summary) -> int:
        """Applies row changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`); how many versions it
        wrote: opened, ended or split.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known. SetupError USAGE for a
        table without a key, STOPPED for a change without a commit_ts, or that can't be written exactly.
        """
        settings = self.columns.settings
        if not table.handle_key:
            raise SetupError("USAGE", details=f"table {settings.id} has no primary or NOT NULL unique key")
        history, rows = past_history(self.columns, changes, table, steps)
        emptied, unsure = history.emptied, history.unsure
        if unsure is not None and unsure.commit_ts <= self.columns.time_of(LOADED):
            changes = changes.where(is_since(unsure.commit_ts) | (F.col("op") == "d"))
            unsure = None
        counts = count_changes(changes, rows, -1, (emptied, unsure.commit_ts if unsure else -1), keeps_past=True)
        check_counts(counts, settings, summary)
        rows.refuse_older_key(changes)
        if counts.unknown_times:
            raise self.columns.stopped(
                f"{counted(counts.unknown_times, 'delete')} without a commit_ts, and without a timestamp of Kafka: the"
                " ends of row versions are not known. Read them from Kafka, or from a message file that has timestamps"
            )
        if unsure is not None:
            self._refuse_unsure(unsure, has_rows=bool(counts.unsure))
        self._follow(history)
        has_untimed = bool(counts.untimed_deletes)
        tombstones, received = self.columns.tombstones(rows.keys), changes
        if settings.null_values and has_untimed:
            changes = without_null_values(changes, rows.deleted_keys(), tombstones.messages())
            has_untimed = not changes.where(IS_NULL).isEmpty()
        events = _events(changes, rows)
        row = events.select("ts", rows.lacking_key().alias("column")).where("`column` IS NOT NULL").first()
        if row is not None:
            raise rows.lacking_key_error(row["ts"], row["column"])
        names = rows.key_names
        if not (has_untimed or tombstones.have_positions()):
            stored = self._stored_events(events, rows, history.clearing).where("message IS NULL")
            events = events.unionByName(stored, allowMissingColumns=True).withColumn("message", F.col("stored_message"))
            count = self._write(events, rows, history)
            self._keep_messages(received, rows, tombstones)
            return count
        newest = self._newest_times(rows, history.clearing)
        placed = untimed_ends.order_ends(events, names, newest, tombstones, counts.clocks_agree, emptied)
        stored = self._stored_events(placed, rows, history.clearing)
        marks = placed.select(*names, "_deleted_until_ts", "_delete_position", "late_ts", "_row_ts")
        marks = marks.dropDuplicates(names)
        turn = F.when(F.col("message").isNotNull(), F.expr(untimed_ends.turn_of_stored())).otherwise(F.col("turn"))
        stored = stored.join(marks, names, "left").withColumn("turn", turn)
        events = placed.where("ts IS NOT NULL")
        for more in (stored, untimed_ends.earlier_deletes(placed, names)):
            events = events.unionByName(more, allowMissingColumns=True)
        events = untimed_ends.with_messages(events, names)
        count = self._write(events, rows, history)
        # After the versions: a run that is cut off before it finds the same (docs/decisions/0040).
        tombstones.add_deleted(untimed_ends.deletions(placed, names))
        self._keep_messages(received, rows, self.columns.tombstones(rows.keys))
        return count

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the table, if there is one, to where the history is."""
        if self.columns.can_follow():
            self._follow(full_history(table, steps))

    def _follow(self, history: FullHistory) -> None:
        """The table with the columns that the history leads to; TRUNCATE and the like end all versions."""
        self.columns.follow_or_create(history.table, history.steps)
        self._apply_clearing(history)

    def _keep_messages(self, changes: DataFrame, rows: RowValues, tombstones: Tombstones) -> None:
        """Keeps the messages of deletes after which null values may come.

        changes: as they were received; those without null values are made of the deleted keys' table, of which Spark
        reads no rows for it any more once it has another column.
        """
        if not self.columns.settings.null_values:
            return
        deletes = changes.where(IS_DELETE).select(
            *rows.deleted_keys(), F.col("commit_ts").alias("deleted_until_ts"), F.array("source").alias("messages")
        )
        if not deletes.isEmpty():
            tombstones.add_deleted(deletes)

    def _refuse_unsure(self, unsure: ClearingStatement, has_rows: bool) -> None:
        """SetupError STOPPED where there are versions that the statement may have ended. has_rows: among changes."""
        at, lake_table = unsure.commit_ts, self.columns.lake_table
        if at <= self.columns.time_of(LOADED):
            return
        if not has_rows and lake_table.exists() and int(lake_table.properties().get(CLEARED, -1)) < at:
            has_rows = not lake_table.read().where(f"{FROM_TS} <= {at} AND {TO} IS NULL").isEmpty()
        if has_rows:
            raise self.columns.stopped(unsure_text(unsure.word, at, unsure.why, self.columns.settings.id))

    # ---- versions
    def _stored_events(self, events: DataFrame, rows: RowValues, clearing: list[ClearingStatement]) -> DataFrame:
        """The events of the versions that the table has of these keys, but for their ends by `clearing`. was: what its
        row at this time is (`version`, or `mark` of a delete), `end` of a version; ended, ended_at, stored_message: the
        version's TO_TS, TO and MESSAGE; message: of a delete without a commit_ts, at the commit_ts of the version that
        it ended.
        """
        names = rows.key_names
        types = {field.name: field.dataType for field in events.schema.fields}
        pairs = [*rows.key_pairs, *rows.value_pairs]
        stored = self.columns.lake_table.read().select(
            *(F.col(quote_name(column)).cast(types[name]).alias(name) for column, name in pairs),
            *(F.col(name) for name in (FROM, TO, FROM_TS, TO_TS)), F.col(MESSAGE).alias("stored_message"),
        )  # fmt: skip
        stored = stored.join(events.select(*names).distinct(), names, "left_semi")
        is_mark = F.expr(f"coalesce({FROM_TS} = {TO_TS}, false)")
        rest = [F.lit(-1).cast("bigint").alias("position"), F.lit(0).alias("row")]
        values = [F.col(name) for _, name in rows.value_pairs]
        begins = stored.select(
            (~is_mark).alias("opens"), F.col(FROM_TS).alias("ts"), F.col(FROM).alias("time"), *rest,
            F.when(is_mark, F.lit("mark")).otherwise(F.lit("version")).alias("was"), F.col(TO_TS).alias("ended"),
            F.col(TO).alias("ended_at"), "stored_message", F.lit(1).alias("turn"), *names, *values,
        )  # fmt: skip
        ends = stored.where(F.col(TO).isNotNull() & ~is_mark)
        by_commit = ends.where(F.col(TO_TS).isNotNull() & ~_is_end_of(clearing)).select(
            F.lit(False).alias("opens"), F.col(TO_TS).alias("ts"), F.col(TO).alias("time"), *rest,
            F.lit("end").alias("was"), F.lit(0).alias("turn"), *names,
        )  # fmt: skip
        untimed = ends.where(F.col(TO_TS).isNull()).select(
            F.lit(False).alias("opens"), F.col(FROM_TS).alias("ts"), F.lit(-1).cast("bigint").alias("position"),
            F.lit(1).alias("row"), F.col("stored_message").alias("message"), *names,
        )  # fmt: skip
        both = begins.unionByName(by_commit, allowMissingColumns=True)
        return both.unionByName(untimed, allowMissingColumns=True)

    def _newest_times(self, rows: RowValues, clearing: list[ClearingStatement]) -> DataFrame:
        """The commit_ts (_row_ts) of each key's version that is open, or that a delete without a commit_ts or a
        TRUNCATE ended last: a delete before that may not be read yet; _open_ts: of the open one.
        """
        stored = self.columns.lake_table.read().where(F.col(TO_TS).isNull() | _is_end_of(clearing))
        is_open = F.when(F.col(TO).isNull(), F.col(FROM_TS))
        times = stored.select(*rows.stored_keys(), F.col(FROM_TS).alias("_row_ts"), is_open.alias("_open_ts"))
        newest = (F.max(name).alias(name) for name in ("_row_ts", "_open_ts"))
        return times.groupBy(*rows.key_names).agg(*newest)

    def _write(self, events: DataFrame, rows: RowValues, history: FullHistory) -> int:
        """The versions that are not there so; how many."""
        versions = _versions(events, rows.key_names, self._end_times(events, rows, history))
        new = versions.localCheckpoint()  # it is made of the table's own rows
        count = new.count()
        if count:
            keys = {c.name for c in rows.keys}
            pairs = [*rows.key_pairs, (FROM_TS, "ts")]
            values = [(column, name) for column, name in rows.value_pairs if column not in keys]
            values += [*pairs, (FROM, "time"), (TO_TS, "to_ts"), (TO, "to_time"), (MESSAGE, "message")]
            upsert = Upsert(pairs, values, "NOT s.is_removed", "NOT s.is_removed", "s.is_removed")
            self.columns.lake_table.merge(new, upsert)
        return count

    # ---- statements
    def _apply_clearing(self, history: FullHistory) -> None:
        """TRUNCATE and the like end all versions."""
        if history.unsure is not None:
            self._refuse_unsure(history.unsure, has_rows=False)
        for statement in (statement for statement in new_clearing(self.columns, history) if statement.ends_rows):
            at, time = statement.commit_ts, COMMIT_TIME.format(statement.commit_ts)
            older = f"{FROM_TS} <= {at}"
            if statement.step is not None:
                older = self.columns.removed_rows(statement.step, history.steps, history.table)
            # Of a row that was deleted by then, nothing tells when but that it was before.
            self.columns.lake_table.update({TO: time}, f"{older} AND {MESSAGE} IS NOT NULL AND {TO} > {time}")
            self._keep_later_ends(at, older, history)
            open_then = f"{older} AND {MESSAGE} IS NULL AND ({TO_TS} IS NULL OR {TO_TS} > {at})"
            self.columns.lake_table.update({TO: time, TO_TS: f"CAST({at} AS bigint)"}, open_then)
        record_cleared(self.columns, history)

    def _end_times(self, events: DataFrame, rows: RowValues, history: FullHistory) -> str:
        """SQL: when statements ended rows like that of an event. SetupError STOPPED where it is not known."""
        statements = [statement for statement in history.clearing if statement.ends_rows]
        names, oldest_ts = dict(rows.value_pairs), 0
        if not all(statement.is_sure for statement in statements):
            oldest_ts = events.agg(F.min("ts")).collect()[0][0] or 0
        removed_rows = self.columns.values.removed_rows
        ended = {
            s.commit_ts: removed_rows(s.step, history.steps, history.table, names.__getitem__) if s.step else "true"
            for s in statements
            if s.commit_ts >= oldest_ts
        }
        doubts = [f"(ts <= {at} AND {sql} IS NULL)" for at, sql in ended.items() if can_be_unknown(sql)]
        if doubts and not events.where(f"opens AND ({' OR '.join(doubts)})").isEmpty():
            raise self.columns.doubt_error()
        times = (f"if({sql}, CAST({at} AS bigint), NULL)" for at, sql in ended.items())
        return f"array_compact(CAST(array({', '.join(times)}) AS array<bigint>))"

    def _keep_later_ends(self, at: int, older: str, history: FullHistory) -> None:
        """Where a version that was open at the commit_ts of a TRUNCATE has a later end, that is the end of a row which
        came in between and is not read yet: rows without duration for them. older: SQL, the rows that it took away.
        """
        ended = self.columns.lake_table.read().where(f"{older} AND {MESSAGE} IS NULL AND {TO_TS} > {at}")
        if ended.isEmpty():
            return
        keys = [c.name for c in history.table.columns if c.handle_key]
        texts = {FROM_TS: TO_TS, TO_TS: TO_TS, FROM: TO, TO: TO, **{name: quote_name(name) for name in keys}}
        fields = ended.schema.fields
        columns = [F.expr(texts.get(f.name, "NULL")).cast(f.dataType).alias(f"c_{n}") for n, f in enumerate(fields)]
        values = [(f.name, f"c_{n}") for n, f in enumerate(fields)]
        pairs = [(name, source) for name, source in values if name in (*keys, FROM_TS)]
        self.columns.lake_table.merge(ended.select(*columns).localCheckpoint(), Upsert(pairs, values, "false"))


def _events(changes: DataFrame, rows: RowValues) -> DataFrame:
    """Where versions of keys (k_0 …) begin (`opens`, with values v_0 …) or end: ts, time, and the input's order."""
    order = [
        F.col("commit_ts").alias("ts"), F.col("commit_time").alias("time"), F.col("position"), F.col("row"),
        kafka_position(), F.col("commit_ts").isNotNull().alias("is_timed"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in _STORED.items()),
    ]  # fmt: skip
    return rows.changes_of_keys(changes, order).withColumn("opens", F.col("turn") == 1).drop("bad")


def _versions(events: DataFrame, names: list[str], end_times: str) -> DataFrame:
    """The rows of the table that its events make, where they are not there so: ts, time, to_ts, to_time, message (of
    the delete that ended it, where that has no commit_ts), and `is_removed` of those that are there and should not be.

    end_times: SQL over an event, when statements ended rows like its own.
    """
    # At one commit_ts an old row goes before the new one comes; what is there is as it comes again.
    first = Window.partitionBy(*names, "ts").orderBy(
        F.desc("opens"), F.when(F.col("ts") == 0, F.col("was").isNotNull()).otherwise(F.col("was").isNull()),
        F.desc("position"), F.desc("row"),
    )  # fmt: skip
    has_mark = F.max(F.col("was") == "mark").over(Window.partitionBy(*names, "ts"))
    single = events.withColumn("mark_there", F.coalesce(has_mark, F.lit(False)))
    single = single.withColumn("_n", F.row_number().over(first)).where("_n = 1").drop("_n")
    key = Window.partitionBy(*names).orderBy("ts")
    single = single.withColumn("ends", F.expr(end_times))
    next_ = {"next_ts": F.lead("ts"), "next_time": F.lead("time"), "opened": F.lag("opens"), "last_ts": F.lag("ts"),
             "last_ends": F.lag("ends")}  # fmt: skip
    timed = single.select("*", *(column.over(key).alias(name) for name, column in next_.items()))
    timed = timed.withColumn("cleared", F.expr("array_min(filter(ends, at -> at >= ts))"))
    timed = timed.withColumn("to_ts", F.least("next_ts", "cleared"))
    by_clearing = F.expr("cleared IS NOT NULL AND (next_ts IS NULL OR cleared < next_ts)")
    timed = timed.withColumn(
        "to_time", F.when(by_clearing, F.expr(COMMIT_TIME.format("cleared"))).otherwise(F.col("next_time"))
    )
    timed = timed.withColumn("next_to", F.col("to_ts"))
    is_untimed = F.col("message").isNotNull()
    message_time = F.least(F.greatest("message.timestamp", "time"), "to_time")
    timed = timed.withColumns({
        "to_ts": F.when(~is_untimed, F.col("to_ts")),
        "to_time": F.when(is_untimed, message_time).otherwise(F.col("to_time")),
    })  # fmt: skip
    ends_version = F.expr("coalesce(opened, false) AND NOT exists(last_ends, at -> at >= last_ts AND at < ts)")
    is_version = F.expr("opens AND (next_to IS NULL OR next_to > ts)")
    is_mark = ~F.col("opens") & ~ends_version
    timed = timed.withColumns({
        "to_ts": F.when(is_mark, F.col("ts")).otherwise(F.col("to_ts")),
        "to_time": F.when(is_mark, F.col("time")).otherwise(F.col("to_time")),
        "is_removed": ~(is_version | is_mark),
    })  # fmt: skip
    exists = F.expr("mark_there OR coalesce(was = 'version', false)")
    as_recorded = "stored_message <=> message AND (message IS NULL OR ended_at <=> to_time)"
    same = F.expr(f"(was = 'version' AND ended <=> to_ts AND {as_recorded}) OR (mark_there AND NOT opens)")
    changed = F.when(F.col("is_removed"), exists).otherwise(~F.coalesce(same, F.lit(False)))
    values = [name for name in timed.columns if name.startswith("v_")]
    return timed.where(changed).select(*names, "ts", "time", "to_ts", "to_time", "message", "is_removed", *values)


def _is_end_of(clearing: list[ClearingStatement]) -> Any:
    """Whether one of these statements ended a version."""
    return F.col(TO_TS).isin([statement.commit_ts for statement in clearing if statement.ends_rows])
