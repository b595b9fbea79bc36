"""Command lines in processes of their own, to be watched and killed; waiting for what must come, with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

from tests.support.golden import ROOT

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, seconds: float = 300.0) -> T:
    """What `condition` gives as soon as it is true; AssertionError when it was not in time."""
    end, pause = time.monotonic() + seconds, 0.02
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.25, 0.2)  # some conditions read a topic: not for nothing while Spark works
    return found


class Job:
    """`python -m spark_jobs …` (or another command) in a session of its own: JVM and workers go with its driver."""

    def __init__(
        self, words: list[str], folder: Path, command: list[str] | None = None, drop: tuple[str, ...] = (), **env: str
    ) -> None:
        """In: the words of the command line; its working folder, where `log` has what it prints (runs add to it).

        drop: variables that it does not get of ours, env: more that it gets.
        """
        self._log = folder / "log"
        self._before = self._log.stat().st_size if self._log.exists() else 0
        whole = [*(command or [sys.executable, "-m", "spark_jobs"]), *words]
        given = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                whole, env={k: v for k, v in given.items() if k not in drop}, cwd=folder, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        """What this run has printed so far."""
        return self._log.read_bytes()[self._before :].decode(errors="replace")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def until(self, condition: Callable[[], T], what: str, seconds: float = 300.0) -> T:
        """As `until`; AssertionError with the log when the job ends before."""
        try:
            found = until(lambda: condition() or self.ended, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log[-3000:]}") from None
        found = condition() if isinstance(found, bool) else found
        assert found, f"the job ended before: {what}\n{self.log[-3000:]}"
        return found

    def wait(self, seconds: float = 600.0) -> int:
        """Its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s\n{self.log[-3000:]}") from None

    def stop(self) -> None:
        """SIGTERM to the driver."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and all workers at once; harmless when it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def processes(self, word: str) -> list[psutil.Process]:
        """The processes below the driver that have `word` in their command line."""
        found = []
        try:
            below = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        for entry in below:
            try:
                if any(word in piece for piece in entry.cmdline()):
                    found.append(entry)
            except psutil.Error:
                continue
        return found

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
