"""Make `.venv` from the hash-pinned locks; do nothing where that is already so. Standard library only.

    python -m scripts.setup [--dev]

A stamp in `.venv`, written last, holds the hash of the pins, the Python version, and what was asked for: `run`, what
the service and the jobs need, or `dev`, which is that and what tests and tools need. No stamp, or another: uv installs,
or pip where uv fails. Both skip what is installed, so a run that was interrupted goes on; a package whose files were
cut off in the middle is installed again. Packages that no lock names any longer are removed.
"""

import csv
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts import uv
from scripts.running import Step, run, run_on_terminal, say

OLDEST, NEWEST = (3, 11), (3, 13)
BUILD, LOCK = "requirements/build.txt", "requirements/lock.txt"
# What is installed, by what was asked for. The files for `run` are those of the images, with versions from the lock.
FILES: Final = {"run": ("requirements/service.txt", "requirements/spark.txt"), "dev": (LOCK,)}
STAMP = ".setup-stamp"
COMMAND = "ticdc-bridge"
KEPT = frozenset({"pip"})  # comes with venv, is in no lock

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
# pyspark comes as source. Without the isolated download of other build packages; and its wheel, which is unpacked at
# once, not compressed: that took more CPU than all the rest.
_INSTALL = ("--require-hashes", "--no-deps", "--no-build-isolation")
_STORED = "--config-setting=--build-option=--compression=stored"
_SEEN = ("Collecting ", "Requirement already satisfied: ")
_STEPS = ("Building", "Built", "Downloading", "Downloaded", "Prepared", "Installing collected", "Attempting uninstall")

# What a line of output says about the cause, and what to do about it; the first that matches is shown.
_FULL = r"No space left on device"
_ADVICE = (
    (
        r"DO NOT MATCH THE HASHES|Hashes are required",
        "A file differs from the pinned one: the download was cut short, or the mirror serves another file. Run\n"
        "  `make setup` again; if that doesn't help, use another index (PIP_INDEX_URL).",
    ),
    (
        _FULL,
        "The disk is full. `make setup` needs about 1.2 GB for .venv (`make setup-dev` 1.8) and 3 GB for the\n"
        "  installer's cache, which UV_CACHE_DIR and PIP_CACHE_DIR put elsewhere. Make room and run `make setup`\n"
        "  again: it goes on where it stopped.",
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
        "  HTTPS_PROXY; with a mirror set PIP_INDEX_URL to it; without a network see docs/operate.md, 'Offline'.\n"
        "  Then run `make setup` again: it goes on where it stopped.",
    ),
    (
        r"command '\S*(cc|gcc|g\+\+|clang|c\+\+)\S*' failed|[Nn]o such file or directory: '\S*(cc|gcc|clang|g\+\+)'"
        r"|CompileError|Unknown compiler|Failed building wheel|Failed to build",
        "A package has no wheel for this machine and could not be built. Wheels of all packages are there for\n"
        "  Linux with glibc and for macOS, on x86-64 and arm64, for which no compiler is needed: use one of them, or\n"
        "  install a C compiler and Python's headers and run `make setup` again.",
    ),
)


# Looks for packages in the working copy before all other places, and not in the folder where it is called.
_COMMAND: Final = """\
#!{python}
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from ticdc_bridge.cli import main

    raise SystemExit(main())
"""


class SetupFailed(Exception):
    """The set-up can't be made; the message says why and what to do."""


def version_problem(version: tuple[int, ...]) -> str | None:
    """The fault of this Python version, or None."""
    if OLDEST <= version[:2] <= NEWEST:
        return None
    found = ".".join(map(str, version[:3]))
    return (
        f"Python 3.11, 3.12 or 3.13 is needed, this is {found} ({sys.executable}).\n"
        "  Name another one: make setup PYTHON=/path/to/python3.13"
    )


def stamp_text(root: Path, version: tuple[int, ...], kind: str) -> str:
    """What the stamp holds when `.venv` fits the pins and the Python. Errors: OSError when a pin file is missing."""
    digest = hashlib.sha256()
    for name in _all_files():
        digest.update((root / name).read_bytes())
    return f"{digest.hexdigest()} python {'.'.join(map(str, version[:3]))} {kind}\n"


def locked_names(text: str) -> set[str]:
    """The names (normalised) of all packages that a requirements file pins."""
    found = re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", text, re.MULTILINE)
    return {normalised(name) for name in found}


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def advice_for(output: str) -> str:
    """What to do about an installation that failed with this output."""
    for pattern, advice in _ADVICE:
        if re.search(pattern, output):
            return advice
    return "The lines above are pip's. Once their cause is gone, run `make setup` again: it goes on where it stopped."


def remove_torn(site_packages: Path) -> list[str]:
    """Remove the metadata of packages whose installation was cut off, so that they are installed again.

    pip writes a package's RECORD last; uv does not, so each file in it is looked at. Out: the folders' names.
    """
    cut_off = {folder for folder in site_packages.glob("*.dist-info") if not _is_whole(folder)}
    torn = sorted(cut_off | set(site_packages.glob("~*")))  # "~": what pip had set aside while replacing it
    for folder in torn:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder.name for folder in torn]


def _is_whole(folder: Path) -> bool:
    """True if the files that a package's RECORD names are there, in the sizes that it gives."""
    try:
        with (folder / "RECORD").open(encoding="utf-8", newline="") as record:
            rows = [row for row in csv.reader(record) if len(row) == 3 and row[2]]
        return all((folder.parent / path).stat().st_size == int(size) for path, _, size in rows)
    except (FileNotFoundError, NotADirectoryError):
        return False


def make(root: Path, kind: str = "run") -> bool:
    """Bring `root/.venv` into line with the pins. Out: whether there was anything to do. Errors: SetupFailed."""
    version = tuple(sys.version_info[:3])
    if problem := version_problem(version):
        raise SetupFailed(problem)
    venv = root / ".venv"
    if _is_done(root, kind):
        return False
    with _alone(root / ".cache" / "setup.lock"):
        if _is_done(root, kind):
            return True
        started = time.monotonic()
        if _stamp(venv).endswith(" dev\n"):
            kind = "dev"  # with other pins: its packages shall fit them, too
        (venv / STAMP).unlink(missing_ok=True)
        python = _environment(venv)
        for torn in remove_torn(_site_packages(venv)):
            say(f"{torn} was installed in part only: once more")
        _install(python, root, kind)
        _remove_others(python, venv, set().union(*(_names(root, name) for name in _all_files())))
        (venv / STAMP).write_text(stamp_text(root, version, kind), encoding="utf-8")
        say(f"done in {time.monotonic() - started:.0f} s")
    return True


def write_command(venv: Path) -> None:
    """The command `ticdc-bridge` in `.venv/bin`, over the working copy that the `.venv` is in."""
    path = venv / "bin" / COMMAND
    text = _COMMAND.format(python=venv.resolve() / "bin" / "python")
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        fresh = path.with_name(f".{COMMAND}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(path)


def _all_files() -> tuple[str, ...]:
    return (BUILD, LOCK, *FILES["run"])


def _names(root: Path, name: str) -> set[str]:
    return locked_names((root / name).read_text(encoding="utf-8"))


def _stamp(venv: Path) -> str:
    try:
        return (venv / STAMP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _is_done(root: Path, kind: str) -> bool:
    enough = {stamp_text(root, sys.version_info[:3], entry) for entry in (kind, "dev")}
    return _stamp(root / ".venv") in enough and (root / ".venv" / "bin" / "python").exists()


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
        base = getattr(sys, "_base_executable", sys.executable)  # not the .venv's own, should it run this
        step = Step(f"making .venv with Python {sys.version.split()[0]}")
        made = run([base, "-m", "venv", "--clear", str(venv)], step, os.environ, lambda line, step: None)
        if made.code != 0:
            raise SetupFailed(f"python -m venv failed:\n{made.output}\n\n  {advice_for(made.output)}")
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


def _install(python: Path, root: Path, kind: str) -> None:
    """All packages of this kind, by uv; by pip where uv can't be had, can't do as pip is told to, or fails."""
    try:
        if os.environ.get("BRIDGE_INSTALLER") == "pip":
            raise uv.NoUv("BRIDGE_INSTALLER says so")
        _by_uv(python, root, kind)
    except (uv.NoUv, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        say(f"with pip, as {error}")
        _by_pip(python, root, kind)


def _by_uv(python: Path, root: Path, kind: str) -> None:
    environment, options = uv.settings(python)
    command = [str(uv.uv(python, root)), "pip", "install", "--python", str(python), *_INSTALL, _STORED, *options]
    for files, step in _parts(root, kind, "uv"):
        whole = [*command, *files]
        terminal = sys.stderr.isatty()
        done = run_on_terminal(whole, environment) if terminal else run(whole, step, environment, _read)
        if done.code != 0:
            if re.search(_FULL, done.output):
                raise SetupFailed(f"uv could not install all packages:\n\n{done.output}\n\n  {advice_for(done.output)}")
            raise uv.NoUv(f"uv failed:\n\n{done.output}\n")


def _by_pip(python: Path, root: Path, kind: str) -> None:
    command = [str(python), *_PIP, "install", *_INSTALL, "--no-compile", "--progress-bar", "off"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.pop("PIP_REQUIRE_VIRTUALENV", None)
    for files, step in _parts(root, kind, "pip"):
        done = run([*command, *files], step, environment, _read)
        if done.code != 0:
            output = "\n".join(done.output.splitlines()[-25:])
            names = ", ".join(Path(name).name for name in files[1::2])
            raise SetupFailed(f"pip could not install {names}:\n\n{output}\n\n  {advice_for(output)}")


def _parts(root: Path, kind: str, tool: str) -> Iterator[tuple[list[str], Step]]:
    """The two runs of an installer, as options and the line to show: what building pyspark needs, and the rest."""
    for names in ((BUILD,), FILES[kind]):
        total = len(set().union(*(_names(root, name) for name in names)))
        if names != (BUILD,):
            size = "0.6 GB" if kind == "run" else "0.8 GB"
            say(f"installing {total} pinned packages with {tool} (where none is in its cache, {size} to fetch)")
        files = [piece for name in names for piece in ("-r", str(root / name))]
        yield files, Step("installing", total=total if tool == "pip" else 0)


def _read(line: str, step: Step) -> None:
    """What a line of the installer's output says of the progress."""
    if line.startswith(_SEEN):
        step.done = min(step.total, step.done + 1)
        step.detail = re.split("[=<>; ]", line.partition(_SEEN[0])[2] or line.partition(": ")[2])[0]
    elif line.startswith(_STEPS):
        step.detail = f"({line[:100]})"


def _remove_others(python: Path, venv: Path, wanted: Iterable[str]) -> None:
    from importlib.metadata import distributions

    present = {normalised(found.name) for found in distributions(path=[str(_site_packages(venv))])}
    if others := sorted(present - set(wanted) - KEPT):
        say(f"removing what the lock doesn't name: {', '.join(others)}")
        subprocess.run([python, *_PIP, "uninstall", "-y", "-q", *others], check=False)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One set-up at a time in a working copy; the others wait."""
    import fcntl

    path.parent.mkdir(exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is at work in this working copy: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    """Out: the exit code, 0 or 2; 130 where it was interrupted."""
    root = Path(__file__).resolve().parent.parent
    try:
        make(root, "dev" if "--dev" in arguments else "run")
        write_command(root / ".venv")
    except SetupFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}\n  {advice_for(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nerror: interrupted; `make setup` goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
