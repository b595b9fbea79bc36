"""Table → the Avro schemas that TiCDC's Debezium Avro registers (upstream ticdc `codec/debezium/avro.go`).

Every attribute stands in order of its name, every column may be null, and no column has its default. Names lack
Debezium's `.Envelope`, `.Value` and `.Key`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec.go_text import go_json
from ticdc_bridge.schemas.formats.debezium import json_schema as json_form
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.definitions import unknown_sizes_error, unknown_type_error
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.names import repeated_name, sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind

DECIMAL = "org.apache.kafka.connect.data.Decimal"
_AVRO = {
    "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double", "boolean": "boolean",
    "string": "string", "bytes": "bytes",
}  # fmt: skip
SOURCE = (
    ("string", False, "version"), ("string", False, "connector"), ("string", False, "name"), ("int64", False, "ts_ms"),
    ("string", True, "snapshot"), ("string", False, "db"), ("string", False, "table"), ("int64", False, "server_id"),
    ("string", True, "gtid"), ("string", False, "file"), ("int64", False, "pos"), ("int32", False, "row"),
    ("int64", True, "thread"), ("string", True, "query"), ("int64", False, "commit_ts"),
    ("string", False, "cluster_id"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """Schema texts of a message's key and value, and the subjects where the message has no topic of its own."""

    key: str
    value: str
    key_name: str
    value_name: str


def row_schemas(table: Table, options: Options, cluster_id: str) -> RecordSchemas:
    """A row's schemas. WireError TYPE_UNKNOWN for a type that is not certain, MALFORMED where two names become one.

    Virtual columns are left out: TiCDC lists them twice, which is no Avro schema, so it has none for such a table.
    """
    prefix = f"{sanitise_name(cluster_id)}.{sanitise_name(table.id.db)}"
    name = f"{prefix}.{sanitise_name(table.id.table)}"
    columns = [_column(c, options) for c in table.columns if not c.virtual]
    row = {"type": "struct", "optional": True, "name": name, "fields": columns}
    images = ({"field": image, **row} for image in ("before", "after"))
    ends = ({"field": "op", "type": "string"}, {"field": "ts_ms", "type": "int64"})
    envelope = {"name": name + "Envelope", "version": 1, "fields": [*images, _source(prefix), *ends]}
    key = {"name": name + "Key", "fields": [_column(c, options) for c in table.columns if c.handle_key]}
    return _texts(key, envelope)


def watermark_schemas(cluster_id: str) -> RecordSchemas:
    """The schemas of a watermark."""
    name = f"{sanitise_name(cluster_id)}.watermark"
    fields = [_source(name), *json_form.envelope_tail()]
    return _texts({"name": name + ".Key", "fields": []}, {"name": name + ".Envelope", "version": 1, "fields": fields})


def ddl_schemas(db: str, cluster_id: str) -> RecordSchemas:
    """The schemas of a DDL message; the value's schema names the database."""
    pieces = [sanitise_name(cluster_id), sanitise_name(db)]
    return _texts(schema_changes.key(), schema_changes.value(_source(".".join(p for p in pieces if p))))


def _source(prefix: str) -> dict[str, Any]:
    fields = [{"field": name, "type": kind, "optional": optional} for kind, optional, name in SOURCE]
    return {"field": "source", "type": "struct", "name": prefix + ".Source", "fields": fields}


def _texts(key: Mapping[str, Any], value: Mapping[str, Any]) -> RecordSchemas:
    texts = [go_json(_type({**schema, "type": "struct"}, set())) for schema in (key, value)]
    return RecordSchemas(texts[0], texts[1], key["name"], value["name"])


def _column(column: Column, options: Options) -> dict[str, Any]:
    if column.vague:
        raise unknown_type_error(column)
    field = {**json_form.field(replace(column, nullable=True, has_default=False), options)}
    field["type"], name, field["parameters"] = connect_type(column, options)
    return {**field, "name": name} if name else {k: v for k, v in field.items() if k != "name"}


def connect_type(column: Column, options: Options) -> tuple[str, str, dict[str, str]]:
    """(Connect type, semantic name or "", parameters) of a column. WireError TYPE_UNKNOWN."""
    kind = column.type.kind
    if kind is Kind.BINARY:
        return "bytes", "", {}
    if kind is Kind.DECIMAL:
        if options.avro_decimal_handling_mode == "string":
            return "string", "", {}
        if column.length is None or column.scale is None:
            raise unknown_sizes_error(column)
        return "bytes", DECIMAL, {"precision": str(column.length), "scale": str(column.scale)}
    if column.is_unsigned64 and options.avro_bigint_unsigned_handling_mode == "string":
        return "string", "", {}
    if kind is Kind.DATETIME and column.scale is None:
        column = replace(column, scale=6)  # microseconds hold every value
    return json_form.connect_type(column)


# ---------------------------------------------------------------------------------- Connect schema → Avro
def _type(schema: Mapping[str, Any], seen_names: set[str]) -> Any:
    """A Connect schema as TiCDC's Avro. A record that was named before is referred to by its full name."""
    kind = schema["type"]
    if kind == "array":
        return {"items": _type(schema["items"], seen_names), "type": "array"}
    name = schema.get("name", "")
    if kind != "struct":
        return _primitive(schema, kind, name)
    if name in seen_names:
        return name
    seen_names.add(name)
    namespace, _, short = name.rpartition(".")
    version = {"connect.version": schema["version"]} if "version" in schema else {}
    fields = _fields(schema["fields"], name, seen_names)
    return {"connect.name": name, **version, "fields": fields, "name": short, "namespace": namespace, "type": "record"}


def _primitive(schema: Mapping[str, Any], kind: str, name: str) -> Any:
    avro_type: dict[str, Any] = {"connect.name": name} if name else {}
    if schema.get("parameters"):
        avro_type["connect.parameters"] = schema["parameters"]
    if kind == "int16":
        avro_type["connect.type"] = kind
    if name == DECIMAL:
        parameters = schema["parameters"]
        scale = int(parameters["scale"])
        avro_type |= {"logicalType": "decimal", "precision": int(parameters["precision"]), "scale": scale}
    elif "version" in schema:
        avro_type["connect.version"] = schema["version"]
    return {**avro_type, "type": _AVRO[kind]} if avro_type else _AVRO[kind]


def _fields(fields: Iterable[Mapping[str, Any]], record: str, seen_names: set[str]) -> list[dict[str, Any]]:
    out = []
    for field in fields:
        kind = _type(field, seen_names)
        avro_field: dict[str, Any] = {"connect.field": field["field"]}
        if field.get("optional"):
            avro_field["default"], kind = None, ["null", kind]
        avro_field["name"] = sanitise_name(field["field"])
        if "tidb_type" in field:
            avro_field["tidb_type"] = field["tidb_type"]
        out.append({**avro_field, "type": kind})
    if (twice := repeated_name([f["name"] for f in out])) is not None:
        details = f"two columns become {twice!r} in Avro; TiCDC's encoder refuses such a table too"
        raise WireError("MALFORMED", where=f"record {record}", details=details)
    return out
