"""An Avro schema as a tree of nodes: a named type is one object however often it is used, so recursion is a cycle.

Nodes compare by identity: the compatibility check remembers pairs of nodes, as Java's does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

MISSING: Final = object()
"""The default of a field that has none (`null` is a default)."""


@dataclass(eq=False, slots=True)
class Node:
    """`kind` is the Avro type name; `props` are the attributes that Avro does not know, in the order written.

    `shared`: the canonical text of a node that stands for equal types in many places (`shared_type` in parse), else "";
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
    return node.fullname if isinstance(node, NamedType | PendingName) else node.kind


def names_nothing(node: Node) -> bool:
    """True if it is a primitive or a union of primitives: nothing in it can lead back to where it stands."""
    if isinstance(node, Union):
        return all(isinstance(branch, Primitive) for branch in node.branches)
    return isinstance(node, Primitive)


def is_same_plain(node: Node, other: Node) -> bool:
    """True if both are known to be the same type, one that names nothing; two that are not shared never are."""
    return node.shared == other.shared != ""


_INT, _LONG = 1 << 31, 1 << 63


def _is_integer(value: Any, bound: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# Size of a fixed and symbols of an enum are not looked at; neither does Java.
_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None, "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_integer(value, _INT), "long": lambda value: _is_integer(value, _LONG),
    "float": _is_number, "double": _is_number, "bytes": _is_text, "string": _is_text, "enum": _is_text,
    "fixed": _is_text,
}  # fmt: skip


def is_valid_default(node: Node, value: Any) -> bool:
    """True if `value` (parsed JSON) may stand as the default of a field of this type."""
    return _valid(node, value, {})


def _valid(node: Node, value: Any, answers: dict[tuple[int, int], bool]) -> bool:
    """`answers`: what was answered, as nested unions ask again and again. A default that needs itself is not valid."""
    if not isinstance(node, Union | Array | Map | Record):
        return _CHECKS[node.kind](value)
    key = (id(node), id(value))
    if key in answers:
        return answers[key]
    valid = answers[key] = False
    match node:
        case Union():
            valid = any(_valid(branch, value, answers) for branch in node.branches)
        case Array():
            valid = isinstance(value, list) and all(_valid(node.items, item, answers) for item in value)
        case Map():
            valid = isinstance(value, dict) and all(_valid(node.values, item, answers) for item in value.values())
        case Record() if isinstance(value, dict):
            pairs = [(field.type, value.get(field.name, field.default)) for field in node.fields]
            valid = all(item is not MISSING and _valid(kind, item, answers) for kind, item in pairs)
    answers[key] = valid
    return valid
