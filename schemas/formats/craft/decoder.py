"""Craft messages → change events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import values as cell_values
from ticdc_bridge.schemas.formats.craft.layout import (
    HANDLE_KEY,
    NO_PARTITION,
    DdlBody,
    Head,
    MessageParser,
    Part,
    RowEvent,
    RowImage,
    malformed_error,
)
from ticdc_bridge.schemas.formats.definitions import join_definition
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import Kind

_KEPT_COLUMNS = 1024  # of a layout that is kept: what hostile messages can make us hold is bounded


@dataclass(frozen=True, slots=True)
class _Layout:
    """Compiled per heads of a row and table version. numbers: ENUM and SET columns of which only the number is known.

    types: (type code, flags) of columns that say something else than the table does.
    """

    table: Table
    version: TableVersion | None
    readers: dict[str, cell_values.Read]
    numbers: frozenset[str]
    types: dict[str, list[int]]
    key_only: bool
    mismatch: DefinitionMismatch | None


class CraftDecoder:
    """Reads messages of any mix of rows, DDL and resolved events; names of ENUM and SET need a table definition."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._parser = MessageParser()
        self._layouts: BoundedCache[tuple[Any, ...], _Layout] = BoundedCache(256)
        self._floats = FloatDamage(context.options.craft_float, context.damaged_topics)

    def decode(self, message: Message) -> list[Event]:
        """One message → its events. WireError MALFORMED (with the byte), TOO_LARGE, EMPTY_RECORD."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: Craft has no tombstones")
        value = message.value
        row_events = self._parser.parse(value)
        events = [self._event(value, row_event) for row_event in row_events]
        self._floats.mark(value, row_events, events, message.topic)
        return events

    def _event(self, data: bytes, row_event: Part) -> Event:
        if isinstance(row_event, RowEvent):
            return self._row(data, row_event)
        if isinstance(row_event, DdlBody):
            ddl = row_event
            return DdlEvent("craft", ddl.db, ddl.table, ddl.commit_ts, ddl.type, ddl.query)
        return Watermark("craft", row_event.commit_ts)

    def _row(self, data: bytes, row_event: RowEvent) -> RowChange:
        layout = self._layout(row_event)
        flags: dict[str, None] = {}
        raw: dict[str, dict[str, str]] = {}
        before = None if row_event.old is None else _read(data, row_event.old, layout, flags, raw, "before")
        after = None if row_event.new is None else _read(data, row_event.new, layout, flags, raw, "after")
        extra: dict[str, Any] = {}
        if row_event.partition != NO_PARTITION:
            extra["partition"] = row_event.partition
        if layout.types:
            extra["types"] = layout.types
        if raw:
            extra["raw"] = raw
        event = RowChange(
            "craft", layout.table, "d" if after is None else "c" if before is None else "u", row_event.commit_ts,
            before, after, layout.table.handle_key, self._context.options.time_zone,
            None, layout.version.commit_ts if layout.version else None, list(flags), extra, layout.key_only,
        )  # fmt: skip
        if layout.mismatch is not None:
            event.note_mismatch(layout.mismatch)
        return event

    def _layout(self, row_event: RowEvent) -> _Layout:
        id_ = TableId(row_event.db, row_event.table)
        version = self._context.tables.at(id_, row_event.commit_ts) if self._context.tables else None
        heads = tuple(None if image is None else image.head for image in (row_event.new, row_event.old))
        key = (id_, *heads, version.commit_ts if version else None)
        layout = self._layouts.get(key)
        if layout is None:
            first = row_event.new or row_event.old
            assert first is not None
            try:
                layout = _compile(id_, heads, version, self._context.options)
            except ValueError as error:
                raise malformed_error(first.pos, str(error)) from error
            if len(first.head.names) <= _KEPT_COLUMNS:
                self._layouts[key] = layout
        return layout


def _read(
    data: bytes, group: RowImage, layout: _Layout, flags: dict[str, None], raw: dict[str, dict[str, str]], image: str
) -> Row:
    """The values of one side of a row."""
    row: dict[str, str | bytes | None] = {}
    pos, readers = group.pos, layout.readers
    for name, length in zip(group.head.names, group.lengths, strict=True):
        if length < 0:
            row[name] = None
            continue
        content = data[pos : pos + length]
        try:
            row[name] = readers[name](content)
        except cell_values.RawValue as odd:
            row[name] = odd.value
            raw.setdefault(image, {})[name] = content.hex()
            if odd.flag:
                flags[f"{odd.flag}:{name}"] = None
        except ValueError as error:
            raise malformed_error(pos, f"column {name!r}: {error}") from error
        if name in layout.numbers:
            flags[f"{cell_values.ENUM_NUMBER}:{name}"] = None
        pos += length
    return row


def _compile(id_: TableId, heads: tuple[Head | None, ...], version: TableVersion | None, options: Options) -> _Layout:
    """ValueError for columns that no row of a TiDB table has."""
    sent: dict[str, tuple[int, int]] = {}
    for head in heads:
        for name, code, flags in zip(head.names, head.types, head.flags, strict=True) if head else ():
            if sent.setdefault(name, (code, flags)) != (code, flags):
                raise ValueError(f"column {name!r} has another type in the old row than in the new")
    sent_columns = tuple(cell_values.column_of(name, *kind) for name, kind in sent.items())
    version, mismatch = join_definition(id_, version, sent_columns, cell_values.fits, options)
    table = version.table if version else Table(id_, sent_columns)
    by_name: dict[str, Column] = table.by_name
    numbers = (c.name for c in table.columns if c.type.kind in (Kind.ENUM, Kind.SET) and not c.elements)
    new, old = heads
    key_only = False
    if new is None and old is not None:
        names = {c.name for c in table.columns if not c.virtual}
        key_only = all(flags & HANDLE_KEY for flags in old.flags) and (version is None or names > set(old.names))
    return _Layout(
        table,
        version,
        {name: cell_values.reader(by_name[name], *kind) for name, kind in sent.items()},
        frozenset(numbers),
        {name: list(kind) for name, kind in sent.items() if cell_values.type_of(by_name[name]) != kind},
        key_only,
        mismatch,
    )


# ---- FLOAT slots that TiCDC damaged and that hold a float32 all the same.
#
# TiCDC (v8.2 on) reserves four bytes for a FLOAT and writes eight, so that the next number of the batch (an integer,
# FLOAT, DOUBLE, YEAR, ENUM, SET or BIT) overwrites the high ones (upstream tiflow `craft/message_encoder.go`,
# EncodeTiDBType). A slot that holds no float32 shows it. One that does is told by its neighbour: its bytes from the
# fifth on are the first bytes of the next number. One such byte can be chance (a sound slot in 256 looks like that),
# a zero tells nothing. So they are weighed against slots that have other bytes there: of a damaging encoder some have
# (the last of an allocated block). Where a message proves its encoder, all of its FLOATs that a number follows are
# flagged. Four bytes on end, or one slot that is no float32, prove it beyond chance: from then on all of the topic's
# are. The bytes can't be mended; the value is not changed by being flagged.

FLOAT = 4
_NOT_FINITE = ("NaN", "+Inf", "-Inf")
# Types whose content is allocated beside that of a FLOAT; texts are not copied.
_NUMBERS = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 16, 247, 248})
_BYTES = 4  # of a slot that the next number can overwrite; as many prove an encoder
_MOST_TOPICS = 10_000


@dataclass(frozen=True, slots=True)
class _Slot:
    """A number of the message, in the order of encoding."""

    event: RowChange
    image: str
    name: str
    is_float: bool
    content: bytes


class FloatDamage:
    """What is known of the encoders of topics. mode: the option craft_float: "auto", "damaged" or "sound".

    topics: those whose encoder is proven to damage FLOATs; shared by the decoders of a side.
    """

    def __init__(self, mode: str, topics: set[str | None]) -> None:
        self._mode, self._topics = mode, topics
        self._weights: dict[str | None, int] = {}

    def mark(self, data: bytes, row_events: Sequence[Part], events: Sequence[Event], topic: str | None) -> None:
        """Flags the FLOATs of a message that its encoder damaged, and gives them the text of the double there."""
        images = (image for e in row_events if isinstance(e, RowEvent) for image in (e.new, e.old))
        if self._mode == "sound" or not any(image is not None and FLOAT in image.head.types for image in images):
            return
        slots = list(_slots(data, row_events, events))
        for slot in self._find_damaged(slots, topic):
            row = getattr(slot.event, slot.image)
            if row[slot.name] not in _NOT_FINITE:
                row[slot.name] = values.double_text(cell_values.double(slot.content))
            slot.event.flag(f"{cell_values.FLOAT_DAMAGED}:{slot.name}")

    def _find_damaged(self, slots: list[_Slot], topic: str | None) -> list[_Slot]:
        # The last one is overwritten by the next message's first number.
        every = [slot for slot in slots if slot.is_float]
        if self._mode == "damaged" or topic in self._topics:
            return every
        hits = [(slot, _weigh(slot, after)) for slot, after in pairwise(slots) if slot.is_float]
        self._learn(topic, [weight for _, weight in hits])
        against = sum(weight < 0 for _, weight in hits)
        if topic in self._topics or sum(max(weight, 0) for _, weight in hits) > max(1, 2 * against):
            return every
        likely_slots = [slot for slot, weight in hits if weight > 0]
        is_likely = 2 * len(likely_slots) > len(hits) or any(weight > 1 for _, weight in hits)
        return likely_slots if is_likely else []

    def _learn(self, topic: str | None, weights: list[int]) -> None:
        total = self._weights.get(topic, 0)
        for weight in weights:
            total = max(total + (weight if weight >= 0 else -_BYTES), 0)
            if total >= _BYTES and len(self._topics) < _MOST_TOPICS:
                self._topics.add(topic)
        if len(self._weights) >= _MOST_TOPICS and topic not in self._weights:
            self._weights.clear()
        self._weights[topic] = total


def _weigh(slot: _Slot, after: _Slot) -> int:
    """Bytes of the slot that are the next number's, but for zeros; four more where that makes it no float32; -1: it has
    other bytes there, so that it was not written over.
    """
    head = after.content[:_BYTES]
    if not slot.content[_BYTES:].startswith(head):
        return -1
    weight = sum(byte != 0 for byte in head)
    return weight + _BYTES if weight and not _is_float32(cell_values.double(slot.content)) else weight


def _is_float32(real: float) -> bool:
    try:
        return values.as_float32(real) == real
    except OverflowError:
        return False


def _slots(data: bytes, row_events: Sequence[Part], events: Sequence[Event]) -> Iterator[_Slot]:
    for row_event, event in zip(row_events, events, strict=True):
        if not isinstance(row_event, RowEvent) or not isinstance(event, RowChange):
            continue
        for group, image in ((row_event.new, "after"), (row_event.old, "before")):
            if group is None:
                continue
            pos = group.pos
            for name, code, length in zip(group.head.names, group.head.types, group.lengths, strict=True):
                if length >= 0:
                    if code in _NUMBERS:
                        yield _Slot(event, image, name, code == FLOAT, data[pos : pos + length])
                    pos += length
