"""`maintain`: small files, old versions, and rows of the lake that nothing asks for any more."""

import time
from collections.abc import Iterator
from datetime import date, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso, tso_physical_ms
from ticdc_bridge.spark_jobs.io.locations import TableLocation
from ticdc_bridge.spark_jobs.lake import changelog, points_in_time, tables
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import FORGOTTEN
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, Tombstones
from ticdc_bridge.spark_jobs.pipeline.progress import when_and_age

_HOUR = 3_600_000


def maintain(
    spark: SparkSession, engine: str, location: TableLocation, keep_hours: int, keep_changes: int | None
) -> Iterator[str]:
    """Does the upkeep of a table, and of its deleted keys; a line for each thing that it did.

    keep_hours: how old versions, and deleted keys behind the newest change, are before they go. keep_changes: days of a
    changelog, by the commit; None: all.
    """
    make = tables.engine_of(spark, engine, location.format)
    lake_table, tombstones = make(spark, location.name), make(spark, location.tombstones.name)
    columns = {*lake_table.read().columns}
    if changelog.CHANGE in columns and keep_changes is not None:
        oldest = date.today() - timedelta(days=keep_changes)
        lake_table.delete(f"{changelog.DAY} < DATE'{oldest}'")
        yield f"changes from before {oldest} are removed"
    if points_in_time.is_table_of_points(columns):
        newest_ts = lake_table.read().agg(F.max("resolved_ts")).collect()[0][0]
        # By the clock, as versions go; a day less, as one may have been noted a day before (streaming.consistent).
        lake_table.delete(f"resolved_ts < {min(newest_ts or 0, _horizon(MAX_TSO, keep_hours - 24))}")
    if COMMIT_TS in columns and (newest_ts := lake_table.read().agg(F.max(COMMIT_TS)).collect()[0][0]) is not None:
        yield f"newest change {when_and_age(newest_ts)}"
        if tombstones.exists():
            yield from _forget_deletes(spark, lake_table, tombstones, _horizon(newest_ts, keep_hours))
    for table in (lake_table, tombstones):
        if table.exists():
            table.compact()
            table.expire(keep_hours)
    yield f"files are compacted, versions older than {keep_hours} hours removed"


def _horizon(newest_ts: int, keep_hours: int) -> int:
    """The commit_ts so long before the newest one, or before now."""
    return ms_to_tso(min(tso_physical_ms(newest_ts), int(time.time() * 1000)) - keep_hours * _HOUR)


def _forget_deletes(spark: SparkSession, lake_table: LakeTable, tombstones: LakeTable, horizon: int) -> Iterator[str]:
    """Removes deleted keys from up to a commit_ts that no late change of them can have.

    The table says up to where (FORGOTTEN): a later change that is older, and whose row is not there, stops merge. A run
    removes what an earlier one has marked, as a batch may be at work that did not see the mark of this one.
    """
    marked = int(lake_table.properties().get(FORGOTTEN, -1))
    is_marked, is_old = F.col(COMMIT_TS) <= marked, F.col(COMMIT_TS) <= horizon
    count, old = tombstones.read().agg(F.count_if(is_marked), F.count_if(is_old & ~is_marked)).collect()[0]
    if count:
        Tombstones(spark, tombstones, (), ()).forget(marked)
    if old:
        lake_table.set_properties({FORGOTTEN: str(horizon)})
    yield f"deleted keys: {count} removed, {old} marked to be removed by the next run"
