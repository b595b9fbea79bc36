"""Python's client and its serdes over HTTP against the real server.

Its methods one by one: test_python_client_methods.py.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tests.support.service import ORDER, WIDER, Client


@pytest.fixture
def confluent(client: Client) -> Iterator[Any]:
    with SchemaRegistryClient({"url": client.url}) as opened:
        yield opened


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
STOP = json.dumps({
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": "stop",
    "properties": {"name": {"type": "string"}, "at": {"$ref": "gps.json"}}, "additionalProperties": False,
})  # fmt: skip


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


def compiled() -> Any:
    """What protoc makes of a schema with an import, a map, a oneof and messages inside messages; the class Trip."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    stop = descriptor_pb2.FileDescriptorProto(name="fleet/stop.proto", package="fleet", syntax="proto3")
    stop.message_type.add(name="Stop").field.add(name="lat", number=1, type="TYPE_DOUBLE", label="LABEL_OPTIONAL")
    trip = descriptor_pb2.FileDescriptorProto(name="fleet/trip.proto", package="fleet", syntax="proto3")
    trip.dependency.extend(["fleet/stop.proto", "google/protobuf/timestamp.proto"])
    trip.message_type.add(name="First")
    message = trip.message_type.add(name="Trip")
    kinds = {"Stop": ".fleet.Stop", "Timestamp": ".google.protobuf.Timestamp", "Entry": ".fleet.Trip.NamesEntry"}
    for number, (name, kind) in enumerate(
        [("stops", "Stop"), ("at", "Timestamp"), ("names", "Entry"), ("litres", ""), ("kwh", "")], start=1
    ):
        field = message.field.add(name=name, number=number, label="LABEL_OPTIONAL", type="TYPE_INT64")
        if kind:
            field.type, field.type_name = field.TYPE_MESSAGE, kinds[kind]
        if name in ("stops", "names"):
            field.label = field.LABEL_REPEATED
        if not kind:
            field.oneof_index = 0
    message.oneof_decl.add(name="fuel")
    entry = message.nested_type.add(name="NamesEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), start=1):
        entry.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    for file in (stop, trip):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fleet.Trip"))


def test_protobuf_serializer_and_deserializer(confluent: Any, client: Client) -> None:
    """The client registers what is imported, in base64, as a subject of its own; well-known types need none."""
    trip, context = compiled(), SerializationContext("trips", MessageField.VALUE)
    written = trip(names={"a": "中"}, kwh=2**62, stops=[{"lat": 1.5}], at={"seconds": 7})
    message = ProtobufSerializer(trip, confluent, {"use.deprecated.format": False})(written, context)
    assert message is not None
    assert message[0] == 0
    assert ProtobufDeserializer(trip, {"use.deprecated.format": False})(message, context) == written
    assert confluent.get_subjects() == ["fleet/stop.proto", "trips-value"]
    stored = confluent.get_latest_version("trips-value")
    assert [reference.name for reference in stored.schema.references] == ["fleet/stop.proto"]
    assert "repeated .fleet.Stop stops = 1;" in stored.schema.schema_str
    # With the registry at hand a reader asks for the writer's schema, as a descriptor.
    with SchemaRegistryClient({"url": client.url}) as other:
        assert ProtobufDeserializer(trip, {"use.deprecated.format": False}, other)(message, context) == written
    # The same schema as a text has the same types, so it may follow.
    text = (
        'syntax = "proto3"; package fleet; import "fleet/stop.proto"; import "google/protobuf/timestamp.proto";'
        "message First {} message Trip { repeated Stop stops = 1; google.protobuf.Timestamp at = 2;"
        "map<string, string> names = 3; oneof fuel { int64 litres = 4; int64 kwh = 5; } bool paid = 6; }"
    )
    assert confluent.test_compatibility("trips-value", Schema(text, "PROTOBUF", stored.schema.references))
    assert not confluent.test_compatibility(
        "trips-value", Schema(text.replace("int64 kwh", "string kwh"), "PROTOBUF", stored.schema.references)
    )
    types: list[str] = client.get("/schemas/types").json
    assert "PROTOBUF" in types
