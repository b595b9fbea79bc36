"""`scripts/setup.py`: the stamp, what is mended, and what is said; pip itself is replaced by a script."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import setup
from tests.support.each import each

ROOT = Path(__file__).resolve().parent.parent


@each("version", [(3, 11, 0), (3, 12, 1), (3, 13, 9)])
def test_pythons_that_fit(version: tuple[int, ...]) -> None:
    assert setup.version_problem(version) is None


@each("version", [(3, 10, 13), (3, 14, 0), (2, 7, 18), (4, 0, 0)])
def test_pythons_that_do_not(version: tuple[int, ...]) -> None:
    problem = setup.version_problem(version)
    assert problem is not None
    assert ".".join(map(str, version)) in problem
    assert "PYTHON=" in problem


OUTPUTS = (
    ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "mirror"),
    ("WARNING: Retrying … NewConnectionError: Temporary failure in name resolution", "PIP_INDEX_URL"),
    ("ERROR: No matching distribution found for ruff==0.17.6", "PIP_INDEX_URL"),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", "PIP_CERT"),
    ("OSError: [Errno 28] No space left on device", "disk"),
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
    (tmp_path / "whole-1.dist-info" / "RECORD").write_text("")
    assert setup.remove_torn(tmp_path) == ["torn-1.dist-info", "~old-1.dist-info"]
    assert os.listdir(tmp_path) == ["whole-1.dist-info"]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A working copy with a made-up lock and an interpreter that notes pip's runs; calling it makes the set-up."""
    root, runs = tmp_path, tmp_path / "runs"
    (root / "requirements").mkdir()
    (root / setup.BUILD).write_text("wheel==1\n")
    (root / setup.LOCK).write_text("ruff==1\n")

    def environment(venv: Path) -> Path:
        python = venv / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        code = root / "exit-code"
        python.write_text(
            f'#!/bin/sh\necho "$*" >> {shlex.quote(str(runs))}\necho "Collecting ruff==1"\n'
            f"exit $(cat {shlex.quote(str(code))} 2>/dev/null || echo 0)\n"
        )
        python.chmod(0o755)
        setup._site_packages(venv).mkdir(parents=True, exist_ok=True)
        return python

    monkeypatch.setattr(setup, "_environment", environment)

    def make() -> list[str]:
        runs.write_text("")
        setup.make(root)
        return runs.read_text().splitlines()

    return make


def test_runs_once_and_again_when_the_pins_change(copy: Callable[..., list[str]], tmp_path: Path) -> None:
    first = copy()
    assert [line.split("-r ")[1] for line in first] == [str(tmp_path / name) for name in (setup.BUILD, setup.LOCK)]
    assert all("--require-hashes" in line for line in first)
    assert "--no-build-isolation" in first[1]
    assert copy() == []
    (tmp_path / setup.LOCK).write_text("ruff==2\n")
    assert len(copy()) == 2
    assert copy() == []
    (tmp_path / ".venv" / setup.STAMP).unlink()
    assert len(copy()) == 2


def test_failure_leaves_no_stamp(copy: Callable[..., list[str]], tmp_path: Path) -> None:
    (tmp_path / "exit-code").write_text("1")
    with pytest.raises(setup.SetupFailed, match=r"build\.txt(.|\n)*Collecting ruff(.|\n)*make setup"):
        copy()
    (tmp_path / "exit-code").unlink()
    assert len(copy()) == 2


def test_what_the_lock_does_not_name_is_removed(copy: Callable[..., list[str]], tmp_path: Path) -> None:
    for name in ("ruff", "stale", "pip"):
        folder = setup._site_packages(tmp_path / ".venv") / f"{name}-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "RECORD").write_text("")
    assert copy()[-1].endswith("uninstall -y -q stale")


def test_missing_venv_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(setup.SetupFailed, match="python3-venv"):
        setup._environment(tmp_path / ".venv")


def _python_sh(tmp_path: Path, versions: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
    for name, version in versions.items():
        executable = tmp_path / name
        executable.write_text(f'#!/bin/sh\ncase $2 in *version*) echo {version};; *) echo "$0";; esac\n')
        executable.chmod(0o755)
    environment = {"PATH": str(tmp_path), **variables}
    if not (tmp_path / "cat").exists():
        (tmp_path / "cat").symlink_to("/bin/cat")
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "python.sh")], env=environment, capture_output=True, text=True, check=False
    )


def test_a_python_is_picked(tmp_path: Path) -> None:
    done = _python_sh(tmp_path, {"python3": "3.10.2", "python3.12": "3.12.1", "python3.11": "3.11.0"})
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'python3.12'}\n")


def test_no_python_fits(tmp_path: Path) -> None:
    done = _python_sh(tmp_path, {"python3": "3.14.0", "python3.13": "3.9.1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "python3 is 3.14.0" in done.stderr
    assert "python3.13 is 3.9.1" in done.stderr
    assert "PYTHON=" in done.stderr


def test_the_python_named_is_the_only_one_tried(tmp_path: Path) -> None:
    done = _python_sh(tmp_path, {"python3": "3.12.0", "old": "3.8.1"}, PYTHON="old")
    assert done.returncode == 2
    assert "old is 3.8.1" in done.stderr


def test_makefile_lists_its_targets() -> None:
    done = subprocess.run(["make", "-s", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert listed >= {"setup", "demo", "test", "check", "format", "lock", "bench", "clean", "help"}


def test_pins_hold_no_address_and_all_hashes() -> None:
    for name in (setup.BUILD, setup.LOCK):
        text = (ROOT / name).read_text()
        assert "://" not in text
        blocks = [block for block in text.replace("\\\n", " ").splitlines() if block.strip()]
        assert all("--hash=sha256:" in block for block in blocks), json.dumps(blocks)[:500]
