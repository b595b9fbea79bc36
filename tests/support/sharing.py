"""One Kafka broker and one PostgreSQL for a whole test run, whatever the number of its workers.

The process that began the run (pytest-xdist's controller, or the only one) holds a lock on a file in the run's folder
for its life. The first worker that asks for a server starts it, under a lock of its own, and writes down where it is.
The server's watchdog waits for the run's lock: however the run ends, kill -9 included, the lock comes free, and the
servers end and their folders go.
"""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.kafka import Broker
    from tests.support.postgres import DatabaseServer

_KEY = "bridge_run"


class Run:
    """The run that this process belongs to; a plugin of pytest.

    Its lock is one of POSIX: a process that this one forks does not hold it, too. It would be lost if this process
    closed the file, whoever opened it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """folder: of the run that this process is a worker of; None: it begins one."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="bridge-run-"))
        self._alive = self.folder / "alive"
        self._held: IO[str] | None = None
        self._started: list[object] = []  # a server that nothing refers to warns that it still runs
        if folder is None:
            self._held = self._alive.open("w")
            fcntl.lockf(self._held, fcntl.LOCK_EX)

    @classmethod
    def of(cls, config: pytest.Config) -> Run:
        given = getattr(config, "workerinput", {}).get(_KEY)
        return cls(given and Path(given))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker is told the folder."""
        node.workerinput[_KEY] = str(self.folder)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if self._held is not None:
            for file in self.folder.iterdir():
                if file != self._alive:
                    file.unlink()
            self._held.close()  # from now on the watchdogs end their servers
            self._alive.unlink(missing_ok=True)
            self.folder.rmdir()

    def kafka(self) -> Broker:
        """The run's broker. Errors as of `Kafka.start`."""
        from tests.support.kafka import Broker, Kafka

        def start() -> dict[str, str]:
            started = Kafka(alive=self._alive).start()
            self._started.append(started)
            return {"bootstrap_servers": started.bootstrap_servers, "folder": str(started.folder)}

        found = self._found("kafka", start)
        return Broker(found["bootstrap_servers"], Path(found["folder"]))

    def postgres(self) -> DatabaseServer:
        """The run's server. Errors as of `Postgres`."""
        from tests.support.postgres import DatabaseServer, Postgres

        def start() -> dict[str, str]:
            started = Postgres(alive=self._alive).start()
            self._started.append(started)
            return {"port": str(started.port), "folder": str(started.folder)}

        found = self._found("postgres", start)
        return DatabaseServer(int(found["port"]), Path(found["folder"]))

    def _found(self, name: str, start: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        position = self.folder / f"{name}.json"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not position.exists():
                position.write_text(json.dumps(start()))
            return dict(json.loads(position.read_text()))
