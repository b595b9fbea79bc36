"""Typed columns → cells, for numba: texts of numbers as float64, 128-bit integers as DECIMAL's text.

Reals: D. Lemire, "Number Parsing at a Gigabyte per Second" (2021): a decimal significand of up to 19 digits times a
128-bit power of five, which is enough to round right; longer ones are left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.jit import jit

Array = Any  # numpy arrays: numba knows their types
DECIMAL_ROOM = 42  # sign, 39 digits of 128 bits, point; one more for the zero before a point
_LEAST, _MOST = -342, 308
_LOW32 = np.uint64(0xFFFFFFFF)
_BILLION = np.uint64(1_000_000_000)
ONE = np.uint64(1)


def _powers() -> Any:
    """Upper 128 bits (high, low) of 5^q for each q from _LEAST to _MOST; of negative ones, of the reciprocal + 1."""
    out = np.empty((_MOST - _LEAST + 1, 2), np.uint64)
    for q in range(_LEAST, _MOST + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = (power - 1).bit_length()
            mantissa = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
        else:
            mantissa = power << max(0, 128 - power.bit_length())
        mantissa >>= max(0, mantissa.bit_length() - 128)
        out[q - _LEAST] = mantissa >> 64, mantissa & (1 << 64) - 1
    return out


_POWERS = _powers()


@jit
def _product(a: Any, b: Any) -> Any:
    """(high, low) of a product of two uint64."""
    low_a, high_a, low_b, high_b = a & _LOW32, a >> np.uint64(32), b & _LOW32, b >> np.uint64(32)
    low = low_a * low_b
    first = high_a * low_b + (low >> np.uint64(32))
    second = low_a * high_b + (first & _LOW32)
    high = high_a * high_b + (first >> np.uint64(32)) + (second >> np.uint64(32))
    return high, (second << np.uint64(32)) | (low & _LOW32)


@jit
def _float_bits(w: Any, q: int) -> Any:
    """Bits of the float64 nearest to w × 10^q; those of infinity where it is beyond."""
    if w == np.uint64(0) or q < _LEAST:
        return np.uint64(0)
    if q > _MOST:
        return np.uint64(0x7FF) << np.uint64(52)
    zeros = 0
    while not w >> np.uint64(63):
        w <<= ONE
        zeros += 1
    high, low = _product(w, _POWERS[q - _LEAST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(w, _POWERS[q - _LEAST, 1])
        low += more
        if low < more:
            high += ONE
    upper = np.int64(high >> np.uint64(63))
    mantissa = high >> np.uint64(upper + 9)
    power = ((217706 * q) >> 16) + 63 + upper - zeros + 1023
    if power <= 0:
        if power <= -63:
            return np.uint64(0)
        mantissa >>= np.uint64(1 - power)
        return (mantissa + (mantissa & ONE)) >> ONE  # the carry into bit 52 makes it the least normal number
    exactly_between = low <= ONE and -4 <= q <= 23 and mantissa & np.uint64(3) == ONE
    if exactly_between and mantissa << np.uint64(upper + 9) == high:
        mantissa -= ONE
    mantissa = (mantissa + (mantissa & ONE)) >> ONE
    if mantissa >> np.uint64(53):
        mantissa >>= ONE
        power += 1
    if power >= 2047:
        return np.uint64(0x7FF) << np.uint64(52)
    return (mantissa & ((ONE << np.uint64(52)) - ONE)) | (np.uint64(power) << np.uint64(52))


@jit
def read_reals(data: Array, offsets: Array, valid: Array, out: Array, left: Array) -> int:
    """Texts of JSON numbers → float64 bits; rows that are left, and how many they are."""
    count = 0
    for row in range(valid.shape[0]):
        out[row] = 0
        if not valid[row]:
            continue
        pos, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        negative = pos < end and data[pos] == 45
        if negative:
            pos += 1
        w, digits, power, point, sound = np.uint64(0), 0, 0, False, pos < end
        while pos < end:
            digit = np.uint64(data[pos]) - np.uint64(48)  # what is below "0" becomes huge
            if digit <= np.uint64(9):
                w = w * np.uint64(10) + digit
                digits += 1 if w else 0
                power -= 1 if point else 0
            elif data[pos] == 46 and not point:
                point = True
            else:
                break
            pos += 1
        if pos < end and (data[pos] == 69 or data[pos] == 101):
            pos += 1
            minus = pos < end and data[pos] == 45
            if minus or (pos < end and data[pos] == 43):
                pos += 1
            sound = sound and 0 < end - pos <= 4
            number = 0
            while pos < end and 48 <= data[pos] <= 57:
                number = number * 10 + int(data[pos]) - 48
                pos += 1
            power += -number if minus else number
        if not sound or pos < end or digits > 19:
            left[count] = row
            count += 1
            continue
        out[row] = _float_bits(w, power) | (ONE << np.uint64(63) if negative else np.uint64(0))
    return count


@jit
def write_decimals(pairs: Array, valid: Array, scale: int, out: Array, place: Array, length: Array) -> None:
    """128-bit unscaled integers (low, high) → text with `scale` fraction digits, at the end of DECIMAL_ROOM bytes each.

    place: of the text in `out`.
    """
    for row in range(valid.shape[0]):
        if not valid[row]:
            continue
        low, high = pairs[row, 0], pairs[row, 1]
        negative = high >> np.uint64(63) != np.uint64(0)
        if negative:
            low = ~low + ONE
            high = ~high + (ONE if low == np.uint64(0) else np.uint64(0))
        end = (row + 1) * DECIMAL_ROOM
        at, digits = end, 0
        while high or low or digits <= scale:
            if high:  # a chunk of nine digits: the rest of a division by 10^9, 32 bits at a time
                first = high // _BILLION
                rest = ((high - first * _BILLION) << np.uint64(32)) | (low >> np.uint64(32))
                middle = rest // _BILLION
                rest = ((rest - middle * _BILLION) << np.uint64(32)) | (low & _LOW32)
                last = rest // _BILLION
                chunk = rest - last * _BILLION
                high, low = first, (middle << np.uint64(32)) + last
                count = 9
            else:
                tenth = low // np.uint64(10)
                chunk = low - tenth * np.uint64(10)
                low = tenth
                count = 1
            for _ in range(count):
                if digits == scale and scale:
                    at -= 1
                    out[at] = 46
                tenth = chunk // np.uint64(10)
                at -= 1
                out[at] = np.uint8(np.uint64(48) + chunk - tenth * np.uint64(10))
                chunk = tenth
                digits += 1
        if negative:
            at -= 1
            out[at] = 45
        place[row], length[row] = at, end - at
