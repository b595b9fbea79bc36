"""Plain values → values of a Kafka Connect schema: what Debezium's Avro and JSON are made of.

A column's Connect type and semantic name (as published) choose the form: integers, floats, text, booleans, and bytes
for DECIMAL (unscaled, big-endian), BIT (little-endian) and binary columns. Sources: upstream ticdc
`codec/debezium/codec.go`; Debezium's documentation of the MySQL connector, "Data type mappings", and its
`io.debezium.time` types. What a form can't hold is a LossyError, or flagged where the options say so.
"""

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.avro import decimal_size
from ticdc_bridge.schemas.codec.avro_schema import FieldError, SchemaField, SchemaType
from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.formats.framing import malformed_error
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, LossyError, WireError
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, Value, require_bytes
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import as_float32

# ---- Kafka Connect schemas behind Avro ones: what the `connect.*` attributes say, in the form that Connect's JSON has.
#
# Sources: Confluent's AvroData, measured with 8.5.0; TiCDC writes the same attributes by its own encoder (upstream
# ticdc `codec/debezium/avro.go`).

DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CONNECT_TYPES = {
    "int": "int32", "long": "int64", "float": "float", "double": "double", "boolean": "boolean",
    "string": "string", "bytes": "bytes", "record": "struct", "array": "array",
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "local-timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("long", "local-timestamp-micros"): "io.debezium.time.MicroTimestamp",
}
"""Avro's own types (Avro 1.12, "Logical Types") → Connect's names of the same: all that `connect.meta.data=false`
leaves of a type, and what other writers than Connect write."""


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """A compiled Avro schema: its Connect schema, and the reader of its body."""

    schema: dict[str, Any]
    body: binary.Reader

    def read(self, data: bytes, pos: int, where: str) -> dict[str, Any]:
        """The whole body → payload. WireError TRUNCATED, MALFORMED, TRAILING_BYTES."""
        try:
            payload, pos = self.body(data, pos)
        except FieldError as error:
            name = ": ".join(error.path)
            if error.is_cut:
                raise WireError("TRUNCATED", where=where, field=f"field {name!r}"[:200], details=str(error)) from error
            raise malformed_error(where, f"field {name}: {error}") from error
        if pos != len(data):
            raise WireError("TRAILING_BYTES", where=where, count=len(data) - pos)
        return dict(payload)


def document(text: str, where: str) -> ConnectSchema:
    """Schema text → document. WireError UNSUPPORTED_SCHEMA for what is no record of Connect's."""
    try:
        parsed = avro_schema.parse_schema(text)
        if parsed.kind != "record":
            raise ValueError(f"a record is needed, this is a {parsed.kind}")
        return ConnectSchema(connect_schema(parsed), avro_schema.reader(parsed, number))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        details = f"not a schema that Kafka Connect registers: {reason_of(error)}"[:300]
        raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details) from error


def number(value: float) -> Number:
    """A number that was read → its text, as JSON would have it."""
    return Number(repr(value))


def connect_schema(of: SchemaType, field: SchemaField | None = None) -> dict[str, Any]:
    """An Avro type, and the field it is of → Connect schema. ValueError."""
    present = of.value_type
    props = present.props
    out: dict[str, Any] = {"type": _attribute_text(props.get("connect.type", _CONNECT_TYPES[present.kind]))}
    out["optional"] = of.kind == "union"
    if present.kind == "record":
        out["fields"] = [connect_schema(f.type, f) for f in present.fields]
    elif present.kind == "array":
        out["items"] = connect_schema(present.branches[0])
    if "connect.name" in props:
        out["name"] = _attribute_text(props["connect.name"])
    elif "logicalType" in props:
        out |= _of_logical_type(present.kind, props)
    if "connect.version" in props:
        out["version"] = props["connect.version"]
    if "connect.parameters" in props:
        parameters = dict(props["connect.parameters"]).items()
        out["parameters"] = {_attribute_text(k): _attribute_text(v) for k, v in parameters}
    if field is not None:
        out["field"] = field.label
        if "tidb_type" in field.props:
            out["tidb_type"] = _attribute_text(field.props["tidb_type"])
        default = props.get("connect.default", field.props.get("default"))
        if default is not None and present.kind not in ("record", "array"):
            out["default"] = _read_default(present.kind, default)
    return out


def _of_logical_type(kind: str, props: Mapping[str, Any]) -> dict[str, Any]:
    """Name and parameters of a type without Connect's. As Avro says, a logical type that is not valid is none."""
    precision, scale = props.get("precision"), props.get("scale", 0)
    if (kind, props["logicalType"]) == ("bytes", "decimal") and type(precision) is type(scale) is int:
        return {"name": DECIMAL, "parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)}}
    name = _LOGICAL.get((kind, props["logicalType"]))
    return {"name": name} if name else {}


def _attribute_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"an attribute is no text: {str(value)[:60]}")
    return value


def _read_default(kind: str, default: Any) -> Any:
    if kind == "bytes":
        return _attribute_text(default).encode("latin-1", "replace")
    if kind == "float":  # as the values of its fields are read: 3.14 is 3.140000104904175 there
        with suppress(ValueError):
            return number(as_float32(float(default)))
    if kind in ("float", "double"):
        return number(float(default))
    if isinstance(default, int) and not isinstance(default, bool):
        return number(default)
    if not isinstance(default, str | bool):
        raise ValueError(f"a default is neither text nor number: {str(default)[:60]}")
    return default


Flag = Callable[[str], None]
RowValues = Callable[[Row, RowChange], dict[str, Any]]
"""(row, the event it is of) → values by column name. WireError INVALID_VALUE; LossyError."""

_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
_DAY = 86_400_000_000  # microseconds
_NANO_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ConnectForm:
    """Where a value goes.

    signed64: BIGINT UNSIGNED over 2^63-1 is "marked" by the schema where it is negative, or "refused" by the encoder;
    else it is lost, and this is what would mark it.
    raw_text: text that is not UTF-8 can be written byte for byte. same_format: it may, as the message said it so.
    binary: text form of bytes. required: NOT NULL columns are declared so. escapes: readers take an ENUM's backslashes
    for escapes.
    """

    column: Column
    connect: str
    semantic: str
    lossy: bool
    signed64: str = "refused"
    raw_text: bool = True
    same_format: bool = False
    binary: str = "base64"
    required: bool = False
    escapes: bool = True

    def lose(self, what: str, details: str, flag: Flag) -> None:
        """The value is about to change: flagged where that was asked for, else refused."""
        if not self.lossy:
            raise LossyError("LOSSY_VALUE", column=self.column.name, details=details)
        flag(f"{what}:{self.column.name}")


def row_values(
    columns: tuple[Column, ...], connect_type: Callable[[Column], tuple[str, str]], options: Options, **settings: Any
) -> RowValues:
    """Compiled writer of rows; `settings` are those of `ConnectForm`."""
    lossy, required = options.on_lossy == "flag", bool(settings.get("required"))
    cells = [(c, value_writer(ConnectForm(c, *connect_type(c), lossy, **settings))) for c in columns]

    def write(row: Row, event: RowChange) -> dict[str, Any]:
        return {column.name: _cell(column, entry, required, row, event) for column, entry in cells}

    return write


def value_writer(form: ConnectForm) -> Callable[[Any, Flag], Any]:
    """Writer of a column's values that are not NULL: (plain value, where flags go) → value. LossyError, ValueError."""
    return partial(_WRITERS[form.column.type.kind], form)


def plain_writer(form: ConnectForm) -> Callable[[Any], Any]:
    """Writer of one value that is of no event, such as a column's default. LossyError, ValueError."""
    write = value_writer(form)
    return lambda value: write(value, lambda _flag: None)


def _cell(column: Column, write: Callable[[Any, Flag], Any], required: bool, row: Row, event: RowChange) -> Any:
    value = row.get(column.name)
    if value is None:
        if column.name not in row and not event.key_only:
            raise WireError("INVALID_VALUE", column=column.name, details="the event does not carry it")
        if required and not event.key_only and not column.nullable:
            raise WireError("INVALID_VALUE", column=column.name, details="NULL in a NOT NULL column")
        return None
    try:
        if column.type.kind is Kind.TIMESTAMP:
            value = event.in_zone(column.name, value, "UTC")
        return write(value, event.flag)
    except WireError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error


# ---------------------------------------------------------------------------------- by kind
def _integer(to: ConnectForm, text: str, flag: Flag) -> Any:
    number = values.integer(text, to.column.type.bits, to.column.unsigned)
    if to.connect == "string":
        return text
    if to.semantic:
        return _unscaled_bytes(number)
    if number >> 63 <= 0:
        return number
    if to.signed64 == "refused":
        raise ValueError(f"{text} is above 2^63-1: set avro_bigint_unsigned_handling_mode to string")
    if to.signed64 != "marked":
        details = (
            f"{text} is written as a negative int64 and nothing in the message says that it is unsigned: "
            f"{to.signed64}, or {Hint.ON_LOSSY_FLAG}"
        )
        to.lose("unsigned_wrapped", details, flag)
    return number - (1 << 64)


def _unscaled_bytes(number: int) -> bytes:
    return number.to_bytes(decimal_size(number), "big", signed=True)


def _float(to: ConnectForm, text: str, _flag: Flag) -> float:
    single = values.parse_float32(text)
    # FLOAT(M,D) is a double, widened as TiCDC and the connector do; a float keeps its short text in JSON.
    return single if to.connect == "double" else values.real(text)


def _decimal(to: ConnectForm, text: str, flag: Flag) -> Any:
    if to.connect == "string":
        return values.decimal_check(to.column.length, to.column.scale)(text)
    values.check_decimal(text)
    if to.connect == "bytes":
        assert to.column.length is not None
        assert to.column.scale is not None
        return _unscaled_bytes(values.unscaled_decimal(text, to.column.length, to.column.scale))
    if not values.survives_double(text):
        details = f"{text} has more digits than a double keeps; use {Hint.ON_LOSSY_FLAG} to write it rounded"
        to.lose("lossy_decimal", details, flag)
    return float(text)


def _bit(to: ConnectForm, value: Value, _flag: Flag) -> Any:
    data = require_bytes(value)
    if to.connect == "boolean":
        return any(data)
    size = values.bit_size(to.column.length or 1)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are no BIT({to.column.length})")
    return data[::-1]


def _text(to: ConnectForm, value: str | bytes, flag: Flag) -> str:
    if isinstance(value, bytes):
        if not to.raw_text:
            details = f"the text is not UTF-8, and JSON is; {Hint.ON_LOSSY_FLAG} writes U+FFFD for such bytes"
            to.lose("invalid_utf8", details, flag)
        return value.decode("utf-8", "surrogateescape" if to.raw_text or to.same_format else "replace")
    return value


def unescaped(element: str) -> str:
    """An ENUM's value without the backslashes that the connector puts into those of its binlog."""
    return re.sub(r"\\(.)", r"\1", element, flags=re.DOTALL)


def _enum(to: ConnectForm, value: str | bytes, flag: Flag) -> str:
    text, elements = _text(to, value, flag), to.column.elements
    if to.escapes and text not in elements and unescaped(text) in elements:
        # Readers take back the escapes of the connector's binlog values: it would become the other one.
        raise ValueError(f"{text[:80]!r} is none of its elements, and would be read as one of them without its escapes")
    return text


def _binary(to: ConnectForm, value: Value, _flag: Flag) -> Any:
    data = require_bytes(value)
    return data if to.connect == "bytes" else BINARY_TEXT[to.binary](data)


BINARY_TEXT: dict[str, Callable[[bytes], str]] = {
    "base64": values.base64_text,
    "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode("ascii"),
    "hex": bytes.hex,
}


# ---------------------------------------------------------------------------------- dates and times
def _date_writer(convert: Callable[[ConnectForm, str, Flag], Any]) -> Callable[[ConnectForm, str, Flag], Any]:
    """Dates that Debezium has no number for are refused, or become NULL (1970 in a NOT NULL column) as in TiCDC."""

    def write(to: ConnectForm, text: str, flag: Flag) -> Any:
        if is_zero_date(text):
            to.lose("zero_date", f"{text} has no number in Debezium; {Hint.ON_LOSSY_FLAG} writes NULL or 0", flag)
            return None if to.column.nullable else convert(to, "1970-01-01" + " 00:00:00" * (len(text) > 10), flag)
        if text[:2] == "00":
            to.lose("year_adjusted", f"{text}: Debezium moves years below 100 to 1970..2069", flag)
            text = adjusted_year(text)
        return convert(to, text, flag)

    return write


def adjusted_year(text: str) -> str:
    """A date of a year below 100 as the connector's time adjuster has it: 1 to 69 are in the 2000s, the rest before."""
    return ("20" if values.integer(text[2:4].lstrip("0") or "0") < 70 else "19") + text[2:]


def is_zero_date(text: str) -> bool:
    """True for 0000-00-00 and for dates whose month or day is zero, with a time or without."""
    day = text[:10]
    return len(day) == 10 and day.replace("-", "").isdigit() and (day[:4] == "0000" or "-00" in day)


def _date(to: ConnectForm, text: str, _flag: Flag) -> Any:
    days = values.days_of_date(text)
    return text + "Z" if to.connect == "string" else days


def _datetime(to: ConnectForm, text: str, flag: Flag) -> Any:
    micros = values.micros_of_datetime(text)
    if to.connect == "string":
        return text.replace(" ", "T") + "Z"
    if to.semantic.endswith("MicroTimestamp"):
        return micros
    if to.semantic.endswith("NanoTimestamp"):
        if not -_NANO_MAX <= micros * 1000 <= _NANO_MAX:
            raise LossyError("LOSSY_VALUE", column=to.column.name, details=f"{text} has no number of nanoseconds")
        return micros * 1000
    return _milliseconds(to, text, micros, flag)


def _milliseconds(to: ConnectForm, text: str, micros: int, flag: Flag) -> int:
    if micros % 1000:
        if not to.semantic.startswith(_CONNECT):
            raise ValueError(f"{text} has more than {to.column.scale} fraction digits")
        to.lose("fraction_cut", f"{text} has digits below a millisecond, which time.precision.mode=connect cuts", flag)
    return micros // 1000


def _timestamp(_to: ConnectForm, text: str, _flag: Flag) -> str:
    if text.startswith(values.ZERO_TIMESTAMP):
        return EPOCH_TIMESTAMP
    values.micros_of_datetime(text)
    return text.replace(" ", "T") + "Z"


EPOCH_TIMESTAMP = "1970-01-01T00:00:00Z"


def _time(to: ConnectForm, text: str, flag: Flag) -> Any:
    micros = values.micros_of_time(text)
    if to.semantic == _TIME + "MicroTime":
        return micros
    if to.semantic == _TIME + "NanoTime":
        return micros * 1000
    if not 0 <= micros < _DAY:
        mode = "isostring" if to.connect == "string" else "connect"
        details = f"{text} is no time of day: time.precision.mode={mode} has no form for it"
        raise LossyError("LOSSY_VALUE", column=to.column.name, details=details)
    return text + "Z" if to.connect == "string" else _milliseconds(to, text, micros, flag)


_WRITERS: dict[Kind, Callable[[ConnectForm, Any, Flag], Any]] = {
    Kind.INTEGER: _integer, Kind.YEAR: lambda _to, text, _flag: values.year(text), Kind.FLOAT: _float,
    Kind.DOUBLE: lambda _to, text, _flag: values.real(text), Kind.DECIMAL: _decimal, Kind.BIT: _bit,
    Kind.BINARY: _binary, Kind.DATE: _date_writer(_date), Kind.DATETIME: _date_writer(_datetime),
    Kind.TIMESTAMP: _timestamp, Kind.TIME: _time, Kind.ENUM: _enum,
    **dict.fromkeys((Kind.TEXT, Kind.SET, Kind.JSON, Kind.VECTOR), _text),
}  # fmt: skip
