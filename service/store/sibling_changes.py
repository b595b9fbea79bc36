"""What the other workers of this service change, told to this one's listeners before it trusts a kept answer.

Workers tell one another the parts that they change (`service.worker_memory`), before the commit and after it, as a
store tells its listeners. So an answer that one worker keeps is dropped when another changes what it was made from:
docs/decisions/0025.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ticdc_bridge.service.registry.read_set import Listener, Part
from ticdc_bridge.service.worker_memory import KEPT_CHANGES, ChangeLog, WorkerMemory


@dataclass(slots=True)
class Sibling:
    """Another worker. begun: how many of its changes are known here. is_open: the last of them has not ended. parts:
    what that one changes; None if it may be anything."""

    log: ChangeLog
    begun: int = 0
    is_open: bool = False
    parts: Collection[Part] | None = None


class SiblingChanges:
    """A listener of this worker's store that tells the others; `follow` tells this worker what they did."""

    def __init__(self, memory: WorkerMemory, worker: int, listeners: Iterable[Listener]) -> None:
        """`listeners`: those that `follow` tells."""
        self._memory, self._listeners = memory, listeners
        self._own = memory.logs[worker]
        self._siblings = [Sibling(log) for log in memory.logs if log is not self._own]
        self._seen = b""
        self._is_blind = False

    def before_change(self, parts: Collection[Part]) -> None:
        if self._siblings:
            self._own.begin(parts)

    def after_change(self, parts: Collection[Part]) -> None:
        if self._siblings:
            self._own.end()

    def forget(self) -> None:
        """The others see for themselves that somebody else has written."""

    def follow(self) -> None:
        """Tell the listeners what the others changed since the last time. Quick; in the event loop's thread only."""
        if not self._siblings:
            return
        heads = self._memory.heads()
        if heads == self._seen and not self._is_blind:
            return
        self._seen = heads
        for sibling in self._siblings:
            self._follow(sibling)
        self._is_blind = any(sibling.is_open and sibling.parts is None for sibling in self._siblings)

    def _follow(self, sibling: Sibling) -> None:
        begun, ended = sibling.log.progress()
        if begun - sibling.begun > KEPT_CHANGES:
            self._close(sibling)
            self._forget()
            sibling.begun = begun - KEPT_CHANGES
        while sibling.begun < begun:
            self._close(sibling)
            sibling.begun += 1
            parts = sibling.log.read(sibling.begun)
            sibling.is_open, sibling.parts = True, parts
            if parts is not None:
                for one in self._listeners:
                    one.before_change(parts)
        if sibling.begun <= ended:
            self._close(sibling)
        elif sibling.is_open and sibling.parts is None:
            self._forget()  # at each look until it has ended, so that no answer made meanwhile is kept

    def _close(self, sibling: Sibling) -> None:
        if sibling.is_open:
            sibling.is_open = False
            if sibling.parts is None:
                self._forget()
            else:
                for one in self._listeners:
                    one.after_change(sibling.parts)

    def _forget(self) -> None:
        for one in self._listeners:
            one.forget()
