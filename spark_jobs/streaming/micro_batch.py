"""One micro-batch, or all of a batch job, as stages: learn, decode, drop repeats, release, write."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow import lines
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_changes, warm_lines, warm_transcode
from ticdc_bridge.spark_jobs.io.locations import TABLE_PREFIXES, KafkaClient, lake_location, table_location_of
from ticdc_bridge.spark_jobs.lake.commit_summary import with_commit_facts
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import UnsupportedTable
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, is_rule
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.streaming import stages
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.consistent import ConsistentPoints
from ticdc_bridge.spark_jobs.streaming.direct_batch import can_merge_directly
from ticdc_bridge.spark_jobs.streaming.kafka_sender import KafkaSender, dead_letters
from ticdc_bridge.spark_jobs.streaming.many_tables import ManyTables
from ticdc_bridge.spark_jobs.streaming.pieces import Form, error_of_row
from ticdc_bridge.spark_jobs.streaming.sinks import OrderedSink, TopicSink, sink_for
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult, MicroBatch
from ticdc_bridge.spark_jobs.streaming.writers import ManyTablesWriter, RowsWriter, SinkWriter, TableMerger

_COMMIT_TS: Mapping[Form, str] = {"message": "commit_ts", "line": "commit_ts", "change": "change.commit_ts"}
"""The column of pieces that has the commit_ts of a change, by what they carry."""


class MicroBatchRunner:
    """`checkpoint`: of a stream; None for a batch job, which keeps nothing. out: a location, or an OrderedSink."""

    def __init__(
        self, spark: SparkSession, job: Job, out: str | OrderedSink, dead: str | None, kafka: KafkaClient,
        checkpoint: Checkpoint | None, table: TableId | None = None, statements: Sequence[DdlText] = (),
    ) -> None:  # fmt: skip
        self._kafka, self._checkpoint = kafka, checkpoint
        self._tables: ManyTables | None = None
        self._points: ConsistentPoints | None = None
        if job.consistent is not None:
            assert checkpoint is not None
            location, choice = lake_location(job.consistent), str(job.read.chosen or table)
            self._points = ConsistentPoints(location, job.merge or AUTO, checkpoint, choice)
        if isinstance(out, str) and table_location_of(out) and is_rule(out):
            rules = {"location": out, "changelog": job.changelog, "versions": job.versions}
            chosen = job.read.chosen or TableChoice()
            self._tables = ManyTables(chosen, rules, job.outputs, job.at_once, job.merge is not None, checkpoint)
            job = replace(job, read=replace(job.read, chosen=None))  # renames may bring others in
        if checkpoint is not None and job.merge:
            are_waiting = self._tables is not None and self._tables.has_set_aside
            checkpoint.check_rules(job.private.digest, are_waiting or checkpoint.count_held() > 0)
        self._job = job
        locations = (*([out] if isinstance(out, str) else []), *job.more_locations)
        with_facts = TABLE_PREFIXES if job.merge else ("iceberg:",)
        self._has_commit_facts = any(location.startswith(with_facts) for location in locations)
        self._definitions = stages.DefinitionLearner(job, table, statements, checkpoint)
        self._stages: list[stages.Stage] = [stages.drop_repeats] if job.dedupe else []
        self._stages.append(stages.release if job.held_by else stages.add_held)
        self._dead = sink_for(dead, kafka, "message", None, checkpoint, dead=True) if dead else None
        self._sender: KafkaSender | None = None
        self._is_direct = can_merge_directly(spark, job)
        self._form: Form
        self._out: OrderedSink | RowsWriter
        if isinstance(out, OrderedSink):
            self._form, self._out = "text", out
        else:
            self._form, self._out = self._writer_of(spark, out, table)
        self._warm_up()

    def _writer_of(self, spark: SparkSession, out: str, table: TableId | None) -> tuple[Form, RowsWriter]:
        job, location, definitions, checkpoint = self._job, table_location_of(out), self._definitions, self._checkpoint
        form: Form = "message" if job.write else "change" if location or table else "line"
        sink = sink_for(out, self._kafka, form, job.topic, checkpoint)
        if (
            isinstance(sink, TopicSink)
            and form == "message"
            and not job.needs_order
            and job.on_error != "fail"
            and not is_connect(spark)  # no accumulators: counts come with the rows
        ):
            self._topic = sink
            self._sender = KafkaSender(spark.sparkContext, sink.fixed, checkpoint is not None, sink.counts)
        if self._tables is not None:
            return form, ManyTablesWriter(spark, self._tables, definitions, self._points)
        if job.merge:
            assert table is not None
            assert location is not None
            return form, TableMerger(spark, table, location, definitions, self._points)
        return form, SinkWriter(sink, form, table)

    def _warm_up(self) -> None:
        """Compiles the kernels of the job before workers need them."""
        job = self._job
        if job.write is not None and not (job.needs_order or self._form == "text"):
            warm_transcode(job.read.format, job.write.format)
        elif self._form == "change" and not job.needs_order:
            warm_changes(job.read.format, job.read.view is not None and job.merge is None)
        elif self._form == "line" and lines.can_write_lines(job.read, job.needs_order):
            warm_lines(job.read.format)

    @property
    def asks_partitions(self) -> bool:
        """True if `process` needs the partitions of the topic."""
        return self._job.held_by is not None or self._has_commit_facts

    @property
    def set_aside(self) -> dict[str, tuple[int, str]]:
        """As Summary.set_aside."""
        return self._tables.set_aside if self._tables is not None else {}

    def cut_off(self) -> None:
        """From another thread: no other table of this micro-batch begins."""
        if self._tables is not None:
            self._tables.cut_off.set()

    def process(self, frame: DataFrame, number: int, partitions: frozenset[int] = frozenset()) -> BatchResult:
        """The rows of `frame` (spark.frames, with `position`) through the job. SetupError when it can't go on."""
        job = self._definitions.learn(frame, number)
        batch = MicroBatch(number, job, self._checkpoint, partitions, in_order=job.needs_order)
        if self._sender is not None and stages.held_rows(batch) is None:
            return self._send(self._sender, frame, batch)
        if self._is_direct and stages.held_rows(batch) is None and self._merge_directly(frame, batch):
            return batch.result
        with _persisted(stages.decode(frame, job, self._form)) as pieces:
            is_ordered = isinstance(self._out, OrderedSink)
            counts = pieces.where("kind in ('counts', 'fatal')")
            counts = counts.select("tally", "messages", "watermarks", "offsets", "error")
            batch.result = stages.count_rows(counts.collect(), skips_fatal=is_ordered)
            if self._definitions.is_behind:  # nothing is written yet
                return self.process(frame, number, partitions)
            dead, failed = pieces.where("kind = 'dead'"), batch.result.summary.errors.total()
            if failed and job.on_error == "fail" and not is_ordered:
                first = dead.select("error").first()
                error = error_of_row(WireError, first["error"]) if first else None
                text = f"{error.code}: {error.detail}" if error else ""
                details = error.code if error and job.private.rules else text  # a text may have a value
                raise SetupError("STOPPED", where=f"micro-batch {number}", details=details)
            rows = decoded = pieces if is_ordered else pieces.where("kind = 'out'")
            for stage in self._stages:
                rows = stage(rows, batch)
            if isinstance(self._out, OrderedSink):
                batch.result.summary.out = self._out.write_pieces(rows, batch.result.summary)
                return batch.result
            # Dead letters first: a Delta table takes a batch once, and what failed may be a row when it comes again.
            self._write_dead(dead.select(F.col("message.*"), F.col("position")), failed, batch)
            # As they came they are kept among the pieces already.
            with nullcontext(rows) if rows is decoded else _persisted(rows) as rows:
                self._write(self._out, rows, batch)
        return batch.result

    def _merge_directly(self, frame: DataFrame, batch: MicroBatch) -> bool:
        """False: the batch goes by Spark."""
        assert isinstance(self._out, TableMerger | ManyTablesWriter)

        def begin(result: BatchResult, newest_ts: int) -> AbstractContextManager[None]:
            if self._definitions.is_behind:
                raise UnsupportedTable("its private columns may have other names")
            batch.result = result
            return self._commit_facts(frame.sparkSession, batch, newest_ts)

        if self._out.merge_directly(frame, batch, begin) is None:
            return False
        self._definitions.forget_newest()
        self._write_dead(frame, 0, batch)
        return True

    def _write(self, writer: RowsWriter, rows: DataFrame, batch: MicroBatch) -> None:
        if batch.ends_at < 0:  # no watermark of some partition yet: all waits
            return
        commit_ts = _COMMIT_TS[self._form]
        count, oldest_ts, newest_ts = rows.agg(F.count(F.lit(1)), F.min(commit_ts), F.max(commit_ts)).collect()[0]
        batch.result.commit_ts = None if newest_ts is None else (oldest_ts, newest_ts)
        if count or self._tables is not None:
            self._definitions.forget_newest()
        with self._commit_facts(rows.sparkSession, batch, newest_ts):
            batch.result.summary.out = writer.write(rows, count, batch)
            if self._points is not None:
                self._points.record(rows.sparkSession, batch.ends_at, self.set_aside)

    def _commit_facts(
        self, session: SparkSession, batch: MicroBatch, newest_ts: int | None
    ) -> AbstractContextManager[None]:
        """What commits to tables of the lake are made in. newest_ts: of the batch's changes."""
        if not self._has_commit_facts:
            return nullcontext()
        return with_commit_facts(session, stages.commit_facts(batch, self._kafka, newest_ts))

    def _send(self, sender: KafkaSender, frame: DataFrame, batch: MicroBatch) -> BatchResult:
        """The way to Kafka where nothing has to be known of all messages before the first is written."""
        report = sender.send(frame, batch.job, self._topic.save)
        batch.result = BatchResult(report.summary, report.offsets)
        self._definitions.forget_newest()
        failed = batch.result.summary.errors.total()
        is_read_again = failed and batch.job.on_error != "drop" and self._dead is not None
        letters = dead_letters(frame, batch.job, report.failures()) if is_read_again else frame
        with _persisted(letters) if is_read_again else nullcontext(letters) as letters:
            self._write_dead(letters, failed, batch)
        return batch.result

    def _write_dead(self, letters: DataFrame, failed: int, batch: MicroBatch) -> None:
        """letters: of the messages that failed, `failed` of them; they are counted where the job drops them."""
        if failed and batch.job.on_error == "drop":
            batch.result.summary.dropped = failed
        elif self._dead is not None and failed:
            self._dead.write(letters, batch.number, False)
        elif self._dead is not None:
            self._dead.write_nothing(batch.number)


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Computed once: what is counted is what is written."""
    cached_frame = frame.persist()
    try:
        yield cached_frame
    finally:
        cached_frame.unpersist()
