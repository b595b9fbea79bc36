"""JSON read without losing a digit: numbers stay the text they were. Strict, and safe against hostile documents."""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=_constant, strict=True
)


def decode(text: str) -> Any:
    """A JSON document. ValueError for anything else, for a key that stands twice and for nesting beyond reason."""
    value, end = decode_from(text, len(text) - len(text.lstrip(" \t\r\n")))
    if text[end:].strip(" \t\r\n"):
        raise ValueError(f"more text after the document, at character {end}")
    return value


def decode_from(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that starts at character `start`, and where it ends. ValueError as `decode`."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deep") from None


def document(data: bytes) -> str:
    """Bytes → text to decode. Bytes that are not UTF-8 stand in it as lone surrogates (Python's surrogateescape).

    ValueError where the JSON itself escapes a lone surrogate: no bytes stand for that.
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\\u" in text and "\\ud" in text.lower() and _surrogates(decode(data.decode("utf-8", "replace"))):
        raise ValueError("a string holds half a surrogate pair")
    return text


def _surrogates(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return any(_surrogates(k) or _surrogates(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_surrogates, value))


def python(value: Any) -> Any:
    """A decoded document with ordinary numbers: int where there is no fraction, else float. ValueError: too deep."""
    try:
        return _python(value)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _python(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _python(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_python(v) for v in value]
    if isinstance(value, Number):
        return int(value) if value.removeprefix("-").isdigit() and len(value) < 1000 else float(value)
    return value


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


_PAIRS = json.JSONDecoder(
    object_pairs_hook=tuple, parse_float=Number, parse_int=Number, parse_constant=_constant, strict=True
)


def decode_pairs(text: str) -> Any:
    """As `decode`, objects as tuples of (key, value) in their order, with keys that stand twice."""
    try:
        value, end = _PAIRS.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if end != len(text):
        raise ValueError(f"more text after the document, at character {end}")
    return value
