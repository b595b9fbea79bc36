"""An Avro schema as a tree of nodes.

A named type is one object however often it is used, so recursion is a cycle in the tree. Nodes compare by identity:
the compatibility check remembers pairs of nodes, as Java's does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class _Missing:
    """The default of a field that has none (`null` is a default)."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(eq=False, slots=True)
class Node:
    """`kind` is the Avro type name; `props` are the attributes that Avro does not know, in the order written.

    `shared`: the canonical text of a node that stands for equal types in many places (`parse.SharedParts`), else "";
    `unordered`: its text as `canonical.unordered_text` has it.
    """

    kind: str
    props: dict[str, Any] = field(default_factory=dict, kw_only=True)
    shared: str = field(default="", kw_only=True)
    unordered: str = field(default="", kw_only=True)


@dataclass(eq=False, slots=True)
class Primitive(Node):
    pass


@dataclass(eq=False, slots=True)
class Array(Node):
    items: Node


@dataclass(eq=False, slots=True)
class Map(Node):
    values: Node


@dataclass(eq=False, slots=True)
class Union(Node):
    branches: list[Node]


@dataclass(eq=False, slots=True)
class NamedType(Node):
    """`aliases` are full names. `fullname` of a type without namespace is its name."""

    name: str
    namespace: str = ""
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)

    @property
    def fullname(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(eq=False, slots=True)
class Field:
    """`shared` and `unordered` are as in Node."""

    name: str
    type: Node
    doc: str | None = None
    default: Any = MISSING
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    props: dict[str, Any] = field(default_factory=dict)
    shared: str = ""
    unordered: str = ""


@dataclass(eq=False, slots=True)
class Record(NamedType):
    fields: list[Field] = field(default_factory=list)
    is_error: bool = False


@dataclass(eq=False, slots=True)
class Enum(NamedType):
    symbols: list[str] = field(default_factory=list)
    default: str | None = None


@dataclass(eq=False, slots=True)
class Fixed(NamedType):
    size: int = 0


@dataclass(eq=False, slots=True)
class PendingName(Node):
    """A name used before its definition; gone once the parser is done."""

    fullname: str


def union_name(node: Node) -> str:
    """The name that is unique within a union: the full name of a named type, else the type."""
    if isinstance(node, NamedType | PendingName):
        return node.fullname
    return node.kind


def names_nothing(node: Node) -> bool:
    """True if it is a primitive or a union of primitives: nothing in it can lead back to where it stands."""
    if isinstance(node, Union):
        return all(isinstance(branch, Primitive) for branch in node.branches)
    return isinstance(node, Primitive)


def is_same_plain(one: Node, other: Node) -> bool:
    """True if both are known to be the same type, one that names nothing; two that are not shared never are."""
    return one.shared == other.shared != ""
