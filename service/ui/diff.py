"""Two texts side by side, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

_MOST_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Row:
    """A line on either side with its number. kind: same, changed, gone or new."""

    kind: str
    left_number: int | None
    left: str
    right_number: int | None
    right: str


def side_by_side(left: str, right: str) -> list[Row]:
    """The rows of a comparison; ValueError for texts that are too long to compare."""
    a, b = left.splitlines(), right.splitlines()
    if max(len(a), len(b)) > _MOST_LINES:
        raise ValueError(f"more than {_MOST_LINES} lines")
    return list(_rows(a, b))


def _rows(a: list[str], b: list[str]) -> Iterator[Row]:
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for x, y in zip_longest(range(i, j), range(k, m)):
            kind = "same" if tag == "equal" else "new" if x is None else "gone" if y is None else "changed"
            yield Row(
                kind,
                None if x is None else x + 1,
                "" if x is None else a[x],
                None if y is None else y + 1,
                "" if y is None else b[y],
            )
