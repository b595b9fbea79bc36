"""Two texts side by side, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

_MOST_LINES: Final = 10_000
_STEPS: Final = 20_000_000
"""Of a comparison, which takes up to lines × lines × how often one is repeated: seconds, not hours, at the worst."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line on either side with its number. kind: same, changed, gone or new."""

    kind: str
    left_number: int | None
    left: str
    right_number: int | None
    right: str


def side_by_side(left: str, right: str) -> list[Row]:
    """The rows of a comparison; texts that are too long to be compared simply stand beside each other."""
    a, b = left.splitlines(), right.splitlines()
    return list(_rows(a, b))


def _opcodes(a: list[str], b: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """As difflib's; lines that are repeated too often (`},`) are not what the others are found by."""
    if max(len(a), len(b)) > _MOST_LINES:
        return [("replace", 0, len(a), 0, len(b))]
    often = _STEPS // max(len(a) * len(b), 1)
    counts = Counter(b)
    return SequenceMatcher(lambda line: counts[line] > max(often, 1), a, b, autojunk=False).get_opcodes()


def _rows(a: list[str], b: list[str]) -> Iterator[Row]:
    for _, i, j, k, m in _opcodes(a, b):
        for x, y in zip_longest(range(i, j), range(k, m)):
            kind = "new" if x is None else "gone" if y is None else "same" if a[x] == b[y] else "changed"
            yield Row(
                kind,
                None if x is None else x + 1,
                "" if x is None else a[x],
                None if y is None else y + 1,
                "" if y is None else b[y],
            )
