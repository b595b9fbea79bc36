"""Two texts side by side, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Final

_MOST_LINES: Final = 10_000
_STEPS: Final = 20_000_000
"""Of a comparison, which takes up to lines × lines × how often one is repeated: seconds, not hours, at the worst."""


_AROUND: Final = 3
_LONGEST: Final = 2000
_ALIKE: Final = 0.4

Parts = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line on either side with its number. kind: same, changed, gone or new.

    hidden: how many lines that are the same are left out here; nothing else counts then.
    """

    kind: str
    left_number: int | None = None
    left: str = ""
    right_number: int | None = None
    right: str = ""
    hidden: int = 0

    @property
    def left_parts(self) -> Parts:
        return self._parts()[0]

    @property
    def right_parts(self) -> Parts:
        return self._parts()[1]

    def _parts(self) -> tuple[Parts, Parts]:
        """Pieces of both texts, and whether a piece is another one on the other side; a line made anew is whole."""
        whole: tuple[Parts, Parts] = ([(self.left, False)], [(self.right, False)])
        if self.kind != "changed" or max(len(self.left), len(self.right)) > _LONGEST:
            return whole
        matcher = SequenceMatcher(None, self.left, self.right, autojunk=False)
        if matcher.ratio() < _ALIKE:
            return whole
        left: Parts = []
        right: Parts = []
        for tag, i, j, k, m in matcher.get_opcodes():
            left += [(self.left[i:j], tag != "equal")] if i < j else []
            right += [(self.right[k:m], tag != "equal")] if k < m else []
        return left, right


def side_by_side(left: str, right: str) -> list[DiffRow]:
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


def _rows(a: list[str], b: list[str]) -> Iterator[DiffRow]:
    for _, i, j, k, m in _opcodes(a, b):
        for x, y in zip_longest(range(i, j), range(k, m)):
            kind = "new" if x is None else "gone" if y is None else "same" if a[x] == b[y] else "changed"
            yield DiffRow(
                kind,
                None if x is None else x + 1,
                "" if x is None else a[x],
                None if y is None else y + 1,
                "" if y is None else b[y],
            )


def fold_rows(rows: list[DiffRow]) -> list[DiffRow]:
    """The rows with what is the same left out, but for a few lines around each difference."""
    visible = [False] * len(rows)
    for place, row in enumerate(rows):
        if row.kind != "same":
            near = range(max(place - _AROUND, 0), min(place + _AROUND + 1, len(rows)))
            visible[near.start : near.stop] = [True] * len(near)
    result: list[DiffRow] = []
    for is_shown, group in groupby(zip(visible, rows, strict=True), key=lambda one: one[0]):
        left_out = [row for _, row in group]
        result += left_out if is_shown or len(left_out) == 1 else [DiffRow("same", hidden=len(left_out))]
    return result
