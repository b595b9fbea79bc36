"""Values the registry works with. Frozen: a value that was read is not changed in place.

Rule sets are kept, not looked into; a client can't register one (as with Confluent's community server), an import can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ticdc_bridge.service.schema_types.base import Tags

RuleSet = Mapping[str, Any]
"""`{"migrationRules": [..], "domainRules": [..], "encodingRules": [..], "enableAt": ..}`, empty parts left out."""

_GROUPS: Final = ("migrationRules", "domainRules", "encodingRules")
_TEXTS: Final = ("name", "doc", "kind", "mode", "type")
_ACTIONS: Final = ("expr", "onSuccess", "onFailure")
_DEFAULTS: Final = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
_TRUE: Final = b"\x01"

# The order of a rule's keys in records and answers → how each is read
_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_TEXTS, lambda value: value), "tags": lambda value: sorted(set(value)),
    "params": lambda value: dict(sorted(value.items())), **dict.fromkeys(_ACTIONS, lambda value: value),
}  # fmt: skip


def read_rule_set(value: Any) -> RuleSet | None:
    """A rule set as Confluent would write it; None for none. Raises ValueError."""
    if value is None:
        return None
    try:
        groups = {name: [_rule(entry) for entry in value.get(name) or ()] for name in _GROUPS}
        rule_set: dict[str, Any] = {name: rules for name, rules in groups.items() if rules}
        return rule_set | ({"enableAt": value["enableAt"]} if value.get("enableAt") else {})
    except (AttributeError, TypeError) as error:
        raise ValueError(f"ruleSet: {error}") from None


def _rule(value: Mapping[str, Any]) -> dict[str, Any]:
    full = {**_DEFAULTS, **{name: member for name, member in value.items() if member is not None}}
    read = {name: reader(full[name]) for name, reader in _FIELDS.items() if full.get(name)}
    return read | {"disabled": full.get("disabled") is True}


def has_rule(rule_set: RuleSet | None, type_: str) -> bool:
    """True if it has a rule of this type."""
    return any(rule.get("type") == type_ for group in _GROUPS for rule in (rule_set or {}).get(group, ()))


def update_hash(digest: hashlib._Hash, rule_set: RuleSet) -> None:
    """A rule set's part in the identity of a schema (upstream `RuleSet.updateHash`, `Rule.updateHash`)."""
    for group in _GROUPS:
        for rule in rule_set.get(group, ()):
            pieces = [rule.get(name, "") for name in _TEXTS]
            pieces += rule.get("tags", ())
            pieces += [text for pair in rule.get("params", {}).items() for text in pair]
            pieces += [rule.get(name, "") for name in _ACTIONS]
            digest.update("".join(map(str, pieces)).encode("utf-8", "replace"))
            if rule["disabled"]:
                digest.update(_TRUE)


LAST_COUNTED: Final = 2**30
"""New ids are counted on from ids that were imported up to here; higher ones stand apart, so none can end the count."""

Metadata = Mapping[str, Any]
"""`{"tags": {path: [..]}, "properties": {..}, "sensitive": [..]}`, empty parts left out."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A type that is defined in another subject. `subject` and `version` may be missing in a request."""

    name: str
    subject: str | None = None
    version: int | None = None

    def error_text(self) -> str:
        """As Confluent prints it inside error texts."""
        subject = "null" if self.subject is None else self.subject
        version = "null" if self.version is None else self.version
        return f"{{name='{self.name}', subject='{subject}', version={version}}}"


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema as a client sent it. `version`: None = the next one, -1 = the next one and record it, n = exactly n.

    `id` and `rule_set` can be given while importing only. Tags are added to and removed from the text before it is
    looked at; `keep_tags` carries over those of the previous version.
    """

    text: str = ""
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    version: int | None = None
    id: int | None = None
    rule_set: RuleSet | None = None
    tags_to_add: Tags = ()
    tags_to_remove: Tags = ()
    keep_tags: bool = False

    @property
    def changes_tags(self) -> bool:
        """True if tags are to be added or removed."""
        return bool(self.tags_to_add or self.tags_to_remove)


@dataclass(frozen=True, slots=True)
class Content:
    """What identifies a schema. `identity`: an MD5; `likeness`: `references.likeness`, b"" for what was read."""

    identity: bytes
    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    likeness: bytes = field(default=b"", compare=False, repr=False)

    def has_members_of(self, other: Content) -> bool:
        """True if one with this identity is this one: an MD5 of names and values run together may be that of others."""
        return (self.references, self.metadata) == (other.references, other.metadata)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A registered version with its schema. `ts` is in ms."""

    subject: str
    version: int
    id: int
    content: Content
    ts: int
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version without its schema."""

    subject: str
    version: int
    id: int
    deleted: bool


@dataclass(frozen=True, slots=True)
class ListedVersion(VersionRow):
    """A version as lists show it: with its schema type and time, in ms."""

    kind: str
    ts: int


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A version that has the schema asked for.

    `alike`: not the same text and metadata, but the same with references instead of written out, or without a recorded
    version number. `completed`: the registry added metadata or the text to what was sent. `new`: it was written now.
    """

    stored: StoredVersion
    alike: bool = False
    completed: bool = False
    new: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is stored: different schemas, subjects with an undeleted version, versions by schema type."""

    schemas: int
    subjects: int
    live: Mapping[str, int]
    deleted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoredWarning:
    """Something about a version that was accepted and may be misread. `ts` is in ms."""

    subject: str
    version: int
    kind: str
    message: str
    ts: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """An edge of what jobs told (service.registry.lineage): its JSON, and its digest as the key. Times are in ms."""

    key: str
    body: str
    rows: int
    first: int
    last: int
