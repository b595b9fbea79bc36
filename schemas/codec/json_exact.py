"""JSON read without losing a digit: numbers stay the text they were. Strict, and safe against hostile documents."""

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.model.errors import Hint

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps makes one for each call


def compact_json(value: Any) -> str:
    """Compact JSON, UTF-8 as it is."""
    return _COMPACT.encode(value)


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _decoder(hook: Callable[[list[tuple[str, Any]]], Any], number: Callable[[str], Number]) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=hook, parse_float=number, parse_int=number, parse_constant=_constant)


_SHORT: dict[str, Number] = {}


def _shared_number(text: str) -> Number:
    """A number; of the few (under 2,000) that have at most three characters there is one object each."""
    if len(text) > 3:
        return Number(text)
    number = _SHORT.get(text)
    if number is None:
        number = _SHORT[text] = Number(text)
    return number


_Decoders = tuple[json.JSONDecoder, json.JSONDecoder]
# (ordinary, sparing) decoders: a Number takes 96 bytes, of 2 bytes of text at worst. Sharing takes a sixth more time.
_OBJECTS = _decoder(_object, Number), _decoder(_object, _shared_number)
_PAIRS = _decoder(tuple, Number), _decoder(tuple, _shared_number)
_LONG = 1 << 18
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_CONTAINER, _ROOM = 192, 16 << 20


def _choose_decoder(decoders: _Decoders, text: str, start: int) -> json.JSONDecoder:
    """The decoder for a text. ValueError for a long one of so many lists and objects that memory would not hold them.

    An object takes up to 200 bytes, a list 100: beyond 16 for a byte of text the bound of docs/operate.md is lost.
    TiCDC's longest documents are values; they have a handful of objects a column at most.
    """
    if len(text) - start <= _LONG:
        return decoders[0]
    most = (len(text) * 16 + _ROOM) // _CONTAINER
    if text.count("[") + text.count("{") > most:
        outside = _STRINGS.sub("", text)
        count = outside.count("[") + outside.count("{")
        if count > most:
            raise ValueError(f"{count} lists and objects in {len(text)} characters")
    return decoders[1]


def decode(text: str) -> Any:
    """A JSON document. ValueError for anything else, for a key that stands twice and for nesting beyond reason."""
    value, end = decode_from(text, len(text) - len(text.lstrip(" \t\r\n")))
    if text[end:].strip(" \t\r\n"):
        raise ValueError(f"more text after the document, at character {end}")
    return value


def decode_from(text: str, start: int, decoders: _Decoders = _OBJECTS) -> tuple[Any, int]:
    """The JSON value that starts at character `start`, and where it ends. ValueError as `decode`."""
    try:
        return _choose_decoder(decoders, text, start).raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deep") from None


def document(data: bytes) -> str:
    """Bytes → text to decode. Bytes that are not UTF-8 stand in it as lone surrogates (Python's surrogateescape).

    ValueError where the JSON itself escapes a lone surrogate: no bytes stand for that.
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\\u" in text and _HALF.search(text):
        try:
            lone = has_surrogates(decode(data.decode("utf-8", "replace")))
        except RecursionError:
            raise ValueError("nested too deep") from None
        if lone:
            raise ValueError("a string holds half a surrogate pair")
    return text


_HALF = re.compile(r"\\u[dD]")


def has_surrogates(value: Any) -> bool:
    """True if half of a surrogate pair stands in a text of a document."""
    if isinstance(value, str):
        return not value.isascii() and not is_utf8(value)
    if isinstance(value, dict):
        return any(has_surrogates(k) or has_surrogates(v) for k, v in value.items())
    return isinstance(value, list) and any(map(has_surrogates, value))


def python(value: Any) -> Any:
    """A decoded document with ordinary numbers: int where there is no fraction, else float. Bytes (of a document in
    Avro) become base64, as in Connect's JSON.

    ValueError: too deep, a number that a double can't hold, text that is not UTF-8.
    """
    try:
        return _python(value)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _python(value: Any) -> Any:
    if isinstance(value, dict):
        return {utf8(k, "a key"): _python(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_python(v) for v in value]
    if isinstance(value, Number):
        if value.removeprefix("-").isdigit() and len(value) < 1000:
            return int(value)
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{value[:40]} is no number that a double can hold")
        return number
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return utf8(value, "a string") if isinstance(value, str) else value


def dump(value: Any) -> str:
    """A decoded document as text again, in one spelling, numbers as they were. ValueError when nested too deep."""
    try:
        return _dump(value)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _dump(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return str(value) if isinstance(value, Number) else json.dumps(value)


def integer(value: Any, what: str) -> int:
    """A JSON number that is a 64-bit integer, signed or unsigned. ValueError."""
    text = str(value)
    if not isinstance(value, Number) or len(text) > 20 or not text.removeprefix("-").isdigit():
        raise ValueError(f"{what} is no integer")
    return int(text)


def string(value: Any, what: str) -> str:
    """A JSON string. ValueError."""
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError(f"{what} is no string")
    return value


def utf8(value: Any, what: str) -> str:
    """A JSON string that is UTF-8: a name or a statement. ValueError."""
    text = string(value, what)
    if not text.isascii() and not is_utf8(text):
        raise ValueError(f"{what} is not UTF-8")
    return text


def is_utf8(text: str) -> bool:
    """True if UTF-8 can hold a text: no half of a surrogate pair is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_pairs(text: str) -> Any:
    """As `decode`, objects as tuples of (key, value) in their order, with keys that stand twice."""
    value, end = decode_from(text, 0, _PAIRS)
    if end != len(text):
        raise ValueError(f"more text after the document, at character {end}")
    return value


# ---- Where the members of a JSON document stand in its text.

_SPACE = " \t\r\n"
_KINDS = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _skip(text: str, pos: int) -> int:
    while pos < len(text) and text[pos] in _SPACE:
        pos += 1
    return pos


def members(text: str, start: int) -> Iterator[tuple[str | int, int, int]]:
    """(key or index, start, end) of each value in the object or array at `start`; nothing for other values.

    ValueError where the text is not JSON.
    """
    start = _skip(text, start)
    opened = text[start : start + 1]
    if opened not in ("{", "["):
        return
    pos, index = _skip(text, start + 1), 0
    while text[pos : pos + 1] not in ("}", "]"):
        key: str | int = index
        if opened == "{":
            key, pos = decode_from(text, pos)
            pos = _skip(text, _skip(text, pos) + 1)  # the colon
        _, end = decode_from(text, pos)
        yield key, pos, end
        index += 1
        pos = _skip(text, end)
        if text[pos : pos + 1] == ",":
            pos = _skip(text, pos + 1)
        elif pos >= len(text):
            raise ValueError("the document is cut")


def find(text: str, path: tuple[str | int, ...]) -> int | None:
    """Where the value at a path of keys and indexes starts, None where there is none. ValueError."""
    pos = 0
    for step in path:
        value_start = next((start for key, start, _ in members(text, pos) if key == step), None)
        if value_start is None:
            return None
        pos = value_start
    return pos


def kind_of(text: str, start: int) -> str:
    """ "string", "number", "object", … of the value at `start`."""
    return _KINDS.get(text[start : start + 1], "number")


# ---- What a JSON object is that a format does not read: its fields say it.
#
# Sources: TiCDC's Simple and Canal-JSON (upstream ticdc `pkg/sink/codec`), Maxwell's documentation ("Data Format"), AWS
# DMS ("Using Apache Kafka as a target"), Oracle GoldenGate's JSON formatter, Debezium's envelope.


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A kind of object. fields: the sets of names of which it has one; holds: what must be true of it besides.

    format: what reads it, "" where nothing does. payload: it may stand in `payload`, as Kafka Connect wraps it.
    """

    title: str
    fields: tuple[frozenset[str], ...]
    format: str = ""
    payload: bool = False
    holds: Callable[[Mapping[str, Any]], bool] = lambda _body: True

    def matches(self, body: Mapping[str, Any]) -> bool:
        inner = body.get("payload") if self.payload else None
        entry = inner if isinstance(inner, Mapping) else body
        return any(names <= entry.keys() for names in self.fields) and self.holds(entry)


def _fields(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(name.split()) for name in names)


JSON_FORMS: tuple[JsonForm, ...] = (
    JsonForm("TiCDC's Simple Protocol", _fields("version type commitTs buildTs"), "simple"),
    JsonForm("Canal-JSON", _fields("isDdl type", "mysqlType type database"), "canal-json"),
    JsonForm(
        "Canal-JSON of Flink or SeaTunnel", _fields("data type"), "canal-json",
        # Maxwell's types are in small letters, and Simple has a version.
        holds=lambda body: body["type"] in ("INSERT", "UPDATE", "DELETE") and "version" not in body
        and isinstance(body["data"], list | Mapping | None),
    ),
    JsonForm(
        "Maxwell's JSON",
        _fields("database table type ts data", "database type sql ts def", "database type sql ts old"),
    ),
    JsonForm(
        "JSON of AWS DMS", _fields("metadata data", "metadata control"),
        holds=lambda body: isinstance(body["metadata"], Mapping) and "record-type" in body["metadata"],
    ),
    JsonForm("JSON of Oracle GoldenGate", _fields("table op_type op_ts")),
    JsonForm(
        "an envelope of Debezium", _fields("op source ts_ms", "op source after"),
        "debezium, debezium-mysql or debezium-tidb, by its source.connector", payload=True,
    ),
)  # fmt: skip
"""The more fields a form has, the earlier it stands."""


def json_form(body: Any) -> JsonForm | None:
    """The kind of an object; None for any other value, and for an object that nothing tells."""
    return next((form for form in JSON_FORMS if form.matches(body)), None) if isinstance(body, Mapping) else None


def name_other_form(body: Any, format_: str) -> str:
    """Names a body that is not of this format, and the format that reads it; "" where nothing tells."""
    form = json_form(body)
    if form is None or form.format.startswith(format_):
        return ""
    reader = f": read it with {Hint.FORMAT.of(form.format)}" if form.format else ", which is not read"
    return f"it is {form.title}{reader}"
