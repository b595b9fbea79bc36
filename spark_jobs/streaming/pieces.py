"""What runs in Spark's Python workers for jobs and micro-batches, with all that the driver counts and tells.

A micro-batch gives each message's pieces, as rows that sinks take; a job in one go gives one result a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow

from schemas.model.errors import BridgeError, SetupError, WireError
from schemas.model.event import Message
from schemas.plain.writer import json_line
from spark_jobs.arrow import lines
from spark_jobs.arrow.batches import merge_in_order
from spark_jobs.arrow.change_schema import CHANGES
from spark_jobs.arrow.changes import ChangeBatch, ChangeReader
from spark_jobs.arrow.event_rows import change_rows, timestamp_of
from spark_jobs.arrow.input_batches import Item, message_of_input
from spark_jobs.arrow.lines import LineBatch, LineReader
from spark_jobs.arrow.messages import KernelOutput, Transcoder, can_transcode
from spark_jobs.io.dead_letters import dead_letter
from spark_jobs.io.message_files import message_line, message_of_row, rows_of
from spark_jobs.pipeline.codec_config import PLAIN
from spark_jobs.pipeline.event_order import EventOrder, order_of
from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.message_codec import decode_one, plain_lines, transcode_one
from spark_jobs.pipeline.result import MessageResult, Summary

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

pa: Any = pyarrow  # the stubs know less than the library


MARKS = "array<struct<commit_ts:bigint,rank:int,id:binary,count:int>>"
RESULTS = (
    "position bigint, messages bigint, bad string, lines array<string>, out array<string>, notes array<string>,"
    f" tally map<string,bigint>, error struct<code:string,fields:string>, origin string, marks {MARKS},"
    " partition int, resolved bigint, fatal struct<code:string,fields:string>"
)


_RUN = 1000  # messages in a row of results, at most
_CARRIED = ("topic", "partition", "offset", "key", "value", "timestamp", "headers")


def message_function(work: Job) -> Callable[[Message], MessageResult]:
    """Message → what becomes of it. Compiled once a task."""
    decoder, marked = work.read.decoder(), work.needs_order
    if work.write is None:
        return lambda m: decode_one(decoder, m, work.read.verify_checksum, marked)
    encoder = work.write.encoder()
    return lambda m: transcode_one(decoder, encoder, m, work.topic, marked)


@dataclass(frozen=True)
class JobBatches:
    """Rows of the input → RESULTS: what jobs.run does with each message, or with several (`messages`; NULL: one).

    A line that is no message comes back as it is in `bad` (hex): the driver, who counts lines, says where it stands.
    """

    work: Job
    schema: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        work = self.work
        if work.write is not None and not work.needs_order and can_transcode(work.read.format, work.write.format):
            return self._run_kernels(batches, Transcoder(work.read, work.write, work.topic))
        if work.write is None and lines.can_write_lines(work.read, work.needs_order):
            return self._run_kernels(batches, LineReader(work.read))
        return self._run_one_by_one(batches, message_function(work))

    def _run_kernels(self, batches: Iterable[pa.RecordBatch], codecs: Transcoder | LineReader) -> Iterator[Any]:
        def read_row(row: dict[str, Any]) -> list[dict[str, Any]]:
            return [self._row(row, codecs.one, plain=False)]

        for batch in batches:
            try:
                summary = Summary()
                for part, fast, rest in codecs.parts(batch, summary):
                    results, origin = None, None
                    if isinstance(fast, LineBatch):
                        results, origin = self._lines(part, fast, rest, summary.take_tally())
                    elif fast is not None:
                        results, origin = self._kernel_results(part, fast, summary.take_tally()), np.unique(fast.origin)
                    yield merge_in_order(part, rest, self.schema, read_row, results, origin)
            except SetupError as error:
                position = batch.column("position")[0].as_py()
                yield pa.RecordBatch.from_pylist(
                    [{"position": position, "fatal": row_of_error(error)}], schema=self.schema
                )
                return

    def _lines(self, part: Any, fast: LineBatch, rest: Any, tally: dict[str, int]) -> tuple[Any, Any]:
        """As `_kernel_results`, of lines: a row for many messages that no other stands between."""
        stands = np.flatnonzero(fast.part == 0)  # where the lines of a message begin
        message, schema = fast.origin[stands], self.schema
        run = np.searchsorted(rest, message) * part.num_rows + np.arange(len(message)) // _RUN
        _, first, sizes = np.unique(run, return_index=True, return_counts=True)
        count, which = len(first), pa.array(message[first])
        begins = pa.array(np.concatenate((stands[first], [len(fast.part)])).astype(np.int32))
        tallies = [list(tally.items()) if n == 0 else [] for n in range(count)]
        columns = {
            "position": part.column("position").take(which), "partition": part.column("partition").take(which),
            "lines": pa.ListArray.from_arrays(begins, fast.lines), "messages": pa.array(sizes),
            "tally": pa.array(tallies, schema.field("tally").type),
        } | {name: pa.array([[]] * count, schema.field(name).type) for name in ("out", "notes", "marks")}  # fmt: skip
        arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(count, f.type) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema), message[first]

    def _kernel_results(self, part: Any, fast: KernelOutput, tally: dict[str, int]) -> Any:
        """RESULTS of the messages that kernels took; the first has the counts of all."""
        positions, partitions = part.column("position"), part.column("partition")
        rows: dict[int, dict[str, Any]] = {}
        carried = fast.record_batch(part, pa.schema([f for f in part.schema if f.name in _CARRIED]))
        for index, row in zip(fast.origin.tolist(), rows_of(carried), strict=True):
            line = json_line(message_line(message_of_row(row)))
            if index in rows:
                rows[index]["out"].append(line)
                continue
            rows[index] = {
                "position": positions[index].as_py(), "partition": partitions[index].as_py(), "out": [line],
                "lines": [], "notes": [], "marks": [], "tally": [] if rows else list(tally.items()),
            }  # fmt: skip
        return pa.RecordBatch.from_pylist(list(rows.values()), schema=self.schema)

    def _run_one_by_one(
        self, batches: Iterable[pa.RecordBatch], one: Callable[[Message], MessageResult]
    ) -> Iterator[Any]:
        plain = self.work.read.format == PLAIN
        for batch in batches:
            out: list[dict[str, Any]] = []
            for row in rows_of(batch):
                try:
                    out.append(self._row(row, one, plain))
                except SetupError as error:
                    # The registry is gone: the driver says so and stops; what comes after it here has no answer.
                    out.append({"position": row["position"], "fatal": row_of_error(error)})
                    yield pa.RecordBatch.from_pylist(out, schema=self.schema)
                    return
            yield pa.RecordBatch.from_pylist(out, schema=self.schema)

    def _row(self, row: dict[str, Any], one: Callable[[Message], MessageResult], plain: bool) -> dict[str, Any]:
        """The result of one row of the input. SetupError."""
        position = {"position": row["position"]}
        try:
            item = message_of_input(row, plain)
            if item is None:
                return position
            message, result = (
                (item, one(item)) if isinstance(item, Message) else (item[1], MessageResult(error=item[0]))
            )
        except WireError:
            return {**position, "bad": row["line"].hex()}
        return {**position, **_result(result, message, self.work.write is None)}


def row_of_error(error: BridgeError) -> dict[str, str]:
    """An error as it travels to the driver, who makes the same error of it."""
    return {"code": error.code, "fields": json.dumps(error.fields)}


def _result(result: MessageResult, message: Message, plain: bool) -> dict[str, Any]:
    summary = Summary()
    summary.count(result, message.topic)
    error = None if result.error is None else row_of_error(result.error)
    return {
        "lines": [json_line(line) for line in plain_lines(result, message)] if plain else [],
        "out": [json_line(message_line(m)) for m in result.out],
        "notes": result.notes,
        "tally": list(summary.tally().items()),
        "error": error,
        "origin": json_line(message_line(message)) if error else None,
        "marks": mark_rows(result),
        "partition": message.partition,
        "resolved": result.newest_watermark,
    }


def mark_rows(result: MessageResult) -> list[dict[str, Any]]:
    return [{"commit_ts": m.commit_ts, "rank": m.rank, "id": m.id, "count": m.count} for m in result.marks]


Form = Literal["message", "line", "change"]
HEADERS = "array<struct<key:string,value:binary>>"
MESSAGE = f"topic string, partition int, `key` binary, value binary, timestamp timestamp, headers {HEADERS}"
_PIECES = (
    "kind string, part int, position bigint, number int, commit_ts bigint, `rank` int, id binary, line string,"
    " reason string, tally map<string,bigint>, notes array<string>, messages bigint, watermarks map<int,bigint>,"
    " offsets map<int,bigint>, fatal struct<code:string,fields:string>"
)


def pieces_type() -> StructType:
    """Rows of kind "out" (a message, line or change), "dead" (a dead letter), "told" (counts of an Arrow batch)."""
    from pyspark.sql.types import StructType

    struct_type = StructType.fromDDL(_PIECES)
    assert isinstance(struct_type, StructType)
    return struct_type.add("message", StructType.fromDDL(MESSAGE)).add("change", StructType.fromDDL(CHANGES))


@dataclass(frozen=True)
class PieceBatches:
    """Rows of the input → pieces. form: what is made of an event."""

    work: Job
    form: Form
    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        changes = self.schema.field("change").type if self.form == "change" else None
        worker = TaskCodecs(self.work, changes, self.form == "line")
        for batch in batches:
            batch_counts = BatchCounts()

            def read_row(row: dict[str, Any], counts: BatchCounts = batch_counts) -> Iterator[dict[str, Any]]:
                done = worker.process_row(row)
                if done is not None:
                    counts.count(*done, row)
                    for piece in self._pieces(*done):
                        yield {**piece, "position": row["position"]}

            try:
                out = [
                    merge_in_order(
                        part, rest, self.schema, read_row, self._kernel_pieces(part, fast), fast and fast.origin
                    )
                    for part, fast, rest in worker.parts(batch, batch_counts)
                ]
            except SetupError as error:
                yield pa.RecordBatch.from_pylist([{"kind": "fatal", "fatal": row_of_error(error)}], schema=self.schema)
                return
            yield from out
            yield pa.RecordBatch.from_pylist([batch_counts.row()], schema=self.schema)

    def _kernel_pieces(self, part: Any, fast: KernelOutput | ChangeBatch | LineBatch | None) -> Any:
        """What the kernels wrote or read, as pieces."""
        if fast is None:
            return None
        count, zeros = len(fast.origin), pa.array(np.zeros(len(fast.origin), np.int32))
        columns = {
            "kind": pa.repeat("out", count), "part": zeros, "number": zeros, "rank": zeros,
            "position": part.column("position").take(pa.array(fast.origin)),
        }  # fmt: skip
        if isinstance(fast, LineBatch):
            columns |= {"number": pa.array(fast.part), "line": fast.lines}
        elif isinstance(fast, ChangeBatch):
            kind = self.schema.field("change").type
            whole = pa.StructArray.from_arrays(fast.rows.columns, fields=list(kind))
            columns |= {"number": fast.rows.column("row"), "change": whole}
        else:
            kind = self.schema.field("message").type
            whole = pa.StructArray.from_arrays(
                fast.record_batch(part, pa.schema(list(kind))).columns, fields=list(kind)
            )
            columns |= {"part": pa.array(fast.part), "message": whole}
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _pieces(self, result: MessageResult, message: Message) -> Iterator[dict[str, Any]]:
        if result.error is not None:
            letter = message_row(dead_letter(result.error, message))
            yield {"kind": "dead", "reason": result.error.code, "message": letter, "line": result.error.detail}
            return
        if self.work.write is not None:
            marks = result.marks or [EventOrder(None, 0, b"", len(result.out))]
            messages = iter(result.out)
            for number, one in enumerate(marks):
                for part in range(one.count):
                    yield {**_order_row(one, number, part), "message": message_row(next(messages))}
            return
        marks = [order_of(event, message, n) for n, event in enumerate(result.events)]
        if self.form == "change":
            for number, (one, row) in enumerate(zip(marks, change_rows(result, message), strict=True)):
                yield {**_order_row(one, number, 0), "change": row}
            return
        for number, (one, line) in enumerate(zip(marks, plain_lines(result, message), strict=True)):
            yield {**_order_row(one, number, 0), "line": json_line(line)}


class TaskCodecs:
    """A task's codecs: rows of the input one by one, or (`parts`) many at once."""

    def __init__(self, work: Job, changes: Any = None, lines: bool = False) -> None:
        """changes: the Arrow type of change events, where these are made of messages; lines: where lines are."""
        self._plain = work.read.format == PLAIN
        self._batches: Transcoder | ChangeReader | LineReader | None = None
        if work.write is not None:
            self._batches = Transcoder(work.read, work.write, work.topic, work.needs_order)
        elif changes is not None and not work.needs_order:
            self._batches = ChangeReader(work.read, pa.schema(list(changes)))
        elif lines and not work.needs_order:
            self._batches = LineReader(work.read)
        self.one = self._batches.one if self._batches else message_function(work)

    def item(self, row: dict[str, Any]) -> Item | None:
        """A row of the input → its message, or what failed and the line; None for an empty line."""
        try:
            return message_of_input(row, self._plain)
        except WireError as error:
            return error, Message(None, row["line"])

    def process_row(self, row: dict[str, Any]) -> tuple[MessageResult, Message] | None:
        """A row of the input → what became of its message; None for an empty line."""
        item = self.item(row)
        if item is None:
            return None
        return (self.one(item), item) if isinstance(item, Message) else (MessageResult(error=item[0]), item[1])

    def parts(self, batch: Any, counts: BatchCounts) -> Iterator[tuple[Any, Any, Any]]:
        """As `Transcoder.parts` or `ChangeReader.parts`; `counts` counts what the kernels took."""
        counts.places(batch)
        if self._batches is None:
            yield batch, None, np.arange(batch.num_rows)
        else:
            yield from self._batches.parts(batch, counts.summary)


class BatchCounts:
    """The counts of an Arrow batch."""

    def __init__(self) -> None:
        self.summary = Summary()
        self._notes: list[str] = []
        self._watermarks: dict[int, int] = {}
        self.offsets: dict[int, int] = {}

    def count(self, result: MessageResult, message: Message, row: dict[str, Any]) -> None:
        self.summary.count(result, message.topic)
        self._notes += result.notes
        at = row.get("partition", message.partition)
        partition = -1 if at is None else at
        if result.newest_watermark is not None:
            self._watermarks[partition] = max(result.newest_watermark, self._watermarks.get(partition, 0))

    def places(self, batch: Any) -> None:
        """The newest offset of each partition in the batch."""
        if not {"partition", "offset"} <= set(batch.schema.names):
            return
        partitions = batch.column("partition").fill_null(-1)
        offsets = pa.table([partitions, batch.column("offset")], ["partition", "offset"])
        for row in offsets.group_by("partition").aggregate([("offset", "max")]).to_pylist():
            if row["offset_max"] is not None:
                self.offsets[row["partition"]] = max(row["offset_max"], self.offsets.get(row["partition"], 0))

    def row(self) -> dict[str, Any]:
        return {
            "kind": "told", "tally": list(self.summary.tally().items()), "notes": self._notes[:100],
            "messages": self.summary.messages, "watermarks": list(self._watermarks.items()),
            "offsets": list(self.offsets.items()),
        }  # fmt: skip


def _order_row(one: EventOrder, number: int, part: int) -> dict[str, Any]:
    return {
        "kind": "out", "number": number, "part": part, "commit_ts": one.commit_ts, "rank": one.rank,
        "id": one.id or None,
    }  # fmt: skip


def message_row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic, "partition": message.partition, "key": message.key, "value": message.value,
        "timestamp": timestamp_of(message.timestamp),
        "headers": [{"key": name, "value": value} for name, value in message.headers],
    }  # fmt: skip
