"""The registry's own schemas, for messages in Avro."""

from __future__ import annotations

from schemas.codec.bounded import Bounded
from schemas.errors import RegistryError, WireError
from schemas.ports import SchemaId
from service.registry.model import DEFAULT_CONTEXT
from service.registry.ports import Store


class OwnSchemas:
    """Schemas of the store that the history is in (schemas.ports.SchemaSource). Nothing is registered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._texts: Bounded[int, str] = Bounded(10_000, 64 << 20, lambda _, text: len(text))

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        if not isinstance(schema_id, int):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
        if schema_id not in self._texts:
            with self._store.read() as tx:
                found = tx.schema(DEFAULT_CONTEXT, schema_id)
            if found is None:
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
            self._texts[schema_id] = found.text
        return self._texts[schema_id]

    def newest(self, subject: str) -> str | None:
        with self._store.read() as tx:
            found = tx.latest(subject)
        return None if found is None else found.content.text

    def id_of(self, subject: str, schema: str) -> SchemaId:
        raise RegistryError("SCHEMA_NOT_FOUND")
