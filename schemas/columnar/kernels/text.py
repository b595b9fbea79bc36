"""UTF-8 and decimal numbers in a numpy buffer, for numba. A value that is not sound marks its row in `bad`."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.byte_buffers import read_eight
from schemas.columnar.kernels.jit import jit

Array = Any  # numpy arrays: numba knows their types
_HIGH = np.uint64(0x8080808080808080)
_LOW32 = np.uint64(0xFFFFFFFF)


@jit
def is_ascii(data: Array, pos: int, end: int) -> bool:
    """Whether no byte of data[pos:end] has its high bit set."""
    if end - pos < 8:
        byte = np.uint8(0)
        for i in range(pos, end):
            byte |= data[i]
        return bool(byte < 128)
    every = read_eight(data, end - 8)
    while pos < end - 8:
        every |= read_eight(data, pos)
        pos += 8
    return not every & _HIGH


@jit
def is_sound_text(data: Array, pos: int, end: int) -> bool:
    """UTF-8; ASCII is seen by its high bits alone."""
    return is_ascii(data, pos, end) or utf8(data, pos, end)


@jit
def utf8(data: Array, pos: int, end: int) -> bool:
    """Whether data[pos:end] is UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF)."""
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            while end - pos >= 8 and not read_eight(data, pos) & _HIGH:
                pos += 8
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if end - pos < more:
            return False
        for _ in range(more):
            if data[pos] < low or data[pos] > high:
                return False
            low, high = 0x80, 0xBF
            pos += 1
    return True


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
            whole, significant, fraction, places_left, sound = 0, 0, -1, scale, True
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
                    significant += 1 if significant or digit else 0
                else:
                    fraction += 1
                    if not places_left:
                        sound = sound and digit == zero
                        continue
                    places_left -= 1
                if significant > precision - scale:
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
