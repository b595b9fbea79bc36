"""Subjects and their versions: listing, reading, deleting. Contexts: name spaces with ids of their own."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config
from ticdc_bridge.service.registry.config import properties
from ticdc_bridge.service.registry.model import ListedVersion, StoredVersion, VersionRow
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, LATEST, SERVER, chain, context_of, name_of, prefix_of
from ticdc_bridge.service.registry.ports import StoreReader, StoreWriter
from ticdc_bridge.service.registry.registry import Registry


def list_contexts(registry: Registry, prefix: str = "") -> list[str]:
    """The default context and all that had a schema since they were last deleted, sorted."""
    with registry.store.read() as tx:
        contexts = tx.contexts()
    return [context for context in (DEFAULT_CONTEXT, *contexts) if context.startswith(prefix)]


def delete_context(registry: Registry, context: str) -> None:
    """Forget a context, if there; its ids stay used. Raises CONTEXT_NOT_EMPTY for soft-deleted subjects too."""
    with registry.store.write() as tx:
        if any(context_of(subject) == context for subject, _ in tx.subjects()):
            raise RegistryError("CONTEXT_NOT_EMPTY", context=prefix_of(context) or f":{DEFAULT_CONTEXT}:")
        tx.drop_context(context)


ALL_CONTEXTS = ":*:"


def matches(subject: str, prefix: str) -> bool:
    """`:*:foo` looks in every context, `:.ctx:foo` in one, an unqualified prefix in the default context."""
    if prefix.startswith(ALL_CONTEXTS):
        return name_of(subject).startswith(prefix[len(ALL_CONTEXTS) :])
    prefix = prefix.removeprefix(SERVER)
    return subject.startswith(prefix) and (prefix.startswith(":.") or context_of(subject) == DEFAULT_CONTEXT)


def list_subjects(
    registry: Registry, *, prefix: str = ALL_CONTEXTS, deleted: bool = False, deleted_only: bool = False
) -> list[str]:
    """Sorted names; `deleted` adds those with soft-deleted versions only, `deleted_only` gives just those."""
    with registry.store.read() as tx:
        subjects = tx.subjects()
    return [
        name for name, live in subjects if matches(name, prefix) and ((not live) if deleted_only else live or deleted)
    ]


def list_versions(
    registry: Registry, subject: str, *, deleted: bool = False, deleted_only: bool = False, negative: bool = False
) -> list[int]:
    """Version numbers, ascending. `negative` adds soft-deleted ones with a minus sign, to a
    subject that is there without them. Raises SUBJECT_NOT_FOUND."""
    with registry.store.read() as tx:
        subject = config.target(tx, subject)
        rows = tx.versions(subject)
    if not any(not row.deleted or deleted or deleted_only for row in rows):
        raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    if negative:
        return [-row.version if row.deleted else row.version for row in rows]
    if deleted_only:
        return [row.version for row in rows if row.deleted]
    return [row.version for row in rows if deleted or not row.deleted]


def get_version(registry: Registry, subject: str, version: int, *, deleted: bool = False) -> StoredVersion:
    """One version, or the latest. Raises what `get_in_contexts` raises."""
    with registry.store.read() as tx:
        return get_in_contexts(tx, config.target(tx, subject), version, deleted=deleted)


def with_properties(
    registry: Registry, subject: str, required: Mapping[str, str], *, deleted: bool = False
) -> StoredVersion:
    """The highest version whose metadata has all these properties. Raises SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND."""
    with registry.store.read() as tx:
        subject = config.target(tx, subject)
        rows = [row for row in tx.versions(subject) if deleted or not row.deleted]
        for row in reversed(rows):
            stored = tx.version(subject, row.version)
            if stored is not None and stored.content.metadata is not None:
                values = properties(stored.content.metadata)
                if all(values.get(name) == value for name, value in required.items()):
                    return stored
    if not rows:
        raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    raise RegistryError("SCHEMA_NOT_FOUND")


def find_version(tx: StoreReader, subject: str, version: int, *, deleted: bool = False) -> StoredVersion | None:
    """A version of exactly this subject, if it is there; the latest one is never a soft-deleted one."""
    stored = tx.latest(subject) if version == LATEST else tx.version(subject, version)
    return stored if stored is not None and (deleted or not stored.deleted) else None


def get_in_contexts(tx: StoreReader, subject: str, version: int, *, deleted: bool = False) -> StoredVersion:
    """A version; of a subject that names no context, in all. Raises SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
    stored = find_version(tx, subject, version, deleted=deleted)
    if stored is None and context_of(subject) == DEFAULT_CONTEXT:
        found = (find_version(tx, prefix_of(name) + subject, version, deleted=deleted) for name in tx.contexts())
        stored = next((entry for entry in found if entry is not None), None)
    if stored is not None:
        return stored
    if tx.latest(subject, deleted=deleted) is None:
        raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    raise RegistryError("VERSION_NOT_FOUND", version=version)


def referrers_of(registry: Registry, subject: str, version: int, *, deleted: bool = False) -> list[int]:
    """Ids of the schemas that refer to a version, by context. Raises SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
    with registry.store.read() as tx:
        stored = get_in_contexts(tx, config.target(tx, subject), version, deleted=True)
        rows = tx.referrers(stored.subject, stored.version)
    ids = {(context_of(row.subject), row.id) for row in rows if deleted or not row.deleted}
    return [schema_id for _, schema_id in sorted(ids)]


def delete_subject(registry: Registry, subject: str, *, permanent: bool = False) -> list[int]:
    """Delete all versions, softly or (second step) for good; the numbers that went.

    Raises SUBJECT_NOT_FOUND, SUBJECT_SOFT_DELETED, READ_ONLY, REFERENCED, SUBJECT_NOT_SOFT_DELETED.
    """
    with registry.store.write() as tx:
        subject = config.target(tx, subject)
        rows = tx.versions(subject)
        live = [row for row in rows if not row.deleted]
        if not rows:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        if not permanent and not live:
            raise RegistryError("SUBJECT_SOFT_DELETED", subject=subject)
        config.check_writable(tx, subject)
        going = rows if permanent else live
        for row in going:
            refuse_referenced(tx, row, permanent=permanent, inside=subject)
            if permanent and not row.deleted:
                raise RegistryError("SUBJECT_NOT_SOFT_DELETED", subject=subject)
        remove(tx, subject, going, permanent=permanent)
    return [row.version for row in going]


def delete_version(registry: Registry, subject: str, version: int, *, permanent: bool = False) -> int:
    """Delete one version, softly or (second step) for good; its number.

    Raises SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, VERSION_SOFT_DELETED, READ_ONLY, REFERENCED, VERSION_NOT_SOFT_DELETED.
    """
    with registry.store.write() as tx:
        subject = config.target(tx, subject)
        rows = {row.version: row for row in tx.versions(subject)}
        if not rows:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        if version == LATEST:
            version = max((row.version for row in rows.values() if not row.deleted), default=LATEST)
        row = rows.get(version)
        if row is None:
            raise RegistryError("VERSION_NOT_FOUND", version=version)
        if not permanent and row.deleted:
            raise RegistryError("VERSION_SOFT_DELETED", subject=subject, version=version)
        config.check_writable(tx, subject)
        refuse_referenced(tx, row, permanent=permanent)
        if permanent and not row.deleted:
            raise RegistryError("VERSION_NOT_SOFT_DELETED", subject=subject, version=version)
        remove(tx, subject, [row], permanent=permanent)
    return version


def refuse_referenced(tx: StoreReader, row: VersionRow, *, permanent: bool, inside: str = "") -> None:
    """Raises REFERENCED: for a permanent delete by soft-deleted referrers too (measured). `inside`: stops nothing."""
    for referrer in tx.referrers(row.subject, row.version):
        if referrer.subject != inside and (permanent or not referrer.deleted):
            raise RegistryError("REFERENCED", subject=row.subject, version=row.version)


def remove(tx: StoreWriter, subject: str, rows: list[VersionRow], *, permanent: bool) -> None:
    versions = [row.version for row in rows]
    if not permanent:
        tx.soft_delete(subject, versions)
        return
    tx.remove(subject, versions)
    if not tx.versions(subject):  # the subject's config and mode go with its last version, as at Confluent
        tx.drop_config(subject)
        tx.put_mode(subject, None)


# ---- as lists show them
@dataclass(frozen=True, slots=True)
class SubjectOverview:
    """versions: all, soft-deleted ones too, ascending; those of the subject that is meant, where this is an alias.

    level, mode: in force. has_level, has_mode: they come from the subject's own config, its own mode.
    """

    subject: str
    versions: list[ListedVersion]
    level: str
    has_level: bool
    mode: str
    has_mode: bool


def find_subjects(
    registry: Registry, *, name: str = "", schema_id: int | None = None, column: str = "", deleted: bool = False
) -> list[str]:
    """Subjects with `name` in their names, whatever its case, and a version with this id in any context, or a field
    `column` in their latest schema (parts of a name count too); `deleted` counts what is soft-deleted."""
    with registry.store.read() as tx:
        subjects = [entry for entry, live in tx.subjects() if (live or deleted) and name.casefold() in entry.casefold()]
        if schema_id is not None:
            holders = {row.subject for row in tx.holders_of(None, [schema_id], deleted=deleted)}
        elif column:
            as_json = json.dumps(column, ensure_ascii=False)[1:-1]
            field = re.compile(r'"name"\s*:\s*"[^"]*' + re.escape(as_json), re.IGNORECASE)
            newest = tx.newest("", column if as_json == column else "", deleted=deleted)
            texts = ((entry.subject, entry.content.kind, entry.content.text) for entry in newest)
            holders = {
                subject
                for subject, kind, text in texts
                if (field.search(text) if kind == "AVRO" else column.casefold() in text.casefold())
            }
        else:
            return subjects
    return [subject for subject in subjects if subject in holders]


def describe_subjects(registry: Registry, subjects: Sequence[str]) -> list[SubjectOverview]:
    """The rows that lists show of subjects that may be read."""
    scopes = list(dict.fromkeys(scope for subject in subjects for scope in chain(subject)))
    if not scopes:
        return []
    with registry.store.read() as tx:
        configs, modes = tx.configs(scopes), tx.modes(scopes)
        meant = {subject: _alias_target(subject, configs.get(subject, {})) for subject in subjects}
        versions: dict[str, list[ListedVersion]] = {}
        for row in tx.versions_of(list(meant.values())):
            versions.setdefault(row.subject, []).append(row)
    return [
        SubjectOverview(
            subject,
            versions.get(meant[subject], []),
            config.nearest_config(registry, subject, configs)[config.LEVEL],
            subject in configs,
            config.nearest_mode(subject, modes),
            subject in modes,
        )
        for subject in subjects
    ]


def _alias_target(subject: str, setting: config.Config) -> str:
    try:
        return config.resolve_alias(subject, setting)
    except RegistryError:  # an alias that can be no subject has no versions
        return ""
