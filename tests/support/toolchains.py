"""Clients in other languages and packages of Python beside those of the lock, made ready once in the cache folder.

Versions are pinned in the tests' own folders with their hashes (`package-lock.json`, `go.sum`), which npm and Go
check. Neither file names where packages come from: that is the business of the machine's settings. To pin anew:
`npm run lock` in `tests/service/clients/node`, `go get …@latest && go mod tidy` in `tests/service/clients/go`.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ticdc_bridge.spark_jobs.runtime.cache import cache_dir, lock_file

FETCH_SECONDS = 250  # below the limit of a test, 300
# Read on import: the tests of the service take the settings BRIDGE_… out of their environment later.
_ROOT = cache_dir() / "clients"

# What npm, Go and the resolver say when packages can't be fetched; anything else (a wrong hash, say) is a failure.
_OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED"
    r"|NewConnectionError|Temporary failure in name resolution|Network is unreachable|No matching distribution"
    r"|dial tcp|proxyconnect|i/o timeout|TLS handshake timeout|module lookup disabled by GOPROXY=off"
)
_TOO_OLD = re.compile(r"go: .*(requires go >= \S+|invalid go version.*)")


class ToolchainMissing(Exception):
    """The client can't be had here; the message says what is missing."""


class ToolchainBroken(RuntimeError):
    """Everything is there, and still no client came out; the message ends with the tool's output."""


def node_packages(folder: Path) -> Path:
    """The packages that `folder` pins, installed without running their scripts.

    In: a folder with `package.json` and `package-lock.json`. Out: `node_modules`, for NODE_PATH.
    Errors: ToolchainMissing without node, npm or a network; ToolchainBroken when npm fails otherwise.
    """
    _found("node")
    npm = _found("npm")
    pins = [folder / "package.json", folder / "package-lock.json"]

    def install(target: Path) -> None:
        for pin in pins:
            shutil.copy(pin, target)
        quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
        patience = ("--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000")
        _run([npm, "ci", "--ignore-scripts", *quiet, *patience], cwd=target)

    return _kept("node", pins, install) / "node_modules"


def go_binary(folder: Path) -> Path:
    """The program in `folder`, built with the modules that its `go.sum` pins.

    In: a folder with a Go module. Out: the executable.
    Errors: ToolchainMissing without Go, with an older one than `go.mod` asks for, or without a network;
    ToolchainBroken when the build fails otherwise.
    """
    go = _found("go")
    sources = [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]

    def build(target: Path) -> None:
        command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", str(target / "client"), "."]
        _run(command, cwd=folder, GOTOOLCHAIN="local", GOWORK="off", CGO_ENABLED="0")

    return _kept("go", sources, build) / "client"


def python_packages(pins: Path) -> Path:
    """The packages that a requirements file pins, without what they need: a folder for PYTHONPATH.

    Errors: ToolchainMissing without a network; ToolchainBroken when pip fails otherwise.
    """

    def install(target: Path) -> None:
        # A wheel that is unpacked at once is not compressed: that takes a minute of CPU for pyspark.
        stored = "--config-settings=--build-option=--compression=stored"
        quiet = ("--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--retries=1")
        command = [sys.executable, "-m", "pip", "install", *quiet, "--require-hashes", "--no-deps", stored]
        _run([*command, "--target", str(target), "-r", str(pins)], cwd=target)

    return _kept(pins.stem, [pins], install)


def _kept(name: str, inputs: list[Path], make: Callable[[Path], None]) -> Path:
    """The cache's folder for these inputs; made beside it under a lock and renamed, so that it is there whole."""
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    target = _ROOT / f"{name}-{digest.hexdigest()[:16]}"
    with lock_file(_ROOT / f"{name}.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=_ROOT, prefix=f".{name}-") as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                make(made)
                made.rename(target)
    return target


def _found(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise ToolchainMissing(f"{tool} is not on the PATH")
    return path


def _run(command: list[str], cwd: Path, **variables: str) -> None:
    name = " ".join([Path(command[0]).name, command[1]])
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=FETCH_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ToolchainMissing(f"{name} was not done within {FETCH_SECONDS} s: a slow network or machine?") from None
    if done.returncode == 0:
        return
    if old := _TOO_OLD.search(done.stdout):
        raise ToolchainMissing(old[0])
    if offline := _OFFLINE.search(done.stdout):
        raise ToolchainMissing(f"{name} can't fetch packages ({offline[0]})")
    raise ToolchainBroken(f"{name} failed with exit code {done.returncode}:\n{done.stdout[-4000:]}")
