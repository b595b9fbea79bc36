"""Progress on stderr: a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ReportProgress = Callable[[str, int, int | None], None]
"""Progress: what is being done, how much of it is done, of how much (None: not known)."""
_EVERY_SECONDS: Final = 5.0


def ignore_progress(_what: str, _done: int, _total: int | None) -> None:
    """No progress."""


@contextmanager
def progress(say: Callable[[str], None]) -> Iterator[ReportProgress]:
    """Somebody to tell; `say` gets the lines where there is no terminal."""
    if not sys.stderr.isatty():
        yield line_progress(say)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int | None) -> None:
        if total != 0:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield report


def line_progress(say: Callable[[str], None], every: float = _EVERY_SECONDS) -> ReportProgress:
    """A line when something takes long, and then every few seconds."""
    last = time.monotonic()

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if total != 0 and now - last >= every:
            last = now
            say(f"{what}: {done}" + ("" if total is None else f" of {total}"))

    return report
