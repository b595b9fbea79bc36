"""Kafka Connect schema → the Avro schema text that Confluent's AvroData registers (measured with 8.5.0).

Attributes stand in AvroData's order; a namespace that is the enclosing record's is left out, as Avro's Java does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.names import sanitise_name

_CONNECT = "org.apache.kafka.connect.data."
_AVRO = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_LOGICAL = {
    _CONNECT + "Decimal": "decimal",
    _CONNECT + "Date": "date",
    _CONNECT + "Time": "time-millis",
    _CONNECT + "Timestamp": "timestamp-millis",
}


def text(schema: Mapping[str, Any]) -> str:
    """Schema text of a struct. WireError MALFORMED where two fields get one name."""
    return json.dumps(_Writer().type({**schema, "type": "struct"}, ""), ensure_ascii=False, separators=(",", ":"))


class _Writer:
    def __init__(self) -> None:
        self._named: set[str] = set()

    def type(self, schema: Mapping[str, Any], namespace: str) -> Any:
        kind = schema["type"]
        if kind == "struct":
            return self._record(schema, namespace)
        if kind == "array":
            return {"type": "array", "items": self.type(schema["items"], namespace)}
        return _primitive(schema, kind)

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
        names = [f["name"] for f in record["fields"]]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise WireError("MALFORMED", where=f"record {full}", details=f"two columns become {twice!r} in Avro")
        if "doc" in schema:
            record["connect.doc"] = schema["doc"]
        if "version" in schema:
            record["connect.version"] = schema["version"]
        return {**record, "connect.name": full}

    def _field(self, field: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        kind = self.type(field, namespace)
        default = None if field.get("default") is None else _default(field)
        name = sanitise_name(field["field"])
        avro_field: dict[str, Any] = {"name": name, "type": kind}
        if name != field["field"]:
            avro_field["connect.field"] = field["field"]  # AvroData has nothing for names that Avro does not take
        if field["optional"]:
            avro_field["type"] = ["null", kind] if default is None else [kind, "null"]
            return {**avro_field, "default": default}
        return avro_field if default is None else {**avro_field, "default": default}


def _primitive(schema: Mapping[str, Any], kind: str) -> Any:
    avro_type: dict[str, Any] = {"type": _AVRO[kind]}
    name, parameters = schema.get("name", ""), schema.get("parameters") or {}
    if name == _CONNECT + "Decimal":
        avro_type |= {
            "scale": int(parameters["scale"]),
            "precision": int(parameters.get("connect.decimal.precision", 64)),
        }
    if "version" in schema:
        avro_type["connect.version"] = schema["version"]
    if parameters:
        avro_type["connect.parameters"] = dict(parameters)
    if schema.get("default") is not None:
        avro_type["connect.default"] = _default(schema)
    if name:
        avro_type["connect.name"] = name
    if kind in ("int8", "int16"):
        avro_type["connect.type"] = kind
    if name in _LOGICAL:
        avro_type["logicalType"] = _LOGICAL[name]
    return avro_type if len(avro_type) > 1 else avro_type["type"]


def _default(schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "bytes":
        return base64.b64decode(schema["default"]).decode("latin-1")
    return schema["default"]
