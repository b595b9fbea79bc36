"""Dates and times as text, as custom converters of the connector write them.

Source: Java's `java.time` types as text (`2024-01-02T03:04:05+08:00[Asia/Shanghai]`, no seconds where they are 0) and
ISO 8601; what else a converter was told to write is refused. A DATETIME has no zone: an offset in its text may have
been added to the clock that was stored, or the clock moved by it, and nothing says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ticdc_bridge.schemas.codec.sql_text import pad_fraction
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

_SECONDS = r"(?::\d\d(?:\.\d{1,9})?)?"
_MOMENT = re.compile(
    rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ](?P<clock>\d\d:\d\d{_SECONDS}))?"
    r"(?P<zone> ?(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?(?:\[(?P<region>[A-Za-z0-9_+:/-]+)\])?\Z",
    re.ASCII,
)
_CLOCK = re.compile(rf"(-?\d{{2,3}}:\d\d{_SECONDS})Z?\Z", re.ASCII)
ZONE_ASSUMED = "zone_assumed"

TextReader = Callable[[Column, str, str], tuple[str, str]]
"""(column, text, zone of TIMESTAMP text that names none) → (plain value, flag or ""). ValueError."""


def _moment(text: str, what: str) -> re.Match[str]:
    match = _MOMENT.match(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no {what}: such as 2024-01-02 03:04:05 is read, or its form in ISO 8601")
    return match


def _date(_column: Column, text: str, _zone: str) -> tuple[str, str]:
    match = _moment(text, "date")
    if (match["clock"] or "").strip("0:."):
        raise ValueError(f"{text[:40]!r} has a time of day, which a DATE has not")
    _check_date(match["date"])
    return match["date"], ""


def _check_date(date: str) -> None:
    """ValueError for an impossible date; zero and partial dates are values of a DATE."""
    if "00" not in (date[5:7], date[8:]):
        values.days_of_date(date)
    elif date[5:7] > "12" or date[8:] > "31":
        raise ValueError(f"{date} is not a date")


def _clock(clock: str | None) -> str:
    """hh:mm:ss[.f] of what may end with the minutes, or be left out. ValueError."""
    text = clock or "00:00:00"
    text = text if text.count(":") == 2 else text + ":00"
    values.micros_of_time(text.partition(".")[0])
    return text


def _stored(match: re.Match[str], column: Column) -> str:
    clock = _clock(match["clock"])
    if clock >= "24":
        raise ValueError(f"{clock} is no time of day")
    _check_date(match["date"])
    return pad_fraction(f"{match['date']} {clock}", column.scale)


def _offset(zone: str) -> str:
    """+08, +0800, UTC or Z → the name of a zone."""
    zone = zone.strip()
    if zone[0] not in "+-":
        return "UTC"
    digits = zone[1:].replace(":", "")
    return f"{zone[0]}{digits[:2]}:{digits[2:] or '00'}"


def _datetime(column: Column, text: str, _zone: str) -> tuple[str, str]:
    match = _moment(text, "datetime")
    offset = _offset(match["zone"]) if match["zone"] else "UTC"
    if offset not in ("UTC", "+00:00", "-00:00"):
        details = "a DATETIME has no zone, and nothing says whether the clock was moved by this one"
        raise ValueError(f"{text[:40]!r}: {details}; let the converter write it without")
    return _stored(match, column), ""


def _timestamp(column: Column, text: str, zone: str) -> tuple[str, str]:
    """In UTC; text without a zone is in the zone that the reader was told (--time-zone)."""
    match = _moment(text, "timestamp")
    stored = _stored(match, column)
    if match["date"] == "0000-00-00":
        return stored, ""
    own = _offset(match["zone"]) if match["zone"] else match["region"]
    shifted, twice = values.shift_zone(stored, own or zone, "UTC")
    if not own:
        return shifted, ZONE_ASSUMED
    return shifted, "timestamp_fold" if twice else ""


def _time(column: Column, text: str, _zone: str) -> tuple[str, str]:
    match = _CLOCK.match(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time: such as 03:04:05 is read")
    return pad_fraction(_clock(match[1]), column.scale), ""


def _year(_column: Column, text: str, _zone: str) -> tuple[str, str]:
    return str(values.year(text)), ""


TEXT_READERS: dict[Kind, TextReader] = {
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    Kind.YEAR: _year,
}
"""How a column of each temporal kind is read from text."""
