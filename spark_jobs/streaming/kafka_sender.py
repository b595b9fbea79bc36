"""Micro-batches that go to Kafka in one pass: workers' messages straight into Spark's Kafka sink, nothing kept between.

Counts come by an accumulator: Spark adds a task's once, however often it was tried. Messages that failed are named by
their positions, and read once more where dead letters are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark import AccumulatorParam, SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.inputs.dead_letters import dead_letter, dead_letter_of
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.arrow.batches import merge_in_order
from ticdc_bridge.spark_jobs.arrow.change_schema import arrow_schema
from ticdc_bridge.spark_jobs.arrow.event_rows import message_row
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.messages import KernelOutput
from ticdc_bridge.spark_jobs.io.message_files import rows_of
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, Summary
from ticdc_bridge.spark_jobs.spark.transport import map_messages
from ticdc_bridge.spark_jobs.streaming import pieces
from ticdc_bridge.spark_jobs.streaming.pieces import BatchCounts, TaskCodecs

SENT = f"`key` binary, value binary, headers {pieces.HEADERS}, partition int"
"""Columns of the workers' rows, with `topic` where not all goes to one, and _INPUT_ORDER where messages have ids."""
_INPUT_ORDER = "position bigint, part int"
DEAD = f"{pieces.MESSAGE}, position bigint"
_NOW_WELL = "it failed when it was read first, and not when it was read again for this dead letter: replay it"


@dataclass
class SendReport:
    """The counts of one try of a micro-batch. failed: positions by code (int64); fatal: why a worker stopped."""

    summary: Summary = field(default_factory=Summary)
    offsets: dict[int, int] = field(default_factory=dict)
    failed: dict[str, list[Any]] = field(default_factory=dict)
    fatal: dict[str, str] | None = None

    def add(self, other: SendReport) -> None:
        self.summary.merge(other.summary)
        for partition, offset in other.offsets.items():
            self.offsets[partition] = max(offset, self.offsets.get(partition, 0))
        for code, positions in other.failed.items():
            self.failed.setdefault(code, []).extend(positions)
        self.fatal = self.fatal or other.fatal

    def failures(self) -> dict[str, Any]:
        """Positions by code, in their order."""
        return {code: np.unique(np.concatenate(positions)) for code, positions in self.failed.items()}


Reports = dict[str, SendReport]


class _ReportAccumulator(AccumulatorParam[Reports]):
    """Reports by the try that they are of."""

    def zero(self, value: Reports) -> Reports:
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
        for name, report in value2.items():
            value1.setdefault(name, SendReport()).add(report)
        return value1


class KafkaSender:
    """Sends one job's micro-batches. ids: with the header `sinks.ID`. topic None: own. counts: of their partitions."""

    def __init__(
        self, context: SparkContext, topic: str | None, ids: bool, counts: Callable[[], Mapping[str, int]] = dict
    ) -> None:
        self._reports, self._counts = context.accumulator({}, _ReportAccumulator()), counts
        self._topic, self._ids = topic, ids

    def send(self, frame: DataFrame, job: Job, write: Callable[[DataFrame], None]) -> SendReport:
        """The frame's messages through the job, to `write`; the workers' counts. SetupError where one gave up."""
        self._reports.value = {}  # of tries before this one
        attempt = uuid4().hex
        sent = ", ".join([*([] if self._topic else ["topic string"]), SENT, *([_INPUT_ORDER] if self._ids else [])])
        batches = SendBatches(job, self._topic, attempt, self._reports, arrow_schema(sent), self._counts())
        write(map_messages(frame, batches, sent))
        report = self._reports.value.get(attempt, SendReport())
        if report.fatal is not None:
            raise pieces.error_of_row(SetupError, report.fatal)
        return report


@dataclass(frozen=True)
class SendBatches:
    """Rows of the input → SENT, counted in `reports` under the name of this try.

    counts: partitions of the topics written that are there. A message keeps the partition it was read from, modulo
    these: a row's changes stay in their order, and watermarks where they hold.
    """

    job: Job
    topic: str | None
    attempt: str
    reports: Any
    schema: Any
    counts: Mapping[str, int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        worker = TaskCodecs(self.job)
        for batch in batches:
            batch_counts, failed = BatchCounts(), dict[str, list[int]]()

            def read_row(
                row: dict[str, Any], counts: BatchCounts = batch_counts, failed: Any = failed
            ) -> Iterator[dict[str, Any]]:
                done = worker.process_row(row)
                if done is None:
                    return
                counts.count(*done, row)
                if done[0].error is not None:
                    failed.setdefault(done[0].error.code, []).append(row["position"])
                yield from self._rows(*done, row["position"])

            try:
                out = [
                    merge_in_order(
                        chunk, rest, self.schema, read_row, self._kernel_rows(chunk, fast), fast and fast.origin
                    )
                    for chunk, fast, rest in worker.process_batch(batch, batch_counts)
                ]
            except SetupError as error:
                self.reports.add({self.attempt: SendReport(fatal=pieces.row_of_error(error))})
                return
            batch_counts.summary.out = sum(rows.num_rows for rows in out)
            failed_positions = {code: [np.array(positions, np.int64)] for code, positions in failed.items()}
            report = SendReport(batch_counts.summary, batch_counts.offsets, failed_positions)
            self.reports.add({self.attempt: report})
            yield from out

    def _rows(self, result: MessageResult, message: Message, position: int) -> Iterator[dict[str, Any]]:
        for part, written in enumerate(result.out):
            topic = self.topic or written.topic
            count = self.counts.get(topic or "")
            partition = message.partition % count if count and message.partition is not None else None
            row = {**message_row(written), "topic": topic, "partition": partition}
            yield row | {"position": position, "part": part}

    def _kernel_rows(self, chunk: Any, fast: KernelOutput | None) -> Any:
        if fast is None:
            return None
        partition, part = self._partitions(fast, chunk), pa.array(fast.number)
        return fast.record_batch(chunk, self.schema, partition=partition, part=part)

    def _partitions(self, fast: KernelOutput, chunk: Any) -> Any:
        """The partitions of what was written; NULL, for Kafka's partitioner, in a topic that is not there yet."""
        source = np.asarray(chunk.column("partition"))[fast.origin].astype(np.int32)
        if self.topic is not None:
            count = self.counts.get(self.topic, 0)
            return pa.array(source % count) if count else pa.nulls(len(source), pa.int32())
        counts = np.array([self.counts.get(topic or "", 0) for topic in fast.to.names], np.int32)[fast.to.of]
        return pa.array(source % np.maximum(counts, 1), mask=counts == 0)


# ---------------------------------------------------------------------------------------------- what failed
def dead_letters(frame: DataFrame, job: Job, failures: Mapping[str, Any]) -> DataFrame:
    """The messages that failed (positions by code), read again, as dead letters (DEAD)."""
    every = np.concatenate(list(failures.values()))
    rows = frame.where(F.col("position").between(int(every.min()), int(every.max())))
    if len(every) <= _LISTED:
        rows = rows.where(F.col("position").isin(every.tolist()))
    return map_messages(rows, DeadBatches(job, dict(failures), arrow_schema(DEAD)), DEAD)


_LISTED = 200


@dataclass(frozen=True)
class DeadBatches:
    """Rows of the input → dead letters of those that failed before, whether or not they fail again."""

    job: Job
    failures: dict[str, Any]
    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        worker = TaskCodecs(self.job)
        for batch in batches:
            positions = np.asarray(batch.column("position"))
            codes = {code: np.isin(positions, failed) for code, failed in self.failures.items()}
            which = np.flatnonzero(np.logical_or.reduce(list(codes.values())))
            rows = []
            for index, row in zip(which.tolist(), rows_of(batch.take(pa.array(which))), strict=True):
                code = next(code for code, marked in codes.items() if marked[index])
                letter = self._letter(worker, row, code)
                rows.append({**message_row(letter), "position": row["position"]})
            yield pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _letter(self, worker: TaskCodecs, row: dict[str, Any], code: str) -> Message:
        item, detail = worker.item(row), _NOW_WELL
        assert item is not None  # an empty line does not fail
        if not isinstance(item, Message):
            return dead_letter(*item)
        try:
            error = worker.process_message(item).error
        except SetupError as away:
            error, detail = None, f"it failed when it was read first; when it was read again: {away.detail}"
        return dead_letter_of(code, detail, item) if error is None else dead_letter(error, item)
