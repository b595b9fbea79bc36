"""Follows one changefeed: source → reader → history, batch by batch, until it is told to stop or the source ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from schemas.event import tso_physical_ms
from schemas.options import Options
from schemas.ports import ClaimChecks, SchemaSource
from schemas.wire.base import Context
from service.history.model import Batch
from service.history.ports import History
from service.tracker.observing import Observer
from service.tracker.progress import Progress
from service.tracker.reader import Reader
from service.tracker.sources import Source


@dataclass(frozen=True, slots=True)
class Following:
    """How to follow. most: messages in one transaction. until: a TSO at which to stop once it is sealed, 0 for "all
    that was there at the start", None for never. at_end: stop when all that was there at the start has been read."""

    changefeed: str
    format: str = "auto"
    zone: str | None = None
    time_zone: str = "UTC"
    most: int = 1000
    wait_seconds: float = 0.5
    until: int | None = None
    at_end: bool = False


class Tracker:
    """`run` in a thread of its own; `stop` from any other."""

    def __init__(
        self,
        following: Following,
        source: Source,
        history: History,
        schemas: SchemaSource,
        claims: ClaimChecks | None = None,
    ) -> None:
        self._following, self._source, self._history = following, source, history
        self.progress = Progress(following.changefeed)
        self._stopping = threading.Event()
        name = following.changefeed
        self._observer = Observer(name, lambda db, table, ts: history.version_at(name, db, table, ts))
        places = history.places(name)
        context = Context(schemas, None, Options.of({}, time_zone=following.time_zone), claims)
        self._reader = Reader(name, following.format, context, self._observer, self.progress, places)
        self._source.start({place: offset for place, (offset, _) in places.items()})

    def stop(self) -> None:
        self._stopping.set()

    def run(self, report: Callable[[Progress], None] | None = None, every: float = 10.0) -> None:
        """Until stopped, or until there is nothing more to wait for. Errors of the source and the store are raised;
        what was kept until then stays kept."""
        said = time.monotonic()
        self._keep(Batch())  # the changefeed is there from now on, even if nothing comes
        try:
            while not self._stopping.is_set():
                read = self._source.read(self._following.most, self._following.wait_seconds)
                if read is None:
                    break
                batch = self._reader.batch(read)
                if batch:
                    self._keep(batch)
                self.progress.lag = self._source.lag()
                if report is not None and time.monotonic() - said >= every:
                    said = time.monotonic()
                    report(self.progress)
                if self._done():
                    break
            self._judge(final=True)
        finally:
            self._source.close()

    def _keep(self, batch: Batch) -> None:
        self.progress.count(self._history.track(self._following.changefeed, batch, self._following.zone))
        self._judge()

    def _judge(self, final: bool = False) -> None:
        """Rows are looked at when their versions are sealed; at the end, and where nothing resolves them, at once."""
        sealed = None if final or not self._reader.watermarked else self.progress.sealed_ts
        drift, seen = self._observer.judge(sealed)
        if drift or seen:
            batch = Batch(drift=drift, seen=seen)
            self.progress.count(self._history.track(self._following.changefeed, batch))

    def _done(self) -> bool:
        following = self._following
        if following.until:
            return self.progress.sealed_ts >= following.until
        if following.until == 0:
            return self._source.caught_up() and (not self.progress.pending or not self._reader.watermarked)
        return following.at_end and self._source.caught_up()

    @property
    def resolves(self) -> bool:
        """Whether the source has ever sent a watermark."""
        return self._reader.watermarked

    def seconds_behind(self) -> float | None:
        """How far what is sealed lies behind the clock; None before the first watermark."""
        sealed = self.progress.sealed_ts
        return max(time.time() - tso_physical_ms(sealed) / 1000, 0.0) if sealed else None
