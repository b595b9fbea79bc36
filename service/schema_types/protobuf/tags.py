"""Tags inside a Protobuf schema: the list `tags` of the options `confluent.message_meta` and `confluent.field_meta`.

A path (`Outer.Inner.field`) has no package; before a field of a oneof the oneof's name may stand.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ticdc_bridge.service.schema_types.base import FIELD, RECORD, TaggedEntity, Tags, changed_tags
from ticdc_bridge.service.schema_types.java_text import hash_order
from ticdc_bridge.service.schema_types.protobuf.model import LIST, MAP, OPTION, Field, File, Message, Option, Value
from ticdc_bridge.service.schema_types.protobuf.options import merge_options

_META: Final = {RECORD: "confluent.message_meta", FIELD: "confluent.field_meta"}
_TAGS: Final = "tags"


def find(file: File) -> list[TaggedEntity]:
    """Every tagged message and field, a message before its fields and those before the messages in it."""
    return [name for type_ in file.types if isinstance(type_, Message) for name in _find(type_, type_.name)]


def _find(message: Message, path: str) -> Iterator[TaggedEntity]:
    yield from _direct_tags(message.options, path, RECORD)
    for field in (*(entry for oneof in message.oneofs for entry in oneof.fields), *message.fields):
        yield from _direct_tags(field.options, f"{path}.{field.name}", FIELD)
    for inner in message.types:
        if isinstance(inner, Message):
            yield from _find(inner, f"{path}.{inner.name}")


def _direct_tags(options: Sequence[Option], path: str, kind: str) -> Iterator[TaggedEntity]:
    tags = _tags_of(_merged(options).get(_META[kind]))
    if tags:
        yield TaggedEntity(path, kind, tuple(tag for tag in tags if isinstance(tag, str)))


def change(file: File, add: Tags, remove: Tags) -> File:
    """A copy of the file with tags added and removed. Raises ValueError for a part that is not there."""
    file = copy.deepcopy(file)
    for kind, path, added, removed in changed_tags(add, remove):
        steps = path.removeprefix(".").split(".")
        meta = _META.get(kind, _META[FIELD])
        new = [Option(meta, OPTION, Option(_TAGS, LIST, list(added)), True)] if added else []
        if kind == RECORD:
            message = _message(file, steps)
            message.options[:] = _changed([*message.options, *new], meta, removed)
        else:
            fields, at = _field(file, steps)
            fields[at] = replace(fields[at], options=tuple(_changed([*fields[at].options, *new], meta, removed)))
    return file


def _changed(options: Sequence[Option], meta: str, removed: set[str]) -> list[Option]:
    by_name = _merged(options)
    value = by_name[meta].value if meta in by_name and removed else None
    if isinstance(value, dict) and _TAGS in value:
        left = [tag for tag in _tags_of(by_name[meta]) if not isinstance(tag, str) or tag not in removed]
        rest = {key: left if key == _TAGS else entry for key, entry in value.items() if key != _TAGS or left}
        if rest:
            by_name[meta] = Option(meta, MAP, rest, True)
        else:
            del by_name[meta]  # it says nothing any more
    return [by_name[name] for name in hash_order(by_name)]


def _merged(options: Sequence[Option]) -> dict[str, Option]:
    """Options by name, each once."""
    by_name: dict[str, list[Option]] = {}
    for option in options:
        by_name.setdefault(option.name.removeprefix("."), []).append(option)
    return {name: merge_options(same) for name, same in by_name.items()}


def _tags_of(meta: Option | None) -> list[Value]:
    if meta is None or not isinstance(meta.value, dict):
        return []
    tags = meta.value.get(_TAGS, [])
    return tags if isinstance(tags, list) else [tags]


def _message(file: File, names: Sequence[str]) -> Message:
    types, message = file.types, None
    for name in names:
        message = next((type_ for type_ in types if isinstance(type_, Message) and type_.name == name), None)
        if message is None:
            break
        types = message.types
    if message is None:
        raise ValueError(f"No matching Message with name '{name}' found in the schema")
    return message


def _field(file: File, steps: Sequence[str]) -> tuple[list[Field], int]:
    """The list that holds a field, and its place there; the last step before the field may name a oneof."""
    *names, field_name = steps
    if not names:
        raise ValueError(f"No matching Field with name '{field_name}' found in the schema")
    try:
        message = _message(file, names)
        holders = [message.fields, *(oneof.fields for oneof in message.oneofs)]
    except ValueError:
        if len(names) < 2:
            raise
        message = _message(file, names[:-1])
        holders = [oneof.fields for oneof in message.oneofs if oneof.name == names[-1]]
    for fields in holders:
        for at, field in enumerate(fields):
            if field.name == field_name:
                return fields, at
    raise ValueError(f"No matching Field with name '{field_name}' found in the schema")
