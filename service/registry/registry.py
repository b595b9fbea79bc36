"""The registry itself: the store, the server's defaults and the cache of schemas understood before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from schemas.model.errors import RegistryError
from service.registry.ports import Store
from service.schema_types.base import ReferencedText
from service.schema_types.parse import KINDS, ParsedSchema

_CACHED_CHARACTERS = 1_500_000


class ParsedSchemaCache:
    """Schemas by text, the least recently used dropped first; bounded by the length of the texts.

    TiCDC sends the same text again at every DDL and restart; parsing it once is what makes that cheap.
    """

    def __init__(self, limit: int = _CACHED_CHARACTERS) -> None:
        self._limit = limit
        self._size = 0
        self._entries: OrderedDict[tuple[str, str, bool], ParsedSchema] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str, bool]) -> ParsedSchema | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: tuple[str, str, bool], parsed: ParsedSchema) -> None:
        with self._lock:
            if key in self._entries or len(key[1]) > self._limit:
                return
            self._entries[key] = parsed
            self._size += len(key[1])
            while self._size > self._limit:
                dropped, _ = self._entries.popitem(last=False)
                self._size -= len(dropped[1])

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class Registry:
    """Everything a rule needs. `default_level` is the compatibility of a server without any config.

    `strict_logical_types`: changes that Avro's rules do not see are refused, not only warned about.
    """

    store: Store
    default_level: str = "BACKWARD"
    strict_logical_types: bool = False
    cache: ParsedSchemaCache = field(default_factory=ParsedSchemaCache)

    def parse(
        self, kind: str, text: str, referenced: tuple[ReferencedText, ...] = (), *, strict: bool = True
    ) -> ParsedSchema:
        """Understand a schema text. Raises ValueError (the reason) or RegistryError for an unknown type."""
        if kind not in KINDS:
            raise RegistryError("INVALID_SCHEMA", details=f"Invalid schema type {kind}")
        if referenced:
            return KINDS[kind](text, referenced, strict)
        key = (kind, text, strict)
        parsed = self.cache.get(key)
        if parsed is None:
            parsed = KINDS[kind](text, (), strict)
            self.cache.put(key, parsed)
        return parsed
