"""Configuration of a subject, a context or the server, and what is in force for a subject (`names.chain`). Modes:

READWRITE                     everything; ids are ours
READONLY, READONLY_OVERRIDE   nothing
IMPORT, FORWARD               schemas with a given id only; nothing is checked or filled in
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import names
from ticdc_bridge.service.registry.model import Metadata
from ticdc_bridge.service.registry.names import DEFAULTED, SERVER, chain, context_of
from ticdc_bridge.service.registry.ports import StoreReader, StoreWriter
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import LEVELS, Level
from ticdc_bridge.service.schema_types.java_text import hash_order

# ---- metadata of schemas: what a config adds to it, and the version number that some carry
VERSION: Final = "confluent:version"
RESERVED: Final = "confluent:reserved"


def merge_metadata(below: Metadata | None, above: Metadata | None) -> Metadata | None:
    """Both together; where they differ, `above` counts."""
    if below is None or above is None:
        return above if below is None else below
    pieces = {
        "tags": {**below.get("tags", {}), **above.get("tags", {})},
        "properties": {**below.get("properties", {}), **above.get("properties", {})},
    }
    both: dict[str, Any] = {name: dict(sorted(piece.items())) for name, piece in pieces.items() if piece}
    sensitive = sorted({*below.get("sensitive", ()), *above.get("sensitive", ())})
    return both | ({"sensitive": sensitive} if sensitive else {})


def metadata_text(metadata: Metadata | None) -> str:
    """As Confluent prints it inside error texts."""
    if metadata is None:
        return "null"
    tags = ", ".join(f"{path}=[{', '.join(names)}]" for path, names in metadata.get("tags", {}).items())
    values = ", ".join(f"{name}={value}" for name, value in properties(metadata).items())
    sensitive = ", ".join(metadata.get("sensitive", ()))
    return f"Metadata{{tags={{{tags}}}, properties={{{values}}}, sensitive=[{sensitive}]}}"


def properties(metadata: Metadata | None) -> Mapping[str, str]:
    values: Mapping[str, str] = (metadata or {}).get("properties", {})
    return values


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """Metadata that records a version number."""
    return merge_metadata(metadata, {"properties": {VERSION: str(version)}}) or {}


def without_version(metadata: Metadata | None) -> Metadata | None:
    """Metadata without the version number recorded in it; None if nothing else is."""
    if VERSION not in properties(metadata):
        return metadata
    others = {name: value for name, value in properties(metadata).items() if name != VERSION}
    rest = {**(metadata or {}), "properties": others}
    return {name: value for name, value in rest.items() if value} or None


def reserved_names(metadata: Metadata | None) -> list[str]:
    """The field names that the metadata keeps free, in the order of Confluent's set."""
    return hash_order(filter(None, map(str.strip, (properties(metadata).get(RESERVED) or "").split(","))))


LEVEL: Final = "compatibilityLevel"

_LENIENT: Final = "LENIENT"


def _level(value: Any) -> Any:
    level = str(value).upper()
    if level not in LEVELS:
        raise RegistryError("INVALID_COMPATIBILITY_LEVEL")
    return level


def _policy(value: Any) -> Any:
    """A policy nobody knows is stored as none, as Confluent does."""
    policy = str(value).upper()
    return policy if policy in ("LOGICAL", "STRICT", _LENIENT) else None


def _keep_value(value: Any) -> Any:
    return value


# Name in a request → (name stored, how a value is read); the order is the order of the keys in answers.
FIELDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "alias": ("alias", _keep_value), "aliasForDeks": ("aliasForDeks", _keep_value),
    "normalize": ("normalize", _keep_value), "validateFields": ("validateFields", _keep_value),
    "validateNewSchemas": ("validateNewSchemas", _keep_value), "validateRules": ("validateRules", _keep_value),
    "compatibility": (LEVEL, _level), "compatibilityPolicy": ("compatibilityPolicy", _policy),
    "compatibilityGroup": ("compatibilityGroup", _keep_value), "defaultMetadata": ("defaultMetadata", _keep_value),
    "overrideMetadata": ("overrideMetadata", _keep_value),
    # Confluent's community server drops rule sets without a word.
    "defaultRuleSet": ("defaultRuleSet", lambda _: None), "overrideRuleSet": ("overrideRuleSet", lambda _: None),
}  # fmt: skip
_ORDER: Final = [stored for stored, _ in FIELDS.values()]
_INHERITED: Final = (
    "normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityPolicy", "compatibilityGroup",
)  # fmt: skip

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The config that a registration has to obey. `group`: the metadata property that splits versions into groups."""

    level: Level
    lenient: bool = False
    group: str | None = None
    normalize: bool = False
    validate_fields: bool = False
    validate_new: bool = True
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None

    @property
    def compares_many(self) -> bool:
        """True if more than the latest version is looked at."""
        return self.level.transitive or self.group is not None

    @property
    def adds_metadata(self) -> bool:
        return self.default_metadata is not None or self.override_metadata is not None

    def complete_metadata(self, metadata: Metadata | None) -> Metadata | None:
        """The metadata to store for a schema with this metadata."""
        return merge_metadata(merge_metadata(self.default_metadata, metadata), self.override_metadata)


def resolve_subject(
    registry: Registry, tx: StoreReader, subject: str, *, normalize: bool = False
) -> tuple[str, EffectiveConfig]:
    """The subject that is meant (see `target`), and what a registration of it has to obey. normalize: asked for."""
    stored = tx.configs(config_chain(subject))
    meant = resolve_alias(subject, stored.get(subject, {}))
    if meant != subject:
        subject, stored = meant, tx.configs(config_chain(meant))
    return subject, _effective_config(registry, subject, stored, normalize)


def effective_config(registry: Registry, tx: StoreReader, subject: str, *, normalize: bool = False) -> EffectiveConfig:
    """The config that a registration of exactly this subject has to obey. normalize: asked for."""
    return _effective_config(registry, subject, tx.configs(config_chain(subject)), normalize)


def _effective_config(
    registry: Registry, subject: str, stored: Mapping[str, Config], normalize: bool
) -> EffectiveConfig:
    config = nearest_config(registry, subject, stored)
    return EffectiveConfig(
        LEVELS[config[LEVEL]],
        lenient=config.get("compatibilityPolicy") == _LENIENT,
        group=config.get("compatibilityGroup"),
        normalize=normalize or bool(config.get("normalize")),
        validate_fields=bool(config.get("validateFields")),
        validate_new=config.get("validateNewSchemas") is not False,
        default_metadata=config.get("defaultMetadata"),
        override_metadata=config.get("overrideMetadata"),
    )


def target(tx: StoreReader, subject: str) -> str:
    """The subject that is meant: the alias of `subject` if it has one (one step). Raises INVALID_SUBJECT."""
    return resolve_alias(subject, tx.configs([subject]).get(subject, {}))


def resolve_alias(subject: str, config: Config) -> str:
    alias = config.get("alias")
    return names.check_subject(names.normalize_subject(names.qualify(alias, context_of(subject)))) if alias else subject


def aliases(tx: StoreReader) -> dict[str, list[str]]:
    """Every subject that has aliases, with them."""
    by_subject: dict[str, list[str]] = {}
    configs = tx.all_configs()
    for scope in sorted(configs, key=lambda entry: (context_of(entry), names.name_of(entry))):
        if alias := configs[scope].get("alias"):
            subject = names.normalize_subject(names.qualify(alias, context_of(scope)))
            by_subject.setdefault(subject, []).append(scope)
    return by_subject


def get(registry: Registry, subject: str | None, *, default_to_global: bool) -> Config:
    """The config of a scope (None: the server). Raises COMPATIBILITY_NOT_CONFIGURED."""
    scope = subject or SERVER
    with registry.store.read() as tx:
        if default_to_global:
            return nearest_config(registry, scope, tx.configs(config_chain(scope)))
        setting = tx.configs([scope]).get(scope)
    if setting is None and scope not in DEFAULTED:
        raise RegistryError("COMPATIBILITY_NOT_CONFIGURED", subject=subject)
    return _complete(registry, setting or {})


def update(registry: Registry, subject: str | None, changes: Mapping[str, Any]) -> Config:
    """Merge changes (names as in a request; absent keeps, None clears); the config, with empty texts (not stored).

    Raises INVALID_SUBJECT, INVALID_COMPATIBILITY_LEVEL, READ_ONLY.
    """
    read = {
        stored: None if changes[name] is None else reader(changes[name])
        for name, (stored, reader) in FIELDS.items()
        if name in changes
    }
    scope = names.scope_of(subject)
    with registry.store.write() as tx:
        check_writable(tx, subject)
        config = {**tx.configs([scope]).get(scope, {}), **read}
        config = {name: config[name] for name in _ORDER if config.get(name) is not None}
        tx.put_config(scope, {name: value for name, value in config.items() if value != ""})
    return config


def delete(registry: Registry, subject: str | None) -> Config:
    """Remove a config and return what it was. Raises READ_ONLY, and SUBJECT_NOT_FOUND if a subject has none."""
    scope = subject or SERVER
    with registry.store.write() as tx:
        setting = tx.configs([scope]).get(scope)
        if setting is None and scope not in DEFAULTED:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        check_writable(tx, subject)
        tx.drop_config(scope)
    return _complete(registry, setting or {})


def _complete(registry: Registry, config: Config) -> Config:
    filled = {**config, LEVEL: config.get(LEVEL, registry.default_level)}
    return {name: filled[name] for name in _ORDER if name in filled}


def nearest_config(registry: Registry, scope: str, stored: Mapping[str, Config]) -> Config:
    """The first config on the way up decides. Some keys that a scope's own config lacks come from the server's.

    `stored`: those of `config_chain`. A context passes nothing on to a subject that has a config (Confluent's
    `mergeConfigs`).
    """
    config = next((stored[entry] for entry in chain(scope) if entry in stored), {})
    inherited = stored.get(SERVER, {}) if scope in stored or scope in DEFAULTED else {}
    return _complete(registry, {name: inherited[name] for name in _INHERITED if name in inherited} | config)


def config_chain(scope: str) -> list[str]:
    """The scopes whose configs count for `scope`, nearest first."""
    return list(dict.fromkeys([*chain(scope), SERVER]))


# ---- modes: what may be written to a subject, a context or the server
READWRITE: Final = "READWRITE"
IMPORT: Final = "IMPORT"
FORWARD: Final = "FORWARD"
MODES: Final = (READWRITE, "READONLY", "READONLY_OVERRIDE", IMPORT, FORWARD)

_READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")


def find_mode(tx: StoreReader, subject: str | None) -> str:
    """The mode in force for a subject, or for the server (None)."""
    return nearest_mode(subject, tx.modes(chain(subject or SERVER)))


def nearest_mode(subject: str | None, stored: Mapping[str, str]) -> str:
    """The mode in force, of those stored for scopes."""
    return next((stored[scope] for scope in chain(subject or SERVER) if scope in stored), READWRITE)


def takes_ids(mode: str) -> bool:
    """True if schemas come with their ids, unchecked."""
    return mode in (IMPORT, FORWARD)


def check_register(mode: str, subject: str, schema_id: int | None) -> None:
    """Raises READ_ONLY, NOT_IN_IMPORT_MODE, NOT_IN_READ_WRITE_MODE."""
    if mode in _READ_ONLY:
        raise _mode_error("READ_ONLY", subject)
    if schema_id is not None and not takes_ids(mode):
        raise _mode_error("NOT_IN_IMPORT_MODE", subject)
    if schema_id is None and mode != READWRITE:
        raise _mode_error("NOT_IN_READ_WRITE_MODE", subject)


def check_writable(tx: StoreReader, subject: str | None) -> None:
    """Deleting and configuring need a mode that is not read-only. Raises READ_ONLY."""
    if find_mode(tx, subject) in _READ_ONLY:
        raise _mode_error("READ_ONLY", subject)


def _mode_error(code: str, subject: str | None) -> RegistryError:
    context = names.prefix_of(context_of(subject or ""))
    return RegistryError(code, subject="null" if subject is None else subject, context=context)


def get_mode(registry: Registry, subject: str | None, *, default_to_global: bool) -> str:
    """The mode of a scope (None: the server). Raises MODE_NOT_CONFIGURED."""
    scope = subject or SERVER
    with registry.store.read() as tx:
        if default_to_global:
            return find_mode(tx, subject)
        setting = tx.modes([scope]).get(scope)
    if setting is None and scope not in DEFAULTED:
        raise RegistryError("MODE_NOT_CONFIGURED", subject=subject)
    return setting or READWRITE


def update_mode(registry: Registry, subject: str | None, mode: str | None, *, force: bool = False) -> None:
    """Set the mode of a scope; None removes it.

    IMPORT needs a scope without undeleted subjects, unless `force`; what is soft-deleted there goes for good.
    Raises INVALID_SUBJECT, INVALID_MODE, FORWARD_NOT_GLOBAL, MODES_FIXED, SUBJECTS_EXIST, REFERENCED.
    """
    scope = names.scope_of(subject)
    new_mode = None if mode is None else mode.upper()
    if new_mode is not None and new_mode not in MODES:
        raise RegistryError("INVALID_MODE")
    if new_mode == FORWARD and scope != names.BELOW_ALL:
        raise RegistryError("FORWARD_NOT_GLOBAL")
    check_mutable(registry)
    with registry.store.write() as tx:
        if new_mode == IMPORT and not force and find_mode(tx, subject) != IMPORT:
            make_room(tx, scope)
        tx.put_mode(scope, new_mode)


def check_mutable(registry: Registry) -> None:
    """Raises MODES_FIXED."""
    if not registry.mutable_modes:
        raise RegistryError("MODES_FIXED")


def make_room(tx: StoreWriter, scope: str) -> None:
    """Remove what is soft-deleted in a scope where nothing else is. Raises SUBJECTS_EXIST, REFERENCED."""
    subjects = [(subject, live) for subject, live in tx.subjects() if names.covers(scope, subject)]
    if any(live for _, live in subjects):
        raise RegistryError("SUBJECTS_EXIST")
    going = {subject: [row.version for row in tx.versions(subject)] for subject, _ in subjects}
    for subject, numbers in going.items():
        for version in numbers:
            if tx.referrers(subject, version):
                raise RegistryError("REFERENCED", subject=subject, version=version)
    for subject, numbers in going.items():
        tx.remove(subject, numbers)


def delete_mode(registry: Registry, subject: str | None, *, recursive: bool = False) -> str | None:
    """Remove a mode and return what it was; `recursive`: also those of all names in a context (the server's: in the
    default one), and None if it had none itself.

    Raises SUBJECT_NOT_FOUND if a subject or context has none, MODES_FIXED.
    """
    scope = subject or SERVER
    with registry.store.write() as tx:
        setting = tx.modes([scope]).get(scope)
        if setting is None and scope not in DEFAULTED and not recursive:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        check_mutable(registry)
        tx.put_mode(scope, None)
        for other in tx.all_modes() if recursive and not names.name_of(scope) else ():
            if context_of(other) == context_of(scope):
                tx.put_mode(other, None)
    return setting or READWRITE if scope in DEFAULTED else setting
