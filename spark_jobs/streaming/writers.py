"""The last stage of a micro-batch: its rows as messages, lines or rows of tables, or merged into tables of the lake."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import TableLocation, lake_location
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import UnsupportedTable
from ticdc_bridge.spark_jobs.lake.direct_merge import REFUSALS, DirectTable
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import TableProgress
from ticdc_bridge.spark_jobs.streaming.consistent import ConsistentPoints
from ticdc_bridge.spark_jobs.streaming.direct_batch import BeginMerge, merge_directly
from ticdc_bridge.spark_jobs.streaming.many_tables import ManyTables, TableTask
from ticdc_bridge.spark_jobs.streaming.merge_batch import loaded_ts, merge_table, open_directly, take_table
from ticdc_bridge.spark_jobs.streaming.pieces import Form
from ticdc_bridge.spark_jobs.streaming.row_owners import RowOwners
from ticdc_bridge.spark_jobs.streaming.sinks import BatchSink, TableSink
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult, DefinitionLearner, MicroBatch, WrittenTable
from ticdc_bridge.spark_jobs.streaming.typed_batch import typed_rows

_INPUT_ORDER = ("position", "number", "part")
_COLUMNS: dict[Form, tuple[str, ...]] = {
    "message": ("message.*", *_INPUT_ORDER, "id", "commit_ts", "rank"),
    "line": ("line", *_INPUT_ORDER, "commit_ts", "rank"),
    "change": ("change.*",),
}
"""The columns of pieces that sinks take, by what the pieces carry."""


class RowsWriter(Protocol):
    def write(self, rows: DataFrame, count: int, batch: MicroBatch) -> int:
        """rows: of pieces, `count` of them. How many rows, messages or keys were written."""


@dataclass(frozen=True)
class SinkWriter:
    """Messages, lines or change events to a sink. table: the one whose rows go there as its columns are now, if any."""

    sink: BatchSink
    form: Form
    table: TableId | None

    def write(self, rows: DataFrame, count: int, batch: MicroBatch) -> int:
        if not count:
            self.sink.write_nothing(batch.number)
            return 0
        by_time = batch.job.until_resolved
        if batch.in_order:
            # All rows of a key come from one partition of the source: there they get their order back.
            order = ("commit_ts", "rank", *_INPUT_ORDER) if by_time else _INPUT_ORDER
            rows = rows.repartition(F.expr("shiftright(position, 48)")).sortWithinPartitions(*order)
        rows = rows.select(*_COLUMNS[self.form])
        if self.table is not None:
            owners = RowOwners(batch.checkpoint, batch.number)
            taken = take_table(rows, [(0, self.table)], batch.result.summary, owners)
            rows = typed_rows(taken, self.table, batch.job.read)
            count = rows.count()
        self.sink.write(rows.drop("error"), batch.number, by_time)
        return count


@dataclass(frozen=True)
class TableMerger:
    """Changes applied to the job's tables of one table; where a batch has none, they follow its DDL."""

    spark: SparkSession
    table: TableId
    location: TableLocation
    definitions: DefinitionLearner
    points: ConsistentPoints | None

    def merge_directly(self, frame: DataFrame, batch: MicroBatch, begin: BeginMerge) -> BatchResult | None:
        """As spark_jobs.streaming.direct_batch has it."""
        job, statements, name = batch.job, self.definitions.history(), self.table.folded
        try:
            table = open_directly(frame.sparkSession, job, self.table, self.location, statements)
        except REFUSALS:
            return None
        result = merge_directly(frame, job, lambda id_: table if id_ == name else None, begin)
        if result is not None:
            result.summary.tables.clear()
            result.written = [self._written(job, statements, result.summary.out)]
        return result

    def _written(self, job: Job, statements: Sequence[DdlText], keys: int) -> WrittenTable:
        locations = (str(self.location) if job.current else None, job.changelog, job.versions)
        return WrittenTable(self.table, locations, statements, keys)

    def write(self, rows: DataFrame, count: int, batch: MicroBatch) -> int:
        # A micro-batch has a session of its own: its views are not seen from another.
        session, changes = (rows.sparkSession, rows.select("change.*", "position")) if count else (self.spark, None)
        owners, statements = RowOwners(batch.checkpoint, batch.number), self.definitions.history(batch.ends_at)
        job, summary = batch.job, batch.result.summary
        written = merge_table(session, job, self.table, self.location, changes, statements, summary, owners)
        batch.result.written = [self._written(job, statements, written)]
        if self.points is not None:
            self.points.note(session, str(self.table), self.location, batch.ends_at)
        return written


@dataclass(frozen=True)
class ManyTablesWriter:
    """Changes of each table to its own location, appended or merged."""

    spark: SparkSession
    tables: ManyTables
    definitions: DefinitionLearner
    points: ConsistentPoints | None

    def merge_directly(self, frame: DataFrame, batch: MicroBatch, begin: BeginMerge) -> BatchResult | None:
        """As spark_jobs.streaming.direct_batch has it."""

        def begin_tables(result: BatchResult, newest_ts: int) -> AbstractContextManager[None]:
            self.tables.keep_read_until(newest_ts)
            return begin(result, newest_ts)

        def open_table(id_: TableId) -> DirectTable | None:
            if (task := self.tables.task_of_name(id_)) is None:
                return None
            tasks.append(task)
            job, location = replace(batch.job, changelog=task.changelog, versions=task.versions), task.location
            table = open_directly(frame.sparkSession, job, task.id, lake_location(location), task.statements)
            if table.loaded_ts < task.needs:
                raise UnsupportedTable("it lacks changes")
            return table

        if not self.tables.tries_directly(self.definitions.history()):
            return None
        tasks = list[TableTask]()
        result = merge_directly(frame, batch.job, open_table, begin_tables)
        self.tables.was_direct = result is not None
        if result is not None:
            keys = {progress.name: progress.out for progress in result.summary.tables}
            result.written = [_written(task, keys[str(task.id)]) for task in tasks]
        return result

    def write(self, rows: DataFrame, count: int, batch: MicroBatch) -> int:
        session, changes = (rows.sparkSession, rows.select("change.*", "position")) if count else (self.spark, None)
        job, summary = batch.job, batch.result.summary

        def write_table(task: TableTask) -> int:
            location = lake_location(task.location)
            if job.merge:
                layout = task.layout or job.layout
                table_job = replace(job, changelog=task.changelog, versions=task.versions, layout=layout)
                written = merge_table(
                    session, table_job, task.id, location, task.all_changes, task.statements, task.summary, None
                )
                if self.points is not None:
                    self.points.note(session, str(task.id), location, batch.ends_at)
                return written
            assert task.changes is not None
            typed = typed_rows(task.changes.drop("position"), task.id, job.read)
            TableSink(location, batch.checkpoint, dead=False).write(typed.drop("error"), batch.number, False)
            return task.rows

        def loaded_of(task: TableTask) -> int:
            locations = (task.location, task.versions)
            return min(loaded_ts(session, job, lake_location(text)) for text in locations if text is not None)

        statements = self.definitions.history(batch.ends_at) if job.merge else ()
        keep = None if self.points is None else self.points.keep
        done = self.tables.write(changes, batch.number, statements, summary, write_table, loaded_of, session, keep)
        batch.result.written = [_written(task, task.out) for task in done]
        summary.tables = [TableProgress(str(task.id), task.rows, task.out, task.newest) for task in done]
        return sum(task.out for task in done)


def _written(task: TableTask, keys: int) -> WrittenTable:
    current = None if task.location in (task.changelog, task.versions) else task.location
    return WrittenTable(task.id, (current, task.changelog, task.versions), task.statements, keys)
