"""Avro's binary form: round trips, the limits of a hostile buffer, and fastavro as the oracle."""

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.golden import Golden
from tests.support.rows import change
from tests.support.table import check_rows
from ticdc_bridge.schemas.codec import avro, avro_schema
from ticdc_bridge.schemas.codec.avro_references import Reference, ReferringSchema, read_references, resolve
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.values import compile_record, row_writer
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Row
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

longs = st.integers(-(1 << 63), (1 << 63) - 1)


@given(longs)
def test_long(number: int) -> None:
    data = avro.write_long(number)
    assert avro.read_long(data + b"\xff", 0) == (number, len(data))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert out.getvalue() == data


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_int(number: int) -> None:
    data = avro.write_long(number)
    assert avro.read_int(b"\x80" + data, 1) == (number, len(data) + 1)


@each("number", [1 << 31, -(1 << 31) - 1, (1 << 63) - 1])
def test_int_of_more_than_32_bits(number: int) -> None:
    with pytest.raises(ValueError, match="32-bit"):
        avro.read_int(avro.write_long(number), 0)


@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    written = avro.write_bytes(data)
    assert avro.read_bytes(written, 0) == (data, len(written))
    for cut in range(len(written)):
        with pytest.raises(avro.TruncatedValue):
            avro.read_bytes(written[:cut], 0)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
def test_reals(double: float, single: float) -> None:
    assert struct.pack("<d", avro.read_double(avro.write_double(double), 0)[0]) == struct.pack("<d", double)
    assert struct.pack("<f", avro.read_float(avro.write_float(single), 0)[0]) == struct.pack("<f", single)


@given(st.integers(-(10**65), 10**65))
def test_decimal_is_the_shortest_two_complement(unscaled: int) -> None:
    data = avro.write_decimal(unscaled)
    raw, end = avro.read_bytes(data, 0)
    assert end == len(data)
    assert int.from_bytes(raw, "big", signed=True) == unscaled
    assert len(raw) == avro.decimal_size(unscaled)
    with pytest.raises(OverflowError):
        unscaled.to_bytes(len(raw) - 1, "big", signed=True) if len(raw) > 1 else (1 << 8).to_bytes(1, "big")


@each(
    ("data", "problem"),
    [
        (b"\x80" * 10 + b"\x01", "ten bytes"),
        (b"\xff" * 9 + b"\x02", "64 bits"),
        (b"\x80\x00", "shortest"),
        (b"\x82\x80\x00", "shortest"),
    ],
)
def test_numbers_in_no_writers_spelling(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        avro.read_long(data, 0)


@each("data", [b"", b"\x80", b"\xff" * 9])
def test_number_that_ends_too_early(data: bytes) -> None:
    with pytest.raises(avro.TruncatedValue):
        avro.read_long(data, 0)


@each("length", [-1, -(1 << 62)])
def test_negative_length(length: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        avro.read_bytes(avro.write_long(length), 0)


@each("length", [1, 1 << 31, (1 << 63) - 1])
def test_length_beyond_the_buffer(length: int) -> None:
    with pytest.raises(avro.TruncatedValue, match=str(length)):
        avro.read_bytes(avro.write_long(length), 0)


@each(("data", "answer"), [(b"\0", False), (b"\1", True)])
def test_boolean(data: bytes, answer: bool) -> None:
    assert avro.read_boolean(data, 0) == (answer, 1)


def test_boolean_is_zero_or_one() -> None:
    with pytest.raises(ValueError, match="0x02"):
        avro.read_boolean(b"\2", 0)
    with pytest.raises(avro.TruncatedValue):
        avro.read_boolean(b"", 0)


# ---- tables of TiCDC's shape
def _value(kind: str, column: Column) -> st.SearchStrategy[Value]:
    simple: dict[str, st.SearchStrategy[Any]] = {
        "float": st.floats(allow_nan=False, allow_infinity=False, width=32).map(values.float_text),
        "double": st.floats(allow_nan=False, allow_infinity=False).map(values.double_text),
        "varchar": st.text(st.characters(exclude_categories=["Cs"]), max_size=20), "json": st.just('{"a": 1}'),
        "blob": st.binary(max_size=20), "date": st.dates().map(str), "datetime": st.just("2024-02-29 12:34:56.123456"),
        "timestamp": st.just("0000-00-00 00:00:00"), "time": st.just("-838:59:59"),
        "year": (st.just(0) | st.integers(1901, 2155)).map(str), "vector": st.just("[1,2.5,-3]"),
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if column.type.kind is Kind.INTEGER:
        low, high = (
            (0, 1 << column.type.bits) if column.unsigned else (-(1 << column.type.bits - 1), 1 << column.type.bits - 1)
        )
        return st.integers(low, high - 1).map(str)
    if kind == "decimal":
        assert column.length is not None
        assert column.scale is not None
        scale = column.scale
        return st.integers(-(10**column.length) + 1, 10**column.length - 1).map(lambda n: values.decimal_text(n, scale))
    if kind == "bit":
        assert column.length is not None
        size = values.bit_size(column.length)
        return st.integers(0, (1 << column.length) - 1).map(lambda n: n.to_bytes(size, "big"))
    return st.sampled_from(column.elements)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(
        st.sampled_from(
            [
                "tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "bit", "varchar",
                "blob", "enum", "set", "date", "datetime", "timestamp", "time", "year", "json", "vector",
            ]
        )
    )  # fmt: skip
    length = scale = None
    if kind == "decimal":
        length = draw(st.integers(1, 65))
        scale = draw(st.integers(0, min(30, length)))
    elif kind == "bit":
        length = draw(st.integers(1, 64))
    unsigned = BY_NAME[kind].kind is Kind.INTEGER and draw(st.booleans())
    elements = tuple(draw(st.lists(st.text("abc ,é", min_size=1, max_size=5), min_size=1, max_size=3, unique=True)))
    elements = elements if kind in ("enum", "set") else ()
    nullable = draw(st.booleans())
    column = Column(name, BY_NAME[kind], unsigned, length, scale, elements, nullable)
    if draw(st.booleans()) and kind not in ("json", "blob", "bit", "vector", "decimal"):
        return Column(
            name, BY_NAME[kind], unsigned, length, scale, elements, nullable, True, draw(_value(kind, column))
        )
    return column


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, Options, Row]:
    made = [draw(columns(f"c{i}")) for i in range(draw(st.integers(1, 6)))]
    options = Options(
        avro_decimal_handling_mode=draw(st.sampled_from(["precise", "string"])),
        avro_bigint_unsigned_handling_mode=draw(st.sampled_from(["long", "string"])),
    )
    row = {c.name: None if c.nullable and draw(st.booleans()) else draw(_value(c.type.name, c)) for c in made}
    return Table(TableId("db", "t"), tuple(made)), options, row


@given(tables())
def test_rows_go_through_the_schema_and_back(made: tuple[Table, Options, Row]) -> None:
    table, options, row = made
    data = row_writer(table.columns, options)(row, change(table, row))
    record = compile_record(publish.value_schema(table, options), "value")
    assert record.read(b"xx" + data, 2, "value") == (row, len(data) + 2)
    assert [c.nullable for c in record.columns] == [c.nullable for c in table.columns]
    assert [c.has_default for c in record.columns] == [c.has_default and not _never(c, options) for c in table.columns]


def _never(column: Column, options: Options) -> bool:
    return column.type.kind is Kind.DECIMAL and options.avro_decimal_handling_mode == "precise"


@given(tables())
def test_fastavro_reads_what_we_write_and_writes_what_we_read(made: tuple[Table, Options, Row]) -> None:
    table, options, row = made
    data = row_writer(table.columns, options)(row, change(table, row))
    schema = json.loads(publish.value_schema(table, options))
    for field in schema["fields"]:  # fastavro checks what goavro lets pass: TiCDC's text for numbers, base64 for bytes
        field.pop("default", None)
    parsed = fastavro.parse_schema(schema)
    source = io.BytesIO(data)
    got = fastavro.schemaless_reader(source, parsed, None)
    assert source.read() == b""
    assert isinstance(got, dict)
    for column in table.columns:
        assert same_value(column, row[column.name], got[column.name]), column
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, got)
    assert out.getvalue() == data


def same_value(column: Column, ours: Value, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(theirs, float):
        packed = "<f" if column.type.kind is Kind.FLOAT else "<d"
        return struct.pack(packed, float(str(ours))) == struct.pack(packed, theirs)
    if isinstance(theirs, Decimal):
        return Decimal(str(ours)) == theirs and format(theirs, "f").lstrip("-") == str(ours).lstrip("-")
    if isinstance(theirs, int):
        return int(str(ours)) == theirs % (1 << 64 if column.unsigned else 1 << 70) or int(str(ours)) == theirs
    return bool(ours == theirs)


def test_an_extension_field_that_is_not_utf8_is_an_error() -> None:
    """Found by mutation: the bytes of a damaged checksum stood in `extra`, which no JSON line can hold."""
    golden = Golden("avro", "checksum.checksum")
    decoder = golden.side().decoder()
    message = next(m for m in golden.messages() if m.value and b"654825492" in m.value)
    assert message.value is not None
    result = decode_message(decoder, replace(message, value=message.value.replace(b"654825492", b"6548254\xb62")))
    assert result.error is not None
    assert result.error.code == "MALFORMED"


# ---- Schemas that refer to others: what a serialiser wrote with all of them is read with the one text that comes out.


def _record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": [{"name": n, "type": kind} for n, kind in fields]}


_POINT = _record("Point", ("x", "int"), namespace="geo")
_LINE = _record("Line", ("from", "Point"), ("to", "geo.Point"), namespace="geo")
_BOX = _record("Box", ("line", "geo.Line"), ("at", ["null", "geo.Point"]), namespace="shape")


@dataclass(frozen=True)
class _Case:
    """Schemas by subject, each with the subjects that it refers to; the last is read, of what `value` is written as."""

    name: str
    schemas: Mapping[str, tuple[Any, tuple[str, ...]]]
    value: Any

    def __str__(self) -> str:
        return self.name


_P = {"x": 1}
_CASES = (
    _Case("used once", {"p": (_POINT, ()), "m": (_record("M", ("p", "geo.Point")), ("p",))}, {"p": _P}),
    _Case("used twice", {"p": (_POINT, ()), "m": (_record("M", ("p", "geo.Point"), ("q", "geo.Point")), ("p",))},
          {"p": _P, "q": _P}),
    _Case("in the namespace around it",
          {"p": (_POINT, ()), "m": (_record("M", ("p", "Point"), namespace="geo"), ("p",))}, {"p": _P}),
    _Case("nested", {"p": (_POINT, ()), "l": (_LINE, ("p",)), "m": (_record("M", ("l", "geo.Line")), ("l",))},
          {"l": {"from": _P, "to": _P}}),
    _Case("a diamond", {"p": (_POINT, ()), "l": (_LINE, ("p",)), "b": (_BOX, ("l", "p")),
                        "m": (_record("M", ("b", "shape.Box"), ("p", "geo.Point")), ("b", "p"))},
          {"b": {"line": {"from": _P, "to": _P}, "at": _P}, "p": _P}),
    _Case("a type within the one referred to", {
        "p": (_record("Outer", ("i", _record("Inner", ("x", "int"))), namespace="a"), ()),
        "m": (_record("M", ("i", "a.Inner"), ("o", "a.Outer"), namespace="b"), ("p",)),
    }, {"i": _P, "o": {"i": _P}}),
    _Case("in unions, arrays and maps", {
        "p": (_POINT, ()),
        "m": (_record("M", ("u", ["null", "geo.Point"]), ("a", {"type": "array", "items": "geo.Point"}),
                      ("m", {"type": "map", "values": "geo.Point"})), ("p",)),
    }, {"u": _P, "a": [_P, _P], "m": {"k": _P}}),
    _Case("an enum", {
        "e": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, ()),
        "m": (_record("M", ("e", "E"), ("f", "E")), ("e",)),
    }, {"e": "b", "f": "a"}),
    _Case("a schema that refers to none", {"m": (_record("M", ("x", "int")), ())}, _P),
)  # fmt: skip


def _registry(case: _Case) -> dict[str, ReferringSchema]:
    return {
        subject: ReferringSchema(json.dumps(schema), tuple(Reference("any", reference, 1) for reference in references))
        for subject, (schema, references) in case.schemas.items()
    }


def test_one_text_reads_what_all_wrote() -> None:
    def check(case: _Case) -> None:
        names: dict[str, Any] = {}
        for schema, _ in case.schemas.values():
            parsed = fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas=names)
        data = BytesIO()
        fastavro.schemaless_writer(data, parsed, case.value)
        registry = _registry(case)
        text = resolve(registry["m"], lambda entry: registry[entry.subject])
        whole = fastavro.parse_schema(json.loads(text))
        assert fastavro.schemaless_reader(BytesIO(data.getvalue()), whole, None) == case.value
        # The parser of the formats takes no maps and enums, and says so; all else it reads.
        if not any(word in text for word in ('"map"', '"enum"')):
            read = avro_schema.reader(avro_schema.parse_schema(text), lambda number: number)
            assert read(data.getvalue(), 0) == (case.value, len(data.getvalue()))

    check_rows(_CASES, check)


def test_a_type_without_a_namespace_is_known_within_one() -> None:
    """As to Avro's Java library; {"type": "name"} is the name, too."""
    for kind in ("Bare", {"type": "Bare"}):
        text = resolve(
            ReferringSchema(
                json.dumps(_record("M", ("p", kind), ("q", kind), namespace="b")), (Reference("", "p", 1),)
            ),
            lambda _: ReferringSchema(json.dumps(_record("Bare", ("x", "int")))),
        )
        read = avro_schema.reader(avro_schema.parse_schema(text), lambda number: number)
        assert read(b"\x02\x04", 0) == ({"p": {"x": 1}, "q": {"x": 2}}, 2)


def test_what_can_not_be_resolved_is_reported_with_its_subjects() -> None:
    a, b = Reference("n.B", "b", 2), Reference("n.A", "a", 1)
    circle = {"b": ReferringSchema('{"type":"record"}', (b,)), "a": ReferringSchema('"int"', (a,))}
    with pytest.raises(ValueError, match=r"in a circle: b version 2, which refers to a version 1, .* b version 2"):
        resolve(ReferringSchema("{}", (a,)), lambda entry: circle[entry.subject])
    with pytest.raises(ValueError, match="b version 2 is no JSON"):
        resolve(ReferringSchema("{}", (a,)), lambda _: ReferringSchema("<html>"))
    deep = ReferringSchema('{"type":' * 50_000, (a,))
    with pytest.raises(ValueError, match="it is no JSON"):
        resolve(deep, lambda _: ReferringSchema('"int"'))
    # Which type lacks, the parser says.
    assert "n.B" in resolve(ReferringSchema('{"type":"record","name":"M","fields":[{"name":"b","type":"n.B"}]}', (a,)),
                            lambda _: ReferringSchema('"int"'))  # fmt: skip


def test_references_are_read_as_registries_answer_them() -> None:
    row = {"name": "a.B", "subject": "s", "version": 3}
    assert read_references(None) == read_references([]) == ()
    assert read_references([row]) == (Reference("a.B", "s", 3),)

    def check(rows: Any) -> None:
        with pytest.raises(ValueError, match='"references" must be a list'):
            read_references(rows)

    check_rows(["x", 5, [1], [{}], [{**row, "version": "3"}], [{**row, "name": None}], {"a": 1}], check)
