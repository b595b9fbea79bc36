"""Connect schemas of DDL messages, as TiCDC's Debezium writes them (upstream ticdc `codec/debezium/codec.go`)."""

from __future__ import annotations

from typing import Any

_MYSQL, _SCHEMA = "io.debezium.connector.mysql.", "io.debezium.connector.schema."


def _field(name: str, kind: str, optional: bool = True) -> dict[str, Any]:
    return {"field": name, "optional": optional, "type": kind}


_STRINGS = {"type": "string", "optional": False}
_COLUMN = {
    "name": _SCHEMA + "Column", "optional": False, "type": "struct", "version": 1,
    "fields": [
        _field("name", "string", False), _field("jdbcType", "int32", False), _field("nativeType", "int32"),
        _field("typeName", "string", False), _field("typeExpression", "string"), _field("charsetName", "string"),
        _field("length", "int32"), _field("scale", "int32"), _field("position", "int32", False),
        _field("optional", "boolean"), _field("autoIncremented", "boolean"), _field("generated", "boolean"),
        _field("comment", "string"), _field("defaultValueExpression", "string"),
        {**_field("enumValues", "array"), "items": _STRINGS},
    ],
}  # fmt: skip
_TABLE = {
    "field": "table", "optional": True, "type": "struct", "name": _SCHEMA + "Table", "version": 1,
    "fields": [
        _field("defaultCharsetName", "string"), {**_field("primaryKeyColumnNames", "array"), "items": _STRINGS},
        {**_field("columns", "array", False), "items": _COLUMN}, _field("comment", "string"),
    ],
}  # fmt: skip
_CHANGE = {
    "name": _SCHEMA + "Change", "optional": False, "type": "struct", "version": 1,
    "fields": [_field("type", "string", False), _field("id", "string", False), _TABLE],
}  # fmt: skip
KEY: dict[str, Any] = {
    "type": "struct", "name": _MYSQL + "SchemaChangeKey", "optional": False, "version": 1,
    "fields": [_field("databaseName", "string", False)],
}  # fmt: skip


def value(source: dict[str, Any]) -> dict[str, Any]:
    """Schema of a DDL message's value, around the schema of its source block."""
    return {
        "optional": False, "type": "struct", "version": 1, "name": _MYSQL + "SchemaChangeValue",
        "fields": [
            source, _field("ts_ms", "int64", False), _field("databaseName", "string"), _field("schemaName", "string"),
            _field("ddl", "string"), {**_field("tableChanges", "array", False), "items": _CHANGE},
        ],
    }  # fmt: skip
