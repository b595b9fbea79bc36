"""`reconcile --repair`: rows that differ become those of a snapshot, by the rules of `load`, in one commit a table."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.spark_jobs.lake.change_checks import check_counts, count_changes
from ticdc_bridge.spark_jobs.lake.column_history import schema_changes
from ticdc_bridge.spark_jobs.lake.engines.base import Upsert
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import keep_rows
from ticdc_bridge.spark_jobs.lake.load import Snapshot, Target, delete_revived, load_past
from ticdc_bridge.spark_jobs.lake.merge import CurrentTable
from ticdc_bridge.spark_jobs.lake.row_values import RowValues
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.snapshots.differences import EXTRA, NEWER, LakeRows


def repair_rows(
    targets: Sequence[Target], lake: LakeRows, snapshot: Snapshot, differences: Sequence[Row], definition: DdlText
) -> int:
    """Loads rows into the tables of the lake, and deletes keys that the snapshot lacks; how many.

    differences: of LakeRows.differences, by the snapshot. SetupError as merge raises it.
    """
    rows = [row for row in differences if row["kind"] != NEWER]
    if not rows:
        return 0
    spark = snapshot.rows.sparkSession
    keys = spark.createDataFrame([(row["key"],) for row in rows], "key array<string>")
    snapshot = replace(snapshot, rows=lake.of_keys(snapshot, keys))
    # A key that the lake has twice is in TiDB: no delete by key takes one of them.
    extra = [(row["key"],) for row in rows if row["kind"] == EXTRA and row["turn"] == 1]
    gone = spark.createDataFrame(extra, "texts array<string>")
    deletes = snapshot.deletes(gone, [lake.columns[n].name for n in lake.keys], "texts")
    steps = schema_changes([definition], snapshot.id)
    # A changelog first: once the current table is mended, nobody finds what it lacks.
    for target in reversed(targets):
        if isinstance(target, CurrentTable):
            _write(target, snapshot, deletes)
        else:
            load_past(target, snapshot, snapshot.table, steps, deletes, Summary())
    return len(rows)


def _write(target: CurrentTable, snapshot: Snapshot, deletes: DataFrame) -> None:
    """A row of the snapshot's TSO itself is replaced too: it is not what it was loaded as."""
    columns = target.columns
    rows = RowValues(columns.values, snapshot.table, [])
    changes = snapshot.changes().unionByName(deletes, allowMissingColumns=True)
    check_counts(count_changes(changes, rows, -1, (-1, -1), keeps_past=False), columns.settings, Summary())
    by_key = rows.changes_of_keys(changes, [F.col("commit_ts")]).withColumn("is_deleted", F.col("turn") == 0)
    deleted_ts = F.when(F.col("is_deleted"), F.col("commit_ts"))
    tombstones = columns.tombstones(rows.keys)
    marked = tombstones.mark_late(by_key.withColumn("deleted_until_ts", deleted_ts), snapshot.tso)
    kept = keep_rows(marked.drop("turn", "bad"), are_few=True)
    if not (deleted := kept.where("is_deleted")).isEmpty():  # before their rows go, as in merge
        tombstones.add_deleted(deleted)
    is_newest = f"coalesce(s.commit_ts >= t.{COMMIT_TS}, true)"
    upsert = Upsert(
        rows.key_pairs, [*rows.value_pairs, (COMMIT_TS, "commit_ts")], f"NOT s.is_deleted AND {is_newest}",
        "NOT s.is_deleted", f"s.is_deleted AND {is_newest}",
    )  # fmt: skip
    columns.lake_table.merge(kept.where("NOT late").drop("late", "deleted_until_ts"), upsert)
    delete_revived(columns, snapshot, snapshot.table, [])
