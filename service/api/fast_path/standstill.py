"""The event loop stands still while another thread runs a batch's statements.

Each statement gives the interpreter away, and among many reads the thread waits longer to have it back than the
statement takes: a batch of seven new schemas took 4 ms in place of 1, and whoever registers waits for one or two.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final

_LONGEST_SECONDS: Final = 0.005


class Standstill:
    """Entered by the thread. The event loop calls `wait` before it begins something."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._over.set()

    def __enter__(self) -> None:
        self._over.clear()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()

    def wait(self) -> None:
        """Until it is over, 5 ms at most; then it is over whatever the thread does, perhaps in a slow database."""
        if not self._over.is_set() and not self._over.wait(_LONGEST_SECONDS):
            self._over.set()
