"""Rows in flat arrays → Spark's own binary rows, for numba.

A row has a bit for each column, set where it is NULL, in words of eight bytes; a word for each column, which is its
value or, of one that has a length, where that is (from the row's first byte on) << 32 | its size; then these values in
the order of the columns, with zeros up to a multiple of eight bytes. A decimal of more than 18 digits has 16 bytes even
where it is NULL. This is what Spark's UnsafeRowWriter writes, to the byte: Spark compares structs by their bytes.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import (
    bit_length,
    copy_short,
    read_eight,
    swap_bytes,
    write_eight,
)
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array, read_decimal

# What a cell becomes, and what a and b of its column are. INTEGER: the greatest number, and the bits that it has.
# DECIMAL, WIDE_DECIMAL: precision and scale; the latter has more than 18 digits. UNSIGNED: a decimal of 20 digits.
# BITS: bytes, the high one first. DOUBLE, FLOAT, BYTES: nothing.
INTEGER, DOUBLE, FLOAT, DECIMAL, BYTES, BITS, UNSIGNED, WIDE_DECIMAL = range(8)
_U0, _U1, _U8, _U32, _U63, _U64 = (np.uint64(n) for n in (0, 1, 8, 32, 63, 64))


class RowLayout(NamedTuple):
    """Columns of Spark's rows. code, a, b: by column.

    cell, low: [shape, column]: which of a row's cells it is, -1 for none; the least number that the column holds.
    """

    code: Array
    a: Array
    b: Array
    cell: Array
    low: Array


@jit
def put_ends(first: Array, step: Array, shape: Array, layout: RowLayout, length: Array, ends: Array) -> int:
    """Where each row begins (one more than rows); out: the bytes of all, -1 where they do not fit 31 bits.

    first, step: a row's first cell, -1 for no row, and the distance of the others.
    """
    columns = layout.code.shape[0]
    fixed = (columns + 63) // 64 * 8 + columns * 8
    for column in range(columns):
        fixed += 16 if layout.code[column] >= UNSIGNED else 0
    total = np.int64(0)
    for row in range(first.shape[0]):
        ends[row] = total
        if first[row] < 0:
            continue
        total += fixed
        for column in range(columns):
            cell = layout.cell[shape[row], column]
            if cell < 0 or not BYTES <= layout.code[column] <= BITS:
                continue
            size = length[first[row] + step[row] * cell]
            if size > 0:
                total += (size + 7) & ~7 if layout.code[column] == BYTES else 8
        if total > 0x7FFFFFFF:
            return -1
    ends[first.shape[0]] = total
    return int(total)


@jit
def put_rows(
    data: Array, first: Array, step: Array, shape: Array, layout: RowLayout, offset: Array, length: Array, ends: Array,
    out: Array, bad: Array,
) -> None:  # fmt: skip
    """The rows, as `ends` says; those with a value that its column can't hold are marked in `bad`.

    `out` has room for BLOCK bytes beyond the rows.
    """
    columns = layout.code.shape[0]
    for row in range(first.shape[0]):
        if first[row] < 0:
            continue
        start, of = np.int64(ends[row]), shape[row]
        field = start + (columns + 63) // 64 * 8
        tail, nulls = field + columns * 8, _U0
        for column in range(columns):
            code, number = layout.code[column], layout.cell[of, column]
            cell = first[row] + step[row] * number
            size: Any = length[cell] if number >= 0 else np.int64(-1)
            if size < 0:
                nulls |= _U1 << np.uint64(column & 63)
                write_eight(out, field, np.uint64(tail - start) << _U32 if code >= UNSIGNED else _U0)
                tail = _put_wide(_U0, _U0, out, tail) if code >= UNSIGNED else tail
            elif code < BYTES:
                word, sound = _word(
                    code, data, offset[cell], size, layout.a[column], layout.b[column], layout.low[of, column]
                )
                write_eight(out, field, word)
                bad[row] |= not sound
            else:
                word = np.uint64(tail - start) << _U32
                size, tail, sound = _put_long(
                    code, data, offset[cell], size, layout.a[column], layout.b[column], layout.low[of, column], out,
                    tail,
                )  # fmt: skip
                write_eight(out, field, word | np.uint64(size))
                bad[row] |= not sound
            field += 8
            if column & 63 == 63 or column == columns - 1:
                write_eight(out, start + (column >> 6) * 8, nulls)
                nulls = _U0


@inline
def _word(code: int, data: Array, pos: int, size: int, a: int, b: int, low: int) -> Any:
    """(the word of a value that has no place of its own, whether the column holds it)."""
    if code == INTEGER:
        return np.uint64(pos & b), low <= pos <= a
    if code == DECIMAL:
        _, number, sound = read_decimal(data, pos, pos + size, a, b)
        return number, sound
    if code == FLOAT:
        return np.uint64(np.float32(np.int64(pos).view(np.float64)).view(np.uint32)), True
    return np.uint64(pos), True


@inline
def _put_long(code: int, data: Array, pos: int, size: int, a: int, b: int, low: int, out: Array, to: int) -> Any:
    """A value that has a place of its own → (its size, next place, whether the column holds it)."""
    if code == BYTES:
        copy_short(out, to, data, pos, size)
        to += (size + 7) & ~7
        if size & 7:
            beyond = np.uint64(64 - 8 * (size & 7))
            write_eight(out, to - 8, read_eight(out, to - 8) << beyond >> beyond)
        return size, to, True
    if code == BITS:
        write_eight(out, to, swap_bytes(np.uint64(pos) << np.uint64(64 - 8 * a)))
        return a, to + 8, True
    high, number, sound = _U0, np.uint64(pos), pos >= low
    if code == WIDE_DECIMAL:
        high, number, sound = read_decimal(data, pos, pos + size, a, b)
    return np.int64(_wide_size(high, number)), _put_wide(high, number, out, to), sound


@inline
def _wide_size(high: Any, low: Any) -> Any:
    """Bytes of the shortest two's complement of a number of 128 bits."""
    sign = _U0 - (high >> _U63)
    if high == sign and low >> _U63 == high >> _U63:
        return bit_length(low ^ sign) // _U8 + _U1
    return _U8 + bit_length(high ^ sign) // _U8 + _U1


@inline
def _put_wide(high: Any, low: Any, out: Array, to: int) -> int:
    """The number's shortest two's complement, the high byte first, and zeros up to 16 bytes; next place."""
    beyond = _U8 * (np.uint64(16) - _wide_size(high, low))  # bits that are of no account
    if beyond >= _U64:
        high, low = low << (beyond - _U64), _U0
    elif beyond:
        high, low = high << beyond | low >> (_U64 - beyond), low << beyond
    write_eight(out, to, swap_bytes(high))
    write_eight(out, to + 8, swap_bytes(low))
    return to + 16
