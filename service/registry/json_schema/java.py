"""The order in which Java walks a HashMap: Confluent reports the properties of an object in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.registry.json_schema.text import utf16

_SMALLEST_TABLE: Final = 16
_LOAD: Final = 0.75


def hash_order(names: Iterable[str]) -> list[str]:
    """The distinct names as a HashMap of them yields its keys (ties stay in the order given)."""
    distinct = list(dict.fromkeys(names))
    size = _SMALLEST_TABLE
    while len(distinct) > size * _LOAD:
        size *= 2
    return sorted(distinct, key=lambda name: _spread(name) & (size - 1))


def _spread(name: str) -> int:
    """`String.hashCode`, its upper half folded into the lower as HashMap does."""
    units, value = utf16(name), 0
    for place in range(0, len(units), 2):
        value = (31 * value + (units[place] << 8 | units[place + 1])) & 0xFFFFFFFF
    return value ^ value >> 16
