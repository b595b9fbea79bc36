"""Craft messages → change events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import layout as wire
from ticdc_bridge.schemas.formats.craft import values as cell_values
from ticdc_bridge.schemas.formats.definitions import HANDLE_KEY, by_definition, join_definition
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import ELEMENTS

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
        self._parser = wire.MessageParser()
        self._layouts: BoundedCache[tuple[Any, ...], _Layout] = BoundedCache(256)

    def decode(self, message: Message) -> list[Event]:
        """One message → its events. WireError MALFORMED (with the byte), TOO_LARGE, EMPTY_RECORD."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: Craft has no tombstones")
        value = message.value
        row_events = self._parser.parse(value)
        events = [self._event(value, row_event) for row_event in row_events]
        _flag_damaged_floats(value, row_events, events, self._context.options.craft_float)
        return events

    def _event(self, data: bytes, row_event: wire.Part) -> Event:
        if isinstance(row_event, wire.RowEvent):
            return self._row(data, row_event)
        if isinstance(row_event, wire.DdlBody):
            ddl = row_event
            return DdlEvent("craft", ddl.db, ddl.table, ddl.commit_ts, ddl.type, ddl.query)
        return Watermark("craft", row_event.commit_ts)

    def _row(self, data: bytes, row_event: wire.RowEvent) -> RowChange:
        layout = self._layout(row_event)
        flags: dict[str, None] = {}
        raw: dict[str, Any] = {}
        before = None if row_event.old is None else _read(data, row_event.old, layout, flags, raw, "before")
        after = None if row_event.new is None else _read(data, row_event.new, layout, flags, raw, "after")
        extra: dict[str, Any] = {name: value for name, value in (("types", layout.types), ("raw", raw)) if value}
        if row_event.partition != wire.NO_PARTITION:
            extra = {"partition": row_event.partition, **extra}
        event = RowChange(
            "craft", layout.table, "d" if after is None else "c" if before is None else "u", row_event.commit_ts,
            before, after, layout.table.handle_key, self._context.options.time_zone,
            None, layout.version.commit_ts if layout.version else None, list(flags), extra, layout.key_only,
        )  # fmt: skip
        event.note_mismatch(layout.mismatch)
        return event

    def _layout(self, row_event: wire.RowEvent) -> _Layout:
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
                raise wire.malformed_error(first.pos, str(error)) from error
            if len(first.head.names) <= _KEPT_COLUMNS:
                self._layouts[key] = layout
        return layout


def _read(
    data: bytes, group: wire.RowImage, layout: _Layout, flags: dict[str, None], raw: dict[str, Any], image: str
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
            reason = by_definition(error, layout.table.id if layout.version else None)
            raise wire.malformed_error(pos, f"column {name!r}: {reason}") from error
        if name in layout.numbers:
            flags[f"{cell_values.ENUM_NUMBER}:{name}"] = None
        pos += length
    return row


def _compile(
    id_: TableId, heads: tuple[wire.Head | None, ...], version: TableVersion | None, options: Options
) -> _Layout:
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
    numbers = (c.name for c in table.columns if c.type.kind in ELEMENTS and not c.elements)
    new, old = heads
    key_only = False
    if new is None and old is not None:
        names = {c.name for c in table.columns if not c.virtual}
        key_only = all(flags & HANDLE_KEY for flags in old.flags) and (version is None or names > set(old.names))
    readers = {name: cell_values.reader(by_name[name], *kind) for name, kind in sent.items()}
    types = {name: list(kind) for name, kind in sent.items() if cell_values.type_of(by_name[name]) != kind}
    return _Layout(table, version, readers, frozenset(numbers), types, key_only, mismatch)


# ---- FLOAT slots that TiCDC damaged and that hold a float32 all the same.
#
# TiCDC (v8.2 on) reserves four bytes for a FLOAT and writes eight, so that the next number of the message (an integer,
# FLOAT, DOUBLE, YEAR, ENUM, SET or BIT) overwrites the high ones (upstream tiflow `craft/message_encoder.go`,
# EncodeTiDBType). The last number of a message is sound: the message is written before the next row comes. So is a slot
# whose bytes from the fifth on are not the first ones of the next number. One that has them may be sound by chance, and
# is flagged, unless the message proves its encoder: TiCDC allocates in blocks of 64 bytes, and only the last slots of
# a block are not overwritten. The bytes can't be mended; the value is not changed by being flagged.

FLOAT = 4
_NOT_FINITE = ("NaN", "+Inf", "-Inf")
_BLOCK, _OVERWRITTEN = 64, 4
# The bytes reserved for types whose content is allocated beside that of a FLOAT; texts are not copied.
_RESERVED = {FLOAT: 4, 5: 8, **dict.fromkeys((1, 2, 3, 8, 9, 13, 16, 247, 248), 10)}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A number of the message, in the order of encoding."""

    event: RowChange
    image: str
    name: str
    code: int
    content: bytes


def _flag_damaged_floats(data: bytes, row_events: Sequence[wire.Part], events: Sequence[Event], mode: str) -> None:
    """Flags the FLOATs of a message that its encoder may have damaged, and gives them the text of the double there.

    mode: the option craft_float: "auto", "damaged" or "sound".
    """
    images = (image for e in row_events if isinstance(e, wire.RowEvent) for image in (e.new, e.old))
    if mode == "sound" or not any(image is not None and FLOAT in image.head.types for image in images):
        return
    slots = list(_slots(data, row_events, events))
    overwritten = [
        slot.code == FLOAT and slot.content[_OVERWRITTEN:].startswith(after.content[:_OVERWRITTEN])
        for slot, after in pairwise(slots)
    ] + [False] * bool(slots)
    if mode == "auto" and not any(overwritten):
        return
    is_sound = mode == "auto" and not any(_may_be_damaged(slots, overwritten, start) for start in range(0, _BLOCK, 2))
    for slot, is_overwritten in zip(slots, overwritten, strict=True):
        if slot.code == FLOAT and (mode == "damaged" or (is_overwritten and not is_sound)):
            row = getattr(slot.event, slot.image)
            if row[slot.name] not in _NOT_FINITE:
                row[slot.name] = values.double_text(cell_values.double(slot.content))
            slot.event.flag(f"{cell_values.FLOAT_DAMAGED}:{slot.name}")


def _may_be_damaged(slots: list[_Slot], overwritten: list[bool], start: int) -> bool:
    """True if an encoder that damages FLOATs can have written a message from byte `start` of a block on."""
    is_kept = False  # the number before is a FLOAT, and was not overwritten
    for slot, is_overwritten in zip(slots, overwritten, strict=True):
        reserved = _RESERVED[slot.code]
        if is_kept and start + max(reserved, len(slot.content)) <= _BLOCK:
            return False
        start = start + reserved if start + reserved <= _BLOCK else reserved
        is_kept = slot.code == FLOAT and not is_overwritten
    return True


def _slots(data: bytes, row_events: Sequence[wire.Part], events: Sequence[Event]) -> Iterator[_Slot]:
    for row_event, event in zip(row_events, events, strict=True):
        if not isinstance(row_event, wire.RowEvent) or not isinstance(event, RowChange):
            continue
        for group, image in ((row_event.new, "after"), (row_event.old, "before")):
            if group is None:
                continue
            pos = group.pos
            for name, code, length in zip(group.head.names, group.head.types, group.lengths, strict=True):
                if length >= 0:
                    if code in _RESERVED:
                        yield _Slot(event, image, name, code, data[pos : pos + length])
                    pos += length
