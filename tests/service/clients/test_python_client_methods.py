"""Every method of confluent-kafka's registry client, with every parameter it has, against a registry that holds a bit.

The methods come from the client itself, so a version that brings another one fails here until it has its rows.
"""

import inspect
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.common.schema_registry_client import SchemaVersion
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.support.service import column, record
from tests.support.table import check_rows
from ticdc_bridge.service.testing import running_service

ORDER = record("order", column("id", "long"), namespace="shop")
WIDER = record("order", column("id", "long"), column("paid", "boolean", default=False), namespace="shop")
NARROWER = record("order", column("id", "int"), namespace="shop")
# The same type as ORDER once it is normalized: the full name says what the namespace said.
FULL_NAME = record("shop.order", column("id", "long"))
ADDRESS = record("Address", column("street", "string"), namespace="x")
CUSTOMER = record("Customer", column("home", "x.Address"), namespace="x")
TRIP = 'syntax = "proto3"; message Trip { uint32 km = 1; string to = 2; }'
# The same as TRIP once it is normalized.
SWAPPED = Schema('syntax = "proto3"; message Trip { string to = 2; uint32 km = 1; }', "PROTOBUF")

ORDER_TEXT = '{"type":"record","name":"order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
WIDER_TEXT = ORDER_TEXT.replace("]}", ',{"name":"paid","type":"boolean","default":false}]}')
CUSTOMER_TEXT = (
    '{"type":"record","name":"Customer","namespace":"x","fields":[{"name":"home","type":{"type":"record",'
    '"name":"Address","fields":[{"name":"street","type":"string"}]}}]}'
)
TRIP_DESCRIPTOR = "CgdkZWZhdWx0IhoKBFRyaXASCAoCa20YASgNEggKAnRvGAIoCWIGcHJvdG8z"
ORDER_GUID = "dc0ffb48-e51b-e126-eef4-bcad9c4a195d"

OWNED = Metadata(MetadataTags({}), MetadataProperties({"owner": "me"}), [])
FULL = ServerConfig(compatibility=ConfigCompatibilityLevel.FULL)
ASSOCIATION = AssociationCreateOrUpdateRequest(
    "t", "lkc", "id", "topic", [AssociationCreateOrUpdateInfo(subject="orders", association_type="value")]
)

NO_SUBJECT = (404, 40401)


@dataclass(frozen=True)
class Call:
    """One call: its arguments and what comes back, an error as (status, code)."""

    expected: Any
    arguments: dict[str, Any]


def call(expected: Any, **arguments: Any) -> Call:
    return Call(expected, arguments)


def avro(text: str) -> Schema:
    return Schema(text, "AVRO")


def _fill(entry: Any) -> None:
    """What each method finds: ids 1 to 8, in the order of registration."""
    entry.register_schema("address", avro(ADDRESS))
    entry.register_schema("customer", Schema(CUSTOMER, "AVRO", [SchemaReference("x.Address", "address", 1)]))
    entry.register_schema("orders", Schema(ORDER, "AVRO", metadata=OWNED))
    entry.register_schema("orders", avro(WIDER))
    entry.register_schema("old", avro('"int"'))
    entry.register_schema("old", avro('"long"'))
    entry.delete_version("old", 1)
    entry.register_schema("gone", avro('"string"'))
    entry.delete_subject("gone")
    entry.register_schema("trips", Schema(TRIP, "PROTOBUF"))
    entry.set_compatibility("old", "FORWARD")
    entry.update_mode("customer", "READONLY")


_ORDERS = {"subject_name": "orders"}
_OLD = {"subject_name": "old"}
_CUSTOMER = {"subject_name": "customer"}
_GONE = {"subject_name": "gone"}
_TRIPS = {"subject_name": "trips"}
_RESOURCE = {"resource_name": "t", "resource_namespace": "lkc"}

CALLS: dict[str, list[Call]] = {
    "register_schema": [
        call(4, **_ORDERS, schema=avro(WIDER)),
        call((409, 40901), **_ORDERS, schema=avro(NARROWER)),
        call((422, 42201), subject_name="new", schema=avro('{"type":"nope"}')),
        call(9, **_TRIPS, schema=SWAPPED),
        call(8, **_TRIPS, schema=SWAPPED, normalize_schemas=True),
    ],
    "register_schema_full_response": [
        # Without its metadata it is another schema than the one under "orders".
        call(("new", 1, 9), subject_name="new", schema=avro(ORDER)),
        call(("trips", 1, 8), **_TRIPS, schema=SWAPPED, normalize_schemas=True),
    ],
    "lookup_schema": [
        call(("orders", 1, 3), **_ORDERS, schema=avro(FULL_NAME)),
        call((404, 40403), **_ORDERS, schema=avro(NARROWER)),
        call((404, 40403), **_TRIPS, schema=SWAPPED),
        call(("trips", 1, 8), **_TRIPS, schema=SWAPPED, normalize_schemas=True),
        call(SWAPPED.schema_str, **_TRIPS, schema=SWAPPED, normalize_schemas=True, fmt="serialized"),
        call(NO_SUBJECT, **_GONE, schema=avro('"string"')),
        call(("gone", 1, 7), **_GONE, schema=avro('"string"'), deleted=True),
    ],
    "get_schema": [
        call(ORDER_TEXT, schema_id=3),
        call((404, 40403), schema_id=99),
        call(CUSTOMER_TEXT, schema_id=2, fmt="resolved"),
        call(TRIP_DESCRIPTOR, schema_id=8, fmt="serialized", subject_name="trips", reference_format="qualified"),
    ],
    "get_schema_by_guid": [
        call(ORDER_TEXT, guid=ORDER_GUID),
        call(ORDER_TEXT, guid=ORDER_GUID, fmt="resolved"),
        call((404, 40403), guid="00000000-0000-0000-0000-000000000000"),
    ],
    "get_schema_types": [call(["JSON", "PROTOBUF", "AVRO"])],
    "get_subjects_by_schema_id": [
        call(["orders"], schema_id=3),
        call(["orders"], schema_id=3, subject_name="orders"),
        call([], schema_id=7),
        call(["gone"], schema_id=7, deleted=True),
        call([], schema_id=3, offset=1, limit=1),
    ],
    "get_schema_versions": [
        call([("orders", 1)], schema_id=3),
        call([("orders", 1)], schema_id=3, subject_name="orders"),
        call([], schema_id=5),
        call([("old", 1)], schema_id=5, deleted=True),
        call([], schema_id=3, offset=1, limit=1),
    ],
    "get_subjects": [
        call(["address", "customer", "old", "orders", "trips"]),
        call(["address", "customer", "gone", "old", "orders", "trips"], deleted=True),
        call(["old", "orders"], subject_prefix="o"),
        call(["customer", "old"], offset=1, limit=2),
        # The client sends `deleted_only` where the API has `deletedOnly`: no effect.
        call(["address", "customer", "old", "orders", "trips"], deleted_only=True),
    ],
    "delete_subject": [
        call([1, 2], **_ORDERS),
        call([1, 2], **_ORDERS, permanent=True),
        call(NO_SUBJECT, subject_name="nobody"),
        call((404, 40404), **_GONE),
        call((422, 42206), subject_name="address"),
        call([1], **_GONE, permanent=True),
        call((422, 42205), **_CUSTOMER),
    ],
    "get_latest_version": [
        call(("orders", 2, 4), **_ORDERS),
        call(CUSTOMER_TEXT, **_CUSTOMER, fmt="resolved"),
        call(NO_SUBJECT, **_GONE),
    ],
    "get_latest_with_metadata": [
        call(("orders", 2, 4), **_ORDERS, metadata={"owner": "me"}),
        call((404, 40403), **_ORDERS, metadata={"owner": "you"}),
        call(WIDER_TEXT, **_ORDERS, metadata={"owner": "me"}, deleted=True, fmt="resolved"),
    ],
    "get_version": [
        call(("orders", 1, 3), **_ORDERS, version=1),
        call(("orders", 2, 4), **_ORDERS, version="latest"),
        call((404, 40402), **_OLD, version=1),
        call(("old", 1, 5), **_OLD, version=1, deleted=True),
        call(CUSTOMER_TEXT, **_CUSTOMER, version=1, fmt="resolved"),
    ],
    "get_referenced_by": [
        call([2], subject_name="address", version=1),
        call([2], subject_name="address"),
        call([], subject_name="address", offset=1, limit=1),
        call((404, 40402), subject_name="address", version=2),
    ],
    "get_versions": [
        call([1, 2], **_ORDERS),
        call([2], **_OLD),
        call([1, 2], **_OLD, deleted=True),
        call([2], **_OLD, deleted_only=True),  # see get_subjects
        call([2], **_ORDERS, offset=1, limit=1),
    ],
    "delete_version": [
        call(1, **_ORDERS, version=1),
        call((404, 40406), **_ORDERS, version=1),
        call(1, **_ORDERS, version=1, permanent=True),
        call((404, 40407), **_ORDERS, version=2, permanent=True),
        call((404, 40402), **_OLD, version=9),
    ],
    "set_compatibility": [
        call({"compatibility": "FULL"}, level="full"),
        call({"compatibility": "NONE"}, **_ORDERS, level="NONE"),
        call((422, 42203), level="SOME"),
    ],
    "get_compatibility": [call("BACKWARD"), call("FORWARD", **_OLD), call((404, 40408), **_ORDERS)],
    "test_compatibility": [
        call(True, **_ORDERS, schema=avro(ORDER)),
        call(False, **_ORDERS, schema=avro(NARROWER), version=1, normalize=True, verbose=True),
        call((404, 40402), **_ORDERS, schema=avro(ORDER), version=9),
    ],
    "test_compatibility_all_versions": [
        call(True, **_ORDERS, schema=avro(ORDER)),
        call(False, **_ORDERS, schema=avro(NARROWER), normalize=True, verbose=True),
    ],
    "set_config": [
        call({"compatibility": "FULL"}, config=FULL),
        call({"compatibility": "FULL"}, **_ORDERS, config=FULL),
    ],
    "get_config": [call("BACKWARD"), call("FORWARD", **_OLD), call((404, 40408), **_ORDERS)],
    "delete_config": [call("FORWARD", **_OLD), call(NO_SUBJECT, **_OLD), call("BACKWARD")],
    "get_mode": [call("READONLY", **_CUSTOMER), call((404, 40409), **_ORDERS)],
    "update_mode": [
        call("READONLY", **_ORDERS, mode="READONLY"),
        call((422, 42205), **_OLD, mode="IMPORT"),
        call("IMPORT", **_OLD, mode="IMPORT", force=True),
        call((422, 42204), **_OLD, mode="SOME"),
    ],
    "delete_mode": [call("READONLY", **_CUSTOMER), call(NO_SUBJECT, **_CUSTOMER)],
    "get_global_mode": [call("READWRITE")],
    "update_global_mode": [call((422, 42205), mode="IMPORT"), call("IMPORT", mode="IMPORT", force=True)],
    "get_contexts": [call(["."]), call([], offset=1, limit=1)],
    # There are none: the client's AssociatedNameStrategy takes its fallback.
    "get_associations_by_resource_name": [
        call((404, 404), **_RESOURCE),
        call((404, 404), **_RESOURCE, resource_type="topic", association_types=["value"], offset=1, limit=1),
    ],
    "create_association": [call((404, 404), request=ASSOCIATION)],
    "delete_associations": [
        call((404, 404), resource_id="id", resource_type="topic", association_types=["value"], cascade_lifecycle=True)
    ],
}
READS = ("get_", "test_", "lookup_")  # how the methods start that change nothing
# They ask the registry nothing, or are what the tests open and close clients with.
LOCAL = {"clear_caches", "clear_latest_caches", "close", "config", "new_client"}


def _methods() -> dict[str, inspect.Signature]:
    found = inspect.getmembers(SchemaRegistryClient, callable)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with what each method finds; to be copied."""
    path = tmp_path_factory.mktemp("filled") / "registry.db"
    with running_service(f"sqlite:///{path}") as url, SchemaRegistryClient.new_client({"url": url}) as opened:
        _fill(opened)
    return path


@contextmanager
def registry(filled: Path) -> Iterator[Any]:
    """A client of a registry that may be changed."""
    with TemporaryDirectory() as folder:
        store = shutil.copy(filled, folder)
        with running_service(f"sqlite:///{store}") as url, SchemaRegistryClient.new_client({"url": url}) as opened:
            yield opened


def _plain(result: Any, arguments: dict[str, Any]) -> Any:
    if isinstance(result, list):
        return [_plain(entry, arguments) for entry in result]
    match result:
        case Schema():
            return result.schema_str
        case RegisteredSchema():
            if "fmt" in arguments:
                return result.schema.schema_str
            return result.subject, result.version, result.schema_id
        case ServerConfig():
            return result.compatibility_level
        case SchemaVersion():
            return result.subject, result.version
    return result


def _outcome(client: Any, method: str, arguments: dict[str, Any]) -> Any:
    client.clear_caches()  # what the client remembers is not asked for
    try:
        return _plain(getattr(client, method)(**arguments), arguments)
    except SchemaRegistryError as error:
        return error.http_status_code, error.error_code


def test_methods_that_change_nothing(filled: Path) -> None:
    with registry(filled) as client:

        def check(method: str) -> None:
            calls = CALLS[method]
            assert [_outcome(client, method, entry.arguments) for entry in calls] == [entry.expected for entry in calls]

        check_rows([method for method in sorted(CALLS) if method.startswith(READS)], check)


def test_methods_that_change_something(filled: Path) -> None:
    def check(method: str) -> None:
        with registry(filled) as client:
            calls = CALLS[method]
            assert [_outcome(client, method, entry.arguments) for entry in calls] == [entry.expected for entry in calls]

    check_rows([method for method in sorted(CALLS) if not method.startswith(READS)], check)


def test_every_method_and_every_parameter_has_a_call() -> None:
    methods = _methods()
    assert methods.keys() == CALLS.keys() | LOCAL
    for method, calls in CALLS.items():
        used = {name for entry in calls for name in entry.arguments}
        assert used == methods[method].parameters.keys() - {"self"}, method


def test_local_methods(filled: Path) -> None:
    """What the client remembers comes from the registry again once it is told to forget."""
    with registry(filled) as confluent:
        settings = {**confluent.config(), "cache.latest.ttl.sec": 1000}
        with SchemaRegistryClient.new_client(settings) as other:
            assert other.get_latest_version("orders").version == 2
            confluent.delete_version("orders", 2)
            assert other.get_latest_version("orders").version == 2
            other.clear_latest_caches()
            assert other.get_latest_version("orders").version == 1
