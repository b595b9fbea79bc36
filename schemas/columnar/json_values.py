"""How the values of a column are read from JSON into typed buffers: a row of a table for each kind of value.

A `ValueKind` says what stands in the message (`json_scan`) and how the typed column is made of it (`json_all`). A
format has a table of them by kind of column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from schemas.columnar.kernels import json_all as kernel
from schemas.columnar.kernels import json_text
from schemas.columnar.kernels.json_scan import BOOLEAN, INTEGER, REAL, STRING
from schemas.columnar.rows import freeze
from schemas.columnar.typed_rows import TypedColumn
from schemas.model import values
from schemas.model.table import Column

_SHAPES = (b"0000-00-00 00:00:00", b"0000-00-00T00:00:00")
_LARGE32, _LARGE64 = 37, 250  # 10^n: reals beyond are left to Python, which knows how they round


class FillStep(NamedTuple):
    """A filler of `json_all`, and what it has to know.

    room: bytes of a value at most, where it can be longer than what stands in the message.
    """

    code: int
    a: int = 0
    b: int = 0
    c: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True)
class ValueKind:
    """kind: of the value in the message. form: of the typed column (`TypedColumn`). fill: how a column is read."""

    kind: int
    form: str
    fill: Callable[[Column], FillStep]


# ---------------------------------------------------------------------------------- integers
def _signed_step(column: Column) -> FillStep:
    top = 1 << column.type.bits - 1
    return FillStep(kernel.SIGNED, -top, top - 1)


def _unsigned_step(high: int, wraps: bool = False) -> Callable[[Column], FillStep]:
    return lambda _: FillStep(kernel.UNSIGNED, high, wraps)


def integer(column: Column, wraps: bool) -> ValueKind:
    """wraps: BIGINT UNSIGNED travels as int64."""
    if not column.unsigned:
        return ValueKind(INTEGER, "int", _signed_step)
    return ValueKind(INTEGER, "uint", _unsigned_step((1 << column.type.bits) - 1, wraps and column.type.bits == 64))


YEAR = ValueKind(INTEGER, "int", lambda _: FillStep(kernel.YEAR, 0, 2155))


def number(form: str, high: int) -> ValueKind:
    """ENUM's index, SET's mask or BIT as a number up to high."""
    return ValueKind(INTEGER, form, _unsigned_step(high))


# ---------------------------------------------------------------------------------- reals and decimals
FLOAT = ValueKind(REAL, "real32", lambda _: FillStep(kernel.REALS, _LARGE32))
DOUBLE = ValueKind(REAL, "real", lambda _: FillStep(kernel.REALS, _LARGE64))


def _decimal(code: int) -> Callable[[Column], FillStep]:
    def fill(column: Column) -> FillStep:
        assert column.length is not None
        assert column.scale is not None
        return FillStep(code, column.length, column.scale)

    return fill


SHORT_DECIMAL = ValueKind(REAL, "decimal", _decimal(kernel.SHORT_DECIMALS))
LONG_DECIMAL = ValueKind(REAL, "text", lambda _: FillStep(kernel.NOTHING))
TEXT_DECIMAL = ValueKind(STRING, "decimal", _decimal(kernel.TEXT_DECIMALS))

# ---------------------------------------------------------------------------------- texts and bytes
TEXT = ValueKind(STRING, "text", lambda _: FillStep(kernel.TEXT))
UNQUOTED = ValueKind(STRING, "bytes", lambda _: FillStep(kernel.UNQUOTED))
BASE64 = ValueKind(STRING, "bytes", lambda _: FillStep(kernel.BASE64, False))
BASE64_TEXT = ValueKind(STRING, "text", lambda _: FillStep(kernel.BASE64, True))
BITS = ValueKind(STRING, "bit", lambda column: FillStep(kernel.BITS, values.bit_size(column.length or 0)))
BIT1 = ValueKind(BOOLEAN, "bit", lambda _: FillStep(kernel.BOOLEANS))


# ---------------------------------------------------------------------------------- dates and times
def _shaped_step(name: str) -> Callable[[Column], FillStep]:
    return lambda _: FillStep(kernel.SHAPED, getattr(json_text, name))


DATE_TEXT, DATETIME_TEXT, TIME_TEXT, DECIMAL_TEXT = (
    ValueKind(STRING, "text", _shaped_step(name)) for name in ("DATE", "DATETIME", "TIME", "DECIMAL")
)


def moments(milliseconds: bool) -> ValueKind:
    """DATETIME as a number since 1970."""

    def fill(column: Column) -> FillStep:
        fsp = 3 if column.scale is None else column.scale
        return FillStep(kernel.MOMENTS, 1000 if milliseconds else 1, fsp, column.nullable, room=26)

    return ValueKind(INTEGER, "text", fill)


DAYS = ValueKind(INTEGER, "text", lambda column: FillStep(kernel.DAYS, column.nullable, room=10))
TIMES = ValueKind(
    INTEGER, "text", lambda column: FillStep(kernel.TIMES, 6 if column.scale is None else column.scale, room=17)
)
INSTANTS = ValueKind(STRING, "text", lambda _: FillStep(kernel.INSTANTS))


# ---------------------------------------------------------------------------------- a table
@dataclass(frozen=True)
class RowFiller:
    """Reads all values of a table's rows: new columns, then old ones."""

    columns: tuple[Column, ...]
    cells: tuple[ValueKind, ...]
    _sizes: list[int] = field(default_factory=lambda: [0, 0, 0])

    @cached_property
    def _slots(self) -> kernel.SlotReaders:
        import numpy as np

        fills = [cell.fill(column) for column, cell in zip(self.columns, self.cells, strict=True)] * 2
        places = []
        for fill in fills:
            sort = (fill.code >= kernel.FIRST_DECIMAL) + (fill.code >= kernel.FIRST_TEXT)
            places.append(self._sizes[sort])
            self._sizes[sort] += 1
        # High limits have 64 bits without a sign: they travel as they are.
        a = np.array([fill.a & (1 << 64) - 1 for fill in fills], np.uint64).view(np.int64)
        rows = ([f.code for f in fills], a, [f.b for f in fills], [f.c for f in fills], places, [f.room for f in fills])
        shapes = np.frombuffer(b"".join(_SHAPES), np.uint8).reshape(len(_SHAPES), -1)
        return kernel.SlotReaders._make((*(freeze(np.array(row, np.int64)) for row in rows), freeze(shapes)))

    def fill(
        self, data: Any, places: Any, lengths: Any, rows: int, bad: Any
    ) -> tuple[Sequence[TypedColumn], Sequence[TypedColumn]]:
        """(new columns, old columns); rows that are wrong are marked in `bad`."""
        import numpy as np

        slots = self._slots
        words, decimals, texts = self._sizes
        starts = np.zeros(texts + 1, np.int64)
        kernel.text_starts(lengths, rows, slots, starts)
        signed = np.empty((words, rows), np.int64)
        out = kernel.ValueBuffers(
            signed, signed.view(np.uint64), np.empty((decimals, rows, 2), np.uint64),
            np.empty(int(starts[-1]), np.uint8), starts, np.empty((texts, rows + 1), np.int32),
            np.zeros(texts, np.int64),
        )  # fmt: skip
        kernel.fill(data, places, lengths, rows, slots, out, bad)
        valid = lengths[:, :rows] >= 0
        typed_columns = []
        for slot, (column, cell) in enumerate(zip(self.columns * 2, self.cells * 2, strict=True)):
            code, place = int(slots.code[slot]), int(slots.place[slot])
            offsets = None
            if code >= kernel.FIRST_TEXT:
                offsets = out.offsets[place]
                array = out.texts[starts[place] : starts[place] + offsets[-1]]
            elif code >= kernel.FIRST_DECIMAL:
                array = out.decimals[place]
            else:
                array = (out.signed if cell.form == "int" else out.unsigned)[place]
            typed_columns.append(TypedColumn(column, cell.form, array, valid[slot], offsets))
        return typed_columns[: len(self.columns)], typed_columns[len(self.columns) :]
