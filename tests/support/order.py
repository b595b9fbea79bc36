"""In what order the test files run, by their known costs (`tests/costs.tsv`), and which slow ones fit into today.

Workers take file by file (`--dist loadfile --no-loadscope-reorder`): the longest first, so that no worker is left with
a long file at the end. A Spark session takes most of its CPU in its first minute, so in a run without slow tests two
workers of three get the files that use it. With `--slow-until TIME` only slow tests run, as many as there is time for:
their files are cut in seven parts of about equal cost, and each day begins with another one.
"""

import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support.costs import Cost, Part, read_costs
from tests.support.golden import ROOT

DAYS = 7
_UNKNOWN = 60.0  # s, of slow files without a known cost
_ENOUGH = 2  # times the known cost: the machine may be slower
_END_SECONDS = 20  # that a run needs to end
_USES = re.compile(r"\bspark: SparkSession|usefixtures\(\"spark\"")


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts the tests by their file's cost; a file without a known one is in the middle."""
    known = read_costs()
    costs: dict[str, float] = {}
    for piece in {Part.of(item) for item in items}:
        if piece in known:
            costs[piece.file] = costs.get(piece.file, 0.0) + known[piece].wall
    middle = statistics.median(costs.values()) if costs else 0.0
    items.sort(key=lambda item: (-costs.get(item.location[0], middle), item.location[0]))


def rotated(costs: Mapping[str, float], day: int) -> list[str]:
    """All files, today's part first. The parts are by name and cost; within one the longest is first."""
    total, so_far = sum(costs.values()), 0.0
    pieces: list[list[str]] = [[] for _ in range(DAYS)]
    for file in sorted(costs):
        middle = so_far + costs[file] / 2
        pieces[min(DAYS - 1, int(DAYS * middle / total))].append(file)
        so_far += costs[file]
    turned = [*pieces[day % DAYS :], *pieces[: day % DAYS]]
    return [file for piece in turned for file in sorted(piece, key=lambda file: (-costs[file], file))]


class SparkTogether(LoadFileScheduling):  # type: ignore[misc]
    """Workers take file by file. In a quick run, those that use Spark are one unit for each of two thirds of them."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        files = _spark_files() if config.option.markexpr == "not slow" else {}
        self._units = spark_units(files, max(1, 2 * config.option.numprocesses // 3))

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return self._units.get(file, file)


def spark_units(costs: Mapping[str, float], number: int) -> dict[str, str]:
    """File → name of its unit; the units cost about the same."""
    units, sums = dict[str, str](), [0.0] * number
    for file in sorted(costs, key=lambda file: (-costs[file], file)):
        unit = sums.index(min(sums))
        units[file] = f"Spark {unit + 1}"
        sums[unit] += costs[file]
    return units


def _spark_files() -> dict[str, float]:
    """The files with tests that take the fixture `spark`, by their text, and what their quick tests cost."""
    known = read_costs()
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py") if _uses_spark(path))
    return {file: known.get(Part(file, slow=False), Cost()).wall for file in files}


def _uses_spark(path: Path) -> bool:
    return _USES.search(path.read_text(encoding="utf-8")) is not None


class SlowUntil:
    """Plugin: only slow tests, today's first, none of a file that would not be done by `end` (seconds since 1970).

    What still runs at `end` is ended. That time is up is no failure; a failed test is one.
    """

    def __init__(self, end: float, worker: bool) -> None:
        self._end, self._worker = end, worker
        self._costs: dict[str, float] = {}
        self._begun: dict[str, bool] = {}
        self._time_is_up = False
        self._timer = threading.Timer(max(0.0, end - time.time() - _END_SECONDS), self.stop)
        self._timer.daemon = True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        quick = [item for item in items if not Part.of(item).slow]
        config.hook.pytest_deselected(items=quick)
        known = {name.file: cost.wall for name, cost in read_costs().items() if name.slow}
        slow = [item for item in items if Part.of(item).slow]
        self._costs = {item.location[0]: known.get(item.location[0], _UNKNOWN) + 0.1 for item in slow}
        index = {file: n for n, file in enumerate(rotated(self._costs, date.today().toordinal()))}
        items[:] = sorted(slow, key=lambda item: index[item.location[0]])

    def pytest_sessionstart(self) -> None:
        if not self._worker:
            self._timer.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        file = item.location[0]
        if file not in self._begun:
            self._begun[file] = self._end - time.time() > _ENOUGH * self._costs[file]
        if not self._begun[file]:
            pytest.skip("no time is left today")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._timer.cancel()
        ended = self._time_is_up and not session.testsfailed
        if ended or session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._time_is_up:
            terminalreporter.section("time is up: the tests that still ran were ended")

    def stop(self) -> None:
        self._time_is_up = True
        os.kill(os.getpid(), signal.SIGINT)
