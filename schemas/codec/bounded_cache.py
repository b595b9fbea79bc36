"""Caches that hostile input can't make grow without end: one that starts anew, one that drops what is least used."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict that starts anew when it is full. What is compiled per schema or table is made again, at worst.

    most: entries; heaviest: the sum of what `weigh` says of them, where their sizes are up to the messages. A value
    that is found by an object's `id` has the object beside it: so no other one gets that id while it is kept.
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

    def setdefault(self, key: K, default: V, /) -> V:  # a dict's own passes by __setitem__
        return self.find(key, lambda: default)

    def find(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made where it is not there."""
        value: V = self.get(key)  # type: ignore[assignment]  # None may be the value
        if value is None and key not in self:
            value = self[key] = make()
        return value


class LruCache(Generic[K, V]):
    """Values of which the least recently used are dropped first; for several threads.

    most: the sum of what `weigh` says of them; what is heavier by itself is not kept.
    """

    def __init__(self, most: int, weigh: Callable[[K, V], int] = lambda _key, _value: 1) -> None:
        self._most, self._weigh = most, weigh
        self._weight = 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        with self._lock:
            if key in self._entries or self._weigh(key, value) > self._most:
                return
            self._entries[key] = value
            self._weight += self._weigh(key, value)
            while self._weight > self._most:
                self._weight -= self._weigh(*self._entries.popitem(last=False))

    def __len__(self) -> int:
        return len(self._entries)
