"""Other people's packages with the names of ours: which file is in the way is said, and what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.golden import ROOT
from tests.support.table import check_rows
from ticdc_bridge import packages
from ticdc_bridge.packages import ForeignPackageError, check_packages, missing_package
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.spark.errors import error_of

GOLDEN = ROOT / "tests" / "golden" / "craft" / "pk_int.batch1.jsonl"
_DECODE = ("decode", "--format", "craft", "--in", str(GOLDEN), "--out", "rows.jsonl")


@dataclass(frozen=True)
class Case:
    """A file of a user's in the folder where a program starts, the program, and what it says; "" where it works."""

    name: str
    file: str
    program: tuple[str, ...]
    says: str = ""
    on_path: bool = False  # the folder is named by PYTHONPATH before ours


_BRIDGE = ("-P", "-m", "ticdc_bridge")  # as the console script: the current folder is not looked into
_HIDES = "ticdc-bridge: {place} hides ticdc-bridge's package {name} ({ours}): rename {what}, "
CASES = [
    Case("a module, jobs", "schemas.py", ("-m", "spark_jobs", *_DECODE), _HIDES),
    Case("a package, jobs", "schemas/__init__.py", ("-m", "spark_jobs", *_DECODE), _HIDES),
    Case("a package, service", "schemas/__init__.py", ("-m", "service", "--help"), _HIDES),
    Case("a module, service", "schemas.py", ("-m", "service", "--help"), _HIDES),
    Case("the service's own, by the one command", "service/__init__.py", ("-m", "ticdc_bridge", "serve"), _HIDES),
    Case("the jobs' own, by the one command", "spark_jobs.py", ("-m", "ticdc_bridge", *_DECODE), _HIDES),
    Case("before ours on PYTHONPATH", "service.py", (*_BRIDGE, "serve"), _HIDES, on_path=True),
    Case("not what this command needs", "service.py", ("-m", "ticdc_bridge", *_DECODE)),
    Case("help needs none of them", "schemas.py", ("-m", "ticdc_bridge", "--help")),
    Case("a folder that is no package", "schemas/data.json", ("-m", "spark_jobs", *_DECODE)),
    Case("the console script", "schemas/__init__.py", (*_BRIDGE, *_DECODE)),
    Case("Python", "schemas.py", ("-c", "from spark_jobs import decode"), _HIDES),
    Case("Python, the decoder", "spark_jobs.py", ("-c", "from schemas import Decoder"), _HIDES),
    Case("Python, the registry", "schemas/__init__.py", ("-c", "import ticdc_bridge.service.app"), _HIDES),
    Case("Python, what is not needed", "service.py", ("-c", "from schemas import Decoder")),
]


def _started(case: Case, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / case.file
    file.parent.mkdir(parents=True)
    file.write_text("raise SystemExit('the user\\'s own file ran')\n")
    paths = [str(folder), str(ROOT)] if case.on_path else [str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "BRIDGE_PORT": "0"}
    return subprocess.run(
        [sys.executable, *case.program], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.slow
def test_what_does_not_matter(tmp_path: Path) -> None:
    def check(case: Case) -> None:
        done = _started(case, tmp_path / case.name)
        assert done.returncode == 0, done.stderr

    check_rows([case for case in CASES if not case.says], check, lambda case: case.name)


def test_what_hides_a_package_is_named(tmp_path: Path) -> None:
    def check(case: Case) -> None:
        folder = tmp_path / case.name
        done = _started(case, folder)
        what = case.file.partition("/")[0]
        name = what.removesuffix(".py")
        fields = {"place": folder / case.file, "name": name, "ours": ROOT / name / "__init__.py", "what": what}
        says = case.says.format(**fields)
        if case.program[0] == "-c":  # the last line of a traceback
            says = says.replace("ticdc-bridge: ", "ticdc_bridge.packages.ForeignPackageError: ", 1)
            assert done.stderr.splitlines()[-1].startswith(says), done.stderr
        else:
            assert done.returncode == 2
            assert done.stderr.startswith(says), done.stderr
            assert done.stderr.count("\n") == 1

    check_rows([case for case in CASES if case.says], check, lambda case: case.name)


def test_what_an_installer_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of ours in a folder like an environment's: whole, replaced in part, with a link, without a package."""
    ours = tmp_path / "site-packages"
    for name in ("schemas", "spark_jobs"):
        (ours / name).mkdir(parents=True)
        shutil.copy(ROOT / name / "__init__.py", ours / name / "__init__.py")
    (ours / "service").symlink_to(ROOT / "service")
    monkeypatch.setattr(packages, "_OUR_FOLDER", str(ours))
    monkeypatch.setattr(sys, "path", [str(ours), *(one for one in sys.path if one not in ("", str(ROOT)))])
    for name in [one for one in sys.modules if one.partition(".")[0] in ("schemas", "service", "spark_jobs")]:
        monkeypatch.delitem(sys.modules, name)
    check_packages("schemas", "spark_jobs", "service")
    (ours / "schemas" / "__init__.py").write_text("from . import fields\n")
    with pytest.raises(ForeignPackageError, match=r"schemas/__init__.py is not ticdc-bridge's.*pip uninstall schemas"):
        check_packages("schemas")
    shutil.rmtree(ours / "spark_jobs")
    with pytest.raises(ForeignPackageError, match=r"not complete: its package spark_jobs is not in .*site-packages"):
        check_packages("spark_jobs")
    other = tmp_path / "lib" / "site-packages" / "spark_jobs"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(other.parent))
    with pytest.raises(ForeignPackageError, match=r"hides .*: pip uninstall spark_jobs, or install"):
        check_packages("spark_jobs")


def test_a_zip_is_looked_into(tmp_path: Path) -> None:
    """What `package` makes for Spark's workers; a folder of the worker's hides what is in it."""
    with zipfile.ZipFile(tmp_path / "ours.zip", "w") as out:
        for name in ("schemas", "spark_jobs", "ticdc_bridge"):
            for file in (ROOT / name).glob("*.py"):
                out.write(file, f"{name}/{file.name}")
    code = "import spark_jobs; print(spark_jobs.__file__)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "ours.zip")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"{tmp_path}/ours.zip/spark_jobs/__init__.py\n", done.stderr
    (tmp_path / "schemas.py").touch()
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert f"{tmp_path}/schemas.py hides ticdc-bridge's package schemas ({tmp_path}/ours.zip/schemas" in done.stderr


class PythonException(Exception):
    """As Spark raises it: with the worker's traceback as its text."""


_WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  …\n"
_DAEMON = "An error occurred while calling o1.collectToPython.\nError from python worker:\n"
_NO_DAEMON = (
    "/usr/bin/python: Error while finding module specification for 'ticdc_bridge.spark_jobs.spark.worker_daemon'"
)
_HIDDEN = "/job/schemas.py hides ticdc-bridge's package schemas (/ours): rename it"
_OTHER = (
    "a Python worker of Spark finds another package spark_jobs than ticdc-bridge's, or none (spark_jobs.{} is missing)"
)
WORKERS = [
    (
        PythonException(f"{_WORKER}ticdc_bridge.packages.ForeignPackageError: {_HIDDEN}\n\nJVM"),
        f"in a Python worker of Spark: {_HIDDEN}",
    ),
    (
        Exception(f"{_DAEMON}  ticdc-bridge: {_HIDDEN}\nPYTHONPATH was:\n  /spark"),
        f"in a Python worker of Spark: {_HIDDEN}",
    ),
    (
        Exception(
            f"{_DAEMON}  {_NO_DAEMON} (ModuleNotFoundError: No module named 'ticdc_bridge.spark_jobs.spark')\nPYTHONPATH was:"
        ),
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
        "the Python package pyspark is not installed: pip install 'ticdc-bridge[spark]'",
    ),
]


def test_what_workers_lack_is_said() -> None:
    def check(row: tuple[Exception, str]) -> None:
        error = error_of(row[0])
        assert isinstance(error, SetupError)
        assert error.detail.startswith(row[1])

    check_rows(WORKERS, check, lambda row: row[1])
    assert error_of(ModuleNotFoundError("No module named 'schemas.nothing'", name="schemas.nothing")) is None
    assert error_of(PythonException("ValueError: a user's own")) is None


@pytest.mark.slow
def test_workers_look_where_the_driver_looks(tmp_path: Path) -> None:
    """A folder `schemas` where a job is started: nothing for the command; where only workers find it, it is named."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "__init__.py").write_text("raise SystemExit('the user\\'s own file ran')\n")
    script = (
        "import sys\n"
        "sys.path[0:1] = []\n"
        "sys.path.append('')  # after ours here, before ours in the workers\n"
        "from ticdc_bridge.cli import main\n"
        "raise SystemExit(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    bridge, other = (
        subprocess.run(
            [sys.executable, *one, *_DECODE, "--spark"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        for one in (_BRIDGE, ("-c", script))
    )
    assert bridge.returncode == 0, bridge.stderr
    assert other.returncode == 2
    place = tmp_path / "schemas" / "__init__.py"
    assert f"error USAGE: in a Python worker of Spark: {place} hides ticdc-bridge's package schemas" in other.stderr
    assert "Traceback" not in other.stderr


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

    lacks = "the Python package {} is not installed: pip install 'ticdc-bridge[{}]'"
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
