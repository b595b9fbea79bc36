"""Columns in TiCDC's Debezium, JSON and Avro: Connect schema → column, payload → plain value, plain value → JSON.

Source: upstream ticdc `codec/debezium/codec.go`.

A JSON number is read as its text (`Number`), so that no digit passes through a float on the way. Avro's payload has
the same form, but for bytes that are bytes, and DECIMAL and BIGINT UNSIGNED in the form that the handling mode gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from schemas.codec.json_exact import Number
from schemas.formats.debezium import default_values as defaults
from schemas.formats.debezium import json_schema as publish
from schemas.formats.debezium.connect.document import DECIMAL
from schemas.formats.debezium.row_reader import DebeziumDialect, Read, utf8_or_bytes
from schemas.model import values
from schemas.model.errors import LossyError
from schemas.model.table import Column, Value
from schemas.model.types import BY_CONNECT, BY_NAME, BY_SEMANTIC, Kind

_EPOCH_TIMESTAMP = "1970-01-01T00:00:00Z"


# ---------------------------------------------------------------------------------- Connect schema → column
def column_of_field(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column. KeyError or ValueError for what TiCDC does not write."""
    connect, semantic = field["type"], field.get("name", "")
    parameters = field.get("parameters", {})
    vague = ""
    unsigned = False
    if "tidb_type" in field:
        name, _, sign = field["tidb_type"].partition(" ")
        type_, unsigned = BY_NAME[name], sign == "unsigned"
    elif semantic == DECIMAL:
        type_ = BY_NAME["decimal"]
    elif semantic:
        type_ = BY_SEMANTIC[semantic]
    elif connect == "bytes":
        type_ = BY_NAME["blob"]  # Avro only: BINARY, VARBINARY and BLOB have the same values
    else:
        type_, vague = BY_CONNECT[connect]
    length = int(parameters["length"]) if "length" in parameters else 1 if connect == "boolean" else None
    scale = None
    if semantic.endswith(".Timestamp"):
        scale = 3
    elif semantic.endswith(".MicroTimestamp"):
        scale = 6
    elif type_.kind is Kind.FLOAT and connect == "double":
        scale = 0  # FLOAT(M,D); D itself is not told
    elif semantic == DECIMAL:
        length, scale = int(parameters["precision"]), int(parameters["scale"])
    elements: tuple[str, ...] = ()
    if "allowed" in parameters:
        allowed = parameters["allowed"]
        elements = values.split_allowed(allowed) if type_.kind is Kind.ENUM else tuple(allowed.split(","))
    column = Column(
        field["field"], type_, unsigned, length, scale, elements, nullable=bool(field["optional"]), vague=vague
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
    except (ValueError, ArithmeticError):
        return str(default)


# ---------------------------------------------------------------------------------- JSON value → plain value
def reader(column: Column, _field: Mapping[str, Any] | None = None) -> Read:
    """Compiled reader of a column's values."""
    return partial(_READERS[column.type.kind], column)


def _number(value: Any) -> str:
    if not isinstance(value, Number):
        raise ValueError(f"a JSON number is needed, not {_short_json(value)}")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError(f"a JSON string is needed, not {_short_json(value)}")
    return value


def _short_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)[:60]


def _integer(column: Column, value: Any) -> tuple[Value, str]:
    bits = column.type.bits
    if bits == 64 and column.unsigned and type(value) is str:
        number = values.integer(value)  # avro-bigint-unsigned-handling-mode=string
        values.check_range(number, 64, True)
        return str(number), ""
    number = values.integer(_number(value))
    if -(1 << 63) <= number < 0 and column.unsigned and bits == 64:
        number += 1 << 64  # BIGINT UNSIGNED travels as int64
    values.check_range(number, bits, column.unsigned)
    # Without a definition nobody knows whether a negative int64 is a BIGINT or a BIGINT UNSIGNED over 2^63-1.
    return str(number), "sign_unknown" if number < 0 and column.vague and column.type.bits == 64 else ""


def _year(column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(_number(value))
    values.check_year(number)
    return str(number), ""


def _float(column: Column, value: Any) -> tuple[Value, str]:
    return values.float_text(values.as_float32(float(_number(value)))), ""


def _double(column: Column, value: Any) -> tuple[Value, str]:
    return values.double_text(float(_number(value))), "decimal_or_double" if column.vague else ""


def _decimal(column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, bytes):  # avro-decimal-handling-mode=precise
        return _precise_decimal(column, value), ""
    if type(value) is str:  # avro-decimal-handling-mode=string
        values.check_decimal(value)
        return values.plain_decimal(value, column.scale) if column.scale is not None else value, ""
    text = _number(value)
    if column.scale is not None:
        try:
            exact = values.plain_decimal(text, column.scale)
        except ValueError:
            exact = ""
        # Below 10^15 a float64 names one DECIMAL of this scale only.
        if exact and len(exact.replace(".", "").lstrip("-0")) <= 15:
            return exact, ""
    return values.plain_decimal(text, None), "lossy_decimal"


def _precise_decimal(column: Column, data: bytes) -> str:
    if not 0 < len(data) <= 32 or column.scale is None:
        raise ValueError(f"{len(data)} bytes are no DECIMAL")
    return values.decimal_text(int.from_bytes(data, "big", signed=True), column.scale)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else values.base64_bytes(_text(value))


def _bit(column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00", ""
    data = _bytes(value)[::-1]
    size = values.bit_size(column.length) if column.length else len(data)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are no BIT({column.length})")
    return data, ""


def _string(column: Column, value: Any) -> tuple[Value, str]:
    text = utf8_or_bytes(_text(value))
    if isinstance(text, bytes):
        return text, ""
    if column.vague and _is_base64(text):
        return text, "binary_or_text"
    return text, ""


def _is_base64(text: str) -> bool:
    try:
        values.base64_bytes(text)
    except ValueError:
        return False
    return True


def _binary(column: Column, value: Any) -> tuple[Value, str]:
    return _bytes(value), ""


def _date(column: Column, value: Any) -> tuple[Value, str]:
    days = values.integer(_number(value))
    return values.date_of_days(days), "" if days or column.nullable else "temporal_zero_ambiguous"


def _datetime(column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(_number(value))
    micros = number * 1000 if publish.in_milliseconds(column) else number
    text = values.datetime_of_micros(micros, 3 if column.scale is None else column.scale)
    return text, "" if number or column.nullable else "temporal_zero_ambiguous"


def _timestamp(column: Column, value: Any) -> tuple[Value, str]:
    text = _text(value)
    if text == _EPOCH_TIMESTAMP:  # no TIMESTAMP is that early: it stands for the zero value
        return values.ZERO_TIMESTAMP + ("." + "0" * column.scale if column.scale else ""), ""
    if not text.endswith("Z"):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    plain = text[:-1].replace("T", " ")
    values.micros_of_datetime(plain)
    return plain, ""


def _time(column: Column, value: Any) -> tuple[Value, str]:
    return values.time_of_micros(values.integer(_number(value)), 6 if column.scale is None else column.scale), ""


def ticdc_dialect(format_: str) -> DebeziumDialect:
    """How TiCDC writes columns, in JSON and in Avro."""
    images = defaults.avro_images if format_ == "debezium-avro" else defaults.default_images
    return DebeziumDialect(format_, column_of_field, reader, defaults.null_images, images)


_READERS: dict[Kind, Callable[[Column, Any], tuple[Value, str]]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _year,
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


# ---------------------------------------------------------------------------------- plain value → JSON text
Flag = Callable[[str], None]
Write = Callable[[Any, Flag], str]
"""(plain value, where flags go) → JSON text. LossyError; ValueError when the value is not of the column's type."""

_quote = json.encoder.encode_basestring


@dataclass(frozen=True, slots=True)
class _Target:
    """What a writer knows. extension: tidb_type is declared. lossy: write as TiCDC does what can't be kept exactly."""

    column: Column
    extension: bool
    lossy: bool

    def lose(self, what: str, details: str, flag: Flag) -> None:
        """The value is about to change: flagged where that was asked for, else refused."""
        if not self.lossy:
            raise LossyError("LOSSY_VALUE", column=self.column.name, details=details)
        flag(f"{what}:{self.column.name}")


def writer(column: Column, extension: bool, lossy: bool) -> Write:
    """Compiled writer of a column's values."""
    return partial(_WRITERS[column.type.kind], _Target(column, extension, lossy))


def _w_integer(to: _Target, text: str, flag: Flag) -> str:
    number = values.integer(text)
    values.check_range(number, to.column.type.bits, to.column.unsigned)
    if number >> 63 <= 0:
        return text
    if not to.extension:
        details = (
            f"{text} is written as a negative int64 and nothing in the message says that it is unsigned: "
            "set enable_tidb_extension, or --on-lossy flag"
        )
        to.lose("unsigned_wrapped", details, flag)
    return str(number - (1 << 64))


def _w_year(_to: _Target, text: str, _flag: Flag) -> str:
    values.check_year(values.integer(text))
    return text


def _w_real(to: _Target, text: str, _flag: Flag) -> str:
    if to.column.type.kind is Kind.FLOAT:
        values.parse_float32(text)
    return json.dumps(values.json_double(text))


def _w_decimal(to: _Target, text: str, flag: Flag) -> str:
    values.check_decimal(text)
    if not values.survives_double(text):
        details = f"{text} has more digits than a double keeps; use --on-lossy flag to write it rounded"
        to.lose("lossy_decimal", details, flag)
    return json.dumps(values.json_double(text))


def _w_bit(to: _Target, value: bytes, _flag: Flag) -> str:
    if not isinstance(value, bytes):
        raise ValueError("text, where BIT's bytes are needed")
    if to.column.length == 1:
        return "true" if any(value) else "false"
    return f'"{values.base64_text(value[::-1])}"'


def _w_text(to: _Target, value: str | bytes, flag: Flag) -> str:
    if isinstance(value, bytes):
        to.lose("invalid_utf8", "the text is not UTF-8, so the message would not be valid JSON", flag)
        value = value.decode("utf-8", "surrogateescape")
    return _quote(value)


def _w_binary(_to: _Target, value: bytes, _flag: Flag) -> str:
    if not isinstance(value, bytes):
        raise ValueError("text, where binary is needed")
    return f'"{values.base64_text(value)}"'


def _temporal(convert: Callable[[Column, str], int]) -> Callable[[_Target, str, Flag], str]:
    """Dates that Debezium has no number for are refused, or become NULL (0 in a NOT NULL column) as in TiCDC."""

    def write(to: _Target, text: str, flag: Flag) -> str:
        if _is_zero_date(text):
            to.lose("zero_date", f"{text} has no number in Debezium; --on-lossy flag writes NULL or 0", flag)
            return "null" if to.column.nullable else "0"
        if text[:2] == "00":
            to.lose("year_adjusted", f"{text}: Debezium moves years below 100 to 1970..2069", flag)
            # The time adjuster: years 1 to 69 are in the 2000s, 70 to 99 in the 1900s.
            text = ("20" if values.integer(text[2:4].lstrip("0") or "0") < 70 else "19") + text[2:]
        return str(convert(to.column, text))

    return write


def _is_zero_date(text: str) -> bool:
    day = text[:10]
    return len(day) == 10 and day.replace("-", "").isdigit() and (day[:4] == "0000" or "-00" in day)


def _w_datetime(column: Column, text: str) -> int:
    micros = values.micros_of_datetime(text)
    if not publish.in_milliseconds(column):
        return micros
    if micros % 1000:
        raise ValueError(f"{text} has more than {column.scale} fraction digits")
    return micros // 1000


def _w_timestamp(_to: _Target, text: str, _flag: Flag) -> str:
    if text.startswith(values.ZERO_TIMESTAMP):
        return f'"{_EPOCH_TIMESTAMP}"'
    values.micros_of_datetime(text)
    return f'"{text.replace(" ", "T")}Z"'


def _w_time(_to: _Target, text: str, _flag: Flag) -> str:
    return str(values.micros_of_time(text))


_WRITERS: dict[Kind, Callable[[_Target, Any, Flag], str]] = {
    Kind.INTEGER: _w_integer,
    Kind.YEAR: _w_year,
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
