"""TiCDC Debezium JSON in batches: chunks of one table's rows (`schemas.columnar.json_templates`).

Taken are rows with all columns. Left are DDL and watermarks, rows with a part of their columns, other tables, and what
`DebeziumDecoder` flags: DECIMAL of more than 15 digits, NULL that may be a default, dates that may be zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.columnar import json_templates as cells
from ticdc_bridge.schemas.columnar.columns import is_decimal128
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
from ticdc_bridge.schemas.columnar.kernels.json_scan import ANY, COMMIT, COUNT
from ticdc_bridge.schemas.columnar.rows import MessageBuffers
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium import values as defaults
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumDecoder
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.event import MAX_TSO, Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion
from ticdc_bridge.schemas.model.types import Kind

_BESIDE = frozenset(("ts_ms", "start_ts", "cluster_id"))
_CELLS = {
    Kind.YEAR: cells.YEAR,
    Kind.FLOAT: cells.FLOAT,
    Kind.DOUBLE: cells.DOUBLE,
    Kind.BINARY: cells.BASE64,
    Kind.DATE: cells.DAYS,
    Kind.TIMESTAMP: cells.INSTANTS,
    Kind.TIME: cells.TIMES,
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), cells.TEXT),
}


class DebeziumTableReader(TemplateReader):
    """Compiled per table version. low, high: commit_ts of the rows that have this version, both ends included.

    keyed: rows of which the message's key does not name the handle key's columns, or is not there, are left. whole:
    so are rows with their columns in another `order`, and what `beside` can't tell.
    """

    def __init__(
        self,
        table: Table,
        options: Options,
        low: int = 0,
        high: int = MAX_TSO,
        keyed: bool = False,
        complete: bool = False,
    ) -> None:
        super().__init__(
            _Format(table, options, low, high, LearnedTable(keyed, _BESIDE if complete else None)), low, high
        )


def _cell(column: Column) -> ValueKind | None:
    """How a column is read; None where that can't be known."""
    kind = column.type.kind
    if column.vague:
        return None
    if kind is Kind.INTEGER:
        return cells.integer(column, wraps=True)
    if kind is Kind.DECIMAL:
        return cells.SHORT_DECIMAL if is_decimal128(column) else cells.LONG_DECIMAL
    if kind is Kind.BIT:
        return cells.BIT1 if column.length == 1 else cells.BITS if column.length else None
    if kind is Kind.DATETIME:
        return cells.moments(publish.in_milliseconds(column))
    return _CELLS[kind]


class _Format:
    """TiCDC Debezium JSON, as the batch decoder has to know it."""

    def __init__(self, table: Table, options: Options, low: int, high: int, learned_table: LearnedTable) -> None:
        self.columns = tuple(c for c in table.columns if not c.virtual)
        kinds = [_cell(c) for c in self.columns]
        self.cells = () if None in kinds else tuple(c for c in kinds if c is not None)
        self._table, self._low, self._high = table, low, high
        self._decoder = DebeziumDecoder(
            Context(SingleTable(TableVersion(low, table)), SingleTable(TableVersion(low, table)), options)
        )
        self._slots = {c.name: k for k, c in enumerate(self.columns)}
        self.told = learned_table

    def rows(self, buffers: MessageBuffers) -> Any:
        fine = (buffers.value_first >= 0) & (buffers.value_last - buffers.value_first <= MAX_MESSAGE)
        fine &= buffers.key_last - buffers.key_first <= MAX_MESSAGE
        messages = np.flatnonzero(fine)
        starts = (buffers.key_first, buffers.key_last, buffers.value_first, buffers.value_last)
        return np.stack((messages, *(p[messages] for p in starts)), axis=1)

    def sample(self, key: bytes | None, value: bytes) -> SampleRow | None:
        try:
            row = sound_row(self._decoder.decode(Message(key, value)), self.columns, self._low, self._high)
            if row is None or row.table.id != self._table.id or not self.told.learn(row):
                return None
            text = value.decode()
            images = self._images(json_exact.decode(text).get("schema"))
            key_text = None if key is None else key.decode()
            return SampleRow(
                key_text,
                list(_key(key_text or "")),
                text,
                list(self._value_positions(text)),
                image_bits_of(row),
                images,
            )
        except BROKEN:
            return None

    def _value_positions(self, text: str) -> Iterator[SampleValue]:
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
                    slot = self._slots[str(column)]
                    yield SampleValue(first, last, self.cells[slot].kind, shift + slot)

    def _images(self, schema: Any) -> dict[str, tuple[bytes, ...]]:
        """Contents that stand for NULL or a default alike, by the message's schema and the table's definition."""
        contents: dict[str, tuple[bytes, ...]] = {}
        for column in self.columns:
            if column.nullable and column.has_default_value:
                contents[column.name] = tuple(_contents(defaults.default_images(column)))
        for field in _fields(schema):
            name = field["field"]
            if "default" in field and name in self._slots:
                images = defaults.null_images(self.columns[self._slots[name]], field["default"])
                if field["optional"]:
                    contents[name] = (*contents.get(name, ()), *_contents(images))
        return contents


def _fields(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The fields of both rows in an envelope's schema."""
    for image in schema["fields"] if schema else ():
        if image["field"] in ("before", "after"):
            yield from image["fields"]


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


def _key(text: str) -> Iterator[SampleValue]:
    """The key's values are of no account: the row has them."""
    if text:
        for _, start, end in json_exact.members(text, _payload(text)):
            yield SampleValue(start, end, ANY)
