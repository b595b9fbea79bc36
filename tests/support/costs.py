"""What each test file costs: `make test-costs` writes it to `tests/costs.tsv`, by which runs start long files first.

A row is the part of a file whose tests are marked slow, or the other part. Counted are wall time and CPU: user and
system time of the process that runs the tests, of its children that have ended (with those that they waited for), and,
read where the next part begins, of its children that live (Spark's JVM and Python workers, services). The run's broker
and PostgreSQL are left out: they work for all workers. CPU of what ended without being waited for is lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.golden import ROOT

TABLE = ROOT / "tests" / "costs.tsv"
_HEAD = ("file", "part", "wall s", "CPU s", "tests")


@dataclass(frozen=True)
class Part:
    """The tests of a file that are marked slow, or those that are not."""

    file: str
    slow: bool

    @classmethod
    def of(cls, item: pytest.Item) -> Part:
        return cls(item.location[0], item.get_closest_marker("slow") is not None)


@dataclass
class Cost:
    wall: float = 0.0
    cpu: float = 0.0
    tests: int = 0


def read_costs(table: Path = TABLE) -> dict[Part, Cost]:
    """The known costs; empty without a table."""
    if not table.exists():
        return {}
    rows = (line.split("\t") for line in table.read_text().splitlines()[1:])
    return {Part(file, piece == "slow"): Cost(float(wall), float(cpu), int(n)) for file, piece, wall, cpu, n in rows}


def write_costs(measured: Mapping[Part, Cost], table: Path) -> None:
    """Writes the table: new rows for the parts that ran, the old ones for others whose file is still there."""
    before = {name: cost for name, cost in read_costs(table).items() if (ROOT / name.file).exists()}
    rows = sorted({**before, **measured}.items(), key=lambda row: (row[0].file, row[0].slow))
    lines = [
        (piece.file, "slow" if piece.slow else "quick", f"{cost.wall:.1f}", f"{cost.cpu:.1f}", str(cost.tests))
        for piece, cost in rows
    ]
    table.write_text("".join("\t".join(line) + "\n" for line in (_HEAD, *lines)))


class Measuring:
    """Plugin: measures in each worker, writes where the run began."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._costs: dict[Part, Cost] = {}
        self._partial: Part | None = None
        self._cpu = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        part = Part.of(item)
        if part != self._partial:
            self._partial, self._cpu = part, _cpu()
        began = time.monotonic()
        result = yield
        cost = self._costs.setdefault(part, Cost())
        cost.wall += time.monotonic() - began
        cost.tests += 1
        if nextitem is None or Part.of(nextitem) != part:
            now = _cpu()
            cost.cpu += max(0.0, now - self._cpu)
            self._cpu = now
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["costs"] = [(p.file, p.slow, c.wall, c.cpu, c.tests) for p, c in self._costs.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, slow, wall, cpu, tests in getattr(node, "workeroutput", {}).get("costs", ()):
            cost = self._costs.setdefault(Part(file, slow), Cost())
            cost.wall, cost.cpu, cost.tests = cost.wall + wall, cost.cpu + cpu, cost.tests + tests

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write_costs(self._costs, self._table)
        wall, cpu = (sum(getattr(cost, what) for cost in self._costs.values()) for what in ("wall", "cpu"))
        terminalreporter.line(f"{self._table}: {cpu:.0f} s of CPU, {wall:.0f} s of workers' time")


def _cpu() -> float:
    """Seconds of CPU of this process and what it has started, but for the servers of the whole run."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + sum(map(_seconds, _living()))


def _living() -> Iterable[psutil.Process]:
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "--alive" not in child.cmdline():  # tests/support/watchdog.py
                yield from (child, *child.children(recursive=True))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
