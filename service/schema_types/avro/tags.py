"""Tags inside an Avro schema: the property `confluent:tags` of records and fields.

A part is named by the record's full name (sr_record), or by that and the field's name (sr_field).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ticdc_bridge.service.schema_types import java_text
from ticdc_bridge.service.schema_types.avro.model import Array, Map, Node, Record, Union
from ticdc_bridge.service.schema_types.base import TaggedEntity, Tags

PROPERTY: Final = "confluent:tags"
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"
_RECORDS: Final = ("record", "error")


def find(node: Node) -> list[TaggedEntity]:
    """Every tagged part, a record before its fields."""
    return list(_find(node, set()))


def _find(node: Node, seen_ids: set[int]) -> Iterator[TaggedEntity]:
    match node:
        case Array():
            yield from _find(node.items, seen_ids)
        case Map():
            yield from _find(node.values, seen_ids)
        case Union():
            for branch in node.branches:
                yield from _find(branch, seen_ids)
        case Record() if id(node) not in seen_ids:
            seen_ids.add(id(node))
            yield from _direct_tags(node.fullname, RECORD, node.props)
            for field in node.fields:
                yield from _direct_tags(f"{node.fullname}.{field.name}", FIELD, field.props)
                yield from _find(field.type, seen_ids)


def _direct_tags(path: str, kind: str, props: dict[str, Any]) -> Iterator[TaggedEntity]:
    tags = props.get(PROPERTY)
    if isinstance(tags, list) and tags:
        yield TaggedEntity(path, kind, tuple(map(str, tags)))


def change(text: str, add: Tags, remove: Tags) -> str:
    """The schema text with tags added and removed. Raises ValueError for a part that is not there."""
    value = java_text.load_avro(text)
    nodes = dict(_named_nodes(value, ""))
    for entity in dict.fromkeys((entry.kind, entry.path) for entry in (*add, *remove)):
        node = nodes.get(entity)
        if node is None:
            raise ValueError(f"No matching path '{entity[1]}' found in the schema")
        tags = dict.fromkeys(node.get(PROPERTY) or ())
        tags |= dict.fromkeys(tag for entry in add if (entry.kind, entry.path) == entity for tag in entry.tags)
        removed_tags = {tag for entry in remove if (entry.kind, entry.path) == entity for tag in entry.tags}
        node[PROPERTY] = [tag for tag in tags if tag not in removed_tags]
        if not node[PROPERTY]:
            del node[PROPERTY]
    return java_text.dump_json(value)


def _named_nodes(value: Any, space: str) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """The records and fields that are defined in a schema's JSON, by kind and path."""
    if isinstance(value, list):
        for branch in value:
            yield from _named_nodes(branch, space)
    if not isinstance(value, dict):
        return
    if value.get("type") in _RECORDS:
        name = str(value.get("name"))
        fullname = name if "." in name else ".".join(filter(None, (value.get("namespace", space), name)))
        yield (RECORD, fullname), value
        for field in value.get("fields") or ():
            yield (FIELD, f"{fullname}.{field.get('name')}"), field
            yield from _named_nodes(field.get("type"), fullname.rpartition(".")[0])
        return
    for inner in (value.get("items"), value.get("values"), value.get("type")):
        yield from _named_nodes(inner, space)
