"""The schema types. A new type is a class with the methods of `ParsedSchema` and a row in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from service.schema_types import base
from service.schema_types.avro import logical_types, tags
from service.schema_types.avro.canonical import canonical, normalized
from service.schema_types.avro.compatibility import AmbiguousAlias, incompatibilities
from service.schema_types.avro.model import Array, Map, Named, Node, Record, Union
from service.schema_types.avro.parse import parse
from service.schema_types.base import Comparable, Referenced, Tagged, Tags
from service.schema_types.json_schema.schema import parse_json
from service.schema_types.protobuf.schema import parse_protobuf


class ParsedSchema(Comparable, Protocol):
    """A schema that was understood; `text` (of Comparable) is its canonical form."""

    def normalized(self) -> str: ...
    def resolved(self) -> str:
        """The canonical text with references written out."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    node: Node
    known: frozenset[str] = frozenset()
    kind: str = "AVRO"
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical(self.node, self.known))

    def normalized(self) -> str:
        return normalized(self.node, self.known)

    def resolved(self) -> str:
        return canonical(self.node)

    def differences(self, writer: Comparable, reader_word: str, writer_word: str) -> list[str]:
        try:
            found = incompatibilities(self.node, cast(AvroSchema, writer).node)
        except AmbiguousAlias as error:
            return [f"Unexpected exception during compatibility check: {error}"]
        return [one.message(reader_word, writer_word) for one in found]

    # ---- abilities

    def formatted(self, format_: str) -> str:
        return self.resolved() if format_ == "resolved" else self.text

    def tags(self) -> list[Tagged]:
        return tags.find(self.node)

    def retagged(self, add: Tags, remove: Tags) -> str:
        return tags.change(self.text, add, remove)

    def field_names(self) -> list[str]:
        return [field.name for field in self.node.fields] if isinstance(self.node, Record) else []

    def logical_changes(self, old: object) -> list[base.LogicalChange]:
        return logical_types.changes(old.node, self.node) if isinstance(old, AvroSchema) else []


def parse_avro(text: str, referenced: Sequence[Referenced], strict: bool) -> AvroSchema:
    """Parse an Avro schema; `referenced` is what it refers to, each after those it needs itself.

    Raises ValueError with the reason.
    """
    known: dict[str, Named] = {}
    for one in {(one.subject, one.version): one.text for one in referenced}.values():
        collect(parse(one, known, strict=False), known)
    return AvroSchema(parse(text, known, strict=strict), frozenset(known))


def collect(node: Node, into: dict[str, Named]) -> None:
    """Add every named type of a tree by its full name."""
    match node:
        case Array():
            collect(node.items, into)
        case Map():
            collect(node.values, into)
        case Union():
            for branch in node.branches:
                collect(branch, into)
        case Named() if node.fullname not in into:
            into[node.fullname] = node
            for inner in node.fields if isinstance(node, Record) else ():
                collect(inner.type, into)


# The order is that of `GET /schemas/types`.
KINDS: Final[dict[str, Callable[[str, Sequence[Referenced], bool], ParsedSchema]]] = {
    "JSON": parse_json,
    "PROTOBUF": parse_protobuf,
    "AVRO": parse_avro,
}
