"""Columns that come again: types and fields that name nothing are read and printed once and stand in many schemas.

A database has few different column types, one more version of a table has the columns of the last one, and the shards
of a table have the same. What is shared is never changed. The comparison of schemas treats such nodes as different in
every place (`compatibility`), but knows that one and the same fits itself.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ticdc_bridge.service.schema_types.java_text import TOO_DEEP

_MOST: Final = 8192
_LONGEST: Final = 512
_WITHOUT_REFERENCES: Final = (
    2  # a format of `marshal` in which equal values are equal bytes, and 1, 1.0 and true are not
)
_FIELDS: Final = '"fields":['
_BETWEEN_FIELDS: Final = "},{"

K = TypeVar("K", str, bytes)
T = TypeVar("T")


def key_of(value: Any) -> bytes:
    """Equal for what is the same JSON, with its keys in the same order. Raises ValueError for what is too deep."""
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        raise ValueError(TOO_DEEP) from None


class SplitRecord(NamedTuple):
    """The text of a record with an empty list of fields, and the text of each field without its braces."""

    outside: str
    fields: list[str]


def split_record(text: str) -> SplitRecord | None:
    """A record's text cut at its fields; None where the text does not look like one, written without spaces.

    It is cut right if `outside` is the JSON of an object with an empty list of `fields`, and each field within braces
    is the JSON of an object. Proof: the list is then the last member of the outermost object, since a string that
    ended or began within `"fields":[` would have made `outside` no JSON; and JSON in which an empty list is filled with
    values is JSON with those values. Whoever uses the pieces has to check the two conditions.
    """
    before, fields, after = text.partition(_FIELDS)
    if before[-1:] not in ("{", ",") or after[:1] != "{" or after[-3:] != "}]}":
        return None
    return SplitRecord(f"{before}{fields}]}}", after[1:-3].split(_BETWEEN_FIELDS))


class SharedParts(Generic[K, T]):
    """What was made of a text or a key before; all of it is dropped when it gets too much."""

    def __init__(self) -> None:
        self._made: dict[K, T] = {}
        self.get: Callable[[K], T | None] = self._made.get

    def put(self, key: K, value: T) -> None:
        if len(key) <= _LONGEST:
            if len(self._made) >= _MOST:
                self._made.clear()
            self._made[key] = value
