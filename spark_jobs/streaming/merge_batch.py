"""A micro-batch's changes, merged into a table of the lake."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from schemas.ddl.executor.versions import DdlText
from schemas.model.spark_types import EXACT
from schemas.model.table import Table, TableId
from spark_jobs.io.locations import TableLocation, table_location_of
from spark_jobs.lake import tables
from spark_jobs.lake.binlog_changes import are_by_binlog, stored_order
from spark_jobs.lake.column_history import schema_changes, sort_statements
from spark_jobs.lake.engines.base import AUTO, Engine
from spark_jobs.lake.name_history import shared_names, table_names
from spark_jobs.lake.null_values import FORMATS as NULL_VALUES
from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.newest_columns import newest_table, zone_of
from spark_jobs.pipeline.result import OTHER_TABLE, REPEATED, Summary
from spark_jobs.spark.sql_expressions import is_of
from spark_jobs.streaming.typed_batch import DEFINITIONS_LOCK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_jobs.lake.changelog import Changelog
    from spark_jobs.lake.merge import MergeTarget
    from spark_jobs.lake.row_versions import RowVersions

Names = Sequence[tuple[int, TableId | None]]
"""A table's names by time: spark_jobs.lake.name_history.table_names."""
OWNED_AT = "_owned_at"
"""Column: the commit_ts at which a row's table has its name (with_owners)."""
_MS = "unix_millis({0}.timestamp)"
_LATE = f"coalesce({_MS} - shiftright({{0}}.commit_ts, 18), 0)"
_NEAREST = (
    f"CASE WHEN _after IS NULL THEN {_LATE.format('_before')} WHEN _before IS NULL THEN {_LATE.format('_after')}"
    f" WHEN {_MS.format('source')} * 2 <= {_MS.format('_before')} + {_MS.format('_after')}"
    f" THEN {_LATE.format('_before')} ELSE {_LATE.format('_after')} END"
)
_GUESS = f"shiftleft({_MS.format('source')} - ({_NEAREST}) + 1, 18) - 1"
_ABOUT = (
    "CASE WHEN _before.commit_ts > _after.commit_ts"
    f" THEN coalesce({_GUESS}, _before.commit_ts)"
    f" ELSE least(greatest({_GUESS}, _before.commit_ts), _after.commit_ts) END"
)
"""SQL: about when a change without a commit_ts was, of the rows before and after it. A changefeed sends a table's rows
in the order of their commits, but where it begins again.
"""
_CONNECTORS = ("debezium-mysql", "auto")  # whose changes may have binlog positions
_TICDC = "set enable-tidb-extension=true in the changefeed's sink URI, and merge what it sends then"
_UNTIMED = {
    **dict.fromkeys(("avro", "canal-json", "debezium", "debezium-avro"), _TICDC),
    "debezium-mysql": "debezium-mysql: their source block has no binlog file and pos (a flattened row has no source at"
    " all). Merge the connector's whole envelopes",
    "": "merge messages of a format that has it",
}
"""What to do about changes that nothing orders, by the format read."""


def merge_table(
    session: SparkSession, work: Job, id_: TableId, location: TableLocation, changes: DataFrame | None,
    statements: Sequence[DdlText], summary: Summary, alone: bool = True,
) -> int:  # fmt: skip
    """Changes (None: there are none) applied to the job's tables of one table; how many rows the first of them got.

    location: of the current table, if the job has one. work: knows the tables as they are in this batch. statements: of
    the history, in any order. alone: other tables' changes are among them, which are counted.
    """
    with DEFINITIONS_LOCK:
        ordered = sort_statements(statements)
        steps, names = schema_changes(ordered, id_), table_names(ordered, id_)
        definition = next((t for s in reversed(steps) for t in (s.after, s.before) if t is not None), None)
        table = definition or (newest_table(work.read, id_) if changes is not None else None)
    if table is not None and changes is not None and not steps and work.read.format == "avro":
        table = _with_key(table, id_, changes)
    has_key = table is None or any(c.handle_key for c in table.columns)
    by_binlog: bool | None = False
    if changes is not None and work.read.format in _CONNECTORS:
        by_binlog = are_by_binlog(changes, _is_of(names[-1][1]), id_)
    if by_binlog is None:
        by_binlog = stored_order(one.delta for one in _targets(session, work, id_, location, names, False, has_key))
    if by_binlog is None:
        by_binlog = work.read.format == "debezium-mysql"
    names = names[-1:] if by_binlog else names
    targets = _targets(session, work, id_, location, names, by_binlog, has_key)
    if changes is None or table is None:
        if definition is not None:
            for target in targets:
                target.follow(definition, steps)
        return 0
    shared = shared_names(ordered) if alone and not by_binlog else ()
    ours, counts = take_table(changes, names, summary, shared) if alone else changes, list[int]()
    for number, target in enumerate(targets):
        told = Summary() if number else summary  # what one of them counts of the changes is so for all
        counts.append(target.merge(ours, table, steps, told))
        if told.skipped[REPEATED] and number:
            summary.skipped[REPEATED] += told.skipped[REPEATED]
    return counts[0]


def _targets(
    session: SparkSession, work: Job, id_: TableId, location: TableLocation, names: Names, by_binlog: bool,
    has_key: bool,
) -> list[MergeTarget | Changelog | RowVersions]:  # fmt: skip
    """The tables that the job writes, the current one first."""
    from spark_jobs.lake.changelog import Changelog
    from spark_jobs.lake.keyless import KeylessTarget
    from spark_jobs.lake.merge import MergeTarget
    from spark_jobs.lake.row_versions import RowVersions

    types, on_lossy = (work.read.view.types, work.read.view.on_lossy) if work.read.view else (EXACT, "error")
    more = types, zone_of(work.read), names, by_binlog, work.read.format in NULL_VALUES, on_lossy
    targets, untimed = list[MergeTarget | Changelog | RowVersions](), _UNTIMED.get(work.read.format, _UNTIMED[""])

    def engine_of(place: TableLocation) -> Engine:
        return tables.engine_of(session, work.merge or AUTO, place.format)

    if work.current:
        current = MergeTarget if has_key or work.without_key == "refuse" else KeylessTarget
        own = untimed, work.layout
        targets.append(current(session, id_, location.name, engine_of(location), *more, *own))
    if work.changelog is not None:
        place = _location(work.changelog)
        targets.append(Changelog(session, id_, place.name, engine_of(place), *more))
    if work.versions is not None:
        place = _location(work.versions)
        targets.append(RowVersions(session, id_, place.name, engine_of(place), *more, untimed))
    return targets


def _location(place: str) -> TableLocation:
    location = table_location_of(place)
    assert location is not None
    return location


def _with_key(table: Table, id_: TableId, changes: DataFrame) -> Table:
    """A table of registered schemas with the key that its rows name: the value's schema does not tell it."""
    row = changes.where(_is_of(id_) & (F.col("kind") == "row")).select("key").first()
    keys = row["key"] if row else []
    return replace(table, columns=tuple(replace(c, handle_key=c.name in keys) for c in table.columns))


def take_table(
    changes: DataFrame, names: Names, summary: Summary, shared: Collection[TableId] = ()
) -> DataFrame:  # fmt: skip
    """The rows of one table; what is left out is counted. shared: as with_owners has it."""
    marked = with_owners(changes, shared)
    ours = F.coalesce((F.col("kind") == "row") & is_of_names(names), F.lit(False))
    for row in marked.where(~ours).groupBy("kind").count().collect():
        summary.skipped[OTHER_TABLE if row["kind"] == "row" else row["kind"]] += row["count"]
    return marked.where(ours).drop(OWNED_AT)


def with_owners(changes: DataFrame, shared: Collection[TableId]) -> DataFrame:
    """The changes with OWNED_AT: the commit_ts. shared: folded names that several tables had. A row of one of them that
    has no commit_ts (a delete from Avro, a null value) has about the one it must have had: it came to Kafka as long
    after its commit as the nearest row of its partition, and between the rows before and after it. Of any other name it
    has none: it is of any time.
    """
    if not shared:
        return changes.withColumn(OWNED_AT, F.col("commit_ts"))
    of_partition = Window.partitionBy(F.lower("db"), F.lower("table"), "source.topic", "source.partition")
    ordered = of_partition.orderBy("source.offset", "position", "row")
    known = F.when(F.expr("kind = 'row' AND commit_ts IS NOT NULL"), F.struct("commit_ts", "source.timestamp"))
    before = F.last(known, ignorenulls=True).over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    after = F.first(known, ignorenulls=True).over(ordered.rowsBetween(1, Window.unboundedFollowing))
    marked = changes.withColumn("_before", before).withColumn("_after", after)
    is_shared = reduce(or_, (_is_of(id_) for id_ in shared))
    owned = F.coalesce("commit_ts", F.when(is_shared, F.expr(_ABOUT)))
    return marked.withColumn(OWNED_AT, owned).drop("_before", "_after")


def is_of_names(names: Names) -> Column:
    """Whether a row, with OWNED_AT, is of the table that had these names."""
    at, ours = F.col(OWNED_AT), _is_of(names[-1][1])
    for _, id_ in names[:-1]:
        ours = ours | (at.isNull() & _is_of(id_))
    for until, id_ in reversed(names[:-1]):
        ours = F.when(at <= until, _is_of(id_)).otherwise(ours)
    return ours


def _is_of(id_: TableId | None) -> Column:
    """Whether an event is of the table; None: of no one. TiDB takes names in any letters."""
    if id_ is None:
        return F.lit(False)
    return is_of(id_, F.col("db"), F.col("table"))
