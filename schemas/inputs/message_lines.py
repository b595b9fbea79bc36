"""Kafka records as JSON lines: the lines of a message file (docs/formats.md, "Message files").

Dumps of other tools are read by their fields: kcat -J (edenhill/kcat `json.c`), rpk topic consume
(redpanda-data/redpanda `topic/consume.go`), and values alone, a JSON object a line, as kafka-console-consumer prints
them and TiCDC's storage sink writes them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from schemas.codec.byte_signatures import with_body_name
from schemas.model.errors import WireError
from schemas.model.event import Message
from schemas.model.reasons import reason_of
from schemas.plain.writer import b64

Header = tuple[str, bytes | None]


def parse_line(line: bytes, where: str) -> Message:
    """A line of a message file → message. WireError BAD_LINE; the caller keeps the line's bytes."""
    text = line.strip(b" \t\r\n").removeprefix(b"\xef\xbb\xbf")
    try:
        fields = json.loads(text.decode("utf-8", "surrogateescape"))  # kcat writes bytes that are no text as they are
    except (ValueError, RecursionError) as error:
        if (message := _key_and_value(text)) is not None:
            return message
        reason = with_body_name(reason_of(error), text)
        raise WireError("BAD_LINE", where=where, details=reason[:300]) from error
    try:
        if not isinstance(fields, dict):
            raise ValueError(with_body_name(_WHAT_IS_NEEDED, text))
        read = next((form for needed, form in _FORMS if needed <= fields.keys()), _value_alone)
        if read is _message:
            text.decode()  # its texts are names, and its bytes are base64: other bytes are damage
        return read(fields, text)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise WireError("BAD_LINE", where=where, details=reason_of(error)[:300]) from error


_WHAT_IS_NEEDED = "an object with key_b64 and value_b64 is needed (docs/formats.md, Message files)"


# ---- our own form
def _message(fields: dict[str, Any], line: bytes) -> Message:
    return Message(
        _bytes(fields.get("key_b64"), "key_b64"),
        _bytes(fields.get("value_b64"), "value_b64"),
        *_position(fields),
        _number(fields, "timestamp", 63),
        _headers(fields.get("headers")),
    )


def _bytes(text: Any, what: str) -> bytes | None:
    if not isinstance(text, str | None):
        raise ValueError(f"{what} is no text: base64 is needed")
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{what} is no base64 text") from error


def _position(fields: dict[str, Any]) -> tuple[str | None, int | None, int | None]:
    topic: str | None = _typed_member(fields, "topic", str)
    return topic, _number(fields, "partition", 31), _number(fields, "offset", 63)


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


def _headers(headers: Any) -> tuple[Header, ...]:
    """Pairs of a name and base64 (or null); an object of them too."""
    if isinstance(headers, dict):
        headers = [
            [name, one] for name, value in headers.items() for one in (value if type(value) is list else [value])
        ]
    if not isinstance(headers, list | None):
        raise ValueError(_WHAT_HEADERS_ARE)
    read = []
    for pair in headers or ():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(_WHAT_HEADERS_ARE)
        read.append((pair[0], _bytes(pair[1], "headers")))
    return tuple(read)


_WHAT_HEADERS_ARE = "headers: a list of pairs [name, base64 or null] is needed, or an object {name: base64}"


# ---- dumps of other tools: keys, values and headers as text
def _of_kcat(fields: dict[str, Any], line: bytes) -> Message:
    """kcat writes bytes that are not UTF-8 as they are: the line has them still."""
    for part, id_ in (("key", "key_schema_id"), ("payload", "value_schema_id")):
        if not isinstance(fields.get(part), str | None) or id_ in fields or f"{part}_error" in fields:
            raise ValueError(f"kcat decoded the {part}: dump the topic without -s, or give {_FROM_KAFKA}")
    headers = fields.get("headers") or []
    if isinstance(headers, dict):  # name: [value, …]
        headers = [part for name, values in headers.items() for value in values for part in (name, value)]
    if not isinstance(headers, list) or len(headers) % 2 or not all(isinstance(n, str) for n in headers[::2]):
        raise ValueError("headers: kcat's are a list of names and values, or an object of lists")
    pairs = [(name, _raw(value, "headers")) for name, value in zip(headers[::2], headers[1::2], strict=True)]
    stamp = _number(fields, "ts", 63) if fields.get("tstype") != "unknown" else None
    return Message(
        _raw(fields.get("key"), "key"), _raw(fields["payload"], "payload"), *_position(fields), stamp, tuple(pairs)
    )


def _of_rpk(fields: dict[str, Any], line: bytes) -> Message:
    """rpk writes U+FFFD, escaped, where bytes were not UTF-8, and leaves out what is null (or empty)."""
    if "value_size" in fields and "value" not in fields and fields["value_size"]:
        raise ValueError(f"rpk left the value out: dump the topic without --meta-only, or give {_FROM_KAFKA}")
    if _ESCAPED_REPLACEMENT.search(line):
        raise ValueError(_LOST)
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(h, dict) and isinstance(h.get("key"), str) for h in headers):
        raise ValueError("headers: rpk's are a list of objects with key and value")
    return Message(
        _raw(fields.get("key"), "key"),
        _raw(fields.get("value"), "value"),
        *_position(fields),
        _number(fields, "timestamp", 63),
        tuple((h["key"], _raw(h.get("value"), "headers")) for h in headers),
    )


_FROM_KAFKA = "--in kafka:TOPIC, which reads the topic itself"
_LOST = f"U+FFFD stands where bytes were no text: they were lost in the dump; give {_FROM_KAFKA}"
_ESCAPED_REPLACEMENT = re.compile(rb"(?<!\\)(?:\\\\)*\\ufffd", re.IGNORECASE)


def _raw(text: Any, what: str) -> bytes | None:
    """The bytes of a text that a tool printed. ValueError where they can't be known."""
    if not isinstance(text, str | None):
        raise ValueError(f"{what} is no text: the tool decoded it; give {_FROM_KAFKA}")
    if text is not None and "\ufffd" in text:
        raise ValueError(_LOST)
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _key_and_value(line: bytes) -> Message | None:
    """A key, a tab and a value, as kafka-console-consumer prints them with print.key=true; None for anything else.

    JSON has no tab of its own, and the text null is Kafka's null.
    """
    key, tab, value = line.partition(b"\t")
    if not tab or b"\t" in value:
        return None
    try:
        body = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if value != b"null" and not (isinstance(body, dict) and _is_value(body)):
        return None
    return Message(None if key == b"null" else key, None if value == b"null" else value)


# ---- values alone
_VALUES = (
    {"isDdl", "type"}, {"database", "type", "data"}, {"version", "type", "commitTs"}, {"source", "op"},
    {"source", "ddl"}, {"payload", "schema"}, {"payload"}, {"__op"}, {"__deleted"},
)  # fmt: skip
"""Members by which the values of formats in JSON are known: Canal-JSON, Simple, Debezium, flattened rows."""


def _value_alone(fields: dict[str, Any], line: bytes) -> Message:
    if not _is_value(fields):
        raise ValueError(_WHAT_IS_NEEDED)
    return Message(None, line)


def _is_value(fields: dict[str, Any]) -> bool:
    return any(needed <= fields.keys() for needed in _VALUES)


_FORMS: tuple[tuple[set[str], Callable[[dict[str, Any], bytes], Message]], ...] = (
    ({"value_b64"}, _message),
    ({"key_b64"}, _message),
    ({"topic", "partition", "offset", "payload"}, _of_kcat),
    ({"topic", "partition", "offset", "timestamp"}, _of_rpk),
)
"""Members that a line has, and what reads it; the first that fits."""


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
