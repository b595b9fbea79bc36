"""Kafka records as JSON lines: the lines of a message file (docs/reference.md, "Message files").

Dumps of other tools are read by their fields: kcat -J (edenhill/kcat `json.c`), rpk topic consume
(redpanda-data/redpanda `topic/consume.go`), and values alone, a JSON object a line, as kafka-console-consumer prints
them and TiCDC's storage sink writes them.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.codec.json_exact import json_form
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.plain.reader import read_bytes, read_headers
from ticdc_bridge.schemas.plain.writer import b64, plain_headers


def parse_line(line: bytes, where: str) -> Message:
    """A line of a message file → message. WireError BAD_LINE; the caller keeps the line's bytes."""
    text = line.strip(b" \t\r\n").removeprefix(b"\xef\xbb\xbf")
    try:
        fields = json.loads(text.decode("utf-8", "surrogateescape"))  # kcat writes bytes that are no text as they are
    except (ValueError, RecursionError) as error:
        rest = text_after_object(text)
        reason = OTHER_TERMINATOR.format(rest[:20]) if rest else with_body_name(reason_of(error), text)
        try:
            if (message := _printed_message(text)) is not None:
                return message
        except ValueError as ambiguous:
            reason = str(ambiguous)
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


OTHER_TERMINATOR = "{!r} follows the object: is it a storage sink's terminator? Set the option terminator"
_WHAT_IS_NEEDED = "an object with key_b64 and value_b64 is needed (docs/reference.md, Message files)"


# ---- our own form
def _message(fields: dict[str, Any], line: bytes) -> Message:
    key, value = (read_bytes(fields.get(name), name) for name in ("key_b64", "value_b64"))
    position, stamp = _position(fields), _number(fields, "timestamp", 63)
    return Message(key, value, *position, stamp, read_headers(fields.get("headers")))


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


# ---- dumps of other tools: keys, values and headers as text
def _of_kcat(fields: dict[str, Any], line: bytes) -> Message:
    """kcat writes bytes that are not UTF-8 as they are: the line has them still."""
    for field, id_ in (("key", "key_schema_id"), ("payload", "value_schema_id")):
        if not isinstance(fields.get(field), str | None) or id_ in fields or f"{field}_error" in fields:
            raise ValueError(f"kcat decoded the {field}: dump the topic without -s, or give {_FROM_KAFKA}")
    headers = fields.get("headers") or []
    if isinstance(headers, dict):  # name: [value, …]
        headers = [piece for name, values in headers.items() for value in values for piece in (name, value)]
    if not isinstance(headers, list) or len(headers) % 2 or not all(isinstance(n, str) for n in headers[::2]):
        raise ValueError("headers: kcat's are a list of names and values, or an object of lists")
    pairs = [(name, _raw(value, "headers")) for name, value in zip(headers[::2], headers[1::2], strict=True)]
    stamp = _number(fields, "ts", 63) if fields.get("tstype") != "unknown" else None
    key, value = (_raw(fields.get(name), name) for name in ("key", "payload"))
    return Message(key, value, *_position(fields), stamp, tuple(pairs))


def _of_rpk(fields: dict[str, Any], line: bytes) -> Message:
    """rpk writes U+FFFD, escaped, where bytes were not UTF-8, and leaves out what is null (or empty)."""
    if "value_size" in fields and "value" not in fields and fields["value_size"]:
        raise ValueError(f"rpk left the value out: dump the topic without --meta-only, or give {_FROM_KAFKA}")
    if _ESCAPED_REPLACEMENT.search(line):
        raise ValueError(_LOST)
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(h, dict) and isinstance(h.get("key"), str) for h in headers):
        raise ValueError("headers: rpk's are a list of objects with key and value")
    key, value = (_raw(fields.get(name), name) for name in ("key", "value"))
    position, stamp = _position(fields), _number(fields, "timestamp", 63)
    return Message(key, value, *position, stamp, tuple((h["key"], _raw(h.get("value"), "headers")) for h in headers))


_FROM_KAFKA = "the topic itself (kafka:TOPIC)"
_LOST = f"U+FFFD stands where bytes were no text: they were lost in the dump; give {_FROM_KAFKA}"
_ESCAPED_REPLACEMENT = re.compile(rb"(?<!\\)(?:\\\\)*\\ufffd", re.IGNORECASE)


def _raw(text: Any, what: str) -> bytes | None:
    """The bytes of a text that a tool printed. ValueError where they can't be known."""
    if not isinstance(text, str | None):
        raise ValueError(f"{what} is no text: the tool decoded it; give {_FROM_KAFKA}")
    if text is not None and "\ufffd" in text:
        raise ValueError(_LOST)
    return None if text is None else text.encode("utf-8", "surrogateescape")


# ---- kafka-console-consumer (upstream kafka `DefaultMessageFormatter`)
_LABELS = re.compile(
    rb"(?:(?P<none>NO_TIMESTAMP)|(?:Create|LogAppend)Time:(?P<timestamp>\d{1,19}))|Partition:(?P<partition>\d{1,10})"
    rb"|Offset:(?P<offset>\d{1,19})|(?:Delivery|Epoch):\d+"
)
"""Words that print.timestamp, print.partition, print.offset, print.delivery and print.epoch put before a message."""
_SEPARATOR = re.compile(rb"\t|[^\w{}\[\]\"]+")
_HEADER = re.compile(rb"[\w./$-]+:")


def _printed_message(line: bytes) -> Message | None:
    """Time, partition, offset, headers, key and value as kafka-console-consumer prints them with print.…=true, each of
    them or not; None for a line that does not end with a value that is known, or with the text null, Kafka's null.

    The separator (key.separator) is a tab, or what follows the first of time, partition and offset. ValueError where
    headers and key can't be told apart.
    """
    at: dict[str, int] = {}
    separator, pos = b"\t", 0
    while match := _LABELS.match(line, pos):
        at |= {name: int(text) for name, text in match.groupdict().items() if text and name != "none"}
        after = _SEPARATOR.match(line, match.end()) if not pos else None
        separator = after[0] if after else separator
        if not line.startswith(separator, match.end()):
            return None
        pos = match.end() + len(separator)
    words = line[pos:].split(separator, _MAX_FIELDS)
    count = next((n for n in range(len(words)) if _is_printed_value(separator.join(words[n:]))), None)
    if count is None or not (count or pos):
        _refuse_other_separator(line[pos:])
        return None
    headers, key = _headers_and_key(separator.join(words[:count]) if count else None, separator)
    value = _printed_bytes(separator.join(words[count:]))
    return Message(key, value, None, at.get("partition"), at.get("offset"), at.get("timestamp"), headers)


def text_after_object(line: bytes) -> str:
    """What stands in a line after a message that is known, as an object; "" where nothing does."""
    try:
        text = line.decode("utf-8", "surrogateescape") if line[:1] == b"{" else ""
        fields, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return ""
    known = _is_value(fields) or any(needed <= fields.keys() for needed, _ in _FORMS)
    return text[end:].strip(" \t\r\n") if known else ""


def has_several_objects(line: bytes) -> bool:
    """True if a line has a message that is known, as an object, and another object after it."""
    return text_after_object(line).lstrip(" \t,").startswith("{")


def _refuse_other_separator(text: bytes) -> None:
    """ValueError where a value that is known ends a line, and what stands before it is not parted by a tab."""
    if has_several_objects(text):
        raise ValueError("several objects are in one line: write each on a line of its own (jq -c .)")
    begin = text.find(b"{", 1)
    for _ in range(_MAX_FIELDS):
        if begin < 0:
            return
        if _is_printed_value(text[begin:]):
            raise ValueError(
                "key and value are not parted by a tab: leave key.separator as it is, or dump with kcat -J"
            )
        begin = text.find(b"{", begin + 1)


_MAX_FIELDS = 100


def _is_printed_value(text: bytes) -> bool:
    if text == b"null":
        return True
    try:
        body = json.loads(text) if text[:1] == b"{" else None
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and _is_value(body)


def _headers_and_key(text: bytes | None, separator: bytes) -> tuple[tuple[tuple[str, bytes | None], ...], bytes | None]:
    """Reads the text before a value: headers, a key, or both. ValueError where that can't be known."""
    if text is None:
        return (), None
    first, parted, key = text.partition(separator)
    if first == b"NO_HEADERS":
        return (), _printed_bytes(key) if parted else None
    if not _HEADER.match(first):
        return (), _printed_bytes(text)
    if not parted:
        raise ValueError("a:b before the value is a key or a header: print both (print.key=true, print.headers=true)")
    headers = []
    for pair in first.split(b","):
        if not _HEADER.match(pair):
            raise ValueError("a header's value has a comma or a tab, as far as can be seen: dump with kcat -J")
        name, _, value = pair.partition(b":")
        headers.append((name.decode(), _printed_bytes(value)))
    return tuple(headers), _printed_bytes(key)


def _printed_bytes(text: bytes) -> bytes | None:
    return None if text == b"null" else text


# ---- values alone
_VALUES = (
    {"database", "type", "data"}, {"version", "type", "commitTs"}, {"source", "op"}, {"source", "ddl"},
    {"before", "after"}, {"payload"}, {"__op"}, {"__deleted"},
)  # fmt: skip
"""Members by which values in JSON are known, beside `JSON_FORMS`: Simple, Debezium and its like, flattened rows."""


def _value_alone(fields: dict[str, Any], line: bytes) -> Message:
    if not _is_value(fields):
        raise ValueError(_WHAT_IS_NEEDED)
    return Message(None, line)


def _is_value(fields: dict[str, Any]) -> bool:
    return json_form(fields) is not None or any(needed <= fields.keys() for needed in _VALUES)


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
        "headers": plain_headers(message),
    }
