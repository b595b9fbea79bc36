"""Values of one column → typed buffers, for numba. A value that is not of the column's type marks its row in `bad`.

In: the message bytes, and by row the place and length of the value (below 0: NULL, or not sent).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.craft_numbers import Array, unzigzag, uvarint
from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.text import fits, is_decimal, utf8

ANY, TEXT, DECIMAL = 0, 1, 2  # what fill_bytes checks


@jit
def fill_signed(
    data: Array, places: Array, lengths: Array, rows: int, low: int, high: int, out: Array, bad: Array
) -> None:
    """Zig-zag integers from low to high."""
    for row in range(rows):
        out[row] = 0
        if lengths[row] >= 0:
            end = places[row] + lengths[row]
            value, pos = uvarint(data, places[row], end)
            number = unzigzag(value)
            if pos != end or number < low or number > high:
                bad[row] = 1
            else:
                out[row] = number


@jit
def fill_unsigned(data: Array, places: Array, lengths: Array, rows: int, high: Any, out: Array, bad: Array) -> None:
    """Unsigned integers up to high; ENUM, SET and BIT too."""
    for row in range(rows):
        out[row] = 0
        if lengths[row] >= 0:
            end = places[row] + lengths[row]
            value, pos = uvarint(data, places[row], end)
            if pos != end or value > high:
                bad[row] = 1
            else:
                out[row] = value


@jit
def fill_doubles(data: Array, places: Array, lengths: Array, rows: int, single: bool, out: Array, bad: Array) -> None:
    """float64 bits as uint64. Not finite, or (single) no float32: bad, for the decoder in Python to judge."""
    for row in range(rows):
        bits = np.uint64(0)
        if lengths[row] >= 0:
            if lengths[row] != 8:
                bad[row] = 1
                continue
            for i in range(8):
                bits |= np.uint64(data[places[row] + i]) << np.uint64(8 * i)
            exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
            zero = bits << np.uint64(1) == np.uint64(0)
            # A float32 has 23 bits of fraction; subnormal ones are left to Python.
            narrow = zero or (897 <= exponent <= 1150 and bits & np.uint64(0x1FFFFFFF) == np.uint64(0))
            if exponent == 0x7FF or (single and not narrow):
                bad[row] = 1
        out[row] = bits


@jit
def sizes_of(lengths: Array, rows: int, offsets: Array) -> int:
    """Offsets of the values one after another; out: their bytes in all."""
    total = np.int64(0)
    for row in range(rows):
        offsets[row] = total
        if lengths[row] > 0:
            total += lengths[row]
    offsets[rows] = total
    return int(total)


@jit
def fill_bytes(
    data: Array,
    places: Array,
    lengths: Array,
    rows: int,
    check: int,
    precision: int,
    scale: int,
    offsets: Array,
    out: Array,
    bad: Array,
) -> None:
    """Texts and binary strings, one after another as `offsets` says. precision 0: of a DECIMAL that is not known."""
    one = np.uint64(1)
    for row in range(rows):
        if lengths[row] < 0:
            continue
        # Unsigned indices: numba need not look for negative ones, so that the copy is a vector operation.
        at, to, size = np.uint64(places[row]), np.uint64(offsets[row]), np.uint64(lengths[row])
        every = np.uint8(0)
        i = np.uint64(0)
        while i < size:
            byte = data[at + i]
            out[to + i] = byte
            every |= byte
            i += one
        if check == TEXT:
            sound = every < 128 or utf8(data, places[row], places[row] + lengths[row])
        elif check == DECIMAL:
            end = places[row] + lengths[row]
            sound = is_decimal(data, places[row], end)
            sound = sound and (precision == 0 or fits(data, places[row], end, precision, scale))
        else:
            sound = True
        if not sound:
            bad[row] = 1
