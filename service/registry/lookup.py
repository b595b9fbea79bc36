"""Looking a schema up under a subject: the same content, or what means the same."""

from __future__ import annotations

from dataclasses import replace

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config
from ticdc_bridge.service.registry.metadata import VERSION, properties, without_version
from ticdc_bridge.service.registry.model import Content, LookupResult, NewSchema, StoredVersion
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, context_of, prefix_of
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.references import likeness, parse_with_references, stored_schema
from ticdc_bridge.service.registry.registry import Registry


def lookup(
    registry: Registry, subject: str, new: NewSchema, *, normalize: bool = False, deleted: bool = False
) -> LookupResult:
    """The version of the subject with this schema; a subject that names no context is looked for in all of them.

    Raises INVALID_SCHEMA, SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND.
    """
    with registry.store.read() as tx:
        subject, rules = config.resolve_subject(registry, tx, subject)
        if new.text.strip():
            normalize = normalize or rules.normalize  # in other contexts, too
            match = find_under(registry, tx, subject, new, rules, normalize=normalize, deleted=deleted)
            match = match or find_elsewhere(registry, tx, subject, new, normalize=normalize, deleted=deleted)
            if match is not None:
                return match
        if tx.latest(subject, deleted=deleted) is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    raise RegistryError("SCHEMA_NOT_FOUND")


def find_under(
    registry: Registry,
    tx: StoreReader,
    subject: str,
    new: NewSchema,
    rules: config.EffectiveConfig,
    *,
    normalize: bool,
    deleted: bool,
) -> LookupResult | None:
    """The version of one subject with this schema, as sent or with the metadata a registration would add to it."""
    _, content = parse_with_references(registry, tx, subject, new, normalize=normalize, strict=False)
    match = find_same(registry, tx, subject, content, deleted=deleted)
    latest = None if match else tx.latest(subject)
    if match or latest is None:
        return match
    metadata = rules.complete_metadata(latest.content.metadata if new.metadata is None else new.metadata)
    rule_set = latest.content.rule_set if new.rule_set is None else new.rule_set
    if (metadata, rule_set) == (new.metadata, new.rule_set):
        return None
    full = replace(new, metadata=metadata, rule_set=rule_set)
    _, content = parse_with_references(registry, tx, subject, full, normalize=normalize, strict=False)
    return find_same(registry, tx, subject, content, deleted=deleted)


def find_elsewhere(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, *, normalize: bool, deleted: bool
) -> LookupResult | None:
    """The version with this schema in another context, for a subject that names none."""
    if context_of(subject) != DEFAULT_CONTEXT:
        return None
    for context in tx.contexts():
        name = prefix_of(context) + subject
        if tx.latest(name, deleted=deleted) is None:
            continue
        rules = config.effective_config(registry, tx, name)
        try:
            match = find_under(registry, tx, name, new, rules, normalize=normalize, deleted=deleted)
        except RegistryError:
            continue  # the schema has no meaning there, e.g. for want of a reference
        if match is not None:
            return match
    return None


def find_same(
    registry: Registry,
    tx: StoreReader,
    subject: str,
    content: Content,
    *,
    deleted: bool = False,
    schema_id: int | None = None,
) -> LookupResult | None:
    """The version of the subject with this content (and id), or with one that is alike."""
    same = tx.by_content(subject, content, deleted=deleted, schema_id=schema_id)
    if same is not None and content.has_parts_of(same.content):
        return LookupResult(same)
    for stored in tx.lookalikes(subject, content.likeness, deleted=deleted):
        if schema_id in (None, stored.id) and means_the_same(registry, tx, content, stored):
            return LookupResult(stored, alike=True)
    return None


def means_the_same(registry: Registry, tx: StoreReader, content: Content, stored: StoredVersion) -> bool:
    """True if a stored version is what was sent: in another order, by reference where that is written out, or numbered.

    Confluent's `ParsedSchema.canLookup`. A number that only the sent schema records has to be that of the version.
    """
    there = stored.content
    if (content.rule_set, content.kind) != (there.rule_set, there.kind):
        return False
    sent_number, number = (properties(one.metadata).get(VERSION) for one in (content, there))
    if sent_number is not None and number is None and sent_number != str(stored.version):
        return False
    if (sent_number is None) == (number is None):
        same_metadata = content.metadata == there.metadata
    else:
        same_metadata = (without_version(content.metadata) or None) == (without_version(there.metadata) or None)
    if not same_metadata or content.references not in ((), there.references):
        return False
    if (content.text, content.references) == (there.text, there.references):
        return True
    try:
        parsed = stored_schema(registry, tx, stored)
    except RegistryError:  # it refers to what may not be seen
        return False
    resolved = content.references != there.references
    return likeness(parsed.unordered_text(resolved=resolved)) == content.likeness
