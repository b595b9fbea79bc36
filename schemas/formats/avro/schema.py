"""Table → Avro schema text, as TiCDC registers it (upstream ticdc `codec/avro/arvo.go`)."""

import base64
from typing import Any

from ticdc_bridge.schemas.codec.go_text import go_json
from ticdc_bridge.schemas.formats.definitions import unknown_sizes_error, unknown_type_error
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.names import repeated_name, sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind

EXTENSION = (
    {"default": "", "name": "_tidb_op", "type": "string"},
    {"default": 0, "name": "_tidb_commit_ts", "type": "long"},
    {"default": 0, "name": "_tidb_commit_physical_time", "type": "long"},
)
CHECKSUM = (
    {"default": "", "name": "_tidb_row_level_checksum", "type": "string"},
    {"default": False, "name": "_tidb_corrupted", "type": "boolean"},
    {"default": 0, "name": "_tidb_checksum_version", "type": "int"},
)
BEFORE = "_ticdc_before"


def value_columns(table: Table, options: Options) -> tuple[Column, ...]:
    """The columns in the order of the value record: by column id with row checksums (readers sum in this order)."""
    return tuple(sorted(table.columns, key=lambda c: c.id)) if options.enable_row_checksum else table.columns


def key_schema(table: Table, options: Options) -> str | None:
    """Schema text of the key record: primary key columns in table order. None for a table without primary key."""
    columns = [c for c in table.columns if c.primary_key]
    if not columns:
        return None
    return go_json({**_record(table, options), "fields": [_field(c, options) for c in columns]})


def value_schema(table: Table, options: Options) -> str:
    """Schema text of the value record: all columns, then the extension's fields as the options say.

    WireError TYPE_UNKNOWN for a column whose type is not certain, MALFORMED where two names become one.
    """
    fields: list[dict[str, Any]] = [_field(c, options) for c in value_columns(table, options)]
    field_names = [f["name"] for f in fields]
    head = _record(table, options)
    before = {"name": head["name"] + "_before", "namespace": head["namespace"], "fields": list(fields)}
    if options.avro_include_before_value:
        fields.append({"default": None, "name": BEFORE, "type": ["null", {"type": "record", **before}]})
    if options.enable_tidb_extension:
        fields += EXTENSION + (CHECKSUM if options.enable_row_checksum else ())
    elif options.avro_include_before_value:
        fields.append(EXTENSION[0])
    if (twice := repeated_name([f["name"] for f in fields])) is not None:
        is_extension = field_names.count(twice) == 1
        what = "a column and a field of TiCDC's extension are called" if is_extension else "two columns become"
        details = f"{what} {twice!r} in Avro; TiCDC's encoder refuses such a table too"
        raise WireError("MALFORMED", where=f"table {table.id}", details=details)
    return go_json({**head, "fields": fields})


def _record(table: Table, options: Options) -> dict[str, Any]:
    namespace = f"{sanitise_name(options.keyspace)}.{sanitise_name(table.id.db)}"
    return {"type": "record", "name": sanitise_name(table.id.table), "namespace": namespace}


def _field(column: Column, options: Options) -> dict[str, Any]:
    kind = avro_type(column, options)
    field: dict[str, Any] = {"name": sanitise_name(column.name), "type": kind}
    # A logical type never gets a default: goavro can't write one for it (upstream arvo.go).
    default = column.has_default_value and "logicalType" not in kind
    if column.nullable:
        field["type"] = [kind, "null"] if default else ["null", kind]
        field["default"] = _default(column, options) if default else None
    elif default:
        field["default"] = _default(column, options)
    return {k: field[k] for k in sorted(field)}


def avro_type(column: Column, options: Options) -> dict[str, Any]:
    """The Avro type object of a column, without its union."""
    if column.vague:
        raise unknown_type_error(column)
    kind, row = column.type.kind, column.type
    primitive = (row.avro_unsigned if column.unsigned else "") or row.avro
    parameters = {"tidb_type": row.avro_name}
    if column.unsigned and kind is Kind.INTEGER:
        parameters["tidb_type"] += " UNSIGNED"
        if row.bits == 64 and options.avro_bigint_unsigned_handling_mode == "string":
            primitive = "string"
    elif kind is Kind.BIT:
        parameters = {"length": str(column.length), **parameters}
    elif kind in ELEMENTS:
        parameters = {"allowed": values.join_allowed(column.elements), **parameters}
    elif kind is Kind.DECIMAL:
        if options.avro_decimal_handling_mode == "string":
            primitive = "string"
        elif column.length is None or column.scale is None:
            raise unknown_sizes_error(column)
        else:
            logical = {"logicalType": "decimal", "precision": column.length, "scale": column.scale}
            return {"type": primitive, "connect.parameters": parameters, **logical}
    return {"type": primitive, "connect.parameters": parameters}


def _default(column: Column, options: Options) -> Any:
    """A column's default as TiCDC writes it: numbers as numbers, bytes as base64 text, all else as text."""
    value, kind = column.default, column.type.kind
    if column.default_unzoned:
        details = f"the zone of its TIMESTAMP default is not known; say it with {Hint.DDL_TIME_ZONE}"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    assert value is not None
    if column.default_is_expr and kind in (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.BINARY):
        details = f"its default is the expression {value[:80]}: what TiCDC writes for it is not known"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    if kind is Kind.INTEGER:
        number = values.integer(value)
        if column.is_unsigned64 and options.avro_bigint_unsigned_handling_mode == "string":
            return value
        return number - (1 << 64) if column.is_unsigned64 and number >> 63 else number
    if kind is Kind.YEAR:
        return int(value)  # 0000 is NOT NULL's (schemas.ddl.executor.column_types)
    if kind is Kind.FLOAT:
        return values.json_double(repr(values.as_float32(float(value))))
    return values.json_double(value) if kind is Kind.DOUBLE else value
