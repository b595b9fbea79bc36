"""JSON Schema: texts, references, and verdicts that the captures don't show."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.table import check_rows
from ticdc_bridge.service.schema_types.base import ReferencedText, TaggedEntity
from ticdc_bridge.service.schema_types.java_text import dump_json, hash_order, load_schema
from ticdc_bridge.service.schema_types.json_schema.differences import count_matches
from ticdc_bridge.service.schema_types.json_schema.pattern import problem
from ticdc_bridge.service.schema_types.json_schema.schema import JsonSchema, parse_json

DRAFT = {4: "http://json-schema.org/draft-04/schema#", 2020: "https://json-schema.org/draft/2020-12/schema"}


def parsed(schema: Any, *referenced: tuple[str, Any]) -> JsonSchema:
    texts = [ReferencedText(name, name, 1, json.dumps(other), True) for name, other in referenced]
    return parse_json(schema if isinstance(schema, str) else json.dumps(schema), texts, strict=True)


def differences(old: Any, new: Any, *, lenient: bool = False) -> list[str]:
    """The kinds and places of what keeps `new` from reading what `old` wrote."""
    before, after = parsed(old), parsed(new)
    messages = (after.to_lenient() if lenient else after).differences(before, "new", "old")
    return [f"{message.split(chr(34))[1]} {message.split(chr(39))[1]}" for message in messages]


@each(("text", "canonical"), [
    ('{"b":1,\n "a":[1.50, 1e3, 1E-7, -0.0, -0, 0.00001]}', '{"b":1,"a":[1.50,1E+3,1E-7,0.0,0,0.00001]}'),
    ('{"default":NaN,"enum":[Infinity,-Infinity]}', '{"default":"NaN","enum":["Infinity","-Infinity"]}'),
    ('{"a":123456789012345678901234567890}', '{"a":123456789012345678901234567890}'),
    ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
    ('{"t":"\\u00e9\\/\\u0001\\ud83d\\ude00\\u2028"}', '{"t":"é/\\u0001😀\u2028"}'),
    ("true", "true"), ('{"a":[-INF,"-INF"]} // end', '{"a":["-Infinity","-INF"]}'), ("{}{}", "{}"),
])  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    assert parsed(text).text == canonical
    assert parsed(canonical).text == canonical


def test_normalised_text_sorts_keys_as_java_does() -> None:
    assert parsed('{"\uffff":1,"😀":2,"b":{"d":1,"c":[{"y":1,"x":2}]}}').normalized_text() == (
        '{"b":{"c":[{"x":2,"y":1}],"d":1},"😀":2,"\uffff":1}'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_a_text_is_read_back_digit_by_digit(value: Any) -> None:
    text = dump_json(
        load_schema(dump_json(value))
    )  # BigDecimal has no negative zero, so the first text may have one more sign
    assert dump_json(load_schema(text)) == text
    assert len(dump_json(value)) - len(text) <= dump_json(value).count("-0")


def test_hash_order_is_javas() -> None:
    """The first order is that of a JVM's HashMap."""
    assert hash_order(["plate", "speed", "a", "unit", "zz", "lat", "b"]) == [
        *("zz", "a", "unit", "b", "plate", "speed", "lat")
    ]


@each("pattern", [
    "(", ")", "a)", "[a", "[[a]", "*a", "a**", "a{", "a{2,1}", "a{x}", "[z-a]", "\\", "\\y", "(?P<n>a)", "\\p{L",
])  # fmt: skip
def test_patterns_that_java_refuses(pattern: str) -> None:
    assert problem(pattern)
    with pytest.raises(ValueError, match="Invalid JSON: #/pattern: "):
        parsed({"pattern": pattern})


@each("pattern", [
    "", "^[A-Z]+$", "(?<n>a)\\k<n>", "a++", "[]a]", "[a-z&&[^b]]", "\\Q(\\E", "(?i)a{2,}?", "\\p{L}", "{2}",
])  # fmt: skip
def test_patterns_that_java_accepts(pattern: str) -> None:
    assert problem(pattern) is None


@given(st.lists(st.lists(st.integers(0, 4), unique=True), max_size=5))
def test_matching_is_the_largest(edges: list[list[int]]) -> None:
    def best(left: int, taken: frozenset[int]) -> int:
        if left == len(edges):
            return 0
        used = [1 + best(left + 1, taken | {edge}) for edge in edges[left] if edge not in taken]
        return max([best(left + 1, taken), *used])

    assert count_matches(edges, 5) == best(0, frozenset())


GPS = {"$id": "gps.json", "definitions": {"lat": {"type": "number"}}, "type": "object", "properties": {"x": {}}}


BY_NAME: list[tuple[str, str, str | None]] = [
    ("gps.json", "gps.json", None),
    ("gps.json#/definitions/lat", "gps.json", None),
    ("./gps.json", "gps.json", None),
    ("gps.json", "gps.json", "http://example.org/fleet/car.json"),
    ("http://example.org/fleet/gps.json", "gps.json", "http://example.org/fleet/car.json"),
    ("http://example.org/gps.json", "http://example.org/gps.json", None),
    ("http://example.org/gps.json#", "http://example.org/gps.json", "urn:car"),
]


def test_references_by_name() -> None:
    def check(row: tuple[str, tuple[str, str, str | None]]) -> None:
        draft, (reference, name, schema_id) = row
        schema: Any = {"$schema": draft, "properties": {"at": {"$ref": reference}}}
        if schema_id:
            schema["id" if "draft-04" in draft else "$id"] = schema_id
        assert parsed(schema, (name, GPS)).text
        with pytest.raises(ValueError, match="can't resolve reference"):
            parsed(schema, ("other.json", GPS))

    check_rows(product(DRAFT.values(), BY_NAME), check)
    with pytest.raises(ValueError, match=r"'r.json' is no object"):
        parsed({"type": "string"}, ("r.json", True))
    parsed({"$schema": DRAFT[2020], "type": "string"}, ("r.json", True))


@each("schema", [
    {"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {}}},
    {"$ref": "#/items/1", "items": [{}, {"type": "string"}]},
    {"$ref": "#/items/01", "items": [{}, {"type": "string"}]},
    {"$ref": "#/definitions/a+b", "definitions": {"a b": {}}},
    {"$ref": "#id", "definitions": {"x": {"$id": "#id"}}},
    {"$ref": "part.json", "definitions": {"x": {"$id": "part.json"}}},
    {"$ref": "#"},
    {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
    },
    {"$ref": "http://json-schema.org/draft-07/schema#"},
    {"$schema": DRAFT[2020], "$ref": "#here", "$defs": {"x": {"$anchor": "here"}}},
    {"$schema": DRAFT[2020], "$dynamicRef": "#here", "$defs": {"x": {"$dynamicAnchor": "here"}}},
    *(
        {"$schema": draft, "items": {"$ref": "#/$defs/X/properties/a"}, **more}
        for draft in (*DRAFT.values(), "http://json-schema.org/draft-06/schema#", "urn:other")
        for more in (
            {"definitions": {"X": {"properties": {"a": {"$ref": "#/$defs/Y"}}}, "Y": {"type": "null"}}},
            {"definitions": {"X": {"properties": {"a": {}}}}, "$defs": {"Y": {}}},
        )
    ),
])  # fmt: skip
def test_references_inside_a_schema(schema: dict[str, Any]) -> None:
    assert differences(schema, {**schema, "title": "x"}) == []


def test_definitions_are_no_other_way_round() -> None:
    for schema in (
        {"$ref": "#/definitions/X", "$defs": {"X": {}}},
        {"properties": {"a": {"definitions": {"X": {}}, "$ref": "#/$defs/X"}}},  # the outermost ones alone
    ):
        with pytest.raises(ValueError, match="can't resolve reference"):
            parsed(schema)


@each(("kind", "path", "schema", "changed"), [
    ("sr_field", "object.a", {"properties": {"a": {}}}, {"properties": {"a": {"confluent:tags": ["T"]}}}),
    ("sr_field", "object.a.b", {"properties": {"a.b": {}}}, {"properties": {"a.b": {"confluent:tags": ["T"]}}}),
    ("sr_record", "object", {"type": "object"}, {"type": "object", "confluent:tags": ["T"]}),
    (
        "sr_field",
        "object.a.array.object.b",
        {"properties": {"a": {"items": {"properties": {"b": {"confluent:tags": ["S", "U"]}}}}}},
        {"properties": {"a": {"items": {"properties": {"b": {"confluent:tags": ["S", "T"]}}}}}},
    ),
    (
        "sr_field",
        "object.a.anyof.1.object.b",
        {"properties": {"a": {"anyOf": [{"type": "object", "properties": {"b": {}}}, {"type": "null"}]}}},
        {
            "properties": {
                "a": {
                    "anyOf": [{"type": "object", "properties": {"b": {"confluent:tags": ["T"]}}}, {"type": "null"}],
                }
            }
        },
    ),
    (
        "sr_field",
        "anyof.1.object.b",
        {"type": ["object", "null"], "properties": {"b": {}}},
        {"type": ["object", "null"], "properties": {"b": {"confluent:tags": ["T"]}}},
    ),
])  # fmt: skip
def test_tags(kind: str, path: str, schema: Any, changed: Any) -> None:
    """Set, found again under the same path, and taken away."""
    add, remove = (TaggedEntity(path, kind, ("T",)),), (TaggedEntity(path, kind, ("U",)),)
    text = parsed(schema).change_tags(add, remove)
    assert json.loads(text) == changed
    assert path in [tag.path for tag in parsed(text).tags()]
    assert "T" not in parsed(text).change_tags((), add)


@each("path", ["object.b", "object", "a", "object.a.object.b", "oneof.0.object.a", "array.object.a", ""])
def test_tags_of_what_is_not_there(path: str) -> None:
    with pytest.raises(ValueError, match=f"No matching path '{path}' found in the schema"):
        parsed({"properties": {"a": {"type": "string"}}}).change_tags((TaggedEntity(path, "sr_field", ("T",)),), ())
