"""From what a client sent to what is stored: references resolved, text made canonical, identity taken."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, model
from ticdc_bridge.service.registry.names import context_of, guid, qualify
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import ChecksFields, ReferencedText, SchemaValidityError, TaggedEntity
from ticdc_bridge.service.schema_types.parse import KINDS, ParsedSchema

_SHOWN_TEXT = 10240
_MAX_REFERENCED = 1000
_PRESENT = b"\x01"

FindVersion = Callable[[str, int], model.StoredVersion | None]
"""A version by subject and number, soft-deleted or not."""


def identity(
    text: str,
    references: Sequence[model.Reference] = (),
    metadata: model.Metadata | None = None,
    rule_set: model.RuleSet | None = None,
) -> bytes:
    """MD5 over the canonical text, the references, the metadata and the rule set. The schema type is not part of it."""
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False)
    for reference in references:
        version = reference.version or 0
        digest.update(f"{reference.name}{reference.subject or ''}".encode("utf-8", "replace"))
        digest.update(version.to_bytes(4, "big", signed=True))
    if metadata is not None:
        digest.update(_PRESENT)
        for path, tags in sorted(metadata.get("tags", {}).items()):
            digest.update("".join([path, *sorted(tags)]).encode("utf-8", "replace"))
        for key, value in sorted(metadata.get("properties", {}).items()):
            digest.update(f"{key}{value}".encode("utf-8", "replace"))
        digest.update("".join(sorted(metadata.get("sensitive", ()))).encode("utf-8", "replace"))
    if rule_set is not None:
        digest.update(_PRESENT)
        model.update_hash(digest, rule_set)
    return digest.digest()


def likeness(unordered_text: str) -> bytes:
    """A digest of `ParsedSchema.unordered_text`, the same for schemas that differ in order only; shown to nobody."""
    return hashlib.sha256(unordered_text.encode("utf-8", "replace")).digest()[:16]


class SoftDeletedReference(ValueError):
    """A reference leads to a version that is soft-deleted."""


@dataclass(frozen=True, slots=True)
class UnderstoodSchema:
    """A parsed schema, and what of it would be stored."""

    parsed: ParsedSchema
    content: model.Content


def understand(registry: Registry, new: model.NewSchema) -> UnderstoodSchema:
    """The schema of a text alone, as strictly read as new schemas are and not normalised. Raises ValueError."""
    parsed = registry.parse(new.kind, new.text)
    alike = likeness(parsed.unordered_text())
    return UnderstoodSchema(parsed, model.Content(identity(parsed.text), parsed.text, new.kind, likeness=alike))


def parse_with_references(
    registry: Registry,
    tx: StoreReader,
    subject: str,
    new: model.NewSchema,
    *,
    normalize: bool,
    strict: bool = True,
    validate_fields: bool = False,
) -> tuple[ParsedSchema, model.Content]:
    """Parse `new` and say what would be stored. Raises INVALID_SCHEMA with Confluent's text.

    `strict` False reads it as leniently as what is stored already; `validate_fields` asks more of a strict one. A
    schema that the context has may refer to versions that are soft-deleted by now: it is registered again. What is
    imported may be invalid, e.g. refer to what is not there, and is never normalised.
    """
    registry.check_kind(new.kind)
    context = context_of(subject)
    normalize = normalize and not config.takes_ids(config.find_mode(tx, subject))
    references = tuple(resolve_latest(tx, context, reference) for reference in new.references)
    missing: SoftDeletedReference | None = None
    try:
        try:
            texts = referenced_texts(tx.version, context, references, deleted=not strict)
        except SoftDeletedReference as error:
            missing = error
            texts = referenced_texts(tx.version, context, references, deleted=True)
        try:
            parsed = registry.parse(new.kind, new.text, texts, strict=strict)
            if not strict:
                parsed.check_validity()
        except SchemaValidityError:
            if not config.takes_ids(config.find_mode(tx, subject)):
                raise
            parsed = registry.parse(new.kind, new.text, texts, strict=False)
        if strict and validate_fields and isinstance(parsed, ChecksFields):
            parsed.check_fields()
        text = parsed.normalized_text() if normalize else parsed.text
    except ValueError as error:
        raise invalid_schema_error(subject, new, missing or error) from None
    if normalize:
        ordered = sorted(references, key=lambda entry: (entry.subject or "", entry.version or 0))
        references = tuple(dict.fromkeys(ordered))
    same = identity(text, references, new.metadata, new.rule_set)
    alike = likeness(parsed.unordered_text(normalized=normalize))
    content = model.Content(same, text, new.kind, references, new.metadata, new.rule_set, alike)
    if missing is not None and tx.id_of(context, content) is None:
        raise invalid_schema_error(subject, new, missing)
    return parsed, content


def likeness_of(kind: str, text: str) -> bytes:
    """The likeness of a stored text that refers to nothing; of one that can't be read, that of the text itself."""
    try:
        return likeness(KINDS[kind](text, (), False).unordered_text())
    except (KeyError, ValueError):
        return likeness(text)


def stored_schema(registry: Registry, tx: StoreReader, stored: model.StoredVersion) -> ParsedSchema:
    """A stored schema parsed leniently. Raises INVALID_SCHEMA if it refers to what is not there, or not to be seen."""
    content = stored.content
    try:
        texts = referenced_texts(tx.version, context_of(stored.subject), content.references, deleted=True)
        return registry.parse(content.kind, content.text, texts, strict=False)
    except ValueError as error:
        where = f"Subject '{stored.subject}' version {stored.version} can't be read"
        raise RegistryError("INVALID_SCHEMA", details=f"{where}: {error}") from None


def tags_of(parsed: ParsedSchema) -> list[TaggedEntity]:
    """The tags in a stored schema. Raises INVALID_SCHEMA: what was imported may be invalid."""
    try:
        return parsed.tags()
    except ValueError as error:
        raise RegistryError("INVALID_SCHEMA", details=f"Its tags can't be read: {error}") from None


def resolve_latest(tx: StoreReader, context: str, reference: model.Reference) -> model.Reference:
    """Version -1 of a reference means the latest and is stored as its number."""
    if reference.version == -1 and reference.subject:
        latest = tx.latest(qualify(reference.subject, context))
        if latest is not None:
            return replace(reference, version=latest.version)
    return reference


def referenced_texts(
    find: FindVersion, context: str, references: tuple[model.Reference, ...], *, deleted: bool = False
) -> tuple[ReferencedText, ...]:
    """The texts of all references, each after those it needs. Raises ValueError for one that is not there.

    A subject without a context is in that of the schema which refers to it. A soft-deleted version is there for what
    is stored already (`deleted`), not for new schemas: SoftDeletedReference.
    """
    if not references:
        return ()
    direct_keys = {(entry.name, qualify(entry.subject or "", context), entry.version) for entry in references}
    texts: dict[tuple[str, str, int], ReferencedText] = {}
    waiting = [(reference, context, False) for reference in reversed(references)]
    for _ in range(_MAX_REFERENCED):
        if not waiting:
            return tuple(texts.values())
        reference, context, ready = waiting.pop()
        if not reference.name or not reference.subject or reference.version is None:
            raise ValueError(f"Invalid reference: {reference.error_text()}")
        key = (reference.name, qualify(reference.subject, context), reference.version)
        if key in texts:
            continue
        stored = find(*key[1:])
        if stored is None or (stored.deleted and not (ready or deleted)):
            kind = ValueError if stored is None else SoftDeletedReference
            raise kind(f'No schema reference found for subject "{key[1]}" and version {key[2]}')
        if ready:
            texts[key] = ReferencedText(*key, text=stored.content.text, direct=key in direct_keys)
        else:
            waiting.append((reference, context, True))
            waiting += [(inner, context_of(key[1]), False) for inner in reversed(stored.content.references)]
    raise ValueError(f"More than {_MAX_REFERENCED} references")


def invalid_schema_error(subject: str, new: model.NewSchema, reason: ValueError) -> RegistryError:
    """42201 with the fixed part of Confluent's text; a very long schema text is cut."""
    if new.kind != "AVRO" and not isinstance(reason, SchemaValidityError):
        of_type = f"Invalid schema of type {new.kind}, details: "
        return RegistryError("INVALID_SCHEMA", details=f"{of_type}{of_type}{reason}")
    text = new.text if len(new.text) <= _SHOWN_TEXT else new.text[:_SHOWN_TEXT] + "..."
    references = "[" + ", ".join(reference.error_text() for reference in new.references) + "]"
    sent = f"version={new.version or 0},id={-1 if new.id is None else new.id}"
    numbers = sent if isinstance(reason, SchemaValidityError) else "version=null,id=null"
    schema_text = (
        f"{{subject={subject},{numbers},guid={guid(identity(new.text, new.references, new.metadata))},"
        f"schemaType={new.kind},references={references},metadata={config.metadata_text(new.metadata)},"
        f"ruleSet=null,schema={text},schemaTags=null,ts=null,deleted=null}}"
    )
    if isinstance(reason, SchemaValidityError):
        return RegistryError("INVALID_SCHEMA", details=f"Invalid schema {schema_text}, details: {reason}")
    details = (
        f"Invalid schema of type {new.kind}, details: Invalid schema {schema_text} "
        f"with refs {references} of type {new.kind}, details: {reason}"
    )
    return RegistryError("INVALID_SCHEMA", details=details)
