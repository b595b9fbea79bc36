"""How long a request waits for a store in trouble, and how a store says that waiting may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, TypeVar

from ticdc_bridge.service.errors import RegistryError

_PAUSES: Final = (0.02, 0.5)

T = TypeVar("T")


class Outage(RegistryError):
    """Nothing was written, and the same may work a moment later; answered with 500/50002. reason: for the log."""

    def __init__(self, operation: str, reason: str = "") -> None:
        super().__init__("STORE_TIMEOUT", operation=operation, reason=reason)


class Deadline:
    """The time that one request has, in seconds. It begins with the first `start`, when all of the request is there."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: float | None = None

    def start(self) -> None:
        if self._until is None:
            self._until = time.monotonic() + self.seconds

    @property
    def seconds_left(self) -> float:
        return self.seconds if self._until is None else max(self._until - time.monotonic(), 0.0)


current_deadline: ContextVar[Deadline | None] = ContextVar("patience", default=None)
"""Set for the time of a request; threads that work for it inherit it."""


def seconds_left(most: float) -> float:
    """For how many seconds the request that is worked for may still wait; never more than `most`."""
    patience = current_deadline.get()
    return most if patience is None else min(patience.seconds_left, most)


def pauses() -> Iterator[float]:
    """Seconds to wait between one try and the next, without end: longer and longer, and no two callers in step."""
    pause, longest = _PAUSES
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(pause * 2, longest)


def retry_until(function: Callable[[], T], seconds: float, waiting: Callable[[Outage], None] = lambda _: None) -> T:
    """Do `function` again while it raises Outage and there is time, then raise that. waiting: told of the first."""
    until, is_waiting = time.monotonic() + seconds, False
    for pause in pauses():
        try:
            return function()
        except Outage as failure:
            if time.monotonic() + pause >= until:
                raise
            if not is_waiting:
                waiting(failure)
                is_waiting = True
        time.sleep(pause)
    raise AssertionError("unreachable")
