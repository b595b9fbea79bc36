"""Where the members of a JSON document stand in its text."""

from __future__ import annotations

from collections.abc import Iterator

from ticdc_bridge.schemas.codec import json_exact

_SPACE = " \t\r\n"


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
            key, pos = json_exact.decode_from(text, pos)
            pos = _skip(text, _skip(text, pos) + 1)  # the colon
        _, end = json_exact.decode_from(text, pos)
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
    first = text[start : start + 1]
    return {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}.get(
        first, "number"
    )
