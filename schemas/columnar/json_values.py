"""How the values of a column are read from JSON into cells: a row of a table for each kind of value.

A `ValueKind` says what stands in the message (`json_scan`) and how the cell is made of it (`json_cells`). A format has
a table of them by kind of column.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.columns import is_decimal128
from ticdc_bridge.schemas.columnar.kernels import json_cells as kernel
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK
from ticdc_bridge.schemas.columnar.kernels.json_scan import BOOLEAN, INTEGER, REAL, STRING
from ticdc_bridge.schemas.columnar.row_chunks import ChunkMemory, name_numbers
from ticdc_bridge.schemas.columnar.rows import freeze
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column


class FillStep(NamedTuple):
    """How a cell is made, and what is of account to it (`json_cells`).

    room: bytes of a value at most, where it can be longer than what stands in the message.
    """

    code: int
    a: int = 0
    b: int = 0
    c: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True)
class ValueKind:
    """kind: of the value in the message. fill: how a column's cells are made."""

    kind: int
    fill: Callable[[Column], FillStep]


def _plain(kind: int, *step: int) -> ValueKind:
    return ValueKind(kind, lambda _: FillStep(*step))


# ---------------------------------------------------------------------------------- numbers
def integer(column: Column, wraps: bool) -> ValueKind:
    """wraps: BIGINT UNSIGNED travels as int64."""
    bits = column.type.bits
    if not column.unsigned:
        return _plain(INTEGER, kernel.SIGNED, *values.integer_limits(bits, False))
    return _plain(INTEGER, kernel.UNSIGNED, values.integer_limits(bits, True)[1], wraps and bits == 64)


def number(code: int, high: int) -> ValueKind:
    """ENUM's index, SET's mask or BIT as a number up to high."""
    return _plain(INTEGER, code, high)


YEAR = _plain(INTEGER, kernel.YEAR, 0, 2155)
FLOAT, DOUBLE = (
    _plain(REAL, code, int.from_bytes(struct.pack(">d", most)))
    for code, most in ((kernel.FLOAT, (2 - 2**-23) * 2.0**127), (kernel.DOUBLE, (2 - 2**-52) * 2.0**1023))
)
LONG_DECIMAL = _plain(REAL, kernel.NOTHING)
BIT1 = _plain(BOOLEAN, kernel.BOOLEAN)


def _short_decimal(column: Column) -> FillStep:
    return FillStep(kernel.SHORT_DECIMAL, column.length or 0, column.scale or 0, room=48)


def _decimal(column: Column) -> FillStep:
    is_checked = is_decimal128(column)
    return FillStep(kernel.DECIMAL, *((column.length or 0, column.scale or 0) if is_checked else (0, 0)))


SHORT_DECIMAL, DECIMAL = ValueKind(REAL, _short_decimal), ValueKind(STRING, _decimal)

# ---------------------------------------------------------------------------------- texts and bytes
TEXT, UNQUOTED, BASE64, BASE64_TEXT, DATE_TEXT, DATETIME_TEXT, TIME_TEXT, INSTANTS = (
    _plain(STRING, code)
    for code in (
        kernel.TEXT, kernel.UNQUOTED, kernel.BASE64, kernel.BASE64_TEXT, kernel.DATE, kernel.DATETIME, kernel.TIME,
        kernel.INSTANTS,
    )
)  # fmt: skip
BITS = ValueKind(STRING, lambda column: FillStep(kernel.BITS, values.bit_size(column.length or 0)))


# ---------------------------------------------------------------------------------- dates and times as numbers
def moments(milliseconds: bool) -> ValueKind:
    """DATETIME as a number since 1970."""

    def fill(column: Column) -> FillStep:
        fsp = 3 if column.scale is None else column.scale
        return FillStep(kernel.MOMENTS, column.nullable, 1000 if milliseconds else 1, fsp, room=26)

    return ValueKind(INTEGER, fill)


DAYS = ValueKind(INTEGER, lambda column: FillStep(kernel.DAYS, column.nullable, room=10))
TIMES = ValueKind(INTEGER, lambda column: FillStep(kernel.TIMES, 6 if column.scale is None else column.scale, room=17))


# ---------------------------------------------------------------------------------- a table
@dataclass(frozen=True)
class RowFiller:
    """How all values of a table's rows are read: new columns, then old ones."""

    columns: tuple[Column, ...]
    kinds: tuple[ValueKind, ...]

    @cached_property
    def slots(self) -> kernel.SlotReaders:
        steps = [kind.fill(column) for column, kind in zip(self.columns, self.kinds, strict=True)] * 2
        # High limits have 64 bits without a sign: they travel as they are.
        a = np.array([step.a & (1 << 64) - 1 for step in steps], np.uint64).view(np.int64)
        parts = ([s.code for s in steps], a, [s.b for s in steps], [s.c for s in steps], [s.room for s in steps])
        return kernel.SlotReaders._make(freeze(np.array(part, np.int64)) for part in parts)

    def reserve(self, memory: ChunkMemory, rows: int, size: int) -> None:
        """Room for the texts of some rows, of which the messages have `size` bytes."""
        memory.reserve(size + rows * int(self.slots.room.sum()) + BLOCK)

    def finish(self, place: Any, length: Any, rows: int, memory: ChunkMemory) -> None:
        """What is left to do where all cells of some rows have been read."""
        for slot, (column, code) in enumerate(zip(self.columns * 2, self.slots.code.tolist(), strict=True)):
            if code == kernel.FLOAT:
                reals = place[slot, :rows].view(np.float64)
                reals[:] = reals.astype(np.float32)  # as the decoders round
            elif code in (kernel.ENUM, kernel.SET):
                name_numbers(column, place[slot, :rows], length[slot, :rows], memory)
