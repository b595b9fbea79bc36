"""Avro compatibility: the levels, the rules, and agreement with Apache Avro's own checker for Python."""

import json
from itertools import count
from typing import Any

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as avro_parse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.service import column, record, short_and_long
from ticdc_bridge.service.schema_types.avro.compatibility import incompatibilities
from ticdc_bridge.service.schema_types.avro.parse import parse
from ticdc_bridge.service.schema_types.base import LEVELS, EarlierVersion, check
from ticdc_bridge.service.schema_types.parse import AvroSchema
from ticdc_bridge.service.server.settings import Settings

PRIMITIVE = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def described(reader: str, writer: str) -> list[tuple[str, str, str]]:
    found = incompatibilities(parse(reader), parse(writer))
    return [(entry.type, "/" + "/".join(entry.path), entry.info) for entry in found]


def schema(text: str) -> AvroSchema:
    return AvroSchema(parse(text))


def unlike(branches: tuple[Any, ...]) -> list[Any]:
    """The first branch of each kind: a union may have one of a kind only."""
    kinds = [branch if isinstance(branch, str) else branch["type"] for branch in branches]
    return [branch for index, branch in enumerate(branches) if kinds.index(kinds[index]) == index]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two schemas that differ in places: most parts are of one kind on both sides, details are drawn for each."""
    numbers = count()

    def named(kind: str, **pieces: Any) -> dict[str, Any]:
        # A name may be defined once only, so each definition has a namespace of its own; simple names are compared.
        return {"type": kind, "name": draw(st.sampled_from("AAAB")), "namespace": f"n{next(numbers)}", **pieces}

    def enum() -> dict[str, Any]:
        symbols = draw(st.lists(st.sampled_from("XYZ"), min_size=1, unique=True))
        return named("enum", symbols=symbols, **({"default": symbols[0]} if draw(st.booleans()) else {}))

    def pair(depth: int, in_union: bool = False) -> tuple[Any, Any]:
        kinds = ["primitive", "promoted", "enum", "fixed", "unlike"]
        if depth:
            kinds += ["array", "map", "record", "record", "record"] + ([] if in_union else ["union", "union"])
        match draw(st.sampled_from(kinds)):
            case "enum":
                return enum(), enum()
            case "fixed":
                return named("fixed", size=draw(st.integers(1, 2))), named("fixed", size=1)
            case "array":
                one, other = pair(depth - 1)
                return {"type": "array", "items": one}, {"type": "array", "items": other}
            case "map":
                one, other = pair(depth - 1)
                return {"type": "map", "values": one}, {"type": "map", "values": other}
            case "union":
                return unions(depth - 1)
            case "record":
                return records(depth - 1)
            case "promoted":
                return draw(st.sampled_from([("long", "int"), ("double", "float"), ("bytes", "string")]))
            case "primitive":
                same = draw(PRIMITIVE)
                return same, same
        return draw(PRIMITIVE), enum()

    def unions(depth: int) -> tuple[Any, Any]:
        branches = [pair(depth, in_union=True) for _ in range(draw(st.integers(1, 3)))]
        readers, writers = (unlike(image)[:: draw(st.sampled_from((1, -1)))] for image in zip(*branches, strict=True))
        alone = draw(st.integers(0, 4))
        return (readers, writers[0]) if alone == 0 else (readers[0], writers) if alone == 1 else (readers, writers)

    def records(depth: int) -> tuple[Any, Any]:
        readers, writers = [], []
        for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3)):
            left, other = pair(depth)
            default = {"default": None} if draw(st.booleans()) else {}
            left = ["null", *([] if left == "null" else [left])] if default and not isinstance(left, list) else left
            default = default if isinstance(left, list) and "null" in left else {}
            if draw(st.integers(0, 5)):
                readers.append(column(name, left, **default))
            if draw(st.integers(0, 5)):
                writers.append(column(name, other))
        return named("record", fields=readers), named("record", fields=writers)

    reader, writer = pair(3)
    return json.dumps(reader), json.dumps(writer)


@short_and_long(150, 600)
def test_the_verdict_is_that_of_the_avro_library(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(pairs())
    @example(('"string"', '"bytes"'))
    @example(('["null","long"]', '"int"'))
    @example((record("A", column("a", ["null", "int"], default=None)), record("A", column("a"))))
    def holds(pair: tuple[str, str]) -> None:
        reader, writer = pair
        checker: Any = ReaderWriterCompatibilityChecker  # untyped
        theirs = checker().get_compatibility(avro_parse(reader), avro_parse(writer))
        assert (not described(reader, writer)) == (theirs.compatibility is SchemaCompatibilityType.compatible)

    holds()


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_a_schema_reads_itself(pair: tuple[str, str]) -> None:
    text = pair[0]
    assert described(text, text) == []
    entry = schema(text)
    assert all(check(entry, [EarlierVersion(1, entry)], level) == [] for level in LEVELS.values())


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_the_levels_agree_with_each_other(pair: tuple[str, str]) -> None:
    old, new = pair
    left, other = schema(old), schema(new)
    messages = {name: check(other, [EarlierVersion(1, left)], level) for name, level in LEVELS.items()}
    backward, forward = not described(new, old), not described(old, new)
    assert messages["NONE"] == []
    assert (not messages["BACKWARD"]) == (not messages["BACKWARD_TRANSITIVE"]) == backward
    assert (not messages["FORWARD"]) == (not messages["FORWARD_TRANSITIVE"]) == forward
    assert (not messages["FULL"]) == (not messages["FULL_TRANSITIVE"]) == (backward and forward)


LINKED = record("L", column("v", "long"), column("next", ["null", "L"], default=None))
LINKED_WIDER = record("L", column("v", "string"), column("next", ["null", "L"], default=None))


@each(("reader", "writer", "expected"), [
    ('"long"', '"int"', []),
    ('"int"', '"long"', [("TYPE_MISMATCH", "/", "reader type: INT not compatible with writer type: LONG")]),
    (LINKED, LINKED, []),
    (
        LINKED_WIDER,
        LINKED,
        [("TYPE_MISMATCH", "/fields/0/type", "reader type: STRING not compatible with writer type: LONG")],
    ),
    (
        record("R", column("a", {"type": "enum", "name": "E", "symbols": ["X"], "default": "X"})),
        record("R"),
        [("TYPE_MISMATCH", "/fields/0/type", "reader type: ENUM not compatible with writer type: RECORD")],
    ),
    (record("B", aliases=["n.A"]), record("A", namespace="n"), []),
    (record("B", aliases=["A"]), record("A", namespace="n"), [("NAME_MISMATCH", "/name", "expected: n.A")]),
    (record("R", column("new", aliases=["old"])), record("R", column("old")), []),
    ("[]", "[]", []),
    ("[]", '"int"', [("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: INT")]),
    ('{"type":"error","name":"R","fields":[]}', record("R"), []),
    (
        '{"type":"map","values":["null","int"]}',
        '{"type":"map","values":["null","string"]}',
        [("MISSING_UNION_BRANCH", "/values/1", "reader union lacking writer type: STRING")],
    ),
])  # fmt: skip
def test_rules(reader: str, writer: str, expected: list[tuple[str, str, str]]) -> None:
    assert described(reader, writer) == expected


def test_a_field_with_two_matches_is_a_message() -> None:
    new = schema(record("R", column("a", aliases=["b"])))
    old = schema(record("R", column("a"), column("b")))
    first, *_ = check(new, [EarlierVersion(1, old)], LEVELS["BACKWARD"])
    assert first == (
        "Unexpected exception during compatibility check: Reader record field a type:INT pos:0 matches multiple "
        f"fields in writer record schema {old.text}"
    )


def test_transitive_levels_stop_at_the_newest_that_fails() -> None:
    old = [
        EarlierVersion(1, schema('"int"')),
        EarlierVersion(2, schema('"boolean"')),
        EarlierVersion(3, schema('"string"')),
    ]
    new = schema('"string"')
    assert check(new, old, LEVELS["BACKWARD"]) == []
    messages = check(new, old, LEVELS["BACKWARD_TRANSITIVE"])
    assert "{oldSchemaVersion: 2}" in messages
    assert messages[-1] == "{validateFields: 'false', compatibility: 'BACKWARD_TRANSITIVE'}"


def test_a_long_old_schema_is_cut() -> None:
    old = schema(record("A", doc="x" * 20_000))
    messages = check(schema('"int"'), [EarlierVersion(1, old)], LEVELS["BACKWARD"])
    assert messages[2].startswith("{oldSchema: <truncated> '")
    assert len(messages[2]) == 10240 + len("{oldSchema: <truncated> '...'}")


def test_settings_know_the_same_levels() -> None:
    for name in LEVELS:
        assert Settings(compatibility=name.lower()).compatibility == name


def test_equal_types_in_two_places_are_distinguished() -> None:
    """Equal column types are one node in memory; what is wrong with them is said of each place."""
    unions = [["null", "int"], ["null", "string"]]
    old, new = (
        record("R", column("a", union), column("b", union), column("c", plain), column("d", plain))
        for union, plain in zip(unions, ["int", "bytes"], strict=True)
    )
    assert [path for _, path, _ in described(new, old)] == [
        "/fields/0/type/1", "/fields/1/type/1", "/fields/2/type", "/fields/3/type",
    ]  # fmt: skip


def union_of(records: int, fields: int, name: str, *more: dict[str, Any]) -> AvroSchema:
    """A union of records with `fields` fields; `name` is their name, with {} for their number."""
    columns = [column(f"f{number}", "long") for number in range(fields)]
    parts = (
        json.loads(record(name.format(number), *columns, *more, namespace=f"n{number}")) for number in range(records)
    )
    return schema(json.dumps(list(parts)))


def test_the_work_of_a_comparison_is_bounded() -> None:
    """Records of other names need no look at their fields; of what is too much the messages say so."""
    backward, more = LEVELS["BACKWARD"], column("x", "int", default=0)
    old = EarlierVersion(1, union_of(300, 30, "R{}"))
    assert check(union_of(300, 30, "R{}", more), [old], backward) == []
    assert "MISSING_UNION_BRANCH" in check(union_of(299, 30, "R{}"), [old], backward)[0]
    too_much = "Unexpected exception during compatibility check: more than 500000 steps to compare two schemas"
    for before, after in [
        (union_of(300, 30, "R"), union_of(300, 30, "R", column("x"))),
        (schema(record("R")), schema(record("R", *(column(f"f{number}") for number in range(50_000))))),
    ]:
        messages = check(after, [EarlierVersion(1, before)], backward)
        assert messages[0] == too_much
