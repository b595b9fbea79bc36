"""Configuration of a subject, a context or the whole server, and what is in force for a subject.

`service.registry.names` says which config counts where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.metadata import merge_metadata
from ticdc_bridge.service.registry.mode import check_writable
from ticdc_bridge.service.registry.model import Metadata
from ticdc_bridge.service.registry.names import (
    DEFAULTED,
    SERVER,
    chain,
    check_subject,
    context_of,
    name_of,
    normalize_subject,
    qualify,
    scope_of,
)
from ticdc_bridge.service.registry.ports import StoreReader
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.schema_types.base import LEVELS, Level

LEVEL: Final = "compatibilityLevel"

_LENIENT: Final = "LENIENT"
_POLICIES: Final = ("LOGICAL", "STRICT", _LENIENT)


def _level(value: Any) -> Any:
    level = str(value).upper()
    if level not in LEVELS:
        raise RegistryError("INVALID_COMPATIBILITY_LEVEL")
    return level


def _policy(value: Any) -> Any:
    """A policy nobody knows is stored as none, as Confluent does."""
    policy = str(value).upper()
    return policy if policy in _POLICIES else None


def _keep_value(value: Any) -> Any:
    return value


def _drop_value(value: Any) -> Any:
    """Confluent's community server drops rule sets without a word."""
    return None


# Name in a request → (name stored, how a value is read); the order is the order of the keys in answers.
FIELDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "alias": ("alias", _keep_value),
    "aliasForDeks": ("aliasForDeks", _keep_value),
    "normalize": ("normalize", _keep_value),
    "validateFields": ("validateFields", _keep_value),
    "validateNewSchemas": ("validateNewSchemas", _keep_value),
    "validateRules": ("validateRules", _keep_value),
    "compatibility": (LEVEL, _level),
    "compatibilityPolicy": ("compatibilityPolicy", _policy),
    "compatibilityGroup": ("compatibilityGroup", _keep_value),
    "defaultMetadata": ("defaultMetadata", _keep_value),
    "overrideMetadata": ("overrideMetadata", _keep_value),
    "defaultRuleSet": ("defaultRuleSet", _drop_value),
    "overrideRuleSet": ("overrideRuleSet", _drop_value),
}
_ORDER: Final = [stored for stored, _ in FIELDS.values()]
_INHERITED: Final = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
)

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


def resolve_subject(registry: Registry, tx: StoreReader, subject: str) -> tuple[str, EffectiveConfig]:
    """The subject that is meant (see `target`), and what a registration of it has to obey."""
    stored = tx.configs(config_chain(subject))
    meant = resolve_alias(subject, stored.get(subject, {}))
    if meant != subject:
        subject, stored = meant, tx.configs(config_chain(meant))
    return subject, _effective_config(registry, subject, stored)


def effective_config(registry: Registry, tx: StoreReader, subject: str) -> EffectiveConfig:
    """The config that a registration of exactly this subject has to obey."""
    return _effective_config(registry, subject, tx.configs(config_chain(subject)))


def _effective_config(registry: Registry, subject: str, stored: Mapping[str, Config]) -> EffectiveConfig:
    config = nearest_config(registry, subject, stored)
    return EffectiveConfig(
        LEVELS[config[LEVEL]],
        lenient=config.get("compatibilityPolicy") == _LENIENT,
        group=config.get("compatibilityGroup"),
        normalize=bool(config.get("normalize")),
        validate_fields=bool(config.get("validateFields")),
        validate_new=config.get("validateNewSchemas") is not False,
        default_metadata=config.get("defaultMetadata"),
        override_metadata=config.get("overrideMetadata"),
    )


def target(tx: StoreReader, subject: str) -> str:
    """The subject that is meant: the alias in the config of `subject`, if there is one (one step only).

    Raises INVALID_SUBJECT for an alias that can't be a subject.
    """
    return resolve_alias(subject, tx.configs([subject]).get(subject, {}))


def resolve_alias(subject: str, config: Config) -> str:
    alias = config.get("alias")
    return check_subject(normalize_subject(qualify(alias, context_of(subject)))) if alias else subject


def aliases(tx: StoreReader) -> dict[str, list[str]]:
    """Every subject that has aliases, with them."""
    by_subject: dict[str, list[str]] = {}
    configs = tx.all_configs()
    for scope in sorted(configs, key=lambda one: (context_of(one), name_of(one))):
        config = configs[scope]
        if config.get("alias"):
            by_subject.setdefault(normalize_subject(qualify(config["alias"], context_of(scope))), []).append(scope)
    return by_subject


def get(registry: Registry, subject: str | None, *, default_to_global: bool) -> Config:
    """The config of a scope (None: the server). Raises COMPATIBILITY_NOT_CONFIGURED."""
    scope = subject or SERVER
    with registry.store.read() as tx:
        if default_to_global:
            return nearest_config(registry, scope, tx.configs(config_chain(scope)))
        own = tx.configs([scope]).get(scope)
    if own is None and scope not in DEFAULTED:
        raise RegistryError("COMPATIBILITY_NOT_CONFIGURED", subject=subject)
    return _complete(registry, own or {})


def update(registry: Registry, subject: str | None, changes: Mapping[str, Any]) -> Config:
    """Merge changes (names as in a request; absent keeps, None clears) and return the config.

    Empty texts are answered and not stored, as by Confluent.

    Raises INVALID_SUBJECT, INVALID_COMPATIBILITY_LEVEL, READ_ONLY.
    """
    scope = scope_of(subject)
    read = {
        stored: None if changes[name] is None else reader(changes[name])
        for name, (stored, reader) in FIELDS.items()
        if name in changes
    }
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
        own = tx.configs([scope]).get(scope)
        if own is None and scope not in DEFAULTED:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        check_writable(tx, subject)
        tx.drop_config(scope)
    return _complete(registry, own or {})


def _complete(registry: Registry, config: Config) -> Config:
    filled = {**config, LEVEL: config.get(LEVEL, registry.default_level)}
    return {name: filled[name] for name in _ORDER if name in filled}


def nearest_config(registry: Registry, scope: str, stored: Mapping[str, Config]) -> Config:
    """The first config on the way up decides. Some keys that a scope's own config lacks come from the server's.

    `stored`: those of `config_chain`. A context passes nothing on to a subject that has a config (Confluent's
    `mergeConfigs`).
    """
    config = next((stored[one] for one in chain(scope) if one in stored), {})
    inherited = stored.get(SERVER, {}) if scope in stored or scope in DEFAULTED else {}
    return _complete(registry, {name: inherited[name] for name in _INHERITED if name in inherited} | config)


def config_chain(scope: str) -> list[str]:
    """The scopes whose configs count for `scope`, nearest first."""
    return list(dict.fromkeys([*chain(scope), SERVER]))
