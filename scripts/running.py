"""Run the commands of the set-up, and show at every moment that they are working. Standard library only."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_QUIET = 10.0  # seconds after which a log gets a line; a terminal's line moves twice a second
_KEPT = 8000  # characters of a command's output, for a failure
_BAR = 24


@dataclass
class Step:
    """A line that says what is being done, since when, and how much of it."""

    text: str
    done: int = 0
    total: int = 0
    detail: str = ""
    began: float = field(default_factory=time.monotonic)

    def line(self) -> str:
        seconds = f"{time.monotonic() - self.began:.0f} s"
        full = _BAR * self.done // self.total if self.total else 0
        bar = f"[{'#' * full}{'.' * (_BAR - full)}] {self.done}/{self.total} " if self.total else ""
        return f"setup: {self.text} {bar}{self.detail} ({seconds})".replace("  ", " ")


def say(text: str) -> None:
    """A line of its own."""
    print(f"{_clear()}setup: {text}", file=sys.stderr, flush=True)


def run(command: Sequence[str], step: Step, environment: Mapping[str, str], read: Callable[[str, Step], None]) -> Run:
    """Runs a command, whose lines `read` turns into the step's progress. Out: its exit code and last output."""
    over = threading.Event()
    ticker = threading.Thread(target=_tick, args=(step, over), daemon=True)
    ticker.start()
    kept = ""
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                kept = (kept + line)[-_KEPT:]
                read(line.strip(), step)
    finally:
        over.set()
        ticker.join()
        print(_clear(), end="", file=sys.stderr, flush=True)
    return Run(process.returncode, kept.strip())


def run_on_terminal(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Runs a command that draws its own progress: on a terminal of its own, whose output is passed on, and kept."""
    import pty

    ours, its = pty.openpty()
    _same_size(its)
    kept = b""
    with subprocess.Popen(command, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        try:
            while part := _read(ours):
                kept = (kept + part)[-_KEPT:]
                sys.stderr.buffer.write(part)
                sys.stderr.buffer.flush()
        finally:
            os.close(ours)
    return Run(process.returncode, kept.decode(errors="replace").strip())


@dataclass(frozen=True)
class Run:
    """How a command ended: its exit code, and the last of its output."""

    code: int
    output: str


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def _same_size(terminal: int) -> None:
    import fcntl
    import termios

    size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


def _tick(step: Step, over: threading.Event) -> None:
    terminal = sys.stderr.isatty()
    while not over.wait(0.5 if terminal else _QUIET):
        if terminal:
            print(f"{_clear()}{step.line()[: _width()]}", end="", file=sys.stderr, flush=True)
        else:
            print(step.line(), file=sys.stderr, flush=True)


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns - 1


def _clear() -> str:
    return "\r\033[K" if sys.stderr.isatty() else ""
