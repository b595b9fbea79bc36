"""Registering a schema: what is checked, in which order, and the id and version it gets.

Whether the schema is there already is asked several times. The order is Confluent's:

| who asks, and when | how | what it finds |
|---|---|---|
| `registration_batches`, before its turn | `repeats`: the identity alone | what the app can answer from a read |
| `find_repeat`, in a read | `same_version`: as sent, with the id and version named | most: TiCDC repeats itself |
| `find_repeat`, then | the identity of what `fill_in` makes of it | what the version before it completes |
| `add`, alone | `same_version`: what is to be stored | what somebody else has registered since |
| `find_under`, for look-ups only | `find_same`: as sent, then completed | also what is soft-deleted |

`same_version` and `find_under` end in `find_same`: the same identity, or by `means_the_same` what has references
where the sent one is written out, or a recorded version number.
"""

import time
from dataclasses import replace

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, names, references
from ticdc_bridge.service.registry.compatibility import check_against, logical_changes, warn
from ticdc_bridge.service.registry.config import VERSION, properties, with_version, without_version
from ticdc_bridge.service.registry.model import Content, LookupResult, NewSchema, StoredVersion, VersionRow
from ticdc_bridge.service.registry.ports import StoreReader, StoreWriter
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.subjects import get_in_contexts
from ticdc_bridge.service.schema_types.parse import ParsedSchema


class NeedsFullPath(Exception):
    """A registration that `register_plain` leaves to `register`."""


def register(
    registry: Registry, subject: str, new: NewSchema, *, normalize: bool = False, force: bool = False
) -> LookupResult:
    """Register a schema and return its version; a schema the subject has already gives that version again.

    `force` skips the compatibility check. The order of the checks is Confluent's.
    Raises INVALID_SUBJECT, READ_ONLY, NOT_IN_IMPORT_MODE, NOT_IN_READ_WRITE_MODE, INVALID_SCHEMA, INCOMPATIBLE_SCHEMA,
    ID_TAKEN, VERSION_TAKEN.
    """
    names.check_subject(subject)
    # Most registrations repeat one that is known: answer those from a read, without waiting for the writers' turn.
    with registry.store.read() as tx:
        subject, rules = config.resolve_subject(registry, tx, subject, normalize=normalize)
        # Not a repeat: Confluent numbers each version that names tags, also one that changes none.
        if new.changes_tags or new.keep_tags:
            if not new.changes_tags:
                config.check_register(config.find_mode(tx, subject), subject, new.id)
            new, repeat = with_previous_tags(registry, tx, subject, new), None
        else:
            repeat = find_repeat(registry, tx, subject, new, rules)
    if repeat is not None:
        return repeat
    with registry.store.write() as writer:
        rules = config.effective_config(registry, writer, subject, normalize=normalize)
        return add(registry, writer, subject, new, rules, force=force)


def register_plain(
    registry: Registry,
    tx: StoreWriter,
    subject: str,
    new: NewSchema,
    understood: references.UnderstoodSchema,
    *,
    normalize: bool = False,
) -> LookupResult:
    """What `register` does with a new schema, text only, that it has to complete in no way and that nobody has yet.

    `understood`: what `understand` made of it.

    Raises NeedsFullPath where that is not so, and what `register` raises, also where that would find the schema to be
    there already; either way the transaction has to be given up, and `register` knows what to do.
    """
    names.check_subject(subject)
    meant, rules = config.resolve_subject(registry, tx, subject, normalize=normalize)
    if meant != subject or rules.adds_metadata:
        raise NeedsFullPath
    registration = add(registry, tx, subject, new, rules, understood=understood)
    if registration.completed or not registration.new:
        raise NeedsFullPath
    return registration


def with_previous_tags(registry: Registry, tx: StoreReader, subject: str, new: NewSchema) -> NewSchema:
    """The schema with the tags that the request adds and removes; its version is recorded then."""
    add = new.tags_to_add
    if new.keep_tags:
        latest = tx.latest(subject)
        previous = references.stored_schema(registry, tx, latest) if latest else None
        add = (*add, *references.tags_of(previous)) if previous else add
    if not (add or new.tags_to_remove) or not (new.changes_tags or new.text.strip()):
        return new
    parsed, content = references.parse_with_references(registry, tx, subject, new, normalize=False, strict=False)
    try:
        text = parsed.change_tags(add, new.tags_to_remove)
    except ValueError as error:
        raise RegistryError("INVALID_SCHEMA", details=str(error)) from None
    version = names.LATEST if new.changes_tags and new.version is None else new.version
    new = replace(new, text=text, references=content.references, version=version)
    return replace(new, tags_to_add=(), tags_to_remove=(), keep_tags=False)


def find_repeat(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, rules: config.EffectiveConfig
) -> LookupResult | None:
    """The version that a registration repeats, if nothing has to be written for it."""
    latest = tx.latest(subject)
    if new.text.strip() and not rules.adds_metadata:
        try:
            _, content = parse_for_storage(registry, tx, subject, new, rules)
        except RegistryError as error:
            if error.code != "INVALID_SCHEMA":
                raise
            # What is stored may be read leniently: it was imported, or the rules were others then.
            _, content = parse_for_storage(registry, tx, subject, new, replace(rules, validate_new=False))
            repeat = same_version(registry, tx, subject, new, content)
            # Written out where the stored one refers to others, it would have to be valid by itself.
            if repeat is not None and repeat.stored.content.references == content.references:
                return repeat
            config.check_register(config.find_mode(tx, subject), subject, new.id)
            if new.id is None:
                raise
            return None
        repeat = same_version(registry, tx, subject, new, content) if latest else None
        if repeat is not None:
            return repeat
    in_scope = config.find_mode(tx, subject)
    config.check_register(in_scope, subject, new.id)
    if new.version or config.takes_ids(in_scope):
        return None
    full = fill_in(new, latest, rules, 0)
    if not full.text.strip() or (full == new and not rules.adds_metadata):
        return None
    if VERSION in properties(full.metadata):
        return None  # carries the number of the version to come, so it is new
    _, content = parse_for_storage(registry, tx, subject, full, rules)
    same = tx.by_content(subject, content)
    return LookupResult(same, completed=full != new) if same and content.has_members_of(same.content) else None


def same_version(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, content: Content
) -> LookupResult | None:
    """A version with this content, if the id and version that the request names are those."""
    if new.version == names.LATEST:
        latest = tx.latest(subject)
        lookup = LookupResult(latest, alike=True) if latest and means_the_same(registry, tx, content, latest) else None
    elif new.version and new.id is None:
        return None
    else:
        lookup = find_same(registry, tx, subject, content, schema_id=new.id)
    if lookup is None or (new.id is not None and lookup.stored.id != new.id):
        return None
    if new.version in (None, 0, names.LATEST, lookup.stored.version):
        return lookup
    version = tx.version(subject, new.version or 0)  # an import may bring one schema as several versions
    if version is None or version.deleted or (version.id, version.content) != (new.id, lookup.stored.content):
        return None
    return LookupResult(version)


def parse_for_storage(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, rules: config.EffectiveConfig
) -> tuple[ParsedSchema, Content]:
    """A schema as it would be stored. One that comes with its id is taken as it is."""
    normalize, strict = (flag and new.id is None for flag in (rules.normalize, rules.validate_new))
    return references.parse_with_references(
        registry, tx, subject, new, normalize=normalize, strict=strict, validate_fields=rules.validate_fields
    )


def fill_in(new: NewSchema, previous: StoredVersion | None, rules: config.EffectiveConfig, version: int) -> NewSchema:
    """The schema with what the version before it and the config add. `version`: the number of the version to come."""
    if previous is not None and not new.text.strip():
        old = previous.content
        new = replace(new, text=old.text, kind=old.kind, references=old.references)
    filled = new.metadata if new.metadata is not None or previous is None else previous.content.metadata
    metadata = rules.complete_metadata(filled)
    if new.version or VERSION in properties(metadata):
        metadata = with_version(metadata, version)
    if new.rule_set is None and previous is not None:
        new = replace(new, rule_set=previous.content.rule_set)
    return replace(new, metadata=metadata)


def add(
    registry: Registry,
    tx: StoreWriter,
    subject: str,
    new: NewSchema,
    rules: config.EffectiveConfig,
    *,
    force: bool = False,
    understood: references.UnderstoodSchema | None = None,
) -> LookupResult:
    """What of `register` needs to be alone: looks all up again, then writes. understood: if known already."""
    in_scope = config.find_mode(tx, subject)
    config.check_register(in_scope, subject, new.id)
    importing = config.takes_ids(in_scope)
    rows = tx.versions(subject)
    following = rows[-1].version + 1 if rows else 1
    latest = tx.latest(subject) if rows else None
    full = new if importing else fill_in(new, latest, rules, following)
    if not full.text.strip():
        raise RegistryError("INVALID_SCHEMA", details="Empty schema")
    changed = rules.normalize or rules.validate_fields or not rules.validate_new
    if understood is not None and full == new and not changed:
        parsed, content = understood.parsed, understood.content
    else:
        parsed, content = parse_for_storage(registry, tx, subject, full, rules)
    repeat = same_version(registry, tx, subject, new, content) if rows else None
    if repeat is not None and repeat.alike and not new.version:
        # Not found as it was sent: Confluent gives the id and version of the one there, and the text that was sent.
        repeat = LookupResult(replace(repeat.stored, content=content))
    if repeat is not None:
        return replace(repeat, completed=full != new)
    olds = [latest] if latest and not importing else []
    if olds and rules.compares_many:
        olds = tx.live_versions(subject)
    changes = logical_changes(registry, tx, olds, parsed)
    if not importing and not force:
        problems = check_against(registry, tx, olds, parsed, content, rules)
        if problems:
            raise RegistryError("INCOMPATIBLE_SCHEMA", subject=subject, details=", ".join(problems))
    version = new.version if new.version and new.version > 0 else check_limit(following, "version")
    if version != following and not importing:
        raise RegistryError("INVALID_SCHEMA", details="Version is not one more than previous version")
    # An id stands for one schema, also where only soft-deleted versions have it.
    context = names.context_of(subject)
    holder = None if new.id is None else tx.schema(context, new.id)
    if holder is not None and holder != content:
        raise RegistryError("ID_TAKEN", id=new.id, context=names.prefix_of(context))
    replace_deleted(tx, subject, version, new.id, rows)
    schema_id = assign_id(tx, context, new.id, content)
    stored = StoredVersion(subject, version, schema_id, content, time.time_ns() // 1_000_000)
    tx.put_version(context, subject, version, schema_id, content, stored.ts)
    # A soft-deleted version with the same schema is replaced by the new one, unless something refers to it (measured).
    replaced = [row.version for row in rows if row.deleted and row.id == schema_id and row.version < version]
    tx.remove(subject, [old for old in replaced if not tx.referrers(subject, old)])
    warn(tx, stored, changes)
    return LookupResult(stored, completed=full != new, new=True)


def replace_deleted(tx: StoreWriter, subject: str, version: int, schema_id: int | None, rows: list[VersionRow]) -> None:
    """An import may take the place of a soft-deleted version, and of no other. Raises VERSION_TAKEN, REFERENCED."""
    existing = next((row for row in rows if row.version == version), None)
    if existing is None:
        return
    if not existing.deleted:
        raise RegistryError("VERSION_TAKEN", subject=subject, version=version)
    if existing.id != schema_id and tx.referrers(subject, version):
        raise RegistryError("REFERENCED", subject=subject, version=version)
    tx.remove(subject, [version])


def assign_id(tx: StoreWriter, context: str, requested_id: int | None, content: Content) -> int:
    """The id given, or the context's for this schema, or a new one. Raises ID_TAKEN where another schema has it."""
    existing_id = tx.id_of(context, content) if requested_id is None else None
    if existing_id is not None:
        existing = tx.schema(context, existing_id) if content.references or content.metadata else None
        if existing is not None and not content.has_members_of(existing):
            raise RegistryError("ID_TAKEN", id=existing_id, context=names.prefix_of(context))
        return existing_id
    schema_id = check_limit(tx.new_id(context), "schema id") if requested_id is None else requested_id
    is_new = requested_id is None or tx.schema(context, requested_id) is None
    if requested_id is not None:
        tx.use_id(context, requested_id)
    if is_new:
        tx.put_schema(context, schema_id, content)
    return schema_id


def check_limit(number: int, what: str) -> int:
    """A number that clients can hold; an import may have used up the last one. Raises UNPROCESSABLE."""
    if number > names.MAX_VERSION:
        raise RegistryError("UNPROCESSABLE", details=f"There is no {what} left: the last is {names.MAX_VERSION}")
    return number


def tag(registry: Registry, subject: str, version: int, new: NewSchema) -> LookupResult:
    """Register a version again with other tags, metadata or both, as the next version.

    Of `new`, the tags, the metadata and the version count. Raises SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, and what
    `register` raises.
    """
    with registry.store.read() as tx:
        subject = config.target(tx, subject)
        found = get_in_contexts(tx, subject, version)
        old = found.content
        metadata = old.metadata if new.metadata is None else new.metadata
        number = new.version or 0
        new = replace(new, text=old.text, kind=old.kind, references=old.references)
        new = replace(new, metadata=with_version(metadata, number), version=number)
        new = with_previous_tags(registry, tx, found.subject, new)
    with registry.store.write() as writer:
        rules = replace(config.effective_config(registry, writer, subject), normalize=False)  # the text is a stored one
        return add(registry, writer, subject, replace(new, version=number), rules)


def lookup(
    registry: Registry, subject: str, new: NewSchema, *, normalize: bool = False, deleted: bool = False
) -> LookupResult:
    """The version with this schema, in any context if none is named. Raises INVALID_SCHEMA, …_NOT_FOUND."""
    with registry.store.read() as tx:
        subject, rules = config.resolve_subject(registry, tx, subject, normalize=normalize)
        if new.text.strip():
            match = find_under(registry, tx, subject, new, rules, deleted=deleted)
            match = match or find_elsewhere(registry, tx, subject, new, normalize=rules.normalize, deleted=deleted)
            if match is not None:
                return match
        if tx.latest(subject, deleted=deleted) is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
    raise RegistryError("SCHEMA_NOT_FOUND")


def find_under(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, rules: config.EffectiveConfig, *, deleted: bool
) -> LookupResult | None:
    """The version of one subject with this schema, as sent or with the metadata a registration would add to it."""
    _, content = references.parse_with_references(registry, tx, subject, new, normalize=rules.normalize, strict=False)
    match = find_same(registry, tx, subject, content, deleted=deleted)
    latest = None if match else tx.latest(subject)
    if match or latest is None:
        return match
    metadata = rules.complete_metadata(latest.content.metadata if new.metadata is None else new.metadata)
    rule_set = latest.content.rule_set if new.rule_set is None else new.rule_set
    if (metadata, rule_set) == (new.metadata, new.rule_set):
        return None
    full = replace(new, metadata=metadata, rule_set=rule_set)
    _, content = references.parse_with_references(registry, tx, subject, full, normalize=rules.normalize, strict=False)
    return find_same(registry, tx, subject, content, deleted=deleted)


def find_elsewhere(
    registry: Registry, tx: StoreReader, subject: str, new: NewSchema, *, normalize: bool, deleted: bool
) -> LookupResult | None:
    """The version with this schema in another context, for a subject that names none."""
    if names.context_of(subject) != names.DEFAULT_CONTEXT:
        return None
    for context in tx.contexts():
        name = names.prefix_of(context) + subject
        if tx.latest(name, deleted=deleted) is None:
            continue
        rules = replace(config.effective_config(registry, tx, name), normalize=normalize)
        try:
            match = find_under(registry, tx, name, new, rules, deleted=deleted)
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
    if same is not None and content.has_members_of(same.content):
        return LookupResult(same)
    for stored in tx.lookalikes(subject, content.likeness, deleted=deleted):
        if schema_id in (None, stored.id) and means_the_same(registry, tx, content, stored):
            return LookupResult(stored, alike=True)
    return None


def means_the_same(registry: Registry, tx: StoreReader, content: Content, stored: StoredVersion) -> bool:
    """True if a stored version is what was sent: reordered, by reference, or numbered (Confluent's `canLookup`)."""
    existing = stored.content
    if (content.rule_set, content.kind) != (existing.rule_set, existing.kind):
        return False
    sent_number, number = (properties(entry.metadata).get(VERSION) for entry in (content, existing))
    if sent_number is not None and number is None and sent_number != str(stored.version):
        return False
    if (sent_number is None) == (number is None):
        same_metadata = content.metadata == existing.metadata
    else:
        same_metadata = (without_version(content.metadata) or None) == (without_version(existing.metadata) or None)
    if not same_metadata or content.references not in ((), existing.references):
        return False
    if (content.text, content.references) == (existing.text, existing.references):
        return True
    try:
        parsed = references.stored_schema(registry, tx, stored)
    except RegistryError:  # it refers to what may not be seen
        return False
    resolved = content.references != existing.references
    return references.likeness(parsed.unordered_text(resolved=resolved)) == content.likeness
