"""TiCDC Debezium JSON in batches: chunks of one table's rows (`schemas.columnar.json_templates`).

Taken are rows with all columns. Left are DDL and watermarks, rows with a part of their columns, other tables, and what
`DebeziumDecoder` flags: DECIMAL of more than 15 digits, NULL that may be a default, dates that may be zero.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.columnar import json_templates as kinds
from ticdc_bridge.schemas.columnar.columns import decimal_size, is_decimal128
from ticdc_bridge.schemas.columnar.json_templates import SampleValue, TemplateReader, ValueKind
from ticdc_bridge.schemas.columnar.kernels import json_cells as kernel
from ticdc_bridge.schemas.columnar.kernels.json_scan import ANY, BOOLEAN, COMMIT, COUNT, INTEGER, REAL, STRING
from ticdc_bridge.schemas.columnar.rows import MessageBuffers
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium import values as defaults
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumDecoder
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import bit_size

_BESIDE = frozenset(("ts_ms", "start_ts", "cluster_id"))
_KINDS = {
    Kind.YEAR: kinds.YEAR,
    Kind.FLOAT: kinds.FLOAT,
    Kind.DOUBLE: kinds.DOUBLE,
    Kind.BINARY: kinds.BASE64,
    Kind.TIMESTAMP: ValueKind(STRING, kernel.INSTANTS),
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), kinds.TEXT),
}


def _kind(column: Column) -> ValueKind | None:
    """How a column is read; None where that can't be known."""
    kind = column.type.kind
    if column.vague:
        return None
    if kind is Kind.INTEGER:
        return kinds.integer(column, wraps=True)
    if kind is Kind.DECIMAL:
        if not is_decimal128(column):
            return ValueKind(REAL, kernel.NOTHING)
        return ValueKind(REAL, kernel.SHORT_DECIMAL, *decimal_size(column), room=48)
    if kind is Kind.BIT:
        if column.length == 1:
            return ValueKind(BOOLEAN, kernel.BOOLEAN)
        return ValueKind(STRING, kernel.BITS, bit_size(column.length)) if column.length else None
    if kind is Kind.DATE:
        return ValueKind(INTEGER, kernel.DAYS, column.nullable, room=10)
    if kind is Kind.DATETIME:
        unit, fsp = 1000 if publish.in_milliseconds(column) else 1, 3 if column.scale is None else column.scale
        return ValueKind(INTEGER, kernel.MOMENTS, column.nullable, unit, fsp, room=26)
    if kind is Kind.TIME:
        return ValueKind(INTEGER, kernel.TIMES, 6 if column.scale is None else column.scale, room=17)
    return _KINDS[kind]


class DebeziumTableReader(TemplateReader):
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included.

    Rows of which the message's key does not name the handle key's columns, or is not there, are left. complete: so are
    rows with their columns in another `order`, and what `plain_lines.EXTRA_FIELDS` can't tell.
    """

    def __init__(self, table: Table, options: Options, low: int, high: int, complete: bool) -> None:
        super().__init__(table, options, _kind, DebeziumDecoder, low, high, _BESIDE if complete else None)

    def message_rows(self, buffers: MessageBuffers) -> Any:
        fine = (buffers.value_first >= 0) & (buffers.value_last - buffers.value_first <= MAX_MESSAGE)
        fine &= buffers.key_last - buffers.key_first <= MAX_MESSAGE
        messages = np.flatnonzero(fine)
        starts = (buffers.key_first, buffers.key_last, buffers.value_first, buffers.value_last)
        return np.stack((messages, *(p[messages] for p in starts)), axis=1)

    def message_of(self, key: bytes | None, value: bytes) -> Message:
        return Message(key, value)

    def is_of_table(self, row: RowChange) -> bool:
        return row.key == row.table.handle_key and super().is_of_table(row)

    def key_values(self, text: str) -> Iterator[SampleValue]:
        """The key's values are of no account: the row has them."""
        if text:
            for _, start, end in json_exact.members(text, _payload(text)):
                yield SampleValue(start, end, ANY)

    def row_values(self, text: str) -> Iterator[SampleValue]:
        for name, start, end in json_exact.members(text, _payload(text)):
            if name == "ts_ms":
                yield SampleValue(start, end, COUNT)
            elif name == "source":
                for inner, first, last in json_exact.members(text, start):
                    if inner in ("ts_ms", "start_ts", "commit_ts"):
                        yield SampleValue(first, last, COMMIT if inner == "commit_ts" else COUNT)
            elif name in ("before", "after"):
                shift = len(self.columns) if name == "before" else 0
                for column, first, last in json_exact.members(text, start):
                    slot = self.column_slots[str(column)]
                    yield SampleValue(first, last, self.kinds[slot].kind, shift + slot)

    def doubtful_contents(self, text: str) -> Mapping[str, tuple[bytes, ...]]:
        """By the message's schema and the table's definition."""
        with_default = (c for c in self.columns if c.nullable and c.has_default_value)
        contents = {c.name: tuple(_contents(defaults.default_images(c))) for c in with_default}
        schema = json_exact.decode(text).get("schema")
        images = (image for image in schema["fields"] if image["field"] in ("before", "after")) if schema else ()
        for field in (field for image in images for field in image["fields"]):
            name = field["field"]
            if "default" in field and name in self.column_slots and field["optional"]:
                images_of_null = defaults.null_images(self.columns[self.column_slots[name]], field["default"])
                contents[name] = (*contents.get(name, ()), *_contents(images_of_null))
        return contents


def _contents(images: tuple[Any, ...]) -> Iterator[bytes]:
    """JSON values → what stands in a message for them, between the quotes of a string."""
    for image in images:
        if isinstance(image, bool):
            yield b"true" if image else b"false"
        elif isinstance(image, str):
            yield image.encode("utf-8", "surrogateescape")


def _payload(text: str) -> int:
    """Where the payload begins: at the first character where the message has no wrapper."""
    return next((start for name, start, _ in json_exact.members(text, 0) if name == "payload"), 0)
