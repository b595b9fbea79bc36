"""The plain form: change events as JSON lines. Values are SQL text, so no JSON reader rounds a number."""

import base64
import json
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import is_utf8
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Bootstrap, DdlEvent, Event, Message, Row, RowChange, Watermark
from ticdc_bridge.schemas.model.table import Value


def plain_value(value: Value) -> str | dict[str, str] | None:
    """A column value as the plain form writes it: null, SQL text, or {"hex"} for bytes."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _plain_row(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {name: plain_value(value) for name, value in row.items()}


_NOWHERE = Message(None, None)


def plain_event(event: Event, origin: Message = _NOWHERE) -> dict[str, Any]:
    """An event as the object of its line.

    Args:
        event: a row change, DDL or watermark.
        origin: the message it was read from: topic, partition, offset, headers.

    Returns:
        What `decode` prints as a JSON line; `Encoder.encode` takes it.
    """
    if not (isinstance(event, RowChange | DdlEvent | Watermark) and isinstance(origin, Message)):
        kinds = f"event is of type {type(event).__name__}, origin of type {type(origin).__name__}"
        raise SetupError("USAGE", details=f"{kinds}: a change event and a Message are needed")
    head = {"format": event.format, "topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    line: dict[str, Any]
    if isinstance(event, Watermark):
        line = {"kind": "watermark", **head, "commit_ts": event.commit_ts}
    elif isinstance(event, Bootstrap):
        line = {
            "kind": "bootstrap", **head, "db": event.db, "table": event.table, "schema_version": event.schema_version,
        }  # fmt: skip
    elif isinstance(event, DdlEvent):
        line = {
            "kind": "ddl", **head, "db": event.db, "table": event.table, "commit_ts": event.commit_ts,
            "ddl_type": event.ddl_type, "query": event.query,
        }  # fmt: skip
    else:
        line = {
            "kind": "row", **head, "db": event.table.id.db, "table": event.table.id.table, "op": event.op,
            "commit_ts": event.commit_ts, "schema_id": event.schema_id, "table_version": event.table_version,
            "key": list(event.key), "before": _plain_row(event.before), "after": _plain_row(event.after),
            "flags": event.flags,
        }  # fmt: skip
    if event.extra:
        line["extra"] = event.extra
    if origin.headers:
        line["headers"] = plain_headers(origin)
    return line


def plain_headers(origin: Message) -> list[list[str | None]]:
    """A message's record headers as lines have them: [[name, base64 or null], …]."""
    return [[name, b64(value)] for name, value in origin.headers]


def plain_error(error: WireError, origin: Message) -> dict[str, Any]:
    """The error event of a message that can't be decoded: code, what is wrong, and the message's own bytes."""
    line = {
        "kind": "error", "code": error.code, "detail": error.detail, "key_b64": b64(origin.key),
        "value_b64": b64(origin.value), "topic": origin.topic, "partition": origin.partition, "offset": origin.offset,
    }  # fmt: skip
    return {**line, "headers": plain_headers(origin)} if origin.headers else line


def b64(data: bytes | None) -> str | None:
    """Base64 text, None for None."""
    return None if data is None else base64.b64encode(data).decode("ascii")


def json_line(value: dict[str, Any] | list[Any]) -> str:
    """One line of JSON, or a part of one, UTF-8 as it is.

    Escaped are text that UTF-8 can't hold (a lone surrogate in an error's text) and the characters that some readers
    take for the end of a line (U+0085, U+2028, U+2029).
    """
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii():
        return text
    return text.translate(_LINE_ENDS) if is_utf8(text) else json.dumps(value)


_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
