"""Pairing the schemas of two combinations: the size of a maximum matching of what is compatible."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def matched(edges: Sequence[Sequence[int]], right: int) -> int:
    """How many of the left (indices of `edges`) can be paired each with another of its `edges` (0 … right - 1)."""
    owner: list[int] = [-1] * right
    return sum(_paired(left, edges, owner) for left in range(len(edges)))


def _paired(start: int, edges: Sequence[Sequence[int]], owner: list[int]) -> bool:
    """Give `start` a partner, moving others to another partner where that helps."""
    came_from: dict[int, int] = {}  # partner → the left it was reached from
    waiting = deque([start])
    while waiting:
        left = waiting.popleft()
        for partner in edges[left]:
            if partner in came_from:
                continue
            came_from[partner] = left
            if owner[partner] >= 0:
                waiting.append(owner[partner])
                continue
            _move(partner, start, came_from, owner)
            return True
    return False


def _move(partner: int, start: int, came_from: dict[int, int], owner: list[int]) -> None:
    """Everyone on the way from `start` to the free partner takes the next one."""
    held = {left: taken for taken, left in enumerate(owner) if left >= 0}
    while True:
        left = came_from[partner]
        owner[partner] = left
        if left == start:
            return
        partner = held[left]
