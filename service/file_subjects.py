"""`--schemas FILE` as a registry: the same rules over versions that a file lists."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.given import Given
from service.registry import mode, registering
from service.registry.core import Registry
from service.registry.model import NewSchema
from service.store import open_store
from service.subject_checks import RegistrySubjects


@contextmanager
def file_subjects(entries: Iterable[Given], level: str) -> Iterator[RegistrySubjects]:
    """A registry of its own with these versions, gone afterwards. SetupError USAGE for what is no registry."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'registry.db'}")
        try:
            registry = Registry(store, level)
            _import(registry, sorted(entries, key=lambda e: (e.subject, e.version)))
            yield RegistrySubjects(registry)
        finally:
            store.close()


def _import(registry: Registry, entries: list[Given]) -> None:
    mode.update(registry, None, mode.IMPORT)
    for one in entries:
        number = one.id if isinstance(one.id, int) and one.id > 0 else None
        new = NewSchema(one.schema, version=one.version, id=number)
        if number is None:  # a UUID of Glue's
            mode.update(registry, None, mode.READWRITE)
            registering.register(registry, one.subject, NewSchema(one.schema), force=True)
            mode.update(registry, None, mode.IMPORT, force=True)
        else:
            registering.register(registry, one.subject, new)
    mode.update(registry, None, mode.READWRITE)
