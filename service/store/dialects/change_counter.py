"""Noticing other processes' writes by a number that every write transaction raises."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future


class ChangeCounter:
    """Which writes are known here. `forget` is called when there was one that is not."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._lock = threading.Lock()
        self._seen = 0
        self._committing = 0

    @property
    def last_seen(self) -> int:
        return self._seen

    def note_begin(self, number: int) -> bool:
        """Our transaction, alone now, will be `number`; out: whether others have written since what was seen last."""
        with self._lock:
            foreign = number - 1 != self._seen
            self._seen = number - 1
        return foreign

    def note_committing(self, number: int) -> None:
        """From now on the database may show this number, which is ours."""
        with self._lock:
            self._committing = number

    def note_committed(self, number: int) -> None:
        with self._lock:
            self._seen, self._committing = max(self._seen, number), 0

    def note_doubt(self) -> None:
        """The transaction failed, or nobody knows: if its number shows up, take it for another's."""
        with self._lock:
            self._committing = 0

    def note_seen(self, number: int, committed: int, last_seen: int) -> None:
        """The database showed `number`, and `committed` as the last of this process.

        `last_seen`: what had been seen when the question was put.
        """
        with self._lock:
            if last_seen <= number <= self._seen or number == committed == self._committing:
                return
            self._seen = number  # lower than what was known: the database lost writes, in a failover for instance
        self._forget()

    def note_unknown(self) -> None:
        """The number can't be seen now."""
        self._forget()


class ChangePoller:
    """A thread that looks when somebody asks. All who ask while one look is under way share the next one."""

    def __init__(self, look: Callable[[], None]) -> None:
        """`look` never raises."""
        self._look = look
        self._asked = threading.Condition()
        self._next: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._began = float("-inf")
        self._closed = False

    def request_look(self, max_age: float) -> Future[None] | None:
        """What ends when a look that began after now has ended; None if the last one began within `max_age` seconds."""
        with self._asked:
            if self._closed or time.monotonic() - self._began < max_age:
                return None
            if self._next is None:
                self._next = Future()
                self._asked.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-looks", daemon=True)
                self._thread.start()
            return self._next

    def _run(self) -> None:
        while True:
            with self._asked:
                self._asked.wait_for(lambda: self._next is not None or self._closed)
                future, self._next = self._next, None
            if future is None:
                return
            future.set_running_or_notify_cancel()  # from now on nobody who waits can take it from the others
            began = time.monotonic()
            self._look()
            self._began = began
            future.set_result(None)

    def close(self) -> None:
        """No more looks; those that are waited for end first."""
        with self._asked:
            self._closed = True
            self._asked.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)
