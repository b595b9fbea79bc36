"""Tags inside an Avro schema: the property `confluent:tags` of records and fields.

A part is named by the record's full name (sr_record), or by that and the field's name (sr_field). Where tags are
changed the namespace may be left out: the first record with that name is meant.
"""

from collections.abc import Iterator
from typing import Any

from ticdc_bridge.service.schema_types import java_text
from ticdc_bridge.service.schema_types.avro.model import Array, Map, Node, Record, Union
from ticdc_bridge.service.schema_types.base import FIELD, RECORD, TaggedEntity, Tags, change_tags_in, tags_in


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
            yield from tags_in(node.props, node.fullname, RECORD)
            for field in node.fields:
                yield from tags_in(field.props, f"{node.fullname}.{field.name}", FIELD)
                yield from _find(field.type, seen_ids)


def change(text: str, add: Tags, remove: Tags) -> str:
    """The schema text with tags added and removed. Raises ValueError for a part that is not there."""
    value = java_text.load_avro(text)
    nodes = dict(reversed([*_named_nodes(value, "")]))
    change_tags_in(lambda kind, path: nodes.get((kind, path)), add, remove)
    return java_text.dump_json(value)


def _named_nodes(value: Any, space: str) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """The records and fields that are defined in a schema's JSON, by kind and path."""
    if isinstance(value, list):
        for branch in value:
            yield from _named_nodes(branch, space)
    if not isinstance(value, dict):
        return
    if value.get("type") in ("record", "error"):
        name = str(value.get("name"))
        fullname = name if "." in name else ".".join(filter(None, (value.get("namespace", space), name)))
        space, _, name = fullname.rpartition(".")
        yield from (((RECORD, path), value) for path in (fullname, name))
        for field in value.get("fields") or ():
            yield from (((FIELD, f"{path}.{field.get('name')}"), field) for path in (fullname, name))
            yield from _named_nodes(field.get("type"), space)
        return
    for inner in (value.get("items"), value.get("values"), value.get("type")):
        yield from _named_nodes(inner, space)
