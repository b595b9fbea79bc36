"""A micro-batch's changes, merged into a table of the lake."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.spark_types import EXACT
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.io.locations import TableLocation, lake_location
from ticdc_bridge.spark_jobs.lake import changelog, keyless, merge, offset_order, row_versions, tables
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, keep_partitions, schema_changes, sort_statements
from ticdc_bridge.spark_jobs.lake.column_masks import mask_steps
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import UnsupportedTable
from ticdc_bridge.spark_jobs.lake.direct_merge import DirectTable, open_log
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain, shared_names
from ticdc_bridge.spark_jobs.lake.null_values import FORMATS as NULL_VALUES
from ticdc_bridge.spark_jobs.lake.table_columns import LOADED, TableColumns, TableKind, TableSettings
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table, zone_of
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, REPEATED, Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import NO_LAYOUT
from ticdc_bridge.spark_jobs.streaming import row_owners
from ticdc_bridge.spark_jobs.streaming.row_owners import Names, RowOwners, SharedNames, is_of_name
from ticdc_bridge.spark_jobs.streaming.typed_batch import DEFINITIONS_LOCK

_ENABLE_EXTENSION_HINT = "set enable-tidb-extension=true in the changefeed's sink URI and merge what it sends then, or "
_OFFSET_ORDER_HINT = "take Kafka's order (--order offset), if the messages of a row are in one partition"
_UNTIMED_HINTS = dict.fromkeys(
    ("avro", "canal-json", "debezium", "debezium-avro"), _ENABLE_EXTENSION_HINT + _OFFSET_ORDER_HINT
)
_VERSIONS_HINT = "row versions are made of changes that have it"
"""Hints what to do about changes that nothing orders, by the format read."""


def merge_table(
    session: SparkSession, job: Job, id_: TableId, location: TableLocation, changes: DataFrame | None,
    statements: Sequence[DdlText], summary: Summary, owners: RowOwners | None,
) -> int:  # fmt: skip
    """Changes (None: there are none) applied to the job's tables of one table; how many rows the first of them got.

    location: of the current table, if the job has one. job: knows the tables as they are in this batch. statements: of
    the history, in any order. owners: finds the table's changes among others', which are counted; None: all are its.
    """
    definition, steps, names, shared = define_table(job, id_, statements)
    try:
        table = definition if changes is None else known_table(job, id_, definition)
    except SetupError as error:
        if error.code != "USAGE" or changes is None or owners is None or owners.checkpoint is None:
            raise
        if not take_table(changes, names, summary, owners, shared).isEmpty():
            raise
        # A stream goes on until there is something of the table: its DDL may come. A wrong name is seen by the word.
        print(f"warning: {error.detail}. The stream waits for a change of it", file=sys.stderr)
        return 0
    if table is not None and changes is not None and not steps and job.read.format == "avro":
        keyed = _with_key(table, id_, changes)
        if keyed is None:  # all are of other tables, and nothing says what the key is
            assert owners is not None
            take_table(changes, names, summary, owners, shared)
            return 0
        table = keyed
    has_key = table is None or any(c.handle_key for c in table.columns)
    by_offset = job.order == "offset"
    names = names[-1:] if by_offset else names
    if by_offset and changes is not None:
        offset_order.refuse_truncate(changes, is_of_name(names[-1][1]), id_)
    targets = targets_of(session, job, id_, location, names, has_key)
    if changes is None or table is None:
        if definition is not None:
            for target in targets:
                target.follow(definition, steps)
        return 0
    taken, counts = changes, list[int]()
    if owners is not None:
        taken = take_table(changes, names, summary, owners, shared)
    for number, target in enumerate(targets):
        counted = Summary() if number else summary  # what one of them counts of the changes is so for all
        counts.append(target.merge(taken, table, steps, counted))
        if counted.skipped[REPEATED] and number:
            summary.skipped[REPEATED] += counted.skipped[REPEATED]
    return counts[0]


class TableDefinition(NamedTuple):
    """A table as statements define it; None: they don't."""

    definition: Table | None
    steps: list[SchemaChange]
    names: Names
    shared: SharedNames


def define_table(job: Job, id_: TableId, statements: Sequence[DdlText]) -> TableDefinition:
    """SetupError USAGE for statements that can't be followed."""
    with DEFINITIONS_LOCK:
        ordered = sort_statements(statements)
        steps, names = steps_of(ordered, id_, job), rename_chain(ordered, id_).names()
        definition = next((t for s in reversed(steps) for t in (s.after, s.before) if t is not None), None)
        return TableDefinition(definition, steps, names, shared_names(ordered))


def known_table(job: Job, id_: TableId, definition: Table | None) -> Table:
    """A table as statements define it, else as given definitions or registered schemas do. SetupError USAGE."""
    if definition is not None:
        return definition
    with DEFINITIONS_LOCK:
        if job.private.of_table([id_]).rules:
            details = f"private columns: give the table's DDL ({Hint.DDL} or {Hint.HISTORY}): it tells of renames"
            raise SetupError("USAGE", details=f"table {id_}: {details}")  # its changes must not wait by these names
        return newest_table(job.read, id_)


def open_directly(
    session: SparkSession, job: Job, id_: TableId, location: TableLocation, statements: Sequence[DdlText]
) -> DirectTable:
    """The current table of a name that no other table had. UnsupportedTable where Spark has to merge its changes."""
    open_log(tables.engine_of(session, job.merge or AUTO, location.format)(session, location.name))
    definition, steps, names, shared = define_table(job, id_, statements)
    if len(names) > 1 or shared or job.changelog or job.versions:
        raise UnsupportedTable("there is more to do than to write one table")
    try:
        table = known_table(job, id_, definition)
    except SetupError as error:
        raise UnsupportedTable("its columns are not known") from error
    (target,) = targets_of(session, job, id_, location, names, any(c.handle_key for c in table.columns))
    assert isinstance(target, merge.CurrentTable)
    return target.open_directly(table, steps)


def steps_of(statements: Sequence[DdlText], id_: TableId, job: Job) -> list[SchemaChange]:
    """The effects of statements on one table, in order, as a job has them."""
    steps = schema_changes((replace(s, zone=s.zone or job.ddl_zone) for s in statements), id_)
    if job.private.rules:
        steps = mask_steps(steps, job.private.of_table([id_]))
    return keep_partitions(steps) if job.on_partition_drop == "keep" else steps


def targets_of(
    session: SparkSession, job: Job, id_: TableId, location: TableLocation, names: Names, has_key: bool,
) -> list[merge.CurrentTable | changelog.Changelog | row_versions.RowVersions]:  # fmt: skip
    """The tables that the job writes, the current one first."""
    by_offset = job.order == "offset"
    types, on_lossy = (job.read.view.types, job.read.view.on_lossy) if job.read.view else (EXACT, "error")
    settings = TableSettings(
        id_, types, zone_of(job.read), names, by_offset, job.read.format in NULL_VALUES, on_lossy,
        _UNTIMED_HINTS.get(job.read.format, f"{job.read.format} sends none; {_OFFSET_ORDER_HINT}"), job.layout,
        job.private.of_table([id_]).facts,
    )  # fmt: skip

    def columns_of(location: TableLocation, kind: TableKind, settings: TableSettings = settings) -> TableColumns:
        engine = tables.engine_of(session, job.merge or AUTO, location.format)
        tombstones = engine(session, location.tombstones.name)
        return TableColumns(session, engine(session, location.name), tombstones, kind, settings)

    targets: list[merge.CurrentTable | changelog.Changelog | row_versions.RowVersions] = []
    if job.current:
        if not has_key and job.without_key == "append":
            columns = columns_of(location, keyless.KIND)
            targets.append(merge.CurrentTable(columns, keyless.append_inserts, keyless.check_no_key))
        elif by_offset:
            targets.append(merge.CurrentTable(columns_of(location, offset_order.KIND), offset_order.write_by_offset))
        else:
            targets.append(merge.CurrentTable(columns_of(location, merge.KIND), merge.write_by_commit_ts))
    if job.changelog is not None:
        targets.append(changelog.Changelog(columns_of(lake_location(job.changelog), changelog.KIND)))
    if job.versions is not None:
        settings = replace(settings, untimed_hint=_VERSIONS_HINT, layout=NO_LAYOUT)
        columns = columns_of(lake_location(job.versions), row_versions.KIND, settings)
        targets.append(row_versions.RowVersions(columns))
    return targets


def loaded_ts(session: SparkSession, job: Job, location: TableLocation) -> int:
    """The TSO of the newest snapshot from which all rows of a place come; -1: there is none."""
    table = tables.engine_of(session, job.merge or AUTO, location.format)(session, location.name)
    return int(table.properties().get(LOADED, -1)) if table.exists() else -1


def _with_key(table: Table, id_: TableId, changes: DataFrame) -> Table | None:
    """A table of registered schemas with the key that its rows name: no value's schema does. None without a row."""
    row = changes.where(is_of_name(id_) & (F.col("kind") == "row")).select("key").first()
    if row is None:
        return None
    keys = row["key"]
    return replace(table, columns=tuple(replace(c, handle_key=c.name in keys) for c in table.columns))


def take_table(
    changes: DataFrame, names: Names, summary: Summary, owners: RowOwners, shared: SharedNames = row_owners.NOT_SHARED
) -> DataFrame:  # fmt: skip
    """The rows of one table. What is left out is counted, and what is the table's, or not, by an estimate."""
    marked, is_row = owners.mark(changes, shared), F.col("kind") == "row"
    is_taken = F.coalesce(is_row & row_owners.is_of_names(names), F.lit(False))
    named = reduce(or_, (is_of_name(id_) for _, id_ in names))
    if shared and (count := marked.where(named & F.col(row_owners.IS_ESTIMATED)).count()):
        summary.flags[row_owners.TABLE_ESTIMATED] += count
    for row in marked.where(~is_taken).groupBy("kind").count().collect():
        summary.skipped[OTHER_TABLE if row["kind"] == "row" else row["kind"]] += row["count"]
    return marked.where(is_taken).drop(row_owners.OWNED_AT, row_owners.IS_ESTIMATED)
