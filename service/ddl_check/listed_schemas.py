"""Registered versions as a list: a dry run compares schemas with them without a registry or a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ticdc_bridge.schemas.inputs.definition_files import SubjectVersion
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content, NewSchema, Reference, StoredVersion
from ticdc_bridge.service.registry.names import check_subject, context_of
from ticdc_bridge.service.registry.references import identity, invalid_schema_error, referenced_texts
from ticdc_bridge.service.registry_view import Rehearsal
from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.base import HasLogicalTypes, Level
from ticdc_bridge.service.schema_types.parse import KINDS, ParsedSchema

_CANDIDATES: Final = 200


class RegisteredSchemas(Protocol):
    """What a dry run asks of a registry: `service.registry_view.RegistryView`, or a list."""

    @property
    def url(self) -> str: ...
    def rehearse(self, subject: str, schema: str, pending: Sequence[Content] = ()) -> Rehearsal:
        """What registering `schema` after `pending` would get; nothing is written."""

    def newest(self, subject: str) -> StoredVersion | None: ...
    def ticdc_subjects(self, table: str = "") -> list[StoredVersion]:
        """The newest version of each value subject that may hold rows of a table of this name, as Avro writes it."""


@dataclass(frozen=True, slots=True)
class ListedSchemas:
    """The versions of each subject, oldest first; level: the compatibility level of all subjects."""

    level: Level
    versions: dict[str, list[StoredVersion]] = field(default_factory=dict)
    url: str = ""

    @classmethod
    def of_entries(cls, entries: Iterable[SubjectVersion], level: Level) -> ListedSchemas:
        """Of the lines of a file. RegistryError for what no registry could have."""
        listed = cls(level)
        for one in sorted(entries, key=lambda one: (one.subject, one.version)):
            check_subject(one.subject)
            references = tuple(Reference(r.name, r.subject, r.version) for r in one.references)
            id_ = one.id if isinstance(one.id, int) else 0  # a UUID of Glue's
            known, stored = listed.version(one.subject, one.version), Content(b"", one.schema, one.kind, references)
            if one.kind not in KINDS or one.version <= 0 or id_ < 0:
                raise RegistryError(
                    "INVALID_SCHEMA", details=f"version {one.version}, id {one.id}, type {one.kind} of {one.subject}"
                )
            if known is not None and known.content != stored:
                raise RegistryError("VERSION_TAKEN", subject=one.subject, version=one.version)
            if known is None:
                version = StoredVersion(one.subject, one.version, id_, stored, 0)
                listed.versions.setdefault(one.subject, []).append(version)
        for versions in listed.versions.values():
            versions[:] = [
                replace(v, content=listed._understand(v.subject, v.content, strict=False)[1]) for v in versions
            ]
        return listed

    def version(self, subject: str, version: int) -> StoredVersion | None:
        return next((one for one in self.versions.get(subject, ()) if one.version == version), None)

    def newest(self, subject: str) -> StoredVersion | None:
        return next(reversed(self.versions.get(subject, ())), None)

    def ticdc_subjects(self, table: str = "") -> list[StoredVersion]:
        found = []
        for subject, versions in sorted(self.versions.items()):
            named = table.lower() in subject.lower() and f'"name":"{table}'.lower() in versions[-1].content.text.lower()
            if named and subject.endswith("-value"):
                found.append(versions[-1])
        return found[:_CANDIDATES]

    def rehearse(self, subject: str, schema: str, pending: Sequence[Content] = ()) -> Rehearsal:
        versions = self.versions.get(subject, [])
        rehearsal = Rehearsal(self.level.name, self.newest(subject))
        try:
            check_subject(subject)
            parsed, content = self._understand(subject, Content(b"", schema))
        except RegistryError as error:
            return replace(rehearsal, refusal=error.code, messages=(error.detail,))
        same = next((one for one in versions if one.content.identity == content.identity), None)
        if same is not None:
            return replace(rehearsal, same=same)
        rehearsal = replace(rehearsal, content=content)
        if any(one.identity == content.identity for one in pending):
            return rehearsal
        first = versions[-1].version if versions else 0
        olds = [*versions, *(StoredVersion(subject, first + n, 0, one, 0) for n, one in enumerate(pending, 1))]
        earlier = [
            base.EarlierVersion(one.version, self._understand(subject, one.content, strict=False)[0])
            for one in (olds if self.level.transitive else olds[-1:])
        ]
        if problems := base.check(parsed, earlier, self.level):
            return replace(rehearsal, refusal="INCOMPATIBLE_SCHEMA", messages=tuple(problems))
        changes = parsed.logical_changes(earlier[-1].schema) if earlier and isinstance(parsed, HasLogicalTypes) else ()
        return replace(rehearsal, warnings=tuple(change.message() for change in changes))

    def _understand(self, subject: str, content: Content, *, strict: bool = True) -> tuple[ParsedSchema, Content]:
        """A schema, and its content as a registry keeps it. RegistryError INVALID_SCHEMA."""
        try:
            texts = referenced_texts(self, context_of(subject), content.references) if content.references else ()
            parsed = KINDS[content.kind](content.text, texts, strict)
        except ValueError as error:
            new = NewSchema(content.text, content.kind, content.references)
            raise invalid_schema_error(subject, new, error) from None
        return parsed, replace(content, text=parsed.text, identity=identity(parsed.text, content.references))
