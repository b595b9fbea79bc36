"""Columns of one table's rows (`schemas.columnar.columns`) → Arrow arrays in the exact types of `change_schema`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from ticdc_bridge.schemas.columnar.columns import ColumnValues
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.schemas.model.table import Column

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute


_ARROW = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(column: Column) -> Any:
    """Arrow type of the column's exact Spark type."""
    name, _, arguments = spark_type(column).partition("(")
    if name == "decimal":
        precision, scale = map(int, arguments.rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return _ARROW[name]


def row_type(columns: Sequence[Column]) -> Any:
    return pa.struct([pa.field(c.name, arrow_type(c)) for c in columns])


def _validity(valid: Any) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def array_of_column(typed: ColumnValues) -> Any:
    """A typed column in the column's exact type."""
    return _ARRAYS[typed.form](typed)


def _plain_numbers(typed: ColumnValues) -> Any:
    kind = arrow_type(typed.column)
    if pa.types.is_decimal(kind):  # BIGINT UNSIGNED
        pairs = np.zeros((len(typed.valid), 2), np.uint64)
        pairs[:, 0] = typed.values
        return _decimals(ColumnValues(typed.column, "decimal", pairs, typed.valid))
    narrow = typed.values.astype(kind.to_pandas_dtype())  # a copy: what it is a slice of is much larger
    return pa.Array.from_buffers(kind, len(narrow), [_validity(typed.valid), pa.py_buffer(narrow)])


def _decimals(typed: ColumnValues) -> Any:
    buffers = [_validity(typed.valid), pa.py_buffer(typed.values)]
    return pa.Array.from_buffers(arrow_type(typed.column), len(typed.valid), buffers)


def _texts(typed: ColumnValues) -> Any:
    buffers = [_validity(typed.valid), pa.py_buffer(typed.offsets), pa.py_buffer(typed.values)]
    return pa.Array.from_buffers(arrow_type(typed.column), len(typed.valid), buffers)


def _bits(typed: ColumnValues) -> Any:
    if not typed.column.length:
        pairs = zip(typed.values.tolist(), typed.valid.tolist(), strict=True)
        binaries = [n.to_bytes(max(1, (n.bit_length() + 7) // 8), "big") if v else None for n, v in pairs]
        return pa.array(binaries, pa.binary())
    width, count = values.bit_size(typed.column.length), len(typed.valid)
    data = np.ascontiguousarray(typed.values.astype(">u8").view(np.uint8).reshape(count, 8)[:, 8 - width :])
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return _texts(ColumnValues(typed.column, "bytes", data, typed.valid, offsets))


_ARRAYS: dict[str, Callable[[ColumnValues], Any]] = {
    **dict.fromkeys(("int", "uint", "double", "float"), _plain_numbers),
    "decimal": _decimals,
    "text": _texts,
    "bytes": _texts,
    "bit": _bits,
}
