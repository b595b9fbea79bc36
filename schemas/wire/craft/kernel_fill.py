"""Values of one column → typed buffers, for numba. A value that is not of the column's type marks its row in `bad`.

In: the message bytes, and by row the place and length of the value (below 0: NULL, or not sent).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.wire.craft.jit import jit
from schemas.wire.craft.kernel_numbers import Array, unzigzag, utf8, uvarint

ANY, TEXT, DECIMAL = 0, 1, 2  # what fill_bytes checks
_LOW32 = np.uint64(0xFFFFFFFF)


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


@jit
def digits(data: Array, pos: int, end: int) -> int:
    """Position after the digits that start at pos."""
    while pos < end and 48 <= data[pos] <= 57:
        pos += 1
    return pos


@jit
def is_decimal(data: Array, pos: int, end: int) -> bool:
    """Plain notation with up to 65 digits on each side of the point."""
    if pos < end and data[pos] == 45:
        pos += 1
    point = digits(data, pos, end)
    if not 1 <= point - pos <= 65:
        return False
    if point == end:
        return True
    return bool(data[point] == 46 and digits(data, point + 1, end) == end and 1 <= end - point - 1 <= 65)


@jit
def fits(data: Array, pos: int, end: int, precision: int, scale: int) -> bool:
    """Whether a decimal's text fits DECIMAL(precision, scale) without rounding."""
    if data[pos] == 45:
        pos += 1
    while pos < end and data[pos] == 48:
        pos += 1
    point = digits(data, pos, end)
    if point - pos > precision - scale:
        return False
    cut = point + 1 + scale
    while cut < end and data[cut] == 48:
        cut += 1
    return cut >= end


@jit
def times_add(high: Any, low: Any, factor: Any, more: Any) -> Any:
    """(high, low) × factor + more, all uint64, factor and more below 2^32; the result must fit 128 bits."""
    a = (low & _LOW32) * factor + more
    b = (low >> np.uint64(32)) * factor + (a >> np.uint64(32))
    return high * factor + (b >> np.uint64(32)), (b << np.uint64(32)) | (a & _LOW32)


@jit
def fill_decimals(
    data: Array, places: Array, lengths: Array, rows: int, precision: int, scale: int, out: Array, bad: Array
) -> None:
    """DECIMAL text → 128-bit unscaled integers (low, high), for a precision of up to 38 digits."""
    zero, one, ten, much = np.uint64(0), np.uint64(1), np.uint64(10), np.uint64(100_000_000_000_000_000)
    for row in range(rows):
        high, low = zero, zero
        if lengths[row] >= 0:
            pos, end = places[row], places[row] + lengths[row]
            negative = pos < end and data[pos] == 45
            at = pos + 1 if negative else pos
            whole, kept, fraction, places_left, sound = 0, 0, -1, scale, True
            while at < end:
                digit = np.uint64(data[at]) - np.uint64(48)  # what is below "0" becomes huge
                at += 1
                if digit > np.uint64(9):
                    if data[at - 1] != 46 or fraction >= 0 or not whole:
                        sound = False
                        break
                    fraction = 0
                    continue
                if fraction < 0:
                    whole += 1
                    kept += 1 if kept or digit else 0
                else:
                    fraction += 1
                    if not places_left:
                        sound = sound and digit == zero
                        continue
                    places_left -= 1
                if kept > precision - scale:
                    sound = False
                    break
                if high == zero and low < much:
                    low = low * ten + digit
                else:
                    high, low = times_add(high, low, ten, digit)
            if not sound or not 1 <= whole <= 65 or fraction == 0 or fraction > 65:
                bad[row] = 1
                high, low = zero, zero
            else:
                for _ in range(places_left):
                    if high == zero and low < much:
                        low = low * ten
                    else:
                        high, low = times_add(high, low, ten, zero)
                if negative:
                    low = ~low + one
                    high = ~high + (one if low == zero else zero)
        out[row, 0], out[row, 1] = low, high
