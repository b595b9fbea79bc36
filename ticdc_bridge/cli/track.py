"""`track`: follow DDL and resolved events into a table history."""

from __future__ import annotations

import gc
import signal
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ticdc_bridge.cli.app import Command
from ticdc_bridge.cli.options import (
    CLAIM_CHECKS,
    DDL_ZONE,
    DEFINITIONS,
    INPUT,
    KafkaOptions,
    StoreOptions,
    flag,
    option,
)
from ticdc_bridge.cli.output import CountingCommand, load_settings
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.server.logs import print_line

if TYPE_CHECKING:
    from ticdc_bridge.service.server.settings import Settings
    from ticdc_bridge.service.tracker.config import TrackedChangefeed
    from ticdc_bridge.service.tracker.progress import Progress
    from ticdc_bridge.service.tracker.tracker import Tracker

_AT_ONCE: Final = 1000
_NOT_ALL: Final = 1
_END: Final = "end"
_COUNTS: Final = ("changefeed", "messages", "events", "new", "copies", "sealed", "pending", "failed", "late", "drift",
                  "errors", "skipped", "sealed_ts")  # fmt: skip


@dataclass(kw_only=True)
class Track(StoreOptions, KafkaOptions, CountingCommand):
    """Follow a changefeed's DDL and resolved events, and keep the history of its tables.

    Topics are followed until Ctrl-C or SIGTERM; a file is read to its end. The position is kept with the history: the
    next start goes on there.

    Exit code 0; 1 if messages could not be read or DDL was not understood; 2 if it can't start or go on.

    Examples:
      ticdc-bridge track --in kafka:shop --changefeed shop --bootstrap-servers localhost:9092
    """

    prefix: ClassVar[str] = "can't start: "
    wrong: ClassVar = (ValueError,)
    in_: list[str] = option(
        INPUT, "FILE|kafka:T", "A file of messages or of DDL, or topics: kafka:T1,T2.", "--in", default=...
    )
    changefeed: str = option(
        DEFINITIONS, "NAME", "The history to write; each changefeed has one of its own.", default="default"
    )
    format: str = option(INPUT, "FORMAT", "Format of the messages; auto detects it for each message.", default="auto")
    until_resolved: str | None = option(
        None, "TSO|TIME|end",
        "Stop when the history is complete up to this time; end: up to the topic's end at the start.",
    )  # fmt: skip
    until_end: bool = flag(None, "--until-end", "Kafka: stop at the topic's end as it was at the start.")
    ddl_time_zone: str | None = DDL_ZONE
    time_zone: str = option(INPUT, "ZONE", "Zone of TIMESTAMP text in rows.", default="UTC")
    claim_check_dir: Path | None = CLAIM_CHECKS

    def run(self) -> int:
        from ticdc_bridge.service.tracker.config import TrackedChangefeed, inputs

        settings = load_settings(store=self.store)
        changefeed = TrackedChangefeed(
            self.changefeed, *inputs(self.in_), self.format, self.bootstrap_servers, self.kafka_config,
            self.ddl_time_zone, self.time_zone, self.claim_check_dir,
        ).check()  # fmt: skip
        progress = _run(settings, changefeed, _parse_until(self.until_resolved), self.until_end)
        counts = {name: getattr(progress, name) for name in _COUNTS}
        return self.report(counts, _NOT_ALL if progress.errors or progress.failed else 0)


class TrackCommand(Command):
    """`--until-resolved` without a value has the value `end`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = []
        for word, following in pairwise([*args, "--"]):
            words += [word, _END] if word == "--until-resolved" and following.startswith("-") else [word]
        return super().parse_args(ctx, words)


COMMAND_CLASS: Final = TrackCommand


def _parse_until(text: str | None) -> int | None:
    """0 stands for all that was there at the start."""
    if text is None:
        return None
    from ticdc_bridge.service.history.model import tso_of

    return 0 if text == _END else tso_of(text)


def _run(settings: Settings, changefeed: TrackedChangefeed, until: int | None, at_end: bool) -> Progress:
    from ticdc_bridge.service.store import open_store
    from ticdc_bridge.service.store.history_store import HistoryStore
    from ticdc_bridge.service.tracker.tracker import tracker_of

    store = open_store(settings.store, wait_seconds=settings.store_wait_seconds)
    # Tables live long and refer to nothing that refers to them: look through them seldom.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        tracker = tracker_of(changefeed, HistoryStore(store), store, _AT_ONCE, until, at_end)
        _follow(tracker)
    finally:
        store.close()
    progress = tracker.progress
    print_line(progress.summary())
    if until is not None and not tracker.resolves:
        details = "the source has sent no watermark, so nothing is ever resolved: leave --until-resolved out"
        raise SetupError("USAGE", details=details)
    if until and progress.sealed_ts < until:
        raise SetupError("USAGE", details=f"the input ended at watermark {progress.sealed_ts}, before {until}")
    return progress


def _follow(tracker: Tracker) -> None:
    """The tracker has a thread of its own; this one waits for signals, which librdkafka's calls would hold up."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            tracker.run(_report)
        except BaseException as error:
            failed.append(error)

    def stop(_number: int, _frame: FrameType | None) -> None:
        tracker.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    thread = threading.Thread(target=run, name="track", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    for number, handler in before.items():
        signal.signal(number, handler)
    if failed:
        raise failed[0]


def _report(progress: Progress) -> None:
    behind = sum(progress.lag.values())
    print_line(f"{progress.summary()}; {behind} messages behind at {datetime.now(UTC):%H:%M:%S}")
