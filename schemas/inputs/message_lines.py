"""Kafka records as JSON lines: the lines of a message file (docs/formats.md, "Message files")."""

from __future__ import annotations

import base64
import json
from typing import Any

from schemas.model.errors import WireError
from schemas.model.event import Message
from schemas.model.reasons import reason_of
from schemas.plain.writer import b64


def parse_line(line: bytes, where: str) -> Message:
    """A line of a message file → message. WireError BAD_LINE; the caller keeps the line's bytes."""
    try:
        fields = json.loads(line.strip(b" \t\r\n").decode("utf-8-sig"))
        if not isinstance(fields, dict) or not {"key_b64", "value_b64"} & fields.keys():
            raise ValueError("an object with key_b64 and value_b64 is needed")
        return Message(
            _bytes(fields.get("key_b64")),
            _bytes(fields.get("value_b64")),
            _typed_member(fields, "topic", str),
            _number(fields, "partition", 31),
            _number(fields, "offset", 63),
            _number(fields, "timestamp", 63),
            tuple(_header(name, value) for name, value in fields.get("headers") or ()),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WireError("BAD_LINE", where=where, details=reason_of(error)[:300]) from error


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


_KINDS = {str: "a text", int: "a whole number"}


def _typed_member(document: dict[str, Any], name: str, kind: type) -> Any:
    value = document.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"{name} is {json.dumps(value)[:40]}, {_KINDS[kind]} is needed")
    return value


def _number(fields: dict[str, Any], name: str, bits: int) -> int | None:
    number: int | None = _typed_member(fields, name, int)
    if number is not None and not 0 <= number < 1 << bits:
        raise ValueError(f"{name} {str(number)[:30]} is not what Kafka has")
    return number


def _header(name: Any, value: str | None) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise ValueError(f"header name {name!r} is no text")
    return name, _bytes(value)


def message_line(message: Message) -> dict[str, Any]:
    """A message as the object of its line."""
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key_b64": b64(message.key),
        "value_b64": b64(message.value),
        "headers": [[name, b64(value)] for name, value in message.headers],
    }
