"""The registry as table histories see it: which subject holds a schema, and which schema is newest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from schemas.errors import RegistryError
from service.history.linking import Registered
from service.registry.core import Registry
from service.registry.identity import identity
from service.registry.model import Stored


class RegistrySubjects:
    """Keeps the promises of `service.history.linking.Subjects`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def holding(self, texts: Iterable[str]) -> dict[str, list[Registered]]:
        found: dict[str, list[Registered]] = {}
        with self._registry.store.read() as tx:
            for text in texts:
                for context, number in tx.ids_of(identity(self.canonical(text))):
                    holders = (one for one in tx.holders(context, number) if not one.deleted)
                    found.setdefault(text, []).extend(Registered(one.subject, one.version, one.id) for one in holders)
        return found

    def canonical(self, text: str) -> str:
        """A schema as the registry keeps it."""
        return self._registry.parse("AVRO", text).text

    def newest(self) -> Iterator[tuple[Stored, str, str]]:
        """The newest version of each subject that TiCDC's Avro fills, with namespace and name of its record."""
        with self._registry.store.read() as tx:
            latest: dict[str, Stored] = {one.subject: one for one in tx.search("")}
        for one in latest.values():
            if one.content.kind == "AVRO" and '"tidb_type"' in one.content.text:
                schema: Any = json.loads(one.content.text)
                if isinstance(schema, dict) and isinstance(schema.get("namespace"), str):
                    yield one, schema["namespace"], str(schema.get("name"))

    def text(self, subject: str, version: int | None) -> tuple[str, int]:
        """(schema text, version) of a subject. RegistryError SUBJECT_NOT_FOUND, VERSION_NOT_FOUND."""
        with self._registry.store.read() as tx:
            found = tx.latest(subject) if version is None else tx.version(subject, version)
        if found is None:
            if version is None:
                raise RegistryError("SUBJECT_NOT_FOUND", subject=subject)
            raise RegistryError("VERSION_NOT_FOUND", version=version)
        return found.content.text, found.version
