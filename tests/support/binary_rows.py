"""Spark's binary rows, read back: each byte is where Spark's UnsafeRowWriter puts it."""

import struct
from decimal import Decimal
from typing import Any

import pyarrow

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema
from ticdc_bridge.spark_jobs.arrow.changes import BINARY
from ticdc_bridge.spark_jobs.arrow.table_columns import row_type

pa: Any = pyarrow

_NUMBERS = {pa.int16(): "<h", pa.int32(): "<i", pa.int64(): "<q", pa.float32(): "<f", pa.float64(): "<d"}
_COMPACT = 18


def binary_schema(table: Table) -> Any:
    """The schema of a table's change events, with columns for sides in bytes."""
    schema = change_schema(row_type([c for c in table.columns if not c.virtual]))
    for name in BINARY.values():
        schema = schema.append(pa.field(name, pa.binary()))
    return schema


def unpack_sides(row: dict[str, Any], schema: Any) -> None:
    """A change event: its sides that stand in bytes become values."""
    for image, name in BINARY.items():
        data = row.pop(name)
        if data is not None:
            assert row[image] is None
            row[image] = read_binary_row(data, schema.field(image).type)


def read_binary_row(data: bytes, kind: Any) -> dict[str, Any]:
    """Bytes → the values of a struct's type. AssertionError where a byte is not as Spark has it."""
    fields = list(kind)
    first = (len(fields) + 63) // 64 * 8
    nulls = int.from_bytes(data[:first], "little")
    assert nulls >> len(fields) == 0
    tail = first + 8 * len(fields)
    row: dict[str, Any] = {}
    for n, field in enumerate(fields):
        word, of = data[first + 8 * n : first + 8 * n + 8], field.type
        is_null, is_decimal = bool(nulls >> n & 1), pa.types.is_decimal(of)
        is_wide = is_decimal and of.precision > _COMPACT
        size, position = struct.unpack("<ii", word)
        if is_wide or (not is_null and of in (pa.string(), pa.binary())):
            room = 16 if is_wide else (size + 7) // 8 * 8
            assert position == tail, field
            assert not any(data[position + size : position + room]), field
            tail += room
        if is_null:
            assert size == 0, field
            assert is_wide or position == 0, field
            row[field.name] = None
        elif is_wide:
            number = int.from_bytes(data[position : position + size], "big", signed=True)
            assert size == (number if number >= 0 else ~number).bit_length() // 8 + 1, field
            row[field.name] = Decimal(number).scaleb(-of.scale)
        elif is_decimal:
            row[field.name] = Decimal(struct.unpack("<q", word)[0]).scaleb(-of.scale)
        elif of in _NUMBERS:
            (row[field.name],) = struct.unpack_from(_NUMBERS[of], word)
            assert not any(word[of.bit_width // 8 :]), field
        else:
            content = data[position : position + size]
            row[field.name] = content.decode() if of == pa.string() else content
    assert tail == len(data)
    return row
