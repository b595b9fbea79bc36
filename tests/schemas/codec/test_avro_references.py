"""Schemas that refer to others: what a serialiser wrote with all of them is read with the one text that comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import pytest

from tests.support.table import check_rows
from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.avro_references import Reference, ReferringSchema, read_references, resolve


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
        subject: ReferringSchema(json.dumps(schema), tuple(Reference("any", one, 1) for one in references))
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
        text = resolve(registry["m"], lambda one: registry[one.subject])
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


def test_what_can_not_be_resolved_is_told_with_its_subjects() -> None:
    a, b = Reference("n.B", "b", 2), Reference("n.A", "a", 1)
    circle = {"b": ReferringSchema('{"type":"record"}', (b,)), "a": ReferringSchema('"int"', (a,))}
    with pytest.raises(ValueError, match=r"in a circle: b version 2, which refers to a version 1, .* b version 2"):
        resolve(ReferringSchema("{}", (a,)), lambda one: circle[one.subject])
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
