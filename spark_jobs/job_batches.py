"""What the commands run in Spark's Python workers: one result a message, with all that the driver counts and tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from schemas.errors import BridgeError, SetupError, WireError
from schemas.event import DdlEvent, Message
from schemas.plain import json_line
from spark_jobs import cell_lines
from spark_jobs.cell_batches import Fast, RowFinder, Transcoder, in_order, takes
from spark_jobs.cell_lines import LineReader, Lines
from spark_jobs.codec import PLAIN, Result, decode_one, plain_lines, transcode_one
from spark_jobs.endpoints import plain_item
from spark_jobs.flow import Work
from spark_jobs.messages import message_line, message_of_row, parse_line, rows_of
from spark_jobs.summary import Summary

pa: Any = pyarrow  # the stubs know less than the library

MARKS = "array<struct<commit_ts:bigint,rank:int,id:binary,count:int>>"
RESULTS = (
    "position bigint, messages bigint, bad string, lines array<string>, out array<string>, notes array<string>,"
    f" tally map<string,bigint>, error struct<code:string,fields:string>, origin string, marks {MARKS},"
    " partition int, resolved bigint, fatal struct<code:string,fields:string>"
)
DDL_EVENTS = "position bigint, number int, db string, `table` string, commit_ts bigint, query string"
_RUN = 1000  # messages in a row of results, at most
_CARRIED = ("topic", "partition", "offset", "key", "value", "timestamp", "headers")
Item = Message | tuple[WireError, Message]


def item_of(found: dict[str, Any], plain: bool) -> Item | None:
    """A row of the input → its message, or what failed; None for an empty line, WireError for one that is none."""
    line = found.get("line")
    if line is None:
        message = message_of_row(found)
        return plain_item(message.value or b"", message) if plain else message
    if not line.strip():
        return None
    return plain_item(line.rstrip(b"\r\n")) if plain else parse_line(line, "")


def one_of(work: Work) -> Callable[[Message], Result]:
    """Message → what becomes of it. Compiled once a task."""
    decoder, marked = work.read.decoder(), work.marked
    if work.write is None:
        return lambda m: decode_one(decoder, m, work.read.verify_checksum, marked)
    encoder = work.write.encoder()
    return lambda m: transcode_one(decoder, encoder, m, work.topic, marked)


@dataclass(frozen=True)
class DdlBatches:
    """Rows of the input → the DDL events in them (DDL_EVENTS). What can't be read is left to JobBatches."""

    work: Work
    schema: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        decoder, rows = self.work.read.decoder(), RowFinder(self.work.read)
        for batch in batches:
            others = rows.others(batch)
            out = [row for found in rows_of(others) for row in self._events(decoder, found)]
            yield pa.RecordBatch.from_pylist(out, schema=self.schema)

    def _events(self, decoder: Any, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            item = item_of(found, self.work.read.format == PLAIN)
            events = decode_one(decoder, item).events if isinstance(item, Message) else []
        except BridgeError:
            return
        for number, event in enumerate(events):
            if isinstance(event, DdlEvent):
                yield {
                    "position": found["position"], "number": number, "db": event.db, "table": event.table,
                    "commit_ts": event.commit_ts, "query": event.query,
                }  # fmt: skip


@dataclass(frozen=True)
class JobBatches:
    """Rows of the input → RESULTS: what jobs.run does with each message, or with several (`messages`; NULL: one).

    A line that is no message comes back as it is in `bad` (hex): the driver, who counts lines, says where it stands.
    """

    work: Work
    schema: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        work = self.work
        if work.write is not None and not work.marked and takes(work.read.format, work.write.format):
            return self._by_kernels(batches, Transcoder(work.read, work.write, work.topic))
        if work.write is None and cell_lines.takes(work.read, work.marked):
            return self._by_kernels(batches, LineReader(work.read))
        return self._one_by_one(batches, one_of(work))

    def _by_kernels(self, batches: Iterable[pa.RecordBatch], codecs: Transcoder | LineReader) -> Iterator[Any]:
        def slow(found: dict[str, Any]) -> list[dict[str, Any]]:
            return [self._row(found, codecs.one, plain=False)]

        for batch in batches:
            try:
                summary = Summary()
                for part, fast, rest in codecs.parts(batch, summary):
                    made, origin = None, None
                    if isinstance(fast, Lines):
                        made, origin = self._lines(part, fast, rest, summary.drained())
                    elif fast is not None:
                        made, origin = self._fast(part, fast, summary.drained()), np.unique(fast.origin)
                    yield in_order(part, rest, self.schema, slow, made, origin)
            except SetupError as error:
                position = batch.column("position")[0].as_py()
                yield pa.RecordBatch.from_pylist([{"position": position, "fatal": as_row(error)}], schema=self.schema)
                return

    def _lines(self, part: Any, fast: Lines, rest: Any, tally: dict[str, int]) -> tuple[Any, Any]:
        """As `_fast`, of lines: a row for many messages that no other stands between."""
        stands = np.flatnonzero(fast.part == 0)  # where the lines of a message begin
        message, schema = fast.origin[stands], self.schema
        run = np.searchsorted(rest, message) * part.num_rows + np.arange(len(message)) // _RUN
        _, first, sizes = np.unique(run, return_index=True, return_counts=True)
        count, which = len(first), pa.array(message[first])
        begins = pa.array(np.concatenate((stands[first], [len(fast.part)])).astype(np.int32))
        tallies = [list(tally.items()) if n == 0 else [] for n in range(count)]
        made = {
            "position": part.column("position").take(which), "partition": part.column("partition").take(which),
            "lines": pa.ListArray.from_arrays(begins, fast.lines), "messages": pa.array(sizes),
            "tally": pa.array(tallies, schema.field("tally").type),
        } | {name: pa.array([[]] * count, schema.field(name).type) for name in ("out", "notes", "marks")}  # fmt: skip
        arrays = [made[f.name].cast(f.type) if f.name in made else pa.nulls(count, f.type) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema), message[first]

    def _fast(self, part: Any, fast: Fast, tally: dict[str, int]) -> Any:
        """RESULTS of the messages that kernels took; the first has the counts of all."""
        positions, partitions = part.column("position"), part.column("partition")
        rows: dict[int, dict[str, Any]] = {}
        carried = fast.carried(part, pa.schema([f for f in part.schema if f.name in _CARRIED]))
        for index, found in zip(fast.origin.tolist(), rows_of(carried), strict=True):
            line = json_line(message_line(message_of_row(found)))
            if index in rows:
                rows[index]["out"].append(line)
                continue
            rows[index] = {
                "position": positions[index].as_py(), "partition": partitions[index].as_py(), "out": [line],
                "lines": [], "notes": [], "marks": [], "tally": [] if rows else list(tally.items()),
            }  # fmt: skip
        return pa.RecordBatch.from_pylist(list(rows.values()), schema=self.schema)

    def _one_by_one(self, batches: Iterable[pa.RecordBatch], one: Callable[[Message], Result]) -> Iterator[Any]:
        plain = self.work.read.format == PLAIN
        for batch in batches:
            out: list[dict[str, Any]] = []
            for found in rows_of(batch):
                try:
                    out.append(self._row(found, one, plain))
                except SetupError as error:
                    # The registry is gone: the driver says so and stops; what comes after it here has no answer.
                    out.append({"position": found["position"], "fatal": as_row(error)})
                    yield pa.RecordBatch.from_pylist(out, schema=self.schema)
                    return
            yield pa.RecordBatch.from_pylist(out, schema=self.schema)

    def _row(self, found: dict[str, Any], one: Callable[[Message], Result], plain: bool) -> dict[str, Any]:
        """The result of one row of the input. SetupError."""
        position = {"position": found["position"]}
        try:
            item = item_of(found, plain)
            if item is None:
                return position
            message, result = (item, one(item)) if isinstance(item, Message) else (item[1], Result(error=item[0]))
        except WireError:
            return {**position, "bad": found["line"].hex()}
        return {**position, **_result(result, message, self.work.write is None)}


def as_row(error: BridgeError) -> dict[str, str]:
    """An error as it travels to the driver, who makes the same error of it."""
    return {"code": error.code, "fields": json.dumps(error.fields)}


def _result(result: Result, message: Message, plain: bool) -> dict[str, Any]:
    summary = Summary()
    summary.count(result, message.topic)
    error = None if result.error is None else as_row(result.error)
    return {
        "lines": [json_line(line) for line in plain_lines(result, message)] if plain else [],
        "out": [json_line(message_line(m)) for m in result.out],
        "notes": result.notes,
        "tally": list(summary.tally().items()),
        "error": error,
        "origin": json_line(message_line(message)) if error else None,
        "marks": mark_rows(result),
        "partition": message.partition,
        "resolved": result.resolved,
    }


def mark_rows(result: Result) -> list[dict[str, Any]]:
    return [{"commit_ts": m.commit_ts, "rank": m.rank, "id": m.id, "count": m.count} for m in result.marks]
