"""What a micro-batch runs in Spark's Python workers: each message's pieces, as rows that sinks take, and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from schemas.errors import SetupError, WireError
from schemas.event import Message
from schemas.plain import json_line
from spark_jobs.codec import PLAIN, Mark, Result, mark, plain_lines
from spark_jobs.columns import CHANGES
from spark_jobs.dead_letter import dead_letter
from spark_jobs.flow import Work
from spark_jobs.job_batches import as_row, item_of, one_of
from spark_jobs.summary import Summary
from spark_jobs.workers import _change_rows, _time

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
    """Rows of the input → pieces. form: what is made of an event; exact: rows one by one, with their marks."""

    work: Work
    form: Form
    schema: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        one, plain = one_of(self.work), self.work.read.format == PLAIN
        for batch in batches:
            told = _Told()
            out: list[dict[str, Any]] = []
            try:
                for found in batch.to_pylist():
                    try:
                        item = item_of(found, plain)
                    except WireError as error:
                        item = error, Message(None, found["line"])
                    if item is None:
                        continue
                    message, result = (
                        (item, one(item)) if isinstance(item, Message) else (item[1], Result(error=item[0]))
                    )
                    told.count(result, message, found)
                    out += [{**piece, "position": found["position"]} for piece in self._pieces(result, message)]
            except SetupError as error:
                out = [{"kind": "fatal", "fatal": as_row(error)}]
                yield pa.RecordBatch.from_pylist(out, schema=self.schema)
                return
            yield pa.RecordBatch.from_pylist([*out, told.row()], schema=self.schema)

    def _pieces(self, result: Result, message: Message) -> Iterator[dict[str, Any]]:
        if result.error is not None:
            yield {"kind": "dead", "reason": result.error.code, "message": _row(dead_letter(result.error, message)),
                   "line": result.error.detail}  # fmt: skip
            return
        if self.work.write is not None:
            marks = result.marks or [Mark(None, 0, b"", len(result.out))]
            written = iter(result.out)
            for number, one in enumerate(marks):
                for part in range(one.count):
                    yield {**_marked(one, number, part), "message": _row(next(written))}
            return
        marks = [mark(event, message, n) for n, event in enumerate(result.events)]
        if self.form == "change":
            for number, (one, row) in enumerate(zip(marks, _change_rows(result, message), strict=True)):
                yield {**_marked(one, number, 0), "change": row}
            return
        for number, (one, line) in enumerate(zip(marks, plain_lines(result, message), strict=True)):
            yield {**_marked(one, number, 0), "line": json_line(line)}


class _Told:
    """The counts of an Arrow batch."""

    def __init__(self) -> None:
        self._summary = Summary()
        self._notes: list[str] = []
        self._watermarks: dict[int, int] = {}
        self._offsets: dict[int, int] = {}

    def count(self, result: Result, message: Message, found: dict[str, Any]) -> None:
        self._summary.count(result, message.topic)
        self._notes += result.notes
        at = found.get("partition", message.partition)
        partition = -1 if at is None else at
        if result.resolved is not None:
            self._watermarks[partition] = max(result.resolved, self._watermarks.get(partition, 0))
        if found.get("offset") is not None:
            self._offsets[partition] = max(found["offset"], self._offsets.get(partition, 0))

    def row(self) -> dict[str, Any]:
        return {
            "kind": "told", "tally": list(self._summary.tally().items()), "notes": self._notes[:100],
            "messages": self._summary.messages, "watermarks": list(self._watermarks.items()),
            "offsets": list(self._offsets.items()),
        }  # fmt: skip


def _marked(one: Mark, number: int, part: int) -> dict[str, Any]:
    return {
        "kind": "out", "number": number, "part": part, "commit_ts": one.commit_ts, "rank": one.rank,
        "id": one.id or None,
    }  # fmt: skip


def _row(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic, "partition": message.partition, "key": message.key, "value": message.value,
        "timestamp": _time(message.timestamp),
        "headers": [{"key": name, "value": value} for name, value in message.headers],
    }  # fmt: skip
