"""Dates, times and time zones: text ↔ numbers, for numba. What is not sound, zero and partial dates: NONE."""

from __future__ import annotations

from typing import Any

from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.text import Array

NONE = -(1 << 62)
MICROS_A_DAY = 86_400_000_000
DATE, DATETIME, TIME = range(3)
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


@jit
def days(data: Array, pos: int, end: int) -> int:
    """The date at the start of data[pos:end] → days since 1970."""
    if end - pos < 10 or data[pos + 4] != 45 or data[pos + 7] != 45:
        return NONE
    year, month, day = _number(data, pos, 4), _number(data, pos + 5, 2), _number(data, pos + 8, 2)
    if year < 1 or not 1 <= month <= 12 or day < 1:
        return NONE
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    february = 29 if leap else 28
    if day > (february if month == 2 else 30 if month in (4, 6, 9, 11) else 31):
        return NONE
    # Years that begin in March: the day of the year needs no table (H. Hinnant, days_from_civil).
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@jit
def date_of(number: int) -> Any:
    """Days since 1970 → (year, month, day)."""
    number += 719468
    era = number // 146097
    of_era = number - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


@jit
def _read_minutes(data: Array, pos: int, end: int) -> int:
    """ ":mm:ss" and a fraction of up to six digits → microseconds."""
    if end - pos < 6 or data[pos] != 58 or data[pos + 3] != 58:
        return NONE
    minutes, seconds = _number(data, pos + 1, 2), _number(data, pos + 4, 2)
    if not 0 <= minutes <= 59 or not 0 <= seconds <= 59:
        return NONE
    micros = (minutes * 60 + seconds) * 1_000_000
    pos += 6
    if pos == end:
        return micros
    count = end - pos - 1
    if data[pos] != 46 or not 1 <= count <= 6:
        return NONE
    fraction = _number(data, pos + 1, count)
    if fraction < 0:
        return NONE
    for _ in range(6 - count):
        fraction *= 10
    return micros + fraction


@jit
def micros(data: Array, pos: int, end: int) -> int:
    """DATETIME text → microseconds since 1970."""
    return _micros(data, pos, end) if end - pos >= 19 and data[pos + 10] == 32 else NONE


@jit
def instant(data: Array, pos: int, end: int) -> int:
    """2026-01-02T03:04:05.678Z → microseconds since 1970."""
    if end - pos < 20 or data[pos + 10] != 84 or data[end - 1] != 90:
        return NONE
    return _micros(data, pos, end - 1)


@jit
def _micros(data: Array, pos: int, end: int) -> int:
    day, hours, rest = days(data, pos, end), _number(data, pos + 11, 2), _read_minutes(data, pos + 13, end)
    if day == NONE or rest == NONE or not 0 <= hours <= 23:
        return NONE
    return day * MICROS_A_DAY + hours * 3_600_000_000 + rest


@jit
def time_micros(data: Array, pos: int, end: int) -> int:
    """TIME text → signed microseconds."""
    negative = pos < end and data[pos] == 45
    if negative:
        pos += 1
    if end - pos < 8:
        return NONE
    count = 2 if data[pos + 2] == 58 else 3
    hours, rest = _number(data, pos, count), _read_minutes(data, pos + count, end)
    if rest == NONE or hours < 0:
        return NONE
    total = hours * 3_600_000_000 + rest
    return -total if negative else total


@jit
def has_date_form(data: Array, pos: int, end: int) -> bool:
    """Whether data[pos:end] begins with digits as 0000-00-00 has them."""
    if end - pos < 10 or data[pos + 4] != 45 or data[pos + 7] != 45:
        return False
    return _number(data, pos, 4) >= 0 and _number(data, pos + 5, 2) >= 0 and _number(data, pos + 8, 2) >= 0


@jit
def has_clock_form(data: Array, pos: int, end: int) -> bool:
    """Whether data[pos:end] is digits as 00:00:00 has them, and perhaps a fraction of one to six."""
    if end - pos < 8 or data[pos + 2] != 58 or data[pos + 5] != 58:
        return False
    sound = _number(data, pos, 2) >= 0 and _number(data, pos + 3, 2) >= 0 and _number(data, pos + 6, 2) >= 0
    if end - pos == 8:
        return sound
    return bool(sound and data[pos + 8] == 46 and 10 <= end - pos <= 15 and _number(data, pos + 9, end - pos - 9) >= 0)


@jit
def is_temporal(form: int, data: Array, pos: int, end: int) -> bool:
    """Whether data[pos:end] looks like a DATE, DATETIME or TIME (`form`), zero and partial dates among them."""
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
    """Whether the text starts with 0000-00-00."""
    if end - pos < 10:
        return False
    same = True
    for i in range(10):
        same = same and data[pos + i] == (45 if i in (4, 7) else 48)
    return same


@jit
def is_zero_timestamp(data: Array, pos: int, end: int) -> bool:
    """Whether the text starts with 0000-00-00 00:00:00."""
    if end - pos < 19 or not is_zero_date(data, pos, end) or data[pos + 10] != 32:
        return False
    same = True
    for i in range(11, 19):
        same = same and data[pos + i] == (58 if i in (13, 16) else 48)
    return same


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
@jit
def _put_two(number: int, out: Array, to: int) -> None:
    out[to], out[to + 1] = 48 + number // 10, 48 + number % 10


@jit
def put_date(number: int, out: Array, to: int) -> int:
    """Days since 1970 → YYYY-MM-DD, from 0001-01-01 to 9999-12-31 (the proleptic Gregorian calendar)."""
    year, month, day = date_of(number)
    _put_two(year // 100, out, to)
    _put_two(year % 100, out, to + 2)
    _put_two(month, out, to + 5)
    _put_two(day, out, to + 8)
    out[to + 4], out[to + 7] = 45, 45
    return to + 10


@jit
def put_clock(number: int, fsp: int, out: Array, to: int) -> int:
    """Microseconds → HH:MM:SS and `fsp` digits of a fraction; hours may have three digits. -1: digits would be lost."""
    seconds, rest = number // 1_000_000, number % 1_000_000
    hours = seconds // 3600
    if hours > 99:
        out[to] = 48 + hours // 100
        to += 1
    _put_two(hours % 100, out, to)
    _put_two(seconds // 60 % 60, out, to + 3)
    _put_two(seconds % 60, out, to + 6)
    out[to + 2], out[to + 5] = 58, 58
    to += 8
    cut = 1
    for _ in range(6 - fsp):
        cut *= 10
    if rest % cut:
        return -1
    if fsp:
        out[to] = 46
        rest //= cut
        for i in range(fsp):
            out[to + fsp - i] = 48 + rest % 10
            rest //= 10
        to += 1 + fsp
    return to
