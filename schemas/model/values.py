"""Values in the row model and their conversions (docs/reference.md, "JSON rows").

A value is SQL text, bytes (binary strings and BIT, big-endian) or None. Everything here is exact or raises ValueError;
the callers, who know the column, turn that into an error with its name.
"""

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.table import Value

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_MICROS_A_DAY = 86_400_000_000
_LAST_DAY = date(9999, 12, 31).toordinal()
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\Z", re.ASCII)
_TIME = re.compile(r"(-?)(\d\d\d?):(\d\d):(\d\d)(?:\.(\d{1,6}))?\Z", re.ASCII)
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,19})\Z", re.ASCII)
_REAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,65}(?:\.\d{1,65})?\Z", re.ASCII)
_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)\Z", re.ASCII)
_FLOAT32 = struct.Struct("<f")
ZERO_TIMESTAMP = "0000-00-00 00:00:00"


# ---- integers and reals
def integer(text: str, bits: int = 0, unsigned: bool = False) -> int:
    """Plain integer text → int. ValueError for anything else ("1_0", " 1", "+1", more digits than TiDB has).

    bits: of the integer type that holds it, where one is to.
    """
    if not _INTEGER.match(text):
        raise ValueError(f"{text[:40]!r} is not an integer")
    return check_range(int(text), bits, unsigned) if bits else int(text)


def year(text: str) -> int:
    """YEAR text → 0 or 1901 to 2155; MySQL and TiDB show 0 as 0000. ValueError."""
    return check_year(0 if text == "0000" else integer(text))


def real(text: str) -> float:
    """Number text → float. ValueError for what only Python takes for one ("nan", "1_0", " 1"), and for infinity."""
    if not _REAL.match(text):
        raise ValueError(f"{text[:40]!r} is not a number")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond a double")
    return number


def json_double(text: str) -> int | float:
    """A number as a JSON writer in Go sees it: a float64, without a fraction where it has none."""
    number = real(text)
    if not number.is_integer() or abs(number) >= 1e21 or (not number and text.startswith("-")):
        return number
    # The shortest digits, padded with zeros: 2^64-1 is written 18446744073709552000.
    return int(Decimal(repr(number)))


def double_text(value: float) -> str:
    """Shortest text that reads back to the same float64, in Go's %g notation. ValueError for NaN and infinities."""
    return _percent_g(value, repr(value))


def float_text(value: float) -> str:
    """Shortest text that reads back to the same float32, in Go's %g notation. ValueError for NaN and infinities."""
    return _percent_g(value, shortest_float32(value))


def shortest_float32(value: float) -> str:
    """Shortest text that reads back to the same float32, in any notation."""
    text = _FARTHER.get(abs(value))
    if text is not None:
        return text if value > 0 else f"-{text}"
    # Up to six digits always survive a float32, unless it is subnormal: then look for fewer.
    for digits in range(6 if abs(value) >= 1.2e-38 else 1, 10):
        text = f"{value:.{digits}g}"
        try:
            if _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0] == value:
                return text
        except OverflowError:
            continue  # rounded up past the largest float32: it takes more digits
    return repr(value)


# Powers of two, whose neighbours below are nearer than those above. The nearest text of eight digits is the neighbour's
# below, but the next one is theirs. All others of the kind were tried.
_FARTHER = {2.0**-96: "1.2621775e-29", 2.0**87: "1.5474251e+26", 2.0**90: "1.2379401e+27"}


def as_float32(value: float) -> float:
    """The nearest float32, as a float. ValueError when it is out of range."""
    try:
        return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:
        raise ValueError(f"{value} is beyond a float32") from None


def parse_float32(text: str) -> float:
    """FLOAT's text → its float32, as a float. ValueError for a number that is the text of none."""
    number = real(text)
    single = as_float32(number)
    # Up to six digits are always a float32's, where it is not subnormal.
    if single != number and (len(text) > 7 or "e" in text.lower()) and float_text(single) != double_text(number):
        raise ValueError(f"{text} is no float32")
    return single


def _percent_g(value: float, shortest: str) -> str:
    """Go's strconv 'g' with the shortest digits: an exponent below 1e-4 and from 1e+06 on, of two digits at least."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no SQL value")
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    lead, text = "-" if sign else "", "".join(map(str, digits))
    if text == "0":
        return lead + "0"
    power = len(text) + int(exponent) - 1
    if power < -4 or power >= 6:
        fraction = "." + text[1:] if len(text) > 1 else ""
        return f"{lead}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{lead}0.{'0' * (-power - 1)}{text}"
    integer_digits, fraction = text[: power + 1].ljust(power + 1, "0"), text[power + 1 :]
    return f"{lead}{integer_digits}.{fraction}" if fraction else lead + integer_digits


# ---- decimals
def decimal_text(unscaled: int, scale: int) -> str:
    """Plain notation with exactly `scale` fraction digits."""
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled))
    if not scale:
        return sign + digits
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def unscaled_decimal(text: str, precision: int, scale: int) -> int:
    """DECIMAL text → unscaled integer. ValueError unless it fits DECIMAL(precision, scale) without rounding."""
    check_decimal(text)
    integer_digits, _, fraction = text.removeprefix("-").partition(".")
    if fraction[scale:].strip("0"):
        raise ValueError(f"{text} has more than {scale} fraction digits")
    unscaled = int(integer_digits + fraction[:scale].ljust(scale, "0"))
    if unscaled >= 10**precision:
        raise ValueError(f"{text} does not fit DECIMAL({precision},{scale})")
    return -unscaled if text.startswith("-") else unscaled


def plain_decimal(text: str, scale: int | None) -> str:
    """A JSON number's text → plain notation; with `scale`, padded to it. ValueError if digits would have to go."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text[:40]} is no DECIMAL") from None
    if not number.is_finite() or number.adjusted() > 400 or number.as_tuple().exponent < -400:  # type: ignore[operator]
        raise ValueError(f"{text[:40]} is no DECIMAL")
    sign, digits, exponent = number.as_tuple()
    unscaled, have = int("".join(map(str, digits))), -int(exponent)
    if have < 0:
        unscaled, have = unscaled * 10**-have, 0
    while have and unscaled % 10 == 0 and (scale is None or have > scale):
        unscaled, have = unscaled // 10, have - 1
    if scale is not None:
        if have > scale:
            raise ValueError(f"{text} has more than {scale} fraction digits")
        unscaled, have = unscaled * 10 ** (scale - have), scale
    return decimal_text(-unscaled if sign else unscaled, have)


def check_decimal(text: str) -> str:
    """The text. ValueError unless it is a decimal number in plain notation."""
    if not _DECIMAL.match(text):
        raise ValueError(f"{text[:80]!r} is not a decimal number")
    return text


@lru_cache(maxsize=4096)
def decimal_check(precision: int | None, scale: int | None) -> Callable[[str], str]:
    """As `check_decimal`, with a ValueError too for text that does not fit DECIMAL(precision, scale) without rounding.

    Where either is not known: `check_decimal` itself.
    """
    if precision is None or scale is None:
        return check_decimal
    integer_digits = rf"0*\d{{1,{precision - scale}}}" if precision > scale else "0+"
    fraction = rf"(?:\.\d{{1,{scale}}})?" if scale else ""
    fits = re.compile(f"-?{integer_digits}{fraction}", re.ASCII).fullmatch

    def check(text: str) -> str:
        if not fits(text):
            unscaled_decimal(text, precision, scale)  # it says why, or that only zeros are too many
        return text

    return check


def survives_double(text: str) -> bool:
    """True when a DECIMAL can be read back exactly from the shortest text of its float64."""
    return Decimal(repr(float(text))) == Decimal(text)


def integer_limits(bits: int, unsigned: bool) -> tuple[int, int]:
    """The least and the greatest number that an integer type of so many bits holds."""
    return (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def check_range(number: int, bits: int, unsigned: bool) -> int:
    """The number. ValueError unless an integer type of so many bits holds it."""
    low, high = integer_limits(bits, unsigned)
    if not low <= number <= high:
        raise ValueError(f"{number} does not fit {'an unsigned' if unsigned else 'a'} {bits}-bit integer")
    return number


def check_year(number: int) -> int:
    """The number. ValueError unless it is a YEAR: 0 or 1901 to 2155."""
    if number and not 1901 <= number <= 2155:
        raise ValueError(f"{number} is no YEAR")
    return number


# ---- bytes and bits
def base64_bytes(text: str) -> bytes:
    """Base64 text → bytes. ValueError for anything that is not canonical base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not base64") from None
    if base64_text(data) != text:
        raise ValueError(f"{text[:40]!r} is not canonical base64")
    return data


def utf8_or_bytes(data: bytes) -> str | bytes:
    """Text, or the bytes themselves where they are not UTF-8 (columns of latin1 or gbk)."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def bit_size(length: int) -> int:
    """Bytes of a BIT(length) value."""
    return (length + 7) // 8


def bit_number(data: str | bytes | None) -> int:
    """The number that BIT's bytes are. ValueError for text."""
    if not isinstance(data, bytes):
        raise ValueError("text, where BIT's bytes are needed")
    return int.from_bytes(data, "big")


def bit_bytes(text: str, length: int | None) -> bytes:
    """The text of BIT's number → its bytes, the fewest where the length is not known. ValueError if it does not fit."""
    number = integer(text, length or 64, unsigned=True)
    return number.to_bytes(bit_size(length) if length else max(1, bit_size(number.bit_length())), "big")


def check_bit(length: int, data: bytes) -> bytes:
    """The bytes. ValueError unless they are those of a BIT(length)."""
    number = bit_number(data)
    if len(data) != bit_size(length) or number >> length:
        raise ValueError(f"0x{data[:16].hex()} is no BIT({length})")
    return data


# ---- enum and set
def set_names(mask: int, elements: tuple[str, ...]) -> str:
    """The elements of a SET whose bits are set, as a row has them."""
    return ",".join(element for bit, element in enumerate(elements) if mask >> bit & 1)


def set_mask(names: str, elements: tuple[str, ...]) -> int:
    """The bits of a SET's elements, as a row has them. ValueError for what is no element."""
    mask = 0
    for name in names.split(",") if names else ():
        if name not in elements:
            _refuse_element(name, elements)
        mask |= 1 << elements.index(name)
    return mask


def enum_index(name: str, elements: tuple[str, ...]) -> int:
    """The index of an ENUM's element, 0 of the empty text that is none. ValueError for what is no element."""
    if name in elements:
        return elements.index(name) + 1
    return _refuse_element(name, elements) if name else 0


def _refuse_element(name: str, elements: tuple[str, ...]) -> NoReturn:
    if not elements:
        raise ValueError(f"its elements are not known; give a table definition ({Hint.DDL})")
    raise ValueError(f"{name[:80]!r} is not one of its elements")


def split_allowed(allowed: str, escapes_all: bool = False) -> tuple[str, ...]:
    """An `allowed` list → elements. TiCDC's: commas inside an element are escaped by a backslash, and nothing else is.

    escapes_all: what comes behind a backslash is meant as it is, whatever it is.
    """
    elements, current, escaped = [], "", False
    for char in allowed:
        if escaped:
            current += char if char == "," or escapes_all else "\\" + char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            elements.append(current)
            current = ""
        else:
            current += char
    return (*elements, current + "\\" * (escaped and not escapes_all))


def join_allowed(elements: tuple[str, ...]) -> str:
    """Elements → TiCDC's `allowed` list (upstream common.EscapeEnumAndSetOptions)."""
    return ",".join(e.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for e in elements)


# ---- dates and times
def days_of_date(text: str) -> int:
    """DATE text → days since 1970-01-01. ValueError for zero, partial and impossible dates."""
    match = _DATE.match(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a date")
    return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH_DAY


def date_of_days(days: int) -> str:
    """Days since 1970-01-01 → DATE text. ValueError outside years 1 to 9999."""
    if not 1 <= days + _EPOCH_DAY <= _LAST_DAY:
        raise ValueError(f"{days} days since 1970 is outside years 1 to 9999")
    return date.fromordinal(days + _EPOCH_DAY).isoformat()


def micros_of_datetime(text: str) -> int:
    """DATETIME text → microseconds since 1970-01-01 00:00:00, taken as UTC. ValueError for zero and partial dates."""
    match = _DATETIME.match(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a datetime")
    clock = _clock(match[2], match[3], match[4], match[5])
    if clock >= _MICROS_A_DAY:
        raise ValueError(f"{text!r} is not a datetime")
    return days_of_date(match[1]) * _MICROS_A_DAY + clock


def datetime_of_micros(micros: int, fsp: int) -> str:
    """Microseconds since 1970-01-01 (UTC) → DATETIME text with fsp digits. ValueError if digits would be lost."""
    days, clock = divmod(micros, _MICROS_A_DAY)
    return f"{date_of_days(days)} {_clock_text(clock, fsp)}"


def micros_of_time(text: str) -> int:
    """TIME text → signed microseconds."""
    match = _TIME.match(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a time")
    micros = _clock(match[2], match[3], match[4], match[5])
    return -micros if match[1] else micros


def time_of_micros(micros: int, fsp: int) -> str:
    """Signed microseconds → TIME text with fsp digits. ValueError beyond 838:59:59.999999."""
    if abs(micros) > 839 * 3_600_000_000 - 1:
        raise ValueError(f"{micros} microseconds is beyond TIME's range")
    return ("-" if micros < 0 else "") + _clock_text(abs(micros), fsp)


def fraction_digits(text: str) -> int:
    """Fraction digits of temporal text: fsp, since TiCDC always writes all of them."""
    return len(text.partition(".")[2])


def _clock(hours: str, minutes: str, seconds: str, fraction: str | None) -> int:
    if int(minutes) > 59 or int(seconds) > 59:
        raise ValueError(f"{hours}:{minutes}:{seconds} is not a time")
    total = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return total * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _clock_text(micros: int, fsp: int) -> str:
    seconds, micros = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    fraction = f"{micros:06d}"
    if fraction[fsp:].strip("0"):
        raise ValueError(f"{text}.{fraction} has more than {fsp} fraction digits")
    return f"{text}.{fraction[:fsp]}" if fsp else text


# ---- time zones
@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """A time zone by IANA name, or a fixed offset such as +08:00. ValueError when there is no such zone."""
    if match := _OFFSET.match(name):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"no time zone {name!r}: give an IANA name such as Asia/Shanghai, or +08:00") from error


def shift_zone(text: str, source: str, target: str) -> tuple[str, bool]:
    """TIMESTAMP text in zone `source` → text in zone `target`, fraction digits kept.

    The second result is True when either text is ambiguous (clocks were set back: it happened twice; a reader takes
    the first). ValueError for a time that never was (clocks were set forward). The zero value stays: it has no zone.
    """
    if text.startswith(ZERO_TIMESTAMP) or source == target:
        return text, False
    clock, _, fraction = text.partition(".")
    moment = _EPOCH + timedelta(microseconds=micros_of_datetime(clock))
    early = moment.replace(tzinfo=zone(source))
    before, after = early.utcoffset(), early.replace(fold=1).utcoffset()
    if before is not None and after is not None and before < after:
        raise ValueError(f"{text} never was in {source}: clocks were set forward")
    target_time = early.astimezone(zone(target))
    shifted = f"{target_time.year:04d}-{target_time.month:02d}-{target_time.day:02d} {target_time:%H:%M:%S}"
    twice = before != after or target_time.replace(fold=0).utcoffset() != target_time.replace(fold=1).utcoffset()
    return (f"{shifted}.{fraction}" if fraction else shifted), twice


def is_clock(default: Value) -> bool:
    """True for the expression CURRENT_TIMESTAMP, with or without fraction digits."""
    return isinstance(default, str) and default.upper().startswith("CURRENT_TIMESTAMP")
