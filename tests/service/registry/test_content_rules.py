"""Metadata, tags, configs that fill in or hold back, and logical types: the rules the captures do not show."""

import json
import logging
from contextlib import suppress
from typing import Any

import pytest

from tests.support.each import each
from tests.support.service import Client, column, record, warnings_of
from tests.support.table import check_rows
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import compatibility, config, schemas, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.names import LATEST
from ticdc_bridge.service.registry.references import UnderstoodSchema, understand
from ticdc_bridge.service.registry.register import NeedsFullPath, lookup, register, register_plain, tag
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import TaggedEntity
from ticdc_bridge.service.testing import running_service

DECIMAL = {"type": "bytes", "logicalType": "decimal"}


def amount(precision: int, scale: int) -> dict[str, Any]:
    return {**DECIMAL, "precision": precision, "scale": scale}


def test_metadata_from_the_config(registry: Registry) -> None:
    changes = {
        "defaultMetadata": {"properties": {"owner": "all", "kind": "table"}},
        "overrideMetadata": {"properties": {"audited": "yes"}, "sensitive": ["owner"]},
    }
    config.update(registry, "s", changes)
    found = register(registry, "s", NewSchema('"int"', metadata={"properties": {"owner": "me", "audited": "no"}}))
    assert found.completed
    assert found.stored.content.metadata == {
        "properties": {"audited": "yes", "kind": "table", "owner": "me"},
        "sensitive": ["owner"],
    }
    assert register(registry, "s", NewSchema('"int"')).stored.version == 1, "metadata comes from the version before"
    assert lookup(registry, "s", NewSchema('"int"')).stored.version == 1


def test_an_unknown_type_is_reported_before_what_it_refers_to(registry: Registry) -> None:
    with pytest.raises(RegistryError) as caught:
        register(registry, "s", NewSchema("<x/>", "XML", (Reference("R", "gone", 1),)))
    assert (caught.value.code, caught.value.detail) == ("INVALID_SCHEMA", "Invalid schema type XML")


def test_a_recorded_version_follows(registry: Registry) -> None:
    register(registry, "s", NewSchema('"int"', version=1))
    assert register(registry, "s", NewSchema('"int"')).stored.version == 1
    assert register(registry, "s", NewSchema('"int"', version=LATEST)).stored.version == 1
    second = register(registry, "s", NewSchema('"long"')).stored
    assert (second.version, second.content.metadata) == (2, {"properties": {"confluent:version": "2"}})
    assert lookup(registry, "s", NewSchema('"int"')).alike


def test_compatibility_groups(registry: Registry) -> None:
    config.update(registry, "s", {"compatibilityGroup": "major"})
    first = {"properties": {"major": "1"}}
    register(registry, "s", NewSchema('"int"', metadata=first))
    register(registry, "s", NewSchema('"string"', metadata={"properties": {"major": "2"}}))
    assert register(registry, "s", NewSchema('"long"', metadata=first)).stored.version == 3
    with pytest.raises(RegistryError, match="TYPE_MISMATCH"):
        register(registry, "s", NewSchema('"boolean"', metadata=first))


def test_reserved_fields(registry: Registry) -> None:
    config.update(registry, "s", {"validateFields": True, "compatibility": "NONE"})
    kept = {"properties": {"confluent:reserved": "a, b"}}
    register(registry, "s", NewSchema(record("R", column("x")), metadata=kept))
    for new in (
        NewSchema(record("R", column("a", default=1)), metadata=kept),
        NewSchema(record("R", column("y")), metadata={"properties": {"confluent:reserved": "b"}}),
    ):
        with pytest.raises(RegistryError, match="reserved field a") as error:
            register(registry, "s", new)
        assert error.value.detail.endswith("{validateFields: 'true', compatibility: 'NONE'}]")
    config.update(registry, "s", {"validateFields": False})
    assert register(registry, "s", NewSchema(record("R", column("a", default=1)), metadata=kept)).stored.version == 2


def test_reserved_fields_are_named_in_the_order_of_javas_sets(registry: Registry) -> None:
    config.update(registry, "s", {"validateFields": True})
    kept = {"properties": {"confluent:reserved": "zeta, beta,omega,,k10,alpha"}}
    register(registry, "s", NewSchema(record("R", column("x")), metadata=kept))
    used = NewSchema(record("R", *(column(name, default=1) for name in ("beta", "omega", "zeta"))), metadata=kept)
    found = compatibility.check(registry, "s", None, used, normalize=False)
    assert [message.split()[-1] for message in found[:-1]] == ["zeta.", "beta.", "omega."]
    gone = compatibility.check(registry, "s", None, NewSchema(record("R", column("x")), metadata={}), normalize=False)
    assert [message.split()[6] for message in gone[:-1]] == ["zeta", "alpha", "k10", "beta", "omega"]


def test_reserved_fields_of_other_types(registry: Registry) -> None:
    config.update(registry, "s", {"validateFields": True})
    kept = {"properties": {"confluent:reserved": "a"}}
    for kind, text in (
        ("JSON", '{"type":"object","properties":{"a":{}}}'),
        ("JSON", '{"properties":{"a":{}},"allOf":[{"type":"object"},{"minProperties":1}]}'),
        ("PROTOBUF", 'syntax = "proto3"; message First { int32 b = 1; } message M { int32 a = 1; }'),
    ):
        with pytest.raises(RegistryError, match="conflicts with the reserved field a"):
            register(registry, "s", NewSchema(text, kind, metadata=kept))
    in_oneof = 'syntax = "proto3"; message M { oneof o { int32 a = 1; } }'
    assert register(registry, "s", NewSchema(in_oneof, "PROTOBUF", metadata=kept)).new


# Protobuf that is a schema, but of which no descriptor can be made; and near them what one can be made of.
NO_DESCRIPTOR = (
    "message A { optional int32 a = 1; optional int32 b = 1; }",
    "message A { optional int32 a = 1; optional int32 a = 2; }", "enum E { }", "enum E { A = 0; A = 1; }",
    "message A { optional google.protobuf.Any a = 1; }", "message A { map<int32,Nope> a = 1; }",
    "message A { oneof o { int32 a = 1; string a = 2; } }", "message A { optional int32 a = 1 [packed=true]; }",
    "message A { repeated string a = 1 [packed=true]; }",
    'import "google/type/datetime.proto"; message A { optional google.protobuf.Duration t = 2; }',
    'message A { optional int32 a = 1 [default="x"]; }', "message A { optional int32 a = 1 [default=99999999999]; }",
    "enum E { A = 0; } message M { optional E e = 1 [default=B]; }",
    "message M { extensions 5 to 9; } extend M { optional int32 z = 15; }",
)  # fmt: skip
DESCRIBED = (
    "message A { map<string,int32> a_b = 1; map<string,string> aB = 2; }",
    "enum E { A = 1; }",
    'import "google/protobuf/any.proto"; message A { optional google.protobuf.Any a = 1; }',
    "enum E { A=0; } enum F { A=0; }",
    "message A { oneof o { int32 a = 1; } oneof o { int32 b = 2; } }",
    "message A { repeated int32 a = 1 [packed=true]; }",
    "message A { optional int32 f = 1 [default=0x7f]; optional bool b = 2 [default=maybe]; }",
    "message M { extensions 5 to 9; } extend M { optional int32 z = 5; }",
)


def test_schemas_without_descriptor(registry: Registry) -> None:
    """They are refused where a config asks for it, whichever way a registration goes."""
    config.update(registry, "u", {"validateFields": True, "compatibility": "NONE"})

    def check_row(row: tuple[bool, str]) -> None:
        refused, text = row
        new = NewSchema(f'syntax = "proto2"; {text}', "PROTOBUF")
        register(registry, "s" + text, new)
        understood = understand(registry, new)
        for attempt in (
            lambda: register(registry, "u", new),
            lambda: _plainly(registry, "u", new, understood),
        ):
            if refused:
                with pytest.raises(RegistryError, match="Invalid protobuf schema definition: "):
                    attempt()
            else:
                attempt()

    check_rows([*((True, entry) for entry in NO_DESCRIPTOR), *((False, entry) for entry in DESCRIBED)], check_row)


def _plainly(registry: Registry, subject: str, new: NewSchema, understood: UnderstoodSchema) -> None:
    with registry.store.write() as tx, suppress(NeedsFullPath):
        register_plain(registry, tx, subject, new, understood)


def test_names_that_confluent_reserves(registry: Registry) -> None:
    """They are refused where a config asks for it, and in the outermost object alone."""
    outer: Any = {"properties": {"$$a": {}}}
    inner: Any = {"properties": {"a": outer}}
    for subject, schema in (("s", outer), ("t", inner)):
        register(registry, subject, NewSchema(json.dumps(schema), "JSON"))
    config.update(registry, "u", {"validateFields": True})
    register(registry, "u", NewSchema(json.dumps(inner), "JSON"))
    with pytest.raises(RegistryError, match=r"details: #: Field names cannot start with \$\$ prefix"):
        register(registry, "u", NewSchema(json.dumps(outer), "JSON"))


def test_new_schemas_may_be_read_leniently(registry: Registry) -> None:
    odd = NewSchema(record("R", column("a", default="text")))
    with pytest.raises(RegistryError):
        register(registry, "s", odd)
    config.update(registry, "s", {"validateNewSchemas": False})
    register(registry, "s", odd)
    config.update(registry, "s", {"validateNewSchemas": None})
    assert register(registry, "s", odd).stored.version == 1, "what is there is found, however strict the rules are now"


def test_tags(registry: Registry) -> None:
    inner = json.loads(record("In", column("x"), namespace="n.m"))
    register(registry, "s", NewSchema(record("R", column("a"), column("i", ["null", inner]), namespace="n")))
    added = (TaggedEntity("n.R.a", "sr_field", ("PII", "KEY")), TaggedEntity("n.m.In", "sr_record", ("OLD",)))
    tagged = tag(registry, "s", 1, NewSchema(tags_to_add=added)).stored
    assert (tagged.version, tagged.content.metadata) == (2, {"properties": {"confluent:version": "2"}})
    assert schemas.tags(registry, tagged, ["*"]) == list(added)
    assert schemas.tags(registry, tagged, ["OLD", "NEW"]) == [added[1]]
    carried = NewSchema(record("R", column("a"), namespace="n"), keep_tags=True)
    third = register(registry, "t", carried).stored
    assert third.version == 1
    removed = NewSchema(tags_to_remove=(TaggedEntity("n.R.a", "sr_field", ("PII", "KEY")),))
    assert schemas.tags(registry, tag(registry, "s", 2, removed).stored, ["*"]) == [added[1]]
    short = (TaggedEntity("R.a", "sr_field", ("X",)), TaggedEntity("In", "sr_record", ("Y",)))
    without_namespace = tag(registry, "s", 1, NewSchema(tags_to_add=short)).stored
    assert schemas.tags(registry, without_namespace, ["X", "Y"]) == [
        TaggedEntity("n.R.a", "sr_field", ("X",)), TaggedEntity("n.m.In", "sr_record", ("Y",)),
    ]  # fmt: skip
    with pytest.raises(RegistryError, match=r"No matching path 'n\.R\.none' found"):
        tag(registry, "s", 1, NewSchema(tags_to_add=(TaggedEntity("n.R.none", "sr_field", ("X",)),)))


def test_properties_find_the_latest_version(registry: Registry) -> None:
    config.update(registry, "s", {"compatibility": "NONE"})
    for number, schema in enumerate(('"int"', '"long"', '"string"'), 1):
        register(registry, "s", NewSchema(schema, metadata={"properties": {"odd": str(number % 2), "n": str(number)}}))
    assert subjects.with_properties(registry, "s", {"odd": "1"}).version == 3
    assert subjects.with_properties(registry, "s", {"odd": "1", "n": "1"}).version == 1
    subjects.delete_version(registry, "s", 3)
    assert subjects.with_properties(registry, "s", {"odd": "1"}).version == 1
    assert subjects.with_properties(registry, "s", {"odd": "1"}, deleted=True).version == 3


@each(("old", "new", "says"), [
    (amount(10, 2), amount(12, 4), "decimal(10,2) to bytes decimal(12,4): the stored integer has no point"),
    (amount(10, 2), amount(12, 2), "smaller precision"),
    (amount(10, 2), "string", "bytes decimal(10,2) to string: the bytes of the number are read as text"),
    ("string", amount(10, 2), "from string to bytes decimal(10,2)"),
    (["null", amount(10, 2)], ["null", "string"], "read as text"),
    ({"type": "array", "items": amount(9, 1)}, {"type": "array", "items": amount(9, 2)}, "c[] changed"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "timestamp-micros"},
        "from long timestamp-millis to long timestamp-micros",
    ),
])  # fmt: skip
def test_logical_changes(registry: Registry, caplog: pytest.LogCaptureFixture, old: Any, new: Any, says: str) -> None:
    caplog.clear()
    registry.strict_logical_types = False
    first, second = NewSchema(record("R", column("c", old))), NewSchema(record("R", column("c", new)))
    register(registry, "s", first)
    assert compatibility.check(registry, "s", LATEST, second, normalize=False) == []
    registry.strict_logical_types = True
    problems = compatibility.check(registry, "s", LATEST, second, normalize=False)
    assert says in problems[0]
    assert problems[0].startswith("{errorType:'LOGICAL_TYPE_CHANGED'")
    with pytest.raises(RegistryError) as refused:
        register(registry, "s", second)
    assert (refused.value.code, says in refused.value.detail) == ("INCOMPATIBLE_SCHEMA", True)
    assert warnings_of(registry) == []
    registry.strict_logical_types = False
    with caplog.at_level(logging.WARNING, logger="service"):
        register(registry, "s", second)
    [warned] = warnings_of(registry)
    assert (warned.subject, warned.version) == ("s", 2)
    assert warned.message in caplog.text
    subjects.delete_subject(registry, "s")
    assert warnings_of(registry) == [warned]
    subjects.delete_subject(registry, "s", permanent=True)
    assert warnings_of(registry) == []


NO_LOGICAL_CHANGES: list[tuple[Any, Any]] = [
    (amount(10, 2), amount(10, 2)), (amount(10, 2), ["null", amount(10, 2)]), ("int", "long"), ("bytes", "string"),
    ([amount(10, 2), "string"], ["string", amount(10, 2)]),
    ({"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "date", "doc": "d"}),
]  # fmt: skip


def test_what_is_no_logical_change(registry: Registry) -> None:
    registry.strict_logical_types = True

    def check(row: tuple[int, tuple[Any, Any]]) -> None:
        number, (old, new) = row
        register(registry, f"s{number}", NewSchema(record("R", column("c", old))))
        assert register(registry, f"s{number}", NewSchema(record("R", column("c", new)))).stored.version in (1, 2)
        assert warnings_of(registry) == []

    check_rows(enumerate(NO_LOGICAL_CHANGES), check)


def test_strict_logical_types_over_http() -> None:
    with running_service(logical_types="strict") as url:
        client = Client(url)
        client.level("NONE")
        client.register("s", record("R", column("c", amount(10, 2))))
        answer = client.register("s", record("R", column("c", "string")))
        assert answer.error == (409, 40901)
        assert "c changed from bytes decimal(10,2) to string" in answer.json["message"]
        assert client.register("s", record("R", column("c", "string")), "?force=true").status == 200


def test_imports_are_not_warned_about(registry: Registry) -> None:
    registry.strict_logical_types = True
    config.update_mode(registry, "s", "IMPORT")
    register(registry, "s", NewSchema(record("R", column("c", amount(10, 2))), id=1))
    register(registry, "s", NewSchema(record("R", column("c", amount(10, 4))), id=2))
    assert warnings_of(registry) == []
