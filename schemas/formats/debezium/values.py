"""Columns in TiCDC's Debezium, JSON and Avro: Connect schema → column, payload → plain value, plain value → JSON.

Source: upstream ticdc `codec/debezium/codec.go`.

A JSON number is read as its text (`Number`), so that no digit passes through a float on the way. Avro's payload has
the same form, but for bytes that are bytes, and DECIMAL and BIGINT UNSIGNED in the form that the handling mode gives.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.json_exact import Number, compact_json
from ticdc_bridge.schemas.codec.sql_text import text_or_bytes
from ticdc_bridge.schemas.formats.debezium import avro_schema as avro
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium.connect import EPOCH_TIMESTAMP, ConnectForm, Flag, plain_writer, value_writer
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumDialect, Read
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_CONNECT, BY_NAME, BY_SEMANTIC, Kind

# ---- What NULL may have been written as in the Debezium family: the images of a column's default.
#
# TiCDC puts the default in NULL's place (upstream ticdc `codec/debezium/codec.go`, writeDebeziumFieldValue). Kafka
# Connect's converters do so with a schema's (JsonConverter's replace.null.with.default, AvroData's
# ignore.default.for.nullables). Whoever reads such a value can't know which it was, and flags it: it is compared with
# the images before it is read.


def _number_text(column: Column, default: str) -> str:
    """A number's default as rows have it: a statement may have fewer digits than DECIMAL, or more than FLOAT.

    ValueError for one that the column can't hold.
    """
    if column.type.kind is Kind.FLOAT:
        return values.float_text(values.as_float32(values.real(default)))
    if column.type.kind is Kind.DECIMAL and column.scale is not None:
        return values.plain_decimal(default, column.scale)
    return default


def null_images(column: Column, default: Any) -> tuple[Any, ...]:
    """JSON values that TiCDC writes for NULL in a column with this schema default."""
    images = [default]
    if isinstance(default, Number):
        with suppress(ValueError):  # no value can be equal to a default that is no number of the column's
            images.append(Number(compact_json(values.json_double(default))))
            images.append(Number(compact_json(values.json_double(_number_text(column, default)))))
        if column.type.bits == 64 and float(default) > 1 << 63:
            images.append(Number("0"))  # TiCDC reads the text of a BIGINT UNSIGNED default as 0
    elif isinstance(default, str):
        raw = default.encode("utf-8", "surrogateescape")
        images += [values.base64_text(raw), raw]
    return tuple(images)


def default_images(column: Column) -> tuple[Any, ...]:
    """As `null_images`, where the default is known from a table definition."""
    default = publish.field(replace(column, nullable=True), Options()).get("default")
    images = null_images(column, Number(default) if type(default) in (int, float) else default)
    if isinstance(column.default, bytes) and column.type.kind is Kind.BINARY:
        images += (values.base64_text(column.default), column.default)
    return images + ((Number("0"),) if column.is_unsigned64 else ())


_MODES = tuple(
    Options.of({"avro_decimal_handling_mode": decimal, "avro_bigint_unsigned_handling_mode": unsigned})
    for decimal, unsigned in (("precise", "long"), ("string", "string"))
)


def avro_images(column: Column) -> tuple[Any, ...]:
    """As `default_images`: also what a payload has for the default in each handling mode."""
    images, default = default_images(column), column.default
    for options in _MODES:
        try:
            connect, semantic, _ = avro.connect_type(column, options)
            value = _number_text(column, default) if isinstance(default, str) else default
            image = plain_writer(ConnectForm(column, connect, semantic, lossy=False))(value)
            if connect == "float":
                image = values.as_float32(image)  # what a reader gets of it
        except (WireError, ValueError, TypeError, OverflowError):
            continue  # an expression, or a default that no payload holds
        images += (Number(repr(image)) if type(image) in (int, float) else image,)
    return images


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
    elif semantic == avro.DECIMAL:
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
        scale = 0  # FLOAT(M,D); D itself is not sent
    elif semantic == avro.DECIMAL:
        length, scale = int(parameters["precision"]), int(parameters["scale"])
    elements: tuple[str, ...] = ()
    if "allowed" in parameters:
        allowed = parameters["allowed"]
        elements = values.split_allowed(allowed) if type_.kind is Kind.ENUM else tuple(allowed.split(","))
    column = Column(field["field"], type_, unsigned, length, scale, elements, bool(field["optional"]), vague=vague)
    if "default" in field:
        column = replace(column, has_default=True, default=_default(column, field["default"]))
    return column


def _default(column: Column, default: Any) -> Value:
    """Schema default → plain value; text that is not of the column's form stays as it is (never used for values)."""
    try:
        if isinstance(default, str) and not isinstance(default, Number) and column.type.kind is Kind.TIMESTAMP:
            return default.removesuffix("Z").replace("T", " ")
        return str(default).encode() if column.type.kind is Kind.BINARY else reader(column)(default)[0]
    except (ValueError, ArithmeticError):
        return str(default)


# ---------------------------------------------------------------------------------- JSON value → plain value
def reader(column: Column, _field: Mapping[str, Any] | None = None) -> Read:
    """Compiled reader of a column's values."""
    return partial(_READERS[column.type.kind], column)


def json_number(value: Any) -> str:
    """The text of a JSON number. ValueError for anything else."""
    if not isinstance(value, Number):
        raise ValueError(f"a number is needed, not {shown(value)}")
    return str(value)


def json_string(value: Any) -> str:
    """A JSON string. ValueError for anything else."""
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError(f"a string is needed, not {shown(value)}")
    return value


def utc_text(value: Any) -> str:
    """A date or time in UTC, as a JSON string that ends in Z: without that. ValueError for anything else."""
    text = json_string(value)
    if not text.endswith("Z"):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    return text[:-1]


def shown(value: Any) -> str:
    """A value of a payload as an error shows it: the JSON that the message has, cut."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else json_exact.dump(value)[:60]


def _integer(column: Column, value: Any) -> tuple[Value, str]:
    bits = column.type.bits
    if bits == 64 and column.unsigned and type(value) is str:
        return str(values.integer(value, 64, True)), ""  # avro-bigint-unsigned-handling-mode=string
    number = values.integer(json_number(value))
    if -(1 << 63) <= number < 0 and column.unsigned and bits == 64:
        number += 1 << 64  # BIGINT UNSIGNED travels as int64
    values.check_range(number, bits, column.unsigned)
    # Without a definition it is not known whether a negative int64 is a BIGINT or a BIGINT UNSIGNED over 2^63-1.
    return str(number), "sign_unknown" if number < 0 and column.vague and column.type.bits == 64 else ""


def _double(column: Column, value: Any) -> tuple[Value, str]:
    return values.double_text(values.real(json_number(value))), "decimal_or_double" if column.vague else ""


def _decimal(column: Column, value: Any) -> tuple[Value, str]:
    if isinstance(value, bytes):  # avro-decimal-handling-mode=precise
        if not 0 < len(value) <= 32 or column.scale is None:
            raise ValueError(f"{len(value)} bytes are no DECIMAL")
        return values.decimal_text(int.from_bytes(value, "big", signed=True), column.scale), ""
    if type(value) is str:  # avro-decimal-handling-mode=string
        values.check_decimal(value)
        return values.plain_decimal(value, column.scale) if column.scale is not None else value, ""
    text = json_number(value)
    if column.scale is not None:
        try:
            exact = values.plain_decimal(text, column.scale)
        except ValueError:
            exact = ""
        # Below 10^15 a float64 names one DECIMAL of this scale only.
        if exact and len(exact.replace(".", "").lstrip("-0")) <= 15:
            return exact, ""
    return values.plain_decimal(text, None), "lossy_decimal"


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else values.base64_bytes(json_string(value))


def _bit(column: Column, value: Any) -> tuple[Value, str]:
    data = bytes([value]) if isinstance(value, bool) else _bytes(value)[::-1]
    if column.length and len(data) != values.bit_size(column.length):
        raise ValueError(f"{shown(value)} is no BIT({column.length})")
    return data, ""


def _string(column: Column, value: Any) -> tuple[Value, str]:
    text = text_or_bytes(json_string(value))
    if isinstance(text, bytes):
        return text, ""
    return text, "binary_or_text" if column.vague and passes(values.base64_bytes, text) else ""


def passes(check: Callable[[str], object], text: str) -> bool:
    """True if the check raises no ValueError for the text."""
    try:
        check(text)
    except ValueError:
        return False
    return True


def _date(column: Column, value: Any) -> tuple[Value, str]:
    days = values.integer(json_number(value))
    return values.date_of_days(days), "" if days or column.nullable else "temporal_zero_ambiguous"


def _datetime(column: Column, value: Any) -> tuple[Value, str]:
    number = values.integer(json_number(value))
    micros = number * 1000 if publish.in_milliseconds(column) else number
    text = values.datetime_of_micros(micros, 3 if column.scale is None else column.scale)
    return text, "" if number or column.nullable else "temporal_zero_ambiguous"


def _timestamp(column: Column, value: Any) -> tuple[Value, str]:
    if value == EPOCH_TIMESTAMP:  # no TIMESTAMP is that early: it stands for the zero value
        return values.ZERO_TIMESTAMP + ("." + "0" * column.scale if column.scale else ""), ""
    plain = utc_text(value).replace("T", " ")
    values.micros_of_datetime(plain)
    return plain, ""


def _time(column: Column, value: Any) -> tuple[Value, str]:
    return values.time_of_micros(values.integer(json_number(value)), 6 if column.scale is None else column.scale), ""


def ticdc_dialect(format_: str) -> DebeziumDialect:
    """How TiCDC writes columns, in JSON and in Avro."""
    images = avro_images if format_ == "debezium-avro" else default_images
    return DebeziumDialect(format_, column_of_field, reader, null_images, images, fits)


# What a field without a semantic name can be.
_UNNAMED: dict[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("int16", "int32", "int64"), (Kind.INTEGER,)),
    "float": (Kind.FLOAT,),
    "double": (Kind.DOUBLE, Kind.FLOAT, Kind.DECIMAL),
    "boolean": (Kind.BIT,),
    "bytes": (Kind.BINARY,),
    "string": (Kind.TEXT, Kind.BINARY, Kind.DECIMAL, Kind.INTEGER),  # numbers: the handling modes "string" of Avro
}


def fits(column: Column, field: Mapping[str, Any]) -> bool:
    """True if a definition's column can be what the schema declares; a DATETIME in the same unit."""
    semantic, kind = field.get("name", ""), column.type.kind
    if "tidb_type" in field:
        name, _, sign = field["tidb_type"].partition(" ")
        same_sign = kind is Kind.DECIMAL or column.unsigned == (sign == "unsigned")
        if name != column.type.name or not same_sign:
            return False
    if semantic == avro.DECIMAL:
        return kind is Kind.DECIMAL and column.scale in (None, int(field["parameters"]["scale"]))
    if not semantic:
        return kind in _UNNAMED.get(field["type"], ())
    if semantic not in BY_SEMANTIC or BY_SEMANTIC[semantic].kind is not kind:
        return False
    return kind is not Kind.DATETIME or semantic.endswith(".Timestamp") == publish.in_milliseconds(column)


_READERS: dict[Kind, Callable[[Column, Any], tuple[Value, str]]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: lambda column, value: (str(values.year(json_number(value))), ""),
    Kind.FLOAT: lambda column, value: (values.float_text(values.as_float32(values.real(json_number(value)))), ""),
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.BINARY: lambda column, value: (_bytes(value), ""),
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), _string),
}


# ---------------------------------------------------------------------------------- plain value → JSON text
Write = Callable[[Any, Flag], str]
"""(plain value, where flags go) → JSON text. LossyError; ValueError when the value is not of the column's type."""

_quote = json.encoder.encode_basestring
_REAL = (Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


def writer(column: Column, extension: bool, lossy: bool, same_format: bool = False) -> Write:
    """Compiled writer of a column's values. extension: tidb_type is declared.

    lossy: write as TiCDC does what can't be kept exactly. same_format: of rows that were TiCDC's messages of this
    format, which become the same again: it writes bytes that are not UTF-8 as they are.
    """
    signed64 = "marked" if extension else "set enable_tidb_extension"
    connect, semantic, _ = publish.connect_type(column)
    settings: dict[str, Any] = {"raw_text": False, "same_format": same_format, "escapes": False}
    write = value_writer(ConnectForm(column, connect, semantic, lossy, signed64, **settings))
    if column.type.kind not in _REAL:
        return lambda value, flag: _json_text(write(value, flag))

    def write_real(text: str, flag: Flag) -> str:
        write(text, flag)
        return json.dumps(values.json_double(text))

    return write_real


def _json_text(value: Any) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bytes):
        return f'"{values.base64_text(value)}"'
    return "null" if value is None else str(value).lower()  # true, false, a whole number
