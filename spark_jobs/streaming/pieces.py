"""Jobs in Spark's Python workers: each message's pieces, as rows that sinks take, and what the driver counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ticdc_bridge.schemas.columnar.rows import find_distinct
from ticdc_bridge.schemas.inputs.dead_letters import dead_letter, dead_letter_of
from ticdc_bridge.schemas.model.errors import BridgeError, Hint, SetupError, WireError, hint_words, iterate_with_hints
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.arrow.batches import merge_in_order
from ticdc_bridge.spark_jobs.arrow.change_schema import change_type
from ticdc_bridge.spark_jobs.arrow.changes import ChangeBatch, ChangeReader
from ticdc_bridge.spark_jobs.arrow.event_rows import change_rows, message_row
from ticdc_bridge.spark_jobs.arrow.input_batches import Item, message_of_input
from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.arrow.lines import LineBatch, LineReader
from ticdc_bridge.spark_jobs.arrow.masked_rows import mask_changes
from ticdc_bridge.spark_jobs.arrow.messages import KernelOutput, Transcoder
from ticdc_bridge.spark_jobs.io.message_files import message_line, message_of_row, rows_of
from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN
from ticdc_bridge.spark_jobs.pipeline.event_order import EventOrder, order_of
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, Summary

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


E = TypeVar("E", bound=BridgeError)
_LOT = 1 << 18  # bytes of lines in one piece, about
_CARRIED = ("topic", "partition", "offset", "key", "value", "timestamp", "headers")


def row_of_error(error: BridgeError) -> dict[str, str]:
    """An error as it travels to the driver, who makes the same error of it."""
    return {"code": error.code, "fields": json.dumps(error.fields)}


def error_of_row(kind: type[E], row: Any) -> E:
    """The error that `row_of_error` told of."""
    return kind(row["code"], **json.loads(row["fields"]))


Form = Literal["message", "line", "change", "text"]
"""The form of an event in a piece; `text`: the lines of a file, of messages or of the plain form, many in one piece."""
HEADERS = "array<struct<key:string,value:binary>>"
MESSAGE = f"topic string, partition int, `key` binary, value binary, timestamp timestamp, headers {HEADERS}"
_PIECES = (
    "kind string, part int, position bigint, number int, commit_ts bigint, `rank` int, id binary, line string,"
    " error struct<code:string,fields:string>, tally map<string,bigint>, messages bigint,"
    " watermarks map<int,bigint>, offsets map<int,bigint>"
)


def pieces_type() -> StructType:
    """Rows of kind "out" (what was made of an event), "dead" (of a message that failed, with its error), "counts" (of
    an Arrow batch, whose `number` of rows ends at `position`), "fatal" (why a worker went no further).

    In text a "dead" one has the message's own line and its place in its Arrow batch (`number`), and "note" is what
    people should read of the batch's message of that number (`messages`).
    """
    from pyspark.sql.types import StructType

    struct_type = StructType.fromDDL(_PIECES)
    assert isinstance(struct_type, StructType)
    return struct_type.add("message", StructType.fromDDL(MESSAGE)).add("change", change_type())


@dataclass(frozen=True)
class PieceBatches:
    """Rows of the input → pieces. form: what is made of an event. words: of who made this, for errors."""

    job: Job
    form: Form
    schema: Any
    words: Mapping[Hint, str] = field(default_factory=hint_words)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        return iterate_with_hints(self.words, self._process_batches(batches))

    def _process_batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        changes = self.schema.field("change").type if self.form == "change" else None
        worker = TaskCodecs(self.job, changes, self.form in ("line", "text"))
        for batch in filter(len, batches):
            counts, stopped = BatchCounts(), list[SetupError]()
            first, last = batch.column("position").take([0, batch.num_rows - 1]).to_pylist()

            def read_row(
                row: dict[str, Any], counts: BatchCounts = counts, stopped: Any = stopped, first: int = first
            ) -> Iterator[dict[str, Any]]:
                try:
                    done = None if stopped else worker.process_row(row)
                except SetupError as error:  # a registry is away: what is read after this has no answer
                    stopped.append(error)
                    yield _fatal_piece(row["position"], error)
                    return
                if done is not None:
                    counts.count(*done, row)
                    for piece in self._pieces(*done, row["position"] - first, counts.summary.messages):
                        yield {**piece, "position": row["position"]}

            try:
                for chunk, fast, rest in worker.process_batch(batch, counts):
                    made = merge_in_order(
                        chunk, rest, self.schema, read_row, self._kernel_pieces(chunk, fast), fast and fast.origin
                    )
                    if self.form == "change" and self.job.private.rules:
                        at = self.schema.get_field_index("change")
                        masked = mask_changes(made.column(at), self.job.private)
                        made = made.set_column(at, self.schema.field(at), masked)
                    yield self._join_lines(made) if self.form == "text" and not self.job.needs_order else made
                    if stopped:
                        return
            except SetupError as error:
                yield pa.RecordBatch.from_pylist([_fatal_piece(first, error)], schema=self.schema)
                return
            counts_row = {**counts.row(), "position": last, "number": batch.num_rows}
            yield pa.RecordBatch.from_pylist([counts_row], schema=self.schema)

    def _dead_letter(self, error: WireError, message: Message) -> Message:
        """Without its content where that may have something private, which nothing can tell from the rest."""
        if not self.job.private.rules:
            return dead_letter(error, message)
        return dead_letter_of(error.code, "", replace(message, key=None, value=None, headers=()))

    def _kernel_pieces(self, chunk: Any, fast: KernelOutput | ChangeBatch | LineBatch | None) -> Any:
        """The results of the kernels, as pieces."""
        if fast is None:
            return None
        count, zeros = len(fast.origin), pa.array(np.zeros(len(fast.origin), np.int32))
        columns = {
            "kind": pa.repeat("out", count), "part": zeros, "number": zeros, "rank": zeros,
            "position": chunk.column("position").take(pa.array(fast.origin)),
        }  # fmt: skip
        if isinstance(fast, LineBatch):
            columns |= {"number": pa.array(fast.number), "line": fast.lines}
        elif isinstance(fast, ChangeBatch):
            kind = self.schema.field("change").type
            values = pa.StructArray.from_arrays(fast.rows.columns, fields=list(kind))
            columns |= {"number": fast.rows.column("row"), "change": values}
        elif self.form == "text":
            written = fast.record_batch(chunk, pa.schema([f for f in chunk.schema if f.name in _CARRIED]))
            lines = [json_line(message_line(message_of_row(row))) for row in rows_of(written)]
            columns |= {"part": pa.array(fast.number), "line": pa.array(lines, pa.string())}
        else:
            kind = self.schema.field("message").type
            written = fast.record_batch(chunk, pa.schema(list(kind)))
            values = pa.StructArray.from_arrays(written.columns, fields=list(kind))
            columns |= {"part": pa.array(fast.number), "message": values}
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _join_lines(self, pieces: Any) -> Any:
        """Pieces whose lines stand together as one piece: the driver takes each with a cost of its own."""
        out = np.asarray(pc.equal(pieces.column("kind"), "out").cast(pa.uint8())).astype(bool)
        if not len(out):
            return pieces
        sizes = np.asarray(pc.binary_length(pieces.column("line")).fill_null(0)).astype(np.int64)
        lot = np.cumsum(sizes) // _LOT
        begins = np.flatnonzero(np.append(True, ~(out[1:] & out[:-1]) | (lot[1:] != lot[:-1])))
        ends = pa.array(np.append(begins, len(out)).astype(np.int32))
        texts = pc.binary_join(pa.ListArray.from_arrays(ends, pieces.column("line")), "\n")
        index_of_line = self.schema.get_field_index("line")
        return pieces.take(pa.array(begins)).set_column(index_of_line, self.schema.field(index_of_line), texts)

    def _pieces(self, result: MessageResult, message: Message, index: int, count: int) -> Iterator[dict[str, Any]]:
        """index, count: the message's place in its Arrow batch, and its number there (empty lines are none)."""
        text = self.form == "text"
        for note in result.notes if text else ():
            yield {"kind": "note", "line": note, "messages": count}
        if result.error is not None:
            more: dict[str, Any] = (
                {"line": json_line(message_line(message)), "number": index}
                if text
                else {"message": message_row(self._dead_letter(result.error, message))}
            )
            yield {"kind": "dead", "error": row_of_error(result.error), **more}
            return
        if self.job.write is not None:
            marks = result.marks or [EventOrder(None, 0, b"", len(result.out))]
            messages = iter(result.out)
            for number, mark in enumerate(marks):
                for at, written in enumerate(islice(messages, mark.count)):
                    made = {"line": json_line(message_line(written))} if text else {"message": message_row(written)}
                    yield {**_order_row(mark, number, at), **made}
            return
        marks = [order_of(event, message, n) for n, event in enumerate(result.events)]
        if self.form == "change":
            rows = change_rows(result, message)
            for number, (mark, row) in enumerate(zip(marks, rows, strict=True)):
                yield {**_order_row(mark, number, 0), "change": row}
            return
        for number, (mark, line) in enumerate(zip(marks, plain_lines(result, message), strict=True)):
            yield {**_order_row(mark, number, 0), "line": json_line(line)}


def _fatal_piece(position: int, error: SetupError) -> dict[str, Any]:
    return {"kind": "fatal", "position": position, "error": row_of_error(error)}


class TaskCodecs:
    """A task's codecs: rows of the input one by one, or (`process_batch`) many at once."""

    def __init__(self, job: Job, changes: Any = None, lines: bool = False) -> None:
        """changes: the Arrow type of change events, where these are made of messages; lines: where lines are."""
        self._plain = job.read.format == PLAIN
        self._batches: Transcoder | ChangeReader | LineReader | None = None
        if job.write is not None:
            self._batches = Transcoder(job.read, job.write, job.topic, job.needs_order)
        elif changes is not None and not job.needs_order:
            self._batches = ChangeReader(job.read, pa.schema(list(changes)))
        elif lines and not job.needs_order:
            self._batches = LineReader(job.read)
        self.process_message: Callable[[Message], MessageResult]
        if self._batches is not None:
            self.process_message = self._batches.process_message
            return
        decoder, marked = job.read.decoder(), job.needs_order
        self.process_message = lambda m: decode_message(decoder, m, job.read.verify_checksum, marked, job.read.chosen)

    def item(self, row: dict[str, Any]) -> Item | None:
        """A row of the input → its message, or what failed and the line; None for an empty line."""
        try:
            return message_of_input(row, self._plain)
        except WireError as error:
            return error, Message(None, row["line"].rstrip(b"\r\n"))

    def process_row(self, row: dict[str, Any]) -> tuple[MessageResult, Message] | None:
        """A row of the input → what became of its message; None for an empty line."""
        item = self.item(row)
        if item is None:
            return None
        if isinstance(item, Message):
            return self.process_message(item), item
        return MessageResult(error=item[0]), item[1]

    def process_batch(self, batch: Any, counts: BatchCounts) -> Iterator[tuple[Any, Any, Any]]:
        """As `BatchReader.process_batch`; `counts` counts what the kernels took."""
        counts.count_offsets(batch)
        if self._batches is None:
            yield batch, None, np.arange(batch.num_rows)
        else:
            yield from self._batches.process_batch(batch, counts.summary)


class BatchCounts:
    """The counts of an Arrow batch."""

    def __init__(self) -> None:
        self.summary = Summary()
        self._watermarks: dict[int, int] = {}
        self.offsets: dict[int, int] = {}

    def count(self, result: MessageResult, message: Message, row: dict[str, Any]) -> None:
        self.summary.count(result, message.topic)
        at = row.get("source_number", row.get("partition", message.partition))
        partition = -1 if at is None else at
        if result.error is None:
            newest = result.newest_watermark
            self._watermarks[partition] = max(-1 if newest is None else newest, self._watermarks.get(partition, -1))

    def count_offsets(self, batch: Any) -> None:
        """The newest offset of each partition in the batch; of several topics, by the sources' numbers."""
        if not {"partition", "offset"} <= set(batch.schema.names):
            return
        partitions = batch.column("source_number" if "source_number" in batch.schema.names else "partition")
        offsets = batch.column("offset")
        if offsets.null_count:
            partitions, offsets = partitions.filter(offsets.is_valid()), offsets.drop_null()
        distinct, _, back = find_distinct(np.asarray(partitions.fill_null(-1)).astype(np.int64))
        newest = np.zeros(len(distinct), np.int64)
        np.maximum.at(newest, back, np.asarray(offsets))
        for partition, offset in zip(distinct.tolist(), newest.tolist(), strict=True):
            self.offsets[partition] = max(offset, self.offsets.get(partition, 0))

    def row(self) -> dict[str, Any]:
        return {
            "kind": "counts", "tally": list(self.summary.tally().items()), "messages": self.summary.messages,
            "watermarks": list(self._watermarks.items()),
            "offsets": list(self.offsets.items()),
        }  # fmt: skip


def _order_row(mark: EventOrder, number: int, index: int) -> dict[str, Any]:
    return {
        "kind": "out", "number": number, "part": index, "commit_ts": mark.commit_ts, "rank": mark.rank,
        "id": mark.id or None,
    }  # fmt: skip
