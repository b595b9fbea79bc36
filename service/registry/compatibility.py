"""Whether a schema may follow the versions that are there.

Also warnings of what was accepted though readers may take one value for another: kept with the version, and logged.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config
from ticdc_bridge.service.registry.model import Content, NewSchema, StoredVersion, StoredWarning
from ticdc_bridge.service.registry.names import LATEST
from ticdc_bridge.service.registry.ports import StoreReader, StoreWriter
from ticdc_bridge.service.registry.references import parse_with_references, stored_schema
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.subjects import find_version
from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.base import KIND, HasLogicalTypes, LogicalChange
from ticdc_bridge.service.schema_types.parse import ParsedSchema

_RESERVED_GONE: Final = (
    "The new schema has reserved field {} removed from its metadata which is present in the old schema's metadata."
)
_RESERVED_USED: Final = "The new schema has field that conflicts with the reserved field {}."


def check(registry: Registry, subject: str, version: int | None, new: NewSchema, *, normalize: bool) -> list[str]:
    """Why `new` does not fit. `version` None: all, as the level says. Raises INVALID_SCHEMA, VERSION_NOT_FOUND."""
    with registry.store.read() as tx:
        subject, rules = config.resolve_subject(registry, tx, subject)
        olds = tx.live_versions(subject) if version is None else single_version(tx, subject, version)
        if not new.text.strip():
            raise RegistryError("INVALID_SCHEMA", details="Empty schema")
        normalize = normalize or rules.normalize
        strict, validate_fields = rules.validate_new, rules.validate_fields
        parsed, content = parse_with_references(
            registry, tx, subject, new, normalize=normalize, strict=strict, validate_fields=validate_fields
        )
        return check_against(registry, tx, olds, parsed, content, rules)


def single_version(tx: StoreReader, subject: str, version: int) -> list[StoredVersion]:
    """The latest of a subject that has none is no obstacle; a number that is not there is an error."""
    stored = find_version(tx, subject, version)
    if stored is None and version != LATEST:
        raise RegistryError("VERSION_NOT_FOUND", version=version)
    return [stored] if stored else []


def check_against(
    registry: Registry,
    tx: StoreReader,
    olds: list[StoredVersion],
    parsed: ParsedSchema,
    content: Content,
    rules: config.EffectiveConfig,
) -> list[str]:
    """Messages of the check of `parsed` against `olds` (ascending), strict logical types too; [] when it fits."""
    messages = reserved_fields(olds, parsed, content) if rules.validate_fields else []
    compared = olds
    if rules.group is not None:
        value = config.properties(content.metadata).get(rules.group)
        compared = [old for old in olds if config.properties(old.content.metadata).get(rules.group) == value]
    if not rules.level.transitive:
        compared = compared[-1:]
    problems: list[str] = []
    if rules.level.backward or rules.level.forward:
        versions = [base.EarlierVersion(old.version, stored_schema(registry, tx, old)) for old in compared]
        problems = base.check(
            parsed, versions, rules.level, validate_fields=rules.validate_fields, lenient=rules.lenient
        )
    if messages and not problems:
        problems = [base.trailer(rules.level, rules.validate_fields)]
    if registry.strict_logical_types and not problems and (changes := logical_changes(registry, tx, olds, parsed)):
        return [
            *(change.message() for change in changes),
            *base.old_schema_messages(olds[-1].version, olds[-1].content.text),
            base.trailer(rules.level, rules.validate_fields),
        ]
    return messages + problems


def reserved_fields(olds: list[StoredVersion], parsed: ParsedSchema, content: Content) -> list[str]:
    """Reserved field names must stay reserved and must not be used (metadata property `confluent:reserved`)."""
    now = config.reserved_names(content.metadata)
    before = config.reserved_names(olds[-1].content.metadata) if olds else []
    gone = [_RESERVED_GONE.format(name) for name in before if name not in now]
    fields = {*parsed.field_names()}
    return gone + [_RESERVED_USED.format(name) for name in now if name in fields]


def logical_changes(
    registry: Registry, tx: StoreReader, olds: list[StoredVersion], parsed: ParsedSchema
) -> list[LogicalChange]:
    """Changes of meaning since the latest of `olds`, unseen by the rules of compatibility."""
    if not olds or not isinstance(parsed, HasLogicalTypes):
        return []
    try:
        old = stored_schema(registry, tx, olds[-1])
    except RegistryError:
        return []  # it can't be read, so nothing in it is misread either
    return parsed.logical_changes(old)


_LOG = logging.getLogger("ticdc_bridge.service.registry.warnings")


def warn(tx: StoreWriter, stored: StoredVersion, changes: Sequence[LogicalChange]) -> None:
    """Keep and log the logical changes that a version brought."""
    for change in changes:
        message = f"{change.path or 'the schema'}: {change.before} became {change.after}; {change.misread}"
        tx.put_warning(StoredWarning(stored.subject, stored.version, KIND, message, stored.ts))
        _LOG.warning("subject %s version %d: %s", stored.subject, stored.version, message)
