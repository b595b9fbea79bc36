"""Columns that come again: types and fields that name nothing are read and printed once and stand in many schemas.

A database has few different column types, and one more version of a table has the columns of the last one. What is
shared is never changed. The comparison of schemas treats such nodes as different in every place (`compat.avro`).
"""

from __future__ import annotations

import marshal
from typing import Any, Final, Generic, TypeVar

from service.schema_types.java_text import MAX_DEPTH, TOO_DEEP

_MOST: Final = 8192
_LONGEST: Final = 512
_WITHOUT_REFERENCES: Final = (
    2  # a format of `marshal` in which equal values are equal bytes, and 1, 1.0 and true are not
)

T = TypeVar("T")


def key_of(value: Any) -> bytes:
    """Equal for what is the same JSON, with its keys in the same order. Raises ValueError for what is too deep."""
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        raise ValueError(TOO_DEEP) from None


def is_surely_shallow(key: bytes) -> bool:
    """Whether the JSON of a key is known to be less than MAX_DEPTH - 5 deep: each level takes 5 bytes or more."""
    return len(key) < (MAX_DEPTH - 5) * 5


class FieldCache(Generic[T]):
    """What was made of a key before; all of it is dropped when it gets too much."""

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}

    def get(self, key: bytes) -> T | None:
        return self._known.get(key)

    def put(self, key: bytes, value: T) -> None:
        if len(key) <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = value
