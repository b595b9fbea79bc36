"""The schema types. A new type is a class with the methods of `ParsedSchema` and a row in `KINDS`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.avro import logical_types, tags
from ticdc_bridge.service.schema_types.avro.canonical import canonical_text, normalized_text, unordered_text
from ticdc_bridge.service.schema_types.avro.compatibility import AmbiguousAlias, incompatibilities
from ticdc_bridge.service.schema_types.avro.model import Array, Map, NamedType, Node, Record, Union
from ticdc_bridge.service.schema_types.avro.parse import check_names, parse
from ticdc_bridge.service.schema_types.base import Comparable, ReferencedText, TaggedEntity, Tags


class ParsedSchema(Comparable, Protocol):
    """A schema that was understood; `text` (of Comparable) is its canonical form."""

    def check_validity(self) -> None:
        """What a new schema has to stand besides being read. Raises ValueError; what is imported may have a
        SchemaValidityError.
        """

    def normalized_text(self) -> str: ...
    def unordered_text(self, *, normalized: bool = False, resolved: bool = False) -> str:
        """A text that is equal for schemas that look-ups take for the same.

        `normalized`: of what `normalized_text` says; `resolved`: with references written out.
        """

    def field_names(self) -> list[str]:
        """The named fields of the outermost part."""

    def tags(self) -> list[TaggedEntity]: ...
    def change_tags(self, add: Tags, remove: Tags) -> str:
        """The text with tags added and removed. Raises ValueError for a part that is not there."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """`known`: types that its references define; `named`: those that are a whole reference, and stand as names."""

    node: Node
    known: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    kind: str = "AVRO"
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical_text(self.node, self.named))

    def check_validity(self) -> None:
        """What was not read strictly needs names all the same. Raises AvroSchemaError."""
        types: dict[str, NamedType] = {}
        collect(self.node, types)
        check_names(types.values())

    def normalized_text(self) -> str:
        return normalized_text(self.node, self.named)

    def unordered_text(self, *, normalized: bool = False, resolved: bool = False) -> str:
        return unordered_text(self.node, () if resolved else self.known, normalized=normalized)

    def differences(self, writer: Comparable, reader_word: str, writer_word: str) -> list[str]:
        try:
            problems = incompatibilities(self.node, cast(AvroSchema, writer).node)
        except (AmbiguousAlias, base.ComparisonTooLarge) as error:
            return [f"Unexpected exception during compatibility check: {error}"]
        return [problem.message(reader_word, writer_word) for problem in problems]

    # ---- abilities

    def format_text(self, format_: str) -> str:
        return canonical_text(self.node) if format_ == "resolved" else self.text

    def tags(self) -> list[TaggedEntity]:
        return tags.find(self.node)

    def change_tags(self, add: Tags, remove: Tags) -> str:
        return tags.change(self.text, add, remove)

    def field_names(self) -> list[str]:
        return [field.name for field in self.node.fields] if isinstance(self.node, Record) else []

    def logical_changes(self, old: object) -> list[base.LogicalChange]:
        return logical_types.changes(old.node, self.node) if isinstance(old, AvroSchema) else []


def parse_avro(text: str, referenced: Sequence[ReferencedText], strict: bool) -> AvroSchema:
    """`referenced`: what it refers to, each after those it needs itself. Raises ValueError with the reason."""
    named_types: dict[str, NamedType] = {}
    roots: list[Node] = []
    for value in {(entry.subject, entry.version): entry.text for entry in referenced}.values():
        roots.append(parse(value, named_types, strict=False))
        collect(roots[-1], named_types)
    named = frozenset(root.fullname for root in roots if isinstance(root, NamedType))
    return AvroSchema(parse(text, named_types, strict=strict), frozenset(named_types), named)


def collect(node: Node, into: dict[str, NamedType]) -> None:
    """Add every named type of a tree by its full name."""
    match node:
        case Array():
            collect(node.items, into)
        case Map():
            collect(node.values, into)
        case Union():
            for branch in node.branches:
                collect(branch, into)
        case NamedType() if node.fullname not in into:
            into[node.fullname] = node
            for inner in node.fields if isinstance(node, Record) else ():
                collect(inner.type, into)


# Most registries hold Avro alone, and a start need not wait for the others.
def _parse_json(text: str, referenced: Sequence[ReferencedText], strict: bool) -> ParsedSchema:
    from ticdc_bridge.service.schema_types.json_schema.schema import parse_json

    return parse_json(text, referenced, strict)


def _parse_protobuf(text: str, referenced: Sequence[ReferencedText], strict: bool) -> ParsedSchema:
    from ticdc_bridge.service.schema_types.protobuf.schema import parse_protobuf

    return parse_protobuf(text, referenced, strict)


# The order is that of `GET /schemas/types`.
KINDS: Final[dict[str, Callable[[str, Sequence[ReferencedText], bool], ParsedSchema]]] = {
    "JSON": _parse_json,
    "PROTOBUF": _parse_protobuf,
    "AVRO": parse_avro,
}
