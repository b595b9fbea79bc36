"""Service processes that start within a tenth of a second: forked from a process that has imported everything."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from tests.support.command_process import CONTEXT
from tests.support.service import Client
from ticdc_bridge.service.server.app import create_served
from ticdc_bridge.service.server.http_server import base_url, bind, server
from ticdc_bridge.service.server.settings import Settings

_START_SECONDS = 60


@contextmanager
def services(count: int, store: str, **settings: Any) -> Iterator[list[tuple[BaseProcess, Client]]]:
    """`count` processes that serve one store, each on a port of its own; killed at the end if they still run."""
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(count):
            ours, theirs = CONTEXT.Pipe(duplex=False)
            process: BaseProcess = CONTEXT.Process(target=run, args=({"store": store, **settings}, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append((process, ours))
        yield [(process, Client(ready(pipe))) for process, pipe in started]
    finally:
        for process, pipe in started:
            process.kill()
            process.join(_START_SECONDS)
            process.close()
            pipe.close()


def ready(pipe: Connection) -> str:
    """The base URL, once the service answers."""
    if not pipe.poll(_START_SECONDS):
        raise AssertionError("the service did not start in time")
    url = pipe.recv()
    assert isinstance(url, str)
    return url


def run(settings: dict[str, Any], pipe: Connection) -> None:
    """What such a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run, which then kills
    listening = bind("127.0.0.1", 0)
    given = Settings(log_level="error", **settings)
    server(create_served(given), given, lambda: pipe.send(base_url(listening))).run(sockets=[listening])
