"""Tags inside a JSON schema: the keyword `confluent:tags` of objects and their properties.

A path leads through what schemas are, in small letters: `object.ssn` is a property, `object.address.object.city` one of
a property, `array` its items, `anyof.0` the first of a combination, `object.definitions.X` a definition. Parts of a
combination are counted in an order of their own (Confluent's `JsonSchemaComparator`), not in that of the text.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from ticdc_bridge.service.schema_types.base import TaggedEntity, Tags
from ticdc_bridge.service.schema_types.java_text import Json, dump_json
from ticdc_bridge.service.schema_types.json_schema import model
from ticdc_bridge.service.schema_types.json_schema.load import load

PROPERTY: Final = "confluent:tags"
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"

_COMBINATIONS: Final = {criterion.lower(): criterion for criterion in model.CRITERIA}
_DEFINITIONS: Final = ("definitions", "$defs")
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
                yield from _direct_tags(index.raw, name, RECORD)
            for field, inner in properties.items():
                yield from _direct_tags(inner.raw, f"{name}.{field}", FIELD)
                yield from _find(inner, f"{name}.{field}.", seen, in_field=True)


def _direct_tags(raw: Json, path: str, kind: str) -> Iterator[TaggedEntity]:
    tags = raw.get(PROPERTY) if isinstance(raw, dict) else None
    if isinstance(tags, list) and tags:
        yield TaggedEntity(path, kind, tuple(map(str, tags)))


def change(value: Json, add: Tags, remove: Tags) -> str:
    """The schema text with tags added and removed. Raises ValueError for a part that is not there."""
    value = copy.deepcopy(value)
    for kind, path in dict.fromkeys((entry.kind, entry.path) for entry in (*add, *remove)):
        node = _subschema(value, kind, path.split("."))
        if not isinstance(node, dict):
            raise ValueError(f"No matching path '{path}' found in the schema")
        properties = node.get(PROPERTY)
        tags = dict.fromkeys(map(str, properties) if isinstance(properties, list) else ())
        tags |= dict.fromkeys(tag for entry in add if (entry.kind, entry.path) == (kind, path) for tag in entry.tags)
        removed = {tag for entry in remove if (entry.kind, entry.path) == (kind, path) for tag in entry.tags}
        node[PROPERTY] = [tag for tag in tags if tag not in removed]
        if not node[PROPERTY]:
            del node[PROPERTY]
    return dump_json(value)


def _subschema(value: Json, kind: str, steps: list[str]) -> Json:
    """The part that a path leads to; None if there is no such part. A property's name may hold points itself."""
    while steps and isinstance(value, dict):
        step, *steps = steps
        if step == "object":
            if not steps:
                return value if kind == RECORD else None
            holder = steps.pop(0) if steps[0] in _DEFINITIONS else "properties"
            value, steps = _member(value.get(holder), steps)
            if not steps:
                return value
        elif step == "array":
            value = value.get("items")
        elif step == "not":
            value = value.get("not")
        elif step in _COMBINATIONS and isinstance(value.get(_COMBINATIONS[step]), list):
            value = _numbered(value[_COMBINATIONS[step]], steps.pop(0) if steps else "")
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


def _numbered(subschemas: list[Json], number: str) -> Json:
    in_order = sorted(subschemas, key=_key_of)
    return in_order[int(number)] if number.isascii() and number.isdigit() and int(number) < len(subschemas) else None


def _key_of(raw: Json) -> tuple[Any, ...]:
    try:
        node = load(raw).node
    except model.InvalidSchema:
        node = None  # it refers to something outside
    return _sort_key(raw, node)


def _sort_key(raw: Json, node: model.Node | None) -> tuple[Any, ...]:
    """By type, then by what is said about it, then by names; what has none of a text comes first."""
    match node:
        case model.Simple(name) | model.Values(name):
            kind = name
        case None:
            kind = "Ref"
        case _:
            kind = type(node).__name__
    said = raw if isinstance(raw, dict) else {}
    texts = tuple(
        (key in said, said[key] if isinstance(said.get(key), str) else dump_json(said.get(key)))
        for key in ("title", "description", "default")
    )
    return _ORDER.index(kind), texts, _names(said, node)


def _names(said: dict[str, Json], node: model.Node | None) -> tuple[Any, ...]:
    match node:
        case model.Values():
            return _counted(node.values)
        case model.Combined():
            return node.criterion, len(node.parts)
        case model.Object():
            return *_counted(node.properties), *_counted(node.required)
    return ()


def _counted(names: Any) -> tuple[Any, ...]:
    in_order = sorted(names)
    return len(in_order), tuple(in_order)
