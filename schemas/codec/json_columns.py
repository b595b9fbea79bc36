"""How the values of a column are read from JSON into typed buffers: a row of a table for each kind of value.

A `Cell` says what stands in the message (`kernel_json`) and which filler makes the typed column. A format has a table
of them by kind of column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas import values
from schemas.codec.kernel_json import BOOLEAN, INTEGER, REAL, STRING
from schemas.codec.typed import TypedColumn
from schemas.table import Column

_SHAPE = b"0000-00-00 00:00:00"
_LARGE32, _LARGE64 = 37, 250  # 10^n: reals beyond are left to Python, which knows how they round


class Span(NamedTuple):
    """Values of one column: places and lengths by row in `data`; rows that are wrong are marked in `bad`."""

    data: Any
    places: Any
    lengths: Any
    rows: int
    bad: Any


Fill = Callable[[Column, Span], Any]
"""A column's values → its buffer, or (buffer, offsets)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """kind: of the value in the message. form: of the typed column (`TypedColumn`)."""

    kind: int
    form: str
    fill: Fill


def typed(column: Column, cell: Cell, span: Span) -> TypedColumn:
    made = cell.fill(column, span)
    made, offsets = made if isinstance(made, tuple) else (made, None)
    return TypedColumn(column, cell.form, made, span.lengths[: span.rows] >= 0, offsets)


# ---------------------------------------------------------------------------------- integers
def _signed(column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_fill as kernel

    top = 1 << column.type.bits - 1
    return _into("int64", kernel.fill_signed, span, -top, top - 1)


def _year(_column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_fill as kernel

    out = _into("int64", kernel.fill_signed, span, 0, 2155)
    span.bad[(out > 0) & (out < 1901)] = 1
    return out


def _unsigned(high: int, span: Span, wraps: bool = False) -> Any:
    import numpy as np

    from schemas.codec import kernel_json_fill as kernel

    return _into("uint64", kernel.fill_unsigned, span, np.uint64(high), wraps)


def _into(kind: str, kernel: Any, span: Span, *limits: Any) -> Any:
    import numpy as np

    out = np.empty(span.rows, kind)
    kernel(span.data, span.places, span.lengths, span.rows, *limits, out, span.bad)
    return out


def integer(column: Column, wraps: bool) -> Cell:
    """wraps: BIGINT UNSIGNED travels as int64."""
    if not column.unsigned:
        return Cell(INTEGER, "int", _signed)
    high, wraps = (1 << column.type.bits) - 1, wraps and column.type.bits == 64
    return Cell(INTEGER, "uint", lambda _, span: _unsigned(high, span, wraps))


YEAR = Cell(INTEGER, "int", _year)


def number(form: str, high: int) -> Cell:
    """ENUM's index, SET's mask or BIT as a number up to high."""
    return Cell(INTEGER, form, lambda _, span: _unsigned(high, span))


# ---------------------------------------------------------------------------------- reals and decimals
def _reals(top: int) -> Fill:
    def fill(_column: Column, span: Span) -> Any:
        from schemas.codec import kernel_json_fill as kernel

        return _texts(kernel.fill_reals, span, top)

    return fill


FLOAT, DOUBLE = Cell(REAL, "real32", _reals(_LARGE32)), Cell(REAL, "real", _reals(_LARGE64))


def _decimal(kernel: Any, column: Column, span: Span) -> Any:
    import numpy as np

    assert column.length is not None
    assert column.scale is not None
    out = np.empty((span.rows, 2), np.uint64)
    kernel(span.data, span.places, span.lengths, span.rows, column.length, column.scale, out, span.bad)
    return out


def _short_decimal(column: Column, span: Span) -> Any:
    from schemas.codec.kernel_json_fill import fill_short_decimals

    return _decimal(fill_short_decimals, column, span)


def _text_decimal(column: Column, span: Span) -> Any:
    from schemas.codec.kernel_text import fill_decimals

    return _decimal(fill_decimals, column, span)


def _no_decimal(column: Column, span: Span) -> Any:
    """Only NULL: a DECIMAL that is too long for 128 bits, or not known, is left to Python."""
    import numpy as np

    span.bad[span.lengths[: span.rows] >= 0] = 1
    return np.zeros(0, np.uint8), np.zeros(span.rows + 1, np.int32)


SHORT_DECIMAL = Cell(REAL, "decimal", _short_decimal)
LONG_DECIMAL = Cell(REAL, "text", _no_decimal)
TEXT_DECIMAL = Cell(STRING, "decimal", _text_decimal)


# ---------------------------------------------------------------------------------- texts and bytes
def _texts(kernel: Any, span: Span, *more: Any, room: int = 0) -> Any:
    """(bytes, offsets). room: bytes of a value at most, where it can be longer than what stands in the message."""
    import numpy as np

    from schemas.codec.kernel_json_text import room_of

    offsets = np.empty(span.rows + 1, np.int32)
    out = np.empty(room * span.rows or room_of(span.lengths, span.rows), np.uint8)
    used = kernel(span.data, span.places, span.lengths, span.rows, *more, offsets, out, span.bad)
    return out[:used], offsets


def _text(_column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_text as kernel

    return _texts(kernel.fill_text, span)


def _unquoted(_column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_text as kernel

    return _texts(kernel.fill_unquoted, span)


def _base64(text: bool) -> Fill:
    def fill(_column: Column, span: Span) -> Any:
        from schemas.codec import kernel_json_text as kernel

        return _texts(kernel.fill_base64, span, text)

    return fill


TEXT, UNQUOTED = Cell(STRING, "text", _text), Cell(STRING, "bytes", _unquoted)
BASE64, BASE64_TEXT = Cell(STRING, "bytes", _base64(False)), Cell(STRING, "text", _base64(True))


def _bits(column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_text as kernel

    return _into("uint64", kernel.fill_bits, span, values.bit_size(column.length or 0))


def _boolean(_column: Column, span: Span) -> Any:
    import numpy as np

    from schemas.codec import kernel_json_fill as kernel

    out = np.empty(span.rows, np.uint64)
    kernel.fill_booleans(span.data, span.places, span.lengths, span.rows, out)
    return out


BITS, BIT1 = Cell(STRING, "bit", _bits), Cell(BOOLEAN, "bit", _boolean)


# ---------------------------------------------------------------------------------- dates and times
def _shape(text: bytes) -> Any:
    import numpy as np

    return np.frombuffer(text, np.uint8)


def _shaped(name: str) -> Fill:
    def fill(_column: Column, span: Span) -> Any:
        from schemas.codec import kernel_json_text as kernel

        return _texts(kernel.fill_shaped, span, getattr(kernel, name), _shape(_SHAPE))

    return fill


DATE_TEXT, DATETIME_TEXT, TIME_TEXT, DECIMAL_TEXT = (
    Cell(STRING, "text", _shaped(name)) for name in ("DATE", "DATETIME", "TIME", "DECIMAL")
)


def _days(column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_fill as kernel

    return _texts(kernel.fill_days, span, column.nullable, room=10)


def _times(column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_fill as kernel

    return _texts(kernel.fill_times, span, 6 if column.scale is None else column.scale, room=17)


def _instants(_column: Column, span: Span) -> Any:
    from schemas.codec import kernel_json_fill as kernel

    return _texts(kernel.fill_instants, span, _shape(_SHAPE.replace(b" ", b"T")))


def moments(milliseconds: bool) -> Cell:
    """DATETIME as a number since 1970."""

    def fill(column: Column, span: Span) -> Any:
        from schemas.codec import kernel_json_fill as kernel

        fsp = 3 if column.scale is None else column.scale
        return _texts(kernel.fill_moments, span, 1000 if milliseconds else 1, fsp, column.nullable, room=26)

    return Cell(INTEGER, "text", fill)


DAYS, TIMES, INSTANTS = Cell(INTEGER, "text", _days), Cell(INTEGER, "text", _times), Cell(STRING, "text", _instants)
