"""uv for the set-up: the one on PATH, else the pinned one as a Python package; and pip's settings in uv's words."""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.running import Step, run
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir

PINS = "requirements/uv.txt"
_OLDEST = (0, 5)  # knows the variables below

# pip's settings that say where packages come from, and what uv calls them. A list in pip's words is split by spaces.
_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "extra-index-url": ("UV_INDEX",),
    "find-links": ("UV_FIND_LINKS",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "retries": ("UV_HTTP_RETRIES",),
}
_LISTS = {"extra-index-url": " ", "find-links": ",", "trusted-host": ","}
_SWITCHES = {"no-index": "--no-index", "no-cache-dir": "--no-cache"}
# Those that say nothing about where packages come from. With any other the set-up is pip's.
_IDLE = frozenset(
    "break-system-packages cache-dir compile debug disable-pip-version-check exists-action log no-color no-compile "
    "no-input no-python-version-warning no-warn-conflicts no-warn-script-location prefer-binary progress-bar quiet "
    "require-hashes require-virtualenv root-user-action upgrade upgrade-strategy use-pep517 user verbose".split()
)
_ON = {"1", "true", "yes", "on", "y", "t"}


class NoUv(Exception):
    """uv can't be used here; the message says why."""


def uv(python: Path, root: Path) -> Path:
    """uv's executable, installed into the cache if need be. Errors: NoUv, OSError."""
    own = shutil.which("uv")
    if own and _version(Path(own)) >= _OLDEST:
        return Path(own)
    pins = root / PINS
    platform = f"{sysconfig.get_platform()} {sys.version_info[:2]}"
    digest = hashlib.sha256(pins.read_bytes() + platform.encode()).hexdigest()[:16]
    folder = cache_dir() / "uv" / digest
    executable = folder / "bin" / "uv"
    if not _version(executable):
        _install(python, pins, folder)
        if not _version(executable):
            shutil.rmtree(folder, ignore_errors=True)
            raise NoUv("uv does not run here")
    return executable


def settings(python: Path) -> tuple[dict[str, str], list[str]]:
    """The environment and the options with which uv takes packages from where this pip does. Errors: NoUv."""
    done = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise NoUv(f"pip's settings can't be read: {done.stderr.strip()[-200:]}")
    return translated(done.stdout, os.environ)


def translated(listed: str, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What `pip config list` printed, as uv's environment and options. uv's own variables win. Errors: NoUv."""
    found = _merged(listed)
    # As pip, which takes a version wherever it is; the hashes say which file it must be.
    reported = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    options = []
    for name, value in found.items():
        if name in _SWITCHES:
            options += [_SWITCHES[name]] if value.lower() in _ON else []
        elif name in _NAMES:
            text = _LISTS[name].join(value.split()) if name in _LISTS else value
            if name == "proxy" and "://" not in text:
                text = f"http://{text}"
            reported.update(dict.fromkeys(_NAMES[name], text))
        elif name not in _IDLE:
            raise NoUv(f"pip is told of {name}, which uv would not heed")
    if "SSL_CERT_FILE" not in reported:
        bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
        reported.update({"SSL_CERT_FILE": bundle} if bundle else {"UV_SYSTEM_CERTS": "1"})
    setting = {name: value for name, value in environment.items() if name.startswith("UV_")}
    return {**environment, **reported, **setting}, options


def _merged(listed: str) -> dict[str, str]:
    """pip's settings; those for `install` win over those for all commands, the environment's over both."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        section, dot, rest = line.partition(".")
        name, equals, value = rest.partition("=")
        if dot and equals and section in found:
            try:
                found[section][name.replace("_", "-")] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError) as error:
                raise NoUv(f"pip's setting {name} can't be read") from error
    return {**found["global"], **found["install"], **found[":env:"]}


def _version(executable: Path) -> tuple[int, ...]:
    """The version of a uv that runs, else ()."""
    try:
        done = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ()
    numbers = re.match(r"uv (\d+)\.(\d+)", done.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers and done.returncode == 0 else ()


def _install(python: Path, pins: Path, folder: Path) -> None:
    """uv into the folder, by pip and its hash; whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".uv-") as new:
        command = [
            *(str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--retries", "1"),
            *("--require-hashes", "--no-deps", "--no-compile", "--only-binary", ":all:", "--target", f"{new}/uv"),
            *("-r", str(pins)),
        ]
        environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}
        done = run(command, Step("fetching uv, which installs quicker than pip"), environment, lambda line, step: None)
        if done.code != 0:
            raise NoUv(f"uv can't be had: {done.output.splitlines()[-1] if done.output else 'no reason given'}")
        if not folder.exists():
            os.replace(f"{new}/uv", folder)
