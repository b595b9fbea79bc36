"""The changelog of a table: a row for each change, appended once. Metadata columns have the names of TiCDC's own sink.

A change is known by its commit_ts, its op and the key of its row; one without any of them by its
place in Kafka. One that is there already is not appended again, whether a run was cut off or TiCDC sent it again.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake.change_checks import check_counts, count_changes
from ticdc_bridge.spark_jobs.lake.column_history import ADDED, SchemaChange
from ticdc_bridge.spark_jobs.lake.dropped_columns import FullHistory, full_history
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn
from ticdc_bridge.spark_jobs.lake.past_rows import COMMIT_TIME, new_clearing, past_history, record_cleared
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.table_columns import TableColumns, TableKind
from ticdc_bridge.spark_jobs.pipeline.result import REPEATED, Summary
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

CHANGE, DAY = "_change", "_commit_date"
"""Columns of a changelog: what a change is known by; the day of its commit (UTC), or of its message where the commit is
not known: the table is partitioned by it.
"""
_METADATA = (
    TableColumn("_tidb_op", "string"),
    TableColumn("_tidb_commit_ts", "bigint"),
    TableColumn("_tidb_commit_time", "timestamp"),
    TableColumn("_tidb_table_version", "bigint"),
    TableColumn("_tidb_row_identity", "string"),
    TableColumn("_tidb_old_row_identity", "string"),
    TableColumn("_tidb_identity_kind", "string"),
    TableColumn("_before", "map<string,string>"),
    TableColumn("_kafka_topic", "string"),
    TableColumn("_kafka_partition", "int"),
    TableColumn("_kafka_offset", "bigint"),
    TableColumn("_kafka_timestamp", "timestamp"),
    TableColumn(CHANGE, "string"),
    TableColumn(DAY, "date"),
)
_OPS = "element_at(map('c', 'I', 'r', 'I', 'u', 'U', 'd', 'D', 's', 'R'), op)"
_DAY = "date_add(DATE'1970-01-01', CAST(floor(unix_millis({0}) / 86400000) AS int))"
_MOST_DAYS = 400
"""Days of one batch that a condition names; of more, all days are read."""


KIND = TableKind(_METADATA, "_tidb_commit_ts", keeps_past=True, partitioned_by=(DAY,))


@dataclass(frozen=True)
class Changelog:
    """A changelog, which need not be there yet."""

    columns: TableColumns

    def merge(self, changes: DataFrame, table: Table, steps: list[SchemaChange], summary: Summary) -> int:
        """Appends row changes (spark_jobs.arrow.change_schema.CHANGES with maps, and `position`); how many.

        table: the columns as they are now. steps: the table's history, [] where no DDL is known.
        SetupError STOPPED where a change can't be told from others, or can't be written exactly; USAGE for a table with
        a column that is called as one of the metadata.
        """
        history, values = past_history(self.columns, changes, table, steps)
        counts = count_changes(changes, values, -1, (-1, -1), keeps_past=True)
        check_counts(counts, self.columns.settings, summary)
        rows = self._rows(changes, values)
        self.columns.follow_or_create(history.table, history.steps)
        added = self._append(rows)
        if counts.changes > added:
            summary.skipped[REPEATED] += counts.changes - added
        self._apply_clearing(history)
        return added

    def follow(self, table: Table, steps: list[SchemaChange]) -> None:
        """Brings the columns of the table, if there is one, to where the history is."""
        if self.columns.can_follow():
            history = full_history(table, steps)
            self.columns.follow(history.table, history.steps)
            self._apply_clearing(history)

    # ---- rows
    def _rows(self, changes: DataFrame, row_values: RowValues) -> DataFrame:
        """A row of the table for each change, once."""
        values = [
            F.when(F.col("op") == "d", row_values.sent_before(c)).otherwise(row_values.value("after", c)).alias(c.name)
            for c in row_values.columns
        ]
        identity = F.expr("transform(`key`, k -> if(op = 'd', before[k], after[k]))")
        # Some changefeeds tell of the old row what changed: a key column that it lacks is as it was.
        old = F.expr("if(before IS NULL, NULL, transform(`key`, k -> coalesce(before[k], after[k])))")
        with_keys = changes.withColumn("_new", identity).withColumn("_old", old)
        has_key = F.expr("size(`key`) > 0 AND NOT exists(_new, v -> v IS NULL)")
        ordered = has_key & F.col("commit_ts").isNotNull()
        time = F.col("commit_time")
        kafka_id = "source.topic, source.partition, source.offset, unix_millis(source.timestamp), row"
        change = F.when(ordered, F.concat_ws("/", "commit_ts", F.expr(_OPS), F.to_json("_new"))).otherwise(
            F.expr(f"concat_ws('/', 'kafka', {kafka_id})")
        )
        has_offset = F.expr("source.topic IS NOT NULL AND source.partition IS NOT NULL AND source.offset IS NOT NULL")
        metadata = {
            "_tidb_op": F.expr(_OPS), "_tidb_commit_ts": F.col("commit_ts"), "_tidb_commit_time": time,
            "_tidb_table_version": F.col("table_version"),
            "_tidb_row_identity": F.when(has_key, F.to_json("_new")),
            "_tidb_old_row_identity": F.when(has_key, F.to_json("_old")),
            "_tidb_identity_kind": F.when(has_key, F.expr(_identity_kind(row_values))),
            "_before": F.col("before"), CHANGE: F.col(CHANGE),
            DAY: F.expr(_DAY.format("coalesce(commit_time, source.timestamp)")),
            "_kafka_topic": F.col("source.topic"), "_kafka_partition": F.col("source.partition"),
            "_kafka_offset": F.col("source.offset"), "_kafka_timestamp": F.col("source.timestamp"),
        }  # fmt: skip
        # The columns get their names last: a table may have one that is called as one of ours (`position`, `row`).
        identified = with_keys.withColumns({CHANGE: change, "complete": ordered | has_offset})
        row = identified.where("NOT complete").select(F.expr(_OPS).alias("_tidb_op")).first()
        if row is not None:
            raise self.columns.stopped(
                f"a change (op {row['_tidb_op']}) has neither a commit_ts with its row's key nor a topic, partition and"
                " offset: whether the changelog has it already is unknown. Read it from Kafka, or from a message"
                " file that has them"
            )
        first = Window.partitionBy(CHANGE).orderBy("position", "row")
        once = identified.withColumn("_n", F.row_number().over(first)).where("_n = 1")
        return once.select(*values, *(metadata[column.name].alias(column.name) for column in _METADATA))

    def _append(self, rows: DataFrame) -> int:
        """Those of the rows that are not there yet; how many. Each has another CHANGE."""
        rows = rows.persist()
        try:
            days = [row[DAY] for row in rows.select(DAY).distinct().limit(_MOST_DAYS + 1).collect()]
            have = self.columns.lake_table.read()
            if len(days) <= _MOST_DAYS:
                named = ", ".join(f"DATE'{day}'" for day in days if day is not None)
                conditions = [f"{DAY} IN ({named})"] if named else []
                have = have.where(" OR ".join([*conditions, *([f"{DAY} IS NULL"] if None in days else [])]) or "false")
            fields = self.columns.lake_table.read().schema.fields
            new = rows.join(have.select(CHANGE), CHANGE, "left_anti")
            new = new.select(*(F.col(quote_name(f.name)).cast(f.dataType).alias(f.name) for f in fields)).persist()
            try:
                count = new.count()
                if count:
                    self.columns.lake_table.add_rows(new)
                return count
            finally:
                new.unpersist()
        finally:
            rows.unpersist()

    # ---- statements
    def _apply_clearing(self, history: FullHistory) -> None:
        """A row for each TRUNCATE and the like, its op the statement's word."""
        new = (s for s in new_clearing(self.columns, history) if s.word != ADDED)
        if texts := [(s.word, s.commit_ts, f"{s.commit_ts}/{s.word}") for s in new]:
            kinds = f"_tidb_op string, _tidb_commit_ts bigint, {CHANGE} string"
            rows = self.columns.spark.createDataFrame(texts, kinds)
            rows = rows.withColumn("_tidb_commit_time", F.expr(COMMIT_TIME.format("_tidb_commit_ts")))
            rows = rows.withColumn(DAY, F.expr(_DAY.format("_tidb_commit_time")))
            others = [f for f in self.columns.lake_table.read().schema.fields if f.name not in rows.columns]
            self._append(rows.select("*", *(F.lit(None).cast(f.dataType).alias(f.name) for f in others)))
        record_cleared(self.columns, history)


def _identity_kind(history: RowValues) -> str:
    """SQL: pk or uk, by the key that the table had at a change's commit_ts; NULL where it is not known."""
    text = now = _kind_of_key(history.table)
    for step in reversed(history.steps):
        if step.before is not None and (kind := _kind_of_key(step.before)) != now:
            text, now = f"CASE WHEN commit_ts <= {step.commit_ts} THEN {kind} ELSE {text} END", kind
    return text


def _kind_of_key(table: Table) -> str:
    keys = table.handle_key
    is_known = bool(keys) and bool(table.indexes)
    return sql_literal("pk" if set(keys) == set(table.primary_key) else "uk") if is_known else "CAST(NULL AS string)"
