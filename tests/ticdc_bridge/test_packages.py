"""What is not installed is named, in Spark's workers too; other people's packages of our folders' names do no harm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden import ROOT
from tests.support.table import check_rows
from ticdc_bridge.extras import missing_package
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.spark.errors import error_of

GOLDEN = ROOT / "tests" / "golden" / "craft" / "pk_int.batch1.jsonl"
_DECODE = ("decode", "--format", "craft", "--in", str(GOLDEN), "--out", "rows.jsonl")
_OTHERS = ("schemas", "service", "spark_jobs")
PROGRAMS = [
    ("-m", "ticdc_bridge", *_DECODE),
    ("-m", "ticdc_bridge", "check-ddl", "--help"),
    ("-c", "from ticdc_bridge import Decoder; Decoder('canal-json')"),
    ("-c", "import schemas, service, spark_jobs; from ticdc_bridge import Decoder; assert spark_jobs.MINE"),
    ("-m", "ticdc_bridge", *_DECODE, "--spark"),
]


def _user_folder(folder: Path) -> Path:
    """A project with packages of its own that have the names of our folders."""
    for name in _OTHERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("MINE = True\n")
    return folder


@pytest.mark.slow
def test_other_packages_of_our_folders_names(tmp_path: Path) -> None:
    """They are in the current folder, and first on PYTHONPATH: with Spark's workers, too."""

    def check(words: tuple[str, ...]) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    folder = _user_folder(tmp_path / "project")
    check_rows(PROGRAMS, check, " ".join)


class PythonException(Exception):
    """As Spark raises it: with the worker's traceback as its text."""


_WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  …\n"
_DAEMON = "An error occurred while calling o1.collectToPython.\nError from python worker:\n"
_NO_DAEMON = (
    "/usr/bin/python: Error while finding module specification for 'ticdc_bridge.spark_jobs.spark.worker_daemon'"
)
_OTHER = "the Python of Spark's workers has no ticdc_bridge.spark_jobs.{}: give the zip of `ticdc-bridge package`"
WORKERS = [
    (
        Exception(f"{_DAEMON}  {_NO_DAEMON} (ModuleNotFoundError: No module named 'ticdc_bridge.spark_jobs.spark')\n"),
        _OTHER.format("spark"),
    ),
    (
        PythonException(f"{_WORKER}ModuleNotFoundError: No module named 'ticdc_bridge.spark_jobs.arrow'\n"),
        _OTHER.format("arrow"),
    ),
    (
        PythonException(f"{_WORKER}ModuleNotFoundError: No module named 'pyarrow'\n"),
        "the Python of Spark's workers has no package pyarrow: install there what 'ticdc-bridge[spark]' brings",
    ),
    (
        ModuleNotFoundError("No module named 'pyspark'", name="pyspark"),
        "the Python package pyspark is not installed: in a clone of ticdc-bridge, pip install '.[spark]'",
    ),
]


def test_what_workers_lack_is_said() -> None:
    def check(row: tuple[Exception, str]) -> None:
        error = error_of(row[0])
        assert isinstance(error, SetupError)
        assert error.detail.startswith(row[1])

    check_rows(WORKERS, check, lambda row: row[1])
    assert error_of(ModuleNotFoundError("No module named 'ticdc_bridge.nothing'", name="ticdc_bridge.nothing")) is None
    assert error_of(PythonException("ValueError: a user's own")) is None


def test_an_extra_that_is_not_installed_is_named(tmp_path: Path) -> None:
    """Without the packages of any extra: the help is there, and each command says what it lacks."""
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'uvicorn', 'pyspark', 'pyarrow', 'confluent_kafka'}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from ticdc_bridge.cli import main\n"
        "raise SystemExit(main())\n"
    )

    def check(row: tuple[tuple[str, ...], int, str]) -> None:
        words, status, says = row
        command = [sys.executable, "-c", code, *words]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (status, says)

    lacks = "the Python package {} is not installed: in a clone of ticdc-bridge, pip install '.[{}]'"
    rows: list[tuple[tuple[str, ...], int, str]] = [
        (("--help",), 0, ""),
        (("--version",), 0, ""),
        (("serve",), 2, f"ticdc-bridge: serve: {lacks.format('uvicorn', 'service')}\n"),
        ((*_DECODE, "--spark"), 2, f"error USAGE: {lacks.format('pyspark', 'spark')}; the output is not complete\n"),
    ]
    check_rows(rows, check, lambda row: " ".join(row[0][:2]))
    assert missing_package(ImportError("cannot import name 'x'", name="pyspark"), "spark") is None


def test_a_module_that_python_itself_lacks() -> None:
    reason = missing_package(ModuleNotFoundError(name="sqlite3"), "service")
    assert reason is not None
    assert "lacks its own module sqlite3" in reason
    assert "pip install" not in reason
