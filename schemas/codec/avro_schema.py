"""Any Avro schema of records, arrays, unions and primitives → a reader and a writer (Avro 1.12 specification).

TiCDC's Avro rows have types of their own (`schemas.formats.avro.record`). This one serves what Kafka Connect writes:
nested records, types named once and referred to later, and the `connect.*` attributes that say what was meant.

A record is a dict by its fields' labels (`connect.field`, else the name). Strings that are not UTF-8 keep their bytes
as lone surrogates. A schema is refused when it refers to itself or is larger than any table's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec.avro_reader import (
    MOST_ITEMS,
    Convert,
    FieldReader,
    ItemBudget,
    array_reader,
    converted,
    read_fields,
    union_reader,
    utf8,
)
from ticdc_bridge.schemas.model.reasons import reason_of

_MOST_NODES = 200_000  # a schema expanded: no table of TiDB's has more than 4,096 columns
_MOST_LEVELS = 64


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a record. `label` is the name it has in values: Connect's own, where Avro's is a sanitised one."""

    name: str
    label: str
    type: SchemaType
    props: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaType:
    """A type with its attributes. `fields` of a record, `branches` of a union, the one branch of an array."""

    kind: str
    props: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[SchemaField, ...] = ()
    branches: tuple[SchemaType, ...] = ()
    nodes: int = 1

    @property
    def is_optional(self) -> bool:
        return self.kind == "union"

    @property
    def value_type(self) -> SchemaType:
        """A union's branch that is not null; the type itself where it is no union."""
        return next(b for b in self.branches if b.kind != "null") if self.kind == "union" else self


def parse_schema(text: str) -> SchemaType:
    """Schema text → type. ValueError for a schema that is none, or of kinds that Connect does not write."""
    try:
        return _Parser().type(json.loads(text), "", 0)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(reason_of(error)) from error


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, SchemaType | None] = {}

    def type(self, schema: Any, namespace: str, level: int) -> SchemaType:
        if level > _MOST_LEVELS:
            raise ValueError("the schema is nested too deep")
        if isinstance(schema, str):
            return (
                SchemaType(schema)
                if schema == "null" or schema in binary.READERS
                else self._reference(schema, namespace)
            )
        if isinstance(schema, list):
            return self._union([self.type(s, namespace, level + 1) for s in schema])
        kind = schema["type"]
        if kind == "record":
            return self._record(schema, namespace, level)
        if kind == "array":
            items = self.type(schema["items"], namespace, level + 1)
            return SchemaType("array", schema, branches=(items,), nodes=_check_node_count(items.nodes + 1))
        if isinstance(kind, str) and kind in binary.READERS:
            return SchemaType(kind, schema)
        if isinstance(kind, dict | list):
            return self.type(kind, namespace, level + 1)
        raise ValueError(f"the schema has a type {str(kind)[:40]!r}")

    def _reference(self, name: str, namespace: str) -> SchemaType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            full = name  # a type without a namespace, used within one: Avro's Java library takes it so
        definition = self._named.get(full)
        if definition is None:
            raise ValueError(f"the schema refers to {name[:80]!r}, which {_UNKNOWN[full in self._named]}")
        return definition

    def _union(self, branches: list[SchemaType]) -> SchemaType:
        if len(branches) != 2 or sum(b.kind == "null" for b in branches) != 1:
            raise ValueError("the schema has a union of other than null and one type")
        return SchemaType("union", branches=tuple(branches), nodes=_check_node_count(sum(b.nodes for b in branches)))

    def _record(self, schema: Mapping[str, Any], namespace: str, level: int) -> SchemaType:
        name = schema["name"]
        namespace = schema.get("namespace", name.rpartition(".")[0] or namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._named:
            raise ValueError(f"the schema defines {full[:80]!r} twice")
        self._named[full] = None
        fields, nodes = [], 1
        for listed in schema["fields"]:
            label = listed.get("connect.field", listed["name"])
            if not isinstance(label, str) or not isinstance(listed["name"], str):
                raise ValueError("the schema has a field without a name")
            schema_field = SchemaField(listed["name"], label, self.type(listed["type"], namespace, level + 1), listed)
            nodes = _check_node_count(nodes + schema_field.type.nodes)
            fields.append(schema_field)
        for names in ([f.name for f in fields], [f.label for f in fields]):
            if len(set(names)) < len(names):
                raise ValueError(f"two fields are named {next(n for n in names if names.count(n) > 1)!r}")
        record = self._named[full] = SchemaType("record", schema, tuple(fields), nodes=nodes)
        return record


_UNKNOWN = {True: "is not complete there", False: "it does not define"}


def _check_node_count(nodes: int) -> int:
    if nodes > _MOST_NODES:
        raise ValueError("the schema is larger than any table's")
    return nodes


# ---------------------------------------------------------------------------------------------- reader
def reader(of: SchemaType, number: Convert) -> binary.Reader:
    """Compiled reader: (buffer, position) → (value, next position). FieldError, TruncatedValue or ValueError.

    number: what becomes of a number that was read. All arrays of one value together have at most MOST_ITEMS items.
    """
    budget = ItemBudget()
    read, convert = _reader(of, number, budget)
    read = converted(read, convert) if convert else read

    def whole(buffer: bytes, pos: int) -> tuple[Any, int]:
        budget.left = MOST_ITEMS
        return read(buffer, pos)

    return whole


def _reader(of: SchemaType, number: Convert, budget: ItemBudget) -> tuple[binary.Reader, Convert | None]:
    """(reader, what becomes of its values that are not null)."""
    if of.kind == "record":
        fields = (FieldReader(f.label, *_reader(f.type, number, budget)) for f in of.fields)
        return partial(read_fields, tuple(fields)), None
    if of.kind == "union":
        read, convert = _reader(of.value_type, number, budget)
        return union_reader(*(None if b.kind == "null" else read for b in of.branches)), convert
    if of.kind == "array":
        read, convert = _reader(of.branches[0], number, budget)
        return array_reader(converted(read, convert) if convert else read, budget), None
    if of.kind == "null":
        return (lambda buffer, pos: (None, pos)), None
    own = utf8 if of.kind == "string" else None if of.kind in ("bytes", "boolean") else number
    return binary.READERS[of.kind], own


# ---------------------------------------------------------------------------------------------- writer
Writer = Callable[[Any], bytes]


def writer(of: SchemaType) -> Writer:
    """Compiled writer: value → bytes. ValueError (with the field's name) for a value that is not of the type."""
    if of.kind == "record":
        return _record_writer(of)
    if of.kind == "union":
        value = writer(of.value_type)
        null, branch = (b"\x00", b"\x02") if of.branches[0].kind == "null" else (b"\x02", b"\x00")
        return lambda v: null if v is None else branch + value(v)
    if of.kind == "array":
        item = writer(of.branches[0])
        return lambda v: binary.write_long(len(v)) + b"".join(map(item, v)) + b"\x00" if v else b"\x00"
    return _WRITERS[of.kind]


def _record_writer(of: SchemaType) -> Writer:
    fields = tuple((f.label, writer(f.type)) for f in of.fields)

    def write(value: Any) -> bytes:
        out = []
        for label, one in fields:
            try:
                out.append(one(value.get(label)))
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                raise ValueError(f"{label}: {error}") from error
        return b"".join(out)

    return write


def _null(value: Any) -> bytes:
    if value is not None:
        raise ValueError("a value where there can be none")
    return b""


def _int(value: Any) -> bytes:
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError(f"{value} is no 32-bit integer")
    return binary.write_long(value)


_WRITERS: dict[str, Writer] = {
    "null": _null,
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": _int,
    "long": binary.write_long,
    "float": binary.write_float,
    "double": binary.write_double,
    "bytes": binary.write_bytes,
    "string": lambda value: binary.write_bytes(value.encode("utf-8", "surrogateescape")),
}
