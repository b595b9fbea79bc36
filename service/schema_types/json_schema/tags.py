"""Tags inside a JSON schema: the keyword `confluent:tags` of objects and their properties.

A path leads through what schemas are, in small letters: `object.ssn` is a property, `object.address.object.city` one of
a property, `array` its items, `anyof.0` the first of a combination, `object.definitions.X` a definition. Parts of a
combination are counted in an order of their own (Confluent's `JsonSchemaComparator`), not in that of the text.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

from ticdc_bridge.service.schema_types.base import FIELD, RECORD, TaggedEntity, Tags, change_tags_in, tags_in
from ticdc_bridge.service.schema_types.java_text import Json, dump_json
from ticdc_bridge.service.schema_types.json_schema import model
from ticdc_bridge.service.schema_types.json_schema.load import load

_COMBINATIONS: Final = {criterion.lower(): criterion for criterion in model.CRITERIA}
_ORDER: Final = (
    "Array", "boolean", "Combined", "conditional", "const", "Empty", "enum", "Never", "Not", "null", "Numeric",
    "Object", "Ref", "Text",
)  # fmt: skip


def find(root: model.SchemaLocation) -> list[TaggedEntity]:
    """Every tagged part that a path can name; references are not followed."""
    return list(_find(root, "", set(), in_field=False))


def _find(index: model.SchemaLocation, scope: str, seen: set[str], *, in_field: bool) -> Iterator[TaggedEntity]:
    match index.node:
        case model.Combined(criterion, pieces):
            for at, inner in enumerate(sorted(pieces, key=lambda entry: _sort_key(entry.raw, entry.node))):
                yield from _find(inner, f"{scope}{criterion.lower()}.{at}.", seen, in_field=False)
        case model.Array(all_items=model.SchemaLocation() as items):
            yield from _find(items, f"{scope}array.", seen, in_field=False)
        case model.Not(schema):
            yield from _find(schema, f"{scope}not.", seen, in_field=False)
        case model.Object(properties=properties) if f"{scope}object" not in seen:
            name = f"{scope}object"
            seen.add(name)
            if not in_field:
                yield from tags_in(index.raw, name, RECORD)
            for field, inner in properties.items():
                yield from tags_in(inner.raw, f"{name}.{field}", FIELD)
                yield from _find(inner, f"{name}.{field}.", seen, in_field=True)


def change(value: Json, add: Tags, remove: Tags) -> str:
    """The schema text with tags added and removed. Raises ValueError for a part that is not there."""
    value = copy.deepcopy(value)
    change_tags_in(lambda kind, path: _subschema(value, kind, path.split(".")), add, remove)
    return dump_json(value)


def _subschema(value: Json, kind: str, steps: list[str]) -> Json:
    """The part that a path leads to; None if there is no such part. A property's name may hold points itself."""
    while steps and isinstance(value, dict):
        step, *steps = steps
        if step == "object":
            if not steps:
                return value if kind == RECORD else None
            holder = steps.pop(0) if steps[0] in ("definitions", "$defs") else "properties"
            value, steps = _member(value.get(holder), steps)
            if not steps:
                return value
        elif step == "array":
            value = value.get("items")
        elif step == "not":
            value = value.get("not")
        elif step in _COMBINATIONS and isinstance(value.get(_COMBINATIONS[step]), list):
            pieces, number = sorted(value[_COMBINATIONS[step]], key=_key_of), steps.pop(0) if steps else ""
            numbered = number.isascii() and number.isdigit() and int(number) < len(pieces)
            value = pieces[int(number)] if numbered else None
        elif step in ("anyof", "allof") and steps:
            # One object says several things: the number says which, and it is the object itself.
            steps = steps[1:]
            if step == "allof" and steps[:1] == ["conditional"]:
                value, steps = value.get(steps[1]) if steps[1:] else None, steps[2:]
        else:
            return None
    return None


def _member(holder: Json, steps: list[str]) -> tuple[Json, list[str]]:
    if isinstance(holder, dict):
        for count in range(1, len(steps) + 1):
            name = ".".join(steps[:count])
            if name in holder:
                return holder[name], steps[count:]
    return None, []


def _key_of(raw: Json) -> tuple[Any, ...]:
    try:
        node = load(raw).node
    except model.InvalidSchema:
        node = None  # it refers to something outside
    return _sort_key(raw, node)


def _sort_key(raw: Json, node: model.Node | None) -> tuple[Any, ...]:
    """By type, then by what is said about it, then by names; what has none of a text comes first."""
    kind, names = "Ref" if node is None else type(node).__name__, tuple[Any, ...]()
    match node:
        case model.Simple():
            kind = node.name
        case model.Values():
            kind, names = node.keyword, _counted(node.values)
        case model.Combined():
            names = node.criterion, len(node.subschemas)
        case model.Object():
            names = *_counted(node.properties), *_counted(node.required)
    said = raw if isinstance(raw, dict) else {}
    texts = tuple(
        (key in said, said[key] if isinstance(said.get(key), str) else dump_json(said.get(key)))
        for key in ("title", "description", "default")
    )
    return _ORDER.index(kind), texts, names


def _counted(names: Any) -> tuple[Any, ...]:
    in_order = sorted(names)
    return len(in_order), tuple(in_order)
