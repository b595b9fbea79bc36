"""Clients of other languages; each is skipped, with the reason, where its toolchain or its packages can't be had.

Packages go to the cache folder and are fetched once. A client that runs and finds something wrong fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark_jobs.cache import cache_dir
from tests.service.support import Client

CLIENTS = Path(__file__).parent / "clients"
NODE_PACKAGE = "@kafkajs/confluent-schema-registry@3.9.0"
TO_FETCH, TO_RUN = 90, 60


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def fetched(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run what fetches or builds a client; skip if it can't, e.g. without a network."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TO_FETCH, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} took longer than {TO_FETCH} s to fetch the client")
    if done.returncode:
        pytest.skip(f"the client can't be fetched or built: {(done.stderr or done.stdout)[-300:]}")


def run(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TO_RUN, check=False)
    assert done.returncode == 0, done.stderr


def test_kafkajs(client: Client) -> None:
    node, npm = tool("node"), tool("npm")
    folder = cache_dir() / "clients" / NODE_PACKAGE.replace("/", "-")
    packages = folder / "node_modules"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--prefix", "."]
        fetched([npm, "install", *options, NODE_PACKAGE], folder)
        (folder / "complete").touch()
    run([node, str(CLIENTS / "client.js"), client.url], {**os.environ, "NODE_PATH": str(packages)})


def test_franz_go(client: Client) -> None:
    go = tool("go")
    binary = cache_dir() / "clients" / "franz-go"
    binary.parent.mkdir(parents=True, exist_ok=True)
    fetched([go, "build", "-mod=readonly", "-o", str(binary), "."], CLIENTS / "go")
    run([str(binary), client.url], os.environ)
