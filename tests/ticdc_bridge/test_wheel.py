"""The wheel and the source archive: what is in them, and that the wheel is enough in an environment of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.golden import ROOT
from tests.support.service import Client, listening_at
from ticdc_bridge import __version__

pytestmark = pytest.mark.slow
FOLDERS = ("schemas", "service", "spark_jobs")
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
_GOLDEN = ROOT / "tests" / "golden" / "craft" / "pk_int.batch1.jsonl"
_BUILD = "import sys, setuptools.build_meta as b; out = sys.argv[1]; b.build_wheel(out); b.build_sdist(out)"
_MOST_BYTES = 2 << 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what both are built from, and of the tests, which are to stay out."""
    folder = tmp_path_factory.mktemp("source")
    for name in (*FOLDERS, "ticdc_bridge", "tests/ticdc_bridge"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "tests/test_order.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source archive, made with the pinned build packages: nothing is fetched."""
    folder = tmp_path_factory.mktemp("built")
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, folder], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def _wheel(built: Path) -> Path:
    return built / f"ticdc_bridge-{__version__}-py3-none-any.whl"


def _files(source: Path) -> set[str]:
    """The names of the files of ticdc_bridge in a wheel, those of the linked folders among them."""
    folders = {f"ticdc_bridge/{name}": source / name for name in FOLDERS} | {"ticdc_bridge": source / "ticdc_bridge"}
    return {
        f"{name}/{file.relative_to(folder)}"
        for name, folder in folders.items()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_wheel_holds_the_packages_and_nothing_else(source: Path, built: Path) -> None:
    with zipfile.ZipFile(_wheel(built)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        info = f"ticdc_bridge-{__version__}.dist-info"
        about = message_from_bytes(archive.read(f"{info}/METADATA"))
        commands = archive.read(f"{info}/entry_points.txt").decode()
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert names == {name for name in _files(source) if "__pycache__" not in name}
    assert "ticdc_bridge/py.typed" in names
    assert commands == "[console_scripts]\nticdc-bridge = ticdc_bridge.cli:main\n"
    assert about["License-Expression"] == "Apache-2.0"
    extras = set(about.get_all("Provides-Extra") or ())
    every = [line for line in about.get_all("Requires-Dist") or () if line.endswith('; extra == "all"')]
    assert [set(re.split("[][,;]", line)[1:-2]) for line in every] == [extras - {"all", "dev"}]
    assert _wheel(built).stat().st_size < _MOST_BYTES


def test_the_source_archive_has_no_tests(source: Path, built: Path) -> None:
    path = built / f"ticdc_bridge-{__version__}.tar.gz"
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert _files(source) | {"LICENSE", "README.md", "pyproject.toml"} <= names
    assert [name for name in names if name.startswith("tests")] == []
    assert path.stat().st_size < _MOST_BYTES


# What the wheel needs with any extra, or none: Typer, and what it imports.
_BASE = (
    "typer", "shellingham", "annotated-doc", "pydantic", "pydantic-core", "annotated-types", "typing-extensions",
    "typing-inspection",
)  # fmt: skip


@pytest.fixture
def environment(built: Path, tmp_path: Path) -> Iterator[Path]:
    """`bin` of a virtual environment that has the wheel, copies of Typer and what it needs, and nothing else."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    done = _install(folder / "bin", "--no-index", "--no-deps", str(_wheel(built)))
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in _BASE:
        for file in metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), packages / file)
    yield folder / "bin"
    shutil.rmtree(folder)


def _install(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*_PIP, "--python", str(programs / "python"), "install", "--quiet", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BRIDGE_"))}


def test_the_wheel_alone_decodes_and_says_what_it_lacks(environment: Path, tmp_path: Path) -> None:
    """In a folder with other people's packages of the same names."""
    work = tmp_path / "work"
    for name in FOLDERS:
        (work / name).mkdir(parents=True)
        (work / name / "__init__.py").write_text("raise SystemExit('the user\\'s own file ran')\n")

    def run(*words: str) -> tuple[int, str, str]:
        command = [str(environment / "ticdc-bridge"), *words]
        done = subprocess.run(command, cwd=work, env=_clean(), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run("--version") == (0, f"ticdc-bridge {__version__}\n", "")
    assert "transcode" in run("--help")[1]
    code, out, _ = run("decode", "--format", "craft", "--in", str(_GOLDEN))
    assert (code, out.count("\n")) == (0, 9)
    code, out, err = run("serve")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"ticdc-bridge: serve: the Python package \w+ is not installed: .*\[service\]'\n", err)


def test_an_extra_brings_what_its_program_needs(environment: Path, built: Path, tmp_path: Path) -> None:
    done = _install(environment, f"{_wheel(built)}[service]")
    if done.returncode:
        pytest.skip(f"no packages can be had here: {done.stderr.strip().splitlines()[-1][:200]}")
    words = [str(environment / "ticdc-bridge"), "serve", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, env=_clean(), stdout=pipe, stderr=pipe, text=True) as process:
        try:
            client = Client(listening_at(process))
            assert client.register("s", '"int"').status == 200
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
