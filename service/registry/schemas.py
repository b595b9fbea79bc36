"""Schemas by id and by guid, and all of them (registry-api.md §3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from schemas.errors import RegistryError
from service.registry.content import stored_schema
from service.registry.core import Registry
from service.registry.model import DEFAULT_CONTEXT, Stored, context_of
from service.registry.ports import Reader
from service.registry.subjects import ALL_CONTEXTS, matches


@dataclass(frozen=True, slots=True)
class ById:
    """A schema found by id: one of the versions that hold it, and the highest id of its context."""

    stored: Stored
    max_id: int


def get(registry: Registry, schema_id: int, *, subject: str = "") -> ById:
    """The schema with an id; soft-deleted versions count. Raises SCHEMA_ID_NOT_FOUND.

    `subject` chooses the context and, if it holds the id, the version shown.
    """
    with registry.store.read() as tx:
        context, found = holders(tx, schema_id, subject)
        if not found:
            raise RegistryError("SCHEMA_ID_NOT_FOUND", id=schema_id)
        own = [stored for stored in found if stored.subject == subject]
        live = [stored for stored in found if not stored.deleted]
        return ById((own or live or found)[0], tx.max_id(context))


def versions(registry: Registry, schema_id: int, *, subject: str = "", deleted: bool = False) -> list[tuple[str, int]]:
    """(subject, version) of every subject with the id, the one registered last. Raises SCHEMA_NOT_FOUND."""
    with registry.store.read() as tx:
        _, found = holders(tx, schema_id, subject)
    if not found:
        raise RegistryError("SCHEMA_NOT_FOUND")
    last = {stored.subject: stored.version for stored in found if deleted or not stored.deleted}
    return sorted(last.items())


def holders(tx: Reader, schema_id: int, subject: str) -> tuple[str, list[Stored]]:
    """The versions with an id in the subject's context; an id that is not there is looked for in the default one."""
    found = tx.holders(context_of(subject), schema_id)
    if found or context_of(subject) == DEFAULT_CONTEXT:
        return context_of(subject), found
    return DEFAULT_CONTEXT, tx.holders(DEFAULT_CONTEXT, schema_id)


def by_guid(registry: Registry, guid: str) -> Stored:
    """The schema with a guid, wherever it is held. Raises SCHEMA_ID_NOT_FOUND (also for what is no guid)."""
    with registry.store.read() as tx:
        for context, schema_id in tx.ids_of(identity_of(guid)):
            found = tx.holders(context, schema_id)
            if found:
                return found[0]
    raise RegistryError("SCHEMA_ID_NOT_FOUND", id=guid)


def ids_of_guid(registry: Registry, guid: str) -> list[tuple[str, int]]:
    """Every (context, id) of a guid."""
    with registry.store.read() as tx:
        return tx.ids_of(identity_of(guid))


def identity_of(guid: str) -> bytes:
    try:
        return UUID(guid).bytes
    except ValueError:
        return b""


def search(registry: Registry, *, prefix: str = "", deleted: bool = False, latest_only: bool = False) -> list[Stored]:
    """All versions whose subject starts with `prefix` (see `subjects.matches`), by subject and version."""
    wanted = "" if prefix.startswith((ALL_CONTEXTS, ":.:")) else prefix
    with registry.store.read() as tx:
        found = [stored for stored in tx.search(wanted, deleted=deleted) if matches(stored.subject, prefix)]
    return list({stored.subject: stored for stored in found}.values()) if latest_only else found


def formatted_text(registry: Registry, stored: Stored, format_: str) -> str:
    """The schema in a `format` of its type: `resolved` for Avro, `serialized` and `ignore_extensions` for Protobuf.

    Raises INVALID_SCHEMA for a schema that was accepted but that the format can't hold.
    """
    with registry.store.read() as tx:
        try:
            return stored_schema(registry, tx, stored.content).formatted(format_)
        except ValueError as error:
            raise RegistryError("INVALID_SCHEMA", details=f"The schema has no form {format_}: {error}") from None
