"""Values of Debezium's MySQL connector: payload → plain value, in every handling mode.

Sources: Debezium's documentation of the MySQL connector, "Data type mappings"; measured with Debezium 3.6.1. A semantic
type name says how a value is written. Where there is none, or no schema at all, the options say
(`decimal_handling_mode`, `time_precision_mode`, `binary_handling_mode`); what they leave open is an error or a flag.
"""

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.codec.sql_text import pad_fraction, text_or_bytes
from ticdc_bridge.schemas.formats.debezium import values as fields
from ticdc_bridge.schemas.formats.debezium.connect import BINARY_TEXT, unescaped
from ticdc_bridge.schemas.formats.debezium.mysql_connector import schema
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumDialect, Read
from ticdc_bridge.schemas.formats.debezium.values import json_number, json_string, utc_text
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind

# ---- Dates and times as text, as custom converters of the connector write them.
#
# Source: Java's `java.time` types as text (`2024-01-02T03:04:05+08:00[Asia/Shanghai]`, no seconds where they are 0) and
# ISO 8601; what else a converter was told to write is refused. A DATETIME has no zone: an offset in its text may have
# been added to the clock that was stored, or the clock moved by it, and nothing says which.

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


def _read_date(_column: Column, text: str, _zone: str) -> tuple[str, str]:
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


def _read_datetime(column: Column, text: str, _zone: str) -> tuple[str, str]:
    match = _moment(text, "datetime")
    offset = _offset(match["zone"]) if match["zone"] else "UTC"
    if offset not in ("UTC", "+00:00", "-00:00"):
        details = "a DATETIME has no zone, and nothing says whether the clock was moved by this one"
        raise ValueError(f"{text[:40]!r}: {details}; let the converter write it without")
    return _stored(match, column), ""


def _read_timestamp(column: Column, text: str, zone: str) -> tuple[str, str]:
    """In UTC; text without a zone is in the zone that the reader was told (--time-zone)."""
    match = _moment(text, "timestamp")
    stored = _stored(match, column)
    if match["date"] == "0000-00-00":
        return stored, ""
    offset = _offset(match["zone"]) if match["zone"] else match["region"]
    shifted, twice = values.shift_zone(stored, offset or zone, "UTC")
    return shifted, ("timestamp_fold" if twice else "") if offset else ZONE_ASSUMED


def _read_time(column: Column, text: str, _zone: str) -> tuple[str, str]:
    match = _CLOCK.match(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time: such as 03:04:05 is read")
    return pad_fraction(_clock(match[1]), column.scale), ""


TEXT_READERS: dict[Kind, TextReader] = {
    Kind.DATE: _read_date,
    Kind.DATETIME: _read_datetime,
    Kind.TIMESTAMP: _read_timestamp,
    Kind.TIME: _read_time,
    Kind.YEAR: lambda _column, text, _zone: (str(values.year(text)), ""),
}
"""How a column of each temporal kind is read from text."""


# ---- Dates and times of Debezium's MySQL connector: payload → plain value, by semantic name, option or text.
#
# Source: Debezium's documentation of the MySQL connector, "Temporal types"; measured with Debezium 3.6.1.


def temporal_reader(options: Options, column: Column, field: Mapping[str, Any] | None) -> Read:
    """Compiled reader of a temporal column's values: by the field's semantic name. Text of a custom converter has none.

    field: None without schema; then the options say, and the value itself; so they do of a number that has lost its
    name. ValueError for a name of another type.
    """
    kind = column.type.kind
    read_text = partial(_temporal_text, column, options.time_zone)
    is_by_options = field is None or is_unnamed(options, field)
    semantic = _semantic_of(options, column) if is_by_options or field is None else field.get("name", "")
    if field is not None and not semantic and field["type"] == "string":
        return read_text
    if semantic == _UNKNOWN_UNIT:
        return partial(_text_only, column, read_text)
    read = _TEMPORALS[kind].get(semantic)
    if read is None:
        raise ValueError(f"column {column.name!r}: {column.type.name} as {semantic or 'a plain value'!r}")
    if kind is Kind.TIMESTAMP and field is not None:  # the schema's default counts: the connector shifts no zone
        default = field.get("default")
        plain = str(default).removesuffix("Z").replace("T", " ") if default is not None else None
        column = replace(column, has_default=plain is not None, default=plain)
    by_name = partial(read, column, semantic)
    if field is not None or ".Iso" in semantic:
        return by_name
    return partial(_text_or, read_text, by_name, "Z" if kind is Kind.TIMESTAMP else "")


def is_unnamed(options: Options, field: Mapping[str, Any]) -> bool:
    """True if a field is a number without semantic name, and `time_precision_mode` says in which unit a time is."""
    has_unit = options.time_precision_mode not in ("auto", "isostring")
    return has_unit and not field.get("name") and field["type"] in ("int32", "int64")


def _semantic_of(options: Options, column: Column) -> str:
    """The semantic name of a temporal column without schema: what `time_precision_mode` makes of it."""
    kind, mode = column.type.kind, options.time_precision_mode
    if kind is Kind.TIMESTAMP:
        return schema.TIME + "ZonedTimestamp"
    if kind is Kind.DATE:
        return schema.TIME + ("IsoDate" if mode == "isostring" else "Date")
    return _UNKNOWN_UNIT if mode == "auto" else schema.temporal_name(column, mode)


_UNKNOWN_UNIT = "unknown"


def _text_only(column: Column, read_text: Read, value: Any) -> tuple[Value, str]:
    if isinstance(value, Number):
        details = f"without schema nothing says in which unit it is: set time_precision_mode ({Hint.READ_OPTIONS})"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return read_text(value)


def _text_or(read_text: Read, by_name: Read, end: str, value: Any) -> tuple[Value, str]:
    """Without schema: text is a custom converter's, but for that which ends as the connector's own does."""
    return by_name(value) if type(value) is not str or (end and value.endswith(end)) else read_text(value)


def _temporal_text(column: Column, zone: str, value: Any) -> tuple[Value, str]:
    return TEXT_READERS[column.type.kind](column, json_string(value), zone)


def _digits(column: Column, semantic: str) -> int | None:
    """Fraction digits of the text: the column's; else all that the form can have (None: as it is written)."""
    if column.scale is not None or ".Iso" in semantic:
        return column.scale
    return 3 if semantic.startswith(schema.CONNECT) or semantic == schema.TIME + "Time" else 6


def _zero_flag(column: Column, zero: bool) -> str:
    return "temporal_zero_ambiguous" if zero and not column.nullable else ""


def _date(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    days = values.days_of_date(utc_text(value)) if semantic.endswith("IsoDate") else values.integer(json_number(value))
    return values.date_of_days(days), _zero_flag(column, not days)


def _micros(semantic: str, value: Any) -> int:
    number, name = values.integer(json_number(value)), semantic.rpartition(".")[2]
    if name.startswith("Nano"):
        micros, left = divmod(number, 1000)
        if left:
            raise ValueError(f"{number} has digits below a microsecond")
        return micros
    return number * (1000 if name in ("Timestamp", "Time") else 1)  # milliseconds, or microseconds


def _cut_flag(column: Column, semantic: str) -> str:
    """connect mode cuts at the millisecond: where the column has more digits, or that is not known."""
    is_exact = column.scale is not None and column.scale <= 3
    return "" if is_exact or not semantic.startswith(schema.CONNECT) else "fraction_cut"


def _datetime(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTimestamp"):
        text = utc_text(value).replace("T", " ")
        micros = values.micros_of_datetime(text)
    else:
        micros = _micros(semantic, value)
        text = values.datetime_of_micros(micros, 6)
    text = pad_fraction(text, _digits(column, semantic))
    return text, _zero_flag(column, not micros) or _cut_flag(column, semantic)


def _timestamp(column: Column, _semantic: str, value: Any) -> tuple[Value, str]:
    text = json_string(value)
    if not text.endswith("Z"):
        read, flag = TEXT_READERS[Kind.TIMESTAMP](column, text, "UTC")
        if flag == ZONE_ASSUMED:
            raise ValueError(f"{text[:40]!r} has no zone")
        return read, flag
    text = text[:-1].replace("T", " ")
    if values.micros_of_datetime(text) == 0:  # no TIMESTAMP is that early: the zero value
        return pad_fraction(values.ZERO_TIMESTAMP, column.scale), ""
    # In a NOT NULL column the connector writes the default for the zero value.
    return pad_fraction(text, column.scale), _zero_flag(column, column.has_default and text == column.default)


def _time(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTime"):
        text = utc_text(value)
        values.micros_of_time(text)
    else:
        text = values.time_of_micros(_micros(semantic, value), 6)
    return pad_fraction(text, _digits(column, semantic)), _cut_flag(column, semantic)


_Temporal = Callable[[Column, str, Any], tuple[Value, str]]
_TEMPORALS: dict[Kind, dict[str, _Temporal]] = {
    BY_NAME[name].kind: {s: function for s, (type_, _) in schema.SEMANTIC.items() if type_ == name}
    for name, function in (("date", _date), ("datetime", _datetime), ("timestamp", _timestamp), ("time", _time))
}


def dialect(options: Options, format_: str = "debezium-mysql") -> DebeziumDialect:
    """How the connector writes columns; what its messages leave open is taken from the options."""

    def fits_options(column: Column, field: Mapping[str, Any]) -> bool:
        """A number that has lost its semantic name can be a date or time where the options say in which unit."""
        is_time = column.type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIME, Kind.YEAR)
        return schema.fits(column, field) or (is_unnamed(options, field) and is_time)

    images = fields.null_images, fields.default_images
    read = partial(reader, options)
    left_out = _placeholders(options.unavailable_value_placeholder)
    return DebeziumDialect(format_, column_of_field, read, *images, fits_options, True, schema.adjusted_names, left_out)


def _placeholders(text: str) -> tuple[str | bytes, ...]:
    """`unavailable.value.placeholder`, which may be `hex:` and bytes, in every form that the connector writes it in."""
    try:
        data = bytes.fromhex(text.removeprefix("hex:")) if text.startswith("hex:") else text.encode()
    except ValueError as error:
        details = f"option unavailable_value_placeholder={text[:40]!r}: hexadecimal digits are needed after hex:"
        raise SetupError("USAGE", details=details) from error
    return (data.decode("utf-8", "replace"), data, *(write(data) for write in BINARY_TEXT.values()))


def column_of_field(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column, with its default. KeyError or ValueError."""
    column = schema.column_of(field)
    return replace(column, has_default=True, default=_default(column, field)) if "default" in field else column


def _default(column: Column, field: Mapping[str, Any]) -> Value:
    """Schema default → plain value; text that is not of the column's form stays as it is (never used for values)."""
    default = field["default"]
    try:
        return reader(Options(), column, field)(default)[0]
    except (ValueError, ArithmeticError, WireError):
        return default if isinstance(default, bytes) else str(default)


# ---------------------------------------------------------------------------------- payload → plain value
_Reader = Callable[[Column, Any], tuple[Value, str]]


def reader(options: Options, column: Column, field: Mapping[str, Any] | None) -> Read:
    """Compiled reader of a column's values; `field` is its Connect field, None without schema.

    WireError TYPE_UNKNOWN where the options must say how the column is written.
    """
    if column.vague == schema.GEOMETRY:
        return partial(_refuse, column)
    kind = column.type.kind
    if kind in _TEMPORALS:
        return temporal_reader(options, column, field)
    connect = field["type"] if field is not None else ""
    if kind is Kind.BINARY:
        return partial(_binary, column, options.binary_handling_mode, connect)
    if kind is Kind.TEXT and column.vague:
        return partial(_open_text, options.binary_handling_mode)
    if kind is Kind.DECIMAL:
        return partial(_decimal, column, options.decimal_handling_mode, connect)
    if connect == "boolean" and kind in (Kind.INTEGER, Kind.BIT):
        return partial(_boolean, column)
    if kind is Kind.INTEGER:
        return partial(_integer, column, connect)
    special = _READERS.get(kind)
    return fields.reader(column) if special is None else partial(special, column)


def _refuse(column: Column, _value: Any) -> tuple[Value, str]:
    raise WireError("TYPE_UNKNOWN", column=column.name, details=f"it is {schema.GEOMETRY}: leave the column out")


# ---- numbers
def _integer(column: Column, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, bool) and not connect:
        return _boolean(column, value)
    is_text = not connect and str(value).isdigit()  # base64 of a number that is not negative begins with a letter
    if isinstance(value, Number) or connect.startswith("int") or not column.is_unsigned64 or is_text:
        return fields.reader(column)(value)
    number = int.from_bytes(_data(value), "big", signed=True)  # bigint.unsigned.handling.mode=precise
    return str(values.check_range(number, column.type.bits, column.unsigned)), ""


def _boolean(column: Column, value: Any) -> tuple[Value, str]:
    """BIT(1), or an integer that a custom converter wrote so: any other number than 0 and 1 is lost."""
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {fields.shown(value)}")
    if column.type.kind is Kind.INTEGER:
        return str(int(value)), "boolean_number"
    return fields.reader(column)(value)[0], "bit_or_tinyint" if column.vague else ""


def _data(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else values.base64_bytes(json_string(value))
    if not 0 < len(data) <= 32:
        raise ValueError(f"{len(data)} bytes are no number")
    return data


def _year(_column: Column, value: Any) -> tuple[Value, str]:
    text = value if type(value) is str else json_number(value)
    # 1900 is no YEAR: what the connector makes of 0000 (measured)
    return "0" if text == "1900" else str(values.year(text)), ""


def _decimal(column: Column, mode: str, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, Number):
        # All digits of the DECIMAL with decimal.format=NUMERIC, a double with decimal.handling.mode=double. The schema
        # says which it is, else decimal_handling_mode, else the number's text.
        by_text = not connect and mode == "auto" and not _may_be_double(value)
        if connect in ("double", "float") or not (connect or by_text or mode in ("precise", "string")):
            return fields.reader(column)(value)
        text = values.plain_decimal(value, column.scale)
        if column.length is not None and column.scale is not None:
            values.unscaled_decimal(text, column.length, column.scale)
        return text, ""
    precise = isinstance(value, bytes) or connect == "bytes" or (not connect and _is_precise(column, mode, value))
    if not precise:
        return _decimal_string(column, json_string(value)), ""
    if column.scale is None:
        raise ValueError("the scale of a DECIMAL is not known")
    unscaled = int.from_bytes(_data(value), "big", signed=True)
    if column.length is not None and abs(unscaled) >= 10**column.length:
        raise ValueError(f"it does not fit DECIMAL({column.length},{column.scale})")
    return values.decimal_text(unscaled, column.scale), ""


def _decimal_string(column: Column, text: str) -> str:
    """All digits; of a scale above 6 zero is 0E-8, and a small number 1E-8 (Java's BigDecimal.toString)."""
    digits, _, exponent = text.partition("E-")
    values.check_decimal(digits)
    if column.scale is not None:
        return values.plain_decimal(text, column.scale)
    if not exponent:
        return text
    return values.plain_decimal(text, values.fraction_digits(digits) + values.integer(exponent))


def _may_be_double(text: str) -> bool:
    """True if Java writes a double so: with 17 digits at most, and with an exponent from 10^7 on (Double.toString)."""
    number, exponent, _ = text.lower().partition("e")
    integer, _, fraction = number.lstrip("-").partition(".")
    return len((integer + fraction).strip("0")) <= 17 and (bool(exponent) or len(integer) <= 7)


def _is_precise(column: Column, mode: str, value: Any) -> bool:
    """Without schema: whether text is base64 of the unscaled number, or the number itself."""
    if mode in ("precise", "string"):
        return mode == "precise"
    text = json_string(value)
    digits, base = fields.passes(values.check_decimal, text), fields.passes(values.base64_bytes, text)
    if digits and base:
        details = f"{text[:40]!r} is a number, and base64 of one: set decimal_handling_mode ({Hint.READ_OPTIONS})"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return base


# ---- text and bytes
_BINARY_TEXT: dict[str, Callable[[str], bytes]] = {
    "base64": partial(base64.b64decode, validate=True),
    "base64-url-safe": partial(base64.b64decode, altchars=b"-_", validate=True),
    "hex": bytes.fromhex,
}


def _binary_images(mode: str, text: str) -> set[bytes]:
    """What binary text can stand for: in the mode given, else in each."""
    images = set()
    for name, decode in _BINARY_TEXT.items():
        if mode in ("auto", name):
            with suppress(ValueError):
                data = decode(text)
                if BINARY_TEXT[name](data) == text:  # canonical
                    images.add(data)
    return images


def _binary(column: Column, mode: str, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, bytes):
        return value, ""
    text = json_string(value)
    if connect == "bytes" or mode == "bytes":
        return values.base64_bytes(text), ""
    images = _binary_images(mode, text)
    if not images:
        raise ValueError(f"{text[:40]!r} is not binary text")
    if len(images) > 1:
        details = f"{text[:40]!r} can be base64 and hexadecimal: set binary_handling_mode ({Hint.READ_OPTIONS})"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return images.pop(), ""


def _open_text(mode: str, value: Any) -> tuple[Value, str]:
    text = text_or_bytes(json_string(value))
    if isinstance(text, bytes) or mode == "bytes" or (mode == "auto" and not text):
        return text, ""
    return text, "binary_or_text" if _binary_images(mode, text) else ""


def _enum(column: Column, value: Any) -> tuple[Value, str]:
    text = json_string(value)
    plain = unescaped(text)
    if text == plain or plain not in column.elements:
        return text_or_bytes(text), ""
    # Values read from the binlog are escaped as the list is, those of a snapshot are not (measured).
    return (text, "enum_escape_unknown") if text in column.elements else (plain, "")


def _vector(_column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, list):
        return f"[{','.join(values.float_text(values.as_float32(values.real(json_number(v)))) for v in value)}]", ""
    return text_or_bytes(json_string(value)), ""


_READERS: dict[Kind, _Reader] = {Kind.YEAR: _year, Kind.ENUM: _enum, Kind.VECTOR: _vector}
