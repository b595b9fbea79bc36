"""Any Avro schema of records, arrays, unions and primitives → a reader and a writer (Avro 1.12 specification).

TiCDC's Avro rows have types of their own (`schemas.formats.avro.values`). This one serves what Kafka Connect writes:
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
from ticdc_bridge.schemas.codec.avro import Reader, TruncatedValue
from ticdc_bridge.schemas.model.names import repeated_name
from ticdc_bridge.schemas.model.reasons import reason_of

# ---- Readers of Avro's compound types, put together from readers of their parts (Avro 1.12, "Binary Encoding").
#
# A record is a dict by its fields' names, an array a list, a map a dict. An error has the names of the
# fields around it (`FieldError`). No count is trusted before it is compared with what is there.

MOST_ITEMS = 1 << 16  # no array of a message has more: elements of an ENUM, columns of a table

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class FieldReader:
    """A field of a record. convert: what becomes of a value that is not null (None: nothing).

    branches: the kinds of its union in their order, or its one kind; where somebody asks.
    """

    name: str
    read: Reader
    convert: Convert | None = None
    branches: tuple[str, ...] = ()


class FieldError(ValueError):
    """A field of a record that can't be read; its text says why. path: the names, from the outermost record's on.

    is_cut: the buffer ends in it.
    """

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(str(error))
        self.path, self.is_cut = [name], isinstance(error, TruncatedValue)


def read_fields(fields: tuple[FieldReader, ...], buffer: bytes, pos: int) -> tuple[dict[str, Any], int]:
    """A record's fields from `pos` on → (values by name, next position). FieldError."""
    record: dict[str, Any] = {}
    for item in fields:
        try:
            value, pos = item.read(buffer, pos)
            record[item.name] = value if value is None or item.convert is None else item.convert(value)
        except FieldError as error:
            error.path.insert(0, item.name)
            raise
        except (TruncatedValue, ValueError) as error:
            raise FieldError(item.name, error) from error
    return record, pos


def record_reader(**fields: Reader) -> Reader:
    """Reader of a record of these fields."""
    return partial(read_fields, tuple(FieldReader(name, read) for name, read in fields.items()))


def converted(read: Reader, convert: Convert) -> Reader:
    """The same reader, with what `convert` makes of its values."""

    def reader(buffer: bytes, pos: int) -> tuple[Any, int]:
        value, pos = read(buffer, pos)
        return convert(value), pos

    return reader


def utf8(data: bytes) -> str:
    """Bytes of a string; those that are not UTF-8 stand as lone surrogates (Python's surrogateescape)."""
    return data.decode("utf-8", "surrogateescape")


read_text = converted(binary.read_bytes, utf8)


def union_reader(*branches: Reader | None) -> Reader:
    """Reader of a union; None stands for null."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_long(buffer, pos)
        if not 0 <= index < len(branches):
            raise ValueError(f"union branch {index}, there are {len(branches)}")
        branch = branches[index]
        return (None, pos) if branch is None else branch(buffer, pos)

    return read


def enum_reader(symbols: tuple[str, ...], what: str) -> Reader:
    """Reader of an enum. what: what it is called in errors."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_int(buffer, pos)
        if not 0 <= index < len(symbols):
            raise ValueError(f"{what} {index}, there are {len(symbols)}")
        return symbols[index], pos

    return read


@dataclass(slots=True)
class ItemBudget:
    """How many items all arrays of a value together may still have, so that memory stays in proportion to it."""

    left: int = MOST_ITEMS


def array_reader(item: Reader, budget: ItemBudget | None = None, block: Reader | None = None) -> Reader:
    """Reader of an array. budget: what it shares with others; else it has MOST_ITEMS of its own.

    block: reader of a block's head, where it is not `block_count`.
    """
    head = block or block_count

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        items: list[Any] = []
        share = budget or ItemBudget()
        while True:
            count, pos = head(buffer, pos)
            if not count:
                return items, pos
            share.left -= count
            if share.left < 0:
                raise ValueError(f"more than {MOST_ITEMS} items")
            for _ in range(count):
                value, pos = item(buffer, pos)
                items.append(value)

    return read


def block_count(buffer: bytes, pos: int) -> tuple[int, int]:
    """The head of an array's or map's next block → (how many items it has, where they begin). 0 items: the end."""
    count, pos = binary.read_long(buffer, pos)
    if count < 0:
        size, pos = binary.read_long(buffer, pos)
        count = -count
        if not 0 <= size <= len(buffer) - pos:
            raise TruncatedValue(f"a block of {size} bytes, {len(buffer) - pos} left")
    if count > len(buffer) - pos:
        raise TruncatedValue(f"{count} items, {len(buffer) - pos} bytes left")
    return count, pos


def map_reader(value: Reader, block: Reader | None = None) -> Reader:
    """Reader of a map, as `array_reader`; ValueError where a key stands twice."""

    def entry(buffer: bytes, pos: int) -> tuple[Any, int]:
        name, pos = read_text(buffer, pos)
        content, pos = value(buffer, pos)
        return (name, content), pos

    entries = array_reader(entry, block=block)

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        pairs, pos = entries(buffer, pos)
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a column stands twice in one row")
        return members, pos

    return read


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
            if schema == "null" or schema in binary.READERS:
                return SchemaType(schema)
            return self._reference(schema, namespace)
        if isinstance(schema, list):
            branches = tuple(self.type(s, namespace, level + 1) for s in schema)
            if len(branches) != 2 or sum(b.kind == "null" for b in branches) != 1:
                raise ValueError("the schema has a union of other than null and one type")
            return SchemaType("union", branches=branches, nodes=_check_node_count(sum(b.nodes for b in branches)))
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
            if (twice := repeated_name(names)) is not None:
                raise ValueError(f"two fields are named {twice!r}")
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

    def read_value(buffer: bytes, pos: int) -> tuple[Any, int]:
        budget.left = MOST_ITEMS
        return read(buffer, pos)

    return read_value


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
    special = utf8 if of.kind == "string" else None if of.kind in ("bytes", "boolean") else number
    return binary.READERS[of.kind], special


# ---------------------------------------------------------------------------------------------- writer
Writer = Callable[[Any], bytes]


def writer(of: SchemaType) -> Writer:
    """Compiled writer: value → bytes. ValueError (with the field's name) for a value that is not of the type."""
    if of.kind == "record":
        fields = tuple((f.label, writer(f.type)) for f in of.fields)

        def write(value: Any) -> bytes:
            out = []
            for label, entry in fields:
                try:
                    out.append(entry(value.get(label)))
                except (ValueError, TypeError, AttributeError, OverflowError) as error:
                    raise ValueError(f"{label}: {error}") from error
            return b"".join(out)

        return write
    if of.kind == "union":
        value = writer(of.value_type)
        null, branch = (b"\x00", b"\x02") if of.branches[0].kind == "null" else (b"\x02", b"\x00")
        return lambda v: null if v is None else branch + value(v)
    if of.kind == "array":
        item = writer(of.branches[0])
        return lambda v: binary.write_long(len(v)) + b"".join(map(item, v)) + b"\x00" if v else b"\x00"
    return _WRITERS[of.kind]


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
