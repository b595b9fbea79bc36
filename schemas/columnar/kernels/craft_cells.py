"""Craft's numbers and chunks in a numpy buffer, and values of a chunk of rows → cells, for numba.

As `json_cells` does: in and out are the same arrays, a block of rows after another. A value that is not of its column's
type marks its row in `bad`.
"""

from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import read_eight
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array, is_decimal, is_sound_text

# How a slot is read, and what a and b are. SIGNED, YEAR: the least and the greatest number. UNSIGNED, ENUM, SET: the
# greatest. DECIMAL: precision and scale, precision 0: not known.
SIGNED, YEAR, UNSIGNED, ENUM, SET, DOUBLE, FLOAT, TEXT, BYTES, DECIMAL = range(10)
_BLOCK = 256


class CraftSlots(NamedTuple):
    """How each slot is read."""

    code: Array
    a: Array
    b: Array


@jit
def uvarint(data: Array, pos: int, end: int) -> Any:
    """(value as uint64, next position), position -1 for a number that is none."""
    if pos >= end:
        return np.uint64(0), -1
    byte = data[pos]
    if byte < 128:
        return np.uint64(byte), pos + 1
    value = np.uint64(byte & 127)
    shift = 7
    pos += 1
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return np.uint64(0), -1
        value |= np.uint64(byte & 127) << np.uint64(shift)
        if byte < 128:
            return value, pos
        shift += 7
    return np.uint64(0), -1


@inline
def read_back(data: Array, pos: int, first: int) -> Any:
    """A uvarint of up to 35 bits that ends at pos, read from its end → (number, its position; -1 where it is none)."""
    number, shift = np.int64(0), 0
    while pos >= first and shift <= 28:
        number |= np.int64(data[pos] & 127) << shift
        if data[pos] < 128:
            return number, pos
        pos -= 1
        shift += 7
    return np.int64(0), -1


@jit
def unzigzag(value: Any) -> Any:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@jit
def count_of(data: Array, pos: Any, end: Any, most: Any) -> Any:
    """(a count from 1 to `most` and to the bytes that follow, next position), -1 otherwise."""
    value, pos = uvarint(data, pos, end)
    if pos < 0 or value < np.uint64(1) or value > np.uint64(min(end - pos, most)):
        return 0, -1
    return np.int64(value), pos


@jit
def deltas(data: Array, pos: Any, end: Any, count: Any, low: Any, high: Any, out: Array) -> Any:
    """A delta varint chunk into out[:count]; next position, or -1 where a number is outside low…high."""
    number = np.int64(0)
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        if pos < 0:
            return -1
        number += unzigzag(value)
        if number < low or number > high:
            return -1
        out[i] = number
    return pos


# ---------------------------------------------------------------------------------- values
@jit
def fill(data: Array, start: Array, length: Array, rows: int, slots: CraftSlots, bad: Array) -> None:
    """start, length: [slot][row] of contents in `data` (a length below 0: NULL, or not sent), which become cells."""
    for first in range(0, rows, _BLOCK):
        last = min(first + _BLOCK, rows)
        for slot in range(slots.code.shape[0]):
            _fill_slot(
                slots.code[slot], data, start[slot, first:last], length[slot, first:last], slots.a[slot], slots.b[slot],
                bad[first:last],
            )  # fmt: skip


@jit
def _fill_slot(code: int, data: Array, start: Array, length: Array, a: int, b: int, bad: Array) -> None:
    for row in range(start.shape[0]):
        size = length[row]
        if size < 0:
            start[row] = 0
            continue
        pos = start[row]
        if code >= TEXT:
            if code == TEXT:
                bad[row] |= not is_sound_text(data, pos, pos + size)
            elif code == DECIMAL:
                bad[row] |= not is_decimal(data, pos, pos + size, a, b)
            continue
        if code <= SET:
            number, sound = _number(code, data, pos, pos + size, a, b)
        else:
            number, sound = _real(data, pos, size, code == FLOAT)
        bad[row] |= not sound
        start[row], length[row] = number if sound else 0, 8


@jit
def _number(code: int, data: Array, pos: int, end: int, a: int, b: int) -> Any:
    """(an int64, or the bits of an uint64; whether it is one of its column)."""
    value, pos = uvarint(data, pos, end)
    if code >= UNSIGNED:
        return np.int64(value), pos == end and value <= np.uint64(a)
    number = unzigzag(value)
    return number, pos == end and a <= number <= b and (code == SIGNED or not 0 < number < 1901)


@jit
def _real(data: Array, pos: int, size: int, single: bool) -> Any:
    """(bits of a float64, whether it is finite and, if `single`, a float32, for which subnormal ones don't count)."""
    if size != 8:
        return np.int64(0), False
    bits = read_eight(data, pos)
    exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    narrow = bits << np.uint64(1) == np.uint64(0)
    narrow = narrow or (897 <= exponent <= 1150 and bits & np.uint64(0x1FFFFFFF) == np.uint64(0))
    return np.int64(bits), exponent != 0x7FF and (narrow or not single)
