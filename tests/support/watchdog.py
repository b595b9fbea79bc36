"""Run a command and end it, with all it started, when this process's stdin closes.

The test run holds the other end of that pipe: however it ends, kill -9 included, the pipe closes and nothing is left.
Usage: python watchdog.py COMMAND…
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE_SECONDS = 10


def main(command: list[str]) -> int:
    """Run the command in a process group of its own. Out: its exit code (128 + signal where a signal ended it)."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end(child))
    threading.Thread(target=_end_at_eof, args=(child,), daemon=True).start()
    code = child.wait()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what the child may have left
    return code if code >= 0 else 128 - code


def _end_at_eof(child: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    killer = threading.Timer(GRACE_SECONDS, _kill, args=(child,))
    killer.daemon = True
    killer.start()


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
