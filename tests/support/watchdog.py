"""Run a command and end it, with all it started, when who wanted it is gone.

Usage: python watchdog.py COMMAND… ends it when this process's stdin closes: the test that started it holds the other
end of that pipe, and however it ends, kill -9 included, the pipe closes and nothing is left.
`python watchdog.py --alive FILE --folder FOLDER COMMAND…` ends it when nobody holds a lock on FILE any more, and
removes both folders, of FILE and FOLDER.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

GRACE_SECONDS = 10


def start(command: list[str], out: IO[bytes], alive: Path | None, folder: Path) -> subprocess.Popen[bytes]:
    """A watchdog with the command; out gets what both print.

    alive: the file whose lock says that the command is wanted, folder: its own, to be removed then. Without alive the
    command ends at `release`, or with this process.
    """
    lasting = [] if alive is None else ["--alive", str(alive), "--folder", str(folder)]
    return subprocess.Popen(
        [sys.executable, __file__, *lasting, *command],
        stdin=subprocess.PIPE if alive is None else subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def release(process: subprocess.Popen[bytes]) -> None:
    """Tells the watchdog that its command is no longer wanted; harmless when repeated."""
    if process.stdin is not None:
        process.stdin.close()
    elif process.poll() is None:
        process.terminate()


def main(arguments: list[str]) -> int:
    """Run the command in a process group of its own. Out: its exit code (128 + signal where a signal ended it)."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--alive", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    child = subprocess.Popen(given.command, stdin=subprocess.DEVNULL, start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end(child))
    threading.Thread(target=_end_when_unwanted, args=(child, given.alive), daemon=True).start()
    code = child.wait()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what the child may have left
    if given.alive is not None and not _held(given.alive):
        for folder in (given.folder, given.alive.parent):
            shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


def _end_when_unwanted(child: subprocess.Popen[bytes], alive: Path | None) -> None:
    if alive is None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
    else:
        with suppress(FileNotFoundError), alive.open() as file:
            fcntl.lockf(file, fcntl.LOCK_SH)  # waits
    _end(child)


def _held(alive: Path) -> bool:
    try:
        with alive.open() as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """PostgreSQL waits at SIGTERM until its sessions have ended, at SIGINT it ends them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
    killer = threading.Timer(GRACE_SECONDS, _kill, args=(child,))
    killer.daemon = True
    killer.start()


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
