"""Kafka Connect schemas behind Avro ones: what the `connect.*` attributes say, in the form that Connect's JSON has.

Sources: Confluent's AvroData, measured with 8.5.0; TiCDC writes the same attributes by its own encoder (upstream ticdc
`codec/debezium/avro.go`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.avro_schema import FieldError, SchemaField, SchemaType
from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.values import as_float32

DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CONNECT = {
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
            raise WireError("MALFORMED", where=where, details=f"field {name}: {error}"[:300]) from error
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
    out: dict[str, Any] = {"type": _text(props.get("connect.type", _CONNECT[present.kind]))}
    out["optional"] = of.is_optional
    if present.kind == "record":
        out["fields"] = [connect_schema(f.type, f) for f in present.fields]
    elif present.kind == "array":
        out["items"] = connect_schema(present.branches[0])
    if "connect.name" in props:
        out["name"] = _text(props["connect.name"])
    elif "logicalType" in props:
        out |= _of_logical_type(present.kind, props)
    if "connect.version" in props:
        out["version"] = props["connect.version"]
    if "connect.parameters" in props:
        out["parameters"] = {_text(k): _text(v) for k, v in dict(props["connect.parameters"]).items()}
    if field is not None:
        out["field"] = field.label
        if "tidb_type" in field.props:
            out["tidb_type"] = _text(field.props["tidb_type"])
        default = props.get("connect.default", field.props.get("default"))
        if default is not None and present.kind not in ("record", "array"):
            out["default"] = _default(present.kind, default)
    return out


def _of_logical_type(kind: str, props: Mapping[str, Any]) -> dict[str, Any]:
    """Name and parameters of a type without Connect's. As Avro says, a logical type that is not valid is none."""
    precision, scale = props.get("precision"), props.get("scale", 0)
    if (kind, props["logicalType"]) == ("bytes", "decimal") and type(precision) is type(scale) is int:
        return {"name": DECIMAL, "parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)}}
    name = _LOGICAL.get((kind, props["logicalType"]))
    return {"name": name} if name else {}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"an attribute is no text: {str(value)[:60]}")
    return value


def _default(kind: str, default: Any) -> Any:
    if kind == "bytes":
        return _text(default).encode("latin-1", "replace")
    if kind == "float":  # as the values of its fields are read: 3.14 is 3.140000104904175 there
        with suppress(OverflowError):
            return number(as_float32(float(default)))
    if kind in ("float", "double"):
        return number(float(default))
    if isinstance(default, int) and not isinstance(default, bool):
        return number(default)
    if not isinstance(default, str | bool):
        raise ValueError(f"a default is neither text nor number: {str(default)[:60]}")
    return default
