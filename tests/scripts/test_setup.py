"""`scripts/setup.py`: the stamp, what is mended, and what is said; the installers are replaced by scripts."""

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scripts import setup, uv
from tests.support.each import each
from ticdc_bridge import __version__

ROOT = Path(__file__).resolve().parents[2]


@each("version", [(3, 11, 0), (3, 12, 1), (3, 13, 9)])
def test_pythons_that_fit(version: tuple[int, ...]) -> None:
    assert setup.version_problem(version) is None


@each("version", [(3, 10, 13), (3, 14, 0), (2, 7, 18), (4, 0, 0)])
def test_pythons_that_do_not(version: tuple[int, ...]) -> None:
    problem = setup.version_problem(version) or ""
    assert ".".join(map(str, version)) in problem
    assert "PYTHON=" in problem


OUTPUTS = (
    ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "mirror"),
    ("WARNING: Retrying … NewConnectionError: Temporary failure in name resolution", "PIP_INDEX_URL"),
    ("ERROR: No matching distribution found for ruff==0.17.6", "PIP_INDEX_URL"),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", "PIP_CERT"),
    ("OSError: [Errno 28] No space left on device", "disk"),
    ("error: failed to write: No space left on device (os error 28)", "disk"),
    ("error: command 'gcc' failed: No such file or directory", "compiler"),
    ("× Failed to build `numba==1`", "compiler"),
    ("something else", "make setup"),
)


@each(("output", "word"), OUTPUTS)
def test_advice(output: str, word: str) -> None:
    assert word in setup.advice_for(output)


def test_locked_names() -> None:
    text = "Ruff==1 \\\n    --hash=sha256:00\n# c==1\nruamel.yaml_x==2 ; python_version < '3.12'\n"
    assert setup.locked_names(text) == {"ruff", "ruamel-yaml-x"}


def test_torn_packages_are_removed(tmp_path: Path) -> None:
    for name in ("whole-1.dist-info", "torn-1.dist-info", "~old-1.dist-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "whole-1.dist-info" / "RECORD").write_text("whole.py,sha256=x,2\nwhole-1.dist-info/RECORD,,\n")
    (tmp_path / "whole.py").write_text("#\n")
    for name, size in (("short", 3), ("gone", 2)):
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "RECORD").write_text(f"{name}.py,sha256=x,{size}\n")
    (tmp_path / "short.py").write_text("#\n")
    torn = ["gone-1.dist-info", "short-1.dist-info", "torn-1.dist-info", "~old-1.dist-info"]
    assert setup.remove_torn(tmp_path) == torn
    assert sorted(os.listdir(tmp_path)) == ["short.py", "whole-1.dist-info", "whole.py"]


class Copy:
    """A working copy with made-up locks, whose interpreter and uv only note what they are asked for."""

    def __init__(self, root: Path) -> None:
        self.root, self.runs = root, root / "runs"
        (root / "requirements").mkdir()
        for name in (setup.BUILD, setup.LOCK, *setup.FILES["run"]):
            (root / name).write_text("ruff==1\n" if name == setup.LOCK else "wheel==1\n")

    def make(self, kind: str = "run") -> list[str]:
        """The runs of pip and uv that a set-up makes."""
        self.runs.write_text("")
        setup.make(self.root, kind)
        return self.runs.read_text().splitlines()

    def write(self, path: Path, tool: str) -> Path:
        """An executable that notes its words, and ends with the code that the file `TOOL-code` says, else 0."""
        path.parent.mkdir(parents=True, exist_ok=True)
        runs, code = shlex.quote(str(self.runs)), shlex.quote(str(self.root / f"{tool}-code"))
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "uv 0.99.0" && exit\n[ "$3 $4" = "config list" ] && exit\n'
            f'echo "{tool} $*" >> {runs}\necho "Collecting ruff==1"\nexit $(cat {code} 2>/dev/null || echo 0)\n'
        )
        path.chmod(0o755)
        return path


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    made = Copy(tmp_path)

    def environment(venv: Path) -> Path:
        setup._site_packages(venv).mkdir(parents=True, exist_ok=True)
        return made.write(venv / "bin" / "python", "pip")

    monkeypatch.setattr(setup, "_environment", environment)
    monkeypatch.delenv("BRIDGE_INSTALLER", raising=False)
    monkeypatch.setenv("PATH", f"{made.write(tmp_path / 'bin' / 'uv', 'uv').parent}{os.pathsep}{os.environ['PATH']}")
    return made


def _files(runs: list[str]) -> list[list[str]]:
    return [[Path(word.split()[0]).name for word in line.split("-r ")[1:]] for line in runs]


RUN, DEV = [["build.txt"], ["service.txt", "spark.txt"]], [["build.txt"], ["lock.txt"]]


def test_runs_once_and_again_when_the_pins_change(copy: Copy) -> None:
    first = copy.make()
    assert _files(first) == RUN
    assert all(line.startswith("uv pip install") and "--require-hashes" in line for line in first)
    assert "--no-build-isolation" in first[1]
    assert copy.make() == []
    (copy.root / setup.LOCK).write_text("ruff==2\n")
    assert len(copy.make()) == 2
    assert copy.make() == []
    (copy.root / ".venv" / setup.STAMP).unlink()
    assert len(copy.make()) == 2


def test_what_tests_need_comes_when_asked_for_and_stays(copy: Copy) -> None:
    assert _files(copy.make()) == RUN
    assert _files(copy.make("dev")) == DEV
    assert copy.make() == []
    (copy.root / setup.LOCK).write_text("ruff==2\n")
    assert _files(copy.make()) == DEV


def test_pip_takes_over_where_uv_fails(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy.root / "uv-code").write_text("1")
    runs = copy.make()
    assert [line.split()[0] for line in runs] == ["uv", "pip", "pip"]
    assert _files(runs[1:]) == RUN
    (copy.root / ".venv" / setup.STAMP).unlink()
    monkeypatch.setenv("BRIDGE_INSTALLER", "pip")
    assert [line.split()[0] for line in copy.make()] == ["pip", "pip"]


def test_the_command_is_that_of_the_working_copy(tmp_path: Path) -> None:
    """It runs from any folder, whatever lies there."""
    (tmp_path / "copy" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "copy" / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "copy" / "ticdc_bridge").symlink_to(ROOT / "ticdc_bridge")
    (tmp_path / "ticdc_bridge.py").touch()
    for _ in range(2):
        setup.write_command(tmp_path / "copy" / ".venv")
    command = tmp_path / "copy" / ".venv" / "bin" / "ticdc-bridge"
    assert [file.name for file in sorted(command.parent.iterdir())] == ["python", "ticdc-bridge"]
    env = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}  # of the tests; the copy's environment is empty
    done = subprocess.run([command, "--version"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[:2], done.stderr) == (0, ["ticdc-bridge", __version__], "")


def test_failure_leaves_no_stamp(copy: Copy) -> None:
    for tool in ("uv", "pip"):
        (copy.root / f"{tool}-code").write_text("1")
    with pytest.raises(setup.SetupFailed, match=r"build\.txt(.|\n)*Collecting ruff(.|\n)*make setup"):
        copy.make()
    (copy.root / "uv-code").unlink()
    assert len(copy.make()) == 2


def test_what_the_lock_does_not_name_is_removed(copy: Copy) -> None:
    for name in ("ruff", "stale", "pip"):
        folder = setup._site_packages(copy.root / ".venv") / f"{name}-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "RECORD").write_text("")
    assert copy.make()[-1].endswith("uninstall -y -q stale")


def test_pips_settings_are_uvs() -> None:
    listed = """\
global.index-url='https://a.test/simple'
install.extra-index-url='https://b.test https://c.test'
global.cert='/etc/ca.pem'
:env:.index-url='https://d.test'
global.no-index='true'
global.quiet='1'
"""
    environment, options = uv.translated(listed, {"UV_INDEX": "https://own.test"})
    assert options == ["--no-index"]
    assert environment["UV_DEFAULT_INDEX"] == "https://d.test"
    assert environment["UV_INDEX"] == "https://own.test"
    assert environment["SSL_CERT_FILE"] == "/etc/ca.pem"
    with pytest.raises(uv.NoUv, match="constraint"):
        uv.translated("global.constraint='c.txt'\n", {})
    assert uv.translated("", {})[0]["UV_SYSTEM_CERTS"] == "1"
    assert uv.translated("", {"REQUESTS_CA_BUNDLE": "/ca"})[0]["SSL_CERT_FILE"] == "/ca"


def test_missing_venv_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(setup.SetupFailed, match="python3-venv"):
        setup._environment(tmp_path / ".venv")


@each(("versions", "variables", "picked", "said"), [
    ({"python3": "3.10.2", "python3.12": "3.12.1", "python3.11": "3.11.0"}, {}, "python3.12", ()),
    ({"python3": "3.14.0", "python3.13": "3.9.1"}, {}, "", ("python3 is 3.14.0", "python3.13 is 3.9.1", "PYTHON=")),
    ({"python3": "3.12.0", "old": "3.8.1"}, {"PYTHON": "old"}, "", ("old is 3.8.1",)),  # the one named alone is tried
])  # fmt: skip
def test_a_python_is_picked(
    tmp_path_factory: pytest.TempPathFactory, versions: dict[str, str], variables: dict[str, str], picked: str,
    said: tuple[str, ...],
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("pythons")
    for name, version in versions.items():
        executable = folder / name
        executable.write_text(f'#!/bin/sh\ncase $2 in *version*) echo {version};; *) echo "$0";; esac\n')
        executable.chmod(0o755)
    (folder / "cat").symlink_to("/bin/cat")
    command, env = ["/bin/sh", str(ROOT / "scripts" / "python.sh")], {"PATH": str(folder), **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == ((0, f"{folder / picked}\n") if picked else (2, ""))
    assert all(words in done.stderr for words in said)


def test_makefile_lists_its_targets() -> None:
    done = subprocess.run(["make", "-s", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert listed >= {"setup", "setup-dev", "demo", "test", "check", "format", "lock", "bench", "clean", "help"}


def test_pins_hold_no_address_and_all_hashes() -> None:
    for name in (setup.BUILD, setup.LOCK, uv.PINS, *setup.FILES["run"]):
        text = (ROOT / name).read_text()
        assert "://" not in text
        blocks = [block for block in text.replace("\\\n", " ").splitlines() if block.strip()]
        assert all("--hash=sha256:" in block for block in blocks), json.dumps(blocks)[:500]
