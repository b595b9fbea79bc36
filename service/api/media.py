"""Media types: what a request may be, and what the answer is (registry-api.md §1)."""

from __future__ import annotations

from typing import Final

from schemas.errors import RegistryError

V1: Final = "application/vnd.schemaregistry.v1+json"
OFFERED: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
"""In the order of preference."""

ACCEPTED: Final = frozenset({*OFFERED, "application/octet-stream"})


def check_content_type(header: str | None) -> None:
    """A request body may be of any accepted type, or of none said. Raises UNSUPPORTED_MEDIA_TYPE."""
    if header and _type_of(header) not in ACCEPTED:
        raise RegistryError("UNSUPPORTED_MEDIA_TYPE")


def negotiate(accept: str | None) -> str:
    """The answer's type: the client's q decides, then our order. Raises NOT_ACCEPTABLE."""
    if not accept or accept == "*/*":
        return V1
    ranges = [(_type_of(part), _quality(part)) for part in accept.split(",") if part.strip()]
    best, best_quality = None, 0.0
    for offered in OFFERED:
        quality = _quality_for(offered, ranges)
        if quality > best_quality:
            best, best_quality = offered, quality
    if best is None:
        raise RegistryError("NOT_ACCEPTABLE")
    return best


def _quality_for(offered: str, ranges: list[tuple[str, float]]) -> float:
    """The q of the most specific range that covers the type; 0 if none does."""
    for wanted in (offered, offered.partition("/")[0] + "/*", "*/*"):
        found = [quality for name, quality in ranges if name == wanted]
        if found:
            return max(found)
    return 0.0


def _type_of(part: str) -> str:
    return part.partition(";")[0].strip().lower()


def _quality(part: str) -> float:
    for parameter in part.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
