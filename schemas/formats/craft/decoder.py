"""Craft messages → change events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import columns
from ticdc_bridge.schemas.formats.craft.damaged_floats import FloatDamage
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
    readers: dict[str, columns.Read]
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
            return DdlEvent(
                "craft", row_event.db, row_event.table, row_event.commit_ts, row_event.type, row_event.query
            )
        return Watermark("craft", row_event.commit_ts)

    def _row(self, data: bytes, row_event: RowEvent) -> RowChange:
        layout = self._layout(row_event)
        flags: list[str] = []
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
            None, layout.version.commit_ts if layout.version else None, flags, extra, layout.key_only,
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
    data: bytes, group: RowImage, layout: _Layout, flags: list[str], raw: dict[str, dict[str, str]], image: str
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
        except columns.RawValue as odd:
            row[name] = odd.value
            raw.setdefault(image, {})[name] = content.hex()
            if odd.flag:
                _flag(flags, f"{odd.flag}:{name}")
        except ValueError as error:
            raise malformed_error(pos, f"column {name!r}: {error}") from error
        if name in layout.numbers:
            _flag(flags, f"{columns.ENUM_NUMBER}:{name}")
        pos += length
    return row


def _flag(flags: list[str], flag: str) -> None:
    if flag not in flags:
        flags.append(flag)


def _compile(id_: TableId, heads: tuple[Head | None, ...], version: TableVersion | None, options: Options) -> _Layout:
    """ValueError for columns that no row of a TiDB table has."""
    sent: dict[str, tuple[int, int]] = {}
    for head in heads:
        for name, code, flags in zip(head.names, head.types, head.flags, strict=True) if head else ():
            if sent.setdefault(name, (code, flags)) != (code, flags):
                raise ValueError(f"column {name!r} has another type in the old row than in the new")
    sent_columns = tuple(columns.column_of(name, *kind) for name, kind in sent.items())
    version, mismatch = join_definition(id_, version, sent_columns, columns.fits, options)
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
        {name: columns.reader(by_name[name], *kind) for name, kind in sent.items()},
        frozenset(numbers),
        {name: list(kind) for name, kind in sent.items() if columns.type_of(by_name[name]) != kind},
        key_only,
        mismatch,
    )
