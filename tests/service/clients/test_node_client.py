"""A client of Node, @kafkajs/confluent-schema-registry, against the service, and its messages against Python's.

Skipped with the reason where node, npm or the packages can't be had.
"""

import base64
import functools
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.service import NARROWER, ORDER, WIDER, Client, column, record
from tests.support.toolchains import ToolchainMissing, node_packages
from ticdc_bridge.service.testing import running_service

HERE = Path(__file__).parent / "node"
SECONDS = 120

POINT = record("Point", column("x", "double"), namespace="geo")
SHAPE = record("Shape", column("a", "geo.Point"), column("b", "geo.Point"), namespace="geo")
GPS = json.dumps({"$id": "gps.json", "type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]})
STOP = json.dumps({"type": "object", "properties": {"name": {"type": "string"}, "at": {"$ref": "gps.json"}}})
PLACE = 'syntax = "proto3";\npackage fleet;\nmessage Place {\n  double lat = 1;\n}\n'
RIDE = (
    'syntax = "proto3";\npackage fleet;\nimport "fleet/place.proto";\n'
    "message Ride {\n  repeated Place stops = 1;\n  map<string, string> names = 2;\n  uint32 km = 3;\n}\n"
)

ORDER_VALUE = {"id": 2**52, "note": "中文"}
SHAPE_VALUE = {"a": {"x": 0.1}, "b": {"x": -2.5}}
STOP_VALUE = {"name": "中文", "at": {"lat": 48.137}}
RIDE_VALUE = {"stops": [{"lat": 1.5}, {"lat": -0.25}], "names": {"a": "中"}, "km": 7}


@dataclass(frozen=True)
class Run:
    """What the client saw, and the registry as it left it."""

    saw: dict[str, Any]
    registry: Client
    confluent: Any


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    try:
        packages = node_packages(HERE)
    except ToolchainMissing as missing:
        pytest.skip(f"no client of Node: {missing}")
    with running_service() as url, SchemaRegistryClient({"url": url}) as confluent:
        done = subprocess.run(
            ["node", str(HERE / "client.cjs"), url], input=json.dumps(_job(confluent)),
            env={"PATH": os.environ["PATH"], "NODE_PATH": str(packages)}, capture_output=True, text=True,
            encoding="utf-8", timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield Run(json.loads(done.stdout), Client(url), confluent)


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _text(message: bytes | None) -> str:
    assert message is not None
    return base64.b64encode(message).decode()


def _job(confluent: Any) -> dict[str, Any]:
    """What the client is to do; `written` are messages that Python wrote, with subjects of its own."""
    confluent.register_schema("point", Schema(POINT, "AVRO"))
    shape = Schema(SHAPE, "AVRO", [SchemaReference("geo.Point", "point", 1)])
    confluent.register_schema("gps", Schema(GPS, "JSON"))
    stop = Schema(STOP, "JSON", [SchemaReference("gps.json", "gps", 1)])
    # A descriptor has no maps, only entries; normalizing makes them maps again, which this client can read.
    rules = {"use.deprecated.format": False, "normalize.schemas": True}
    ride = ProtobufSerializer(_ride(), confluent, rules)
    messages = {
        "orders": AvroSerializer(confluent, ORDER)(ORDER_VALUE, _context("orders")),
        "shapes": AvroSerializer(confluent, shape)(SHAPE_VALUE, _context("shapes")),
        "stops": JSONSerializer(stop, confluent)(STOP_VALUE, _context("stops")),
        "rides": ride(_ride()(**RIDE_VALUE), _context("rides")),
    }

    def reported(topic: str, value: Any, **more: str) -> dict[str, Any]:
        return {"subject": f"node-{topic}-value", "written": _text(messages[topic]), "value": value, **more}

    return {
        "avro": reported("orders", ORDER_VALUE, schema=ORDER, wider=WIDER, narrower=NARROWER),
        "named": {"schema": ORDER, "value": ORDER_VALUE},
        "avroReferring": reported(
            "shapes", SHAPE_VALUE, part=POINT, partSubject="node-point", name="geo.Point", whole=SHAPE
        ),
        "json": reported("stops", STOP_VALUE, part=GPS, partSubject="node-gps", name="gps.json", whole=STOP),
        "protobuf": reported(
            "rides", RIDE_VALUE, part=PLACE, partSubject="node-place", name="fleet/place.proto", whole=RIDE
        ),
    }


@functools.cache
def _ride() -> Any:
    """The class that protoc makes of RIDE."""
    position = descriptor_pb2.FileDescriptorProto(name="fleet/place.proto", package="fleet", syntax="proto3")
    position.message_type.add(name="Place").field.add(name="lat", number=1, type="TYPE_DOUBLE", label="LABEL_OPTIONAL")
    ride = descriptor_pb2.FileDescriptorProto(name="fleet/ride.proto", package="fleet", syntax="proto3")
    ride.dependency.append("fleet/place.proto")
    message = ride.message_type.add(name="Ride")
    stops, names = ".fleet.Place", ".fleet.Ride.NamesEntry"
    message.field.add(name="stops", number=1, type="TYPE_MESSAGE", type_name=stops, label="LABEL_REPEATED")
    message.field.add(name="names", number=2, type="TYPE_MESSAGE", type_name=names, label="LABEL_REPEATED")
    message.field.add(name="km", number=3, type="TYPE_UINT32", label="LABEL_OPTIONAL")
    entry = message.nested_type.add(name="NamesEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), start=1):
        entry.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    for file in (position, ride):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fleet.Ride"))


def test_ids_subjects_and_versions(run: Run) -> None:
    saw = run.saw["avro"]
    # Python's serializer registered the same text before, under another subject: one text, one id.
    assert saw["id"] == run.confluent.get_latest_version("orders-value").schema_id
    assert saw["id"] == saw["again"] == saw["bySchema"] == saw["first"]
    assert saw["wider"] == saw["latest"] == run.confluent.get_latest_version("node-orders-value").schema_id
    assert run.confluent.get_versions("node-orders-value") == [1, 2]
    assert run.saw["named"]["id"] == saw["id"]
    assert run.confluent.get_subjects(subject_prefix="shop") == ["shop.order"]
    assert sorted(run.confluent.get_subjects_by_schema_id(saw["id"])) == [
        "node-orders-value",
        "orders-value",
        "shop.order",
    ]


def test_compatibility(run: Run) -> None:
    """The client sets a level for a subject that it registers first, and refuses to go on under another."""
    assert run.confluent.get_compatibility("node-orders-value") == "BACKWARD"
    saw = run.saw["avro"]
    assert saw["refused"]["status"] == 409
    answer = run.registry.register("node-orders-value", NARROWER)
    assert answer.error == (409, 40901)
    # Both start alike; by now there is a second version to be incompatible with.
    start, _, _ = answer.json["message"].partition("oldSchemaVersion")
    assert f" - {start}" in saw["refused"]["message"]
    assert saw["otherLevel"]["name"] == "ConfluentSchemaRegistryCompatibilityError"
    assert saw["otherLevel"]["message"].endswith("(FULL != BACKWARD)")


def test_avro(run: Run) -> None:
    saw = run.saw["avro"]
    assert saw["own"] == saw["written"] == ORDER_VALUE
    assert saw["asWider"] == {**ORDER_VALUE, "paid": False}
    read = AvroDeserializer(run.confluent)
    for message in (saw["message"], run.saw["named"]["message"]):
        assert read(base64.b64decode(message), _context("orders")) == ORDER_VALUE


def test_avro_with_a_reference(run: Run) -> None:
    saw = run.saw["avroReferring"]
    assert saw["own"] == saw["written"] == SHAPE_VALUE
    assert AvroDeserializer(run.confluent)(base64.b64decode(saw["message"]), _context("shapes")) == SHAPE_VALUE
    assert saw["partId"] == run.confluent.get_latest_version("point").schema_id
    assert run.confluent.get_referenced_by("node-point", 1) == [saw["id"]]


def test_json_schema(run: Run) -> None:
    saw = run.saw["json"]
    assert saw["own"] == saw["written"] == STOP_VALUE
    read = JSONDeserializer(None, schema_registry_client=run.confluent)
    assert read(base64.b64decode(saw["message"]), _context("stops")) == STOP_VALUE
    assert run.confluent.get_referenced_by("node-gps", 1) == [saw["id"]]


def test_protobuf(run: Run) -> None:
    """This client writes no message indexes and skips those it reads, so its own message is parsed without them."""
    saw = run.saw["protobuf"]
    assert saw["own"] == saw["written"] == RIDE_VALUE
    message = base64.b64decode(saw["message"])
    assert message[:5] == b"\0" + saw["id"].to_bytes(4, "big")
    assert _ride().FromString(message[5:]) == _ride()(**RIDE_VALUE)
    assert run.confluent.get_referenced_by("node-place", 1) == [saw["id"]]


def test_refusals(run: Run) -> None:
    saw = run.saw["missing"]
    assert {name: refused["status"] for name, refused in saw.items()} == {
        "id": 404, "subject": 404, "version": 404, "invalid": 422,
    }  # fmt: skip
    for name, path in (
        ("id", "/schemas/ids/4711"),
        ("subject", "/subjects/nobody/versions/latest"),
        ("version", "/subjects/node-orders-value/versions/9"),
    ):
        assert saw[name]["message"].endswith(run.registry.get(path).json["message"])
