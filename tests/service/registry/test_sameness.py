"""Schemas that look-ups and registrations take for the same: in another order, numbered, damaged ones for none."""

import json
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from tests.support.each import each
from tests.support.service import column, record
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import subjects
from ticdc_bridge.service.registry.config import VERSION
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.register import lookup, register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import SqlStore

DECIMAL = {"connect.parameters": {"tidb_type": "DECIMAL"}, "logicalType": "decimal", "precision": 18, "scale": 4}
ENUM = {"connect.parameters": {"tidb_type": "ENUM", "allowed": "new,paid"}}


class Pair(NamedTuple):
    """A schema that is registered, another one, and whether that is the same. `kind` as in requests."""

    about: str
    one: Any
    other: Any
    same: bool = True
    kind: str = "AVRO"


def in_record(*fields: Any, **more: Any) -> Any:
    return json.loads(record("R", *fields, **more))


def turned(value: Any) -> Any:
    """The same JSON with the keys of all objects the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


NESTED = {
    "type": "map",
    "values": {"type": "array", "items": {"type": "bytes", **DECIMAL}, "b": 1, "a": {"y": 1, "x": [1]}},
}


@each("pair", [
    Pair(
        "all of TiCDC's properties",
        in_record(column("d", {"type": "bytes", **DECIMAL}), column("e", ["null", {"type": "string", **ENUM}])),
        turned(in_record(column("d", {"type": "bytes", **DECIMAL}), column("e", ["null", {"type": "string", **ENUM}]))),
    ),
    Pair("nested", in_record(column("a", NESTED)), turned(in_record(column("a", NESTED)))),
    Pair("aliases of a record", in_record(aliases=["A", "B"]), in_record(aliases=["B", "A"])),
    Pair("aliases of a field", in_record(column("a", aliases=["x", "y"])), in_record(column("a", aliases=["y", "x"]))),
    Pair("properties of a field", in_record(column("a", p=1, q=2)), in_record(column("a", q=2, p=1))),
    Pair(
        "a default with names",
        in_record(column("a", {"type": "map", "values": "int"}, default={"x": 1, "y": 2})),
        in_record(column("a", {"type": "map", "values": "int"}, default={"y": 2, "x": 1})),
    ),
    Pair("error for record", in_record(column("a")), {**in_record(column("a")), "type": "error"}),
    Pair("order of a list in a property", in_record(p=[1, 2]), in_record(p=[2, 1]), same=False),
    Pair("another value", in_record(p=1, q=2), in_record(q=1, p=2), same=False),
    Pair("a whole number for a double", in_record(p=1), in_record(p=1.0), same=False),
    Pair("order of fields", in_record(column("a"), column("b")), in_record(column("b"), column("a")), same=False),
    Pair("doc of a record", in_record(doc="a"), in_record(doc="b"), same=False),
    Pair("doc of a field", in_record(column("a", doc="")), in_record(column("a")), same=False),
    Pair("one alias more", in_record(aliases=["A"]), in_record(aliases=["A", "B"]), same=False),
    Pair(
        "default of an enum",
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"},
        same=False,
    ),
    Pair(
        "order of symbols",
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["B", "A"]},
        same=False,
    ),
    Pair("JSON: keys", {"type": "string", "title": "t"}, {"title": "t", "type": "string"}, same=False, kind="JSON"),
], ids=lambda pair: pair.about)  # fmt: skip
def test_pairs(registry: Registry, pair: Pair) -> None:
    """Both ways round: what was registered keeps its text, and the other one is found as it, or is not found."""
    for way, (entry, other) in enumerate(((pair.one, pair.other), (pair.other, pair.one))):
        subject = f"{pair.about}-{way}"
        first = register(registry, subject, NewSchema(json.dumps(entry), pair.kind), force=True).stored
        new = NewSchema(json.dumps(other), pair.kind)
        if pair.same:
            assert lookup(registry, subject, new).stored == first
        else:
            with pytest.raises(RegistryError, match="Schema not found"):
                lookup(registry, subject, new)
        second = register(registry, subject, new, force=True).stored
        assert second.version == (1 if pair.same else 2)
        assert subjects.get_version(registry, subject, 1) == first


def test_normalize_makes_no_other_version(registry: Registry) -> None:
    sent = json.dumps(in_record(column("d", {"type": "bytes", **DECIMAL})))
    first = register(registry, "plain", NewSchema(sent)).stored
    assert register(registry, "plain", NewSchema(sent), normalize=True).stored == first
    normal = register(registry, "normal", NewSchema(sent), normalize=True).stored
    assert normal.content.text != first.content.text
    assert lookup(registry, "normal", NewSchema(sent)).stored == normal


def test_with_references(registry: Registry) -> None:
    """Sent with the same references, or written out."""
    inner = record("Inner", column("x", {"type": "long", "p": 1, "q": 2}))
    register(registry, "inner", NewSchema(inner))
    references = (Reference("Inner", "inner", 1),)
    outer = [in_record(column("i", "Inner"), a=1, b=2), in_record(column("i", "Inner"), b=2, a=1)]
    first = register(registry, "outer", NewSchema(json.dumps(outer[0]), references=references)).stored
    assert register(registry, "outer", NewSchema(json.dumps(outer[1]), references=references)).stored == first
    written_out = turned(in_record(column("i", json.loads(inner)), b=2, a=1))
    assert lookup(registry, "outer", NewSchema(json.dumps(written_out))).stored == first


def test_alike_with_metadata_of_the_version_before(registry: Registry) -> None:
    """The answer has the text that was sent, the id and version of the one that is there, and no time."""
    texts = [json.dumps({"type": "string", "zz": 1, "aa": 2}), json.dumps({"type": "string", "aa": 2, "zz": 1})]
    first = register(registry, "s", NewSchema(texts[0], metadata={"properties": {"k": "v"}})).stored
    again = register(registry, "s", NewSchema(texts[1]))
    assert (again.stored.id, again.stored.version, again.alike, again.new) == (first.id, 1, False, False)
    assert json.loads(again.stored.content.text) == json.loads(texts[1])
    assert again.stored.content.text.index("aa") < again.stored.content.text.index("zz")
    assert subjects.get_version(registry, "s", 1).content == first.content


def test_metadata_that_confluent_runs_together(registry: Registry) -> None:
    """Its MD5 is that of other metadata: never taken for that, and refused, since it would have the same guid."""
    first, second = ({"properties": properties} for properties in ({"a": "bc"}, {"ab": "c"}))
    assert register(registry, "s", NewSchema('"int"', metadata=first)).stored.version == 1
    for subject in ("s", "other"):
        with pytest.raises(RegistryError, match="Overwrite new schema with id 1"):
            register(registry, subject, NewSchema('"int"', metadata=second))
    with pytest.raises(RegistryError, match="Schema not found"):
        lookup(registry, "s", NewSchema('"int"', metadata=second))
    assert register(registry, "other", NewSchema('"int"', metadata=first)).stored.id == 1


def test_a_number_that_only_the_sent_one_records(registry: Registry) -> None:
    """It has to be that of the version."""
    register(registry, "s", NewSchema('"int"', metadata={"properties": {"k": "v"}}))
    for number, same in (("1", True), ("2", False)):
        new = NewSchema('"int"', metadata={"properties": {"k": "v", VERSION: number}})
        if same:
            assert lookup(registry, "s", new).stored.version == 1
        else:
            with pytest.raises(RegistryError, match="Schema not found"):
                lookup(registry, "s", new)


def test_what_is_registered_again_may_refer_to_what_is_soft_deleted(registry: Registry) -> None:
    register(registry, "inner", NewSchema(record("Inner", column("x"))))
    new = NewSchema(record("Outer", column("i", "Inner")), references=(Reference("Inner", "inner", 1),))
    first = register(registry, "outer", new).stored
    for subject in ("outer", "inner"):
        subjects.delete_subject(registry, subject)
    again = register(registry, "outer", new).stored
    assert (again.id, again.version) == (first.id, 2)
    with pytest.raises(RegistryError, match="No schema reference found"):
        register(registry, "outer", NewSchema(record("Other", column("i", "Inner")), references=new.references))


def test_a_damaged_schema_is_named_and_not_served(registry: Registry, store: SqlStore) -> None:
    kept = register(registry, "kept", NewSchema('"int"')).stored
    for index, garbled in enumerate(("text = '\"ins\"'", "kind = 'JSON'", 'refs = \'[["a","b",1]]\'', "digest = NULL")):
        stored = register(registry, f"s{index}", NewSchema(record(f"R{index}"))).stored
        with store.write() as tx:
            tx.connection.execute(text(f"UPDATE schemas SET {garbled} WHERE id = {stored.id}"))
        with pytest.raises(RegistryError, match=f"schema with id {stored.id} is damaged in the store"):
            subjects.get_version(registry, stored.subject, 1)
    assert subjects.get_version(registry, "kept", 1) == kept
