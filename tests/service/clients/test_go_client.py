"""A client of Go, franz-go's package sr, against the service, and its messages against Python's.

Skipped with the reason where Go or its modules can't be had.
"""

import base64
import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.service import NARROWER, ORDER, WIDER, column, record
from tests.support.toolchains import ToolchainMissing, go_binary
from ticdc_bridge.service.testing import running_service

HERE = Path(__file__).parent / "go"
SECONDS = 120

ADDRESS = record("Address", column("street", "string"), namespace="x")
CUSTOMER = record("Customer", column("home", "x.Address"), namespace="x")
ORDER_JSON = json.dumps({"type": "object", "title": "order", "properties": {"id": {"type": "integer"}}})
RIDE = 'syntax = "proto3";\npackage fleet;\n\nmessage First {}\nmessage Ride {\n  uint32 km = 1;\n}\n'

ORDER_CANONICAL = (
    '{"type":"record","name":"order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
VALUE = {"id": 2**62 + 1, "note": "中文"}
KM = 2**31


@pytest.fixture(scope="module")
def confluent() -> Iterator[Any]:
    """Python's client of the registry that the client of Go was let loose on."""
    with running_service() as url, SchemaRegistryClient({"url": url}) as opened:
        yield opened


@pytest.fixture(scope="module")
def saw(confluent: Any) -> dict[str, Any]:
    """What the client of Go saw."""
    try:
        binary = go_binary(HERE)
    except ToolchainMissing as missing:
        pytest.skip(f"no client of Go: {missing}")
    job = {
        "order": ORDER, "wider": WIDER, "narrower": NARROWER, "address": ADDRESS, "customer": CUSTOMER,
        "json": ORDER_JSON, "ride": RIDE, "written": _written(confluent),
    }  # fmt: skip
    done = subprocess.run(
        [binary, confluent.config()["url"]], input=json.dumps(job), env={}, capture_output=True, text=True,
        encoding="utf-8", timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _written(confluent: Any) -> dict[str, str]:
    """Messages that Python writes, under subjects of its own."""
    messages = {
        "avro": AvroSerializer(confluent, ORDER)(VALUE, _context("avro")),
        "json": JSONSerializer(ORDER_JSON, confluent)(VALUE, _context("json")),
        "protobuf": ProtobufSerializer(_ride(), confluent, {"use.deprecated.format": False})(
            _ride()(km=KM), _context("protobuf")
        ),
    }
    return {name: base64.b64encode(message or b"").decode() for name, message in messages.items()}


@functools.cache
def _ride() -> Any:
    """The class that protoc makes of RIDE."""
    file = descriptor_pb2.FileDescriptorProto(name="fleet/ride.proto", package="fleet", syntax="proto3")
    file.message_type.add(name="First")
    ride = file.message_type.add(name="Ride")
    ride.field.add(name="km", number=1, type="TYPE_UINT32", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fleet.Ride"))


def _refused(error: dict[str, Any]) -> tuple[int, int, str | None]:
    return error["status"], error["code"], error.get("name")


def test_create_and_lookup(saw: dict[str, Any], confluent: Any) -> None:
    first, second = (confluent.get_version("go-orders", version) for version in (1, 2))
    assert saw["first"] == saw["lookup"]
    assert saw["first"] == {
        "subject": "go-orders", "version": 1, "id": first.schema_id, "guid": first.guid, "type": "AVRO",
        "schema": ORDER_CANONICAL, "references": None,
    }  # fmt: skip
    assert saw["again"] == first.schema_id == confluent.get_latest_version("avro-value").schema_id
    assert (saw["second"]["version"], saw["second"]["id"]) == (2, second.schema_id)
    assert (saw["latest"], saw["versions"], saw["schemas"]) == (2, [1, 2], ["go-orders/1", "go-orders/2"])


def test_by_id_and_guid(saw: dict[str, Any], confluent: Any) -> None:
    texts = {saw[name] for name in ("byId", "textById", "textByVersion", "byGuid")}
    assert texts == {ORDER_CANONICAL, confluent.get_schema_by_guid(saw["first"]["guid"]).schema_str}
    assert saw["idsByGuid"] == [{"context": ".", "id": saw["first"]["id"]}]
    versions = [
        {"subject": version.subject, "version": version.version} for version in confluent.get_schema_versions(1)
    ]
    # Afterwards one more subject took the same text.
    assert [version for version in versions if version["subject"] != "go-avro-value"] == saw["versionsById"]
    assert saw["subjectsById"] == [version["subject"] for version in saw["versionsById"]]
    assert set(saw["types"]) == set(confluent.get_schema_types())


def test_compatibility(saw: dict[str, Any], confluent: Any) -> None:
    assert saw["compatible"] == {"is_compatible": True, "messages": None}
    assert (saw["incompatible"]["is_compatible"], saw["incompatibleWithAny"]) == (False, False)
    assert "reader type: STRING not compatible with writer type: NULL" in saw["incompatible"]["messages"][0]
    # The client knows this code from servers before 8, under 409.
    assert _refused(saw["refused"]) == (409, 40901, None)
    assert ", ".join(saw["incompatible"]["messages"]) in saw["refused"]["message"]
    assert not confluent.test_compatibility("go-orders", Schema(NARROWER, "AVRO"))
    assert _refused(saw["invalid"]) == (422, 42201, "INVALID_SCHEMA")


def test_references(saw: dict[str, Any], confluent: Any) -> None:
    assert saw["customer"]["references"] == [{"name": "x.Address", "subject": "go-address", "version": 1}]
    assert saw["referencedBy"] == ["go-customer/1"]
    assert confluent.get_referenced_by("go-address", 1) == [saw["customer"]["id"]]
    assert _refused(saw["referenced"]) == (422, 42206, "REFERENCE_EXISTS")
    assert confluent.get_versions("go-address") == [1]


def test_serdes(saw: dict[str, Any], confluent: Any) -> None:
    assert saw["own"] == saw["written"] == {"avro": VALUE, "json": VALUE, "protobuf": {"km": KM}}
    messages = {name: base64.b64decode(message) for name, message in saw["messages"].items()}
    confluent.clear_caches()  # its cache gives a text where its reader of Protobuf asks for a descriptor
    assert AvroDeserializer(confluent)(messages["avro"], _context("avro")) == VALUE
    read_json = JSONDeserializer(None, schema_registry_client=confluent)
    assert read_json(messages["json"], _context("json")) == VALUE
    read_protobuf = ProtobufDeserializer(_ride(), {"use.deprecated.format": False}, confluent)
    assert read_protobuf(messages["protobuf"], _context("protobuf")) == _ride()(km=KM)
    # Both sides write the same bytes.
    assert {name: saw["messages"][name] for name in ("avro", "protobuf")} == {
        name: message for name, message in _written(confluent).items() if name != "json"
    }
