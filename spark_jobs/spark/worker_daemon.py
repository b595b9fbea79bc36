"""The process that forks Spark's Python workers under a local master (`spark.python.daemon.module`).

It is pyspark's. Only, a worker whose task Spark has ended early, as `limit()` does, or whose session stops while it
waits for a task, ends without a word: pyspark's prints a traceback of its broken pipe among what a command says.
"""

import os
import socket
from collections.abc import Callable

from pyspark import daemon

_ENDED = (BrokenPipeError, ConnectionResetError)


def quiet(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """pyspark's `worker(sock, authenticated)`, which ends the process where nobody listens any more."""

    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except _ENDED:
            os._exit(1)

    return run


if __name__ == "__main__":
    daemon.worker = quiet(daemon.worker)
    daemon.manager()  # type: ignore[no-untyped-call]
