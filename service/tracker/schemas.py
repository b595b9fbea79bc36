"""The registry's own schemas, for messages in Avro, and the folder of claim-check files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from schemas.codec.bounded import Bounded
from schemas.errors import RegistryError, SetupError, WireError
from schemas.ports import SchemaId
from schemas.wire.framing import MAX_MESSAGE
from service.registry.model import DEFAULT_CONTEXT
from service.registry.ports import Store

_MOST = MAX_MESSAGE * 3


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


@dataclass(frozen=True)
class ClaimFolder:
    """Claim-check files by their base names (schemas.ports.ClaimChecks)."""

    folder: str

    @classmethod
    def of(cls, folder: Path) -> ClaimFolder:
        if not folder.is_dir():
            raise SetupError("USAGE", details=f"--claim-check-dir {folder}: there is no such folder")
        return cls(str(folder.resolve()))

    def fetch(self, name: str) -> bytes:
        if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
            raise WireError("CLAIM_CHECK", uri=repr(name[:200]), details="it names no file")
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                data = file.read(_MOST + 1)
        except (OSError, ValueError) as error:
            details = f"the claim-check folder has no such file that can be read: {error}"
            raise WireError("CLAIM_CHECK", uri=name[:200], details=details) from error
        if len(data) > _MOST:
            raise WireError("CLAIM_CHECK", uri=name[:200], details=f"the file is larger than {_MOST} bytes")
        return data
