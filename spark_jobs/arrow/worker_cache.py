"""What stays compiled from one task of a Python worker to the next: a micro-batch is a task, and often a short one.

Kept is only what follows from texts and options. What a registry or a history answered is asked again by each task.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache

T = TypeVar("T")

_MOST = 16  # a worker serves one job, or a few


class _ThreadCache(threading.local):
    """Of each thread its own: compiled pieces learn while they are used."""

    def __init__(self) -> None:
        self.found: BoundedCache[Hashable, Any] = BoundedCache(_MOST)


_kept = _ThreadCache()


def get_cached(key: Hashable, make: Callable[[], T]) -> T:
    """What `make` made when this thread first asked for `key`."""
    if key not in _kept.found:
        _kept.found[key] = make()
    result: T = _kept.found[key]
    return result
