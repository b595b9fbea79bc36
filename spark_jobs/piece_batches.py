"""What a micro-batch runs in Spark's Python workers: each message's pieces, as rows that sinks take, and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow

from schemas.errors import SetupError, WireError
from schemas.event import Message
from schemas.plain import json_line
from spark_jobs.cell_batches import Fast, Transcoder, in_order
from spark_jobs.cell_changes import ChangeReader, Changes
from spark_jobs.cell_lines import LineReader, Lines
from spark_jobs.codec import PLAIN, Mark, Result, mark, plain_lines
from spark_jobs.columns import CHANGES
from spark_jobs.dead_letter import dead_letter
from spark_jobs.flow import Work
from spark_jobs.job_batches import Item, as_row, item_of, one_of
from spark_jobs.summary import Summary
from spark_jobs.workers import _change_rows, _time

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

pa: Any = pyarrow  # the stubs know less than the library

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

    found = StructType.fromDDL(_PIECES)
    assert isinstance(found, StructType)
    return found.add("message", StructType.fromDDL(MESSAGE)).add("change", StructType.fromDDL(CHANGES))


@dataclass(frozen=True)
class PieceBatches:
    """Rows of the input → pieces. form: what is made of an event."""

    work: Work
    form: Form
    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        changes = self.schema.field("change").type if self.form == "change" else None
        worker = Worker(self.work, changes, self.form == "line")
        for batch in batches:
            told = Told()

            def slow(found: dict[str, Any], told: Told = told) -> Iterator[dict[str, Any]]:
                done = worker.done(found)
                if done is not None:
                    told.count(*done, found)
                    for piece in self._pieces(*done):
                        yield {**piece, "position": found["position"]}

            try:
                out = [
                    in_order(part, rest, self.schema, slow, self._fast(part, fast), fast and fast.origin)
                    for part, fast, rest in worker.parts(batch, told)
                ]
            except SetupError as error:
                yield pa.RecordBatch.from_pylist([{"kind": "fatal", "fatal": as_row(error)}], schema=self.schema)
                return
            yield from out
            yield pa.RecordBatch.from_pylist([told.row()], schema=self.schema)

    def _fast(self, part: Any, fast: Fast | Changes | Lines | None) -> Any:
        """What the kernels wrote or read, as pieces."""
        if fast is None:
            return None
        count, zeros = len(fast.origin), pa.array(np.zeros(len(fast.origin), np.int32))
        columns = {
            "kind": pa.repeat("out", count), "part": zeros, "number": zeros, "rank": zeros,
            "position": part.column("position").take(pa.array(fast.origin)),
        }  # fmt: skip
        if isinstance(fast, Lines):
            columns |= {"number": pa.array(fast.part), "line": fast.lines}
        elif isinstance(fast, Changes):
            kind = self.schema.field("change").type
            whole = pa.StructArray.from_arrays(fast.rows.columns, fields=list(kind))
            columns |= {"number": fast.rows.column("row"), "change": whole}
        else:
            kind = self.schema.field("message").type
            whole = pa.StructArray.from_arrays(fast.carried(part, pa.schema(list(kind))).columns, fields=list(kind))
            columns |= {"part": pa.array(fast.part), "message": whole}
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _pieces(self, result: Result, message: Message) -> Iterator[dict[str, Any]]:
        if result.error is not None:
            letter = message_row(dead_letter(result.error, message))
            yield {"kind": "dead", "reason": result.error.code, "message": letter, "line": result.error.detail}
            return
        if self.work.write is not None:
            marks = result.marks or [Mark(None, 0, b"", len(result.out))]
            written = iter(result.out)
            for number, one in enumerate(marks):
                for part in range(one.count):
                    yield {**_marked(one, number, part), "message": message_row(next(written))}
            return
        marks = [mark(event, message, n) for n, event in enumerate(result.events)]
        if self.form == "change":
            for number, (one, row) in enumerate(zip(marks, _change_rows(result, message), strict=True)):
                yield {**_marked(one, number, 0), "change": row}
            return
        for number, (one, line) in enumerate(zip(marks, plain_lines(result, message), strict=True)):
            yield {**_marked(one, number, 0), "line": json_line(line)}


class Worker:
    """A task's codecs: rows of the input one by one, or (`parts`) many at once."""

    def __init__(self, work: Work, changes: Any = None, lines: bool = False) -> None:
        """changes: the Arrow type of change events, where these are made of messages; lines: where lines are."""
        self._plain = work.read.format == PLAIN
        self._batches: Transcoder | ChangeReader | LineReader | None = None
        if work.write is not None:
            self._batches = Transcoder(work.read, work.write, work.topic, work.marked)
        elif changes is not None and not work.marked:
            self._batches = ChangeReader(work.read, pa.schema(list(changes)))
        elif lines and not work.marked:
            self._batches = LineReader(work.read)
        self.one = self._batches.one if self._batches else one_of(work)

    def item(self, found: dict[str, Any]) -> Item | None:
        """A row of the input → its message, or what failed and the line; None for an empty line."""
        try:
            return item_of(found, self._plain)
        except WireError as error:
            return error, Message(None, found["line"])

    def done(self, found: dict[str, Any]) -> tuple[Result, Message] | None:
        """A row of the input → what became of its message; None for an empty line."""
        item = self.item(found)
        if item is None:
            return None
        return (self.one(item), item) if isinstance(item, Message) else (Result(error=item[0]), item[1])

    def parts(self, batch: Any, told: Told) -> Iterator[tuple[Any, Any, Any]]:
        """As `Transcoder.parts` or `ChangeReader.parts`; `told` counts what the kernels took."""
        told.places(batch)
        if self._batches is None:
            yield batch, None, np.arange(batch.num_rows)
        else:
            yield from self._batches.parts(batch, told.summary)


class Told:
    """The counts of an Arrow batch."""

    def __init__(self) -> None:
        self.summary = Summary()
        self._notes: list[str] = []
        self._watermarks: dict[int, int] = {}
        self.offsets: dict[int, int] = {}

    def count(self, result: Result, message: Message, found: dict[str, Any]) -> None:
        self.summary.count(result, message.topic)
        self._notes += result.notes
        at = found.get("partition", message.partition)
        partition = -1 if at is None else at
        if result.resolved is not None:
            self._watermarks[partition] = max(result.resolved, self._watermarks.get(partition, 0))

    def places(self, batch: Any) -> None:
        """The newest offset of each partition in the batch."""
        if not {"partition", "offset"} <= set(batch.schema.names):
            return
        partitions = batch.column("partition").fill_null(-1)
        found = pa.table([partitions, batch.column("offset")], ["partition", "offset"])
        for row in found.group_by("partition").aggregate([("offset", "max")]).to_pylist():
            if row["offset_max"] is not None:
                self.offsets[row["partition"]] = max(row["offset_max"], self.offsets.get(row["partition"], 0))

    def row(self) -> dict[str, Any]:
        return {
            "kind": "told", "tally": list(self.summary.tally().items()), "notes": self._notes[:100],
            "messages": self.summary.messages, "watermarks": list(self._watermarks.items()),
            "offsets": list(self.offsets.items()),
        }  # fmt: skip


def _marked(one: Mark, number: int, part: int) -> dict[str, Any]:
    return {
        "kind": "out", "number": number, "part": part, "commit_ts": one.commit_ts, "rank": one.rank,
        "id": one.id or None,
    }  # fmt: skip


def message_row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic, "partition": message.partition, "key": message.key, "value": message.value,
        "timestamp": _time(message.timestamp),
        "headers": [{"key": name, "value": value} for name, value in message.headers],
    }  # fmt: skip
