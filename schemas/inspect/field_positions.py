"""Where the columns of a message stand in its bytes, for every format that can say it (`explain`).

A decoder with a `trace` says it itself. The JSON formats are rows of a table: where in the document their rows are. For
a format with neither nothing is known of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ticdc_bridge.schemas.codec import json_exact, json_spans
from ticdc_bridge.schemas.codec.avro import TruncatedValue
from ticdc_bridge.schemas.formats.base import Decoder, FieldLocator, FieldPosition
from ticdc_bridge.schemas.formats.simple import avro
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange

Path = tuple[str | int, ...]

# Format → (part, side, path of an object whose members are columns). "shown" is the row that a delete had.
_ROWS: dict[str, tuple[tuple[str, str, Path], ...]] = {
    "debezium": (
        ("key", "key", ("payload",)),
        ("key", "key", ()),
        ("value", "before", ("payload", "before")),
        ("value", "after", ("payload", "after")),
        ("value", "before", ("before",)),
        ("value", "after", ("after",)),
    ),
    "simple": (("value", "before", ("old",)), ("value", "after", ("data",))),
    "canal-json": (("value", "before", ("old", 0)), ("value", "shown", ("data", 0))),
}
# Of a row that a transform flattened.
_FLATTENED: tuple[tuple[str, str, Path], ...] = (
    ("key", "key", ("payload",)),
    ("key", "key", ()),
    ("value", "shown", ("payload",)),
    ("value", "shown", ()),
)
_ROWS |= dict.fromkeys(("debezium-mysql", "debezium-tidb"), _ROWS["debezium"])
_OPEN = ("open", "open-tiflow")
_OPEN_SIDES = {"u": "after", "p": "before", "d": "before"}


def traces(format_: str, decoder: Decoder, message: Message, events: Sequence[Event]) -> list[FieldPosition]:
    """The fields of a message that was decoded to these events; none where that is not known."""
    try:
        if isinstance(decoder, FieldLocator):
            return decoder.trace(message)
        if format_ == "simple" and message.value and message.value[0] == avro.FIRST_BYTE:
            return list(_simple_avro(message.value))
        if format_ in _OPEN:
            return list(_open(message))
        is_flat = any(isinstance(event, RowChange) and "flattened" in event.extra for event in events)
        return list(_json(_FLATTENED if is_flat else _ROWS.get(format_, ()), message, events))
    except (WireError, ValueError, LookupError, TypeError, AttributeError, TruncatedValue):
        return []  # compressed, fetched from elsewhere, or of another form: the values are still told


def _simple_avro(data: bytes) -> Iterator[FieldPosition]:
    sides = {"data": "after", "old": "before"}
    for row, name, start, end, kind in avro.cells(data):
        yield FieldPosition("value", start, data[start:end], kind, sides[row], name)


def _json(rows: Sequence[tuple[str, str, Path]], message: Message, events: Sequence[Event]) -> Iterator[FieldPosition]:
    is_delete = bool(events) and isinstance(events[0], RowChange) and events[0].op == "d"
    seen = set[tuple[str, str]]()
    for part, side, path in rows:
        data = message.key if part == "key" else message.value
        if (part, side) in seen or not data or not data.lstrip().startswith(b"{"):
            continue
        row_side = ("before" if is_delete else "after") if side == "shown" else side
        text = json_exact.document(data)
        start = json_spans.find(text, path)
        if start is not None and json_spans.kind_of(text, start) == "object":
            seen.add((part, side))
            yield from _members(text, start, part, row_side, 0, 0)


def _members(text: str, start: int, part: str, side: str, base: int, row: int) -> Iterator[FieldPosition]:
    """The members of the object at character `start`, as columns; `base`: bytes before the text."""
    done, offset = 0, base
    for name, begin, end in json_spans.members(text, start):
        offset += len(_bytes(text[done:begin]))
        raw = _bytes(text[begin:end])
        yield FieldPosition(part, offset, raw, f"JSON {json_spans.kind_of(text, begin)}", side, str(name), row)
        done, offset = end, offset + len(raw)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _open(message: Message) -> Iterator[FieldPosition]:
    """Open Protocol: length-prefixed JSON, {"u": {column: {"t","f","v"}}, "p": …}."""
    data, pos, row = message.value or b"", 0, 0
    while pos + 8 <= len(data):
        size = int.from_bytes(data[pos : pos + 8], "big")
        pos += 8
        text = json_exact.document(data[pos : pos + size])
        for kind, start, _ in json_spans.members(text, 0) if text else ():
            side = _OPEN_SIDES.get(str(kind))
            if side is None:
                continue
            for cell in _members(text, start, "value", side, pos, row):
                cell_text = json_exact.document(cell.raw)
                code = json_spans.find(cell_text, ("t",))
                parts = (t for t in _members(cell_text, 0, "value", side, cell.offset, row) if t.name == "v")
                value = next(parts, None)
                if value is None:
                    continue
                _, end = json_exact.decode_from(cell_text, code or 0)
                wire = f"{value.wire}, type code {cell_text[code:end]}" if code else value.wire
                yield FieldPosition("value", value.offset, value.raw, wire, side, cell.name, row)
        pos, row = pos + size, row + 1
