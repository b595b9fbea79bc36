"""The clients people use, over HTTP, against the real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.service.support import Client, column, record

ORDER = record("order", column("id", "long"), column("note", ["null", "string"], default=None), namespace="shop")
WIDER = record(
    "order",
    column("id", "long"),
    column("note", ["null", "string"], default=None),
    column("paid", "boolean", default=False),
    namespace="shop",
)


@pytest.fixture
def confluent(client: Client) -> Iterator[Any]:
    with SchemaRegistryClient({"url": client.url}) as opened:
        yield opened


def test_register_read_and_delete(confluent: Any) -> None:
    first = confluent.register_schema("orders-value", Schema(ORDER, "AVRO"))
    assert confluent.register_schema("orders-value", Schema(ORDER, "AVRO")) == first == 1
    assert confluent.get_schema(first).schema_str == ORDER_CANONICAL
    assert confluent.get_latest_version("orders-value").version == 1
    assert confluent.lookup_schema("orders-value", Schema(ORDER, "AVRO")).schema_id == first
    assert confluent.get_subjects() == ["orders-value"]
    assert confluent.test_compatibility("orders-value", Schema(WIDER, "AVRO"))
    assert confluent.register_schema("orders-value", Schema(WIDER, "AVRO"), normalize_schemas=True) == 2
    assert confluent.get_versions("orders-value") == [1, 2]
    assert confluent.delete_version("orders-value", 1) == 1
    assert confluent.delete_subject("orders-value") == [2]
    assert confluent.delete_subject("orders-value", permanent=True) == [1, 2]


ORDER_CANONICAL = (
    '{"type":"record","name":"order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)


def test_levels_and_errors(confluent: Any) -> None:
    assert confluent.get_compatibility() == "BACKWARD"
    confluent.set_compatibility("s", "FULL")
    assert confluent.get_compatibility("s") == "FULL"
    confluent.register_schema("s", Schema('"int"', "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema("s", Schema('"string"', "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    with pytest.raises(SchemaRegistryError) as missing:
        confluent.get_latest_version("none")
    assert (missing.value.http_status_code, missing.value.error_code) == (404, 40401)


def test_serializer_and_deserializer(confluent: Any) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    written = {"id": 2**62, "note": "中文"}
    message = AvroSerializer(confluent, ORDER)(written, context)
    assert message is not None
    assert message[:5] == b"\x00\x00\x00\x00\x01"
    assert AvroDeserializer(confluent)(message, context) == written
    read_wider = AvroDeserializer(confluent, WIDER)(message, context)
    assert read_wider == {**written, "paid": False}


GPS = json.dumps({"$id": "gps.json", "type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]})
STOP = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "stop",
        "properties": {"name": {"type": "string"}, "at": {"$ref": "gps.json"}},
        "additionalProperties": False,
    }
)


def test_json_serializer_and_deserializer(confluent: Any) -> None:
    context = SerializationContext("stops", MessageField.VALUE)
    confluent.register_schema("gps", Schema(GPS, "JSON"))
    schema = Schema(STOP, "JSON", [SchemaReference("gps.json", "gps", 1)])
    written = {"name": "中文", "at": {"lat": 48.137}}
    message = JSONSerializer(schema, confluent)(written, context)
    assert message is not None
    assert message[:5] == b"\x00\x00\x00\x00\x02"
    assert JSONDeserializer(schema, schema_registry_client=confluent)(message, context) == written
    assert JSONDeserializer(None, schema_registry_client=confluent)(message, context) == written
    with pytest.raises(SerializationError, match="'lat' is a required property"):
        JSONSerializer(schema, confluent)({"at": {}}, context)


def test_json_schema_with_the_client(confluent: Any) -> None:
    confluent.register_schema("gps", Schema(GPS, "JSON"))
    schema = Schema(STOP, "JSON", [SchemaReference("gps.json", "gps", 1)])
    schema_id = confluent.register_schema("stops-value", schema)
    found = confluent.get_schema(schema_id)
    assert (found.schema_type, json.loads(found.schema_str)) == ("JSON", json.loads(STOP))
    assert confluent.lookup_schema("stops-value", schema).schema_id == schema_id
    closed = json.loads(STOP)
    del closed["properties"]["name"]
    assert not confluent.test_compatibility(
        "stops-value", Schema(json.dumps(closed), "JSON", [SchemaReference("gps.json", "gps", 1)])
    )
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema("stops-value", Schema('{"type":"nope"}', "JSON"))
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42201)


def test_references(confluent: Any) -> None:
    confluent.register_schema("address", Schema(record("Address", column("street", "string"), namespace="x"), "AVRO"))
    customer = record("Customer", column("home", "x.Address"), column("work", "x.Address"), namespace="x")
    schema = Schema(customer, "AVRO", [SchemaReference("x.Address", "address", 1)])
    schema_id = confluent.register_schema("customer", schema)
    found = confluent.get_schema(schema_id)
    assert [(one.name, one.subject, one.version) for one in found.references] == [("x.Address", "address", 1)]
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.delete_version("address", 1)
    assert refused.value.error_code == 42206


def test_what_is_stored_is_valid_avro(client: Client) -> None:
    client.register("s", WIDER)
    stored: str = client.get("/schemas/ids/1").json["schema"]
    parsed: Any = fastavro.parse_schema(json.loads(stored))
    assert parsed["name"] == "shop.order"
