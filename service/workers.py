"""`serve --workers N`: uvicorn's own supervisor, with workers that are forked from a process that has imported all.

A fork starts within a tenth of a second where a new Python takes a second, so a worker that died is soon replaced, and
memory is shared from the start (`service.worker_memory`). Each worker has a listening socket of its own on the one
port: the kernel spreads connections over them, and those of a worker that died wait for its successor
(docs/decisions/0025).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from contextlib import closing
from typing import Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import multiprocess

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.app import access_files, create_served, make_trackers
from ticdc_bridge.service.http_server import (
    BACKLOG,
    Server,
    ignore_raised_signals,
    log_exposure,
    ready_line,
    server,
    watched_context,
)
from ticdc_bridge.service.logs import print_line
from ticdc_bridge.service.settings import Settings
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_reader import HistoryStore
from ticdc_bridge.service.worker_memory import WorkerMemory

_FORK: Final = multiprocessing.get_context("fork")
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_SECONDS_UNTIL_READY, _SECONDS_BETWEEN_LOOKS, _SECONDS_BEFORE_RESTART = 0.02, 0.1, 1.0
_LOOKS_BETWEEN_PINGS: Final = 50
_HUNG_SECONDS: Final = 15
_LOG = logging.getLogger("service")


class WorkerProcess(multiprocess.Process):
    """One worker. number: from 0; whoever takes the place of one that died has its number."""

    def __init__(self, workers: Workers, number: int) -> None:
        self._workers, self._number = workers, number
        self._server: Server | None = None
        self.parent_conn, self.child_conn = multiprocessing.Pipe()
        self.process = _FORK.Process(target=self.target, name=f"worker-{number + 1}")  # type: ignore[assignment]

    def pong(self) -> None:
        self.child_conn.recv()
        self.child_conn.send(self._server is not None and self._server.started)

    def always_pong(self) -> None:
        """Answers the supervisor; without one nobody would end this worker or replace it, so it stops."""
        try:
            super().always_pong()
        except (OSError, EOFError):
            os.kill(os.getpid(), signal.SIGTERM)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        for number in _STOPPING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        for one in (*self._workers.processes, self):
            one.parent_conn.close()
        threading.Thread(target=self.always_pong, daemon=True).start()
        sockets = self._workers.sockets
        listening = sockets[self._number % len(sockets)]
        for other in sockets:
            if other is not listening:
                other.close()
        try:
            self._serve(listening)
        except SetupError as error:
            print_line(f"worker {self._number + 1} can't start: {error.detail}")
            sys.exit(STARTUP_FAILURE)

    def _serve(self, listening: socket.socket) -> None:
        settings, memory = self._workers.settings, self._workers.memory
        memory.start(self._number, os.getpid())
        app = create_served(settings, memory, self._number)
        tls, tls_files = watched_context(settings)
        tls_files.start()
        ignore_raised_signals()
        self._server = server(app, settings, _do_nothing, tls)
        self._server.run(sockets=[listening])
        tls_files.close()


class Workers(multiprocess.Multiprocess):
    """The supervisor: starts the workers, replaces one that died or hangs, and stops them all."""

    processes: list[WorkerProcess]  # type: ignore[assignment]

    def __init__(self, listening: socket.socket, settings: Settings) -> None:
        sockets = listen_often(listening, settings.workers)
        super().__init__(uvicorn.Config(_no_app, workers=settings.workers, log_config=None), sockets)
        share = -(-settings.max_connections // settings.workers)
        self.settings = settings.model_copy(update={"max_connections": share})
        self.memory = WorkerMemory(settings.workers)
        self._is_ready = False
        self._looks = 0

    def run(self) -> None:
        """Until Ctrl-C or SIGTERM. Raises SetupError if a worker can't start, which has said why."""
        self.init_processes()
        while not self.should_exit.wait(_SECONDS_BETWEEN_LOOKS if self._is_ready else _SECONDS_UNTIL_READY):
            self.handle_signals()
            if not self._is_ready and all(process.is_ready(_HUNG_SECONDS) for process in self.processes):
                self._is_ready = True
                print_line(f"{ready_line(self.sockets[0], self.settings)} workers={self.processes_num}")
            self.keep_subprocess_alive()
        self.terminate_all()
        self.join_all()
        if not self._is_ready and any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            raise SetupError("USAGE", details="a worker did not start, see above")

    def init_processes(self) -> None:
        for number in range(self.processes_num):
            self.processes.append(self._start(number))

    def _start(self, number: int) -> WorkerProcess:
        process = WorkerProcess(self, number)
        # Between fork and its own handlers a signal would be lost in this one's queue.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        process.child_conn.close()  # so that its end is seen at once
        return process

    def keep_subprocess_alive(self) -> None:
        self._looks += 1
        for number, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            alive = process.process.is_alive()
            if alive and (self._looks % _LOOKS_BETWEEN_PINGS or process.ping(_HUNG_SECONDS)):
                continue
            process.kill()
            process.join()
            if not self._is_ready and process.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
                return
            why = f"ended with exit code {process.exitcode}" if not alive else f"did not answer for {_HUNG_SECONDS} s"
            _LOG.warning("worker %d (process %s) %s; another one takes its place", number + 1, process.pid, why)
            self.should_exit.wait(_SECONDS_BEFORE_RESTART if process.exitcode == STARTUP_FAILURE else 0)
            self.processes[number] = self._start(number)

    def terminate_all(self) -> None:
        for one in self.sockets:
            one.close()  # nobody is to wait in a row that no worker takes from
        super().terminate_all()

    def handle_hup(self) -> None:
        self.handle_term()

    def handle_ttin(self) -> None:
        """How many workers there are is said at the start."""

    def handle_ttou(self) -> None:
        """As `handle_ttin`."""


def check_setup(settings: Settings) -> None:
    """Raises SetupError, as the workers would; the store's tables are there afterwards, and up to date."""
    access_files(settings)
    watched_context(settings)
    with closing(open_store(settings.store, wait_seconds=settings.store_wait_seconds)) as store:
        if settings.track:
            make_trackers(settings, HistoryStore(store), store)


def serve_with_workers(listening: socket.socket, settings: Settings) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises SetupError if that can't be."""
    log_exposure(listening, settings)
    Workers(listening, settings).run()


def listen_often(listening: socket.socket, count: int) -> list[socket.socket]:
    """A bound socket and others on its address, `count` in all, over which the kernel spreads connections.

    Where it does not (elsewhere than on Linux), only the socket itself: workers then take from one row.
    """
    if sys.platform != "linux":
        return [listening]
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sockets = [listening]
    for _ in range(count - 1):
        other = socket.socket(listening.family, listening.type, listening.proto)
        sockets.append(other)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(listening.getsockname())
        other.listen(BACKLOG)
    return sockets


def _do_nothing() -> None:
    """The supervisor says when all workers are ready."""


async def _no_app(*_: object) -> None:
    """The supervisor itself serves nothing."""
