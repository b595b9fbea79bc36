"""SIGTERM and Ctrl-C under a stream: the first one ends it between two micro-batches, a second one at once."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ticdc_bridge.clients.http import stop_requested

GRACE = 20.0
"""Seconds that the running micro-batch has to end by itself."""


class StopOnSignal:
    """SIGTERM and Ctrl-C call `stop` while this is entered, in the main thread. ended: set when this is left."""

    def __init__(self, stop: Callable[[int], None], ended: threading.Event) -> None:
        self._stop, self._ended = stop, ended
        self._before: dict[int, Any] = {}
        self._stops: list[threading.Thread] = []

    def __enter__(self) -> None:
        stop_requested.clear()
        with suppress(ValueError):
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        # In a thread: the main one is waiting for an answer on its connection to the JVM.
        stop = threading.Thread(target=self._stop, args=(number,), daemon=True)
        self._stops.append(stop)
        stop.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for number, before in self._before.items():
            signal.signal(number, before)
        for stop in self._stops:
            stop.join(GRACE)
        stop_requested.clear()  # what this process does next may wait again
