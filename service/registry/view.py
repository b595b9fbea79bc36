"""A registry as others of this process ask it: dry runs, table histories and the tracker, which know no HTTP.

It writes nothing. Over the registry of a user it sees what that user may see.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, register, schemas
from ticdc_bridge.service.registry.compatibility import check_against, logical_changes
from ticdc_bridge.service.registry.config import LEVEL
from ticdc_bridge.service.registry.model import Content, NewSchema, StoredVersion, VersionRow
from ticdc_bridge.service.registry.names import check_subject
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.registry.references import identity
from ticdc_bridge.service.registry.registry import Registry

_CANDIDATES: Final = 200


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a registration would get, nothing written.

    level: the compatibility level in force; has_level: it is the subject's own config. newest: the newest undeleted
    version. same: the version that has this schema already. refusal: code of `schemas.model.errors`, "" when it would
    be accepted; messages: the registry's own words about it. warnings: what an accepted schema changes unseen by the
    rules (logical types). content: what would be stored, where the schema can be read and is no repeat.
    """

    level: str
    newest: StoredVersion | None = None
    same: StoredVersion | None = None
    refusal: str = ""
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    has_level: bool = False
    content: Content | None = None


@dataclass(frozen=True, slots=True)
class RegistryView:
    """url: where clients reach the registry, "" where not known. Raises STORE_FAILED and STORE_TIMEOUT."""

    registry: Registry
    url: str = ""

    def rehearse(self, subject: str, schema: str, pending: Sequence[Content] = ()) -> Rehearsal:
        """As if `schema` were registered after `pending` (`content` of others), all in one read."""
        registry = self.registry
        with registry.store.read() as tx:
            rehearsal = Rehearsal(registry.default_level)
            try:
                check_subject(subject)
                name, rules = config.resolve_subject(registry, tx, subject)
                setting = tx.configs([name]).get(name, {})
                rehearsal = Rehearsal(rules.level.name, tx.latest(name), has_level=LEVEL in setting)
                new = NewSchema(text=schema)
                repeat = register.find_repeat(registry, tx, name, new, rules)
                if repeat is not None:
                    return replace(rehearsal, same=repeat.stored)
                parsed, content = register.parse_for_storage(registry, tx, name, new, rules)
                readable, latest = replace(rehearsal, content=content), rehearsal.newest
                olds = tx.live_versions(name) if rules.compares_many else [latest] if latest else []
                for waiting in pending:
                    if waiting.identity == content.identity:
                        return readable
                    olds.append(StoredVersion(name, (olds[-1].version if olds else 0) + 1, 0, waiting, 0))
                if problems := check_against(registry, tx, olds, parsed, content, rules):
                    return replace(readable, refusal="INCOMPATIBLE_SCHEMA", messages=tuple(problems))
                changes = logical_changes(registry, tx, olds, parsed)
                return replace(readable, warnings=tuple(change.message() for change in changes))
            except RegistryError as error:
                if error.row.http >= 500:
                    raise
                return replace(rehearsal, refusal=error.code, messages=(error.detail,))

    def newest(self, subject: str) -> StoredVersion | None:
        """The newest undeleted version of what a subject's name means."""
        with self.registry.store.read() as tx:
            return tx.latest(config.target(tx, subject))

    def holding(self, texts: Iterable[str]) -> dict[str, list[VersionRow]]:
        """Schema text → the subject versions, undeleted, that hold this schema."""
        identities = {text: identity(self.canonical(text)) for text in texts}
        holders = defaultdict[bytes, list[VersionRow]](list)
        with self.registry.store.read() as tx:
            for entry, row in tx.holding(identities.values()):
                holders[entry].append(row)
        return {text: holders[item] for text, item in identities.items()}

    def ticdc_subjects(self, table: str = "") -> list[StoredVersion]:
        """The newest version of each subject that TiCDC's Avro fills, by subject.

        table: only value subjects with this name, as Avro writes it, in their own and in their schema; 200 at most, and
        where such a subject is an alias, the newest version of what it means.
        """
        with self.registry.store.read() as tx:
            if not table:
                return [entry for entry in tx.newest("", '"tidb_type"') if entry.content.kind == "AVRO"]
            every = tx.newest(table, f'"name":"{table}')
            candidates = {entry.subject: entry for entry in every if entry.subject.endswith("-value")}
            names = list(candidates)[:_CANDIDATES]
            aliases = {name for name, setting in tx.configs(names).items() if setting.get("alias")} if names else set()
            newest = [self.newest(name) if name in aliases else candidates[name] for name in names]
            return [entry for entry in newest if entry is not None]

    def text(self, subject: str, version: int | None) -> tuple[str, int]:
        """(schema text, version) of a subject; None: its newest. RegistryError SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
        with self.registry.store.read() as tx:
            stored = tx.latest(subject) if version is None else tx.version(subject, version)
        if stored is not None:
            return stored.content.text, stored.version
        if version is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        raise RegistryError("VERSION_NOT_FOUND", version=version)

    def canonical(self, text: str) -> str:
        """An Avro schema as the registry keeps it."""
        return self.registry.parse("AVRO", text).text


class StoreSchemas:
    """The schemas of a store, for the tracker of a history in it (schemas.model.ports.SchemaSource)."""

    def __init__(self, store: Store) -> None:
        self._store, self._registry = store, Registry(store)
        self._texts: BoundedCache[tuple[int, str], str] = BoundedCache(10_000, 64 << 20, lambda _, text: len(text))

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        if not isinstance(schema_id, int):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
        asked = (schema_id, subject or "")
        if asked not in self._texts:
            self._texts[asked] = self._text(schema_id, where, subject or "")
        return self._texts[asked]

    def _text(self, schema_id: int, where: str, subject: str) -> str:
        try:
            stored = schemas.get(self._registry, schema_id, subject=subject)
            if stored.content.kind != "AVRO":
                details = f"schema id {schema_id} is of type {stored.content.kind}, not Avro"
                raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)
            return schemas.format_schema(self._registry, stored, "resolved" if stored.content.references else "")
        except RegistryError as error:
            if error.code == "SCHEMA_ID_NOT_FOUND":
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry") from error
            if error.code == "INVALID_SCHEMA":
                raise WireError("UNSUPPORTED_SCHEMA", where=where, details=error.detail) from error
            raise

    def newest(self, subject: str) -> str | None:
        with self._store.read() as tx:
            latest = tx.latest(subject)
        return None if latest is None else latest.content.text

    def id_of(self, subject: str, schema: str) -> SchemaId:
        raise RegistryError("SCHEMA_NOT_FOUND")
