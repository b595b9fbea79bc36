"""Which subject names and version names are valid (registry-api.md §0.9, §3.4)."""

from __future__ import annotations

from typing import Final

from schemas.errors import RegistryError
from service.registry.model import MAX_VERSION

LATEST: Final = -1
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})
_FIRST_PRINTABLE = " "
_DELETE = "\x7f"


def check_subject(subject: str) -> str:
    """The subject, if it may be written to. Raises INVALID_SUBJECT."""
    if subject in _RESERVED or any(character < _FIRST_PRINTABLE or character == _DELETE for character in subject):
        raise RegistryError("INVALID_SUBJECT", subject=subject)
    return subject


def version_number(text: str) -> int:
    """`latest` (any case) and -1 are LATEST; else 1 to 2^31-1. Raises INVALID_VERSION."""
    trimmed = text.strip()
    if trimmed.lower() == "latest":
        return LATEST
    try:
        number = int(trimmed) if trimmed.isascii() and "_" not in trimmed else 0
    except ValueError:
        number = 0
    if number == LATEST or 1 <= number <= MAX_VERSION:
        return number
    raise RegistryError("INVALID_VERSION", version=text)
