"""Registering a schema and looking one up (registry-api.md §4)."""

from __future__ import annotations

import time
from dataclasses import replace

from schemas.errors import RegistryError
from service.registry import compat, config
from service.registry.content import stored_schema, understand
from service.registry.core import Registry
from service.registry.identity import identity
from service.registry.kinds import Parsed
from service.registry.model import Content, Found, Metadata, NewSchema, Stored, context_of
from service.registry.naming import check_subject
from service.registry.ports import Reader, Writer

_VERSION_PROPERTY = "confluent:version"


def register(
    registry: Registry, subject: str, new: NewSchema, *, normalize: bool = False, force: bool = False
) -> Found:
    """Register a schema and return its version; a schema the subject has already gives that version again.

    `force` skips the compatibility check. The order of the checks is Confluent's (§4).
    Raises INVALID_SUBJECT, NOT_IN_IMPORT_MODE, INVALID_SCHEMA, INCOMPATIBLE_SCHEMA.
    """
    check_subject(subject)
    if new.id is not None and new.id > 0:
        context = context_of(subject)
        raise RegistryError("NOT_IN_IMPORT_MODE", subject=subject, context="" if context == "." else f":{context}:")
    # Most registrations repeat one that is known: answer those from a read, without waiting for the writers' turn.
    with registry.store.read() as tx:
        _, content, _ = prepared(registry, tx, subject, new, normalize)
        known = None if new.version else find(registry, tx, subject, content)
    if known is not None:
        return known
    with registry.store.write() as writer:
        return add(registry, writer, subject, new, normalize, force)


def add(registry: Registry, tx: Writer, subject: str, new: NewSchema, normalize: bool, force: bool) -> Found:
    """The part of `register` that needs to be alone: everything is looked up again, then written."""
    parsed, content, rules = prepared(registry, tx, subject, new, normalize)
    known = None if new.version else find(registry, tx, subject, content)
    if known is not None:
        return known
    if not force:
        problems = compatibility(registry, tx, tx.live(subject), parsed, rules)
        if problems:
            raise RegistryError("INCOMPATIBLE_SCHEMA", subject=subject, details=", ".join(problems))
    rows = tx.versions(subject)
    version = rows[-1].version + 1 if rows else 1
    if new.version and new.version > 0 and new.version != version:
        raise RegistryError("INVALID_SCHEMA", details="Version is not one more than previous version")
    context = context_of(subject)
    schema_id = tx.id_of(context, content.identity)
    if schema_id is None:
        schema_id = tx.new_id(context)
        tx.put_schema(context, schema_id, content)
    ts = time.time_ns() // 1_000_000
    tx.put_version(context, subject, version, schema_id, content, ts)
    # A soft-deleted version with the same schema is replaced by the new one, unless something refers to it (§4.5).
    replaced = [row.version for row in rows if row.deleted and row.id == schema_id]
    tx.remove(subject, [old for old in replaced if not tx.referrers(subject, old)])
    return Found(Stored(subject, version, schema_id, content, ts))


def lookup(
    registry: Registry, subject: str, new: NewSchema, *, normalize: bool = False, deleted: bool = False
) -> Found:
    """The version of the subject with this schema. Raises INVALID_SCHEMA, SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND."""
    with registry.store.read() as tx:
        if new.text:
            normalize = normalize or config.in_force(registry, tx, subject).normalize
            _, content = understand(registry, tx, subject, new, normalize=normalize)
            found = find(registry, tx, subject, content, deleted=deleted)
            if found is not None:
                return found
        if tx.latest(subject, deleted=deleted) is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    raise RegistryError("SCHEMA_NOT_FOUND")


def find(registry: Registry, tx: Reader, subject: str, content: Content, *, deleted: bool = False) -> Found | None:
    """The version of the subject with this content.

    Content without metadata means the metadata of the latest version (§4.7); content without references also means
    the version that has the same types by reference (§4.8).
    """
    same = tx.by_identity(subject, content.identity, deleted=deleted)
    if same is not None:
        return Found(same)
    latest = tx.latest(subject, deleted=deleted)
    if latest is None:
        return None
    if content.metadata is None and latest.content.metadata is not None:
        with_metadata = identity(content.text, content.references, latest.content.metadata)
        same = tx.by_identity(subject, with_metadata, deleted=deleted)
        if same is not None:
            return Found(same)
    if content.references or not tx.has_references(subject):
        return None
    for stored in reversed(tx.live(subject)):
        if stored.content.references and stored_schema(registry, tx, stored.content).resolved() == content.text:
            return Found(stored, inlined=True)
    return None


def prepared(
    registry: Registry, tx: Reader, subject: str, new: NewSchema, normalize: bool
) -> tuple[Parsed, Content, config.InForce]:
    """What would be stored, after the subject's config and its previous version had their say (§4.7)."""
    rules = config.in_force(registry, tx, subject)
    previous = tx.latest(subject)
    if previous is not None:
        metadata = inherited(previous.content.metadata) if new.metadata is None else new.metadata
        new = replace(new, metadata=metadata)
        if not new.text:
            old = previous.content
            new = replace(new, text=old.text, kind=old.kind, references=old.references)
    if not new.text:
        raise RegistryError("INVALID_SCHEMA", details="Empty schema")
    if new.version:
        rows = tx.versions(subject)
        following = rows[-1].version + 1 if rows else 1
        new = replace(new, metadata=with_version(new.metadata, new.version if new.version > 0 else following))
    parsed, content = understand(registry, tx, subject, new, normalize=normalize or rules.normalize)
    return parsed, content, rules


def inherited(metadata: Metadata | None) -> Metadata | None:
    """Metadata of the previous version for the next one, without the recorded number of the previous."""
    if metadata is None or _VERSION_PROPERTY not in metadata.get("properties", {}):
        return metadata
    properties = {key: value for key, value in metadata["properties"].items() if key != _VERSION_PROPERTY}
    rest = {**metadata, "properties": properties}
    return {key: value for key, value in rest.items() if value} or None


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """Metadata that records an explicitly requested version (§4.6)."""
    properties = {**(metadata or {}).get("properties", {}), _VERSION_PROPERTY: str(version)}
    return {**(metadata or {}), "properties": dict(sorted(properties.items()))}


def compatibility(
    registry: Registry, tx: Reader, olds: list[Stored], parsed: Parsed, rules: config.InForce
) -> list[str]:
    """Messages of the check of `parsed` against `olds` (ascending); [] when it fits."""
    if not rules.level.transitive:
        olds = olds[-1:]
    if not (rules.level.backward or rules.level.forward):
        return []
    versions = [compat.Old(old.version, stored_schema(registry, tx, old.content)) for old in olds]
    return compat.check(parsed, versions, rules.level, validate_fields=rules.validate_fields, lenient=rules.lenient)
