"""Parsing, canonical text and normalised text of Avro schemas."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.service import column, record
from tests.support.table import check_rows
from ticdc_bridge.service.schema_types.avro.canonical import canonical_text, normalized_text, unordered_text
from ticdc_bridge.service.schema_types.avro.parse import AvroSchemaError, parse, parse_document
from ticdc_bridge.service.schema_types.java_text import dump_json, java_double, java_float, load_avro

DATA = Path(__file__).parent / "data"


def fixed_twice(left: int, other: int) -> str:
    return record(
        "R", *(column(f"f{n}", {"type": "fixed", "name": "F", "size": size}) for n, size in enumerate((left, other)))
    )


def envelope(*fields: dict[str, Any], again: list[dict[str, Any]]) -> str:
    """As Debezium writes it: the record `Value` in `before`, and written out once more in `after`."""
    values = [json.loads(record("Value", *some)) for some in (fields, again)]
    return record("Envelope", column("before", ["null", values[0]]), column("after", ["null", values[1]]))


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}


def fixture(name: str) -> list[tuple[str, str]]:
    """Pairs of lines, a schema and the text it becomes; ␤ stands for a line break."""
    blocks = (DATA / f"{name}.txt").read_text(encoding="utf-8").split("\n\n")
    pairs = [block.split("\n") for block in blocks if block.strip()]
    return [(schema.replace("␤", "\n"), text) for schema, text in pairs]


@each(("value", "text"), [
    (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (1e10, "1.0E10"), (9999999.0, "9999999.0"),
    (1e7, "1.0E7"), (0.001, "0.001"), (0.0001, "1.0E-4"), (1.2345e-7, "1.2345E-7"), (-2.5e300, "-2.5E300"),
    (123456789.125, "1.23456789125E8"), (5e-324, "4.9E-324"), (float("inf"), '"Infinity"'),
])  # fmt: skip
def test_java_double(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_double_reads_back(value: float) -> None:
    assert float(java_double(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_java_float_reads_back(value: float) -> None:
    read = float(java_float(value))
    assert struct.pack("<f", read) == struct.pack("<f", value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_dump_is_json_with_the_same_value(value: Any) -> None:
    assert load_avro(dump_json(value)) == value


def test_canonical() -> None:
    def check(row: tuple[str, str]) -> None:
        schema, text = row
        assert canonical_text(parse(schema)) == text

    check_rows(fixture("canonical"), check)


@each(("type_", "text", "written"), [
    ("double", "NaN", '"NaN"'), ("float", "-Infinity", '"-Infinity"'), ("double", "1.5", "1.5"),
    ("float", " 1f ", "1.0"), ({"type": "double", "x": 1}, ".5e-3", "5.0E-4"),
    ("double", "1e400", '"Infinity"'), ("float", "+1.", "1.0"),
])  # fmt: skip
def test_texts_as_defaults_of_floating_points(type_: Any, text: str, written: str) -> None:
    """Java's parser makes numbers of them, and none of those inside a union or an array."""
    for strict in (True, False):
        canonical = canonical_text(parse(record("R", column("a", type_, default=text)), strict=strict))
        assert f'"default":{written}}}' in canonical
        again = parse(canonical, strict=strict)
        assert canonical_text(again) == canonical
        assert f'"default":{written}}}' in normalized_text(again)


@each("alias", ["a..b", "a...b", ".a", "x.y", "a.-.b", "a-.b"])
def test_aliases_with_dots(alias: str) -> None:
    assert canonical_text(parse(record("R", aliases=[alias])))
    with pytest.raises(AvroSchemaError):
        parse(record("R", aliases=[f"x..y{alias}."]))


def test_a_whole_default_beyond_64_bits_is_none_of_a_double() -> None:
    for default, text in ((2**63, None), (10**400, None), (-(2**63), "-9.223372036854776E18")):
        written = normalized_text(parse(record("R", column("a", "double", default=default))))
        assert (f'"default":{text}' in written) if text else ("default" not in written)


@each(("type_", "default"), [
    ({"type": "array", "items": "double"}, [2**63, 1]), ({"type": "array", "items": ["null", "string"]}, ["x"]),
    ({"type": "map", "values": ["double", "string"]}, {"y": 1, "x": "s"}),
    (["null", {"type": "array", "items": "string"}], ["x"]),
])  # fmt: skip
def test_no_normalized_text_of_a_default_with_values_of_another_type(type_: Any, default: Any) -> None:
    with pytest.raises(ValueError, match=r"Part of a default|Not an array"):
        normalized_text(parse(record("R", column("a", type_, default=default))))


def test_normalized() -> None:
    def check(row: tuple[str, str]) -> None:
        schema, text = row
        assert normalized_text(parse(schema)) == text
        assert normalized_text(parse(text)) == text

    check_rows(fixture("normalized"), check)


@each(("schema", "reason"), [
    ("", "a value is missing at character 0"),
    ("{", "a name in double quotes is missing at character 1"),
    ('"int" x', "dangling content after end of schema: x"),
    ('"int" // x', "dangling content after end of schema: // x"), ('"int" /* x */ ', "of schema: /* x */"),
    ("5", "Schema not yet supported"),
    ("{}", "No type"),
    ('{"type":{"type":"int"}}', "No type"),
    ('"nope"', "Undefined schema: nope"),
    (record("R", column("a", "n.S"), column("b", json.loads(record("S")))), "Undefined schema: n.S"),
    (record("R", column("a", json.loads(record("n.S", column("r", "R"))))), "Undefined schema: n.R"),
    ('{"type":"record","name":"R"}', "Record has no fields"),
    ('{"type":"record","fields":[]}', "No name in schema"),
    (record("R", column("a-b")), "Illegal character in: a-b"),
    (record("R", column("é")), "Illegal initial character: é"),
    (record("R", column("")), "Empty name"),
    (record("int"), "Schemas may not be named after primitives: int"),
    (record("R", column("a"), column("a")), "Duplicate field a in record R"),
    (record("R", {"name": "a"}), "No field type"),
    (record("R", {"type": "int"}), "No field name"),
    (record("R", column("a", order="up")), "No such field order"),
    (record("R", column("a", aliases="b")), "aliases not an array"),
    (record("R", column("a", default=2**31)), "Invalid default for field a: 2147483648"),
    (record("R", column("a", default=True)), "Invalid default for field a: true"),
    (record("R", column("a", "double", default="one")), "Invalid default"),
    (record("R", column("a", ["double"], default="1")), "Invalid default"),
    (record("R", column("a", ["null", "int"], default="x")), "Invalid default"),
    (record("R", column("a", json.loads(record("S", column("b"))), default={})), "Invalid default"),
    (record("R", column("a", "S"), column("b", json.loads(record("S", column("c"))), default={})), "Invalid"),
    *((record("R", namespace=name), 'Namespace part "" is invalid') for name in ("a..b", ".", "a.", ".a")),
    (record("a..R"), 'Namespace part "" is invalid'), (record("R", aliases=["a.-"]), "Illegal initial character: -"),
    ('["int","int"]', "Duplicate in union:int"),
    ('["int",["string"]]', "Nested union"),
    ('{"type":"array"}', "Array has no items type"),
    ('{"type":"map"}', "Map has no values type"),
    ('{"type":"enum","name":"E"}', "Enum has no symbols"),
    ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol: A"),
    ('{"type":"enum","name":"E","symbols":[1]}', "Enum symbol is not text"),
    ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "The Enum Default: B"),
    ('{"type":"fixed","name":"F"}', "Invalid or no size"),
    ('{"type":"fixed","name":"F","size":-1}', "Length is negative"),
    (fixed_twice(1, 2), "Can't redefine: F"),
    (record("R", column("a", json.loads(record("R")))), "Can't redefine: R"),
    (envelope(column("id"), again=[column("id", "long")]), "Can't redefine: Value"),
    (envelope(column("id"), again=[column("id", default=1)]), "Can't redefine: Value"),
    (envelope(column("id"), again=[column("id", order="ignore")]), "Can't redefine: Value"),
    (envelope(column("id"), again=[column("id", p=1)]), "Can't redefine: Value"),
    (envelope(column("v", ["null", "Value"]), again=[column("v", ["null", "Value"])]), "Can't redefine: Value"),
])  # fmt: skip
def test_invalid(schema: str, reason: str) -> None:
    with pytest.raises(AvroSchemaError) as refused:
        parse(schema)
    assert reason in str(refused.value)


@each("schema", [
    record("R", column("a", "bytes", default="AQ==")),  # TiCDC's BIT defaults
    record("R", column("a", ["null", "int"], default=5)),  # Avro 1.12: any branch
    record("R", column("a", json.loads(record("S", column("b", default=1))), default={})),
    fixed_twice(1, 1),
    record("R", column("next", ["null", "R"], default=None)),
    '{"type":"int","logicalType":"decimal"}',
    envelope(column("id"), again=[column("id")]),
    envelope(column("id", doc="a", aliases=["x"]), again=[column("id", doc="b")]),
    envelope(column("id", p=1, q=2), again=[column("id", q=2, p=1)]),
    envelope(column("i", INNER), column("j", "Inner"), again=[column("i", INNER), column("j", "Inner")]),
])  # fmt: skip
def test_valid(schema: str) -> None:
    text = canonical_text(parse(schema))
    assert canonical_text(parse(text)) == text


def test_what_is_stored_is_read_leniently() -> None:
    loose = record("R", column("a-b", default="x"))
    assert canonical_text(parse(loose, strict=False)) == loose.replace(": ", ":").replace(", ", ",")


PLAIN = [column("a", "int"), column("b", ["null", {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}])]
NULLED = {"name": "n", "type": ["null", {"type": "int", "x": [1, {"b": 1, "a": 2}]}], "default": None}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def of(*fields: dict[str, Any], **more: Any) -> str:
    return compact({"type": "record", "name": "R", **more, "fields": list(fields)})


KNOWN = compact({"name": "a", "type": "int"})
# Texts that could be cut at the wrong places, or that hold pieces that are read one by one only when they are valid.
CUT: list[str] = [
    of(*PLAIN, NULLED),
    of(*PLAIN, column("c", "string", default="},{"), column("d", "double", default=1.50)),
    of(*PLAIN, column("c", {"type": "enum", "name": "E", "symbols": ["x"]}), column("d", "E", doc="\"fields\":[{")),
    of(*PLAIN, column("c", json.loads(record("S", *PLAIN))), column("d", ["null", "S"], default=None)),
    of(column("r", ["null", "R"], default=None), *PLAIN, aliases=["Q"], doc='"fields":['),
    of(*PLAIN, *PLAIN[:1]),
    of(*PLAIN, column("a-b")),
    of(*PLAIN, column("c", "int", default="x")),
    of(*PLAIN, column("c", "int", default=float("nan"))),
    of(*PLAIN, column("c", "int", order="ignore", aliases=["z"])),
    of(*PLAIN, column("c", {"type": "int", "deep": json.loads("[" * 210 + "]" * 210)})),
    of({"name": "a"}, {"type": "int"}),
    of(),
    of(*PLAIN, type="error"),
    of(*PLAIN, type="enum", symbols=["A"]),
    of(*PLAIN, type="int"),
    of(*PLAIN, type="array", items="int"),
    compact({"type": "record", "fields": PLAIN}),
    compact({"fields": PLAIN, "type": "record", "name": "R"}),
    f'{{"type":"record","name":"R","fields" :[{KNOWN}],"fields":[{KNOWN},{{"name":"b","type":"int"}}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN}],"fields":[{{"name":"b","type":"int"}}]}}',
    f'{{"type":"record","name":"R","fields" :[],"x\\"fields":[{KNOWN}]}}',
    f'{{"type":"record","name":"R","x":{{"fields":[{KNOWN}]}}',
    f'{{"type":"record","name":"R","x":{{"y":1,"fields":[{KNOWN}]}},"fields" :[{KNOWN}]}}',
    f'{{"type":"record","name":"R", //"fields":[\n"fields":[{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN},/**/{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN},{{"name":"x","type":[{{"type":"int"}},{{"type":"long"}}]}}]}}',
    f'{{"type":"record","name":"R","fields":[{{"name":"x","q":[{{"b":1}},{{"c":2}}]}},\n{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{{"name":"x","q":[{{"b":1}},{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN}]}} ',
    f'\ufeff{{"type":"record","name":"R","fields":[{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN},5]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN}}},{KNOWN}]}}',
    f'{{"type":"record","name":"R","fields":[{KNOWN},{{"name":"é","type":"int"}}]}}',
    f'[{{"type":"record","name":"R","fields":[{KNOWN}]}}]',
]  # fmt: skip


def test_a_text_cut_at_its_fields_is_what_it_is_as_a_whole() -> None:
    """The first time, and again when its fields are known."""

    def outcome(read: Any, text: str) -> str:
        try:
            node = read(text)
        except (AvroSchemaError, ValueError) as error:
            return str(error)
        return f"{canonical_text(node)} {unordered_text(node)} {normalized_text(node)}"

    def check(row: tuple[str, bool]) -> None:
        text, strict = row
        whole = outcome(lambda entry: parse_document(entry, {}, strict), text)
        assert outcome(lambda entry: parse(entry, strict=strict), text) == whole
        assert outcome(lambda entry: parse(entry, strict=strict), text) == whole

    check_rows([(text, strict) for strict in (True, False, True) for text in CUT], check, name=lambda row: row[0])
