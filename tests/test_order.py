"""What runs, and when: the order of files, slow tests for a time, the tests of a change, the table of features."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import costs
from tests.support.changed import TESTS, to_run
from tests.support.costs import Cost, Part
from tests.support.each import each
from tests.support.features import PAGE, features, has_quick_test
from tests.support.golden import ROOT
from tests.support.order import DAYS, rotated, spark_units

_SLOW_RUN = """
import sys, time, pytest
from tests.support.order import SlowUntil
plugin = SlowUntil(time.time() + float(sys.argv[2]), worker=False)
folder = sys.argv[1]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", folder + "/pytest.ini", folder], plugins=[plugin]))
"""
_FILE = """
import pytest
def test_quick():
    raise AssertionError("is not slow")
@pytest.mark.slow
def test_first():
    {}
@pytest.mark.slow
def test_second(pytestconfig):
    next(p for p in pytestconfig.pluginmanager.get_plugins() if type(p).__name__ == "SlowUntil").stop()
@pytest.mark.slow
def test_third():
    pass
"""


def test_each_day_begins_with_another_part_and_runs_all() -> None:
    known = {f"tests/test_{n}.py": float(1 + n % 5) for n in range(40)}
    days = [rotated(known, day) for day in range(DAYS)]
    assert all(sorted(day) == sorted(known) for day in days)
    first = [next(n for n, file in enumerate(days[day]) if file == days[(day + 1) % DAYS][0]) for day in range(DAYS)]
    part = [day[:n] for day, n in zip(days, first, strict=True)]
    assert sorted(file for files in part for file in files) == sorted(known)
    weights = [sum(known[file] for file in files) for files in part]
    assert max(weights) - min(weights) <= 2 * max(known.values())
    assert rotated({}, 3) == []
    assert rotated({"a": 1.0}, 3) == ["a"]


def test_files_that_use_spark_are_units_of_the_same_cost() -> None:
    costs = {"a": 9.0, "b": 8.0, "c": 3.0, "d": 3.0, "new": 0.0}
    assert spark_units(costs, 2) == {"a": "Spark 1", "b": "Spark 2", "c": "Spark 2", "d": "Spark 1", "new": "Spark 2"}
    assert set(spark_units(costs, 1).values()) == {"Spark 1"}


@pytest.mark.parametrize(
    ("body", "seconds", "code", "shown"),
    [
        ("pass", 3600, 0, "time is up"),
        ("raise AssertionError('failed')", 3600, 2, "time is up"),
        ("raise AssertionError('failed')", 60, 0, "no time is left today"),
    ],
    ids=["time is up", "a test failed before", "no time for the file"],
)
def test_slow_tests_for_a_time(tmp_path: Path, body: str, seconds: int, code: int, shown: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -rs\nmarkers = slow\n")
    (tmp_path / "test_it.py").write_text(_FILE.format(body))
    command = [sys.executable, "-c", _SLOW_RUN, str(tmp_path), str(seconds)]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == code, done.stdout
    assert shown in done.stdout
    assert "is not slow" not in done.stdout


def test_costs_there_and_back(tmp_path: Path) -> None:
    table = tmp_path / "costs.tsv"
    here, gone = "tests/test_order.py", "tests/test_of_old.py"
    first = {Part(here, False): Cost(1.5, 1.0, 3), Part(here, True): Cost(9.0, 8.0, 1), Part(gone, False): Cost()}
    costs.write_costs(first, table)
    assert costs.read_costs(table) == first
    costs.write_costs({Part("tests/scripts/test_setup.py", False): Cost(2.0, 2.0, 2)}, table)
    assert [cost.file for cost in costs.read_costs(table)] == ["tests/scripts/test_setup.py", here, here]


def test_the_tests_of_a_change() -> None:
    assert to_run(["schemas/model/table.py", "service/server/app.py"]) == ["tests"]
    assert to_run(["spark_jobs/jobs/verify.py", "tests/e2e/test_kills.py", "tests/test_order.py"]) == [
        *("tests/docs", "tests/e2e", "tests/schemas/formats/test_matrix.py", "tests/spark_jobs", "tests/survival"),
        "tests/test_order.py",
    ]
    assert to_run(["tests/service/ui/conftest.py", "tests/README.md", "tests/service/ui/test_gone.py"]) == [
        "tests/service/ui"
    ]
    assert to_run(["tests/support/kafka.py"]) == to_run(["a_new_package/a.py"]) == ["tests"]
    assert [test for _, tests in TESTS for test in tests if not (ROOT / test).exists()] == []
    assert [start for start, _ in TESTS if not (ROOT / start).exists()] == []


def test_each_test_file_belongs_to_a_feature() -> None:
    found = {glob: set(ROOT.glob(glob)) for globs in features(PAGE.read_text()).values() for glob in globs}
    assert [glob for glob, files in found.items() if not files] == []
    assert set((ROOT / "tests").rglob("test_*.py")) - set().union(*found.values()) == set()


def test_each_feature_has_a_test_that_is_not_slow() -> None:
    rows = features(PAGE.read_text())
    assert [
        feature for feature, globs in rows.items() if not any(has_quick_test(f) for g in globs for f in ROOT.glob(g))
    ] == []


@each(("text", "quick"), [
    ("def test_a() -> None: ...", True),
    ("@pytest.mark.slow\ndef test_a() -> None: ...", False),
    ("pytestmark = pytest.mark.slow\ndef test_a() -> None: ...", False),
    ("class TestA:\n    @pytest.mark.slow\n    def test_a(self) -> None: ...", False),
    ("@pytest.mark.slow\nclass TestA:\n    def test_a(self) -> None: ...", False),
    ("@pytest.mark.slow\ndef test_a() -> None: ...\ndef test_b() -> None: ...", True),
])  # fmt: skip
def test_what_is_slow(tmp_path: Path, text: str, quick: bool) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    assert has_quick_test(file) is quick
