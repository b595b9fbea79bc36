"""Can data written with one Protobuf schema be read with another? Confluent's verdicts and messages (captured).

Fields are matched by number within a message, messages by name. New messages and fields, renamed fields, anything
about enums, services, options and reserved numbers is compatible to Confluent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ticdc_bridge.service.schema_types.java_text import hash_order
from ticdc_bridge.service.schema_types.protobuf.model import SCALARS, Enum, File, Message, map_types
from ticdc_bridge.service.schema_types.protobuf.scopes import DeclaredNames, DeclaredType, Scope

# {path}, {reader} and {writer} are filled in.
_DESCRIPTIONS: Final = {
    "PACKAGE_CHANGED": "The package at '{path}' in the {reader} schema does not match the package in the {writer} "
    "schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {reader} schema does not match the {writer} "
    "schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match "
    "its kind in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match "
    "its type in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{path}' in the {reader} schema does not "
    "match its label in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "A required field  at path '{path}' in the {reader} schema is missing in the {writer} "
    "schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path: '{path}' in the {writer} "
    "schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {reader} schema are "
    "outside a oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{path}' in the {reader} schema is outside an "
    "existing oneof in the {writer} schema",
}

# Kinds whose encodings can be read as one another. Enums count as numbers.
_KINDS: Final = {
    name: kind
    for kind, names in {
        "number": ("int32", "int64", "uint32", "uint64", "bool"),
        "signed": ("sint32", "sint64"),
        "text": ("string", "bytes"),
        "fixed32": ("fixed32", "sfixed32"),
        "fixed64": ("fixed64", "sfixed64"),
        "float": ("float",),
        "double": ("double",),
    }.items()
    for name in names
}
_MAX_FOUND: Final = 1000
_MAX_FIELDS: Final = 1_000_000
_MAX_DEPTH: Final = 100

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProtobufIncompatibility:
    type: str
    path: Path

    def message(self, reader: str, writer: str) -> str:
        """Confluent's text; `reader` and `writer` are the words "new" and "old" in the order of the direction."""
        what = _DESCRIPTIONS[self.type].format(path="#/" + "/".join(self.path), reader=reader, writer=writer)
        return f'{{errorType:"{self.type}", description:"{what}"}}'


@dataclass(frozen=True, slots=True)
class _Position:
    """Where the comparison is: the scope in both schemas, and the path to report."""

    old: Scope
    new: Scope
    path: Path

    def enter(self, name: str) -> _Position:
        return _Position(self.old.enter(name), self.new.enter(name), (*self.path, name))

    def below(self, *pieces: object) -> _Position:
        return _Position(self.old, self.new, (*self.path, *map(str, pieces)))


def incompatibilities(
    old: File, old_types: DeclaredNames, new: File, new_types: DeclaredNames
) -> list[ProtobufIncompatibility]:
    """What keeps `new` from reading what `old` wrote; [] when nothing does. At most 1000.

    Raises ValueError for schemas that can't be compared: types nested in one another beyond all bounds, a map entry
    without its value.
    """
    comparison = _Comparison(old_types, new_types)
    problems: list[ProtobufIncompatibility] = []
    if old.package != new.package:
        problems.append(ProtobufIncompatibility("PACKAGE_CHANGED", ()))
    at = _Position(old_types.scope(old.package), new_types.scope(new.package), ())
    return (problems + comparison.types(at, old.types, new.types))[:_MAX_FOUND]


class _Comparison:
    def __init__(self, old: DeclaredNames, new: DeclaredNames) -> None:
        self.old = old
        self.new = new
        self.active: set[int] = set()
        self.fields_left = _MAX_FIELDS
        self.guarded = 0
        self.known: dict[tuple[int, int], list[ProtobufIncompatibility]] = {}

    def types(
        self, at: _Position, old: Sequence[Message | Enum], new: Sequence[Message | Enum]
    ) -> list[ProtobufIncompatibility]:
        problems: list[ProtobufIncompatibility] = []
        olds = {entry.name: entry for entry in old if isinstance(entry, Message)}
        news = {entry.name: entry for entry in new if isinstance(entry, Message)}
        for name in hash_order(hash_order(olds), hash_order(news)):
            inside = at.enter(name)
            if name not in news:
                declared = inside.old.type(name)
                if declared is not None and declared.map_type() is None:
                    problems.append(ProtobufIncompatibility("MESSAGE_REMOVED", inside.path))
            elif name in olds:
                problems += self.message(inside, olds[name], news[name])
            del problems[_MAX_FOUND:]
        return problems

    def message(self, at: _Position, old: Message, new: Message) -> list[ProtobufIncompatibility]:
        """The fields of a message that is being compared already are not looked at again, its nested types are."""
        problems: list[ProtobufIncompatibility] = []
        entered = id(old) not in self.active
        if entered:
            if len(self.active) >= _MAX_DEPTH:
                raise ValueError(f"messages refer to one another more than {_MAX_DEPTH} levels deep")
            self.active.add(id(old))
            problems += self.fields(at, old, new)
        else:
            self.guarded += 1
        problems += self.types(at, old.types, new.types)
        if entered:
            self.active.discard(id(old))
        return problems[:_MAX_FOUND]

    def fields(self, at: _Position, old: Message, new: Message) -> list[ProtobufIncompatibility]:
        before, after = _Fields(old), _Fields(new)
        problems = find_exclusive(at, before, after, new)
        gone_oneofs = before.gone_oneofs(after)
        tags = sorted(before.by_tag.keys() | after.by_tag.keys())
        self.fields_left -= len(tags)
        if self.fields_left < 0:
            raise ValueError(f"more than {_MAX_FIELDS} fields to compare")
        for tag in tags:
            was, is_ = before.by_tag.get(tag), after.by_tag.get(tag)
            if was is None:
                if is_ is not None and tag not in after.oneof and is_.label == "required":
                    problems.append(ProtobufIncompatibility("REQUIRED_FIELD_ADDED", (*at.path, str(tag))))
            elif is_ is None:
                oneof = before.oneof.get(tag)
                if oneof is None:
                    if was.label == "required":
                        problems.append(ProtobufIncompatibility("REQUIRED_FIELD_REMOVED", (*at.path, str(tag))))
                elif oneof not in gone_oneofs:
                    problems.append(ProtobufIncompatibility("ONEOF_FIELD_REMOVED", (*at.path, oneof, str(tag))))
            else:
                index = at.below(after.oneof[tag], tag) if tag in after.oneof else at.below(tag)
                problems += self.field_types(index, (was.label, is_.label), was.type, is_.type)
            del problems[_MAX_FOUND:]
        return problems

    def field_types(
        self, at: _Position, labels: tuple[str | None, str | None], old: str, new: str
    ) -> list[ProtobufIncompatibility]:
        was, is_ = at.old.type(old), at.new.type(new)
        old = (was.map_type() if was else None) or old
        new = (is_.map_type() if is_ else None) or new
        old_map, new_map = map_types(old), map_types(new)
        if old_map and new_map:
            pairs = zip(old_map, new_map, strict=True)
            return [type_ for before, after in pairs for type_ in self.field_types(at, (None, None), before, after)]
        scalars = scalar_kind(old, was), scalar_kind(new, is_)
        if old_map or new_map or (scalars[0] is None) != (scalars[1] is None):
            return [ProtobufIncompatibility("FIELD_KIND_CHANGED", at.path)]
        if scalars[0] is None:
            return self.message_types(at, was, is_, old == new)
        if scalars[0] != scalars[1]:
            return [ProtobufIncompatibility("FIELD_SCALAR_KIND_CHANGED", at.path)]
        if None not in labels and labels[0] != labels[1] and scalars[0] != "text":
            return [ProtobufIncompatibility("FIELD_NUMERIC_LABEL_CHANGED", at.path)]
        return []

    def message_types(
        self, at: _Position, old: DeclaredType | None, new: DeclaredType | None, same_name: bool
    ) -> list[ProtobufIncompatibility]:
        """Messages of other schemas are compared here; the schema's own are compared where they are declared."""
        changed = ProtobufIncompatibility("FIELD_NAMED_TYPE_CHANGED", at.path)
        if old is None or new is None:
            return [] if same_name else [changed]
        if ".".join(old.local) != ".".join(new.local):
            return [changed]
        if old.type is new.type or (old.origin is not None and old.origin == new.origin):
            return []
        problems = self.compare_referenced(old, new)
        return [*problems, changed] if problems else []

    def compare_referenced(self, old: DeclaredType, new: DeclaredType) -> list[ProtobufIncompatibility]:
        """Remembered, unless a message that is being compared was met: then it holds for this place only."""
        pair = id(old.type), id(new.type)
        if pair in self.known:
            return self.known[pair]
        assert isinstance(old.type, Message)
        assert isinstance(new.type, Message)
        before = self.guarded
        path = tuple(".".join(old.local).split("."))
        at = _Position(self.old.scope(old.package, *path), self.new.scope(new.package, *path), path)
        problems = self.message(at, old.type, new.type)
        if self.guarded == before:
            self.known[pair] = problems
        return problems


class _Fields:
    def __init__(self, message: Message) -> None:
        self.by_tag = {field.tag: field for field in message.fields}
        self.oneof: dict[int, str] = {}
        self.members: dict[str, list[int]] = {}
        for oneof in message.oneofs:
            self.members[oneof.name] = [field.tag for field in oneof.fields]
            for field in oneof.fields:
                self.by_tag[field.tag] = field
                self.oneof[field.tag] = oneof.name

    def gone_oneofs(self, after: _Fields) -> set[str]:
        """Oneofs that are gone with all their fields, which is compatible."""
        gone = {name: tags for name, tags in self.members.items() if name not in after.members}
        return {name for name, tags in gone.items() if not any(tag in after.by_tag for tag in tags)}


def find_exclusive(at: _Position, before: _Fields, after: _Fields, new: Message) -> list[ProtobufIncompatibility]:
    """Fields that could be set together and no longer can, being in one oneof now."""
    problems = []
    for oneof in new.oneofs:
        groups: set[str | int] = set()
        alone = 0
        for field in oneof.fields:
            if field.tag in before.oneof:
                groups.add(before.oneof[field.tag])
            elif field.tag in before.by_tag:
                groups.add(field.tag)
                alone += 1
        if len(groups) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            problems.append(ProtobufIncompatibility(kind, (*at.path, oneof.name)))
    return problems


def scalar_kind(type_: str, declared: DeclaredType | None) -> str | None:
    """None for a message."""
    if declared is not None and isinstance(declared.type, Enum):
        return "number"
    return _KINDS.get(type_) if type_ in SCALARS else None
