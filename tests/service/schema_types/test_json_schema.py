"""JSON Schema: texts, references, and verdicts that the captures don't show."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.schema_types.base import ReferencedText, TaggedPart
from service.schema_types.java_text import dump_json, hash_order, load_schema
from service.schema_types.json_schema.differences import count_matches
from service.schema_types.json_schema.pattern import problem
from service.schema_types.json_schema.schema import JsonSchema, parse_json
from tests.support.service import Client
from tests.support.table import check_rows

DRAFT = {4: "http://json-schema.org/draft-04/schema#", 2020: "https://json-schema.org/draft/2020-12/schema"}


def parsed(schema: Any, *referenced: tuple[str, Any]) -> JsonSchema:
    texts = [ReferencedText(name, name, 1, json.dumps(other), True) for name, other in referenced]
    return parse_json(schema if isinstance(schema, str) else json.dumps(schema), texts, strict=True)


def differences(old: Any, new: Any, *, lenient: bool = False) -> list[str]:
    """The kinds and places of what keeps `new` from reading what `old` wrote."""
    before, after = parsed(old), parsed(new)
    messages = (after.to_lenient() if lenient else after).differences(before, "new", "old")
    return [f"{message.split(chr(34))[1]} {message.split(chr(39))[1]}" for message in messages]


CANONICAL: list[tuple[str, str]] = [
    ('{"b":1,\n "a":[1.50, 1e3, 1E-7, -0.0, -0, 0.00001]}', '{"b":1,"a":[1.50,1E+3,1E-7,0.0,0,0.00001]}'),
    ('{"a":123456789012345678901234567890}', '{"a":123456789012345678901234567890}'),
    ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
    ('{"t":"\\u00e9\\/\\u0001\\ud83d\\ude00\\u2028"}', '{"t":"é/\\u0001😀\u2028"}'),
    ("true", "true"),
]


def test_canonical_text() -> None:
    def check(row: tuple[str, str]) -> None:
        text, canonical = row
        assert parsed(text).text == canonical
        assert parsed(canonical).text == canonical

    check_rows(CANONICAL, check)


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


REFUSED_PATTERNS: list[str] = [
    "(",
    ")",
    "a)",
    "[a",
    "[[a]",
    "*a",
    "a**",
    "a{",
    "a{2,1}",
    "a{x}",
    "[z-a]",
    "\\",
    "\\y",
    "(?P<n>a)",
    "\\p{L",
]


def test_patterns_that_java_refuses() -> None:
    def check(pattern: str) -> None:
        assert problem(pattern)
        with pytest.raises(ValueError, match="Invalid JSON: #/pattern: "):
            parsed({"pattern": pattern})

    check_rows(REFUSED_PATTERNS, check)


ACCEPTED_PATTERNS: list[str] = [
    "",
    "^[A-Z]+$",
    "(?<n>a)\\k<n>",
    "a++",
    "[]a]",
    "[a-z&&[^b]]",
    "\\Q(\\E",
    "(?i)a{2,}?",
    "\\p{L}",
    "{2}",
]


def test_patterns_that_java_accepts() -> None:
    def check(pattern: str) -> None:
        assert problem(pattern) is None

    check_rows(ACCEPTED_PATTERNS, check)


@given(st.lists(st.lists(st.integers(0, 4), unique=True), max_size=5))
def test_matching_is_the_largest(edges: list[list[int]]) -> None:
    def best(left: int, taken: frozenset[int]) -> int:
        if left == len(edges):
            return 0
        used = [1 + best(left + 1, taken | {one}) for one in edges[left] if one not in taken]
        return max([best(left + 1, taken), *used])

    assert count_matches(edges, 5) == best(0, frozenset())


# Differences that no capture shows: (old, new, what is reported).
PAIRS: list[tuple[Any, Any, list[str]]] = [
    ({"exclusiveMaximum": 9}, {"exclusiveMaximum": 5}, ["EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"]),
    ({"maximum": 2**53 + 1}, {"maximum": 2**53}, ["MAXIMUM_DECREASED #/maximum"]),
    ({"maximum": 1}, {"maximum": 1.0}, []),
    ({"multipleOf": 0.01}, {"multipleOf": 0.02}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({"multipleOf": 4}, {"multipleOf": 2}, []),
    ({"multipleOf": 3}, {"multipleOf": 2}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
    ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED #/const"]),
    ({"pattern": "a"}, {"pattern": "b"}, ["PATTERN_CHANGED #/pattern"]),
    ({"maxProperties": 2}, {"maxProperties": 1}, ["MAX_PROPERTIES_DECREASED #/maxProperties"]),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["c"]}}, ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"]),
    ({"dependencies": {"a": {}}}, {"dependencies": {"a": {"maximum": 1}}}, ["TYPE_CHANGED #/dependencies/a"]),
    ({"type": "boolean"}, {"type": "null"}, ["TYPE_CHANGED #/"]),
    ({"oneOf": [{"type": "string"}]}, {"type": "string"}, []),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"type": "string"}, []),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, ["TYPE_CHANGED #/"]),
    (
        {"properties": {"b": {"type": "string"}, "plate": {"type": "string"}, "a": {"type": "string"}}},
        {"properties": {"b": {"type": "null"}, "plate": {"type": "null"}, "a": {"type": "null"}}},
        ["TYPE_CHANGED #/properties/a", "TYPE_CHANGED #/properties/b", "TYPE_CHANGED #/properties/plate"],
    ),
    (
        {"items": [{"type": "string"}, {"type": "null"}], "additionalItems": {"type": "string"}},
        {"items": [{"type": "string"}], "additionalItems": {"type": "string"}},
        ["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {"$schema": DRAFT[2020], "dependentRequired": {"a": ["b"]}},
        {"$schema": DRAFT[2020], "dependentRequired": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (
        {"$schema": DRAFT[2020], "type": ["string", "null"], "maxLength": 5},
        {"$schema": DRAFT[2020], "type": ["string", "null"], "maxLength": 4},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    (
        {"$ref": "#/definitions/n", "definitions": {"n": {"properties": {"next": {"$ref": "#/definitions/n"}}}}},
        {
            "$ref": "#/definitions/n",
            "definitions": {"n": {"properties": {"next": {"$ref": "#/definitions/n"}}, "maxProperties": 1}},
        },
        ["MAX_PROPERTIES_ADDED #/properties/next/maxProperties", "MAX_PROPERTIES_ADDED #/maxProperties"],
    ),
    # Several combinations of one object: each is compared.
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}], "oneOf": [{"maxLength": 3}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "oneOf": [{"maxLength": 2}, {"type": "null"}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    (
        {"type": ["object", "null"], "allOf": [{"maxProperties": 3}, {"required": ["a"]}]},
        {"type": ["object", "null"], "allOf": [{"maxProperties": 2}, {"required": ["a"]}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    (
        {"type": ["string", "null"], "anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": ["string", "null"], "anyOf": [{"type": "integer"}, {"type": "null"}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    (
        {"properties": {"a": {"enum": [1], "const": 1, "not": {"type": "null"}, "anyOf": [{"minimum": 1}]}}},
        {"properties": {"a": {"enum": [1], "const": 1, "not": {"type": "null"}, "anyOf": [{"minimum": 2}]}}},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/properties/a"],
    ),
    (
        {"$schema": DRAFT[2020], "type": ["string", "integer"], "anyOf": [{"maxLength": 3}], "oneOf": [{"maximum": 3}]},
        {"$schema": DRAFT[2020], "type": ["string", "integer"], "anyOf": [{"maxLength": 4}], "oneOf": [{"maximum": 2}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    # Another kind of combination.
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"anyOf": [{"type": "string"}]}, []),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"oneOf": [{"type": "string"}]}, []),
    ({"allOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}, {"type": "null"}]}, []),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"allOf": [{"type": "string"}]},
        ["COMBINED_TYPE_CHANGED #/"],
    ),
    (
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}]},
        ["SUM_TYPE_NARROWED #/"],
    ),
    ({"oneOf": [{"type": "string"}, {}]}, {"allOf": [{}, {"type": "string"}]}, ["COMBINED_TYPE_CHANGED #/"]),
    # Kafka Connect's bytes may change their type.
    ({"type": "string", "connect.type": "bytes"}, {"type": "number", "connect.type": "bytes"}, []),
    ({"type": "string", "connect.type": "bytes"}, {"type": "number", "connect.type": "int8"}, ["TYPE_CHANGED #/"]),
    # A schema of all items leaves no additional ones to forbid.
    (
        {"items": {}, "additionalItems": False},
        {"additionalItems": {}},
        ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    # Draft 2019 and later: a part that says several things counts as each of them.
    (
        {"$schema": DRAFT[2020], "allOf": [{"type": "number", "multipleOf": 2}]},
        {"$schema": DRAFT[2020], "allOf": [{"type": ["string", "null"], "multipleOf": 2}]},
        ["PRODUCT_TYPE_EXTENDED #/"],
    ),
    (
        {},
        {"$schema": DRAFT[2020], "anyOf": [{"$ref": "#/$defs/A", "additionalProperties": False}], "$defs": {"A": {}}},
        [],
    ),
    (
        {"$schema": DRAFT[2020], "oneOf": [{"type": "string", "const": "a"}, {"type": "string", "const": "b"}]},
        {"$schema": DRAFT[2020], "oneOf": [{"type": "string", "const": "a"}]},
        ["SUM_TYPE_NARROWED #/"],
    ),
    # Confluent follows one reference.
    (
        {"properties": {"a": {"$ref": "#/definitions/B"}}, "definitions": {"B": {"type": "string"}}},
        {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"$ref": "#/definitions/B"}, "B": {}}},
        ["TYPE_CHANGED #/properties/a"],
    ),
    (
        {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"$ref": "#/definitions/B"}, "B": {}}},
        {"properties": {"a": {"$ref": "#/definitions/B"}}, "definitions": {"B": {}}},
        [],
    ),
    # Before draft 2019 it ignores what stands before the first slash of a fragment, and slashes at the end.
    *(
        ({"properties": {"a": {"$ref": reference}}, **more}, {"properties": {"a": {"type": "null"}}}, changed)
        for more, whole, part in (
            (
                {"definitions": {"b": {"type": "null"}}},
                ("#none", "#/", "#none/"),
                ("#/definitions/b/", "#c/definitions/b"),
            ),
            ({"definitions": {"b": {"$anchor": "b"}}}, ("#b",), ()),
        )
        for references, changed in ((whole, ["TYPE_CHANGED #/properties/a"]), (part, []))
        for reference in references
    ),
    # A pointer counts from the whole text, not from the embedded schema around it.
    (
        {"items": {"$id": "urn:a", "items": {"$ref": "#/items/items"}}, "definitions": {"b": {}}},
        {
            "items": {"$id": "urn:a", "items": {"$ref": "#/definitions/b"}, "definitions": {"b": {"type": "null"}}},
            "definitions": {"b": {}},
        },
        [],
    ),
    ({"type": "object"}, {"$ref": "#"}, ["TYPE_CHANGED #/"]),
    # A change inside a circle is named as often as Confluent names it.
    (
        {"properties": {"c": {"$ref": "#"}}},
        {"properties": {"c": {"$ref": "#"}, "b": {"type": "integer"}}},
        [
            "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
            "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/c/properties/b",
            "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/c/properties/c/properties/b",
        ],
    ),
    (
        {"$ref": "#/definitions/N", "definitions": {"N": {"properties": {"n": {"$ref": "#/definitions/N"}, "v": {}}}}},
        {
            "$ref": "#/definitions/N",
            "definitions": {"N": {"properties": {"n": {"$ref": "#/definitions/N"}, "v": {"type": "null"}}}},
        },
        ["TYPE_CHANGED #/properties/v", "TYPE_CHANGED #/properties/n/properties/v"],
    ),
]


def test_verdicts() -> None:
    def check(row: tuple[Any, Any, list[str]]) -> None:
        old, new, found = row
        assert differences(old, new) == found

    check_rows(PAIRS, check)


def test_a_schema_reads_itself() -> None:
    """Compared place by place: the second one has another title, so that it isn't recognised by its text."""

    def check(schema: Any) -> None:
        assert differences(schema, {**schema, "title": "another"}) == []

    check_rows([schema for old, new, _ in PAIRS for schema in (old, new)], check)


def test_lenient_policy(client: Client) -> None:
    old: Any = {"properties": {"a": {}}}
    new: Any = {"properties": {"a": {}, "b": {"type": "string"}}, "additionalProperties": False}
    strict = ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"]
    assert differences(old, new) == [*strict, "ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]
    assert differences(old, new, lenient=True) == []
    assert client.register("s", json.dumps(old), schemaType="JSON").status == 200
    assert client.register("s", json.dumps(new), schemaType="JSON").error == (409, 40901)
    assert client.send("PUT", "/config/s", {"compatibilityPolicy": "LENIENT"}).status == 200
    assert client.register("s", json.dumps(new), schemaType="JSON").status == 200


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


# Two schemas, the drafts, and whether Confluent takes them for one where they stand in one combination.
ONE_OR_TWO: list[tuple[Any, Any, tuple[int, ...], bool]] = [
    ({"type": "string"}, {"type": "string", "format": "uuid"}, (4, 7, 2020), True),
    ({"type": "string"}, {"type": "string", "format": "date"}, (4, 2020), True),
    ({"type": "string"}, {"type": "string", "format": "date"}, (7,), False),
    ({"type": "string"}, {"type": "string", "format": "email"}, (4, 7), False),
    ({"type": "integer"}, {"type": "integer", "format": "int32"}, (4, 7, 2020), True),
    ({"$ref": "#"}, {"$ref": "#", "format": "zz"}, (4, 7), False),
    ({"enum": ["a", 1]}, {"enum": [1.0, "a"]}, (4, 7, 2020), True),
    ({"enum": [1]}, {"enum": [True]}, (7, 2020), False),
    ({"type": "number", "minimum": 1}, {"type": "number", "minimum": 1.0}, (4, 7, 2020), True),
    ({"type": "object"}, {"type": "object", "properties": {}, "additionalProperties": True}, (4, 7, 2020), True),
    ({"type": "object"}, {"type": "object", "required": []}, (7, 2020), True),
    ({"type": "object"}, {"type": "object", "additionalProperties": {}}, (7,), False),
    ({"type": "array"}, {"type": "array", "uniqueItems": False}, (4, 7, 2020), True),
    ({"type": "array"}, {"type": "array", "additionalItems": True}, (4, 7), True),
    ({"type": "array"}, {"type": "array", "additionalItems": True}, (2020,), False),
    ({"type": "string"}, {"type": "string", "readOnly": True, "default": None}, (2020,), True),
    ({"type": "string"}, {"type": "string", "readOnly": True}, (7,), False),
    ({"type": "string"}, {"type": "string", "title": "t"}, (4, 7, 2020), False),
    ({"type": "string"}, {"type": "string", "x": 1}, (4, 7, 2020), False),
]


def test_what_is_one_in_a_combination() -> None:
    def check(row: tuple[Any, Any, tuple[int, ...], bool]) -> None:
        first, second, drafts, one = row
        for draft in drafts:
            before: Any = {
                "$schema": {**DRAFT, 7: META.format(7)}[draft],
                "anyOf": [{"type": "null"}, {"type": "boolean"}],
            }
            found = differences(before, {**before, "anyOf": [first, second]})
            assert ("SUM_TYPE_NARROWED #/" in found) == one, draft

    check_rows(ONE_OR_TWO, check)


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


INSIDE: list[dict[str, Any]] = [
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
]


def test_references_inside_a_schema() -> None:
    def check(schema: dict[str, Any]) -> None:
        assert differences(schema, {**schema, "title": "x"}) == []

    check_rows(INSIDE, check)


META = "http://json-schema.org/draft-0{}/schema#"
# Before, after, and the kind of difference. Confluent's server gave these verdicts.
META_SCHEMAS: list[tuple[Any, Any, str]] = [
    ({"$ref": META.format(7)}, {"$ref": META.format(7)[:-1]}, ""),
    ({"$ref": META.format(7)}, {"type": "string"}, "TYPE_CHANGED"),
    ({"type": "string"}, {"$ref": META.format(4)}, "TYPE_CHANGED"),
    ({"type": "object"}, {"$ref": META.format(4)}, "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    ({"$ref": META.format(4)}, {"$ref": META.format(7)}, "TYPE_CHANGED"),
    ({"$ref": META.format(6)}, {"$ref": META.format(7)}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ({"$ref": META.format(7)}, {}, ""),
    ({"$ref": META.format(7) + "/definitions/nonNegativeInteger"}, {"type": "integer"}, ""),
    ({"$ref": META.format(7)}, {"$ref": META.format(7) + "/definitions/nonNegativeInteger"}, "TYPE_CHANGED"),
]


def test_meta_schemas_are_no_empty_schemas() -> None:
    def check(row: tuple[Any, Any, str]) -> None:
        before, after, kind = row
        found = differences({"properties": {"c": before}}, {"properties": {"c": after}})
        assert any(kind in one for one in found) if kind else found == []

    check_rows(META_SCHEMAS, check)
    with pytest.raises(ValueError, match="can't resolve reference"):
        parsed({"$ref": DRAFT[2020]})
    parsed({"$schema": DRAFT[2020], "$ref": DRAFT[2020]})


def test_definitions_are_no_other_way_round() -> None:
    for schema in (
        {"$ref": "#/definitions/X", "$defs": {"X": {}}},
        {"properties": {"a": {"definitions": {"X": {}}, "$ref": "#/$defs/X"}}},  # the outermost ones alone
    ):
        with pytest.raises(ValueError, match="can't resolve reference"):
            parsed(schema)


TAGGED: list[tuple[str, str, Any, Any]] = [
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
]


def test_tags() -> None:
    """Set, found again under the same path, and taken away."""

    def check(row: tuple[str, str, Any, Any]) -> None:
        kind, path, schema, changed = row
        add, remove = (TaggedPart(path, kind, ("T",)),), (TaggedPart(path, kind, ("U",)),)
        text = parsed(schema).change_tags(add, remove)
        assert json.loads(text) == changed
        assert path in [part.path for part in parsed(text).tags()]
        assert "T" not in parsed(text).change_tags((), add)

    check_rows(TAGGED, check)


def test_tags_of_what_is_not_there() -> None:
    def check(path: str) -> None:
        with pytest.raises(ValueError, match=f"No matching path '{path}' found in the schema"):
            parsed({"properties": {"a": {"type": "string"}}}).change_tags((TaggedPart(path, "sr_field", ("T",)),), ())

    check_rows(["object.b", "object", "a", "object.a.object.b", "oneof.0.object.a", "array.object.a", ""], check)
