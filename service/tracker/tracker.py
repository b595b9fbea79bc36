"""Trackers: what reads a changefeed's DDL into its history, in a process of its own or inside the service."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.claim_check_folder import ClaimFolder
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import ClaimChecks, SchemaSource
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.history.model import Batch
from ticdc_bridge.service.history.table_schemas import tables_by_avro_name
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.registry.view import StoreSchemas
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.events import MAY_LACK_WATERMARKS
from ticdc_bridge.service.tracker.progress import Progress
from ticdc_bridge.service.tracker.reader import EventReader
from ticdc_bridge.service.tracker.row_validation import RowValidator
from ticdc_bridge.service.tracker.sources import Source

_WAIT_SECONDS: Final = 0.5


class Tracker:
    """`run` in a thread of its own; `stop` from any other.

    most: messages in one transaction. until: a TSO at which to stop once it is sealed, 0 for "all that was there at the
    start", None for never. at_end: stop when all that was there at the start has been read.
    """

    def __init__(
        self,
        changefeed: TrackedChangefeed,
        source: Source,
        history: HistoryStore,
        schemas: SchemaSource,
        claims: ClaimChecks | None = None,
        *,
        most: int = 1000,
        until: int | None = None,
        at_end: bool = False,
    ) -> None:
        self._changefeed, self._source, self._history = changefeed, source, history
        self._most, self._until, self._at_end = most, until, at_end
        self.progress = Progress(changefeed.name)
        self._stopping = threading.Event()
        name = changefeed.name
        sent = (changefeed.settings or ChangefeedSettings()).sent_table
        tables = partial(tables_by_avro_name, history, name)
        self._observer = RowValidator(name, partial(history.version_at, name), sent, tables)
        offsets = history.partitions().get(name, {})
        context = Context(schemas, None, Options.of({}, time_zone=changefeed.time_zone), claims)
        self._reader = EventReader(name, changefeed.format, context, self._observer, self.progress, offsets)
        self._source.start({partition: offset for partition, (offset, _) in offsets.items()})

    def stop(self) -> None:
        self._stopping.set()

    def run(self, report: Callable[[Progress], None] | None = None, every: float = 10.0) -> None:
        """Until stopped, or until there is nothing more to wait for. Errors of the source and the store are raised;
        what was kept until then stays kept."""
        last_report = time.monotonic()
        self._keep(Batch())  # the changefeed is there from now on, even if nothing comes
        try:
            while not self._stopping.is_set():
                read = self._source.read(self._most, _WAIT_SECONDS)
                if read is None:
                    break
                batch = self._reader.batch(read)
                if batch:
                    self._keep(batch)
                self.progress.lag = self._source.lag()
                if report is not None and time.monotonic() - last_report >= every:
                    last_report = time.monotonic()
                    report(self.progress)
                if self._is_done():
                    break
            self._judge()
            waiting = self._observer.count_waiting()
            if waiting:
                self.progress.skipped["row after the last watermark"] += waiting
        finally:
            self._source.close()

    def _keep(self, batch: Batch) -> None:
        self.progress.count(self._history.track(self._changefeed.name, batch, self._changefeed.ddl_time_zone))
        self._judge()

    def _judge(self) -> None:
        """Rows are looked at when their versions are sealed: by a watermark, or at once where none may ever come."""
        sealed_ts, may_lack = self.progress.sealed_ts, not self._reader.watermarked
        drift, row_counts = self._observer.judge(
            lambda format_, ts: ts <= sealed_ts or (may_lack and format_ in MAY_LACK_WATERMARKS)
        )
        if drift or row_counts:
            self.progress.count(self._history.track(self._changefeed.name, Batch(drift=drift, seen=row_counts)))

    def _is_done(self) -> bool:
        if self._until:
            return self.progress.sealed_ts >= self._until
        if self._until == 0:
            return self._source.is_caught_up() and (not self.progress.pending or not self._reader.watermarked)
        return self._at_end and self._source.is_caught_up()

    @property
    def resolves(self) -> bool:
        """True if the source has ever sent a watermark."""
        return self._reader.watermarked

    def seconds_behind(self) -> float | None:
        """How far what is sealed lies behind the clock; None before the first watermark."""
        sealed = self.progress.sealed_ts
        return max(time.time() - tso_physical_ms(sealed) / 1000, 0.0) if sealed else None


_LOG = logging.getLogger("service")
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_AT_ONCE: Final = 200
"""Messages in one transaction: the registry's own writes wait for it."""
_STOP_SECONDS: Final = 15.0


class Trackers:
    """All changefeeds that the service follows."""

    def __init__(self, changefeeds: list[TrackedChangefeed], history: HistoryStore, store: Store) -> None:
        self._history, self._store = history, store
        self._stopping = threading.Event()
        self._running: dict[str, Tracker] = {}
        self._last: dict[str, Progress] = {changefeed.name: Progress(changefeed.name) for changefeed in changefeeds}
        self._threads = [
            threading.Thread(target=self._follow, args=(changefeed,), name=f"track-{changefeed.name}", daemon=True)
            for changefeed in changefeeds
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
        running = self._running
        return [
            (last, running[name].seconds_behind() if name in running else None) for name, last in self._last.items()
        ]

    def _follow(self, changefeed: TrackedChangefeed) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                tracker = tracker_of(changefeed, self._history, self._store, most=_AT_ONCE)
                self._last[changefeed.name] = tracker.progress
                self._running[changefeed.name] = tracker
                if self._stopping.is_set():
                    tracker.stop()
                _LOG.info("track %s: following", changefeed.name)
                tracker.run()
                pause = _FIRST_PAUSE
                if changefeed.file is not None:
                    _LOG.info("%s", tracker.progress.summary())
                    tracker.progress.stopped = "end of the file"
                    return
            except BridgeError as error:
                self._note_failure(changefeed.name, error.detail, pause)
            except Exception:
                _LOG.exception("track %s", changefeed.name)
                self._note_failure(changefeed.name, "an unexpected error; the log has its traceback", pause)
            self._stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _note_failure(self, name: str, detail: str, pause: float) -> None:
        self._last[name].stopped = detail
        _LOG.error("track %s: %s; again in %.0f s", name, detail, pause)


def tracker_of(
    changefeed: TrackedChangefeed,
    history: HistoryStore,
    store: Store,
    most: int,
    until: int | None = None,
    at_end: bool = False,
) -> Tracker:
    """A tracker of one changefeed. SetupError."""
    # The folder before the source: nobody would close one that was opened when the folder is not there.
    claims = ClaimFolder.of(changefeed.claim_check_dir) if changefeed.claim_check_dir else None
    schemas, source = StoreSchemas(store), changefeed.source()
    return Tracker(changefeed, source, history, schemas, claims, most=most, until=until, at_end=at_end)
