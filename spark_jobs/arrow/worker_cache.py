"""What stays compiled from one task of a Python worker to the next: only what follows from texts and options."""

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache

T = TypeVar("T")

_MOST = 16  # a worker serves one job, or a few


_of_thread = threading.local()  # compiled pieces learn while they are used


def get_cached(key: Hashable, make: Callable[[], T]) -> T:
    """What `make` made when this thread first asked for `key`."""
    cache: BoundedCache[Hashable, T] = _of_thread.__dict__.setdefault("cache", BoundedCache(_MOST))
    if key not in cache:
        cache[key] = make()
    return cache[key]
