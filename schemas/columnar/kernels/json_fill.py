"""JSON numbers of one column → typed buffers, for numba.

In: the message bytes, and by row the place and length of a number, whose grammar was checked (below 0: NULL, or not
sent). A number that is not of the column's type marks its row in `bad`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.json_text import fraction, has_shape
from schemas.columnar.kernels.temporal import date_of
from schemas.columnar.kernels.text import Array

_DAY = 86_400_000_000
_LAST_DAY, _FIRST_DAY = 2932896, -719162  # 9999-12-31 and 0001-01-01, from 1970-01-01


@jit
def number_of(data: Array, pos: int, size: int) -> Any:
    """(magnitude as uint64, negative, whether it has no more than 64 bits)."""
    end = pos + size
    negative = data[pos] == 45
    if negative:
        pos += 1
    if end - pos > 20:
        return np.uint64(0), negative, False
    number = np.uint64(0)
    for i in range(pos, min(end, pos + 19)):  # so many digits always fit
        number = number * np.uint64(10) + np.uint64(data[np.uint64(i)] - 48)
    if end - pos == 20:
        digit = np.uint64(data[end - 1] - 48)
        if number > np.uint64(1844674407370955161) or (
            number == np.uint64(1844674407370955161) and digit > np.uint64(5)
        ):
            return np.uint64(0), negative, False
        number = number * np.uint64(10) + digit
    return number, negative, True


@jit
def signed_of(data: Array, pos: int, size: int) -> Any:
    """(int64, whether it is one)."""
    number, negative, sound = number_of(data, pos, size)
    top = np.uint64(1) << np.uint64(63)
    if not sound or number > top or (number == top and not negative):
        return np.int64(0), False
    return (np.int64(~number + np.uint64(1)) if negative else np.int64(number)), True


@jit
def fill_signed(
    data: Array, places: Array, lengths: Array, rows: int, low: int, high: int, out: Array, bad: Array
) -> None:
    """Integers from low to high."""
    for row in range(rows):
        out[row] = 0
        if lengths[row] >= 0:
            number, sound = signed_of(data, places[row], lengths[row])
            if not sound or number < low or number > high:
                bad[row] = 1
            else:
                out[row] = number


@jit
def fill_unsigned(
    data: Array, places: Array, lengths: Array, rows: int, high: Any, wraps: bool, out: Array, bad: Array
) -> None:
    """Unsigned integers up to high. wraps: a negative int64 stands for that + 2^64."""
    for row in range(rows):
        out[row] = 0
        if lengths[row] >= 0:
            number, negative, sound = number_of(data, places[row], lengths[row])
            if negative and number:
                sound = sound and wraps and number <= np.uint64(1) << np.uint64(63)
                number = ~number + np.uint64(1)
            if not sound or number > high:
                bad[row] = 1
            else:
                out[row] = number


@jit
def fill_booleans(data: Array, places: Array, lengths: Array, rows: int, out: Array) -> None:
    """true → 1."""
    for row in range(rows):
        out[row] = 1 if lengths[row] == 4 else 0


@jit
def fill_reals(
    data: Array, places: Array, lengths: Array, rows: int, top: int, offsets: Array, out: Array, bad: Array
) -> int:
    """Numbers as text, one after another. Bad: more than 40 characters, or not `_is_moderate`."""
    to = 0
    for row in range(rows):
        offsets[row] = to
        if lengths[row] < 0:
            continue
        if lengths[row] > 40 or not _is_moderate(data, places[row], lengths[row], top):
            bad[row] = 1
            continue
        for i in range(lengths[row]):
            out[to + i] = data[places[row] + i]
        to += lengths[row]
    offsets[rows] = to
    return int(to)


@jit
def _is_moderate(data: Array, pos: int, size: int, top: int) -> bool:
    """Whether the digits before the point and the exponent stay below `top`."""
    end, whole, exponent = pos + size, 0, 0
    while pos < end and (data[pos] == 45 or 48 <= data[pos] <= 57):
        whole += 1
        pos += 1
    while pos < end and data[pos] != 101 and data[pos] != 69:
        pos += 1
    while pos < end:
        if 48 <= data[pos] <= 57:
            exponent = exponent * 10 + (data[pos] - 48)
            if exponent > top:
                return False
        pos += 1
    return bool(whole + exponent <= top)


@jit
def fill_short_decimals(
    data: Array, places: Array, lengths: Array, rows: int, precision: int, scale: int, out: Array, bad: Array
) -> None:
    """DECIMAL that went through a double → 128-bit unscaled integers (low, high).

    Exact where all its digits at this scale are 15 at most: no two such numbers are one double. Any other is bad.
    """
    zero, limit = np.uint64(0), np.uint64(1_000_000_000_000_000)
    most = np.uint64(1)
    for _ in range(min(precision, 15)):
        most *= np.uint64(10)
    for row in range(rows):
        out[row, 0], out[row, 1] = zero, zero
        if lengths[row] < 0:
            continue
        number, negative, sound = _scale_number(data, places[row], places[row] + lengths[row], scale, limit)
        if not sound or number >= most:
            bad[row] = 1
        elif negative and number:
            out[row, 0], out[row, 1] = ~number + np.uint64(1), ~zero
        else:
            out[row, 0] = number


@jit
def _scale_number(data: Array, pos: int, end: int, scale: int, limit: Any) -> Any:
    """(a number × 10^scale, negative, whether that is an integer below the limit)."""
    number, decimals, point = np.uint64(0), 0, False
    negative = data[pos] == 45
    if negative:
        pos += 1
    while pos < end and data[pos] != 101 and data[pos] != 69:
        if data[pos] == 46:
            point = True
        else:
            if number >= limit:
                return number, negative, False
            number = number * np.uint64(10) + np.uint64(data[pos] - 48)
            decimals += 1 if point else 0
        pos += 1
    exponent, minus = 0, False
    if pos < end:
        pos += 1
        minus = data[pos] == 45
        if minus or data[pos] == 43:
            pos += 1
        while pos < end:
            exponent = exponent * 10 + (data[pos] - 48)
            if exponent > 99:
                return number, negative, False
            pos += 1
    shift = scale - decimals + (-exponent if minus else exponent)
    while shift < 0 and number % np.uint64(10) == np.uint64(0) and number:
        number //= np.uint64(10)
        shift += 1
    if not number:
        return number, negative, True
    while shift > 0 and number < limit:
        number *= np.uint64(10)
        shift -= 1
    return number, negative, shift == 0 and number < limit


# ---------------------------------------------------------------------------------- dates and times
@jit
def _put_two(out: Array, at: int, number: int) -> None:
    out[at], out[at + 1] = 48 + number // 10, 48 + number % 10


@jit
def _put_day(out: Array, at: int, days: int) -> int:
    """YYYY-MM-DD of a day from 0001-01-01 to 9999-12-31 (the proleptic Gregorian calendar)."""
    year, month, day = date_of(days)
    _put_two(out, at, year // 100)
    _put_two(out, at + 2, year % 100)
    out[at + 4], out[at + 7] = 45, 45
    _put_two(out, at + 5, month)
    _put_two(out, at + 8, day)
    return at + 10


@jit
def _put_clock(out: Array, at: int, micros: int, fsp: int) -> int:
    """HH:MM:SS and `fsp` digits of a fraction; hours may have three digits. -1 where digits would be lost."""
    seconds, rest = micros // 1_000_000, micros % 1_000_000
    hours = seconds // 3600
    if hours > 99:
        out[at] = 48 + hours // 100
        at += 1
    _put_two(out, at, hours % 100)
    _put_two(out, at + 3, seconds // 60 % 60)
    _put_two(out, at + 6, seconds % 60)
    out[at + 2], out[at + 5] = 58, 58
    at += 8
    cut = 1
    for _ in range(6 - fsp):
        cut *= 10
    if rest % cut:
        return -1
    if fsp:
        out[at] = 46
        rest //= cut
        for i in range(fsp):
            out[at + fsp - i] = 48 + rest % 10
            rest //= 10
        at += 1 + fsp
    return at


@jit
def fill_days(
    data: Array, places: Array, lengths: Array, rows: int, zero: bool, offsets: Array, out: Array, bad: Array
) -> int:
    """Days since 1970-01-01 → DATE text. zero: day 0 is certain."""
    to = 0
    for row in range(rows):
        offsets[row] = to
        if lengths[row] >= 0:
            days, sound = signed_of(data, places[row], lengths[row])
            if not sound or not _FIRST_DAY <= days <= _LAST_DAY or (not days and not zero):
                bad[row] = 1
            else:
                to = _put_day(out, to, days)
    offsets[rows] = to
    return int(to)


@jit
def fill_moments(
    data: Array,
    places: Array,
    lengths: Array,
    rows: int,
    factor: int,
    fsp: int,
    zero: bool,
    offsets: Array,
    out: Array,
    bad: Array,
) -> int:
    """Microseconds, or milliseconds (factor 1000), since 1970-01-01 → DATETIME text."""
    to = 0
    low, high = _FIRST_DAY * _DAY // factor, ((_LAST_DAY + 1) * _DAY - 1) // factor
    for row in range(rows):
        offsets[row] = to
        if lengths[row] >= 0:
            number, sound = signed_of(data, places[row], lengths[row])
            if not sound or not low <= number <= high or (not number and not zero):
                bad[row] = 1
                continue
            micros = number * factor
            days = micros // _DAY
            at = _put_day(out, to, days)
            out[at] = 32
            end = _put_clock(out, at + 1, micros - days * _DAY, fsp)
            if end < 0:
                bad[row] = 1
            else:
                to = end
    offsets[rows] = to
    return int(to)


@jit
def fill_times(
    data: Array, places: Array, lengths: Array, rows: int, fsp: int, offsets: Array, out: Array, bad: Array
) -> int:
    """Microseconds → TIME text, up to 838:59:59.999999 on both sides."""
    to = 0
    most = 839 * 3_600_000_000 - 1
    for row in range(rows):
        offsets[row] = to
        if lengths[row] >= 0:
            micros, sound = signed_of(data, places[row], lengths[row])
            if not sound or not -most <= micros <= most:
                bad[row] = 1
                continue
            at = to
            if micros < 0:
                out[at] = 45
                at += 1
            end = _put_clock(out, at, abs(micros), fsp)
            if end < 0:
                bad[row] = 1
            else:
                to = end
    offsets[rows] = to
    return int(to)


@jit
def fill_instants(
    data: Array, places: Array, lengths: Array, rows: int, shape: Array, offsets: Array, out: Array, bad: Array
) -> int:
    """TIMESTAMP as 2026-01-02T03:04:05.678Z → its text with a space. The epoch stands for zero: left to Python."""
    to = 0
    for row in range(rows):
        offsets[row] = to
        if lengths[row] < 0:
            continue
        pos = places[row]
        end = pos + lengths[row] - 1
        if not _instant(data, pos, end, shape):
            bad[row] = 1
            continue
        for i in range(end - pos):
            out[to + i] = data[pos + i]
        out[to + 10] = 32
        to += end - pos
    offsets[rows] = to
    return int(to)


@jit
def _instant(data: Array, pos: int, end: int, shape: Array) -> bool:
    """Whether data[pos:end] is a moment of the calendar and Z follows it. shape: "0000-00-00T00:00:00"."""
    if not has_shape(data, pos, end, shape, 19) or data[end] != 90 or not fraction(data, pos + 19, end):
        return False
    year = _two_of(data, pos) * 100 + _two_of(data, pos + 2)
    month, day = _two_of(data, pos + 5), _two_of(data, pos + 8)
    if not year or not 1 <= month <= 12 or not 1 <= day <= 31:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > (29 if leap else 28) and month == 2:
        return False
    if day == 31 and month in (4, 6, 9, 11):
        return False
    hour, minute, second = _two_of(data, pos + 11), _two_of(data, pos + 14), _two_of(data, pos + 17)
    if hour > 23 or minute > 59 or second > 59:
        return False
    # In 1970 only the epoch itself is special, but it is asked for by its text, which may have a fraction.
    return bool(not (year == 1970 and month == 1 and day == 1))


@jit
def _two_of(data: Array, pos: int) -> int:
    return int(data[pos] - 48) * 10 + int(data[pos + 1] - 48)
