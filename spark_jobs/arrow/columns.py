"""Craft messages ↔ Arrow batches of one table's rows, by compiled kernels: columns, and the encoder.

A batch has `message` (index of the message in its input), `op`, `commit_ts`, `partition` (physical table id, -1 for
none), `key_only`, and `before` and `after`: structs of the table's columns in the exact types of
`spark_jobs.arrow.change_schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.columnar.craft_writer import CraftWriter
from schemas.columnar.rows import freeze
from schemas.columnar.typed_rows import TypedColumn, TypedRows
from schemas.formats.craft.columns import set_mask
from schemas.model import values
from schemas.model.errors import WireError
from schemas.model.event import Op
from schemas.model.options import Options
from schemas.model.spark_types import spark_type
from schemas.model.table import Column, Table
from schemas.model.types import Kind

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
# By side: 1 new only, 2 old only, 3 both, 5 new only of an update (Craft can't tell it from an insert).
OPS: tuple[Op, ...] = ("r", "c", "d", "u", "u", "u")


def arrow_type(column: Column) -> Any:
    """Arrow type of the column's exact Spark type."""
    name, _, arguments = spark_type(column).partition("(")
    if name == "decimal":
        precision, scale = map(int, arguments.rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return _ARROW[name]


def row_type(columns: Sequence[Column]) -> Any:
    return pa.struct([pa.field(c.name, arrow_type(c)) for c in columns])


def bytes_of(array: Any) -> tuple[Any, Any]:
    """The bytes of a binary or string array and its offsets, from 0 on; what a null has there is of no account."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int32)
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole[places[0] : places[-1]], places - places[0]


def _validity(valid: Any) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def array_of_typed(typed: TypedColumn) -> Any:
    """A typed column in the column's exact type."""
    return _ARRAYS[typed.form](typed)


def _plain_numbers(typed: TypedColumn) -> Any:
    kind = arrow_type(typed.column)
    if pa.types.is_decimal(kind):  # BIGINT UNSIGNED
        pairs = np.zeros((len(typed.valid), 2), np.uint64)
        pairs[:, 0] = typed.values
        return _decimals(TypedColumn(typed.column, "decimal", pairs, typed.valid))
    narrow = typed.values.astype(kind.to_pandas_dtype())  # a copy: what it is a slice of is much larger
    return pa.Array.from_buffers(kind, len(narrow), [_validity(typed.valid), pa.py_buffer(narrow)])


def _decimals(typed: TypedColumn) -> Any:
    buffers = [_validity(typed.valid), pa.py_buffer(typed.values)]
    return pa.Array.from_buffers(arrow_type(typed.column), len(typed.valid), buffers)


def _texts(typed: TypedColumn) -> Any:
    buffers = [_validity(typed.valid), pa.py_buffer(typed.offsets), pa.py_buffer(typed.values)]
    return pa.Array.from_buffers(arrow_type(typed.column), len(typed.valid), buffers)


def _bits(typed: TypedColumn) -> Any:
    if not typed.column.length:
        pairs = zip(typed.values.tolist(), typed.valid.tolist(), strict=True)
        binaries = [n.to_bytes(max(1, (n.bit_length() + 7) // 8), "big") if v else None for n, v in pairs]
        return pa.array(binaries, pa.binary())
    width, count = values.bit_size(typed.column.length), len(typed.valid)
    data = np.ascontiguousarray(typed.values.astype(">u8").view(np.uint8).reshape(count, 8)[:, 8 - width :])
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return _texts(TypedColumn(typed.column, "bytes", data, typed.valid, offsets))


_ARRAYS: dict[str, Callable[[TypedColumn], Any]] = {
    **dict.fromkeys(("int", "uint", "double", "float"), _plain_numbers),
    "decimal": _decimals,
    "text": _texts,
    "bytes": _texts,
    "bit": _bits,
}


# ---------------------------------------------------------------------------------------------- writing
class ArrowEncoder:
    """Batches of a table's rows → messages. zone: of the TIMESTAMP text in the batches."""

    def __init__(self, table: Table, options: Options, zone: str | None = None) -> None:
        self._typed = CraftWriter(table, options)
        self.columns = self._typed.columns
        self._zones = (zone or options.time_zone, options.time_zone)

    @property
    def is_compiled(self) -> bool:
        return self._typed.is_compiled

    def encode(self, batch: Any) -> tuple[Any, Any]:
        """A batch → (binary array of messages, rows of each). WireError INVALID_VALUE with column and row."""
        data, ends, counts = self._typed.encode(self.rows(batch))
        offsets = np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32)))
        messages = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        return messages, counts

    def rows(self, batch: Any) -> TypedRows:
        """A batch → typed columns."""
        sides = {}
        for name in ("after", "before"):
            struct = batch.column(name)
            there = np.asarray(struct.is_valid())
            places = {field.name: k for k, field in enumerate(struct.type)}  # by name Arrow would read a path
            for column in self.columns:
                if column.name not in places:
                    raise WireError("INVALID_VALUE", column=column.name, details=f"{name} does not carry it")
            sides[name] = (
                tuple(self._typed_column(c, pc.struct_field(struct, places[c.name])) for c in self.columns),
                there,
            )
        (after, new), (before, old) = sides["after"], sides["before"]
        side = new * 1 + old * 2
        deletes = np.asarray(pc.equal(batch.column("op"), "d"))
        if (np.where(deletes, side & 2, side & 1) == 0).any():
            raise WireError("INVALID_VALUE", column="op", details="an op without its row")
        side = np.where(deletes, 2, np.where(np.asarray(pc.equal(batch.column("op"), "u")), side, 1)).astype(np.int64)
        commit_ts, partition = (np.asarray(batch.column(n)).astype(np.int64) for n in ("commit_ts", "partition"))
        if len(commit_ts) and int(commit_ts.min()) < 0:
            raise WireError("INVALID_VALUE", column="commit_ts", details="it is negative: no TSO")
        return TypedRows(None, commit_ts, partition, side, np.asarray(batch.column("key_only")), after, before)

    def _typed_column(self, column: Column, array: Any) -> TypedColumn:
        kind = column.type.kind
        valid = np.asarray(array.is_valid())
        if kind is Kind.TIMESTAMP and self._zones[0] != self._zones[1]:
            array = _map_texts(array, lambda text: _shift_zone(column, text, *self._zones))
        read = _READ.get(kind, _read_text)
        return read(column, array, valid)


def _map_texts(array: Any, change: Callable[[str], Any], kind: Any = None) -> Any:
    """Each different text is changed once."""
    coded = array.dictionary_encode()
    changed = pa.array([change(text) for text in coded.dictionary.to_pylist()], kind or pa.string())
    return changed.take(coded.indices)


def _shift_zone(column: Column, text: str, source: str, target: str) -> str:
    try:
        return values.shift_zone(text, source, target)[0]
    except ValueError as error:
        raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error


def _pairs(array: Any) -> Any:
    """128-bit decimals as pairs of uint64."""
    data = np.frombuffer(array.buffers()[1], np.uint64)
    return data.reshape(-1, 2)[array.offset : array.offset + len(array)]


def _values_of(array: Any) -> Any:
    """The numbers of an array; what a null has there is of no account."""
    data = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())
    return data[array.offset : array.offset + len(array)]


def _read_integer(column: Column, array: Any, valid: Any) -> TypedColumn:
    if pa.types.is_decimal(array.type):
        pairs = _pairs(array)
        if (pairs[valid, 1] != 0).any():
            raise WireError("INVALID_VALUE", column=column.name, details="a number outside 0 to 2^64-1")
        return TypedColumn(column, "uint", np.ascontiguousarray(pairs[:, 0]), valid)
    numbers = _values_of(array).astype(np.int64)
    if not column.unsigned:
        return TypedColumn(column, "int", numbers, valid)
    return TypedColumn(column, "uint", numbers.view(np.uint64), valid)  # a negative number is over every limit


def _read_real(column: Column, array: Any, valid: Any) -> TypedColumn:
    return TypedColumn(column, "double", _values_of(array).astype(np.float64), valid)


def _read_decimal(column: Column, array: Any, valid: Any) -> TypedColumn:
    if pa.types.is_decimal(array.type):
        return TypedColumn(column, "decimal", np.ascontiguousarray(_pairs(array)), valid)
    return _read_text(column, array, valid)


def _read_text(column: Column, array: Any, valid: Any) -> TypedColumn:
    data, offsets = bytes_of(array)
    return TypedColumn(column, "text", data, valid, offsets)


def _read_bits(column: Column, array: Any, valid: Any) -> TypedColumn:
    from schemas.columnar.kernels import craft_content

    data, offsets = bytes_of(array)
    out, bad = np.zeros(len(valid), np.uint64), np.zeros(len(valid), np.uint8)
    craft_content.bits_of(freeze(data), freeze(offsets), out, bad)
    if bad.any():
        raise WireError("INVALID_VALUE", column=column.name, details="more than 64 bits")
    return TypedColumn(column, "bit", out, valid)


def _read_enum(column: Column, array: Any, valid: Any) -> TypedColumn:
    index = pc.index_in(array, value_set=pa.array(column.elements, pa.string()))
    unknown = np.asarray(index.is_null()) & valid
    if unknown.any():
        strange = next(text for text in array.filter(pa.array(unknown)).to_pylist())
        if any(array.filter(pa.array(unknown)).to_pylist()):
            details = f"{strange[:80]!r} is no element of the ENUM"
            raise WireError("INVALID_VALUE", column=column.name, details=details)
    numbers = np.asarray(index.fill_null(-1)).astype(np.int64) + 1
    return TypedColumn(column, "enum", numbers.view(np.uint64), valid)


def _read_set(column: Column, array: Any, valid: Any) -> TypedColumn:
    try:
        masks = _map_texts(array, lambda text: set_mask(column.elements, text), pa.uint64())
    except ValueError as error:
        raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error
    return TypedColumn(column, "set", np.asarray(masks.fill_null(0)).astype(np.uint64), valid)


_READ: dict[Kind, Callable[[Column, Any, Any], TypedColumn]] = {
    Kind.INTEGER: _read_integer,
    Kind.YEAR: _read_integer,
    Kind.FLOAT: _read_real,
    Kind.DOUBLE: _read_real,
    Kind.DECIMAL: _read_decimal,
    Kind.BIT: _read_bits,
    Kind.ENUM: _read_enum,
    Kind.SET: _read_set,
}
