"""Rows in flat arrays (`schemas.columnar.rows`) as change events: for what has no kernel, and for tests."""

import struct
from collections.abc import Callable
from typing import Any

from ticdc_bridge.schemas.columnar.rows import ABSENT, NO_COMMIT_TS, NULL, CellForm, Rows, RowShape, form_of
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import Kind

_BITS, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_MASK = (1 << 64) - 1


def events_of(rows: Rows, format_: str) -> list[RowChange]:
    """The rows as a decoder of the format gives them, in their order; `extra` is empty."""
    readers = [tuple((column.name, _reader(column)) for column in shape.columns) for shape in rows.shapes]
    position, length, data = rows.start, rows.length, rows.data
    found = []
    pieces = (rows.shape, rows.commit_ts, rows.op, rows.after, rows.before, rows.step)
    for number, (at, commit_ts, op, after, before, step) in enumerate(zip(*(p.tolist() for p in pieces), strict=True)):
        shape = rows.shapes[at]
        new, old = (
            None if first < 0 else _row(readers[at], position[first::step], length[first::step], data)
            for first in (after, before)
        )
        flags = [name for name, which in rows.flags.items() if which[number]]
        found.append(_event(format_, shape, chr(op), None if commit_ts == NO_COMMIT_TS else commit_ts, old, new, flags))
    return found


def _event(
    format_: str, shape: RowShape, op: Any, commit_ts: int | None, before: Any, after: Any, flags: list[str]
) -> RowChange:
    return RowChange(
        format_, shape.table, op, commit_ts, before, after, shape.key, shape.zone, shape.schema_id,
        shape.table_version, flags, key_only=shape.key_only,
    )  # fmt: skip


_Reader = Callable[[int, int, Any], Value]


def _row(readers: tuple[tuple[str, _Reader], ...], position: Any, length: Any, data: Any) -> dict[str, Value]:
    row: dict[str, Value] = {}
    for n, (name, read) in enumerate(readers):
        size = int(length[n])
        if size != ABSENT:
            row[name] = None if size == NULL else read(int(position[n]), size, data)
    return row


def _reader(column: Column) -> _Reader:
    """(place, length, data) → plain value."""
    if column.type.kind is Kind.BIT:
        return lambda position, _length, _data: bits_of(column, position & _MASK)
    return _READERS[form_of(column)]


def bits_of(column: Column, number: int) -> bytes:
    """A BIT's number → its plain value; as many bytes as it takes where the column's length is not known."""
    size = values.bit_size(column.length) if column.length else max(1, values.bit_size(number.bit_length()))
    return number.to_bytes(size, "big")


def _number(pos: int) -> float:
    return float(_DOUBLE.unpack(_BITS.pack(pos))[0])


def _span(pos: int, length: int, data: Any) -> bytes:
    return bytes(data[pos : pos + length])


_READERS: dict[CellForm, _Reader] = {
    CellForm.INT: lambda position, _length, _data: str(position),
    CellForm.UINT: lambda position, _length, _data: str(position & _MASK),
    CellForm.DOUBLE: lambda position, _length, _data: values.double_text(_number(position)),
    CellForm.FLOAT: lambda position, _length, _data: values.float_text(_number(position)),
    CellForm.TEXT: lambda position, length, data: _span(position, length, data).decode(),
    CellForm.BYTES: _span,
}
