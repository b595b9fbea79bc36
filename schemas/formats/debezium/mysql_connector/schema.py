"""Table → the Kafka Connect schemas of Debezium's connectors 3.6 (their documentation; measured with 3.6.1).

Only NOT NULL columns have their defaults here: Connect's converters put a default where the row has NULL
(JsonConverter's replace.null.with.default is true where it is not set).
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.formats.debezium import json_schema as ticdc
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.debezium.connect import DECIMAL
from ticdc_bridge.schemas.formats.debezium.connector import Connector
from ticdc_bridge.schemas.formats.definitions import unknown_sizes_error, unknown_type_error
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.names import repeated_name, sanitise_name, topic_label
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_CONNECT, BY_NAME, FRACTIONAL, Kind
from ticdc_bridge.schemas.model.values import split_allowed

# ---- Columns of Debezium's MySQL connector: a field of the Connect schema → column.
#
# Source: Debezium's documentation of the MySQL connector, "Data type mappings". What the schema leaves open is the
# column's `vague`, unless the connector propagates the source's types.

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SOURCE = "__debezium.source.column."
GEOMETRY = "GEOMETRY, which TiDB does not have"

# Semantic name → (type, fraction digits where the name says how many at most).
SEMANTIC: dict[str, tuple[str, int | None]] = {
    DECIMAL: ("decimal", None),
    DATA + "Bits": ("bit", None),
    DATA + "Enum": ("enum", None),
    DATA + "EnumSet": ("set", None),
    DATA + "Json": ("json", None),
    DATA + "Uuid": ("varchar", None),
    DATA + "FloatVector": ("vector", None),
    DATA + "TiDBVectorFloat32": ("vector", None),
    **dict.fromkeys((TIME + "Date", TIME + "IsoDate", CONNECT + "Date"), ("date", None)),
    TIME + "Timestamp": ("datetime", 3),
    CONNECT + "Timestamp": ("datetime", None),
    **dict.fromkeys((TIME + "MicroTimestamp", TIME + "NanoTimestamp"), ("datetime", 6)),
    TIME + "IsoTimestamp": ("datetime", None),
    TIME + "ZonedTimestamp": ("timestamp", None),
    **dict.fromkeys(
        (CONNECT + "Time", *(TIME + t for t in ("Time", "MicroTime", "NanoTime", "IsoTime"))), ("time", None)
    ),
    TIME + "Year": ("year", None),
}
_ALIASES = {"integer": "int", "numeric": "decimal", "fixed": "decimal", "dec": "decimal", "real": "double",
            "bool": "tinyint", "boolean": "tinyint"}  # fmt: skip


def column_of(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column. KeyError or ValueError for what the connector does not write."""
    name, connect, semantic = field["field"], field["type"], field.get("name", "")
    parameters = field.get("parameters") or {}
    column = Column(name, BY_NAME["text"], nullable=bool(field["optional"]))
    if semantic.startswith(DATA + "geometry."):
        return replace(column, vague=GEOMETRY)
    return _read_propagated(column, connect, parameters) or _guess_column(column, connect, semantic, parameters)


# What a field without a semantic name can be; by custom converters a boolean is an integer, and text a date or time.
_KINDS = {
    **dict.fromkeys(("int16", "int32", "int64"), (Kind.INTEGER,)),
    "float": (Kind.FLOAT,),
    "double": (Kind.DOUBLE, Kind.FLOAT, Kind.DECIMAL),
    "boolean": (Kind.BIT, Kind.INTEGER),
    "bytes": (Kind.BINARY,),
    "string": (
        Kind.TEXT, Kind.BINARY, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR,
        Kind.ENUM, Kind.SET, Kind.JSON,
    ),
}  # fmt: skip


def fits(column: Column, field: Mapping[str, Any]) -> bool:
    """True if a definition's column can be what the schema declares. No commit_ts says which version is meant."""
    semantic, kind = field.get("name", ""), column.type.kind
    if semantic == DECIMAL:
        return kind is Kind.DECIMAL or column.is_unsigned64
    if semantic:
        return semantic in SEMANTIC and BY_NAME[SEMANTIC[semantic][0]].kind is kind
    return kind in _KINDS.get(field["type"], ())


_LEAVE_IT_OUT = "leave the column out (column.exclude.list)"


def _guess_column(column: Column, connect: str, semantic: str, parameters: Mapping[str, str]) -> Column:
    """From Connect's type and the semantic name: what they leave open is `vague`."""
    if semantic:
        if semantic not in SEMANTIC:
            raise ValueError(f"column {column.name!r} has the unknown type {semantic[:80]!r}: {_LEAVE_IT_OUT}")
        type_, scale = SEMANTIC[semantic]
        column = replace(column, type=BY_NAME[type_], scale=scale)
    elif connect == "bytes":
        column = replace(column, type=BY_NAME["blob"])
    elif connect in BY_CONNECT:
        guess, vague = BY_CONNECT[connect]
        column = replace(column, type=guess, vague=vague)
    else:
        unknown = json_exact.dump(connect)[:60]
        raise ValueError(f"column {column.name!r} has the unknown type {unknown}: {_LEAVE_IT_OUT}")
    if semantic == DECIMAL:
        precision, scale = int(parameters.get("connect.decimal.precision", "65")), int(parameters["scale"])
        if scale < 0:
            raise ValueError(f"column {column.name!r} has the scale {scale}, which no DECIMAL of MySQL has")
        vague = "DECIMAL(20,0) or BIGINT UNSIGNED" if (precision, scale) == (20, 0) else ""
        return replace(column, length=precision, scale=scale, vague=vague)
    if connect == "boolean":
        return replace(column, length=1, vague="BIT(1), or TINYINT(1) by a custom converter")
    if column.type.kind is Kind.BIT:
        return replace(column, length=int(parameters["length"]))
    if "allowed" in parameters:
        return replace(column, elements=_split_allowed(parameters["allowed"], column.type.kind))
    return column


def _read_propagated(column: Column, connect: str, parameters: Mapping[str, str]) -> Column | None:
    """From `column.propagate.source.type`: the exact type. None where it is not sent, or not one of TiDB's."""
    words = parameters.get(_SOURCE + "type", "").lower().split()
    name = _ALIASES.get(words[0], words[0]) if words else ""
    length, scale = (int(parameters[_SOURCE + k]) if _SOURCE + k in parameters else None for k in ("length", "scale"))
    if name == "float" and connect == "double" and scale is None:
        name = "double"  # FLOAT(25..53)
    if name not in BY_NAME:
        return None
    column = replace(column, type=BY_NAME[name], length=length, scale=scale, unsigned="unsigned" in words)
    kind = column.type.kind
    if kind in FRACTIONAL:
        return replace(column, length=None, scale=length or 0)
    if kind is Kind.DECIMAL:
        return replace(column, scale=scale or 0)
    if kind is Kind.BIT:
        return replace(column, length=length or 1)
    if "allowed" in parameters:
        column = replace(column, elements=_split_allowed(parameters["allowed"], kind))
    return replace(column, zerofill="zerofill" in words)


def _split_allowed(allowed: str, kind: Kind) -> tuple[str, ...]:
    """Debezium's `allowed` list → elements. An ENUM's escapes `,` and `\\` by a backslash, a SET's nothing."""
    return split_allowed(allowed, escapes_all=True) if kind is Kind.ENUM else tuple(allowed.split(","))


_NOT_AVRO = re.compile(r"[^A-Za-z0-9_]")
_NOT_UNICODE = re.compile(r"[^A-Za-z0-9]")


@lru_cache(maxsize=16_384)
def adjusted_names(name: str) -> frozenset[str]:
    """The names that field.name.adjustment.mode makes of a column's: of avro, and of avro_unicode in all its versions.

    Source: Debezium's `SchemaNameAdjuster`. avro: `_` for each character that Avro's names lack. avro_unicode: `_` and
    its UTF-16 code, of `_` too in later versions. A digit in front is kept behind a `_`, or is written by its code.
    """
    if not name:
        return frozenset()
    heads = ["_" + name[0], _code(name[0])] if name[0].isdigit() else [name[0]]
    rest = name[1:]
    forms = {_NOT_AVRO.sub(lambda m: "_" * _code(m[0]).count("_"), head + rest) for head in heads}
    for pattern, head in product((_NOT_AVRO, _NOT_UNICODE), heads):
        first = head if name[0].isdigit() else pattern.sub(lambda m: _code(m[0]), head)
        forms.add(first + pattern.sub(lambda m: _code(m[0]), rest))
    return frozenset(forms - {name})


def _code(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"_u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


_SNAPSHOT = {
    "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1,
    "parameters": {"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
    "default": "false", "field": "snapshot",
}  # fmt: skip
_OP = {"type": "string", "optional": False, "field": "op"}
_INT32 = (TIME + "Date", TIME + "Time", CONNECT + "Date", CONNECT + "Time")


def topic(id_: TableId | None, options: Options) -> str:
    """The topic of a table's rows, `<topic.prefix>.<db>.<table>`; of schema changes (None), `<topic.prefix>`."""
    return ".".join(map(topic_label, (options.topic_prefix or options.cluster_id, *(id_ or ()))))


def prefix(table: Table, options: Options) -> str:
    """`<topic.prefix>.<db>.<table>`, what the names of the key's, row's and envelope's schemas start with."""
    return ".".join(map(sanitise_name, (options.topic_prefix or options.cluster_id, *table.id)))


def key_schema(table: Table, keys: Iterable[str], options: Options) -> dict[str, Any]:
    """Schema of a row's key: its columns in the order given (the primary key's own)."""
    fields = [field(replace(table.by_name[name], nullable=False), options) for name in keys]
    return {"type": "struct", "fields": fields, "optional": False, "name": prefix(table, options) + ".Key"}


def value_schema(
    table: Table, connector: Connector, options: Options, defaults: Mapping[str, Any],
    row_names: frozenset[str] | None = None, has_commit_ts: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Schema of a row's envelope. defaults: by column, as its values are written in JSON.

    row_names: the columns that a row has of which only the key is known; others may be NULL there. has_commit_ts: False
    for a row whose commit_ts is null.
    """
    name = prefix(table, options)
    columns = [c for c in table.columns if not c.virtual]
    if row_names is not None:
        columns = [c if c.name in row_names else replace(c, nullable=True) for c in columns]
    fields = [field(c, options, None if c.nullable else defaults.get(c.name)) for c in columns]
    images = [
        {"type": "struct", "fields": fields, "optional": True, "name": name + ".Value", "field": image}
        for image in ("before", "after")
    ]
    return envelope(name + ".Envelope", images, connector, has_commit_ts)


def envelope(
    name: str, images: Iterable[dict[str, Any]], connector: Connector, has_commit_ts: bool = True
) -> dict[str, Any]:
    """Schema of an envelope around those of its `before` and `after`. has_commit_ts: as `value_schema`."""
    times = ({"type": "int64", "optional": True, "field": f"ts_{unit}"} for unit in ("ms", "us", "ns"))
    return {
        "type": "struct",
        "fields": [*images, _source(connector, has_commit_ts), ticdc.TRANSACTION, _OP, *times],
        "optional": False, "name": name, "version": 2,
    }  # fmt: skip


def ddl_schemas(connector: Connector) -> tuple[dict[str, Any], dict[str, Any]]:
    """Schemas of a schema change's key and value."""
    return schema_changes.key(connector.package), schema_changes.value(_source(connector), connector.package)


def _source(connector: Connector, has_commit_ts: bool = True) -> dict[str, Any]:
    nullable = () if has_commit_ts else ("commit_ts",)
    fields = [
        {"type": kind, "optional": optional or name in nullable, "field": name} if kind else _SNAPSHOT
        for name, kind, optional in connector.fields
    ]
    return {
        "type": "struct", "fields": fields, "optional": False, "name": connector.package + ".Source", "version": 1,
        "field": "source",
    }  # fmt: skip


def field(column: Column, options: Options, default: Any = None) -> dict[str, Any]:
    """Schema of one column. default: as JSON has it; None for none. WireError TYPE_UNKNOWN."""
    if column.vague:
        raise unknown_type_error(column)
    connect, name, parameters = connect_type(column, options)
    out: dict[str, Any] = {"type": connect, "optional": column.nullable}
    if name:
        out["name"] = name
        if column.type.kind is not Kind.VECTOR:
            out["version"] = 1
    if options.column_propagate_source_type:
        parameters = {**parameters, **_source_type(column)}
    if column.comment:
        out["doc"] = column.comment
    if parameters:
        out["parameters"] = parameters
    if default is not None:
        out["default"] = default
    return {**out, "field": column.name}


def connect_type(column: Column, options: Options) -> tuple[str, str, dict[str, str]]:
    """(Connect type, semantic name or "", parameters) of a column in the handling modes that the options set."""
    kind = column.type.kind
    if kind is Kind.DECIMAL:
        return _decimal(column, options)
    if kind is Kind.INTEGER and column.is_unsigned64:
        if options.bigint_unsigned_handling_mode == "precise":
            return "bytes", DECIMAL, {"scale": "0", "connect.decimal.precision": "20"}
        return "int64", "", {}
    if kind is Kind.BINARY:
        return ("bytes" if options.binary_handling_mode in ("auto", "bytes") else "string"), "", {}
    if kind is Kind.ENUM:
        escaped = ",".join(e.replace("\\", "\\\\").replace(",", "\\,") for e in column.elements)
        return "string", column.type.semantic, {"allowed": escaped}
    if kind in (Kind.DATE, *FRACTIONAL):
        name = temporal_name(column, options.time_precision_mode)
        text = ".Iso" in name or kind is Kind.TIMESTAMP
        return ("string" if text else "int32" if name in _INT32 else "int64"), name, {}
    return ticdc.connect_type(column)


def _decimal(column: Column, options: Options) -> tuple[str, str, dict[str, str]]:
    mode = decimal_mode(options)
    if mode != "precise":
        return mode, "", {}
    if column.length is None or column.scale is None:
        raise unknown_sizes_error(column)
    return "bytes", DECIMAL, {"scale": str(column.scale), "connect.decimal.precision": str(column.length)}


def decimal_mode(options: Options) -> str:
    """precise, string or double. By default precise, but text in JSON without schema, where base64 says nothing."""
    if options.decimal_handling_mode != "auto":
        return options.decimal_handling_mode
    return "string" if options.debezium_disable_schema and options.encoding_format == "json" else "precise"


def temporal_name(column: Column, mode: str) -> str:
    """Semantic name of a DATE, DATETIME, TIMESTAMP or TIME column under a `time.precision.mode`.

    Where the fraction digits are not known, there may be six.
    """
    kind, short = column.type.kind, column.scale is not None and column.scale <= 3
    if kind is Kind.TIMESTAMP:
        return TIME + "ZonedTimestamp"
    if mode == "connect":
        return CONNECT + {Kind.DATE: "Date", Kind.DATETIME: "Timestamp", Kind.TIME: "Time"}[kind]
    if mode == "isostring":
        return TIME + {Kind.DATE: "IsoDate", Kind.DATETIME: "IsoTimestamp", Kind.TIME: "IsoTime"}[kind]
    if kind is Kind.DATE:
        return TIME + "Date"
    if mode == "nanoseconds":
        return TIME + {Kind.DATETIME: "NanoTimestamp", Kind.TIME: "NanoTime"}[kind]
    if kind is Kind.TIME:
        return TIME + ("Time" if mode == "adaptive" and short else "MicroTime")
    return TIME + ("Timestamp" if mode != "microseconds" and short else "MicroTimestamp")


def _source_type(column: Column) -> dict[str, str]:
    """The parameters of `column.propagate.source.type`; the fraction digits of a time are its length."""
    parameters = {"type": column.type.name.upper() + " UNSIGNED" * column.unsigned + " ZEROFILL" * column.zerofill}
    is_fractional = column.type.kind in FRACTIONAL
    length, scale = (column.scale or None, None) if is_fractional else (column.length, column.scale)
    if length is not None:
        parameters["length"] = str(length)
    if scale is not None:
        parameters["scale"] = str(scale)
    return {f"__debezium.source.column.{k}": v for k, v in {**parameters, "name": column.name}.items()}


# ---- Kafka Connect schema → the Avro schema text that Confluent's AvroData registers (measured with 8.5.0).
#
# Attributes stand in AvroData's order; a namespace that is the enclosing record's is left out, as Avro's Java does.

_AVRO_TYPES = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_LOGICAL_TYPES = {
    DECIMAL: "decimal",
    CONNECT + "Date": "date",
    CONNECT + "Time": "time-millis",
    CONNECT + "Timestamp": "timestamp-millis",
}


def avro_text(schema: Mapping[str, Any]) -> str:
    """Schema text of a struct. WireError MALFORMED where two fields get one name."""
    return json_exact.compact_json(_AvroSchema().type({**schema, "type": "struct"}, ""))


class _AvroSchema:
    def __init__(self) -> None:
        self._named: set[str] = set()

    def type(self, schema: Mapping[str, Any], namespace: str) -> Any:
        kind = schema["type"]
        if kind == "struct":
            return self._record(schema, namespace)
        if kind == "array":
            return {"type": "array", "items": self.type(schema["items"], namespace)}
        return _avro_primitive(schema, kind)

    def _record(self, schema: Mapping[str, Any], enclosing: str) -> Any:
        full = schema["name"]
        namespace, _, name = full.rpartition(".")
        if full in self._named:
            return name if namespace == enclosing else full
        self._named.add(full)
        record: dict[str, Any] = {"type": "record", "name": name}
        if namespace and namespace != enclosing:
            record["namespace"] = namespace
        record["fields"] = [self._field(f, namespace) for f in schema["fields"]]
        if (twice := repeated_name([f["name"] for f in record["fields"]])) is not None:
            raise WireError("MALFORMED", where=f"record {full}", details=f"two columns become {twice!r} in Avro")
        if "doc" in schema:
            record["connect.doc"] = schema["doc"]
        if "version" in schema:
            record["connect.version"] = schema["version"]
        return {**record, "connect.name": full}

    def _field(self, field: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        kind = self.type(field, namespace)
        default = None if field.get("default") is None else _avro_default(field)
        name = sanitise_name(field["field"])
        avro_field: dict[str, Any] = {"name": name, "type": kind}
        if name != field["field"]:
            avro_field["connect.field"] = field["field"]  # AvroData has nothing for names that Avro does not take
        if field["optional"]:
            avro_field["type"] = ["null", kind] if default is None else [kind, "null"]
            return {**avro_field, "default": default}
        return avro_field if default is None else {**avro_field, "default": default}


def _avro_primitive(schema: Mapping[str, Any], kind: str) -> Any:
    avro_type: dict[str, Any] = {"type": _AVRO_TYPES[kind]}
    name, parameters = schema.get("name", ""), schema.get("parameters") or {}
    if name == DECIMAL:
        precision = int(parameters.get("connect.decimal.precision", 64))
        avro_type |= {"scale": int(parameters["scale"]), "precision": precision}
    if "version" in schema:
        avro_type["connect.version"] = schema["version"]
    if parameters:
        avro_type["connect.parameters"] = dict(parameters)
    if schema.get("default") is not None:
        avro_type["connect.default"] = _avro_default(schema)
    if name:
        avro_type["connect.name"] = name
    if kind in ("int8", "int16"):
        avro_type["connect.type"] = kind
    if name in _LOGICAL_TYPES:
        avro_type["logicalType"] = _LOGICAL_TYPES[name]
    return avro_type if len(avro_type) > 1 else avro_type["type"]


def _avro_default(schema: Mapping[str, Any]) -> Any:
    return base64.b64decode(schema["default"]).decode("latin-1") if schema["type"] == "bytes" else schema["default"]
