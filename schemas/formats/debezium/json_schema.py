"""Table → the Kafka Connect schemas in TiCDC's Debezium JSON (upstream ticdc `codec/debezium/codec.go`).

All texts are compact JSON in TiCDC's key order. TiCDC lists a virtual column twice, in its place and at the end.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import compact_json
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.names import sanitise_name, sanitise_topic_label
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import NUMBERS, Kind
from ticdc_bridge.schemas.model.values import is_clock

_TIME = "io.debezium.time."
_SOURCE = (
    ("string", False, "version"), ("string", False, "connector"), ("string", False, "name"), ("int64", False, "ts_ms"),
    ("snapshot", True, "snapshot"), ("string", False, "db"), ("string", True, "sequence"), ("string", True, "table"),
    ("int64", False, "server_id"), ("string", True, "gtid"), ("string", False, "file"), ("int64", False, "pos"),
    ("int32", False, "row"), ("int64", True, "thread"), ("string", True, "query"),
)  # fmt: skip
_SNAPSHOT = {
    "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1,
    "parameters": {"allowed": "true,last,false,incremental"}, "default": "false", "field": "snapshot",
}  # fmt: skip
TRANSACTION = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ],
    "optional": True, "name": "event.block", "version": 1, "field": "transaction",
}  # fmt: skip


def name_prefix(table: Table, cluster_id: str) -> str:
    """`<cluster>.<db>.<table>`, what the names of key, row and envelope schemas start with."""
    return f"{sanitise_name(cluster_id)}.{sanitise_name(table.id.db)}.{sanitise_topic_label(table.id.table)}"


def key_schema(table: Table, options: Options, cluster_id: str) -> str:
    """Schema of a row's key."""
    name, fields = name_prefix(table, cluster_id) + ".Key", [field(c, options) for c in table.columns if c.handle_key]
    return compact_json({"type": "struct", "name": name, "optional": False, "fields": fields})


def value_schema(
    table: Table, options: Options, cluster_id: str, row_names: frozenset[str] | None, has_commit_ts: bool = True
) -> str:
    """Schema of a row's envelope. `row_names`: columns that may be called NOT NULL; None means all (see `field`).

    has_commit_ts: whether the row's is known.
    """
    prefix = name_prefix(table, cluster_id)
    listed = (*table.columns, *(c for c in table.columns if c.virtual))
    columns = [field(c, options, row_names is None or c.name in row_names) for c in listed]
    row = [
        {"type": "struct", "optional": True, "name": prefix + ".Value", "field": image, "fields": columns}
        for image in ("before", "after")
    ]
    return compact_json(
        {
            "type": "struct", "optional": False, "name": prefix + ".Envelope", "version": 1,
            "fields": [*row, source(options, has_commit_ts), *envelope_tail()],
        }
    )  # fmt: skip


def watermark_schemas(options: Options) -> tuple[str, str]:
    """Schemas of a watermark's key and envelope."""
    name = f"{sanitise_name(options.cluster_id)}.watermark"
    key = {"type": "struct", "name": f"{name}.Key", "optional": False, "fields": []}
    fields = [source(options), *envelope_tail()]
    value = {"type": "struct", "optional": False, "name": f"{name}.Envelope", "version": 1, "fields": fields}
    return compact_json(key), compact_json(value)


def ddl_schemas(options: Options) -> tuple[str, str]:
    """Schemas of a DDL message's key and value; start_ts is a row's only."""
    without_start = replace(options, debezium_include_start_ts=False)
    return compact_json(schema_changes.key()), compact_json(schema_changes.value(source(without_start)))


def envelope_tail() -> Iterator[dict[str, Any]]:
    """The fields that follow source."""
    yield {"type": "string", "optional": False, "field": "op"}
    yield {"type": "int64", "optional": True, "field": "ts_ms"}
    yield TRANSACTION


def source(options: Options, has_commit_ts: bool = True) -> dict[str, Any]:
    """Schema of the source block; commit_ts and cluster_id are declared with the TiDB extension only.

    has_commit_ts: False for a row whose commit_ts is null.
    """
    fields = [
        _SNAPSHOT if kind == "snapshot" else {"type": kind, "optional": optional, "field": name}
        for kind, optional, name in _SOURCE
    ]
    if options.enable_tidb_extension:
        fields.append({"type": "int64", "optional": not has_commit_ts, "field": "commit_ts"})
        fields.append({"type": "string", "optional": False, "field": "cluster_id"})
    if options.debezium_include_start_ts:
        fields.append({"type": "int64", "optional": False, "field": "start_ts"})
    name = "io.debezium.connector.mysql.Source"
    return {"type": "struct", "fields": fields, "optional": False, "name": name, "field": "source"}


def field(column: Column, options: Options, not_null_known: bool = True) -> dict[str, Any]:
    """Schema of one column. A NOT NULL column is called optional where its value is not known (a key-only delete)."""
    out: dict[str, Any] = {}
    if options.enable_tidb_extension:
        # TiCDC leaves UNSIGNED out of DECIMAL's tidb_type (golden debezium/wide.ext.schema).
        unsigned = column.unsigned and column.type.kind is not Kind.DECIMAL
        out["tidb_type"] = column.type.name + " unsigned" * unsigned
    out["type"], name, parameters = connect_type(column)
    out["optional"] = column.nullable or not not_null_known
    if name:
        out["name"] = name
        if column.type.kind is not Kind.VECTOR:
            out["version"] = 1
    if parameters:
        out["parameters"] = parameters
    out["field"] = column.name
    if column.has_default_value and (default := _default(column, out["type"])) is not None:
        out["default"] = default
    return out


def connect_type(column: Column) -> tuple[str, str, dict[str, str]]:
    """(Connect type, semantic name or "", parameters) of a column."""
    row, kind = column.type, column.type.kind
    connect = (row.connect_unsigned if column.unsigned else "") or row.connect
    if kind is Kind.BIT:
        return ("boolean", "", {}) if column.length == 1 else (connect, row.semantic, {"length": str(column.length)})
    if kind is Kind.ENUM:
        return connect, row.semantic, {"allowed": values.join_allowed(column.elements)}
    if kind is Kind.SET:
        return connect, row.semantic, {"allowed": ",".join(column.elements)}
    if kind is Kind.DATETIME:
        return connect, _TIME + ("Timestamp" if in_milliseconds(column) else "MicroTimestamp"), {}
    if kind is Kind.FLOAT and column.scale is not None:
        return "double", "", {}  # FLOAT(M,D)
    return connect, row.semantic, {}


def in_milliseconds(column: Column) -> bool:
    """True for DATETIME(0..3); where the fsp is not known too, as 0 is what most columns have."""
    return column.scale is None or column.scale <= 3


def _default(column: Column, connect: str) -> Any:
    """A column's default as TiCDC puts it into the schema; None where it writes none, or has no number for it."""
    value, kind = column.default, column.type.kind
    if isinstance(value, bytes):
        if column.type.kind is Kind.BIT:
            return any(value) if connect == "boolean" else values.base64_text(value[::-1])
        return value.decode("utf-8", "replace")  # TiCDC writes a binary default as raw text
    assert value is not None
    if kind in (Kind.DATETIME, Kind.TIMESTAMP) and (column.default_is_expr or is_clock(value)):
        if kind is Kind.DATETIME:
            return 0
        return None if column.nullable else "1970-01-01T00:00:00Z"
    with suppress(ValueError):
        if kind in NUMBERS:
            return values.json_double(value)
        if kind is Kind.DATE:
            return values.days_of_date(value)
        if kind is Kind.DATETIME:
            micros = values.micros_of_datetime(value)
            return micros // 1000 if in_milliseconds(column) else micros
        if kind is Kind.TIME:
            return values.micros_of_time(value)
        return value.replace(" ", "T") + "Z" if kind is Kind.TIMESTAMP else value
    return None
