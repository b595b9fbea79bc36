"""The stages of a micro-batch before it is written, each on its own: learn, decode, drop repeats, release."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.lake.column_history import statements_of_events
from ticdc_bridge.spark_jobs.lake.column_masks import follow_renames
from ticdc_bridge.spark_jobs.lake.commit_summary import summary_of_commit
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.newest_columns import with_newest
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import StreamDefinitions
from ticdc_bridge.spark_jobs.pipeline.watermark_buffer import no_watermark_error
from ticdc_bridge.spark_jobs.spark.transport import map_messages
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.ddl_events import collect_ddl
from ticdc_bridge.spark_jobs.streaming.pieces import Form, PieceBatches, error_of_row, pieces_type


class WrittenTable(NamedTuple):
    """A table of TiDB that a micro-batch merged. locations: of the current table, the changelog and the versions, where
    it has them. statements: its history, and others'. keys: that were written.
    """

    id: TableId
    locations: Sequence[str | None]
    statements: Sequence[DdlText]
    keys: int


@dataclass
class BatchResult:
    """The result of one micro-batch: its counts, and the newest offset read of each partition. commit_ts: of its oldest
    and its newest change.
    """

    summary: Summary = field(default_factory=Summary)
    offsets: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    resolved: int | None = None
    commit_ts: tuple[int, int] | None = None
    written: list[WrittenTable] = field(default_factory=list)


@dataclass
class MicroBatch:
    """A micro-batch as its stages hand it on.

    job: as it knows the tables of this batch. checkpoint: None in a batch job. partitions: of the topic, where a stage
    asks for them. in_order: its rows are to be written in the order of the input.
    """

    number: int
    job: Job
    checkpoint: Checkpoint | None = None
    partitions: frozenset[int] = frozenset()
    in_order: bool = False
    result: BatchResult = field(default_factory=BatchResult)

    @property
    def ends_at(self) -> int:
        """The commit_ts up to which merged tables follow changes and statements in this batch; -1: nothing yet."""
        resolved = -1 if self.result.resolved is None else self.result.resolved
        return resolved if self.job.consistent else MAX_TSO


Stage = Callable[[DataFrame, MicroBatch], DataFrame]
"""Rows of pieces (spark_jobs.streaming.pieces) → those that go on."""


class DefinitionLearner:
    """The tables that DDL defines: of a file (statements), of the stream, or of a history service."""

    def __init__(
        self, job: Job, table: TableId | None, statements: Sequence[DdlText], checkpoint: Checkpoint | None
    ) -> None:
        self._job, self._table, self._checkpoint = job, table, checkpoint
        self._statements = tuple(statements)
        self._events: list[DdlEvent] = []
        tables = job.read.tables
        self._service = tables if isinstance(tables, HistoryTables) else None
        self._private = lru_cache(1)(partial(follow_renames, job.private))
        self._masked_by: list[DdlText] | None = None

    def learn(self, frame: DataFrame, number: int) -> Job:
        """The job, its codecs knowing the tables that DDL of this batch and of those before defines."""
        job, read, tables = self._job, self._job.read, self._job.read.tables
        if read.learn:
            before = self._checkpoint.ddl_before(number) if self._checkpoint else []
            events = collect_ddl(frame, job)
            self._events = [*before, *events]
            tables = learned = StreamDefinitions(tables)
            for event in self._events:
                learned.learn(event)
            if self._checkpoint is not None:
                self._checkpoint.keep_ddl(number, events)
        read = replace(read, tables=tables)
        if read.view is not None and self._table is not None and not job.merge:
            with suppress(SetupError):  # a table that nobody knows yet has no rows yet
                read = with_newest(read)
        self._masked_by = self._ask_service() if job.private.rules else None
        private = self._private(tuple(self.history())) if job.private.rules else job.private
        write = replace(job.write, tables=tables) if job.write else None
        return replace(job, read=read, write=write, private=private)

    def history(self, until: int = MAX_TSO) -> list[DdlText]:
        """All DDL that is known up to a commit_ts; where columns are private, what `learn` knew."""
        of_service = self._ask_service() if self._masked_by is None else self._masked_by
        statements = (*self._statements, *statements_of_events(self._events), *of_service)
        return [statement for statement in statements if statement.commit_ts <= until]

    @property
    def is_behind(self) -> bool:
        """True if workers, who ask the service too, may know names of private columns that came after `learn`."""
        return self._masked_by is not None and self._masked_by != self._ask_service()

    def _ask_service(self) -> list[DdlText]:
        return self._service.statements() if self._service else []

    def forget_newest(self) -> None:
        """After rows that may have had a newer version of their table."""
        if self._service is not None:
            self._service.forget_newest()


def decode(frame: DataFrame, job: Job, form: Form) -> DataFrame:
    """Rows of the input (spark_jobs.spark.frames, with `position`) → pieces."""
    kind = pieces_type()
    return map_messages(frame, PieceBatches(job, form, arrow_schema_of(kind)), kind)


def count_rows(counts: Iterable[Any], skips_fatal: bool) -> BatchResult:
    """SetupError where a worker could not go on, unless who takes the pieces in their order says so (skips_fatal)."""
    result = BatchResult()
    for row in counts:
        if row["error"] is not None:
            if skips_fatal:
                continue
            raise error_of_row(SetupError, row["error"])
        result.summary.add(row["tally"])
        result.summary.messages += row["messages"]
        for name, newest in (("watermarks", result.watermarks), ("offsets", result.offsets)):
            for partition, value in row[name].items():
                newest[partition] = max(value, newest.get(partition, value))
    return result


def drop_repeats(rows: DataFrame, batch: MicroBatch) -> DataFrame:
    """--dedupe: without changes that were there before, in this batch or an earlier one."""
    same = Window.partitionBy("id", "part").orderBy("position", "number")
    first = rows.withColumn("_turn", F.row_number().over(same)).where("id is null or _turn = 1").drop("_turn")
    received = rows.where("part = 0").count()
    if batch.checkpoint is not None:
        earlier = batch.checkpoint.rows_before("seen", batch.number)
        if earlier:
            seen_ids = rows.sparkSession.read.schema("id binary").parquet(*earlier)
            first = first.join(seen_ids, "id", "left_anti")
        ids = first.where("id is not null and part = 0").select("id")
        ids.coalesce(1).write.mode("overwrite").parquet(batch.checkpoint.rows_at("seen", batch.number))
    repeated = received - first.where("part = 0").count()
    batch.result.summary.skipped.update({"duplicate": repeated} if repeated else {})
    return first


def release(rows: DataFrame, batch: MicroBatch) -> DataFrame:
    """What the watermarks of all partitions cover (Job.held_by); the rest is kept for later batches."""
    checkpoint, number, summary = batch.checkpoint, batch.number, batch.result.summary
    commit_ts = F.coalesce("commit_ts", "change.commit_ts")  # kernels write the change's alone
    marks = _newest_watermarks(batch)
    partitions = batch.partitions | marks.keys()
    marks = {partition: mark for partition, mark in marks.items() if mark >= 0}
    covered = bool(marks) and partitions <= marks.keys()
    resolved = min(marks.values()) if covered else -1
    batch.result.resolved = resolved if covered else None
    if rows.where(commit_ts.isNull() & (F.col("rank") <= 1)).limit(1).count():
        details = f"{batch.job.held_by}: a change has no commit_ts to compare with the watermark"
        raise SetupError("USAGE", details=details)
    if checkpoint is not None and (path := checkpoint.rows("held", number - 1)):
        rows = rows.sparkSession.read.schema(rows.schema).parquet(path).unionByName(rows)
    rest = rows.where(commit_ts > resolved)
    if checkpoint is None:
        summary.held = rest.where("part = 0").count()
        if not marks and summary.held:
            raise no_watermark_error()
    else:
        # Written, then read again: what is released is taken from what was decided, not decided twice.
        rest.write.mode("overwrite").parquet(checkpoint.rows_at("held", number))
        held = rows.sparkSession.read.parquet(checkpoint.rows_at("held", number))
        summary.held = held.where("part = 0").count()
        checkpoint.keep_watermarks(number, marks)
        checkpoint.forget("held", number - 2)
    return rows.where(commit_ts.isNull() | (commit_ts <= resolved))


def held_rows(batch: MicroBatch) -> str | None:
    """Rows that were held back (Job.held_by) in the batch before this one, where this run holds none back."""
    if batch.checkpoint is None or batch.job.held_by:
        return None
    batch.checkpoint.forget("held", batch.number)  # of a try with it
    return batch.checkpoint.rows("held", batch.number - 1)


def add_held(rows: DataFrame, batch: MicroBatch) -> DataFrame:
    """With `held_rows`."""
    if (path := held_rows(batch)) is None:
        return rows
    batch.in_order = True
    return rows.sparkSession.read.schema(rows.schema).parquet(path).unionByName(rows)


def _newest_watermarks(batch: MicroBatch) -> dict[int, int]:
    """The highest of each partition, in this batch and those before."""
    marks = batch.checkpoint.watermarks_before(batch.number) if batch.checkpoint else {}
    for partition, mark in batch.result.watermarks.items():
        marks[partition] = max(mark, marks.get(partition, -1))
    return marks


def commit_facts(batch: MicroBatch, kafka: KafkaClient, commit_ts: int | None) -> dict[str, str]:
    """The facts of a commit of the batch (summary_of_commit). Watermarks go on from batch to batch in the checkpoint.

    Of a file or several topics nothing tells which partitions there are.
    """
    checkpoint, resolved = batch.checkpoint, batch.result.resolved
    topic = kafka.read.only if kafka.read else None
    if not batch.job.held_by and topic is not None:
        marks = _newest_watermarks(batch)
        if checkpoint is not None:
            checkpoint.keep_watermarks(batch.number, marks)
        partitions = batch.partitions | batch.result.offsets.keys() | marks.keys()
        resolved = min((marks.get(partition, -1) for partition in partitions), default=-1)
    has_watermarks = (topic is not None or batch.job.consistent) and not kafka.from_offset
    if not has_watermarks or (resolved is not None and resolved < 0):
        resolved = None
    application, number = (checkpoint.id, batch.number) if checkpoint else (None, None)
    return summary_of_commit(application, number, topic, batch.result.offsets, commit_ts, resolved)
