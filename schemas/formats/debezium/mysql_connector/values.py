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

from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.codec.sql_text import text_or_bytes
from ticdc_bridge.schemas.formats.debezium import default_values as defaults
from ticdc_bridge.schemas.formats.debezium import values as fields
from ticdc_bridge.schemas.formats.debezium.connect.value_writers import unescaped
from ticdc_bridge.schemas.formats.debezium.mysql_connector.columns import GEOMETRY, adjusted_names, column_of, fits
from ticdc_bridge.schemas.formats.debezium.mysql_connector.temporal_values import (
    TEMPORAL_KINDS,
    is_bare,
    temporal_reader,
)
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumDialect, Read
from ticdc_bridge.schemas.formats.debezium.values import json_number, json_string
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import Kind


def dialect(options: Options, format_: str = "debezium-mysql") -> DebeziumDialect:
    """How the connector writes columns; what its messages leave open is taken from the options."""
    images = defaults.null_images, defaults.default_images
    fitting = partial(_fits_options, options)
    return DebeziumDialect(format_, column_of_field, partial(reader, options), *images, fitting, True, adjusted_names)


def _fits_options(options: Options, column: Column, field: Mapping[str, Any]) -> bool:
    """Whether a definition's column can be the field's. A number that has lost its semantic name can be a date or time
    where the options say in which unit.
    """
    return fits(column, field) or (is_bare(options, field) and column.type.kind in _BARE)


_BARE = (Kind.DATE, Kind.DATETIME, Kind.TIME, Kind.YEAR)


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
    if kind in TEMPORAL_KINDS:
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
    own = _READERS.get(kind)
    return fields.reader(column) if own is None else partial(own, column)


def _refuse(column: Column, _value: Any) -> tuple[Value, str]:
    raise WireError("TYPE_UNKNOWN", column=column.name, details=f"it is {GEOMETRY}: leave the column out")


# ---- numbers
def _integer(column: Column, connect: str, value: Any) -> tuple[Value, str]:
    if isinstance(value, bool) and not connect:
        return _boolean(column, value)
    if isinstance(value, Number) or connect.startswith("int") or not column.is_unsigned64:
        return fields.reader(column)(value)
    number = int.from_bytes(_data(value), "big", signed=True)  # bigint.unsigned.handling.mode=precise
    values.check_range(number, column.type.bits, column.unsigned)
    return str(number), ""


def _boolean(column: Column, value: Any) -> tuple[Value, str]:
    """BIT(1), or an integer that a custom converter wrote so: any other number than 0 and 1 is lost."""
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {fields.shown(value)}")
    if column.type.kind is Kind.INTEGER:
        return str(int(value)), "boolean_number"
    return bytes([value]), "bit_or_tinyint" if column.vague else ""


def _data(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else values.base64_bytes(json_string(value))
    if not 0 < len(data) <= 32:
        raise ValueError(f"{len(data)} bytes are no number")
    return data


def _year(_column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(value) if type(value) is str else values.integer(json_number(value))
    if number == 1900:  # no YEAR: what the connector makes of 0000 (measured)
        return "0", ""
    values.check_year(number)
    return str(number), ""


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
    """Whether Java writes a double so: with 17 digits at most, and with an exponent from 10^7 on (Double.toString)."""
    number, exponent, _ = text.lower().partition("e")
    whole, _, fraction = number.lstrip("-").partition(".")
    return len((whole + fraction).strip("0")) <= 17 and (bool(exponent) or len(whole) <= 7)


def _is_precise(column: Column, mode: str, value: Any) -> bool:
    """Without schema: whether text is base64 of the unscaled number, or the number itself."""
    if mode in ("precise", "string"):
        return mode == "precise"
    text = json_string(value)
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
    text = json_string(value)
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
        return f"[{','.join(values.float_text(values.as_float32(float(json_number(v)))) for v in value)}]", ""
    return text_or_bytes(json_string(value)), ""


_READERS: dict[Kind, _Reader] = {
    Kind.YEAR: _year,
    Kind.ENUM: _enum,
    Kind.VECTOR: _vector,
}
