"""UTF-8 and decimal numbers in a numpy buffer, for numba. A value that is not sound marks its row in `bad`."""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import count_zeros, read_eight
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit

Array = Any  # numpy arrays: numba knows their types
_HIGH = np.uint64(0x8080808080808080)
_LOW32 = np.uint64(0xFFFFFFFF)
_ZEROS, _OVER_NINE, _LOW_HALVES = (
    np.uint64(byte * 0x0101010101010101)
    for byte in (48, 118, 15)  # what is over 9 and gets 118 more has the high bit
)
_HUNDRED_MILLION = np.uint64(10**8)
TENS = np.array([10**n for n in range(20)], np.uint64)
_U0, _U1, _U10, _U32, _MUCH = (np.uint64(n) for n in (0, 1, 10, 32, 10**17))


@jit
def is_ascii(data: Array, pos: int, end: int) -> bool:
    """True if no byte of data[pos:end] has its high bit set."""
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
    """True if data[pos:end] is UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF)."""
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


@inline
def find_digits_end(data: Array, pos: int, end: int) -> int:
    """Where the digits at the start of data[pos:end] end."""
    while pos < end:
        if data.shape[0] - pos >= 8:
            word = read_eight(data, pos) ^ _ZEROS
            at = count_zeros(((word + _OVER_NINE) | word) & _HIGH) >> 3
            pos += at
            if at < 8:
                break
        elif 48 <= data[pos] <= 57:
            pos += 1
        else:
            break
    return min(pos, end)


@inline
def read_digits(data: Array, pos: int, end: int) -> Any:
    """data[pos:end], which is nothing but digits, 19 at most → their number as a uint64."""
    number, size = _U0, end - pos
    if size < 8 and pos + 8 > data.shape[0]:
        for i in range(pos, end):
            number = number * _U10 + np.uint64(data[i] - 48)
        return number
    if size & 7:
        number = _eight_digits((read_eight(data, pos) ^ _ZEROS) << np.uint64(64 - 8 * (size & 7)))
        pos += size & 7
    while pos < end:
        number = number * _HUNDRED_MILLION + _eight_digits(read_eight(data, pos) ^ _ZEROS)
        pos += 8
    return number


@inline
def _eight_digits(word: Any) -> Any:
    """Eight bytes from 0 to 9, the low one first → the number that has these digits (D. Lemire's three products)."""
    word = (word & _LOW_HALVES) * np.uint64(2561) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    return (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> _U32


@jit
def is_decimal(data: Array, pos: int, end: int, precision: int, scale: int) -> bool:
    """True if data[pos:end] is a decimal in plain notation that DECIMAL(precision, scale) holds without rounding.

    precision 0: the column is not known, any decimal will do.
    """
    if pos < end and data[pos] == 45:
        pos += 1
    point = find_digits_end(data, pos, end)
    if not 1 <= point - pos <= 65:
        return False
    if point < end and not (
        data[point] == 46 and find_digits_end(data, point + 1, end) == end and 1 <= end - point - 1 <= 65
    ):
        return False
    if not precision or (point - pos <= precision - scale and end - point - 1 <= scale):
        return True
    while pos < end and data[pos] == 48:
        pos += 1
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
    data: Array, starts: Array, lengths: Array, rows: int, precision: int, scale: int, out: Array, bad: Array
) -> None:
    """DECIMAL text → 128-bit unscaled integers (low, high), for a precision of up to 38 digits."""
    for row in range(rows):
        high, low = _U0, _U0
        if lengths[row] >= 0:
            high, low, sound = read_decimal(data, starts[row], starts[row] + lengths[row], precision, scale)
            bad[row] |= not sound
        out[row, 0], out[row, 1] = low, high


@jit
def read_decimal(data: Array, pos: int, end: int, precision: int, scale: int) -> Any:
    """DECIMAL text → (high, low: its unscaled number in two's complement; whether the column holds it, 0 if not).

    precision: 38 at most.
    """
    high, low = _U0, _U0
    negative = pos < end and data[pos] == 45
    at = pos + 1 if negative else pos
    point = find_digits_end(data, at, end)
    decimals = end - point - 1
    plain = decimals == -1 or (decimals > 0 and data[point] == 46 and find_digits_end(data, point + 1, end) == end)
    if plain and point > at and decimals <= scale and point - at + scale <= 19:
        low = read_digits(data, at, point) * TENS[scale]
        if decimals > 0:
            low += read_digits(data, point + 1, end) * TENS[scale - decimals]
        if precision >= 20 or low < TENS[precision]:
            return (_U0 - _U1, _U0 - low, True) if negative and low else (_U0, low, True)
    integer, significant, fraction, scale_left, sound = 0, 0, -1, scale, True
    while at < end:
        digit = np.uint64(data[at]) - np.uint64(48)  # what is below "0" becomes huge
        at += 1
        if digit > np.uint64(9):
            if data[at - 1] != 46 or fraction >= 0 or not integer:
                sound = False
                break
            fraction = 0
            continue
        if fraction < 0:
            integer += 1
            significant += 1 if significant or digit else 0
        else:
            fraction += 1
            if not scale_left:
                sound = sound and digit == _U0
                continue
            scale_left -= 1
        if significant > precision - scale:
            sound = False
            break
        if high == _U0 and low < _MUCH:
            low = low * _U10 + digit
        else:
            high, low = times_add(high, low, _U10, digit)
    if not sound or not 1 <= integer <= 65 or fraction == 0 or fraction > 65:
        return _U0, _U0, False
    for _ in range(scale_left):
        if high == _U0 and low < _MUCH:
            low = low * _U10
        else:
            high, low = times_add(high, low, _U10, _U0)
    if negative:
        low = ~low + _U1
        high = ~high + (_U1 if low == _U0 else _U0)
    return high, low, True
