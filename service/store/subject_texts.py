"""Schema texts of subjects, for commands that work on the store itself."""

from __future__ import annotations

from schemas.errors import RegistryError
from service.registry.ports import Store


class SubjectTexts:
    """Keeps the promises of `service.history.giving.SubjectTexts`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def text(self, subject: str, version: int | None) -> tuple[str, int]:
        """(schema text, version). RegistryError SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
        with self._store.read() as tx:
            found = tx.latest(subject) if version is None else tx.version(subject, version)
        if found is not None:
            return found.content.text, found.version
        if version is None:
            raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
        raise RegistryError("VERSION_NOT_FOUND", version=version)
