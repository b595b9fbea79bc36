"""Temporal literals as TiDB reads them → their text with a number of fraction digits.

Rules: upstream `pkg/types/time.go` (parseDatetime, parseDateTimeFromNum, matchDuration). Any punctuation separates, and
what looks like a fraction or a zone is a part of the date or time where that has not ended.
"""

import re
from datetime import datetime, timedelta
from string import punctuation

_MARK = r"[!-/:-@\[-`{-~]"
_ZONE = re.compile(r"(?<!^)(?:Z|[-+](\d\d)(?:(:?)(\d\d))?)\Z", re.ASCII)
_FRACTION = re.compile(r"(?<!^)\.(\d*)[^!-*,./:-@\[-`{-~]*\Z", re.ASCII)  # no mark but + and - behind the point
_DATETIME = re.compile(
    rf"(\d+)(?:{_MARK}+(\d+)(?:{_MARK}+(\d+)(?:(?:{_MARK}|[\sT])+(\d+)(?:{_MARK}+(\d+)(?:{_MARK}+(\d+)(?:\D.+)?)?)?)?)?)?\Z",
    re.ASCII | re.DOTALL,
)
# Digits with nothing between them → those of the year, and how many numbers there are.
_COMPACT = {5: (2, 3), 6: (2, 3), 7: (2, 4), 8: (4, 3), 9: (2, 5), 10: (2, 5), 11: (2, 6), 12: (2, 6), 14: (4, 6)}
_TIME = re.compile(r"(-?)\s*(?:(\d+)\s+)?(\d+)(?:\s*:\s*(\d+)(?:\s*:\s*(\d+))?)?\s*(?:\.(\d*))?\Z", re.ASCII)
_DATE_AND_TIME = re.compile(rf"(?:\d{{12}}|\d{{14}})(?!\d)|(?:\d+{_MARK}){{2}}\d+[ T]", re.ASCII)


def number_text(number: int, fsp: int) -> str:
    """The text of a number as a date and time. ValueError for what is no date."""
    if 0 < number < 101 or number < 0:
        raise ValueError("it is no date")
    size = 6 if number <= 991231 else 8 if number <= 99991231 else 12 if number <= 991231235959 else 14
    return datetime_text(str(number).zfill(size) if number else "00-00-00", fsp)


def datetime_text(text: str, fsp: int) -> str:
    """YYYY-MM-DD hh:mm:ss[.f]. ValueError for what is no date, and for a time in a zone of its own."""
    zone = _ZONE.search(text)
    text = text[: zone.start()].rstrip(punctuation) if zone else text
    another = _ZONE.search(text)
    fraction = _FRACTION.search(text, 0, another.start() if another else len(text))
    digits = fraction[1] if fraction else ""
    match = _DATETIME.match((text[: fraction.start()].rstrip(punctuation) if fraction else text).strip())
    parts = [part for part in match.groups() if part] if match else []
    if digits and not _has_ended(parts):
        parts, digits = [*parts, digits], ""
    if zone and zone[1] and not _has_ended(parts) and (zone[2] or not zone[3]):
        parts, zone = [*parts, zone[1], *([zone[3]] if zone[3] else [])][:6], None
    if len(parts) == 1 and len(parts[0]) in _COMPACT:
        width, count = _COMPACT[len(parts[0])]
        numbers = [parts[0][:width], *re.findall(r"\d\d?", parts[0][width:])]
        if count in (3, 5):  # the digits behind the point go on with the time
            numbers += re.findall(r"\d\d?", digits[: 12 - 2 * count])
    elif len(parts) > 2:
        width, count, numbers = len(parts[0]), len(parts), parts
    else:
        raise ValueError("it is no date")
    if zone:
        raise ValueError(
            "TiDB moves it to the session's zone once and keeps the value: give the table's SHOW CREATE TABLE"
        )
    year, month, day, hour, minute, second = [*map(int, numbers), 0, 0, 0][:6]
    if width <= 2 and (len(parts) == 1 or digits or any(map(int, numbers))):  # 00-00-00 is the zero date
        year += 2000 if year < 70 else 1900
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError("it is no date")
    more, micros = _round_fraction(digits if count == 6 else "", fsp)
    if more:
        moved = datetime(year, month, day, hour, minute, second) + timedelta(seconds=1)
        year, month, day, hour, minute, second = moved.timetuple()[:6]
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{_fraction(micros, fsp)}"


def _has_ended(parts: list[str]) -> bool:
    """True if a fraction or a zone may come: behind the seconds, or digits with nothing between them."""
    return len(parts) > 5 or (len(parts) == 1 and len(parts[0]) > 4)


def time_text(text: str, fsp: int) -> str:
    """[-]hh:mm:ss[.f], hours up to 838. ValueError for what is no time."""
    text = text.strip()
    if match := _TIME.match(text):
        days, hours, minutes, seconds = (int(number or 0) for number in match.groups()[1:5])
        if match[2] is None and match[4] is None:  # digits with nothing between them
            hours, minutes, seconds = hours // 10000, hours // 100 % 100, hours % 100
        hours += days * 24
        if minutes < 60 and seconds < 60 and hours < 839:
            more, micros = _round_fraction(match[6] or "", fsp)
            total = hours * 3600 + minutes * 60 + seconds + more
            hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
            sign = match[1] if total or micros else ""
            return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}{_fraction(micros, fsp)}"
    if not _DATE_AND_TIME.match(text):
        raise ValueError("it is no time")
    return time_text(datetime_text(text, 6)[11:], fsp)


def _round_fraction(digits: str, fsp: int) -> tuple[int, int]:
    """Fraction digits → (whole seconds to add, units of 10^-fsp)."""
    padded = digits.ljust(fsp + 1, "0")
    units = int(padded[:fsp] or 0) + (padded[fsp] >= "5")
    scale: int = 10**fsp
    return divmod(units, scale)


def _fraction(units: int, fsp: int) -> str:
    return f".{units:0{fsp}d}" if fsp else ""
