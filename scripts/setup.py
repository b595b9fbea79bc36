"""Make `.venv` from the hash-pinned lock; do nothing where that is already so. Standard library only.

    python scripts/setup.py [ROOT]

A stamp in `.venv`, written last, holds the hash of the pins and the Python version. No stamp, or another: pip runs.
pip itself skips what is installed, so a run that was interrupted goes on; a package whose files were cut off in
the middle (its record is missing) is installed again. Packages that the lock no longer names are removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 13)
BUILD, LOCK = "requirements/build.txt", "requirements/lock.txt"
STAMP = ".setup-stamp"
KEPT = frozenset({"pip"})  # comes with venv, is in no lock

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
_INSTALL = ("install", "--require-hashes", "--no-deps", "--progress-bar", "off")
_STEPS = ("Building wheel", "Installing collected", "Attempting uninstall")

# What a line of pip's output says about the cause, and what to do about it; the first that matches is shown.
_ADVICE = (
    (
        r"DO NOT MATCH THE HASHES|Hashes are required",
        "A file differs from the pinned one: the download was cut short, or the mirror serves another file. Run\n"
        "  `make setup` again; if that doesn't help, use another index (PIP_INDEX_URL).",
    ),
    (
        r"No space left on device",
        "The disk is full: about 1.5 GB is needed for .venv, and as much for pip's cache.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The index's certificate is not trusted here. Behind a company's proxy set PIP_CERT to its bundle of\n"
        "  certificates.",
    ),
    (
        r"Temporary failure in name resolution|NewConnectionError|ConnectTimeout|Connection refused|timed out"
        r"|Network is unreachable|Could not find a version|No matching distribution|ProxyError|getaddrinfo",
        "The package index can't be reached, or lacks a pinned version. Check the network; behind a proxy set\n"
        "  HTTPS_PROXY; with a mirror set PIP_INDEX_URL to it; without a network see docs/setup.md, 'Offline'.\n"
        "  Then run `make setup` again: it goes on where it stopped.",
    ),
)


class SetupFailed(Exception):
    """The set-up can't be made; the message says why and what to do."""


def version_problem(version: tuple[int, ...]) -> str | None:
    """What is wrong with this Python version, or None."""
    if OLDEST <= version[:2] <= NEWEST:
        return None
    found = ".".join(map(str, version[:3]))
    return (
        f"Python 3.11, 3.12 or 3.13 is needed, this is {found} ({sys.executable}).\n"
        "  Name another one: make setup PYTHON=/path/to/python3.13"
    )


def stamp_text(root: Path, version: tuple[int, ...]) -> str:
    """What the stamp holds when `.venv` fits the pins and the Python. Errors: OSError when a pin file is missing."""
    digest = hashlib.sha256()
    for name in (BUILD, LOCK):
        digest.update((root / name).read_bytes())
    return f"{digest.hexdigest()} python {'.'.join(map(str, version[:3]))}\n"


def locked_names(text: str) -> set[str]:
    """The names (normalised) of all packages that a requirements file pins."""
    found = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", text, re.MULTILINE)
    return {normalised(name) for name in found}


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def advice_for(output: str) -> str:
    """What to do about a pip run that failed with this output."""
    for pattern, advice in _ADVICE:
        if re.search(pattern, output):
            return advice
    return "The lines above are pip's. Once their cause is gone, run `make setup` again: it goes on where it stopped."


def remove_torn(site_packages: Path) -> list[str]:
    """Remove the metadata of packages whose installation was cut off, so that pip installs them again.

    pip writes a package's RECORD last. Out: the names of the folders removed.
    """
    cut_off = {folder for folder in site_packages.glob("*.dist-info") if not (folder / "RECORD").is_file()}
    torn = sorted(cut_off | set(site_packages.glob("~*")))  # "~": what pip had set aside while replacing it
    for folder in torn:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder.name for folder in torn]


def make(root: Path) -> bool:
    """Bring `root/.venv` into line with the pins. Out: whether there was anything to do. Errors: SetupFailed."""
    version = tuple(sys.version_info[:3])
    if problem := version_problem(version):
        raise SetupFailed(problem)
    venv, wanted = root / ".venv", stamp_text(root, version)
    if _is_done(venv, wanted):
        return False
    with _alone(root / ".cache" / "setup.lock"):
        if _is_done(venv, wanted):
            return True
        started = time.monotonic()
        (venv / STAMP).unlink(missing_ok=True)
        python = _environment(venv)
        for torn in remove_torn(_site_packages(venv)):
            _say(f"{torn} was installed in part only: once more")
        build, lock = (locked_names((root / name).read_text(encoding="utf-8")) for name in (BUILD, LOCK))
        _say(f"installing {len(lock)} pinned packages (the first time 0.7 GB, one to five minutes)")
        _install(python, root / BUILD)
        _install(python, root / LOCK, "--no-build-isolation")
        _remove_others(python, venv, build | lock)
        (venv / STAMP).write_text(wanted, encoding="utf-8")
        _say(f"done in {time.monotonic() - started:.0f} s")
    return True


def _is_done(venv: Path, wanted: str) -> bool:
    try:
        return (venv / STAMP).read_text(encoding="utf-8") == wanted and (venv / "bin" / "python").exists()
    except FileNotFoundError:
        return False


def _environment(venv: Path) -> Path:
    """The interpreter of a working `.venv` of this Python version, made anew if need be."""
    python = venv / "bin" / "python"
    probe = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
        usable = done.stdout.strip() == "{}.{}".format(*sys.version_info[:2])
    except OSError:
        usable = False
    if not usable:
        _check_venv_module()
        _say(f"making .venv with Python {sys.version.split()[0]}")
        base = getattr(sys, "_base_executable", sys.executable)  # not the .venv's own, should it run this
        done = subprocess.run([base, "-m", "venv", "--clear", venv], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SetupFailed(f"python -m venv failed:\n{(done.stdout + done.stderr).strip()}")
    return python


def _check_venv_module() -> None:
    try:
        import ensurepip
        import venv

        del ensurepip, venv
    except ImportError as error:
        raise SetupFailed(
            f"{sys.executable} lacks the module {error.name}, which makes virtual environments.\n"
            "  Debian and Ubuntu: apt install python3-venv (or python3.X-venv for that version), then `make setup`."
        ) from error


def _site_packages(venv: Path) -> Path:
    return venv / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"


def _install(python: Path, requirements: Path, *options: str) -> None:
    command = [str(python), *_PIP, *_INSTALL, *options, "-r", str(requirements)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("PIP_REQUIRE_VIRTUALENV", None)
    last: deque[str] = deque(maxlen=25)
    total, seen = len(locked_names(requirements.read_text(encoding="utf-8"))), 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            last.append(line.rstrip())
            if line.startswith("Collecting "):
                seen += 1
                _progress(f"[{seen}/{total}] {line.split()[1].partition('=')[0]}")
            elif line.lstrip().startswith(_STEPS):
                _say(line.strip()[:100])
    if pip.returncode != 0:
        output = "\n".join(last)
        raise SetupFailed(f"pip could not install {requirements.name}:\n\n{output}\n\n  {advice_for(output)}")


def _remove_others(python: Path, venv: Path, wanted: Iterable[str]) -> None:
    from importlib.metadata import distributions

    present = {normalised(found.name) for found in distributions(path=[str(_site_packages(venv))])}
    if others := sorted(present - set(wanted) - KEPT):
        _say(f"removing what the lock doesn't name: {', '.join(others)}")
        subprocess.run([python, *_PIP, "uninstall", "-y", "-q", *others], check=False)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One set-up at a time in a working copy; the others wait."""
    import fcntl

    path.parent.mkdir(exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{clear}setup: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Out: the exit code, 0 or 2."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    try:
        make(root.resolve())
    except (SetupFailed, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
