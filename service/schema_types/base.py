"""What all schema types share: compatibility levels and messages, what a parsed schema may do, references and tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Level:
    name: str
    backward: bool
    forward: bool
    transitive: bool


LEVELS: Final = {
    level.name: level
    for level in (
        Level("NONE", False, False, False), Level("BACKWARD", True, False, False),
        Level("BACKWARD_TRANSITIVE", True, False, True), Level("FORWARD", False, True, False),
        Level("FORWARD_TRANSITIVE", False, True, True), Level("FULL", True, True, False),
        Level("FULL_TRANSITIVE", True, True, True),
    )
}  # fmt: skip

_SHOWN_SCHEMA = 10240


class Comparable(Protocol):
    """A parsed schema of any type."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    def differences(self, writer: Comparable, reader_word: str, writer_word: str) -> list[str]:
        """Why data written with `writer` can't be read with this schema; [] when it can."""


@runtime_checkable
class WithPolicy(Protocol):
    """A schema of a type that has the compatibilityPolicy LENIENT."""

    def to_lenient(self) -> Comparable: ...


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """An earlier version to compare with."""

    version: int
    schema: Comparable


def check(
    new: Comparable,
    olds: Sequence[EarlierVersion],
    level: Level,
    *,
    validate_fields: bool = False,
    lenient: bool = False,
) -> list[str]:
    """Messages why `new` may not follow `olds` (oldest first). A transitive level stops at the first that fails."""
    if not (level.backward or level.forward) or not olds:
        return []
    if lenient:
        new, olds = _make_lenient(new), [EarlierVersion(old.version, _make_lenient(old.schema)) for old in olds]
    for old in reversed(olds) if level.transitive else olds[-1:]:
        messages = _compare_with(new, old, level)
        if messages:
            return [*messages, trailer(level, validate_fields)]
    return []


def trailer(level: Level, validate_fields: bool) -> str:
    return f"{{validateFields: '{str(validate_fields).lower()}', compatibility: '{level.name}'}}"


def old_schema_messages(version: int, text: str) -> list[str]:
    schema = f"'{text}'" if len(text) <= _SHOWN_SCHEMA else f"<truncated> '{text[:_SHOWN_SCHEMA]}...'"
    return [f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: {schema}}}"]


def _compare_with(new: Comparable, old: EarlierVersion, level: Level) -> list[str]:
    about_old = old_schema_messages(old.version, old.schema.text)
    if new.kind != old.schema.kind:
        return ["Incompatible because of different schema type"]
    forward = old.schema.differences(new, "old", "new") if level.forward else []
    backward = new.differences(old.schema, "new", "old") if level.backward else []
    # Confluent names the old schema after backward failures only, except where the level has no backward part.
    return [*forward, *backward, *(about_old if backward or (forward and not level.backward) else [])]


def _make_lenient(schema: Comparable) -> Comparable:
    return schema.to_lenient() if isinstance(schema, WithPolicy) else schema


KIND: Final = "LOGICAL_TYPE_CHANGED"


@dataclass(frozen=True, slots=True)
class LogicalChange:
    """A logical change of one part of a schema. `path`: field names from the root, joined by dots."""

    path: str
    before: str
    after: str
    misread: str

    def message(self) -> str:
        what = f"{self.path or 'the schema'} changed from {self.before} to {self.after}: {self.misread}"
        return f"{{errorType:'{KIND}', description:'{what}', additionalInfo:'{self.path}'}}"


@dataclass(frozen=True, slots=True)
class TaggedEntity:
    """Tags of one part of a schema. `path` is a full name, or that and a field; `kind` is sr_record or sr_field."""

    path: str
    kind: str
    tags: tuple[str, ...]


Tags = tuple[TaggedEntity, ...]
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"
_TAGS: Final = "confluent:tags"
"""The property that holds the tags of a part of an Avro or JSON schema."""


def tags_in(node: Any, path: str, kind: str) -> Iterator[TaggedEntity]:
    """The tags in the JSON of a part, if it has any."""
    tags = node.get(_TAGS) if isinstance(node, dict) else None
    if isinstance(tags, list) and tags:
        yield TaggedEntity(path, kind, tuple(map(str, tags)))


def changed_tags(add: Tags, remove: Tags) -> Iterator[tuple[str, str, list[str], set[str]]]:
    """(kind, path, tags to add, tags to remove) of each part that is named."""
    for entity in dict.fromkeys((entry.kind, entry.path) for entry in (*add, *remove)):
        added = [tag for entry in add if (entry.kind, entry.path) == entity for tag in entry.tags]
        removed = {tag for entry in remove if (entry.kind, entry.path) == entity for tag in entry.tags}
        yield *entity, list(dict.fromkeys(added)), removed


def change_tags_in(find: Callable[[str, str], Any], add: Tags, remove: Tags) -> None:
    """Change tags in the JSON of the parts that `find` gives by kind and path. Raises ValueError for a missing part."""
    for kind, path, added, removed in changed_tags(add, remove):
        node = find(kind, path)
        if not isinstance(node, dict):
            raise ValueError(f"No matching path '{path}' found in the schema")
        tags = node.get(_TAGS)
        kept = dict.fromkeys([*(map(str, tags) if isinstance(tags, list) else ()), *added])
        node[_TAGS] = [tag for tag in kept if tag not in removed]
        if not node[_TAGS]:
            del node[_TAGS]


@dataclass(frozen=True, slots=True)
class ReferencedText:
    """The text a reference leads to. `direct`: the schema itself names it, not only what it refers to."""

    name: str
    subject: str
    version: int
    text: str
    direct: bool


class ComparisonTooLarge(Exception):
    """The comparison would take too much; the message says of what."""


class SchemaParseError(ValueError):
    """A text is no schema of its type."""


class SchemaValidityError(ValueError):
    """A schema was understood but uses what is not there."""


@runtime_checkable
class ChecksFields(Protocol):
    """More can be asked of a new schema where a config has `validateFields`."""

    def check_fields(self) -> None:
        """Raises SchemaValidityError."""


@runtime_checkable
class HasLogicalTypes(Protocol):
    """The meaning of a value can change while its physical type stays."""

    def logical_changes(self, old: object) -> list[LogicalChange]: ...


@runtime_checkable
class Formats(Protocol):
    """The schema can be printed in other forms than its canonical text."""

    def format_text(self, format_: str) -> str:
        """The text in a `format` of the API, canonical for unknown ones. ValueError if the format can't hold it."""
