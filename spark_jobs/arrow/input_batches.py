"""What an input gives, lines, messages or rows → Arrow batches with Kafka's columns, as a topic gives them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ticdc_bridge.schemas.formats.framing import names_schema
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.io.endpoints import plain_item
from ticdc_bridge.spark_jobs.io.message_files import message_of_row, parse_line
from ticdc_bridge.spark_jobs.io.parquet import HEADERS

_COLUMNS: dict[str, Any] = {
    "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"), "headers": HEADERS, "line": pa.binary(),
}  # fmt: skip
_PLAIN = ("key", "value", "topic", "partition", "offset")  # as messages have them
_MOST_MS = 1 << 53  # a timestamp in microseconds is an int64


def messages_of_lines(batch: Any) -> Any:
    """A batch with the column `line` → Kafka's columns, and its own others; any other batch as it is.

    `line` stays, alone, where it is no message or can't stand in the columns; everywhere else it is null.
    """
    if "line" not in batch.schema.names or "value" in batch.schema.names:
        return batch
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for line in batch.column("line").to_pylist():
        message = _message(line)
        for name in _PLAIN:
            columns[name].append(getattr(message, name))
        columns["timestamp"].append(None if message.timestamp is None else message.timestamp * 1000)
        columns["headers"].append([{"key": name, "value": value} for name, value in message.headers])
        columns["line"].append(line if message is _NONE else None)
    rest = {name: batch.column(name) for name in batch.schema.names if name != "line"}
    return pa.RecordBatch.from_pydict({n: pa.array(columns[n], kind) for n, kind in _COLUMNS.items()} | rest)


_NONE = Message(None, None)


def _message(line: bytes) -> Message:
    try:
        message = parse_line(line, "") if line.strip() else _NONE
        for text in (message.topic or "", *(name for name, _ in message.headers)):
            text.encode()  # ValueError: half of a character, which Arrow does not hold
    except (WireError, ValueError):
        return _NONE
    return _NONE if (message.timestamp or 0) >= _MOST_MS else message


Item = Message | tuple[WireError, Message]


_BATCH, _BYTES = 4096, 8 << 20  # of a batch: messages, and bytes of keys and values
_STAMPS = range(1 << 53)  # milliseconds: in microseconds they are an int64
_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)


def batch_items(items: Iterator[Item]) -> Iterator[Item]:
    """As many items as make a batch."""
    size = 0
    for item in islice(items, _BATCH):
        yield item
        message = item if isinstance(item, Message) else item[1]
        size += len(message.key or b"") + len(message.value or b"")
        if size > _BYTES:
            return


def batch_of_messages(chunk: list[Item], timed: bool = False) -> Any:
    """The messages as Kafka's columns have them, with headers where one has any; what failed is one without key and
    value. None where they can't be.

    So is a message whose headers name its schemas: the codec reads it. timed: with their timestamps.
    """
    messages = [_NONE if not isinstance(m, Message) or (m.headers and names_schema(m.headers)) else m for m in chunk]
    for m in messages:
        if (m.partition or 0) not in _INT32 or (m.offset or 0) not in _INT64 or (m.timestamp or 0) not in _STAMPS:
            return None
    kinds = {name: _COLUMNS[name] for name in _PLAIN}
    columns: dict[str, list[Any]] = {name: [getattr(m, name) for m in messages] for name in kinds}
    if any(m.headers for m in messages):
        kinds["headers"] = HEADERS
        columns["headers"] = [[{"key": key, "value": value} for key, value in m.headers] for m in messages]
    try:
        arrays = [pa.array(columns[name], kind) for name, kind in kinds.items()]
    except (UnicodeError, pa.ArrowInvalid, pa.ArrowCapacityError):
        return None
    batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
    if timed:
        stamps = [None if m.timestamp is None else m.timestamp * 1000 for m in messages]
        batch = batch.append_column("timestamp", pa.array(stamps, _COLUMNS["timestamp"]))
    return batch


def message_of_input(row: dict[str, Any], plain: bool) -> Item | None:
    """A row of the input → its message, or what failed; None for an empty line, WireError for one that is none."""
    line = row.get("line")
    if line is None:
        message = message_of_row(row)
        return plain_item(message.value or b"", message) if plain else message
    if not line.strip():
        return None
    return plain_item(line.rstrip(b"\r\n")) if plain else parse_line(line, "")
