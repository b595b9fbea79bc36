"""SIGTERM and Ctrl-C under a stream: the first one ends it between two micro-batches, a second one at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ticdc_bridge.clients.http import stop_requested

GRACE = 20.0
"""Seconds that the running micro-batch has to end by itself."""


@contextmanager
def stop_on_signal(stop: Callable[[int], None], ended: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C call `stop` meanwhile, in the main thread. ended: set at the end."""
    handlers, stops = dict[int, Any](), list[threading.Thread]()

    def on_signal(number: int, _frame: object) -> None:
        # In a thread: the main one is waiting for an answer on its connection to the JVM.
        stops.append(threading.Thread(target=stop, args=(number,), daemon=True))
        stops[-1].start()

    stop_requested.clear()
    with suppress(ValueError):
        for number in (signal.SIGTERM, signal.SIGINT):
            handlers[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        ended.set()
        for caught, handler in handlers.items():
            signal.signal(caught, handler)
        for thread in stops:
            thread.join(GRACE)
        stop_requested.clear()  # what this process does next may wait again
