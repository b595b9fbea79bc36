"""Asking whether a schema would be accepted, without registering it (registry-api.md §3.4)."""

from __future__ import annotations

from schemas.errors import RegistryError
from service.registry import config
from service.registry.content import understand
from service.registry.core import Registry
from service.registry.model import NewSchema, Stored
from service.registry.naming import LATEST
from service.registry.ports import Reader
from service.registry.registering import compatibility


def check(registry: Registry, subject: str, version: int | None, new: NewSchema, *, normalize: bool) -> list[str]:
    """Messages why `new` does not fit; [] when it does.

    `version` None: against all versions as the level says; LATEST or a number: against that one only.
    Raises INVALID_SCHEMA, VERSION_NOT_FOUND.
    """
    if not new.text:
        raise RegistryError("INVALID_SCHEMA", details="Empty schema")
    with registry.store.read() as tx:
        rules = config.in_force(registry, tx, subject)
        olds = tx.live(subject) if version is None else one_version(tx, subject, version)
        parsed, _ = understand(registry, tx, subject, new, normalize=normalize or rules.normalize)
        return compatibility(registry, tx, olds, parsed, rules)


def one_version(tx: Reader, subject: str, version: int) -> list[Stored]:
    """The latest of a subject that has none is no obstacle; a number that is not there is an error."""
    found = tx.latest(subject) if version == LATEST else tx.version(subject, version)
    if version == LATEST:
        return [found] if found else []
    if found is None or found.deleted:
        raise RegistryError("VERSION_NOT_FOUND", version=version)
    return [found]
