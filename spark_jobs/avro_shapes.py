"""Which registered versions of a table Avro's own resolution can read into one set of fields, and how.

A shape's reader schemas have the newest version's columns; what a version (or a key) lacks is NULL. Versions whose
values the resolution would change (a decimal's scale, text against bytes, signed against unsigned) have another shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.publish.avro import BEFORE
from schemas.table import Column
from schemas.types import Kind
from spark_jobs.avro_schemas import WriterSchema, once, spark_schema
from spark_jobs.columns import MAX_SPARK_PRECISION, spark_type

OP, COMMIT, ID, ROW = "_tidb_op", "_tidb_commit_ts", "_bridge_id", "_bridge_row"
# The op is text, which is bytes in Avro's binary form. As bytes it is read quicker: Spark makes an object
# of four volatile fields for each text.
_EXTENSION = {OP: "bytes", COMMIT: "long"}
_WIDER = {("int", "long"): "long", ("float", "double"): "double"}


@dataclass(frozen=True)
class Shape:
    """Schemas that are read into the same fields without changing a value.

    texts_read, readers: the schema that Spark gets for each of `writers`, with a field for the header before them, and
    the one that it is resolved to. exact: Spark reads the columns, which stand in a record ROW of their own, and an old
    row, as structs of the newest version's columns in their own types. id_field: a field that no record has, so that
    its default, the schema id, stands there; NULL only where Spark could not read the record. columns: the newest
    version's columns that it has, as they are on the wire; texts: those of them that are BIGINT UNSIGNED as text.
    """

    number: int
    writers: tuple[WriterSchema, ...]
    texts_read: tuple[str, ...]
    readers: tuple[str, ...]
    exact: bool
    id_field: str
    columns: Mapping[str, Column]
    texts: frozenset[str]
    has_before: bool

    @classmethod
    def of(cls, number: int, writers: list[WriterSchema], wanted: Mapping[str, Column]) -> Shape:
        """writers: the newest value schema first. wanted: the newest version's columns by name, in order."""
        described = [json.loads(w.entry.schema) for w in writers]
        own = [{f["name"]: f["type"] for f in d["fields"]} for d in described]
        types: dict[str, Any] = {}
        for fields in own:
            for name, kind in fields.items():
                if name != BEFORE:
                    types[name] = _widest(types.get(name), _bare(kind))
        types |= _EXTENSION
        names = [name for name in wanted if name in types]
        has_before = any(BEFORE in fields for fields in own)
        columns = {c.name: c for w in reversed(writers) for c in w.record.columns}
        shown = {name: columns[name] for name in names}
        exact = all(map(_columns_first, described, writers)) and _same(shown, types, wanted)
        id_field = _free(ID, types)
        readers, texts_read = [], []
        for document, fields, writer in zip(described, own, writers, strict=True):
            made = list(_fields(fields, names, types))
            head = {k: document[k] for k in ("name", "namespace") if k in document}
            own_fields = [{"name": f["name"], "type": _written(f)} for f in document["fields"]]
            if exact:
                made = [_row(made)]
                count = len(writer.record.columns)
                own_fields = [_row(own_fields[:count]), *own_fields[count:]]
            id_ = writer.entry.id if isinstance(writer.entry.id, int) else 0  # Glue's header is no one's here
            made.append({"name": id_field, "type": "int", "default": id_})
            made += _fields(fields, [*_EXTENSION], types)
            if has_before:
                made.append(_before(fields.get(BEFORE), names, types))
            readers.append(spark_schema(json.dumps({"type": "record", **head, "fields": made})))
            framed = [_header(fields), *own_fields]
            texts_read.append(spark_schema(json.dumps({"type": "record", **head, "fields": framed})))
        texts = frozenset(n for n, c in shown.items() if c.type.kind is Kind.INTEGER and types[n] == "string")
        return cls(number, tuple(writers), tuple(texts_read), tuple(readers), exact, id_field, shown, texts, has_before)

    def lacking(self, name: str) -> list[Any]:
        """Ids of the value schemas without this column."""
        return [
            w.entry.id
            for w in self.writers
            if not w.entry.subject.endswith("-key") and all(c.name != name for c in w.record.columns)
        ]


def shapes(values: tuple[WriterSchema, ...], keys: tuple[WriterSchema, ...]) -> tuple[Shape, ...]:
    """Versions (the newest last) by shape; that of the newest value schema first."""
    groups: list[list[WriterSchema]] = []
    for writer in once((*keys, *values))[::-1]:
        for group in groups:
            if all(_fit(writer, other) for other in group):
                group.append(writer)
                break
        else:
            groups.append([writer])
    wanted = {c.name: c for c in values[-1].record.columns}
    return tuple(Shape.of(n, group, wanted) for n, group in enumerate(groups))


def _fit(one: WriterSchema, other: WriterSchema) -> bool:
    """Avro's resolution gives the values of both, in reader schemas of one set of types."""
    types = {f["name"]: _bare(f["type"]) for f in json.loads(one.entry.schema)["fields"] if f["name"] != BEFORE}
    columns = {c.name: c for c in one.record.columns}
    theirs = {c.name: c for c in other.record.columns}
    for field in json.loads(other.entry.schema)["fields"]:
        name = field["name"]
        if name not in types:
            continue
        pair = types[name], _bare(field["type"])
        if pair[0] != pair[1] and _widest(*pair) is None:
            return False
        if name in columns and name in theirs and not _alike(columns[name], theirs[name]):
            return False
    return True


def _alike(one: Column, other: Column) -> bool:
    """Their numbers and bytes mean the same: BIGINT UNSIGNED goes as a signed long, BIT has a length."""
    if Kind.BIT in (one.type.kind, other.type.kind):
        return one.type.kind is other.type.kind and one.length == other.length
    return (one.unsigned and one.type.bits == 64) == (other.unsigned and other.type.bits == 64)


def _widest(one: Any, other: Any) -> Any:
    """The type that holds both, None where there is none."""
    if one is None or one == other:
        return other
    for narrow, wide in ((one, other), (other, one)):
        if isinstance(narrow, str) and isinstance(wide, str) and (narrow, wide) in _WIDER:
            return wide
    return None


def _bare(kind: Any) -> Any:
    """A type without null, and without what only people and Connect read."""
    kind = next(b for b in kind if b != "null") if isinstance(kind, list) else kind
    if not isinstance(kind, dict):
        return kind
    if kind.get("logicalType") == "decimal":
        return {k: kind[k] for k in ("type", "logicalType", "precision", "scale") if k in kind}
    return kind["type"]


# What from_avro makes of a type without null.
_SPARK = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "string": "string",
    "bytes": "binary",
}  # fmt: skip


def _spark_type(kind: Any) -> str | None:
    if isinstance(kind, dict):
        digits, scale = kind["precision"], kind.get("scale", 0)
        return f"decimal({digits},{scale})" if digits <= MAX_SPARK_PRECISION else None
    return _SPARK.get(kind)


def _same(shown: Mapping[str, Column], types: Mapping[str, Any], wanted: Mapping[str, Column]) -> bool:
    """Spark reads just the newest version's columns, in their types; BIGINT UNSIGNED comes as signed, or as text."""
    return [*shown] == [*wanted] and all(_spark_type(types[n]) == spark_type(wanted[n]) for n in shown)


def _columns_first(document: Mapping[str, Any], writer: WriterSchema) -> bool:
    """The fields of the columns come before all others."""
    names = [c.name for c in writer.record.columns]
    return [f["name"] for f in document["fields"][: len(names)]] == names


def _row(fields: list[Any]) -> dict[str, Any]:
    """A field of a record of these fields: in Avro's binary form it is nothing but they."""
    return {"name": ROW, "type": {"type": "record", "name": ROW, "fields": fields}}


def _header(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Confluent's header as a field, which Avro skips: a message need not be cut, and so copied, to be read."""
    name = _free("_bridge_header", fields)
    return {"name": name, "type": {"type": "fixed", "name": name, "size": 5}}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _lean(kind: Any) -> Any:
    """A writer's type without what only people and Connect read: the plan's text has it again and again."""
    if isinstance(kind, list):
        return [_lean(k) for k in kind]
    if isinstance(kind, dict) and kind["type"] == "record":
        return {**kind, "fields": [{"name": f["name"], "type": _lean(f["type"])} for f in kind["fields"]]}
    return _bare(kind) if isinstance(kind, dict) and kind["type"] in _SPARK else kind


def _written(field: Mapping[str, Any]) -> Any:
    """A writer's type of a field, lean, the op as bytes."""
    return _EXTENSION[OP] if field["name"] == OP and field["type"] == "string" else _lean(field["type"])


def _fields(own: Mapping[str, Any], wanted: list[str], types: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A reader's fields; only what the writer lacks needs a default, which Avro's parser checks."""
    for name in wanted:
        if name not in own:
            yield {"name": name, "type": ["null", types[name]], "default": None}
        elif isinstance(own[name], list):
            yield {"name": name, "type": ["null", types[name]]}
        else:
            yield {"name": name, "type": types[name]}


def _before(own: Any, names: list[str], types: Mapping[str, Any]) -> dict[str, Any]:
    """The field of the old row, of which a writer may know nothing."""
    nothing: dict[str, Any] = {"name": BEFORE, "fields": []}
    old = next((b for b in own or () if b != "null"), nothing)
    head = {k: old[k] for k in ("name", "namespace") if k in old}
    fields = list(_fields({f["name"]: f["type"] for f in old["fields"]}, names, types))
    return {"name": BEFORE, "type": ["null", {"type": "record", **head, "fields": fields}], "default": None}
