"""Open Protocol messages in batches: chunks of one table's rows (`schemas.columnar.json_templates`).

Taken are messages that hold nothing but rows of this table with all columns. Left are DDL and resolved events, other
tables, compressed values, updates with some old values only, and what `OpenDecoder` flags.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.columnar import json_templates as kinds
from ticdc_bridge.schemas.columnar.columns import decimal_size, is_decimal128
from ticdc_bridge.schemas.columnar.json_templates import SampleValue, TemplateReader, ValueKind
from ticdc_bridge.schemas.columnar.kernels import json_cells as kernel
from ticdc_bridge.schemas.columnar.kernels.json_scan import COMMIT, COUNT, INTEGER, PARTITION, STRING, frames
from ticdc_bridge.schemas.columnar.rows import MessageBuffers
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.open_protocol.decoder import OpenDecoder
from ticdc_bridge.schemas.formats.open_protocol.values import is_base64
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, ELEMENTS, Kind

_IMAGES = {"u": 0, "p": 1, "d": 1}
_KEY = {"ts": COMMIT, "ptn": PARTITION, "rid": COUNT}
_KINDS = {
    Kind.YEAR: kinds.YEAR, Kind.FLOAT: kinds.FLOAT, Kind.DOUBLE: kinds.DOUBLE,
    Kind.DATE: ValueKind(STRING, kernel.DATE), Kind.DATETIME: ValueKind(STRING, kernel.DATETIME),
    Kind.TIMESTAMP: ValueKind(STRING, kernel.DATETIME), Kind.TIME: ValueKind(STRING, kernel.TIME),
    Kind.JSON: kinds.TEXT, Kind.VECTOR: kinds.TEXT,
}  # fmt: skip


def _kind(column: Column, varchar_base64: bool) -> ValueKind | None:
    """How a column is read; None where that can't be known."""
    kind = column.type.kind
    if column.vague:
        return None
    if kind is Kind.INTEGER:
        return kinds.integer(column, wraps=False)
    if kind is Kind.DECIMAL:
        return ValueKind(STRING, kernel.DECIMAL, *(decimal_size(column) if is_decimal128(column) else (0, 0)))
    if kind in ELEMENTS:
        if not column.elements:
            return None
        size = len(column.elements)
        code, most = (kernel.ENUM, size) if kind is Kind.ENUM else (kernel.SET, (1 << size) - 1)
        return ValueKind(INTEGER, code, most)
    if kind is Kind.BIT:
        return ValueKind(INTEGER, kernel.UNSIGNED, (1 << (column.length or 64)) - 1)
    if kind is Kind.TEXT:
        return ValueKind(STRING, kernel.BASE64_TEXT) if is_base64(column, varchar_base64) else kinds.TEXT
    if kind is Kind.BINARY:
        return kinds.BASE64 if is_base64(column, varchar_base64) else ValueKind(STRING, kernel.UNQUOTED)
    return _KINDS[kind]


class OpenTableReader(TemplateReader):
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included.

    complete: rows with their columns in another `order`, or that say more of them than the table does, are left.
    """

    def __init__(self, table: Table, options: Options, low: int, high: int, complete: bool) -> None:
        kind = partial(_kind, varchar_base64=options.open_varchar_base64)
        super().__init__(table, options, kind, OpenDecoder, low, high, frozenset() if complete else None)

    def message_rows(self, buffers: MessageBuffers) -> Any:
        # What is too large or not there has an empty value or key here: no frame, so it is left.
        fine = (buffers.key_first >= 0) & (buffers.value_first >= 0)
        fine &= buffers.key_last - buffers.key_first <= MAX_MESSAGE
        fine &= buffers.value_last - buffers.value_first <= MAX_MESSAGE
        keys = (buffers.keys, np.where(fine, buffers.key_first, -1), buffers.key_last)
        values = (buffers.values, buffers.value_first, buffers.value_last)
        out = np.empty((frames(*keys, *values, np.empty((0, 5), np.int64)), 5), np.int64)
        frames(*keys, *values, out)
        return out

    def message_of(self, key: bytes | None, value: bytes) -> Message:
        assert key is not None  # a frame has one
        return Message(frame.join_key([key]), frame.join_value([value]))

    def is_of_table(self, row: RowChange) -> bool:
        # A type code that says only that the value is NULL: the next row may have a value there.
        says_null = any(traits[0] in ALWAYS_NULL for traits in row.extra.get("columns", {}).values())
        return not says_null and super().is_of_table(row)

    def key_values(self, text: str) -> Iterator[SampleValue]:
        for name, start, end in json_exact.members(text, 0):
            if name in _KEY:
                yield SampleValue(start, end, _KEY[str(name)])

    def row_values(self, text: str) -> Iterator[SampleValue]:
        for image, start, _ in json_exact.members(text, 0):
            for name, first, _ in json_exact.members(text, start):
                slot = self.column_slots[str(name)]
                kind, shift = self.kinds[slot].kind, len(self.columns) * _IMAGES[str(image)]
                for inner, at, end in json_exact.members(text, first):
                    if inner == "v":
                        yield SampleValue(at, end, kind, shift + slot)
