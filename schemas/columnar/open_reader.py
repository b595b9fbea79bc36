"""Open Protocol messages in batches: chunks of one table's rows (`schemas.columnar.json_templates`).

Taken are messages that hold nothing but rows of this table with all columns. Left are DDL and resolved events, other
tables, compressed values, updates with some old values only, and what `OpenDecoder` flags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.columnar import json_templates as cells
from ticdc_bridge.schemas.columnar.json_templates import (
    BROKEN,
    LearnedTable,
    SampleRow,
    SampleValue,
    TemplateReader,
    ValueKind,
    image_bits_of,
    sound_row,
)
from ticdc_bridge.schemas.columnar.kernels.json_cells import ENUM, SET, UNSIGNED
from ticdc_bridge.schemas.columnar.kernels.json_scan import COMMIT, COUNT, PARTITION, frames
from ticdc_bridge.schemas.columnar.rows import MessageBuffers
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.open_protocol.decoder import OpenDecoder
from ticdc_bridge.schemas.formats.open_protocol.values import is_base64
from ticdc_bridge.schemas.model.event import MAX_TSO, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, Kind

_IMAGES = {"u": 0, "p": 1, "d": 1}
_KEY = {"ts": COMMIT, "ptn": PARTITION, "rid": COUNT}
_CELLS = {
    Kind.YEAR: cells.YEAR,
    Kind.FLOAT: cells.FLOAT,
    Kind.DOUBLE: cells.DOUBLE,
    Kind.DATE: cells.DATE_TEXT,
    Kind.DATETIME: cells.DATETIME_TEXT,
    Kind.TIMESTAMP: cells.DATETIME_TEXT,
    Kind.TIME: cells.TIME_TEXT,
    Kind.JSON: cells.TEXT,
    Kind.VECTOR: cells.TEXT,
}


class OpenTableReader(TemplateReader):
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included.

    whole: rows with their columns in another `order`, or that say more of them than the table does, are left.
    """

    def __init__(
        self, table: Table, options: Options, low: int = 0, high: int = MAX_TSO, complete: bool = False
    ) -> None:
        super().__init__(
            _Format(table, options, low, high, LearnedTable(beside=frozenset() if complete else None)), low, high
        )


def _cell(column: Column, varchar_base64: bool) -> ValueKind | None:
    """How a column is read; None where that can't be known."""
    kind = column.type.kind
    if column.vague:
        return None
    if kind is Kind.INTEGER:
        return cells.integer(column, wraps=False)
    if kind is Kind.DECIMAL:
        return cells.DECIMAL
    if kind in (Kind.ENUM, Kind.SET):
        if not column.elements:
            return None
        size = len(column.elements)
        return cells.number(ENUM, size) if kind is Kind.ENUM else cells.number(SET, (1 << size) - 1)
    if kind is Kind.BIT:
        return cells.number(UNSIGNED, (1 << (column.length or 64)) - 1)
    if kind in (Kind.TEXT, Kind.BINARY):
        if is_base64(column, varchar_base64):
            return cells.BASE64_TEXT if kind is Kind.TEXT else cells.BASE64
        return cells.TEXT if kind is Kind.TEXT else cells.UNQUOTED
    return _CELLS[kind]


class _Format:
    """The Open Protocol, as the batch decoder has to know it."""

    def __init__(self, table: Table, options: Options, low: int, high: int, learned_table: LearnedTable) -> None:
        self.columns = tuple(c for c in table.columns if not c.virtual)
        column_cells = [_cell(c, options.open_varchar_base64) for c in self.columns]
        self.cells = () if None in column_cells else tuple(c for c in column_cells if c is not None)
        self._table, self._low, self._high = table, low, high
        source = SingleTable(TableVersion(low, table))
        self._decoder = OpenDecoder(Context(source, source, options))
        self._slots = {c.name: k for k, c in enumerate(self.columns)}
        self.told = learned_table

    def rows(self, buffers: MessageBuffers) -> Any:
        # What is too large or not there has an empty value or key here: no frame, so it is left.
        fine = (buffers.key_first >= 0) & (buffers.value_first >= 0)
        fine &= (buffers.key_last - buffers.key_first <= MAX_MESSAGE) & (
            buffers.value_last - buffers.value_first <= MAX_MESSAGE
        )
        key_first = np.where(fine, buffers.key_first, -1)
        is_complete = (
            buffers.keys,
            key_first,
            buffers.key_last,
            buffers.values,
            buffers.value_first,
            buffers.value_last,
        )
        out = np.empty((frames(*is_complete, np.empty((0, 5), np.int64)), 5), np.int64)
        frames(*is_complete, out)
        return out

    def sample(self, key: bytes | None, value: bytes) -> SampleRow | None:
        if key is None:
            return None
        message = Message(frame.join_key([key]), frame.join_value([value]))
        try:
            row = sound_row(self._decoder.decode(message), self.columns, self._low, self._high)
            if row is None or row.table.id != self._table.id or _says_null(row) or not self.told.learn(row):
                return None
            key_text, text = key.decode(), value.decode()
            return SampleRow(
                key_text, list(_key(key_text)), text, list(self._value_positions(text)), image_bits_of(row), {}
            )
        except BROKEN:
            return None

    def _value_positions(self, text: str) -> Iterator[SampleValue]:
        for image, start, _ in json_exact.members(text, 0):
            for name, first, _ in json_exact.members(text, start):
                slot = self._slots[str(name)]
                kind, shift = self.cells[slot].kind, len(self.columns) * _IMAGES[str(image)]
                for inner, at, end in json_exact.members(text, first):
                    if inner == "v":
                        yield SampleValue(at, end, kind, shift + slot)


def _says_null(row: RowChange) -> bool:
    """True if a column's type code says only that its value is NULL: the next row may have a value there."""
    return any(traits[0] in ALWAYS_NULL for traits in row.extra.get("columns", {}).values())


def _key(text: str) -> Iterator[SampleValue]:
    for name, start, end in json_exact.members(text, 0):
        if name in _KEY:
            yield SampleValue(start, end, _KEY[str(name)])
