"""A transaction of several writers' works that reads for all of them at once, and writes what they add at once.

What the works are known to look at (`ports.ReadAhead`) is read before the first, by one statement. New schemas and
versions are kept here until the end, or until somebody asks for more than was read ahead.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from ticdc_bridge.service.registry.config import VERSION, properties
from ticdc_bridge.service.registry.model import Content, StoredVersion, StoredWarning, VersionRow
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT
from ticdc_bridge.service.registry.ports import ReadAhead, ReadKey
from ticdc_bridge.service.store import statements
from ticdc_bridge.service.store.dialects import WriteSession
from ticdc_bridge.service.store.rows import Row, schema_row, version_of_row, version_row
from ticdc_bridge.service.store.transaction import Transaction, id_key, subject_key

SchemaKey = tuple[str, bytes, str]
"""Context, identity and kind."""


class NotUndone(Exception):
    """A work failed after it had asked for more than was read ahead: the whole transaction has to be undone."""


@dataclass(slots=True)
class SubjectRows:
    """The rows of a subject that were read ahead."""

    versions: list[VersionRow] = field(default_factory=list)
    latest: StoredVersion | None = None
    candidates: list[tuple[StoredVersion, bytes | None]] = field(default_factory=list)
    """The undeleted versions that may be what is looked for, each with its likeness; the highest first."""


@dataclass(slots=True)
class NewRows:
    schemas: list[Row] = field(default_factory=list)
    versions: list[Row] = field(default_factory=list)
    warnings: list[StoredWarning] = field(default_factory=list)
    last_ids: dict[str, int] = field(default_factory=dict)
    """The highest id given, by context."""


class JointTransaction(Transaction):
    """Keeps the promises of `ports.StoreWriter`, for one work after the other: each ends with `keep` or `drop`."""

    def __init__(self, session: WriteSession, changes: set[ReadKey], ahead: ReadAhead) -> None:
        super().__init__(session.connection, changes)
        self._session = session
        self._asked = False
        """True if the work at hand has asked the database itself."""
        self._kept, self._new = NewRows(), NewRows()
        """Rows of the works before, and of the work at hand."""
        self._subjects: dict[str, SubjectRows] = {}
        self._configs: dict[str, dict[str, Any] | None] = {}
        self._modes: dict[str, str | None] = {}
        self._contents: tuple[frozenset[bytes], frozenset[bytes]] = frozenset(), frozenset()
        """The identities and likenesses by which candidates were looked for."""
        self._ids: dict[SchemaKey, int | None] = {}
        self._last_ids: dict[str, int | None] = {}
        if ahead.subjects and ahead.scopes and ahead.contents:
            self._read(ahead)

    # ---- one work after the other

    def keep(self) -> None:
        kept, changes = self._kept, self._new
        kept.schemas += changes.schemas
        kept.versions += changes.versions
        kept.warnings += changes.warnings
        kept.last_ids |= changes.last_ids
        self._new, self._asked = NewRows(), False

    def drop(self) -> None:
        """The work at hand failed: nothing of it stays. Raises NotUndone where that can't be said."""
        if self._asked:
            raise NotUndone
        for row in self._new.schemas:
            self._ids[row["context"], row["identity"], row["kind"]] = None
        self._new = NewRows()

    def write(self) -> None:
        sql, kept, changes = self._connection, self._kept, self._new
        last_ids = kept.last_ids | changes.last_ids
        schemas, versions = kept.schemas + changes.schemas, kept.versions + changes.versions
        if not (versions or schemas or last_ids):
            return
        texts = []
        for context, number in last_ids.items():
            if self._last_ids.get(context) is None:
                texts.append(statements.FIRST_ID.text_and_values(sql, [{"context": context, "last": number}]))
            else:
                texts.append(statements.NEXT_ID.text_and_values(sql, [{"this": context, "last": number}]))
        for statement, rows in ((statements.PUT_SCHEMA, schemas), (statements.PUT_VERSION, versions)):
            if rows:
                texts.append(statement.text_and_values(sql, rows))
        self._session.write_together(texts)
        self._last_ids |= last_ids
        warnings = kept.warnings + changes.warnings
        self._kept, self._new = NewRows(), NewRows()
        for warned in warnings:
            super().put_warning(warned)

    @property
    def _sql(self) -> Connection:
        """For whatever is not answered here: the database has to know all there is."""
        self._asked = True
        self.write()
        return self._connection

    # ---- reading ahead

    def _read(self, ahead: ReadAhead) -> None:
        subjects, scopes = statements.pad(ahead.subjects), statements.pad(ahead.scopes)
        identities = statements.pad([content.identity for content in ahead.contents])
        number = statements.number_parameters
        rows = statements.ahead_of(len(subjects), len(scopes), len(identities))(
            self._connection,
            **number(subjects, "subject"),
            **number(scopes, "scope"),
            **number(identities, "identity"),
            context=DEFAULT_CONTEXT,
        )
        self._subjects = {subject: SubjectRows() for subject in subjects}
        self._configs, self._modes = dict.fromkeys(scopes), dict.fromkeys(scopes)
        self._ids = {(DEFAULT_CONTEXT, content.identity, content.kind): None for content in ahead.contents}
        self._last_ids[DEFAULT_CONTEXT] = None
        live = set[str]()
        for what, name, text, version, id_, deleted, identity in rows:
            match what:
                case 0:
                    self._subjects[name].versions.append(VersionRow(name, version, id_, bool(deleted)))
                    if not deleted:
                        live.add(name)
                case 1:
                    self._configs[name] = json.loads(text)
                case 2:
                    self._modes[name] = text
                case 3:
                    key = (name, bytes(identity), text)
                    if key in self._ids:
                        self._ids[key] = min(id_, self._ids[key] or id_)
                case _:
                    self._last_ids[name] = version
        if live:
            for subject in live:
                self._subjects[subject].versions.sort(key=lambda row: row.version)
            self._read_schemas(statements.pad(list(live)), identities, [content.likeness for content in ahead.contents])

    def _read_schemas(self, subjects: list[str], identities: list[bytes], likenesses: list[bytes]) -> None:
        """Reads the schemas; of subjects that have versions, what a new one is compared with too."""
        number, alike = statements.number_parameters, statements.pad(likenesses)
        rows = statements.compared_of(len(subjects), len(identities))(
            self._connection,
            **number(subjects, "subject"),
            **number(identities, "identity"),
            **number(alike, "likeness"),
        )
        for *row, likeness, may_be_same in rows:
            stored = version_of_row(row)
            ahead = self._subjects[stored.subject]
            if may_be_same:
                ahead.candidates.append((stored, None if likeness is None else bytes(likeness)))
            else:
                ahead.latest = stored
        for subject in subjects:
            self._subjects[subject].candidates.sort(key=lambda entry: -entry[0].version)
        self._contents = frozenset(identities), frozenset(likenesses)

    def _note(self, keys: Collection[ReadKey]) -> None:
        """Forgets what was read ahead: something is written past the rows that are kept here."""
        super()._note(keys)
        self._subjects, self._configs, self._modes, self._ids = {}, {}, {}, {}

    # ---- what was read ahead

    def versions(self, subject: str) -> list[VersionRow]:
        ahead = self._subjects.get(subject)
        return super().versions(subject) if ahead is None else list(ahead.versions)

    def latest(self, subject: str, *, deleted: bool = False) -> StoredVersion | None:
        ahead = None if deleted else self._subjects.get(subject)
        return super().latest(subject, deleted=deleted) if ahead is None else ahead.latest

    def by_content(
        self, subject: str, content: Content, *, deleted: bool = False, schema_id: int | None = None
    ) -> StoredVersion | None:
        ahead = None if deleted or schema_id is not None else self._subjects.get(subject)
        if ahead is None or (ahead.latest is not None and content.identity not in self._contents[0]):
            return super().by_content(subject, content, deleted=deleted, schema_id=schema_id)
        wanted = (content.identity, content.kind)
        same = (stored for stored, _ in ahead.candidates if (stored.content.identity, stored.content.kind) == wanted)
        return next(same, None)

    def lookalikes(self, subject: str, likeness: bytes, *, deleted: bool = False) -> list[StoredVersion]:
        ahead = None if deleted else self._subjects.get(subject)
        if ahead is None or (ahead.latest is not None and likeness not in self._contents[1]):
            return super().lookalikes(subject, likeness, deleted=deleted)
        # Some may mean what another schema does although their likenesses differ.
        return [
            stored
            for stored, its in ahead.candidates
            if its == likeness or stored.content.references or VERSION in properties(stored.content.metadata)
        ]

    def configs(self, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
        if not self._configs.keys() >= set(scopes):
            return super().configs(scopes)
        return {scope: config for scope in scopes if (config := self._configs[scope]) is not None}

    def modes(self, scopes: Sequence[str]) -> dict[str, str]:
        if not self._modes.keys() >= set(scopes):
            return super().modes(scopes)
        return {scope: mode for scope in scopes if (mode := self._modes[scope]) is not None}

    def id_of(self, context: str, content: Content) -> int | None:
        key = (context, content.identity, content.kind)
        if key not in self._ids:
            rows = statements.ID_OF(self._connection, context=context, identity=content.identity, kind=content.kind)
            self._ids[key] = min((number for (number,) in rows), default=None)
        return self._ids[key]

    def max_id(self, context: str) -> int:
        for rows in (self._new, self._kept):
            if context in rows.last_ids:
                return rows.last_ids[context]
        if context not in self._last_ids:
            return super().max_id(context)
        return self._last_ids[context] or 0

    # ---- what is written at the end

    def _count(self, context: str, number: int) -> None:
        if context not in self._last_ids:
            super()._count(context, number)
        elif number > self.max_id(context):
            self._new.last_ids[context] = number

    def put_schema(self, context: str, schema_id: int, content: Content) -> None:
        key = (context, content.identity, content.kind)
        if self._ids.get(key, 0) is not None:  # by an import, one content may have several ids
            super().put_schema(context, schema_id, content)
            return
        self._new.schemas.append(schema_row(context, schema_id, content))
        self._ids[key] = schema_id
        self._changes.add(id_key(context, schema_id))

    def put_version(self, context: str, subject: str, version: int, schema_id: int, content: Content, ts: int) -> None:
        self._subjects.pop(subject, None)
        if context != DEFAULT_CONTEXT or content.references:
            super().put_version(context, subject, version, schema_id, content, ts)
            return
        self._new.versions.append(version_row(context, subject, version, schema_id, ts))
        self._changes |= {subject_key(subject), id_key(context, schema_id)}

    def put_warning(self, warned: StoredWarning) -> None:
        self._new.warnings.append(warned)
