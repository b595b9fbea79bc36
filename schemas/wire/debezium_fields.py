"""Columns in TiCDC's Debezium JSON: Connect schema → column, JSON value ↔ plain value.

Sources: ticdc-wire.md §2.1, types.md §1; upstream ticdc `codec/debezium/codec.go`.

A JSON number is read as its text (`Number`), so that no digit passes through a float on the way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from schemas import values
from schemas.codec.json_exact import Number
from schemas.errors import LossyError
from schemas.publish import debezium as publish
from schemas.publish.debezium import json_double
from schemas.table import Column, Value
from schemas.types import BY_CONNECT, BY_NAME, BY_SEMANTIC, Kind
from schemas.wire.options import Options

_EPOCH_TIMESTAMP = "1970-01-01T00:00:00Z"
ANY_TYPE = "a number, text, a date or anything else"


# ---------------------------------------------------------------------------------- Connect schema → column
def column_of_field(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column. KeyError or ValueError for what TiCDC does not write."""
    connect, semantic = field["type"], field.get("name", "")
    parameters = field.get("parameters", {})
    vague = ""
    unsigned = False
    if "tidb_type" in field:
        name, _, sign = field["tidb_type"].partition(" ")
        kind, unsigned = BY_NAME[name], sign == "unsigned"
    elif semantic:
        kind = BY_SEMANTIC[semantic]
    else:
        kind, vague = BY_CONNECT[connect]
    length = int(parameters["length"]) if "length" in parameters else 1 if connect == "boolean" else None
    scale = None
    if semantic.endswith(".Timestamp"):
        scale = 3
    elif semantic.endswith(".MicroTimestamp"):
        scale = 6
    elif kind.kind is Kind.FLOAT and connect == "double":
        scale = 0  # FLOAT(M,D); D itself is not told
    elements: tuple[str, ...] = ()
    if "allowed" in parameters:
        allowed = parameters["allowed"]
        elements = values.split_allowed(allowed) if kind.kind is Kind.ENUM else tuple(allowed.split(","))
    column = Column(
        field["field"], kind, unsigned, length, scale, elements, nullable=bool(field["optional"]), vague=vague
    )
    return (
        replace(column, has_default=True, default=_default(column, field["default"])) if "default" in field else column
    )


def _default(column: Column, default: Any) -> Value:
    """Schema default → plain value; text that is not of the column's form stays as it is (never used for values)."""
    try:
        if isinstance(default, str) and not isinstance(default, Number) and column.type.kind is Kind.TIMESTAMP:
            return default.removesuffix("Z").replace("T", " ")
        if column.type.kind is Kind.BINARY:
            return str(default).encode()
        return reader(column)(default)[0]
    except ValueError:
        return str(default)


# ---------------------------------------------------------------------------------- JSON value → plain value
Read = Callable[[Any], tuple[Value, str]]
"""JSON value → (plain value, flag or ""). ValueError when the value is not of the column's type."""


def reader(column: Column) -> Read:
    """Compiled reader of a column's JSON values."""
    return partial(_READERS[column.type.kind], column)


def _number(value: Any) -> str:
    if not isinstance(value, Number):
        raise ValueError(f"a JSON number is needed, not {_shown(value)}")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError(f"a JSON string is needed, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)[:60]


def _integer(column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(_number(value))
    if number < 0 and column.unsigned:
        return str(number % (1 << 64)), ""  # BIGINT UNSIGNED travels as int64
    # Without a definition nobody knows whether a negative int64 is a BIGINT or a BIGINT UNSIGNED over 2^63-1.
    return str(number), "sign_unknown" if number < 0 and column.vague and column.type.bits == 64 else ""


def _float(column: Column, value: Any) -> tuple[Value, str]:
    return values.float_text(values.as_float32(float(_number(value)))), ""


def _double(column: Column, value: Any) -> tuple[Value, str]:
    return values.double_text(float(_number(value))), ""


def _decimal(column: Column, value: Any) -> tuple[Value, str]:
    text = _number(value)
    if column.scale is not None:
        try:
            exact = values.plain_decimal(text, column.scale)
        except ValueError:
            exact = ""
        # Below 10^15 a float64 names one DECIMAL of this scale only (types.md §3).
        if exact and len(exact.replace(".", "").lstrip("-0")) <= 15:
            return exact, ""
    return values.plain_decimal(text, None), "lossy_decimal"


def _bit(column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00", ""
    data = values.base64_bytes(_text(value))[::-1]
    size = values.bit_size(column.length) if column.length else len(data)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are no BIT({column.length})")
    return data, ""


def _string(column: Column, value: Any) -> tuple[Value, str]:
    text = utf8_or_bytes(_text(value))
    if isinstance(text, bytes):
        return text, ""
    if column.vague and text and _is_base64(text):
        return text, "binary_or_text"
    return text, ""


def utf8_or_bytes(text: str) -> str | bytes:
    """Text of a message read with surrogateescape; the bytes where they are not UTF-8 (TiCDC copies them raw).

    ValueError for a lone surrogate that was escaped in the JSON: no bytes stand for it.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


def _is_base64(text: str) -> bool:
    try:
        values.base64_bytes(text)
    except ValueError:
        return False
    return True


def _binary(column: Column, value: Any) -> tuple[Value, str]:
    return values.base64_bytes(_text(value)), ""


def _date(column: Column, value: Any) -> tuple[Value, str]:
    days = values.integer(_number(value))
    return values.date_of_days(days), "" if days or column.nullable else "temporal_zero_ambiguous"


def _datetime(column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(_number(value))
    milliseconds = column.scale is not None and column.scale <= 3
    text = values.datetime_of_micros(
        number * 1000 if milliseconds else number, 6 if column.scale is None else column.scale
    )
    return text, "" if number or column.nullable else "temporal_zero_ambiguous"


def _timestamp(column: Column, value: Any) -> tuple[Value, str]:
    text = _text(value)
    if text == _EPOCH_TIMESTAMP:  # no TIMESTAMP is that early: it stands for the zero value (types.md §4 row 5)
        return values.ZERO_TIMESTAMP + ("." + "0" * column.scale if column.scale else ""), ""
    if not text.endswith("Z"):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    plain = text[:-1].replace("T", " ")
    values.micros_of_datetime(plain)
    return plain, ""


def _time(column: Column, value: Any) -> tuple[Value, str]:
    return values.time_of_micros(values.integer(_number(value)), 6 if column.scale is None else column.scale), ""


_READERS: dict[Kind, Callable[[Column, Any], tuple[Value, str]]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), _string),
}


def null_images(column: Column, default: Any) -> tuple[Any, ...]:
    """JSON values that TiCDC writes for NULL in a column with this schema default (ticdc-wire.md §2.1)."""
    images = [default]
    if isinstance(default, Number):
        images.append(Number(publish.compact(publish.json_double(default))))
        if column.type.bits == 64 and float(default) > 1 << 63:
            images.append(Number("0"))  # TiCDC reads the text of a BIGINT UNSIGNED default as 0
    elif isinstance(default, str):
        images.append(values.base64_text(default.encode("utf-8", "surrogateescape")))
    return tuple(images)


def default_images(column: Column) -> tuple[Any, ...]:
    """As `null_images`, where the default is known from a table definition."""
    default = publish.field(replace(column, nullable=True), Options()).get("default")
    images = null_images(column, Number(default) if type(default) in (int, float) else default)
    if isinstance(column.default, bytes) and column.type.kind is Kind.BINARY:
        images += (values.base64_text(column.default),)
    return images + ((Number("0"),) if column.type.bits == 64 and column.unsigned else ())


# ---------------------------------------------------------------------------------- plain value → JSON text
Write = Callable[[Any], str]
"""Plain value (not NULL) → JSON text. LossyError; ValueError when the value is not of the column's type."""

_quote = json.encoder.encode_basestring


def writer(column: Column, extension: bool, lossy: bool) -> Write:
    """Compiled writer. `extension`: tidb_type is declared. `lossy`: write as TiCDC does what can't be kept exactly."""
    return partial(_WRITERS[column.type.kind], column, extension, lossy)


def _refuse(column: Column, details: str) -> LossyError:
    return LossyError("LOSSY_VALUE", column=column.name, details=details)


def _w_integer(column: Column, extension: bool, lossy: bool, text: str) -> str:
    number = values.integer(text)
    if number >> 63 > 0:
        if not extension and not lossy:
            details = (
                f"{text} is written as a negative int64 and nothing in the message says that it is unsigned: "
                "set enable_tidb_extension, or --on-lossy flag"
            )
            raise _refuse(column, details)
        return str(number - (1 << 64))
    return text


def _w_real(column: Column, extension: bool, lossy: bool, text: str) -> str:
    return json.dumps(json_double(text))


def _w_decimal(column: Column, extension: bool, lossy: bool, text: str) -> str:
    values.check_decimal(text)
    if not lossy and not values.survives_double(text):
        raise _refuse(column, f"{text} has more digits than a double keeps; use --on-lossy flag to write it rounded")
    return json.dumps(json_double(text))


def _w_bit(column: Column, extension: bool, lossy: bool, value: bytes) -> str:
    if not isinstance(value, bytes):
        raise ValueError("text, where BIT's bytes are needed")
    if column.length == 1:
        return "true" if any(value) else "false"
    return f'"{values.base64_text(value[::-1])}"'


def _w_text(column: Column, extension: bool, lossy: bool, value: str | bytes) -> str:
    if isinstance(value, str):
        return _quote(value)
    if not lossy:
        raise _refuse(column, "the text is not UTF-8, so the message would not be valid JSON")
    return _quote(value.decode("utf-8", "surrogateescape"))


def _w_binary(column: Column, extension: bool, lossy: bool, value: bytes) -> str:
    if not isinstance(value, bytes):
        raise ValueError("text, where binary is needed")
    return f'"{values.base64_text(value)}"'


def _temporal(convert: Callable[[Column, str], int]) -> Callable[[Column, bool, bool, str], str]:
    """Dates that Debezium has no number for are refused, or become NULL (0 in a NOT NULL column) as in TiCDC."""

    def write(column: Column, extension: bool, lossy: bool, text: str) -> str:
        if text[:2] == "00" and text[:4] != "0000" and not lossy:
            raise _refuse(column, f"{text}: Debezium moves years below 100 to 1970..2069")
        try:
            return str(convert(column, _adjusted(text)))
        except ValueError:
            if not _is_zero_date(text):
                raise
            if not lossy:
                raise _refuse(column, f"{text} has no number in Debezium; --on-lossy flag writes NULL or 0") from None
            return "null" if column.nullable else "0"

    return write


def _adjusted(text: str) -> str:
    """TiCDC's (and Debezium's) time adjuster: years 1 to 69 are in the 2000s, 70 to 99 in the 1900s."""
    if text[:2] != "00" or text[:4] == "0000" or not text[:4].isdigit():
        return text
    return ("20" if int(text[:4]) < 70 else "19") + text[2:]


def _is_zero_date(text: str) -> bool:
    day = text[:10]
    return len(day) == 10 and day.replace("-", "").isdigit() and (day[:4] == "0000" or "-00" in day)


def _w_datetime(column: Column, text: str) -> int:
    micros = values.micros_of_datetime(text)
    return micros // 1000 if column.scale is not None and column.scale <= 3 else micros


def _w_timestamp(column: Column, extension: bool, lossy: bool, text: str) -> str:
    if text.startswith(values.ZERO_TIMESTAMP):
        return f'"{_EPOCH_TIMESTAMP}"'
    values.micros_of_datetime(text)
    return f'"{text.replace(" ", "T")}Z"'


def _w_time(column: Column, extension: bool, lossy: bool, text: str) -> str:
    return str(values.micros_of_time(text))


_WRITERS: dict[Kind, Callable[[Column, bool, bool, Any], str]] = {
    Kind.INTEGER: _w_integer,
    Kind.YEAR: _w_integer,
    Kind.FLOAT: _w_real,
    Kind.DOUBLE: _w_real,
    Kind.DECIMAL: _w_decimal,
    Kind.BIT: _w_bit,
    Kind.BINARY: _w_binary,
    Kind.DATE: _temporal(lambda _column, text: values.days_of_date(text)),
    Kind.DATETIME: _temporal(_w_datetime),
    Kind.TIMESTAMP: _w_timestamp,
    Kind.TIME: _w_time,
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), _w_text),
}
