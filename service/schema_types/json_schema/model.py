"""JSON schemas as objects: what is read of a schema document, and values that count as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ticdc_bridge.service.schema_types.java_text import Json, dump_json


class ValueNumbers:
    """Numbers for the values of one document. Each list and object is looked at once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self._kept: list[Json] = []  # so that no id() is given to another value

    def of(self, value: Json) -> int:
        waiting = [(value, False)]
        while waiting:
            item, ready = waiting.pop()
            if not isinstance(item, dict | list) or id(item) in self._known:
                continue
            if ready:
                self._known[id(item)] = self._number(item)
                self._kept.append(item)
            else:
                waiting.append((item, True))
                waiting += [(inner, False) for inner in (item.values() if isinstance(item, dict) else item)]
        return self._shape(value)

    def _shape(self, value: Json) -> int:
        if isinstance(value, dict | list):
            return self._known[id(value)]
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        return self._number_key((value,) if is_number else dump_json(value))  # 1 and 1.0 are one

    def _number(self, value: dict[str, Json] | list[Json]) -> int:
        if isinstance(value, dict):
            return self._number_key(frozenset((key, self._shape(item)) for key, item in value.items()))
        return self._number_key(tuple(self._shape(item) for item in value))

    def _number_key(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


Number = int | Decimal

ALL, ANY, ONE = "allOf", "anyOf", "oneOf"
CRITERIA: Final = (ALL, ANY, ONE)

_SHOWN_STEPS, _SHOWN_POINTER = 400, 400


class InvalidSchema(ValueError):
    """The text is JSON, but no JSON schema. The message says where and why."""


@dataclass(eq=False, slots=True)
class Document:
    """A schema text: the one that was sent, or one it refers to."""

    uri: str
    root: Json
    modern: bool
    draft: int
    locations: dict[int, SchemaLocation] = field(default_factory=dict)
    """By the id() of their raw value, so that two references to one schema meet in one node."""
    ids: dict[str, tuple[dict[str, Json], str]] | None = None
    """Schemas and their bases by the URI that `$id` or `$anchor` gives them. None until asked for."""
    shapes: ValueNumbers = field(default_factory=ValueNumbers)


class Node:
    """Base of all nodes."""

    __slots__ = ()


@dataclass(eq=False, slots=True)
class SchemaLocation:
    """A schema inside a document; node None until loaded. `base`: URI of its references; `parent`, `step`: its path."""

    raw: Json
    document: Document
    base: str
    parent: SchemaLocation | None = None
    step: str = ""
    node: Node | None = None
    leads_to: SchemaLocation | None = None

    def where(self, *more: str) -> str:
        """Its JSON pointer, for messages; a very long one is cut."""
        steps = [text for text in reversed(more) if text]
        location: SchemaLocation | None = self
        while location is not None and len(steps) < _SHOWN_STEPS:
            steps += [location.step] if location.step else []
            location = location.parent
        return "/".join(["#", *reversed(steps)])[:_SHOWN_POINTER]

    @property
    def has_default(self) -> bool:
        if not isinstance(self.raw, dict) or "default" not in self.raw:
            return False
        return self.raw["default"] is not None or not self.document.modern

    def identity(self) -> tuple[Any, ...]:
        """The same for two places of a document with the same schema, references not followed."""
        if self.is_subschema() and isinstance(self.node, Combined):
            # One of several combinations of one object: each says something else of it.
            return self.node.criterion, *(piece.identity() for piece in self.node.subschemas)
        name = self.node.name if isinstance(self.node, Simple) else type(self.node).__name__
        integer = isinstance(self.node, Numeric) and self.node.integer
        keyword = self.node.keyword if isinstance(self.node, Values) else ""
        if self.is_subschema() and isinstance(self.raw, dict):
            # One of several things that an object says: the object's other keywords are no part of it.
            node_keywords = {keyword} if self.node is None else _KEYWORDS.get(type(self.node), {keyword})
            said = node_keywords & self.raw.keys()
            return name, integer, keyword, frozenset((key, self.shape(key, self.raw[key])) for key in said)
        if not isinstance(self.raw, dict):
            return (self.raw,)
        return (frozenset((key, self.shape(key, value)) for key, value in self.raw.items() if self.says(key, value)),)

    def shape(self, keyword: str, value: Json) -> Any:
        """The same for values of a keyword that mean the same: an enum has no order."""
        shapes = self.document.shapes
        return frozenset(map(shapes.of, value)) if keyword == "enum" and isinstance(value, list) else shapes.of(value)

    def says(self, keyword: str, value: Json) -> bool:
        """True if Confluent's parsers keep a keyword: not its default, nor what the draft does not know."""
        modern, said = self.document.modern, "" if value and value is not True else dump_json(value)
        if isinstance(self.node, Ref) and not modern:
            return True  # what stands beside a `$ref` is not read
        if keyword == "format":
            return isinstance(value, str) and value in _FORMATS.get(self.document.draft, frozenset())
        return (keyword, said) not in _SILENT[modern] and not (modern and keyword in _NOT_KEPT)

    def is_subschema(self) -> bool:
        """True if this is one of several things that an object says."""
        return self.parent is not None and self.raw is self.parent.raw

    def referred(self) -> SchemaLocation:
        """The place itself or what its own reference leads to."""
        return self.node.target if isinstance(self.node, Ref) else self

    def is_reference_to_reference(self) -> bool:
        return isinstance(self.node, Ref) and isinstance(self.node.target.node, Ref)

    def target(self) -> SchemaLocation:
        """The place itself or what its reference leads to in the end; of a circle of references one of them."""
        if self.leads_to is None:
            way, location = {id(self): self}, self
            while isinstance(location.node, Ref) and location.leads_to is None:
                location = location.node.target
                if id(location) in way:
                    break
                way[id(location)] = location
            end = location.leads_to or location
            for step in way.values():
                step.leads_to = end
        return self.leads_to or self


@dataclass(eq=False, slots=True)
class Empty(Node):
    """Anything goes: `{}` or true."""


@dataclass(eq=False, slots=True)
class Never(Node):
    """Nothing goes: false."""


@dataclass(eq=False, slots=True)
class Simple(Node):
    """`null` or `boolean`, which have no keywords of their own, and `if`/`then`/`else`, which are not compared."""

    name: str


@dataclass(eq=False, slots=True)
class Ref(Node):
    target: SchemaLocation


@dataclass(eq=False, slots=True)
class Combined(Node):
    """`implied`: nobody wrote it, an object of draft 2019 or later says several things."""

    criterion: str
    subschemas: list[SchemaLocation]
    implied: bool = False

    def compared_subschemas(self) -> list[SchemaLocation]:
        """The parts as Confluent compares them: of a part that says several things, each of them."""
        return [
            piece
            for subschema in self.subschemas
            for piece in (
                subschema.node.subschemas
                if isinstance(subschema.node, Combined) and subschema.node.implied
                else [subschema]
            )
        ]


@dataclass(eq=False, slots=True)
class Not(Node):
    schema: SchemaLocation


@dataclass(eq=False, slots=True)
class Values(Node):
    """`enum` (keyword "enum") or `const`; the values as texts."""

    keyword: str
    values: frozenset[str]


@dataclass(eq=False, slots=True)
class Text(Node):
    limits: dict[str, Number] = field(default_factory=dict)
    pattern: str | None = None


@dataclass(eq=False, slots=True)
class Numeric(Node):
    limits: dict[str, Number] = field(default_factory=dict)
    integer: bool = False


@dataclass(eq=False, slots=True)
class Object(Node):
    limits: dict[str, Number] = field(default_factory=dict)
    properties: dict[str, SchemaLocation] = field(default_factory=dict)
    patterns: dict[str, SchemaLocation] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    needs: dict[str, set[str]] = field(default_factory=dict)
    """Properties that must be there when one is (`dependencies`, `dependentRequired`)."""
    then: dict[str, SchemaLocation] = field(default_factory=dict)
    """Schemas that must fit when a property is there (`dependencies`, `dependentSchemas`)."""
    additional: bool = True
    additional_schema: SchemaLocation | None = None
    unevaluated: SchemaLocation | None = None


@dataclass(eq=False, slots=True)
class Array(Node):
    limits: dict[str, Number] = field(default_factory=dict)
    all_items: SchemaLocation | None = None
    items: list[SchemaLocation] = field(default_factory=list)
    additional: bool = True
    additional_schema: SchemaLocation | None = None
    unevaluated: SchemaLocation | None = None
    unique: bool = False


Typed = Text | Numeric | Object | Array

_ALWAYS_SILENT: Final = frozenset(
    {("additionalProperties", "true"), ("uniqueItems", "false"), ("required", "[]")}
    | {("properties", "{}"), ("patternProperties", "{}")}
)
_SILENT: Final = {
    False: _ALWAYS_SILENT
    | {("additionalItems", "true"), ("dependencies", "{}")}
    | {("exclusiveMinimum", "false"), ("exclusiveMaximum", "false")},
    True: _ALWAYS_SILENT | {("default", "null"), ("dependentRequired", "{}"), ("dependentSchemas", "{}")},
}
"""Keywords with the value that says what is so without them; True: since draft 2019-09."""
_NOT_KEPT: Final = frozenset({"$id", "readOnly", "writeOnly", "deprecated"})
_FORMATS_OF_4: Final = frozenset({"date-time", "uri", "email", "ipv4", "ipv6", "hostname"})
_FORMATS_OF_6: Final = _FORMATS_OF_4 | {"json-pointer", "uri-reference", "uri-template"}
_FORMATS: Final = {
    4: _FORMATS_OF_4,
    6: _FORMATS_OF_6,
    7: _FORMATS_OF_6 | {"date", "time", "regex", "relative-json-pointer"},
}
"""By draft: what its parser knows; of later drafts it keeps none."""
_KEYWORDS: Final[dict[type[Node], frozenset[str]]] = {
    Ref: frozenset({"$ref", "$dynamicRef"}),
    Not: frozenset({"not"}),
    Simple: frozenset({"if", "then", "else"}),
    Text: frozenset({"type", "minLength", "maxLength", "pattern"}),
    Numeric: frozenset({"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    Object: frozenset(
        {"type", "properties", "required", "patternProperties", "additionalProperties", "propertyNames"}
        | {"dependencies", "dependentRequired", "dependentSchemas", "minProperties", "maxProperties"}
        | {"unevaluatedProperties"}
    ),
    Array: frozenset(
        {"type", "items", "prefixItems", "additionalItems", "contains", "uniqueItems", "minItems", "maxItems"}
        | {"unevaluatedItems"}
    ),
}
"""The keywords that a node is read from; of `Values` it is the one that the node names."""
