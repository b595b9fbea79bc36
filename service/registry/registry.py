"""The registry itself: the store, the server's defaults and the cache of schemas understood before."""

from dataclasses import dataclass, field

from ticdc_bridge.schemas.codec.bounded_cache import LruCache
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.schema_types.base import ReferencedText
from ticdc_bridge.service.schema_types.parse import KINDS, ParsedSchema

_CACHED_CHARACTERS = 1_500_000


@dataclass(slots=True)
class Registry:
    """Everything a rule needs. `default_level` is the compatibility of a server without any config.

    `strict_logical_types`: changes that Avro's rules do not see are refused, not only warned about. `mutable_modes`
    False: modes stay as they are.
    """

    store: Store
    default_level: str = "BACKWARD"
    strict_logical_types: bool = False
    mutable_modes: bool = True
    cache: LruCache[tuple[str, str, bool], ParsedSchema] = field(
        default_factory=lambda: LruCache(_CACHED_CHARACTERS, lambda key, _parsed: len(key[1]))
    )
    """Schemas by type, text and strictness: TiCDC sends the same text again at every DDL and restart."""

    def check_kind(self, kind: str) -> None:
        """Raises INVALID_SCHEMA for an unknown type, before anything that the schema refers to is looked for."""
        if kind not in KINDS:
            raise RegistryError("INVALID_SCHEMA", details=f"Invalid schema type {kind}")

    def parse(
        self, kind: str, text: str, referenced: tuple[ReferencedText, ...] = (), *, strict: bool = True
    ) -> ParsedSchema:
        """Understand a schema text. Raises ValueError (the reason) or RegistryError for an unknown type."""
        self.check_kind(kind)
        if referenced:
            return KINDS[kind](text, referenced, strict)
        key = (kind, text, strict)
        parsed = self.cache.get(key)
        if parsed is None:
            parsed = KINDS[kind](text, (), strict)
            self.cache.put(key, parsed)
        return parsed
