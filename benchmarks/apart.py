"""Each benchmark of several in a process of its own: one that hangs, or is killed, takes no other's figures along."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

COMMAND: Final = (sys.executable, "-m", "benchmarks")
ROOT: Final = Path(__file__).resolve().parents[1]
_GRACE: Final = 20.0


class Failed(RuntimeError):
    """The process did not come to its end; the text says why."""


def run(name: str, options: Sequence[str], minutes: float, command: Sequence[str] = COMMAND) -> list[dict[str, Any]]:
    """The figures of one benchmark, as `--json` writes them. Its lines are printed as they come. Raises Failed.

    minutes: when it is ended, with all that it started.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        given = [*command, name, *options, "--one-of-several", "--json", str(target)]
        process = subprocess.Popen(given, cwd=ROOT, start_new_session=True)
        try:
            code = process.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {minutes:g} minutes (--minutes)") from None
        finally:
            _end(process)
        found: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8"))["figures"] if code == 0 else []
    if code:
        raise Failed(f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}, see above")
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the process and of those it started (a JVM, a broker, wrk)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
