"""Values of Debezium's MySQL connector: payload → plain value, in every handling mode.

Sources: Debezium's documentation of the MySQL connector, "Data type mappings"; measured with Debezium 3.6.1. A semantic
type name says how a value is written. Where there is none, or no schema at all, the options say
(`decimal_handling_mode`, `time_precision_mode`, `binary_handling_mode`); what they leave open is an error or a flag.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from schemas.codec.json_exact import Number
from schemas.codec.sql_text import text_or_bytes
from schemas.formats.debezium import default_values as defaults
from schemas.formats.debezium import values as fields
from schemas.formats.debezium.connect.value_writers import unescaped
from schemas.formats.debezium.mysql_connector.columns import CONNECT, GEOMETRY, SEMANTIC, TIME, column_of, fits
from schemas.formats.debezium.mysql_connector.schema import temporal_name
from schemas.formats.debezium.row_reader import DebeziumDialect, Read
from schemas.model import values
from schemas.model.errors import WireError
from schemas.model.options import Options
from schemas.model.table import Column, Value
from schemas.model.types import BY_NAME, Kind


def dialect(options: Options, format_: str = "debezium-mysql") -> DebeziumDialect:
    """How the connector writes columns; what its messages leave open is taken from the options."""
    return DebeziumDialect(
        format_, column_of_field, partial(reader, options), defaults.null_images, defaults.default_images, fits,
        connector=True,
    )  # fmt: skip


def column_of_field(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column, with its default. KeyError or ValueError."""
    column = column_of(field)
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
    if column.vague == GEOMETRY:
        return partial(_refuse, column)
    kind = column.type.kind
    semantic = _semantic_of(options, column) if field is None else field.get("name", "")
    if kind in _TEMPORALS:
        read = _TEMPORALS[kind].get(semantic)
        if read is None:
            raise ValueError(f"column {column.name!r}: {column.type.name} as {semantic or 'a plain value'!r}")
        if kind is Kind.TIMESTAMP and field is not None:  # the schema's default counts: the connector shifts no zone
            default = field.get("default")
            plain = str(default).removesuffix("Z").replace("T", " ") if default is not None else None
            column = replace(column, has_default=plain is not None, default=plain)
        return partial(read, column, semantic)
    connect = field["type"] if field is not None else ""
    if kind is Kind.BINARY:
        return partial(_binary, column, options.binary_handling_mode, connect)
    if kind is Kind.TEXT and column.vague:
        return partial(_open_text, options.binary_handling_mode)
    if kind is Kind.DECIMAL:
        return partial(_decimal, column, options.decimal_handling_mode, connect)
    own = _READERS.get(kind)
    return fields.reader(column) if own is None else partial(own, column)


def _semantic_of(options: Options, column: Column) -> str:
    """The semantic name of a temporal column without schema: what `time_precision_mode` makes of it."""
    kind, mode = column.type.kind, options.time_precision_mode
    if kind is Kind.TIMESTAMP:
        return TIME + "ZonedTimestamp"
    if kind is Kind.DATE:
        return TIME + ("IsoDate" if mode == "isostring" else "Date")
    if kind not in (Kind.DATETIME, Kind.TIME):
        return ""
    if mode == "auto":
        details = "without schema nothing says in which unit it is: set time_precision_mode (--from-options)"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return temporal_name(column, mode)


def _refuse(column: Column, _value: Any) -> tuple[Value, str]:
    raise WireError("TYPE_UNKNOWN", column=column.name, details=f"it is {GEOMETRY}: leave the column out")


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError("a string is needed")
    return value


def _whole_number(value: Any) -> int:
    if not isinstance(value, Number):
        raise ValueError("a number is needed")
    return values.integer(str(value))


# ---- numbers
def _integer(column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, Number):
        return fields.reader(column)(value)
    number = int.from_bytes(_data(value), "big", signed=True)  # bigint.unsigned.handling.mode=precise
    values.check_range(number, column.type.bits, column.unsigned)
    return str(number), ""


def _data(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else values.base64_bytes(_text(value))
    if not 0 < len(data) <= 32:
        raise ValueError(f"{len(data)} bytes are no number")
    return data


def _year(_column: Column, value: Any) -> tuple[Value, str]:
    number = _whole_number(value)
    if number == 1900:  # no YEAR: what the connector makes of 0000 (measured)
        return "0", ""
    values.check_year(number)
    return str(number), ""


def _decimal(column: Column, mode: str, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, Number):
        return fields.reader(column)(value)
    precise = isinstance(value, bytes) or connect == "bytes" or (not connect and _is_precise(column, mode, value))
    if not precise:
        text = _text(value)
        values.check_decimal(text)
        return (text if column.scale is None else values.plain_decimal(text, column.scale)), ""
    if column.scale is None:
        raise ValueError("the scale of a DECIMAL is not known")
    unscaled = int.from_bytes(_data(value), "big", signed=True)
    if column.length is not None and abs(unscaled) >= 10**column.length:
        raise ValueError(f"it does not fit DECIMAL({column.length},{column.scale})")
    return values.decimal_text(unscaled, column.scale), ""


def _is_precise(column: Column, mode: str, value: Any) -> bool:
    """Without schema: whether text is base64 of the unscaled number, or the number itself."""
    if mode in ("precise", "string"):
        return mode == "precise"
    text = _text(value)
    digits, base = _fits(values.check_decimal, text), _fits(values.base64_bytes, text)
    if digits and base:
        details = f"{text[:40]!r} is a number, and base64 of one: set decimal_handling_mode (--from-options)"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return base


def _fits(check: Callable[[str], Any], text: str) -> bool:
    try:
        check(text)
    except ValueError:
        return False
    return True


# ---- text and bytes
def _decode_url_safe(text: str) -> bytes:
    data = base64.b64decode(text, altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(data).decode("ascii") != text:
        raise ValueError("not canonical base64")
    return data


def _hex(text: str) -> bytes:
    data = bytes.fromhex(text)
    if data.hex() != text:
        raise ValueError("not hexadecimal")
    return data


_BINARY_TEXT: dict[str, Callable[[str], bytes]] = {
    "base64": values.base64_bytes,
    "base64-url-safe": _decode_url_safe,
    "hex": _hex,
}


def _binary_images(mode: str, text: str) -> set[bytes]:
    """What binary text can stand for: in the mode given, else in each."""
    images = set()
    for name, decode in _BINARY_TEXT.items():
        if mode in ("auto", name):
            try:
                images.add(decode(text))
            except ValueError:
                continue
    return images


def _binary(column: Column, mode: str, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, bytes):
        return value, ""
    text = _text(value)
    if connect == "bytes" or mode == "bytes":
        return values.base64_bytes(text), ""
    images = _binary_images(mode, text)
    if not images:
        raise ValueError(f"{text[:40]!r} is not binary text")
    if len(images) > 1:
        details = f"{text[:40]!r} can be base64 and hexadecimal: set binary_handling_mode (--from-options)"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return images.pop(), ""


def _open_text(mode: str, value: Any) -> tuple[Value, str]:
    text = text_or_bytes(_text(value))
    if isinstance(text, bytes) or mode == "bytes" or not text:
        return text, ""
    return text, "binary_or_text" if _binary_images(mode, text) else ""


def _enum(column: Column, value: Any) -> tuple[Value, str]:
    text = _text(value)
    plain = unescaped(text)
    if text == plain or plain not in column.elements:
        return text_or_bytes(text), ""
    # Values read from the binlog are escaped as the list is, those of a snapshot are not (measured).
    return (text, "enum_escape_unknown") if text in column.elements else (plain, "")


def _vector(_column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, list):
        return f"[{','.join(values.float_text(values.as_float32(float(_number(v)))) for v in value)}]", ""
    return text_or_bytes(_text(value)), ""


def _number(value: Any) -> str:
    if not isinstance(value, Number):
        raise ValueError("a number is needed")
    return str(value)


# ---- dates and times
def _pad_fraction(text: str, fsp: int | None) -> str:
    """Text with as many fraction digits as the column has; a snapshot trims zeros. ValueError if it has more."""
    if fsp is None:
        return text
    whole, _, fraction = text.partition(".")
    if fraction[fsp:].strip("0"):
        raise ValueError(f"{text} has more than {fsp} fraction digits")
    fraction = fraction[:fsp].ljust(fsp, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _digits(column: Column, semantic: str) -> int | None:
    """Fraction digits of the text: the column's; else all that the form can have (None: as it is written)."""
    if column.scale is not None or ".Iso" in semantic:
        return column.scale
    return 3 if semantic.startswith(CONNECT) or semantic == TIME + "Time" else 6


def _utc_text(value: Any) -> str:
    text = _text(value)
    if not text.endswith("Z"):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    return text[:-1]


def _zero_flag(column: Column, zero: bool) -> str:
    return "temporal_zero_ambiguous" if zero and not column.nullable else ""


def _date(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    days = values.days_of_date(_utc_text(value)) if semantic.endswith("IsoDate") else _whole_number(value)
    return values.date_of_days(days), _zero_flag(column, not days)


_PER_MICRO = {"Timestamp": 1000, "Time": 1000}  # milliseconds; the others are micro- or nanoseconds


def _micros(semantic: str, value: Any) -> int:
    number, name = _whole_number(value), semantic.rpartition(".")[2]
    if name.startswith("Nano"):
        micros, left = divmod(number, 1000)
        if left:
            raise ValueError(f"{number} has digits below a microsecond")
        return micros
    return number * _PER_MICRO.get(name, 1)


def _cut_flag(column: Column, semantic: str) -> str:
    """connect mode cuts at the millisecond: where the column has more digits, or nobody knows."""
    is_exact = column.scale is not None and column.scale <= 3
    return "" if is_exact or not semantic.startswith(CONNECT) else "fraction_cut"


def _datetime(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTimestamp"):
        text = _utc_text(value).replace("T", " ")
        micros = values.micros_of_datetime(text)
    else:
        micros = _micros(semantic, value)
        text = values.datetime_of_micros(micros, 6)
    text = _pad_fraction(text, _digits(column, semantic))
    return text, _zero_flag(column, not micros) or _cut_flag(column, semantic)


def _timestamp(column: Column, _semantic: str, value: Any) -> tuple[Value, str]:
    text = _utc_text(value).replace("T", " ")
    if values.micros_of_datetime(text) == 0:  # no TIMESTAMP is that early: the zero value
        return _pad_fraction(values.ZERO_TIMESTAMP, column.scale), ""
    # In a NOT NULL column the connector writes the default for the zero value.
    return _pad_fraction(text, column.scale), _zero_flag(column, column.has_default and text == column.default)


def _time(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTime"):
        text = _utc_text(value)
        values.micros_of_time(text)
    else:
        text = values.time_of_micros(_micros(semantic, value), 6)
    return _pad_fraction(text, _digits(column, semantic)), _cut_flag(column, semantic)


_Temporal = Callable[[Column, str, Any], tuple[Value, str]]
_FUNCTIONS: dict[str, _Temporal] = {"date": _date, "datetime": _datetime, "timestamp": _timestamp, "time": _time}
_TEMPORALS: dict[Kind, dict[str, _Temporal]] = {
    BY_NAME[name].kind: {s: function for s, (type_, _) in SEMANTIC.items() if type_ == name}
    for name, function in _FUNCTIONS.items()
}
_READERS: dict[Kind, _Reader] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _year,
    Kind.ENUM: _enum,
    Kind.VECTOR: _vector,
}
