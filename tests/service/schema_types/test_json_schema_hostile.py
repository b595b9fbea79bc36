"""JSON schemas that are invalid, or made to be harmful: each has a verdict or is refused, in bounded time."""

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.schema_types.test_json_schema import DRAFT, parsed
from tests.support.each import each
from tests.support.service import Client, short_and_long
from ticdc_bridge.service.schema_types.json_schema.schema import parse_json


@each(("schema", "why"), [
    ("{", "Invalid JSON schema: "),
    ("[1]", "Invalid JSON schema: expected an object or boolean at the root, found ARRAY"),
    ({"type": "nope"}, "#: unknown type: [nope]"),
    ({"properties": {"a": 5}}, "#/properties/a: expected Boolean or JsonObject, found number"),
    ({"minLength": 1.0}, "#/minLength: expected type: Integer, found: BigDecimal"),
    ({"items": {"required": True}}, "#/items/required: expected type: JsonArray, found: Boolean"),
    ({"$schema": DRAFT[4], "exclusiveMinimum": 3}, "#/exclusiveMinimum: expected type: Boolean, found: Integer"),
    ({"multipleOf": 0}, "multipleOf should not be 0"),
    ({"dependencies": {"a": "b"}}, "#/dependencies/a: expected type is one of Boolean or JsonArray or JsonObject"),
    ({"$ref": "#/nowhere"}, "can't resolve reference '#/nowhere'"),
    ({"$ref": "#/const", "const": 5}, "leads to no schema but to NUMBER"),
    ({"$schema": DRAFT[2020], "$defs": {"a": {"type": "nope"}}}, "#/$defs/a: unknown type"),
    ({"$schema": DRAFT[2020], "items": [{}]}, "#/items: expected boolean or object, found array"),
])  # fmt: skip
def test_invalid_schemas(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match="Invalid JSON") as refused:
        parsed(schema)
    assert why in str(refused.value)


def chain(leaf: str, length: int = 3000) -> dict[str, Any]:
    """Definitions that each refer to the next."""
    steps = {f"d{at}": {"properties": {"x": {"$ref": f"#/definitions/d{at + 1}"}}} for at in range(length)}
    return {"$ref": "#/definitions/d0", "definitions": {**steps, f"d{length}": {"type": leaf}}}


def twice(leaf: str, length: int = 60) -> dict[str, Any]:
    """Definitions that each refer to the next two times: 2^60 ways to the leaf."""
    both = ({"$ref": f"#/definitions/d{at + 1}"} for at in range(length))
    steps = {f"d{at}": {"properties": {"x": entry, "y": entry}} for at, entry in enumerate(both)}
    return {"$ref": "#/definitions/d0", "definitions": {**steps, f"d{length}": {"type": leaf}}}


def branches(kind: str, count: int = 120) -> dict[str, Any]:
    columns = {f"p{at}": {"type": kind} for at in range(20)}
    return {"oneOf": [{"properties": columns, "title": str(at), "additionalProperties": False} for at in range(count)]}


def pile(kind: str) -> Any:
    """anyOf inside anyOf, over a long text."""
    innermost: dict[str, Any] = {"enum": ["x" * 300_000]}
    return reduce(lambda inner, _: {"anyOf": [inner, {"type": kind}]}, range(80), innermost)


def relay(leaf: str, length: int = 8000) -> dict[str, Any]:
    """Properties that each lead over all the later references to the leaf."""
    steps = {f"d{at}": {"$ref": f"#/definitions/d{at + 1}"} for at in range(length)}
    properties = {f"p{at}": {"$ref": f"#/definitions/d{at}"} for at in range(length)}
    return {"properties": properties, "definitions": {**steps, f"d{length}": {"type": leaf}}}


@each(("old", "new"), [
    (relay("string"), relay("integer")), (chain("string"), chain("integer")), (twice("string"), twice("integer")),
    (branches("string"), branches("integer")), (pile("string"), pile("null")),
    (
        {"properties": {"k" * 200_000: {"properties": {f"p{at}": {} for at in range(2000)}}}},
        {"properties": {"k" * 200_000: {"additionalProperties": False}}},
    ),
    (
        {"properties": {"a" * 60 + "!": {}}},
        {"patternProperties": {"^(a|aa)+(b|a)*$": {}}, "additionalProperties": False},
    ),
    (
        {"properties": {"a": {}}},
        {"patternProperties": {"(" * 150 + "a" + "){1,9}" * 150: {}}, "additionalProperties": False},
    ),
    ({"minimum": 1}, '{"minimum":1e2147483647}'), ({"multipleOf": 3}, '{"multipleOf":1e-2147483647}'),
])  # fmt: skip
def test_harmful_pairs_get_a_verdict(shared_client: Client, old: Any, new: Any) -> None:
    old, new = (entry if isinstance(entry, str) else json.dumps(entry) for entry in (old, new))
    subject = f"harm-{len(old)}-{len(new)}"
    assert shared_client.register(subject, old, schemaType="JSON").status == 200
    body = {"schema": new, "schemaType": "JSON"}
    answer = shared_client.send("POST", f"/compatibility/subjects/{subject}/versions/latest?verbose=true", body)
    assert answer.status == 200
    assert not answer.json["is_compatible"]
    assert len(answer.body) < 5_000_000


@each("schema", [
    '{"not":' * 201 + "{}" + "}" * 201, "[" * 100_000, '{"items":' * 50_000, '{"minimum":NaN}',
    '{"minimum":Infinity}', '{"minimum":' + "9" * 2000 + "}", '{"minimum":1e99999999999999999999}',
    '{"pattern":"' + "(" * 500_000 + '"}',
    '{"$id":"' + "http://x/" + "a" * 100_000 + '","properties":{"a":{"$ref":"b"}}}', '{"$ref":"http://[/"}',
    '{"$ref":"#/' + "a/" * 100_000 + '"}', '{"$ref":"file:///etc/passwd"}', '{"$ref":"http://127.0.0.1:1/never"}',
])  # fmt: skip
def test_monstrous_schemas_are_invalid(shared_client: Client, schema: str) -> None:
    assert shared_client.register("monstrous", schema, schemaType="JSON").error == (422, 42201)


NAMES = st.sampled_from(["a", "b", "plate", "^a", "b$", "("])
NUMBERS = st.one_of(st.integers(-1, 5), st.just(0.5), st.just(1e300))
REFERENCES = st.sampled_from(["#", "#/definitions/a", "#/$defs/a", "#/properties/a", "#here", "x.json"])
TYPES = st.sampled_from(["string", "integer", "number", "object", "array", "null", "boolean"])
ODD = st.one_of(st.none(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2), NUMBERS)


def objects(schema: Any) -> Any:
    """Schema objects; one in two has a keyword with an odd value."""
    lists, maps = st.lists(schema, max_size=3), st.dictionaries(NAMES, schema, max_size=3)
    strings = st.lists(NAMES, max_size=2)
    by_keyword = {
        **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], lists),
        **dict.fromkeys(["properties", "patternProperties", "definitions", "$defs", "dependentSchemas"], maps),
        **dict.fromkeys(["additionalProperties", "not", "if", "contains", "unevaluatedProperties"], schema),
        **dict.fromkeys(["minimum", "maximum", "multipleOf", "maxLength", "minItems", "minContains"], NUMBERS),
        "items": schema | lists, "dependencies": st.dictionaries(NAMES, schema | strings, max_size=2),
        "type": TYPES | st.lists(TYPES, max_size=3), "required": strings,
        "enum": st.lists(NUMBERS | NAMES, max_size=3), "const": NUMBERS, "pattern": NAMES, "$ref": REFERENCES,
        "$id": st.sampled_from(["#here", "x.json", "http://y/z"]), "$schema": st.sampled_from(sorted(DRAFT.values())),
        "uniqueItems": st.booleans(), "default": ODD,
    }  # fmt: skip
    usual = st.lists(st.one_of([st.tuples(st.just(key), values) for key, values in by_keyword.items()]), max_size=5)
    odd = st.tuples(st.sampled_from(sorted(by_keyword)), ODD)
    return usual.map(dict) | st.tuples(usual, odd).map(lambda two: dict([*two[0], two[1]]))


SCHEMAS: Any = st.recursive(st.booleans() | st.just({}), objects, max_leaves=8)


@short_and_long(60, 400)
def test_any_schema_is_taken_or_refused(examples: int) -> None:
    """Only ValueError escapes, and what is taken reads itself and is read back as it was."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(objects(SCHEMAS), objects(SCHEMAS))
    def holds(old: Any, new: Any) -> None:
        taken = []
        for schema in (old, new):
            try:
                taken.append(parse_json(json.dumps(schema), [], strict=True))
            except ValueError:
                continue
            assert parse_json(taken[-1].text, [], strict=True).text == taken[-1].text
            assert (
                parse_json(taken[-1].normalized_text(), [], strict=True).normalized_text()
                == taken[-1].normalized_text()
            )
            titled = parse_json(json.dumps({**schema, "title": "t"}), [], strict=True)
            assert titled.differences(taken[-1], "new", "old") == []
        if len(taken) == len((old, new)):
            for message in taken[1].differences(taken[0], "new", "old"):
                assert message.startswith(("{errorType:", "Unexpected exception"))

    holds()


def test_patterns_are_not_run_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_bridge.service.schema_types.json_schema.pattern.regex", None)
    old, new = (
        parsed({"properties": {"a": {}}}),
        parsed({"patternProperties": {"a": {}}, "additionalProperties": False}),
    )
    assert new.differences(old, "new", "old") == [
        "Unexpected exception during compatibility check: the pattern 'a' is not run here: too long, or the package "
        "regex is missing"
    ]
