"""Progress of long work, on stderr: a live count on a terminal, a line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from ticdc_bridge.schemas.model.event import tso_physical_ms
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.plain.writer import json_line
from ticdc_bridge.spark_jobs.pipeline.result import Summary, TableProgress

T = TypeVar("T")
_EVERY, _OFTEN = 10.0, 30.0
_MOST_TABLES = 20


def show_progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The same items, telling how many have passed: of `total`, where that is known."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("messages"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            yield from progress.track(items, total=total, description=what)
        return
    began = last = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if count % 1000 == 0 and time.monotonic() - last > _EVERY:
            last = time.monotonic()
            print(f"{what}: {count} messages, {count / (last - began):,.0f}/s", file=sys.stderr)


@contextmanager
def step(command: str, text: str) -> Iterator[None]:
    """What is being done meanwhile: on a terminal with a spinner and its time, elsewhere a line when it begins."""
    began = time.monotonic()
    if not sys.stderr.isatty():
        print(f"{command}: {text}", file=sys.stderr, flush=True)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{command}: {text}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text, total=None)
        yield
    print(f"{command}: {text} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)


@contextmanager
def report_slow_steps(text: str, after: float = 2.0, state: Callable[[], str] = str) -> Iterator[None]:
    """Lines on stderr while the work takes longer than `after` seconds, each half minute. state: how far it is."""
    began, done = time.monotonic(), threading.Event()

    def tell() -> None:
        pause = after
        while not done.wait(pause):
            so_far = f"{time.monotonic() - began:.0f} s so far"
            with suppress(Exception):  # what is asked may end meanwhile
                so_far = f"{state()}, {so_far}".removeprefix(", ")
            print(f"{text} ({so_far})", file=sys.stderr, flush=True)
            pause = _OFTEN

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def print_summary(command: str, summary: Summary, table: TableId | None = None, as_json: bool = False) -> None:
    """Warnings, then the summary on stderr. table: whose rows were asked for. as_json: for programs, in one line."""
    for text in summary.warnings(table):
        print(f"warning: {text}", file=sys.stderr)
    if as_json:
        print_counts(command, summary.counts(), as_json, summary.exit_code)
        return
    print_lines(command, summary.lines())
    for line in table_lines(command, summary.tables):
        print(line, file=sys.stderr)


def print_lines(command: str, lines: Iterable[str]) -> None:
    """Lines on stderr, each after the command's name."""
    if text := "\n".join(f"{command}: {line}" for line in lines):
        print(text, file=sys.stderr)


def print_counts(command: str, counts: Mapping[str, Any], as_json: bool, exit_code: int) -> None:
    """Counts on stderr: a line each, or one JSON object with `_` for blanks, and the exit code."""
    if as_json:
        numbers = {name.replace(" ", "_"): n for name, n in counts.items()}
        print(json_line({"command": command, **numbers, "exit_code": exit_code}), file=sys.stderr)
    else:
        print_lines(command, [f"{name} {count}" for name, count in counts.items()])


def batch_line(command: str, number: int, summary: Summary, lag: int | None, rate: float) -> str:
    """A micro-batch in one line: rows in and out, dead letters by reason, lag in messages, messages a second."""
    dead = ", ".join(f"{code} {n}" for code, n in sorted(summary.errors.items()))
    skipped = ", ".join(f"{kind} {n}" for kind, n in sorted(summary.skipped.items()))
    pieces = [f"in {summary.messages}", f"out {summary.out}", f"dead {summary.errors.total() - summary.dropped}"]
    pieces[-1] += f" ({dead})" if dead else ""
    pieces += [f"skipped {skipped}"] * bool(skipped) + [f"dropped {summary.dropped}"] * bool(summary.dropped)
    pieces += [f"set aside {counted(len(summary.set_aside), 'table')}"] * bool(summary.set_aside)
    pieces += [f"held {summary.held}"] * bool(summary.held)
    pieces += [f"lag {'unknown' if lag is None else lag}", f"{rate:,.0f}/s"]
    return f"{command}: batch {number}: " + ", ".join(pieces)


def when_and_age(commit_ts: int) -> str:
    """A commit_ts for people."""
    seconds = tso_physical_ms(commit_ts) / 1000
    when, age = datetime.fromtimestamp(seconds, UTC), max(time.time() - seconds, 0)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC, {age:,.0f} s ago"


def table_lines(command: str, tables: Sequence[TableProgress]) -> list[str]:
    """A line for each table of a batch, those with most rows; of the others how many there are."""
    shown = sorted(tables, key=lambda entry: -entry.rows)[:_MOST_TABLES]
    lines = []
    for entry in shown:
        lines.append(f"{command}:   {entry.name}: rows {entry.rows}, out {entry.out}")
        if entry.newest_ts is not None:
            lines[-1] += f", newest change {when_and_age(entry.newest_ts)}"
    if len(tables) > len(shown):
        rest = sum(table.rows for table in tables) - sum(entry.rows for entry in shown)
        lines.append(f"{command}:   and {len(tables) - len(shown)} more tables: rows {rest}")
    return lines


def print_notes(notes: list[str], number: int) -> None:
    """Notes on the message of this number, counted from 1, to stderr."""
    for note in notes:
        print(f"message {number}, {note}", file=sys.stderr)
