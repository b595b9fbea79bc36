"""`tests/support/toolchains.py`: what is a reason to skip and what is a failure; npm and Go are replaced by scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import toolchains
from tests.support.each import each
from tests.support.toolchains import ToolchainBroken, ToolchainMissing, go_binary, node_packages

CLIENTS = Path(__file__).parents[1] / "service" / "clients"

FAILURES = (
    ("npm error code ENOTFOUND", ToolchainMissing, r"npm ci can't fetch packages \(ENOTFOUND\)"),
    ("npm error code EINTEGRITY", ToolchainBroken, "EINTEGRITY"),
    ("npm error code EUSAGE lock file does not satisfy", ToolchainBroken, "EUSAGE"),
)
GO_FAILURES = (
    ("dial tcp: lookup somewhere: no such host", ToolchainMissing, r"go build can't fetch packages \(dial tcp\)"),
    ("go: go.mod requires go >= 1.24.0 (running go 1.22.1)", ToolchainMissing, "requires go >= 1.24.0"),
    ("verifying module: checksum mismatch SECURITY ERROR", ToolchainBroken, "checksum mismatch"),
    ("./main.go:7:2: undefined: x", ToolchainBroken, "undefined: x"),
)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a tool on an otherwise empty PATH, as a script; the cache is empty too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(toolchains, "_ROOT", tmp_path / "cache")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


def test_no_tool(tool: Callable[[str, str], None]) -> None:
    with pytest.raises(ToolchainMissing, match="node is not on the PATH"):
        node_packages(CLIENTS / "node")
    tool("node", "")
    with pytest.raises(ToolchainMissing, match="npm is not on the PATH"):
        node_packages(CLIENTS / "node")
    with pytest.raises(ToolchainMissing, match="go is not on the PATH"):
        go_binary(CLIENTS / "go")


@each(("says", "error", "message"), FAILURES)
def test_npm_fails(tool: Callable[[str, str], None], says: str, error: type[Exception], message: str) -> None:
    tool("node", "")
    tool("npm", f"echo '{says}' >&2; exit 1")
    with pytest.raises(error, match=message):
        node_packages(CLIENTS / "node")


@each(("says", "error", "message"), GO_FAILURES)
def test_go_fails(tool: Callable[[str, str], None], says: str, error: type[Exception], message: str) -> None:
    tool("go", f"echo '{says}' >&2; exit 1")
    with pytest.raises(error, match=message):
        go_binary(CLIENTS / "go")


def test_made_once_and_only_whole(tool: Callable[[str, str], None], tmp_path: Path) -> None:
    tool("node", "")
    tool("npm", "echo half > node_modules; echo EINTEGRITY; exit 1")
    with pytest.raises(ToolchainBroken):
        node_packages(CLIENTS / "node")
    tool("npm", f"echo run >> {tmp_path}/runs; echo whole > node_modules")
    made = node_packages(CLIENTS / "node")
    assert made.read_text() == "whole\n"
    assert node_packages(CLIENTS / "node") == made
    assert (tmp_path / "runs").read_text() == "run\n"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [made.parent.name, "node.lock"]


def test_the_pins_are_hashes_and_name_no_address() -> None:
    text = (CLIENTS / "node" / "package-lock.json").read_text()
    assert "://" not in text
    packages = {name: one for name, one in json.loads(text)["packages"].items() if name}
    assert packages
    assert all(one["integrity"].startswith("sha512-") and "resolved" not in one for one in packages.values())
    assert all(line.split()[2].startswith("h1:") for line in (CLIENTS / "go" / "go.sum").read_text().splitlines())
