"""Configuration of a subject, a context or the whole server, and what is in force for a subject.

Rules: registry-api.md §3.4 and §5. A scope is a subject, `:.ctx:`, `:.:` (the server) or `:.__GLOBAL:` (below all).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemas.errors import RegistryError
from service.registry.compat import LEVELS, Level
from service.registry.core import Registry
from service.registry.model import DEFAULT_CONTEXT, context_of
from service.registry.naming import check_subject
from service.registry.ports import Reader

GLOBAL: Final = ":.:"
BELOW_ALL: Final = ":.__GLOBAL:"
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


def _same(value: Any) -> Any:
    return value


def _dropped(value: Any) -> Any:
    """Confluent's community server drops rule sets without a word."""
    return None


# Name in a request → (name stored, how a value is read); the order is the order of the keys in answers.
FIELDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "alias": ("alias", _same),
    "aliasForDeks": ("aliasForDeks", _same),
    "normalize": ("normalize", _same),
    "validateFields": ("validateFields", _same),
    "validateNewSchemas": ("validateNewSchemas", _same),
    "validateRules": ("validateRules", _same),
    "compatibility": (LEVEL, _level),
    "compatibilityPolicy": ("compatibilityPolicy", _policy),
    "compatibilityGroup": ("compatibilityGroup", _same),
    "defaultMetadata": ("defaultMetadata", _same),
    "overrideMetadata": ("overrideMetadata", _same),
    "defaultRuleSet": ("defaultRuleSet", _dropped),
    "overrideRuleSet": ("overrideRuleSet", _dropped),
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

# Kept and shown as Confluent does; acting on them comes with the rest of the API.
NO_EFFECT_YET: Final = frozenset(
    {"alias", "aliasForDeks", "validateNewSchemas", "validateRules"}
    | {"compatibilityGroup", "defaultMetadata", "overrideMetadata"}
)
_LOG = logging.getLogger(__name__)

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InForce:
    """What a registration of a subject has to obey."""

    level: Level
    normalize: bool
    validate_fields: bool
    lenient: bool = False


def in_force(registry: Registry, tx: Reader, subject: str) -> InForce:
    merged = _merged(registry, tx, subject)
    lenient = merged.get("compatibilityPolicy") == _LENIENT
    return InForce(LEVELS[merged[LEVEL]], bool(merged.get("normalize")), bool(merged.get("validateFields")), lenient)


def get(registry: Registry, subject: str | None, *, default_to_global: bool) -> Config:
    """The config of a scope (None: the server). Raises COMPATIBILITY_NOT_CONFIGURED."""
    scope = _scope(subject)
    with registry.store.read() as tx:
        if default_to_global:
            return _merged(registry, tx, scope)
        own = tx.configs([scope]).get(scope)
    if own is None and scope != GLOBAL:
        raise RegistryError("COMPATIBILITY_NOT_CONFIGURED", subject=subject)
    return _complete(registry, own or {})


def update(registry: Registry, subject: str | None, changes: Mapping[str, Any]) -> Config:
    """Merge changes (names as in a request; absent keeps, None clears) and return the config as stored.

    Raises INVALID_SUBJECT, INVALID_COMPATIBILITY_LEVEL.
    """
    scope = _scope(subject)
    read = {
        stored: None if changes[name] is None else reader(changes[name])
        for name, (stored, reader) in FIELDS.items()
        if name in changes
    }
    idle = sorted(NO_EFFECT_YET & {name for name, value in read.items() if value is not None})
    if idle:
        _LOG.warning("config of %s: %s stored, but without effect yet", scope, ", ".join(idle))
    with registry.store.write() as tx:
        config = {**tx.configs([scope]).get(scope, {}), **read}
        config = {name: config[name] for name in _ORDER if config.get(name) is not None}
        tx.put_config(scope, config)
    return config


def delete(registry: Registry, subject: str | None) -> Config:
    """Remove a config and return what it was. Raises SUBJECT_NOT_FOUND if a subject has none."""
    scope = _scope(subject)
    with registry.store.write() as tx:
        own = tx.configs([scope]).get(scope)
        if own is None and scope != GLOBAL:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        tx.drop_config(scope)
    return _complete(registry, own or {})


def _scope(subject: str | None) -> str:
    return GLOBAL if subject is None else check_subject(subject)


def _complete(registry: Registry, config: Config) -> Config:
    filled = {**config, LEVEL: config.get(LEVEL, registry.default_level)}
    return {name: filled[name] for name in _ORDER if name in filled}


def _merged(registry: Registry, tx: Reader, scope: str) -> Config:
    """The first config on the way up decides; some keys that it lacks come from the ones above."""
    context = context_of(scope)
    chain = list(dict.fromkeys([scope, GLOBAL if context == DEFAULT_CONTEXT else f":{context}:", BELOW_ALL]))
    stored = tx.configs(chain)
    found = [stored[one] for one in chain if one in stored]
    merged: Config = dict(found[0]) if found else {}
    for above in found[1:]:
        for name in _INHERITED:
            if name in above:
                merged.setdefault(name, above[name])
    return _complete(registry, merged)
