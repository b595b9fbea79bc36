"""A registry as others of this process ask it: dry runs, table histories and the tracker, which know no HTTP.

It answers by the rules of service.registry and writes nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.codec.bounded_cache import BoundedCache
from schemas.inputs.definition_files import SubjectVersion
from schemas.model.errors import RegistryError, WireError
from schemas.model.ports import SchemaId
from service.ddl_check.ports import RegisteredVersion as CheckedVersion
from service.ddl_check.ports import Rehearsal
from service.history.schema_links import RegisteredVersion
from service.registry import config, mode, register
from service.registry.compatibility import check_against, logical_changes, refusal
from service.registry.config import LEVEL
from service.registry.identity import identity
from service.registry.model import DEFAULT_CONTEXT, NewSchema, StoredVersion
from service.registry.names import check_subject
from service.registry.ports import Store, StoreReader
from service.registry.registry import Registry
from service.store import open_store


class RegistryHolders:
    """Keeps the promises of `service.history.schema_links.SchemaHolders`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find_holders(self, texts: Iterable[str]) -> dict[str, list[RegisteredVersion]]:
        by_text: dict[str, list[RegisteredVersion]] = {}
        with self._registry.store.read() as tx:
            for text in texts:
                for context, number in tx.ids_of(identity(self.canonical_text(text))):
                    holders = (one for one in tx.holders(context, number) if not one.deleted)
                    by_text.setdefault(text, []).extend(
                        RegisteredVersion(one.subject, one.version, one.id) for one in holders
                    )
        return by_text

    def canonical_text(self, text: str) -> str:
        """A schema as the registry keeps it."""
        return self._registry.parse("AVRO", text).text

    def newest(self) -> Iterator[tuple[StoredVersion, str, str]]:
        """The newest version of each subject that TiCDC's Avro fills, with namespace and name of its record."""
        with self._registry.store.read() as tx:
            latest: dict[str, StoredVersion] = {one.subject: one for one in tx.search("")}
        for one in latest.values():
            if one.content.kind == "AVRO" and '"tidb_type"' in one.content.text:
                schema: Any = json.loads(one.content.text)
                if isinstance(schema, dict) and isinstance(schema.get("namespace"), str):
                    yield one, schema["namespace"], str(schema.get("name"))

    def text(self, subject: str, version: int | None) -> tuple[str, int]:
        """(schema text, version) of a subject. RegistryError SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
        with self._registry.store.read() as tx:
            stored = tx.latest(subject) if version is None else tx.version(subject, version)
        if stored is None:
            if version is None:
                raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
            raise RegistryError("VERSION_NOT_FOUND", version=version)
        return stored.content.text, stored.version


class SubjectTexts:
    """Keeps the promises of `service.history.manual_entry.SubjectTexts`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def text(self, subject: str, version: int | None) -> tuple[str, int]:
        """(schema text, version). RegistryError SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
        with self._store.read() as tx:
            stored = tx.latest(subject) if version is None else tx.version(subject, version)
        if stored is not None:
            return stored.content.text, stored.version
        if version is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        raise RegistryError("VERSION_NOT_FOUND", version=version)


class RegistrySubjects:
    """service.ddl_check.ports.SubjectLookup over a registry of this process."""

    def __init__(self, registry: Registry, url: str = "") -> None:
        self._registry = registry
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def rehearse(self, subject: str, schema: str, pending: Sequence[str] = ()) -> Rehearsal:
        """As registering does (`register.register`), in one read. Raises STORE_FAILED, STORE_TIMEOUT only."""
        registry = self._registry
        with registry.store.read() as tx:
            rehearsal = Rehearsal(registry.default_level)
            try:
                check_subject(subject)
                name, rules = config.resolve_subject(registry, tx, subject)
                own = tx.configs([name]).get(name, {})
                newest = tx.latest(name)
                rehearsal = Rehearsal(
                    rules.level.name, _registered_version(newest) if newest else None, own_level=LEVEL in own
                )
                return self._answer(tx, name, schema, pending, rules, rehearsal)
            except RegistryError as error:
                if error.row.http >= 500:
                    raise
                return replace(rehearsal, refusal=error.code, messages=(error.detail,))

    def _answer(
        self,
        tx: StoreReader,
        name: str,
        schema: str,
        pending: Sequence[str],
        rules: config.EffectiveConfig,
        rehearsal: Rehearsal,
    ) -> Rehearsal:
        registry, new, options = self._registry, NewSchema(text=schema), register.RegisterOptions()
        repeat = register.find_repeat(registry, tx, name, new, rules, options)
        if repeat is not None:
            return replace(rehearsal, same=_registered_version(repeat.stored))
        parsed, content = register.parse_for_storage(registry, tx, name, new, rules, options)
        latest = tx.latest(name)
        olds = tx.live_versions(name) if rules.compares_many else [latest] if latest else []
        for text in pending:
            _, waiting = register.parse_for_storage(registry, tx, name, NewSchema(text=text), rules, options)
            if waiting.identity == content.identity:
                return rehearsal
            olds.append(StoredVersion(name, (olds[-1].version if olds else 0) + 1, 0, waiting, 0))
        changes = logical_changes(registry, tx, olds, parsed)
        problems = check_against(registry, tx, olds, parsed, content, rules)
        if registry.strict_logical_types and not problems:
            problems = refusal(changes, olds, rules)
        if problems:
            return replace(rehearsal, refusal="INCOMPATIBLE_SCHEMA", messages=tuple(problems))
        return replace(rehearsal, warnings=tuple(change.message() for change in changes))

    def newest(self, subject: str) -> CheckedVersion | None:
        with self._registry.store.read() as tx:
            latest = tx.latest(config.target(tx, subject))
        return _registered_version(latest) if latest else None

    def find_containing(self, part: str) -> list[str]:
        part = part.lower()
        with self._registry.store.read() as tx:
            return [name for name, live in tx.subjects() if live and part in name.lower()]


def _registered_version(stored: StoredVersion) -> CheckedVersion:
    return CheckedVersion(stored.subject, stored.version, stored.id, stored.content.text)


@contextmanager
def file_subjects(entries: Iterable[SubjectVersion], level: str) -> Iterator[RegistrySubjects]:
    """A registry of its own with these versions, gone afterwards. SetupError USAGE for what is no registry."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'registry.db'}")
        try:
            registry = Registry(store, level)
            _import(registry, sorted(entries, key=lambda e: (e.subject, e.version)))
            yield RegistrySubjects(registry)
        finally:
            store.close()


def _import(registry: Registry, entries: list[SubjectVersion]) -> None:
    mode.update(registry, None, mode.IMPORT)
    for one in entries:
        number = one.id if isinstance(one.id, int) and one.id > 0 else None
        new = NewSchema(one.schema, version=one.version, id=number)
        if number is None:  # a UUID of Glue's
            mode.update(registry, None, mode.READWRITE)
            register.register(registry, one.subject, NewSchema(one.schema), force=True)
            mode.update(registry, None, mode.IMPORT, force=True)
        else:
            register.register(registry, one.subject, new)
    mode.update(registry, None, mode.READWRITE)


class OwnSchemas:
    """Schemas of the store that the history is in (schemas.model.ports.SchemaSource). Nothing is registered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._texts: BoundedCache[int, str] = BoundedCache(10_000, 64 << 20, lambda _, text: len(text))

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        if not isinstance(schema_id, int):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
        if schema_id not in self._texts:
            with self._store.read() as tx:
                content = tx.schema(DEFAULT_CONTEXT, schema_id)
            if content is None:
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
            self._texts[schema_id] = content.text
        return self._texts[schema_id]

    def newest(self, subject: str) -> str | None:
        with self._store.read() as tx:
            latest = tx.latest(subject)
        return None if latest is None else latest.content.text

    def id_of(self, subject: str, schema: str) -> SchemaId:
        raise RegistryError("SCHEMA_NOT_FOUND")
