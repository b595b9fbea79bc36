"""Schemas by id and by guid, and all of them."""

from collections.abc import Collection
from functools import partial
from uuid import UUID

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config
from ticdc_bridge.service.registry.model import StoredVersion, has_rule
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, context_of, name_of, prefix_of
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.references import stored_schema, tags_of
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.subjects import ALL_CONTEXTS, matches
from ticdc_bridge.service.schema_types.base import Formats, TaggedEntity
from ticdc_bridge.service.schema_types.java_text import hash_order


def get(registry: Registry, schema_id: int, *, subject: str = "") -> StoredVersion:
    """A version with the id, soft-deleted or not. `subject` chooses it and the context. Raises SCHEMA_ID_NOT_FOUND."""
    with registry.store.read() as tx:
        subject, stored_versions = holders(tx, schema_id, subject)
        if not stored_versions:
            raise RegistryError("SCHEMA_ID_NOT_FOUND", id=schema_id)
        of_subject = [stored for stored in stored_versions if stored.subject == subject]
        return of_subject[-1] if of_subject else by_subject(stored_versions)[0]


def max_id(registry: Registry, context: str) -> int:
    """The highest id ever handed out in a context."""
    with registry.store.read() as tx:
        return tx.max_id(context)


def by_subject(stored_versions: list[StoredVersion]) -> list[StoredVersion]:
    """Among the versions with an id those registered last under each subject; the order is that of Confluent's map."""
    last = {stored.subject: stored for stored in stored_versions}
    return [last[subject] for subject in hash_order(last, concurrent=True)]


def versions(registry: Registry, schema_id: int, *, subject: str = "", deleted: bool = False) -> list[tuple[str, int]]:
    """(subject, version) of every subject with the id, the one registered last. Raises SCHEMA_NOT_FOUND."""
    with registry.store.read() as tx:
        _, stored_versions = holders(tx, schema_id, subject)
    if not stored_versions:
        raise RegistryError("SCHEMA_NOT_FOUND")
    return [(last.subject, last.version) for last in by_subject(stored_versions) if deleted or not last.deleted]


def holders(tx: StoreReader, schema_id: int, subject: str) -> tuple[str, list[StoredVersion]]:
    """The subject that is meant, and the versions with an id in its context.

    A subject that names no context and does not have the id is looked for in all contexts; if none has it, the id is
    that of the default context. One that names a context has to have the id itself; a context alone (`:.ctx:`) is all
    of its subjects. An id is never taken from another context than the one that was named.
    """
    subject = config.target(tx, subject) if subject else ""
    stored_versions = tx.holders(context_of(subject), schema_id)
    if not name_of(subject) or any(version.subject == subject for version in stored_versions):
        return subject, stored_versions
    if context_of(subject) != DEFAULT_CONTEXT:
        return subject, []
    for context in tx.contexts():
        name = prefix_of(context) + subject
        existing = tx.holders(context, schema_id)
        if any(stored.subject == name for stored in existing):
            return name, existing
    return subject, stored_versions


def by_guid(registry: Registry, guid: str) -> StoredVersion:
    """The schema with a guid, wherever it is held. Raises SCHEMA_ID_NOT_FOUND (also for what is no guid)."""
    with registry.store.read() as tx:
        for context, schema_id in tx.ids_of(identity_of(guid)):
            stored_versions = tx.holders(context, schema_id)
            if stored_versions:
                return by_subject(stored_versions)[0]
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


def search(
    registry: Registry,
    *,
    prefix: str = "",
    deleted: bool = False,
    latest_only: bool = False,
    aliases: bool = False,
    rule_type: str = "",
) -> list[tuple[StoredVersion, list[str]]]:
    """All versions whose subject starts with `prefix` (see `subjects.matches`), by subject and version.

    `aliases`: also those of subjects that have an alias which starts so, each with these aliases. `rule_type`: only
    those with a rule of this type.
    """
    store_prefix = "" if prefix.startswith((ALL_CONTEXTS, ":.:")) else prefix
    with registry.store.read() as tx:
        find = tx.search if not latest_only else partial(tx.newest, text="")
        found = [stored for stored in find(store_prefix, deleted=deleted) if matches(stored.subject, prefix)]
        named = config.aliases(tx).items() if aliases else ()
        under = {subject: [name for name in names if matches(name, prefix)] for subject, names in named}
        for subject in {subject for subject, names in under.items() if names} - {stored.subject for stored in found}:
            numbers = [row.version for row in tx.versions(subject) if deleted or not row.deleted]
            more = [tx.version(subject, number) for number in (numbers[-1:] if latest_only else numbers)]
            found += [stored for stored in more if stored is not None]
    found.sort(key=lambda stored: (stored.subject, stored.version))
    fitting = (stored for stored in found if not rule_type or has_rule(stored.content.rule_set, rule_type))
    return [(stored, under.get(stored.subject, [])) for stored in fitting]


def format_schema(registry: Registry, stored: StoredVersion, format_: str) -> str:
    """The schema in a `format` of its type; unknown ones are ignored. Raises INVALID_SCHEMA if it can't hold it."""
    if not format_:
        return stored.content.text
    with registry.store.read() as tx:
        try:
            parsed = stored_schema(registry, tx, stored)
            return parsed.format_text(format_) if isinstance(parsed, Formats) else stored.content.text
        except ValueError as error:
            raise RegistryError("INVALID_SCHEMA", details=f"The schema has no form {format_}: {error}") from None


def tags(registry: Registry, stored: StoredVersion, names: Collection[str]) -> list[TaggedEntity]:
    """The parts of a schema with one of the `names` tags; `*` stands for any. Raises INVALID_SCHEMA, of an import."""
    with registry.store.read() as tx:
        parsed = stored_schema(registry, tx, stored)
    pieces = tags_of(parsed)
    return [piece for piece in pieces if "*" in names or set(names) & set(piece.tags)]
