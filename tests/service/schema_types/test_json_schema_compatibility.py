"""JSON Schema: what differs between two schemas, and what is reported of it."""

import json
from typing import Any

import pytest

from tests.service.schema_types.test_json_schema import DRAFT, differences, parsed
from tests.support.each import each
from tests.support.service import Client
from tests.support.table import check_rows

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
    # `unevaluatedProperties` and `unevaluatedItems`, as Confluent compares them with json-sKema 0.30.
    *(
        ({"$schema": DRAFT[2020], **old}, {"$schema": DRAFT[2020], **new}, found)
        for old, new, found in [
            (
                {f"unevaluated{of}": before},
                {f"unevaluated{of}": after},
                [f"{change} #/unevaluated{of}"] if change else [],
            )
            for of in ("Properties", "Items")
            for before, after, change in [
                (True, False, f"UNEVALUATED_{of.upper()}_REMOVED"),
                (False, True, ""),
                (False, {"type": "null"}, ""),
                (True, {"type": "null"}, f"UNEVALUATED_{of.upper()}_NARROWED"),
                ({"type": "null"}, {}, ""),
                ({"type": "null"}, False, f"UNEVALUATED_{of.upper()}_REMOVED"),
                (False, False, ""),
                ({"type": "null"}, {"type": "string"}, "TYPE_CHANGED"),
            ]
        ]
        + [
            # What is kept beside the model is lost next to an unknown keyword, but not of a combination.
            ({"unevaluatedProperties": False, "examples": [1]}, {"unevaluatedProperties": True, "examples": [1]}, []),
            (
                {"type": "object", "$comment": "x"},
                {"type": "object", "unevaluatedProperties": False, "$comment": "x"},
                [],
            ),
            (
                {"type": ["array", "null"], "x": 1},
                {"type": ["array", "null"], "unevaluatedItems": False, "x": 1},
                ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
            ),
            ({"contains": {"type": "string"}, "x": 1}, {"contains": {"type": "string"}, "minContains": 5, "x": 1}, []),
        ]
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
        for more, whole, piece in (
            (
                {"definitions": {"b": {"type": "null"}}},
                ("#none", "#/", "#none/"),
                ("#/definitions/b/", "#c/definitions/b"),
            ),
            ({"definitions": {"b": {"$anchor": "b"}}}, ("#b",), ()),
        )
        for references, changed in ((whole, ["TYPE_CHANGED #/properties/a"]), (piece, []))
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


@each(("old", "new", "found"), PAIRS)
def test_verdicts(old: Any, new: Any, found: list[str]) -> None:
    assert differences(old, new) == found


@each("schema", [schema for old, new, _ in PAIRS for schema in (old, new)])
def test_a_schema_reads_itself(schema: Any) -> None:
    """Compared place by place: the second one has another title, so that it isn't recognised by its text."""
    assert differences(schema, {**schema, "title": "another"}) == []


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


# Two schemas, the drafts, and whether Confluent takes them for one where they stand in one combination.
@each(("first", "second", "drafts", "one"), [
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
])  # fmt: skip
def test_what_is_one_in_a_combination(first: Any, second: Any, drafts: tuple[int, ...], one: bool) -> None:
    for draft in drafts:
        before: Any = {
            "$schema": {**DRAFT, 7: META.format(7)}[draft],
            "anyOf": [{"type": "null"}, {"type": "boolean"}],
        }
        found = differences(before, {**before, "anyOf": [first, second]})
        assert ("SUM_TYPE_NARROWED #/" in found) == one, draft


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
        assert any(kind in entry for entry in found) if kind else found == []

    check_rows(META_SCHEMAS, check)
    with pytest.raises(ValueError, match="can't resolve reference"):
        parsed({"$ref": DRAFT[2020]})
    parsed({"$schema": DRAFT[2020], "$ref": DRAFT[2020]})
