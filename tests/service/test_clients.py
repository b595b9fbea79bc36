"""The clients people use, over HTTP, against the real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

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


def test_the_other_methods(confluent: Any) -> None:
    """What remains of the client's methods; associations can only be asked for."""
    metadata = Metadata(MetadataTags({}), MetadataProperties({"owner": "me"}), [])
    schema = Schema(ORDER, "AVRO", metadata=metadata)
    full = confluent.register_schema_full_response("orders", schema)
    assert (full.schema_id, full.version, full.guid) == (1, 1, confluent.get_latest_version("orders").guid)
    assert confluent.get_schema_by_guid(full.guid).schema_str == ORDER_CANONICAL
    assert confluent.get_version("orders", 1).schema_id == 1
    assert confluent.get_latest_with_metadata("orders", {"owner": "me"}).version == 1
    assert [(one.subject, one.version) for one in confluent.get_schema_versions(1)] == [("orders", 1)]
    assert confluent.get_subjects_by_schema_id(1) == confluent.get_subjects(subject_prefix="ord") == ["orders"]
    assert confluent.get_referenced_by("orders", 1) == []
    assert "AVRO" in confluent.get_schema_types()
    assert confluent.test_compatibility_all_versions("orders", Schema(WIDER, "AVRO"))
    assert confluent.get_contexts() == ["."]
    assert confluent.get_associations_by_resource_name("r", "n") == []


def test_modes_and_configs(confluent: Any) -> None:
    assert confluent.get_global_mode() == "READWRITE"
    assert confluent.update_mode("s", "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema("s", Schema('"int"', "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42205)
    assert (confluent.get_mode("s"), confluent.delete_mode("s")) == ("READONLY", "READONLY")
    assert confluent.update_global_mode("IMPORT") == "IMPORT"
    assert confluent.update_global_mode("READWRITE") == "READWRITE"
    confluent.set_config("s", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major"))
    assert confluent.get_config("s").compatibility_group == "major"
    assert confluent.delete_config("s").compatibility_level == "FULL"


def test_a_context_as_a_registry(client: Client) -> None:
    with SchemaRegistryClient({"url": f"{client.url}/contexts/.c"}) as confluent:
        assert confluent.register_schema("s", Schema('"int"', "AVRO")) == 1
        assert confluent.get_schema(1).schema_str == '"int"'
        assert confluent.get_subjects() == [":.c:s"]
        assert confluent.get_latest_version("s").subject == ":.c:s"
    assert client.get("/contexts").json == [".", ".c"]
