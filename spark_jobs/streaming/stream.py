"""`--stream`: Structured Streaming by foreachBatch, each micro-batch planned anew (spark_jobs.streaming.micro_batch).

Spark keeps offsets in the checkpoint and runs a batch again that did not end: sinks take it once (a Delta table, a
folder) or give its messages an id (Kafka). While the registry or Kafka is down the stream waits and tries again, up to
`patience`; then it ends, and no offset of this batch is committed.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.clients.http import stop_requested
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.extras import missing_package
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.event import ms_to_tso
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, topics_of_location
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig, check_any_order
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import batch_line, print_summary, report_slow_steps, table_lines
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.runtime.spark_settings import DEFAULT, SparkSettings
from ticdc_bridge.spark_jobs.spark import errors
from ticdc_bridge.spark_jobs.spark.frames import kafka_read_options, with_position
from ticdc_bridge.spark_jobs.spark.session import is_connect, running_tasks
from ticdc_bridge.spark_jobs.streaming import lineage
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.kafka_source import KafkaSource
from ticdc_bridge.spark_jobs.streaming.metrics import LOOPBACK, JobMetrics
from ticdc_bridge.spark_jobs.streaming.micro_batch import MicroBatchRunner
from ticdc_bridge.spark_jobs.streaming.signals import GRACE, stop_on_signal
from ticdc_bridge.spark_jobs.streaming.sinks import session_of
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.streaming.openlineage import LineageRun

_VECTORS = "spark.sql.iceberg.vectorization.enabled"
"""Iceberg's vectorized reader keeps some memory of each column and file that it ever read (upstream issue 13937)."""
_UNRESOLVED, _FAR = 600.0, ms_to_tso(600_000)
_TABLE_FIELDS = ("current", "changelog", "versions")  # of a Job
_PAUSE, _LONGEST = 1.0, 60.0
_DEATHS = 4
# Milliseconds. Kafka's client asks a minute long for a topic that is gone, and Spark asks it again.
_WAITS = {"request.timeout.ms": "15000", "default.api.timeout.ms": "20000"}


@dataclass(frozen=True)
class StreamJob:
    """A streaming job. trigger, patience: seconds; trigger None: what is there now. is_patient: from the start."""

    command: str
    job: Job
    source: str
    out: str
    dead: str | None
    kafka: KafkaClient
    checkpoint: str
    trigger: float | None
    table: TableId | None = None
    most: int | None = None
    spark: SparkSettings = DEFAULT
    metrics: str | None = None
    metrics_host: str = LOOPBACK
    lineage: str | None = None
    openlineage: str | None = None
    job_name: str = ""
    patience: float = 600.0
    is_patient: bool = False
    statements: tuple[DdlText, ...] = ()
    as_json: bool = False


def run_stream(stream: StreamJob) -> int:
    """Runs until SIGTERM or Ctrl-C, which end it between two micro-batches; its exit code. SetupError."""
    check_any_order(stream.job.read)
    topics = topics_of_location(stream.source)
    if topics is None:
        raise SetupError("USAGE", details="--stream reads kafka:TOPIC")
    write = stream.job.write
    about = {
        "command": stream.command, "source": stream.source, "out": stream.out, "from": stream.job.read.format,
        "to": write.format if write else "plain", "table": str(stream.table) if stream.table else None,
        **({name: getattr(stream.job, name) for name in _TABLE_FIELDS} if stream.job.merge else {}),
    }  # fmt: skip
    metrics = JobMetrics(stream.metrics, stream.job_name, stream.metrics_host)
    checkpoint = Checkpoint(path_of(stream.checkpoint), about)
    if not stream.job.held_by and (count := checkpoint.count_held()):
        text = f"{count} rows that an earlier run held back are written with the next micro-batch"
        print(f"{stream.command}: {text}", file=sys.stderr)
    source = KafkaSource(topics, stream.kafka, checkpoint)
    _wait_for_kafka(stream, source)
    source.check()
    begin_run = _lineage_run(stream)
    spark = session_of(stream.job, stream.spark, stream.out, stream.dead)
    refuse_connect(spark)
    if spark.conf.get(_VECTORS, None) is None:
        spark.conf.set(_VECTORS, "false")
    with begin_run as lineage_run:
        running = _RunningStream(stream, source, spark, checkpoint, metrics, lineage_run)
        running.run_until_stopped()
    print_summary(stream.command, running.total, stream.table, stream.as_json)
    if running.interrupted:
        print("interrupted: the next start goes on from the checkpoint", file=sys.stderr)
        return 130
    return running.total.exit_code


def _lineage_run(stream: StreamJob) -> AbstractContextManager[LineageRun | None]:
    if stream.openlineage is None:
        return nullcontext()
    servers = stream.kafka.settings()["bootstrap.servers"]
    try:
        from ticdc_bridge.spark_jobs.streaming.openlineage import LineageRun

        return LineageRun(stream.openlineage, stream.job_name, servers)
    except Exception as error:  # its client raises what it likes of its own configuration
        text = missing_package(error, "openlineage") if isinstance(error, ImportError) else None
        details = f"--openlineage: {text or mask_credentials(f'its client: {error}')}"
        raise SetupError("USAGE", details=details) from error


def refuse_connect(spark: SparkSession) -> None:
    """SetupError USAGE for a session of Spark Connect, whose server would run the function of each micro-batch."""
    if is_connect(spark):
        details = (
            "--stream needs a Spark session in this process: over Spark Connect the server would run the micro-batches,"
            " away from the checkpoint and the counts. Run the job with spark-submit, or use decode() or transcode()"
            " of a streaming DataFrame"
        )
        raise SetupError("USAGE", details=details)


def _wait_for_kafka(stream: StreamJob, source: KafkaSource) -> None:
    """SetupError UNKNOWN_TOPIC where the topic is not there, KAFKA_UNREACHABLE where Kafka is away for too long."""
    end, pause = time.monotonic() + stream.patience * stream.is_patient, _PAUSE
    while True:
        try:
            source.find()
            return
        except SetupError as error:
            is_away = error.code == "KAFKA_UNREACHABLE"
            if not is_away or time.monotonic() + pause > end:
                raise
            print(f"{stream.command}: {error.detail}; again in {pause:g} s", file=sys.stderr)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST)


class _RunningStream:
    def __init__(
        self, stream: StreamJob, source: KafkaSource, spark: SparkSession, checkpoint: Checkpoint, metrics: JobMetrics,
        lineage_run: LineageRun | None,
    ) -> None:  # fmt: skip
        self._stream, self._source, self._spark, self._checkpoint = stream, source, spark, checkpoint
        job = _with_patience(stream.job, stream.patience)
        locations = stream.out, stream.dead, stream.kafka
        self._runner = MicroBatchRunner(spark, job, *locations, checkpoint, stream.table, stream.statements)
        self._metrics, self._lineage_run = metrics, lineage_run
        self.total = Summary(set_aside=self._runner.set_aside)
        self._failed: BridgeError | None = None
        self._crashed: Exception | None = None
        self._resolved_at = self._well_at = time.monotonic()
        self._unresolved = self.interrupted = False
        self._stopping, self._ended, self._query = threading.Event(), threading.Event(), None
        self._batches, self._last_warned = 0, -1

    def run_until_stopped(self) -> None:
        """Starts the query, and again where Kafka was away, until patience ends."""
        pause, deaths = _PAUSE, 0
        with stop_on_signal(self._stop, self._ended):
            while not self._stopping.is_set():
                began, batches, self._crashed = time.monotonic(), self._batches, None
                error = self._run_once()
                if self._failed is not None:
                    raise self._failed
                if self._stopping.is_set():
                    return
                if error is None and self._unresolved:
                    raise _no_watermark(self._stream.job)
                if error is None:
                    return
                if _is_unreported(error) and self._batches > batches:
                    continue
                if self._crashed is None:
                    self._source.check()
                if (stopped := _lasting_error(self._crashed or error, str(self._source.topics))) is not None:
                    raise stopped
                cause, text = self._crashed or error, errors.shorten_message(error)
                if errors.WORKER_DIED in str(cause) or errors.is_conflict(cause):
                    deaths = 1 if self._batches > batches else deaths + 1
                    if deaths < _DEATHS:
                        continue
                    if errors.is_conflict(cause):
                        raise errors.error_of(cause) or cause
                    details = f"a worker died {deaths} times in a row (out of memory?): {text}"
                    raise SetupError("STOPPED", where="a micro-batch", details=details)
                if not errors.is_kafka_away(error):
                    if self._crashed is not None or "kafka" not in text.lower():
                        raise errors.error_of(cause) or cause
                    away = SetupError("KAFKA_UNREACHABLE", servers=self._servers(), details=text)
                    raise errors.unknown_topic(error) or away
                self._well_at = max(self._well_at, began if time.monotonic() - began > 120 else self._well_at)
                if time.monotonic() - self._well_at > self._stream.patience:
                    details = f"{text} (tried for {self._stream.patience:g} s; nothing was skipped)"
                    raise SetupError("KAFKA_UNREACHABLE", servers=self._servers(), details=details)
                print(f"{self._stream.command}: {text}; again in {pause:g} s", file=sys.stderr)
                self._stopping.wait(pause)
                pause = min(pause * 2, _LONGEST)

    def _run_once(self) -> Exception | None:
        """One life of the query; what it ended with."""
        try:
            self._query = query = self._start_query()
            query.awaitTermination()
        except (PySparkException, Exception) as error:
            self._failed = errors.java_end(error) or self._failed
            return error
        return None

    def _start_query(self) -> Any:
        stream = self._stream
        settings = stream.kafka.java_settings()
        if not settings.keys() & _WAITS.keys():
            settings = {**_WAITS, **settings}
        reader = (
            self._spark.readStream.format("kafka")
            .options(**kafka_read_options(self._source.topics, settings))
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("fetchOffset.numRetries", "2")
            .option("fetchOffset.retryIntervalMs", "2000")
        )
        if stream.most is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(stream.most))
        # What is taken of the rows is said in each batch, in whose plan it costs no copy of them.
        writer = reader.load().writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self._checkpoint.spark)
        if stream.trigger is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{max(stream.trigger, 0.001) * 1000:.0f} milliseconds").start()

    def _batch(self, frame: DataFrame, number: int) -> None:
        began = time.monotonic()
        if self._stopping.is_set():
            raise _StopRequested
        try:
            self._source.check()
            known_partitions = self._source.partitions() if self._runner.asks_partitions else frozenset[int]()
            frame = with_position(frame.where(f"`offset` >= {self._stream.kafka.from_offset}"), self._source.numbers)
            text = f"{self._stream.command}: batch {number}: working"
            with report_slow_steps(text, after=10, state=lambda: running_tasks(frame.sparkSession)):
                outcome = self._runner.process(frame, number, known_partitions)
            self._check_resolved(outcome)
            self._warn_of_last(outcome, number)
        except BridgeError as error:
            if errors.is_conflict(error):
                self._crashed = error
            else:
                self._failed = error
            raise
        except Exception as error:
            self._crashed = error
            if self._stopping.is_set():  # Spark searches the text by a pattern that overflows the stack on long ones
                raise _StopRequested from None
            raise
        self._batches += 1
        self._well_at = time.monotonic()
        self._tell(outcome, number, self._well_at - began)
        gc.collect()  # a frame that only a cycle of Python objects holds keeps its plan in the JVM
        if self._batches == 1:
            gc.freeze()  # what is loaded by now stays: collections need not look at it

    def _check_resolved(self, outcome: BatchResult) -> None:
        """Where a source sends no watermark, rows would be held for ever (Job.held_by)."""
        job = self._stream.job
        self._unresolved = job.held_by is not None and outcome.resolved is None and outcome.summary.held > 0
        if not self._unresolved:
            self._resolved_at = time.monotonic()
        elif time.monotonic() - self._resolved_at > _UNRESOLVED:
            raise _no_watermark(job)

    def _warn_of_last(self, outcome: BatchResult, number: int) -> None:
        """Says which topic all rows wait for (Job.held_by), where its watermarks have ended."""
        marks = self._checkpoint.watermarks_before(number + 1) if self._stream.job.held_by else {}
        last = min(marks, key=marks.__getitem__, default=-1)
        if last in (-1, self._last_warned, *outcome.watermarks) or max(marks.values()) - marks[last] < _FAR:
            return
        self._last_warned, topic = last, self._source.topics.only or (self._source.numbers or ())[last][0]
        text = (
            f"all rows wait for topic {topic}, whose newest watermark is {marks[last]}, others' {max(marks.values())}"
        )
        text += ". TiCDC sends none once its tables are all dropped: go on without it, with another --checkpoint"
        print(f"warning: {text}", file=sys.stderr)

    def _tell(self, outcome: BatchResult, number: int, took: float) -> None:
        stream, summary = self._stream, outcome.summary
        waiting: dict[str, int] | None = None
        with suppress(SetupError):  # it is not known while Kafka is away
            waiting = self._source.count_waiting(outcome.offsets)
        lag = None if waiting is None else sum(waiting.values())
        rate = summary.messages / took if took else 0.0
        for text in summary.new_mismatches(self.total):
            print(f"warning: {text}", file=sys.stderr)
        print(batch_line(stream.command, number, summary, lag, rate), file=sys.stderr, flush=True)
        for text in table_lines(stream.command, summary.tables):
            print(text, file=sys.stderr, flush=True)
        try:
            self._metrics.update(summary, rate, waiting or {})
        except SetupError as error:  # the rows are written: they are not to be written again for this
            print(f"warning: {error.detail}", file=sys.stderr)
        what = stream.job_name, stream.command, stream.source, stream.out, stream.job
        earlier, positions = self.total.errors, self._source.positions()
        lineage.post(stream.lineage, *what, summary, waiting, positions, dead_letter=stream.dead, errors_before=earlier)
        if self._lineage_run is not None:
            self._lineage_run.send_batch(self._spark, stream.job.merge or AUTO, number, outcome)
        self.total.merge(summary)

    def _stop(self, by: int) -> None:
        """Ends the query after this micro-batch; one that takes too long, or at a second signal, is cut off."""
        again, end = self._stopping.is_set(), time.monotonic() + GRACE
        if not again:
            text = f"stopping after this micro-batch, within {GRACE:g} s; a second signal stops at once"
            print(f"{self._stream.command}: {text}", file=sys.stderr)
        self._stopping.set()
        stop_requested.set()
        self.interrupted = self.interrupted or by == signal.SIGINT
        while not self._ended.wait(0.05):
            query = self._query
            with suppress(Exception):  # of a JVM that has ended: the main thread says so
                if query is None or not query.isActive:
                    continue
                if again or time.monotonic() > end or not query.status["isTriggerActive"]:
                    self._runner.cut_off()
                    query.stop()

    def _servers(self) -> str:
        return self._stream.kafka.settings()["bootstrap.servers"]


def _lasting_error(error: Exception, topic: str) -> SetupError | None:
    """An error that comes again at each try; None for any other."""
    if (connector := errors.missing_connector(error)) is not None:
        return connector
    if (message := errors.raised_message(error)) is not None:
        return SetupError("USAGE", details=message)
    if (which := errors.lost_offsets(error)) is not None:
        details = (
            "messages that this checkpoint has not read yet are gone from Kafka (their retention is over, or they "
            f"were deleted): {which}. Load lake tables again with --replace (docs/production.md, Recover), then take a"
            " new --checkpoint"
        )
        return SetupError("STOPPED", where=f"topic {topic!r}", details=details)
    if (why := errors.kafka_refusal(error)) is not None:
        return SetupError("STOPPED", where="Kafka", details=f"{why} (it comes again at each try; nothing was skipped)")
    return None


class _StopRequested(Exception):
    """The stream is to stop: this micro-batch is left to the next start."""


def _no_watermark(job: Job) -> SetupError:
    details = f"{job.held_by}: rows wait, and not every partition of the topic has sent a watermark"
    return SetupError("USAGE", details=details)


def _with_patience(job: Job, patience: float) -> Job:
    """The work, its registries and its history waited for in mid-stream."""

    def patient(codec: CodecConfig | None) -> CodecConfig | None:
        if codec is not None and isinstance(codec.schemas, HttpSchemas):
            codec = replace(codec, schemas=codec.schemas.with_wait(patience))
        if codec is not None and isinstance(codec.tables, HistoryTables):
            codec = replace(codec, tables=codec.tables.with_wait(patience))
        return codec

    read = patient(job.read)
    assert read is not None
    return replace(job, read=read, write=patient(job.write))


def _is_unreported(error: Exception) -> bool:
    """A defect of Spark 4.1's Kafka source: after a batch that it runs again it can't make its progress report.

    The batch is committed by then (KafkaMicroBatchStream.metrics, latestPartitionOffsets is null); the next start is
    well.
    """
    return "scala.collection.IterableOps.map" in str(error) and '"scala.Option.get()" is null' in str(error)
