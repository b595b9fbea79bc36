"""Temporal literals as TiDB reads them → their text with a number of fraction digits.

Rules: upstream `pkg/types/time.go` (ParseTime, ParseDuration): any punctuation separates, two-digit years, compact
digits, rounding half up to the fraction digits.
"""

import re
from datetime import datetime, timedelta

_COMPACT = re.compile(r"(\d{4}|\d{2})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?\Z", re.ASCII)
_DATETIME = re.compile(
    r"\s*(\d{1,4})[^\w\s](\d{1,2})[^\w\s](\d{1,2})(?:[T\s]+(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2}))?)?)?"
    r"(?:\.(\d*))?\s*\Z",
    re.ASCII,
)
# Numbers behind the seconds, with another sign than a point before them: TiDB cuts them off with a warning.
_MORE = re.compile(
    r"(\s*\d{1,4}(?:[^\w\s]\d{1,2}){2}[T\s]+\d{1,2}(?:[^\w\s]\d{1,2}){2})[^\w.]\s*[\d.][^a-zA-Z]*\Z", re.ASCII
)
ZONED = re.compile(r".*:\d{1,2}:\d{1,2}(?:\.\d*)?\s*(?:Z|[-+]\d\d(?::?\d\d)?)\Z", re.ASCII)
"""A time in a zone of its own, which TiDB moves to the session's."""
_TIME = re.compile(r"\s*(-?)(?:(\d+) )?(\d+):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d*))?\s*\Z", re.ASCII)
_COMPACT_TIME = re.compile(r"\s*(-?)(\d{1,7})(?:\.(\d*))?\s*\Z", re.ASCII)


def datetime_text(text: str, fsp: int) -> str:
    """YYYY-MM-DD hh:mm:ss[.f]. ValueError for what is no date."""
    more = _MORE.match(text)
    text = more[1] if more else text
    integer, _, fraction = text.strip().partition(".")
    compact = _COMPACT.match(integer)
    match = None if compact else _DATETIME.match(text)
    if compact:
        pieces = [int(number or 0) for number in compact.groups()]
        digits, year_text = fraction, compact[1]
    elif match:
        pieces = [int(number or 0) for number in match.groups()[:6]]
        digits, year_text = match[7] or "", match[1]
    elif text.strip() == "0":
        pieces, digits, year_text = [0] * 6, "", "0000"
    else:
        raise ValueError("it is no date")
    if len(year_text) <= 2 and (compact or digits or any(pieces)):  # 00-00-00 is the zero date
        pieces[0] += 2000 if pieces[0] < 70 else 1900
    year, month, day, hour, minute, second = pieces
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError("it is no date")
    seconds, micros = _round_fraction(digits, fsp)
    if seconds:
        moved = datetime(year, month, day, hour, minute, second) + timedelta(seconds=1)
        year, month, day, hour, minute, second = moved.timetuple()[:6]
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{_fraction(micros, fsp)}"


def time_text(text: str, fsp: int) -> str:
    """[-]hh:mm:ss[.f], hours up to 838. ValueError for what is no time."""
    match = _TIME.match(text)
    if match:
        sign, digits = match[1], match[6] or ""
        hours = int(match[2] or 0) * 24 + int(match[3])
        minutes, seconds = int(match[4]), int(match[5] or 0)
    else:
        compact = _COMPACT_TIME.match(text)
        if not compact:
            return datetime_text(text, fsp)[11:]  # a date and a time: its time
        sign, digits, number = compact[1], compact[3] or "", int(compact[2])
        hours, minutes, seconds = number // 10000, number // 100 % 100, number % 100
    if minutes > 59 or seconds > 59 or hours > 838:
        raise ValueError("it is no time")
    more, micros = _round_fraction(digits, fsp)
    total = hours * 3600 + minutes * 60 + seconds + more
    hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
    if not total and not micros:
        sign = ""
    return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{_fraction(micros, fsp)}"


def _round_fraction(digits: str, fsp: int) -> tuple[int, int]:
    """Fraction digits → (whole seconds to add, units of 10^-fsp)."""
    padded = digits.ljust(fsp + 1, "0")
    units = int(padded[:fsp] or 0) + (padded[fsp] >= "5")
    scale: int = 10**fsp
    return divmod(units, scale)


def _fraction(units: int, fsp: int) -> str:
    return f".{units:0{fsp}d}" if fsp else ""
