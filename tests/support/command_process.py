"""`python -m service …` as a process that starts within a tenth of a second.

It is forked from a process that has imported everything, which takes most of the time of a start. What is left of
`python -m service` itself is tried once, in tests/ticdc_bridge/cli/test_serve.py.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO

_PRELOADED = [
    "tests.support.forked_service", "ticdc_bridge.cli.app", "ticdc_bridge.service.migration.transfer",
    "ticdc_bridge.service.schema_types.json_schema.schema", "ticdc_bridge.service.schema_types.protobuf.schema",
    "ticdc_bridge.service.store.dialects.postgres", "ticdc_bridge.service.store.dialects.sqlite",
    "ticdc_bridge.service.tracker.tracker",
]  # fmt: skip
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(_PRELOADED)


class Command:
    """A running command; used like a subprocess.Popen with pipes of text."""

    def __init__(
        self, arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str], terminal: int | None = None
    ) -> None:
        """terminal: a file descriptor for stderr, which is closed here; None for a pipe."""
        out, stdout = CONTEXT.Pipe(duplex=False)
        error, stderr = CONTEXT.Pipe(duplex=False) if terminal is None else (None, Connection(terminal, readable=False))
        self.returncode: int | None = None
        self._process: BaseProcess = CONTEXT.Process(
            target=_run, args=(arguments, str(cwd), dict(environment), stdout, stderr), daemon=True
        )
        self._process.start()
        for theirs in (stdout, stderr):
            theirs.close()
        self.stdout: TextIO = _text(out)
        self.stderr: TextIO | None = _text(error) if error is not None else None

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("python -m service", timeout)
        return code

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """stdout and stderr up to their ends, of a process that has ended; killed if that takes too long."""
        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None]
        with ThreadPoolExecutor(len(pipes)) as pool:
            reading = [pool.submit(pipe.read) for pipe in pipes]
            try:
                reported = [entry.result(timeout) for entry in reading]
            except TimeoutError:
                self.kill()
                raise
        self.wait(timeout)
        self._close()
        return reported[0], "".join(reported[1:])

    def send_signal(self, number: int) -> None:
        """As Popen's; a process that has just died is no error: the server of forks says so a moment later."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()


def _text(pipe: Connection[Any, Any]) -> TextIO:
    file = os.fdopen(os.dup(pipe.fileno()), encoding="utf-8")
    pipe.close()
    return file


def _run(
    arguments: tuple[str, ...],
    cwd: str,
    environment: dict[str, str],
    stdout: Connection[Any, Any],
    stderr: Connection[Any, Any],
) -> None:
    """What such a process does."""
    from ticdc_bridge.cli import main

    for number, pipe in ((1, stdout), (2, stderr)):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    raise SystemExit(main(arguments, "python -m service"))
