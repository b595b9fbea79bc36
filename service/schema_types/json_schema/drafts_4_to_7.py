"""Drafts 4, 6 and 7: what a schema object says.

Rules observed of the parser that Confluent uses for these drafts (everit json-schema 1.14): `$ref` stands alone;
keywords of a type without `type` are a schema of that type; what an object says in several ways is an `allOf`. Keywords
that are not known, and `definitions` that nothing refers to, are not looked at.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from ticdc_bridge.service.schema_types.java_text import dump_json
from ticdc_bridge.service.schema_types.json_schema import model
from ticdc_bridge.service.schema_types.json_schema.fields import Fields
from ticdc_bridge.service.schema_types.json_schema.references import DRAFT_4

DRAFT_7: Final = 7

_NUMERIC: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_TEXT: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
_CONDITIONAL: Final = frozenset({"if", "then", "else"})
_COMMON: Final = frozenset({"id", "$id", "title", "description", "readOnly", "writeOnly"})
_TYPED_OR_COMBINED: Final = _COMMON | {"type", "enum", "const", "not", "$ref", "$schema", "default", *model.CRITERIA}
_ARRAY_4: Final = frozenset({"items", "additionalItems", "minItems", "maxItems", "uniqueItems"})
_OBJECT_4: Final = frozenset(
    {"properties", "required", "minProperties", "maxProperties", "dependencies"}
    | {"patternProperties", "additionalProperties"}
)


def build(fields: Fields) -> model.Node:
    """The node of a schema object. Raises InvalidSchema."""
    draft = fields.location.document.draft
    if fields.has_any(_COMMON):  # they say nothing here, but must have the right type
        for keyword in ("id" if draft == DRAFT_4 else "$id", "title", "description"):
            fields.string(keyword)
        for keyword in ("readOnly", "writeOnly") if draft == DRAFT_7 else ():
            fields.boolean(keyword)
    if "$ref" in fields.raw:
        return model.Ref(fields.target())
    nodes = combinations(fields)
    used: set[str] = set()  # the keywords of the types that `type` names
    type_ = fields.raw.get("type", "")
    if isinstance(type_, list):
        pieces = [subschema(fields.location, of_type(fields, name, used)) for name in fields.strings("type")]
        nodes.append(model.Combined(model.ANY, pieces))
    elif not isinstance(type_, str):
        raise fields.refuse("JsonArray or String", type_, "type")
    elif "type" in fields.raw:
        nodes.append(of_type(fields, type_, used))
    nodes += implied_nodes(fields, draft, used)
    node = combine_nodes(fields.location, nodes)
    if isinstance(node, model.Array):
        # Unknown to these drafts, but Confluent compares the numbers all the same.
        node.limits |= counts(fields)
    return node


def combinations(fields: Fields) -> list[model.Node]:
    """What `enum`, `const`, the combinations and `not` say, in any draft."""
    nodes: list[model.Node] = []
    if "enum" in fields.raw:
        nodes.append(model.Values("enum", frozenset(map(dump_json, fields.array("enum")))))
    if "const" in fields.raw and fields.location.document.draft != DRAFT_4:
        nodes.append(model.Values("const", frozenset({dump_json(fields.raw["const"])})))
    nodes += [model.Combined(key, fields.schemas(key)) for key in model.CRITERIA if key in fields.raw]
    negated = fields.schema("not")
    if negated is not None:
        nodes.append(model.Not(negated))
    return nodes


def combine_nodes(location: model.SchemaLocation, nodes: list[model.Node]) -> model.Node:
    if not nodes:
        return model.Empty()
    return model.Combined("allOf", [subschema(location, node) for node in nodes]) if len(nodes) > 1 else nodes[0]


def counts(fields: Fields) -> dict[str, model.Number]:
    """`minContains` and `maxContains`, where they are numbers."""
    bounds = {keyword: fields.raw.get(keyword) for keyword in ("minContains", "maxContains")}
    return {
        keyword: bound
        for keyword, bound in bounds.items()
        if isinstance(bound, int | Decimal) and not isinstance(bound, bool)
    }


def subschema(location: model.SchemaLocation, node: model.Node) -> model.SchemaLocation:
    return model.SchemaLocation(location.raw, location.document, location.base, location, node=node)


def of_type(fields: Fields, name: str, used: set[str]) -> model.Node:
    """The node of a type; the keywords that belong to it go into `used`."""
    if name not in _TYPES:
        raise model.InvalidSchema(f"{fields.location.where()}: unknown type: [{name}]")
    reader, keywords = _TYPES[name]
    used |= keywords
    return reader(fields)


def implied_nodes(fields: Fields, draft: int, used: set[str]) -> list[model.Node]:
    """The node of a type's keywords without `type`."""
    if fields.raw.keys() <= _TYPED_OR_COMBINED:  # nearly all of a big schema's objects
        return []
    newer = draft != DRAFT_4
    nodes: list[model.Node] = []
    for keywords, since_6, reader in _SNIFFED:
        candidates = (keywords | since_6 if newer else keywords) - used
        if fields.has_any(candidates):
            nodes.append(reader(fields))
    if draft >= DRAFT_7 and fields.has_any(_CONDITIONAL):
        for keyword in sorted(_CONDITIONAL):
            fields.schema(keyword)
        nodes.append(model.Simple("conditional"))
    return nodes


def text(fields: Fields) -> model.Text:
    fields.string("format")
    return model.Text(limits(fields, "minLength", "maxLength"), fields.pattern("pattern"))


def numeric(fields: Fields) -> model.Numeric:
    node = model.Numeric()
    exclusive = ("exclusiveMinimum", "exclusiveMaximum")
    for keyword in ("minimum", "maximum", "multipleOf", *(() if is_4(fields) else exclusive)):
        bound = fields.number(keyword)
        if bound is not None:
            node.limits[keyword] = bound
    if is_4(fields):
        for keyword in exclusive:
            fields.boolean(keyword)  # Confluent does not compare draft 4's switches
    if node.limits.get("multipleOf") == 0:
        raise model.InvalidSchema(f"{fields.location.where()}: multipleOf should not be 0")
    return node


def integer(fields: Fields) -> model.Numeric:
    node = numeric(fields)
    node.integer = True
    return node


def object_(fields: Fields) -> model.Object:
    node = model.Object(limits(fields, "minProperties", "maxProperties"))
    node.properties = fields.schema_map("properties")
    node.patterns = fields.pattern_map("patternProperties")
    node.required = set(fields.strings("required"))
    node.additional, node.additional_schema = rest(fields, "additionalProperties")
    for name, value in fields.object("dependencies").items():
        if isinstance(value, list):
            names = set(fields.names(value, "dependencies", name))
            node.needs |= {name: names} if names else {}
        elif isinstance(value, dict if is_4(fields) else dict | bool):
            node.then[name] = fields.at(value, "dependencies", name)
        else:
            kinds = "JsonArray or JsonObject" if is_4(fields) else "Boolean or JsonArray or JsonObject"
            raise fields.refuse(kinds, value, "dependencies", name)
    if not is_4(fields):
        fields.schema("propertyNames")
    return node


def array(fields: Fields) -> model.Array:
    node = model.Array(limits(fields, "minItems", "maxItems"), unique=bool(fields.boolean("uniqueItems")))
    node.additional, node.additional_schema = rest(fields, "additionalItems")
    if isinstance(fields.raw.get("items"), list):
        node.items = fields.schemas("items")
    elif isinstance(fields.raw.get("items", {}), dict if is_4(fields) else dict | bool):
        node.all_items = fields.schema("items")
        node.additional |= node.all_items is not None  # a schema of all items leaves no others
    else:
        kinds = "JsonArray or JsonObject" if is_4(fields) else "Boolean or JsonArray or JsonObject"
        raise fields.refuse(kinds, fields.raw["items"], "items")
    if not is_4(fields):
        fields.schema("contains")
    return node


def rest(fields: Fields, keyword: str) -> tuple[bool, model.SchemaLocation | None]:
    """`additionalProperties` or `additionalItems`: whether more is allowed, and the schema of it."""
    value = fields.raw.get(keyword, True)
    return (value, None) if isinstance(value, bool) else (True, fields.schema(keyword))


def limits(fields: Fields, *keywords: str) -> dict[str, model.Number]:
    bounds = {keyword: fields.integer(keyword) for keyword in keywords}
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None}


def is_4(fields: Fields) -> bool:
    return fields.location.document.draft == DRAFT_4


_OBJECT: Final = _OBJECT_4 | {"propertyNames"}
_ARRAY: Final = _ARRAY_4 | {"contains"}

_TYPES: Final[dict[str, tuple[Callable[[Fields], model.Node], frozenset[str]]]] = {
    "string": (text, _TEXT), "integer": (integer, _NUMERIC), "number": (numeric, _NUMERIC),
    "boolean": (lambda _: model.Simple("boolean"), frozenset()), "null": (lambda _: model.Simple("null"), frozenset()),
    "array": (array, _ARRAY), "object": (object_, _OBJECT),
}  # fmt: skip

# (keywords, those added by draft 6, reader)
_SNIFFED: Final[tuple[tuple[frozenset[str], frozenset[str], Callable[[Fields], model.Node]], ...]] = (
    (_ARRAY_4, frozenset({"contains"}), array), (_OBJECT_4, frozenset({"propertyNames"}), object_),
    (_NUMERIC, frozenset(), numeric), (_TEXT, frozenset(), text),
)  # fmt: skip
