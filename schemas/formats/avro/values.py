"""Compiled Avro records: TiCDC's schema text → reader, table → writer (upstream ticdc `avro/arvo.go`).

Types are mapped as there. Both sides work on plain values (schemas.model.values); the wire side is schemas.codec.avro.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec.avro_schema import Convert, FieldError, FieldReader, read_fields, union_reader
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.names import record_names, repeated_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, TableId, Value, require_bytes
from ticdc_bridge.schemas.model.types import BY_AVRO_NAME, BY_NAME, BYTES, Kind
from ticdc_bridge.schemas.model.values import is_clock

_EXTENSION_TYPES = ("string", "int", "long", "float", "double", "boolean")
_TWO_64 = 1 << 64


# ---------------------------------------------------------------------------------------------- schema → reader
@dataclass(frozen=True, slots=True)
class RecordReader:
    """A compiled record: its fields, the columns among them, and the table's (sanitised) name."""

    id: TableId
    keyspace: str
    fields: tuple[FieldReader, ...]
    columns: tuple[Column, ...]
    extension: tuple[str, ...]
    before: RecordReader | None

    @property
    def of_value(self) -> bool:
        """True if it has what TiCDC puts into values only: extension fields, the old row."""
        return bool(self.extension) or self.before is not None

    def read(self, data: bytes, pos: int, where: str) -> tuple[dict[str, Any], int]:
        """A record from `pos` on → (plain values by field, next position). WireError TRUNCATED, MALFORMED."""
        try:
            return read_fields(self.fields, data, pos)
        except FieldError as error:
            raise field_error(error, where) from error


def field_error(error: FieldError, where: str) -> WireError:
    """A field of a record that can't be read: TRUNCATED or MALFORMED."""
    name = f"field {error.path[-1]!r}"
    if error.is_cut:
        return WireError("TRUNCATED", where=where, field=name, details=str(error))
    return WireError("MALFORMED", where=where, details=f"{name}: {error}")


def is_extension(name: str) -> bool:
    """True if a field that says nothing of a column is TiCDC's own. Those of newer releases are called alike."""
    return name.startswith("_tidb_")


def compile_record(text: str, where: str) -> RecordReader:
    """Schema text → compiled reader. WireError UNSUPPORTED_SCHEMA for what TiCDC would not register."""
    try:
        return _record(json.loads(text), where)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, struct.error) as error:
        details = f"not a schema that TiCDC registers: {reason_of(error)}"
        raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details) from error


def _record(schema: Mapping[str, Any], where: str) -> RecordReader:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError(f"a record is needed, this is {_type_name(schema)}")
    if isinstance(schema.get("connect.name"), str) and "tidb_type" not in json.dumps(schema["fields"]):
        # Connect's sinks give TiCDC's own schemas a name, too, when they archive a topic.
        what = f"Kafka Connect's schema {schema['connect.name'][:100]}"
        raise ValueError(f"it is {what}; read the topic as debezium-mysql, debezium-avro or auto")
    namespace, table = record_names(schema)
    keyspace, _, db = namespace.rpartition(".")
    fields, columns, extension, before = [], [], [], None
    for field in schema["fields"]:
        name, branches = field["name"], field["type"]
        if not isinstance(name, str):
            raise ValueError(f"a field is named {name!r}")
        nullable = isinstance(branches, list)
        if nullable and (len(branches) != 2 or "null" not in branches):
            raise ValueError(f"field {name!r} is a union of other than null and one type")
        kind: Any = next((b for b in branches if b != "null"), None) if nullable else branches
        if isinstance(kind, dict) and is_extension(name) and not _tidb_type(kind):
            kind = kind["type"]  # Connect's sinks and converters wrap it, for the default
        if name == publish.BEFORE and isinstance(kind, dict) and kind.get("type") == "record":
            before = _record(kind, where)
            read: binary.Reader = partial(read_fields, before.fields)
            convert: Convert | None = None
            primitive = "record"
        elif isinstance(kind, str) and is_extension(name) and kind in _EXTENSION_TYPES:
            read, convert, primitive = binary.READERS[kind], values.utf8_or_bytes if kind == "string" else None, kind
            extension.append(name)
        else:
            if isinstance(kind, str) and kind not in binary.READERS:
                raise ValueError(f"field {name!r} has the type {kind!r}, which the schema does not define")
            if not _tidb_type(kind):
                raise ValueError(
                    f"field {name!r} has no tidb_type in connect.parameters, where TiCDC says each column's type: "
                    "Avro of another writer, or of a TiCDC that is too old to say it, is not read"
                )
            try:
                column = _column(name, kind, field, nullable)
            except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError, struct.error) as error:
                raise ValueError(f"field {name!r}: {reason_of(error)}") from error
            wide = column.type.kind is Kind.INTEGER and column.is_unsigned64
            if kind["type"] not in (("long", "string") if wide else _PRIMITIVES[column.type.kind]):
                raise ValueError(f"field {name!r}: {column.type.name} as {kind['type']}")
            columns.append(column)
            primitive = str(kind["type"])
            read, convert = binary.READERS[primitive], _converter(column, primitive)
        kinds = tuple("null" if b == "null" else primitive for b in branches) if nullable else (primitive,)
        if nullable:
            read = union_reader(*(None if k == "null" else read for k in kinds))
        fields.append(FieldReader(name, read, convert, kinds))
    if (twice := repeated_name([f.name for f in fields])) is not None:
        raise ValueError(f"two fields are named {twice!r}")
    return RecordReader(TableId(db, table), keyspace, tuple(fields), tuple(columns), tuple(extension), before)


def _tidb_type(kind: Any) -> str:
    """The type that TiCDC says of a column, "" where it says none."""
    parameters = kind.get("connect.parameters") if isinstance(kind, dict) else None
    return str(parameters.get("tidb_type") or "") if isinstance(parameters, dict) else ""


def _type_name(schema: Any) -> str:
    """What a schema that is no record is."""
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if isinstance(kind, str):
        return f"of type {kind[:60]}"
    return "a union" if isinstance(kind, list) else "none"


def _column(name: str, kind: Mapping[str, Any], field: Mapping[str, Any], nullable: bool) -> Column:
    parameters, tidb_type = kind["connect.parameters"], _tidb_type(kind)
    unsigned = tidb_type.endswith(" UNSIGNED")
    if tidb_type.removesuffix(" UNSIGNED") not in BY_AVRO_NAME:
        raise ValueError(f"its tidb_type is {tidb_type[:60]!r}, which TiCDC does not write")
    row = BY_AVRO_NAME[tidb_type.removesuffix(" UNSIGNED")]
    if unsigned and row.name == "int" and kind["type"] == "int":
        row = _SMALL_UNSIGNED
    length, scale = _sizes(kind, row.kind)
    elements = values.split_allowed(parameters["allowed"]) if "allowed" in parameters else ()
    column = Column(name, row, unsigned, length, scale, elements, nullable=nullable)
    default = field.get("default")
    if default is None:
        return column
    expression = row.kind in (Kind.DATETIME, Kind.TIMESTAMP) and is_clock(default)
    return replace(column, has_default=True, default=_read_default(column, default), default_is_expr=expression)


def _sizes(kind: Mapping[str, Any], family: Kind) -> tuple[int | None, int | None]:
    """BIT's length, or DECIMAL's precision and scale, within what TiDB allows. ValueError."""
    if family is Kind.BIT:
        length = int(kind["connect.parameters"]["length"])
        if not 1 <= length <= 64:
            raise ValueError(f"BIT({length})")
        return length, None
    if family is not Kind.DECIMAL or kind["type"] != "bytes":
        return None, None
    precision, scale = kind["precision"], kind.get("scale", 0)
    if not (type(precision) is type(scale) is int and 0 <= scale <= precision and 1 <= precision <= 65):
        raise ValueError(f"DECIMAL({precision!r},{scale!r})")
    return precision, scale


_TEXTUAL = (
    Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME,
)  # fmt: skip
# What a type may be on the wire; BIGINT UNSIGNED and DECIMAL also depend on the handling mode.
_PRIMITIVES: dict[Kind, tuple[str, ...]] = {
    Kind.INTEGER: ("int", "long"),  # and string for BIGINT UNSIGNED
    Kind.YEAR: ("int",),
    Kind.FLOAT: ("float", "double"),
    Kind.DOUBLE: ("double",),
    Kind.DECIMAL: ("bytes", "string"),
    Kind.BIT: ("bytes",),
    Kind.BINARY: ("bytes",),
    **dict.fromkeys(_TEXTUAL, ("string",)),
}


# TINYINT, SMALLINT and MEDIUMINT UNSIGNED are one Avro type: the widest stands for them.
_SMALL_UNSIGNED = replace(
    BY_NAME["int"], name="mediumint", avro_unsigned="int", connect_unsigned="int32", bits=24,
    digits=BY_NAME["mediumint"].digits,
)  # fmt: skip


def _read_default(column: Column, default: Any) -> Value:
    if column.type.kind in BYTES:
        return values.base64_bytes(default)
    if column.type.kind is Kind.FLOAT:
        return values.float_text(values.as_float32(default))
    if column.type.kind is Kind.DOUBLE:
        return values.double_text(float(default))
    if column.is_unsigned64 and isinstance(default, int):
        return str(default % _TWO_64)
    return "0000" if column.type.kind is Kind.YEAR and default == 0 else str(default)  # NOT NULL's: 0 would be 2000


# ---------------------------------------------------------------------------------- wire value → plain value
def _converter(column: Column, primitive: str) -> Convert:
    kind = column.type.kind
    match kind:
        case Kind.DECIMAL if primitive == "bytes":
            return partial(_decimal, column)
        case Kind.DECIMAL:
            return lambda data: values.check_decimal(data.decode("ascii"))
        case Kind.INTEGER if column.type.bits < 64:
            return lambda number: str(values.check_range(number, column.type.bits, column.unsigned))
        case Kind.INTEGER if column.unsigned and primitive == "long":
            return lambda number: str(number % _TWO_64)
        case Kind.INTEGER if column.unsigned:
            return lambda data: str(values.integer(data.decode("ascii"), 64, unsigned=True))
        case Kind.BIT:
            return partial(values.check_bit, column.length or 0)
        case Kind.YEAR:
            return lambda number: str(values.check_year(number))
    return _BY_PRIMITIVE[primitive]


def _decimal(column: Column, data: bytes) -> str:
    precision, scale = column.length, column.scale or 0
    if not 0 < len(data) <= 32:
        raise ValueError(f"{len(data)} bytes are no DECIMAL")
    unscaled = int.from_bytes(data, "big", signed=True)
    if precision is not None and abs(unscaled) >= 10**precision:
        raise ValueError(f"{values.decimal_text(unscaled, scale)} does not fit DECIMAL({precision},{scale})")
    return values.decimal_text(unscaled, scale)


_BY_PRIMITIVE: dict[str, Convert] = {
    "int": str, "long": str, "float": values.float_text, "double": values.double_text, "string": values.utf8_or_bytes,
    "bytes": bytes,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- table → writer
Write = Callable[[Any], bytes]
RowWriter = Callable[[Row, RowChange], bytes]


def row_writer(columns: tuple[Column, ...], options: Options) -> RowWriter:
    """Compiled writer of a row's columns, as `value_schema` has them: (row, the event it is of) → Avro body.

    WireError INVALID_VALUE for a column that is missing, NULL where it must not be, or not of its type;
    LossyError where the value would change.
    """
    kinds = (publish.avro_type(column, options)["type"] for column in columns)
    fields = ((c, *union_of(c, options), _writer(c, kind)) for c, kind in zip(columns, kinds, strict=True))
    return _fields_writer(tuple(fields), options.time_zone)


def field_writer(column: Column, branches: tuple[str, ...], zone: str) -> RowWriter:
    """As `row_writer`, of one column as a schema that was read has it; zone: of TIMESTAMP text written."""
    kind = next(k for k in branches if k != "null")
    union = _UNION[branches.index("null") if "null" in branches else None]
    return _fields_writer(((column, *union, _writer(column, kind)),), zone)


# By the branch that is null: (bytes of NULL or None, what stands before a value).
_UNION: dict[int | None, tuple[bytes | None, bytes]] = {None: (None, b""), 0: (b"\x00", b"\x02"), 1: (b"\x02", b"\x00")}


def union_of(column: Column, options: Options) -> tuple[bytes | None, bytes]:
    """(bytes of NULL or None, what stands before a value) of a column, as its schema has its union."""
    if not column.nullable:
        return _UNION[None]
    precise = column.type.kind is Kind.DECIMAL and options.avro_decimal_handling_mode == "precise"
    return _UNION[int(column.has_default_value and not precise)]


def _fields_writer(fields: tuple[tuple[Column, bytes | None, bytes, Write], ...], zone: str) -> RowWriter:
    def write(row: Row, event: RowChange) -> bytes:
        out = []
        for column, null, prefix, convert in fields:
            value = row.get(column.name)
            if value is None:
                if column.name not in row and not column.virtual:
                    raise _invalid_value_error(column, "the event does not carry it")
                if null is None:
                    raise _invalid_value_error(column, "NULL in a NOT NULL column")
                out.append(null)
                continue
            try:
                if column.type.kind is Kind.TIMESTAMP:
                    value = event.in_zone(column.name, value, zone)
                out.append(prefix + convert(value))
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                raise _invalid_value_error(column, str(error)) from error
        return b"".join(out)

    return write


def _invalid_value_error(column: Column, details: str) -> WireError:
    return WireError("INVALID_VALUE", column=column.name, details=details)


def _writer(column: Column, primitive: str) -> Write:
    kind = column.type.kind
    if kind is Kind.INTEGER:
        return partial(_write_integer, column, primitive)
    if kind is Kind.DECIMAL:
        return _decimal_writer(column, primitive)
    if kind is Kind.BIT:
        return lambda value: binary.write_bytes(values.check_bit(column.length or 0, require_bytes(value)))
    return _WRITERS[Kind.DOUBLE if primitive == "double" else kind]


def _write_integer(column: Column, primitive: str, text: str) -> bytes:
    number = values.integer(text, column.type.bits, column.unsigned)
    if primitive == "string":
        return binary.write_bytes(text.encode())
    return binary.write_long(number - _TWO_64 if number >> 63 == 1 else number)


def _decimal_writer(column: Column, primitive: str) -> Write:
    if primitive == "string":
        check = values.decimal_check(column.length, column.scale)
        return lambda text: binary.write_bytes(check(text).encode())
    assert column.length is not None
    assert column.scale is not None
    precision, scale = column.length, column.scale
    return lambda text: binary.write_decimal(values.unscaled_decimal(text, precision, scale))


_WRITERS: dict[Kind, Write] = {
    Kind.FLOAT: lambda text: binary.write_float(values.parse_float32(text)),
    Kind.DOUBLE: lambda text: binary.write_double(values.real(text)),
    Kind.YEAR: lambda text: binary.write_long(values.year(text)),
    Kind.BINARY: lambda value: binary.write_bytes(require_bytes(value)),
    **dict.fromkeys(_TEXTUAL, lambda value: binary.write_bytes(value if isinstance(value, bytes) else value.encode())),
}
