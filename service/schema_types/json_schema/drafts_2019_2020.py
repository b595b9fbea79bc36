"""Drafts 2019-09 and 2020-12, both read as 2020-12: what a schema object says.

Confluent reads these with another parser (json-sKema) and turns the result into the shape of the older drafts: every
keyword is a schema of its own, those of one type are merged, the rest becomes an `allOf`.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from ticdc_bridge.service.schema_types.json_schema import model
from ticdc_bridge.service.schema_types.json_schema.drafts_4_to_7 import combinations, combine_nodes, counts, subschema
from ticdc_bridge.service.schema_types.json_schema.fields import Fields

_STRINGS: Final = ("title", "description", "format")
_BOOLEANS: Final = ("readOnly", "writeOnly", "deprecated")
_NUMBERS: Final = ("minContains", "maxContains")

# The type that a keyword with a number belongs to.
_LIMITS: Final[dict[str, type[model.Typed]]] = {
    **dict.fromkeys(("minLength", "maxLength"), model.Text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), model.Numeric),
    **dict.fromkeys(("minProperties", "maxProperties"), model.Object),
    **dict.fromkeys(("minItems", "maxItems"), model.Array),
}
_TYPES: Final[dict[str, Callable[[], model.Typed | model.Simple]]] = {
    "string": model.Text, "integer": lambda: model.Numeric(integer=True), "number": model.Numeric,
    "boolean": lambda: model.Simple("boolean"), "null": lambda: model.Simple("null"), "array": model.Array,
    "object": model.Object,
}  # fmt: skip
_KNOWN: Final = frozenset((*_STRINGS, *_BOOLEANS, *_NUMBERS, *_LIMITS, *model.CRITERIA, *"""
    $id $anchor $dynamicRef $dynamicAnchor $ref $defs $schema $vocabulary type enum const not if then else default true
    false properties patternProperties additionalProperties propertyNames required dependentRequired dependentSchemas
    unevaluatedProperties pattern prefixItems items contains uniqueItems unevaluatedItems
""".split()))  # fmt: skip
"""The keywords that json-sKema knows."""
_N = TypeVar("_N", bound=model.Typed)


def build(fields: Fields) -> model.Node:
    """The node of a schema object. Raises InvalidSchema."""
    for keyword in _STRINGS:
        fields.string(keyword)
    for keyword in _BOOLEANS:
        fields.boolean(keyword)
    fields.schema("propertyNames")
    definitions = fields.schema_map("$defs")
    schema_nodes = _SchemaNodes(fields)
    schema_nodes.references()
    schema_nodes.combinations()
    schema_nodes.types()
    schema_nodes.limits()
    schema_nodes.objects()
    schema_nodes.arrays()
    schema_nodes.unevaluated()
    node = combine_nodes(fields.location, schema_nodes.nodes)
    if isinstance(node, model.Combined) and len(schema_nodes.nodes) > 1:
        node.implied = True
    if isinstance(node, model.Object | model.Array) and (definitions or not fields.raw.keys() <= _KNOWN):
        # Confluent keeps these where definitions and keywords that the parser does not know write over them.
        node.unevaluated = None
        node.limits = {keyword: bound for keyword, bound in node.limits.items() if keyword not in _NUMBERS}
    return node


class _SchemaNodes:
    """The nodes of one schema object; there is one of each type at most."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.nodes: list[model.Node] = []
        self.of_type: dict[type[model.Node], model.Typed] = {}

    def node_for(self, kind: type[_N]) -> _N:
        """The node that keywords of a type belong to; also one that `type` names among others."""
        if kind not in self.of_type:
            self.of_type[kind] = kind()
            self.nodes.append(self.of_type[kind])
        node = self.of_type[kind]
        assert isinstance(node, kind)
        return node

    def references(self) -> None:
        if "$ref" in self.fields.raw:
            self.nodes.append(model.Ref(self.fields.target()))
        dynamic = self.fields.string("$dynamicRef")
        if dynamic is not None:
            self.nodes.append(model.Ref(self.fields.resolve_reference(dynamic)))

    def combinations(self) -> None:
        self.nodes += combinations(self.fields)
        if "if" in self.fields.raw:
            for keyword in ("if", "then", "else"):
                self.fields.schema(keyword)
            self.nodes.append(model.Simple("conditional"))

    def types(self) -> None:
        fields, type_ = self.fields, self.fields.raw.get("type", "")
        if isinstance(type_, str):
            if "type" in fields.raw:
                self.nodes.append(self._type_node(type_))
            return
        if not isinstance(type_, list):
            raise fields.refuse("JsonArray or String", type_, "type")
        self.nodes.append(
            model.Combined(
                model.ANY, [subschema(fields.location, self._type_node(name)) for name in fields.strings("type")]
            )
        )

    def _type_node(self, name: str) -> model.Node:
        if name not in _TYPES:
            raise model.InvalidSchema(f"{self.fields.location.where()}: unknown type: [{name}]")
        node = _TYPES[name]()
        if not isinstance(node, model.Simple):
            self.of_type.setdefault(type(node), node)
        return node

    def limits(self) -> None:
        for keyword, kind in _LIMITS.items():
            bound = self.fields.number(keyword)
            if bound is not None:
                self.node_for(kind).limits[keyword] = bound
        pattern = self.fields.pattern("pattern")
        if pattern is not None:
            self.node_for(model.Text).pattern = pattern

    def objects(self) -> None:
        fields = self.fields
        properties, patterns = fields.schema_map("properties"), fields.pattern_map("patternProperties")
        speaking = ("required", "dependentRequired", "dependentSchemas", "additionalProperties", "propertyNames")
        if properties or patterns or any(keyword in fields.raw for keyword in speaking):
            node = self.node_for(model.Object)
            node.properties, node.patterns = properties, patterns
            node.required = set(fields.strings("required"))
            node.needs = fields.string_lists("dependentRequired")
            node.then = fields.schema_map("dependentSchemas")
            node.additional, node.additional_schema = rest(fields.schema("additionalProperties"))

    def arrays(self) -> None:
        fields = self.fields
        prefix = fields.schemas("prefixItems")
        if "prefixItems" in fields.raw:
            self.node_for(model.Array).items = prefix
        if "uniqueItems" in fields.raw:
            self.node_for(model.Array).unique = bool(fields.boolean("uniqueItems"))
        if "items" in fields.raw:
            node = self.node_for(model.Array)
            node.additional, schema = rest(fields.schema("items"))
            if prefix:
                node.additional_schema = schema
            else:
                node.all_items = schema
        if fields.schema("contains") is not None:
            self.node_for(model.Array).limits |= {"minContains": 1, **counts(fields)}

    def unevaluated(self) -> None:
        items, properties = (self.fields.schema(f"unevaluated{of}") for of in ("Items", "Properties"))
        if items is not None:
            self.node_for(model.Array).unevaluated = items
        if properties is not None:
            self.node_for(model.Object).unevaluated = properties


def rest(schema: model.SchemaLocation | None) -> tuple[bool, model.SchemaLocation | None]:
    """The meaning of a schema for the rest: whether more is allowed, and its schema if it says anything."""
    if schema is None or isinstance(schema.raw, bool):
        return schema is None or bool(schema.raw), None
    return True, schema
