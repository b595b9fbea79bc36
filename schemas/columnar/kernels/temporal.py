"""Dates, times and time zones: text ↔ numbers, for numba. What is not sound, zero and partial dates: NONE."""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import equal_bytes, read_eight
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.numbers import PAIRS, put_digits
from ticdc_bridge.schemas.columnar.kernels.text import TENS, Array

NONE = -(1 << 62)
MICROS_A_DAY = 86_400_000_000
DATE, DATETIME, TIME = range(3)
_LOW32 = np.uint64(0xFFFFFFFF)
_U0, _U1, _U2, _U3, _U5, _U9, _U10, _U11, _U15, _U23, _U28, _U30, _U59, _U60, _U100, _U153, _U365 = (
    np.uint64(n) for n in (0, 1, 2, 3, 5, 9, 10, 11, 15, 23, 28, 30, 59, 60, 100, 153, 365)
)


def _form(text: bytes) -> tuple[Any, Any]:
    """What eight bytes of such a form are compared with by an exclusive or, and what has its high bit set if added to
    a byte that is then too large: digits become 0 to 9, others 0."""
    tops = bytes(118 if byte == 48 else 127 for byte in text)
    return np.uint64(int.from_bytes(text, "little")), np.uint64(int.from_bytes(tops, "little"))


_YEAR_MONTH, _YEAR_MONTH_TOPS = _form(b"0000-00-")
_MONTH_DAY, _MONTH_DAY_TOPS = _form(b"00-00-00")
_CLOCK, _CLOCK_TOPS = _form(b"00:00:00")
_ZERO = np.frombuffer(b"0000-00-00 00:00:00", np.uint8)
_HIGH = np.uint64(0x8080808080808080)
ONCE, TWICE, NEVER = range(3)  # how often a clock shows a time


@jit
def _number(data: Array, pos: int, count: int) -> int:
    """`count` digits as a number; below 0 for anything else."""
    number, sound = 0, True
    for i in range(pos, pos + count):
        digit = int(data[i]) - 48
        sound = sound and 0 <= digit <= 9
        number = number * 10 + digit
    return number if sound else -1


@inline
def _two(digits: Any, shift: int) -> Any:
    """The number of two digits, which are the bytes of a uint64 from bit `shift` on."""
    return (digits >> np.uint64(shift) & _U15) * _U10 + (digits >> np.uint64(shift + 8) & _U15)


@jit
def days(data: Array, pos: int, end: int) -> Any:
    """The date at the start of data[pos:end] → days since 1970."""
    if end - pos < 10:
        return NONE
    first, last = read_eight(data, pos) ^ _YEAR_MONTH, read_eight(data, pos + 2) ^ _MONTH_DAY
    if ((first + _YEAR_MONTH_TOPS | first) | (last + _MONTH_DAY_TOPS | last)) & _HIGH:
        return NONE
    year, month, day = _two(first, 0) * _U100 + _two(first, 16), _two(first, 40), _two(last, 48)
    if year < _U1 or month - _U1 > _U11 or day < _U1:
        return NONE
    if day > _U28:
        leap = not year & _U3 and (year % _U100 != _U0 or not year & _U15)
        if day > (_U28 + np.uint64(leap) if month == _U2 else _U30 + ((month ^ month >> _U3) & _U1)):
            return NONE
    # Years that begin in March: the day of the year needs no table (H. Hinnant, days_from_civil).
    if month > _U2:
        month -= _U3
    else:
        month += _U9
        year -= _U1
    century = year // _U100
    of_year = (_U153 * month + _U2) // _U5 + day
    return np.int64(year * _U365 + (year >> _U2) - century + (century >> _U2) + of_year) - 719469


@jit
def _read_fraction(data: Array, pos: int, end: int) -> int:
    """Nothing, or a point and up to six digits → microseconds; below 0 for anything else."""
    count = end - pos - 1
    if count < 0:
        return 0
    if data[pos] != 46 or not 1 <= count <= 6:
        return -1
    fraction = _number(data, pos + 1, count)
    for _ in range(6 - count):
        fraction *= 10
    return fraction


@jit
def micros(data: Array, pos: int, end: int) -> Any:
    """DATETIME text → microseconds since 1970."""
    return _micros(data, pos, end) if end - pos >= 19 and data[pos + 10] == 32 else NONE


@jit
def instant(data: Array, pos: int, end: int) -> Any:
    """2026-01-02T03:04:05.678Z → microseconds since 1970."""
    if end - pos < 20 or data[pos + 10] != 84 or data[end - 1] != 90:
        return NONE
    return _micros(data, pos, end - 1)


@jit
def _micros(data: Array, pos: int, end: int) -> Any:
    """data[pos:end] has 19 bytes at least, of which that between date and clock is any."""
    day, clock = days(data, pos, end), read_eight(data, pos + 11) ^ _CLOCK
    hours, minutes, seconds = _two(clock, 0), _two(clock, 24), _two(clock, 48)
    if day == NONE or (clock + _CLOCK_TOPS | clock) & _HIGH or hours > _U23 or minutes > _U59 or seconds > _U59:
        return NONE
    fraction = _read_fraction(data, pos + 19, end)
    if fraction < 0:
        return NONE
    total = np.int64((hours * _U60 + minutes) * _U60 + seconds)
    return day * MICROS_A_DAY + total * 1_000_000 + fraction


@jit
def time_micros(data: Array, pos: int, end: int) -> int:
    """TIME text → signed microseconds."""
    negative = pos < end and data[pos] == 45
    if negative:
        pos += 1
    if end - pos < 8:
        return NONE
    count = 2 if data[pos + 2] == 58 else 3
    hours, pos = _number(data, pos, count), pos + count
    if hours < 0 or end - pos < 6 or data[pos] != 58 or data[pos + 3] != 58:
        return NONE
    minutes, seconds = _number(data, pos + 1, 2), _number(data, pos + 4, 2)
    fraction = _read_fraction(data, pos + 6, end)
    if not 0 <= minutes <= 59 or not 0 <= seconds <= 59 or fraction < 0:
        return NONE
    total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    return -total if negative else total


@jit
def has_date_form(data: Array, pos: int, end: int) -> bool:
    """True if data[pos:end] begins with digits as 0000-00-00 has them."""
    if end - pos < 10 or data[pos + 4] != 45 or data[pos + 7] != 45:
        return False
    return _number(data, pos, 4) >= 0 and _number(data, pos + 5, 2) >= 0 and _number(data, pos + 8, 2) >= 0


@jit
def has_clock_form(data: Array, pos: int, end: int) -> bool:
    """True if data[pos:end] is digits as 00:00:00 has them, and perhaps a fraction of one to six."""
    if end - pos < 8 or data[pos + 2] != 58 or data[pos + 5] != 58:
        return False
    sound = _number(data, pos, 2) >= 0 and _number(data, pos + 3, 2) >= 0 and _number(data, pos + 6, 2) >= 0
    if end - pos == 8:
        return sound
    return bool(sound and data[pos + 8] == 46 and 10 <= end - pos <= 15 and _number(data, pos + 9, end - pos - 9) >= 0)


@jit
def is_temporal(form: int, data: Array, pos: int, end: int) -> bool:
    """True if data[pos:end] looks like a DATE, DATETIME or TIME (`form`), zero and partial dates among them."""
    if form == DATE:
        return end - pos == 10 and has_date_form(data, pos, end)
    if form == DATETIME:
        return bool(has_date_form(data, pos, end) and has_clock_form(data, pos + 11, end) and data[pos + 10] == 32)
    if pos < end and data[pos] == 45:
        pos += 1
    if end - pos >= 9 and data[pos + 2] != 58:  # three digits of hours
        if not 48 <= data[pos] <= 57:
            return False
        pos += 1
    return has_clock_form(data, pos, end)


@jit
def is_zero_date(data: Array, pos: int, end: int) -> bool:
    """True if the text starts with 0000-00-00."""
    return end - pos >= 10 and equal_bytes(data, pos, _ZERO, 0, 10)


@jit
def is_zero_timestamp(data: Array, pos: int, end: int) -> bool:
    """True if the text starts with 0000-00-00 00:00:00."""
    return end - pos >= 19 and equal_bytes(data, pos, _ZERO, 0, 19)


@jit
def to_utc(seconds: int, first: int, last: int, zones: Array) -> Any:
    """A local time, in seconds since 1970 as a clock shows them → (the same in UTC, ONCE, TWICE or NEVER).

    zones[first:last]: the zone's stretches of local time, (first second, offset, seen). A time that is seen TWICE is
    taken for the first.
    """
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if zones[middle, 0] <= seconds:
            low = middle + 1
        else:
            high = middle
    if low == first:
        return 0, NEVER
    return seconds - zones[low - 1, 1], zones[low - 1, 2]


# ---------------------------------------------------------------------------------- numbers → text
@inline
def _put_two(number: Any, out: Array, to: int) -> None:
    """number: below 100, of 64 bits without a sign."""
    pair = number << _U1
    out[to], out[to + 1] = PAIRS[pair], PAIRS[pair + _U1]


@jit
def put_date(number: Any, out: Array, to: int) -> int:
    """Days since 1970 → YYYY-MM-DD, from 0001-01-01 to 9999-12-31 (the proleptic Gregorian calendar)."""
    # Without a sign, so that a division by a constant is a product (C. Neri, L. Schneider, 2022).
    quarters = np.uint64(number + 719468) * np.uint64(4) + _U3
    century = quarters // np.uint64(146097)
    scaled = (quarters - century * np.uint64(146097) | _U3) * np.uint64(2939745)
    of_year = (scaled & _LOW32) // np.uint64(2939745 * 4)
    month_and_day = of_year * np.uint64(2141) + np.uint64(197913)
    month, day = month_and_day >> np.uint64(16), (month_and_day & np.uint64(0xFFFF)) // np.uint64(2141)
    year = century * _U100 + (scaled >> np.uint64(32))
    if of_year >= np.uint64(306):
        year, month = year + _U1, month - np.uint64(12)
    century = year // _U100
    _put_two(century, out, to)
    _put_two(year - century * _U100, out, to + 2)
    _put_two(month, out, to + 5)
    _put_two(day + _U1, out, to + 8)
    out[to + 4], out[to + 7] = 45, 45
    return to + 10


@jit
def put_clock(number: Any, fsp: int, out: Array, to: int) -> int:
    """Microseconds → HH:MM:SS and `fsp` digits of a fraction; hours may have three digits. -1: digits would be lost."""
    total = np.uint64(number)
    seconds = total // np.uint64(1_000_000)
    rest, minutes = total - seconds * np.uint64(1_000_000), seconds // _U60
    hours = minutes // _U60
    if hours > np.uint64(99):
        out[to] = np.uint64(48) + hours // _U100
        to += 1
    _put_two(hours % _U100, out, to)
    _put_two(minutes - hours * _U60, out, to + 3)
    _put_two(seconds - minutes * _U60, out, to + 6)
    out[to + 2], out[to + 5] = 58, 58
    to += 8
    if not fsp:
        return -1 if rest else to
    cut = TENS[6 - fsp]
    if rest % cut:
        return -1
    out[to] = 46
    return put_digits(rest // cut, fsp, out, to + 1)
