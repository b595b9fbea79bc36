"""Trackers inside the service: one thread each, started again when something fails."""

from __future__ import annotations

import logging
import threading
from typing import Final

from schemas.claim_folder import ClaimFolder
from schemas.errors import BridgeError
from service.history.model import DEFAULT_CHANGEFEED
from service.history.ports import History
from service.registry.ports import Store
from service.tracker.config import Tracked
from service.tracker.progress import Progress
from service.tracker.schemas import OwnSchemas
from service.tracker.tracker import Following, Tracker

_LOG = logging.getLogger("service")
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_AT_ONCE: Final = 200
"""Messages in one transaction: the registry's own writes wait for it."""
_STOP_SECONDS: Final = 15.0


class Trackers:
    """All changefeeds that the service follows."""

    def __init__(self, wanted: list[Tracked], history: History, store: Store) -> None:
        self._history, self._store = history, store
        self._stopping = threading.Event()
        self._running: dict[str, Tracker] = {}
        self._last: dict[str, Progress] = {one.name: Progress(one.name) for one in wanted}
        self._threads = [
            threading.Thread(target=self._follow, args=(one,), name=f"track-{one.name}", daemon=True) for one in wanted
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when the threads have ended, each after the transaction that it was in."""
        self._stopping.set()
        for tracker in list(self._running.values()):
            tracker.stop()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def progress(self) -> list[tuple[Progress, float | None]]:
        """What each has done, and by how many seconds what is sealed lies behind."""
        found = []
        for name, last in self._last.items():
            tracker = self._running.get(name)
            found.append((last, tracker.seconds_behind() if tracker else None))
        return found

    def _follow(self, wanted: Tracked) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                tracker = tracker_of(wanted, self._history, self._store, most=_AT_ONCE)
                self._last[wanted.name] = tracker.progress
                self._running[wanted.name] = tracker
                if self._stopping.is_set():
                    tracker.stop()
                _LOG.info("track %s: following", wanted.name)
                tracker.run()
                pause = _FIRST_PAUSE
                if wanted.file is not None:
                    _LOG.info("%s", tracker.progress.summary())
                    tracker.progress.stopped = "end of the file"
                    return
            except BridgeError as error:
                self._failed(wanted.name, error.detail, pause)
            except Exception as error:
                _LOG.exception("track %s", wanted.name)
                self._failed(wanted.name, repr(error), pause)
            self._stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _failed(self, name: str, detail: str, pause: float) -> None:
        self._last[name].stopped = detail
        _LOG.error("track %s: %s; again in %.0f s", name, detail, pause)


def tracker_of(
    wanted: Tracked, history: History, store: Store, most: int, until: int | None = None, at_end: bool = False
) -> Tracker:
    """A tracker of one changefeed. SetupError."""
    following = Following(
        wanted.name or DEFAULT_CHANGEFEED,
        wanted.format,
        wanted.ddl_time_zone,
        wanted.time_zone,
        most,
        until=until,
        at_end=at_end,
    )
    claims = ClaimFolder.of(wanted.claim_check_dir) if wanted.claim_check_dir else None
    return Tracker(following, wanted.source(), history, OwnSchemas(store), claims)
