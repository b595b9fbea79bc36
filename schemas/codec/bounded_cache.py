"""A cache that hostile input can't make grow without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict that starts anew when it is full. What is compiled per schema or table is made again, at worst.

    most: entries; heaviest: the sum of what `weigh` says of them, where their sizes are up to the messages.
    """

    def __init__(self, most: int = 1024, heaviest: int = 0, weigh: Callable[[K, V], int] | None = None) -> None:
        super().__init__()
        self._most, self._heaviest, self._weigh = most, heaviest, weigh
        self._weight = 0

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            weight = self._weigh(key, value) if self._weigh else 0
            if len(self) >= self._most or self._weight + weight > self._heaviest:
                self.clear()
                self._weight = 0
            self._weight += weight
        super().__setitem__(key, value)
