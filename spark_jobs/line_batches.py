"""Arrow batches of a message file's lines → batches with Kafka's columns, as a topic gives them."""

from __future__ import annotations

from typing import Any

import pyarrow

from schemas.errors import WireError
from schemas.event import Message
from spark_jobs.messages import parse_line
from spark_jobs.packed import HEADERS

pa: Any = pyarrow  # the stubs know less than the library

_STAMP = pa.timestamp("us", "UTC")
_COLUMNS = {
    "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
    "timestamp": _STAMP, "headers": HEADERS, "line": pa.binary(),
}  # fmt: skip
_MOST_MS = 1 << 53  # a timestamp in microseconds is an int64


def messages_of_lines(batch: Any) -> Any:
    """A batch with the column `line` → Kafka's columns, and its own others; any other batch as it is.

    `line` stays where it is no message (it is empty, or wrong, or can't stand in the columns): nothing else is known
    of it then. Everywhere else it is null.
    """
    if "line" not in batch.schema.names or "value" in batch.schema.names:
        return batch
    made: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for line in batch.column("line").to_pylist():
        message = _message(line)
        for name in ("key", "value", "topic", "partition", "offset"):
            made[name].append(getattr(message, name))
        made["timestamp"].append(None if message.timestamp is None else message.timestamp * 1000)
        made["headers"].append([{"key": name, "value": value} for name, value in message.headers])
        made["line"].append(line if message is _NONE else None)
    rest = {name: batch.column(name) for name in batch.schema.names if name != "line"}
    return pa.RecordBatch.from_pydict({n: pa.array(made[n], kind) for n, kind in _COLUMNS.items()} | rest)


_NONE = Message(None, None)


def _message(line: bytes) -> Message:
    try:
        message = parse_line(line, "") if line.strip() else _NONE
        for text in (message.topic or "", *(name for name, _ in message.headers)):
            text.encode()  # ValueError: half of a character, which Arrow does not hold
    except (WireError, ValueError):
        return _NONE
    return _NONE if (message.timestamp or 0) >= _MOST_MS else message
