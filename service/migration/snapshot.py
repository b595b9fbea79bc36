"""All that a registry holds, as values."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content, Reference, StoredVersion
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, context_of, qualify
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.references import identity, likeness, referenced_texts
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import SchemaValidityError
from ticdc_bridge.service.schema_types.parse import ParsedSchema

Key = tuple[str, int]
"""Subject and version."""


@dataclass(slots=True)
class Snapshot:
    """A registry at one moment.

    `marks`: the highest id ever handed out or used, by context; there may be no schema with it any more.
    `contexts` are those besides the default one. A content read elsewhere has an empty identity until `parse_versions`.
    """

    versions: dict[Key, StoredVersion] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    contexts: set[str] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)

    def mark(self, context: str, number: int) -> None:
        """An id was seen."""
        self.marks[context] = max(self.marks.get(context, 0), number)

    def add(self, stored: StoredVersion) -> None:
        """Add a version, with its context and id."""
        context = context_of(stored.subject)
        self.versions[stored.subject, stored.version] = stored
        self.mark(context, stored.id)
        if context != DEFAULT_CONTEXT:
            self.contexts.add(context)


@dataclass(slots=True)
class ReadResult:
    """The result of a read: `counted` records or answers by sort, `unknown` ones of sorts that mean nothing here,
    `broken` ones with reasons (`broken_count` of them), what of the rest has no place here (`left_out`).

    `unread` as in RestSource.
    """

    snapshot: Snapshot = field(default_factory=Snapshot)
    counted: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    broken_count: int = 0
    unread: set[Key | str] = field(default_factory=set)


def snapshot_of(tx: StoreReader) -> Snapshot:
    snapshot = Snapshot(configs=tx.all_configs(), modes=tx.all_modes(), contexts=set(tx.contexts()))
    for stored in tx.search("", deleted=True):
        snapshot.add(stored)
    snapshot.marks = snapshot.marks | tx.marks()
    return snapshot


def parse_versions(
    registry: Registry, versions: Iterable[StoredVersion], among: Snapshot
) -> tuple[list[StoredVersion], list[Key]]:
    """Versions as a store keeps them, and those of them that this registry can't read.

    The text stays as it came; the identity is that of the canonical form, so that the same schema sent again finds its
    version also where another registry wrote the text in its own way. An unreadable text has that of its text.
    """
    done, unread = [], []
    contents: dict[tuple[str, int], tuple[Content, bool]] = {}
    for stored in versions:
        key = context_of(stored.subject), stored.id
        entry = contents.get(key)
        if entry is None or replace(entry[0], identity=b"") != replace(stored.content, identity=b""):
            entry = contents[key] = _identify(registry, stored, among)
        content, readable = entry
        done.append(replace(stored, content=content))
        if not readable:
            unread.append((stored.subject, stored.version))
    return done, unread


def same_schema(left: Content, other: Content) -> bool:
    """True if two contents are the same as clients see them."""
    texts = (left.text, left.kind, left.references) == (other.text, other.kind, other.references)
    return texts and (left.metadata or None, left.rule_set or None) == (other.metadata or None, other.rule_set or None)


# Schemas are read without a store here: what they refer to is in the snapshots.
_READER = Registry(None)  # type: ignore[arg-type]


def schema_comparison(source: Snapshot, target: Snapshot) -> Callable[[StoredVersion, StoredVersion], bool]:
    """Says whether a version of the source has the schema of one of the target, however its text is written."""

    def alike(stored: StoredVersion, other: StoredVersion) -> bool:
        if same_schema(stored.content, other.content):
            return True
        if not same_schema(replace(stored.content, text=""), replace(other.content, text="")):
            return False
        original, _ = _identify(_READER, stored, source)
        copied, _ = _identify(_READER, other, target)
        return original.identity == copied.identity

    return alike


def _identify(registry: Registry, stored: StoredVersion, among: Snapshot) -> tuple[Content, bool]:
    content = stored.content
    try:
        context, versions = context_of(stored.subject), among.versions
        texts = referenced_texts(lambda *key: versions.get(key), context, content.references, deleted=True)
        parsed = registry.parse(content.kind, content.text, texts, strict=False)
        text, alike, readable = parsed.text, likeness(parsed.unordered_text()), is_valid(parsed)
    except (ValueError, RegistryError, RecursionError):
        text, alike, readable = content.text, likeness(content.text), False
    same = identity(text, content.references, content.metadata, content.rule_set)
    return replace(content, identity=same, likeness=alike), readable


def is_valid(parsed: ParsedSchema) -> bool:
    """True if something can be checked against a schema that was read."""
    try:
        parsed.check_validity()
    except ValueError as error:  # of its names: it is compared all the same
        return not isinstance(error, SchemaValidityError)
    return True


def targets(stored: StoredVersion) -> list[Key]:
    """The versions that a version refers to."""
    context = context_of(stored.subject)
    return [(qualify(entry.subject or "", context), entry.version or 0) for entry in stored.content.references]


def order_by_references(versions: Iterable[StoredVersion]) -> list[StoredVersion]:
    """The same versions, each after those it refers to; else as they came. A circle is cut where it was entered."""
    waiting = {(stored.subject, stored.version): stored for stored in versions}
    done: dict[Key, StoredVersion] = {}
    entered: set[Key] = set()
    for first in list(waiting):
        stack = [first]
        while stack:
            key = stack[-1]
            if key in done or key not in waiting:
                stack.pop()
                continue
            before = [entry for entry in targets(waiting[key]) if entry in waiting and entry not in entered]
            entered.add(key)
            if before:
                stack += before
            else:
                done[key] = waiting[key]
                stack.pop()
    return list(done.values())


def reference(value: Mapping[str, Any]) -> Reference:
    """A reference as records and answers have it. Raises ValueError."""
    name, subject, version = value.get("name"), value.get("subject"), value.get("version")
    if not isinstance(name, str) or not isinstance(subject, str) or not is_number(version):
        raise ValueError(f"a reference needs name, subject and version: {dict(value)}")
    return Reference(name, subject, version)


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
