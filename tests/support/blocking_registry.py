"""A registry that keeps Python workers waiting for a schema: moments at which one is certainly at work."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil

from tests.support.golden import Golden
from tests.support.registries import golden_registry, serving

_DAEMONS = frozenset(("pyspark.daemon", "ticdc_bridge.spark_jobs.spark.worker_daemon"))
_BY_ID = "/schemas/ids/"


class Gate:
    """The schemas that TiCDC registered in a golden case. A worker is not told those with an id in `shut` yet."""

    def __init__(self, golden: Golden, shut: Iterable[int]) -> None:
        self._respond = golden_registry(golden)
        self._shut = set(shut)
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @contextmanager
    def up(self) -> Iterator[Gate]:
        """While it serves. All answers are given at the end."""
        with serving(self._respond, asked=self._asked) as server:
            self._port = server.port
            try:
                yield self
            finally:
                self.open(set(self._shut))

    def open(self, ids: Iterable[int]) -> None:
        with self._changed:
            self._shut -= set(ids)
            self._changed.notify_all()

    def waiting(self) -> psutil.Process | None:
        """A worker that waits for a schema, in the midst of its task."""
        with self._changed:
            found = list(self._waiting)
        for pid in found:
            if _is_worker(pid):  # not, when it was killed while it waited
                return psutil.Process(pid)
        return None

    def _asked(self, path: str, client: int) -> None:
        if not path.startswith(_BY_ID):
            return
        id_ = int(path.removeprefix(_BY_ID).partition("?")[0].partition("/")[0])
        worker = next((c.pid for c in psutil.net_connections("tcp") if c.laddr.port == client and c.pid), None)
        if worker is None or not _is_worker(worker):
            return
        with self._changed:
            self._waiting.append(worker)
            self._changed.wait_for(lambda: id_ not in self._shut)
            self._waiting.remove(worker)


def _is_worker(pid: int) -> bool:
    """True if Spark's daemon forked it; it has the daemon's command line then."""
    try:
        entry = psutil.Process(pid)
        above = entry.parent()
        return above is not None and not any(_DAEMONS.isdisjoint(p.cmdline()) for p in (entry, above))
    except psutil.Error:
        return False
