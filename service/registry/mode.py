"""Modes: what may be written to a subject, a context or the whole server.

READWRITE                     everything; ids are ours
READONLY, READONLY_OVERRIDE   nothing
IMPORT, FORWARD               schemas with a given id only; nothing is checked or filled in
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.names import (
    BELOW_ALL,
    DEFAULTED,
    SERVER,
    chain,
    context_of,
    context_text,
    covers,
    name_of,
    scope_of,
)
from ticdc_bridge.service.registry.ports import StoreReader, StoreWriter
from ticdc_bridge.service.registry.registry import Registry

READWRITE: Final = "READWRITE"
IMPORT: Final = "IMPORT"
FORWARD: Final = "FORWARD"
MODES: Final = (READWRITE, "READONLY", "READONLY_OVERRIDE", IMPORT, FORWARD)

_READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
_GIVEN_IDS: Final = (IMPORT, FORWARD)


def find_mode(tx: StoreReader, subject: str | None) -> str:
    """The mode in force for a subject, or for the server (None)."""
    return nearest_mode(subject, tx.modes(chain(subject or SERVER)))


def nearest_mode(subject: str | None, stored: Mapping[str, str]) -> str:
    """The mode in force, of those stored for scopes."""
    return next((stored[scope] for scope in chain(subject or SERVER) if scope in stored), READWRITE)


def imports(mode: str) -> bool:
    """True if schemas come with their ids, unchecked."""
    return mode in _GIVEN_IDS


def check_register(mode: str, subject: str, schema_id: int | None) -> None:
    """Raises READ_ONLY, NOT_IN_IMPORT_MODE, NOT_IN_READ_WRITE_MODE."""
    if mode in _READ_ONLY:
        raise _mode_error("READ_ONLY", subject)
    if schema_id is not None and not imports(mode):
        raise _mode_error("NOT_IN_IMPORT_MODE", subject)
    if schema_id is None and mode != READWRITE:
        raise _mode_error("NOT_IN_READ_WRITE_MODE", subject)


def check_writable(tx: StoreReader, subject: str | None) -> None:
    """Deleting and configuring need a mode that is not read-only. Raises READ_ONLY."""
    if find_mode(tx, subject) in _READ_ONLY:
        raise _mode_error("READ_ONLY", subject)


def _mode_error(code: str, subject: str | None) -> RegistryError:
    return RegistryError(code, subject="null" if subject is None else subject, context=context_text(subject))


def get(registry: Registry, subject: str | None, *, default_to_global: bool) -> str:
    """The mode of a scope (None: the server). Raises MODE_NOT_CONFIGURED."""
    scope = subject or SERVER
    with registry.store.read() as tx:
        if default_to_global:
            return find_mode(tx, subject)
        own = tx.modes([scope]).get(scope)
    if own is None and scope not in DEFAULTED:
        raise RegistryError("MODE_NOT_CONFIGURED", subject=subject)
    return own or READWRITE


def update(registry: Registry, subject: str | None, mode: str | None, *, force: bool = False) -> None:
    """Set the mode of a scope; None removes it.

    IMPORT needs a scope without undeleted subjects, unless `force`; what is soft-deleted there goes for good.
    Raises INVALID_SUBJECT, INVALID_MODE, FORWARD_NOT_GLOBAL, SUBJECTS_EXIST, REFERENCED.
    """
    scope = scope_of(subject)
    new_mode = None if mode is None else mode.upper()
    if new_mode is not None and new_mode not in MODES:
        raise RegistryError("INVALID_MODE")
    if new_mode == FORWARD and scope != BELOW_ALL:
        raise RegistryError("FORWARD_NOT_GLOBAL")
    with registry.store.write() as tx:
        if new_mode == IMPORT and not force and find_mode(tx, subject) != IMPORT:
            make_room(tx, scope)
        tx.put_mode(scope, new_mode)


def make_room(tx: StoreWriter, scope: str) -> None:
    """Remove what is soft-deleted in a scope where nothing else is. Raises SUBJECTS_EXIST, REFERENCED."""
    subjects = [(subject, live) for subject, live in tx.subjects() if covers(scope, subject)]
    if any(live for _, live in subjects):
        raise RegistryError("SUBJECTS_EXIST")
    going = {subject for subject, _ in subjects}
    for subject in sorted(going):
        for row in tx.versions(subject):
            if any(referrer.subject not in going for referrer in tx.referrers(subject, row.version)):
                raise RegistryError("REFERENCED", subject=subject, version=row.version)
    for subject in going:
        tx.remove(subject, [row.version for row in tx.versions(subject)])


def delete(registry: Registry, subject: str | None, *, recursive: bool = False) -> str | None:
    """Remove a mode and return what it was; `recursive`: also those of all names in a context (the server's: in the
    default one), and None if it had none itself.

    Raises SUBJECT_NOT_FOUND if a subject or context has none.
    """
    scope = subject or SERVER
    with registry.store.write() as tx:
        own = tx.modes([scope]).get(scope)
        if own is None and scope not in DEFAULTED and not recursive:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        tx.put_mode(scope, None)
        for other in tx.all_modes() if recursive and not name_of(scope) else ():
            if context_of(other) == context_of(scope):
                tx.put_mode(other, None)
    return own or READWRITE if scope in DEFAULTED else own
