"""`python -m tests.support.changed` prints the test files and folders of what differs from main: `make test-changed`.

Differing is what commits since the merge base with main (here or at origin) have changed, and what is not committed.
"""

import subprocess
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.support.golden import ROOT

ALL = ("tests",)
# What starts with the first is tested by the second; the first that fits counts. All packages stand on schemas.
TESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("schemas/", ALL),
    (
        "service/",
        ("tests/service", "tests/service/ui", "tests/survival", "tests/deployment", "tests/docs", "tests/e2e"),
    ),
    (
        "spark_jobs/",
        ("tests/spark_jobs", "tests/e2e", "tests/survival", "tests/docs", "tests/schemas/formats/test_matrix.py"),
    ),
    ("ticdc_bridge/", ("tests/ticdc_bridge", "tests/test_start_imports.py", "tests/docs")),
    ("benchmarks/", ("tests/benchmarks", "tests/spark_jobs/arrow/test_messages.py")),
    ("docs/", ("tests/docs", "tests/schemas/formats/test_across_formats.py", "tests/service/api/test_descriptions.py")),
    ("README.md", ("tests/docs",)), ("CHANGELOG.md", ("tests/docs",)),
    ("examples/", ("tests/deployment", "tests/docs")), ("compose.yaml", ("tests/deployment",)),
    ("Dockerfile", ("tests/deployment",)), ("scripts/", ("tests/scripts/test_setup.py",)),
    ("Makefile", ("tests/scripts/test_setup.py", "tests/docs")), ("requirements/", ALL), ("pyproject.toml", ALL),
    (".ci/", ()), (".gitignore", ()), (".dockerignore", ("tests/deployment",)),
)  # fmt: skip


def to_run(changed: Iterable[str]) -> list[str]:
    """The files and folders to run, none within another. In: paths from the root of the repository."""
    found = {test for path in changed for test in _tests_of(path)}
    return sorted(entry for entry in found if not any(str(folder) in found for folder in PurePosixPath(entry).parents))


def _tests_of(path: str) -> tuple[str, ...]:
    if path.startswith("tests/"):
        own = PurePosixPath(path)
        if own.name.startswith("test_") and own.suffix == ".py":
            return (path,) if (ROOT / path).exists() else ()
        folders = tuple(folder for folder in _FOLDERS if path.startswith(f"{folder}/"))
        return folders or (() if own.suffix in (".md", ".tsv") else ALL)
    return next((tests for start, tests in TESTS if path.startswith(start)), ALL)


# Folders of tests/ whose other files serve no tests but their own.
_FOLDERS = ("tests/benchmarks", "tests/deployment", "tests/docs", "tests/e2e", "tests/service/ui", "tests/survival")


def changed_files() -> set[str]:
    """Paths that differ from main, that are gone included."""
    base = _git("merge-base", "HEAD", _main()).strip()
    return set((_git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")).splitlines())


def _main() -> str:
    for name in ("origin/main", "main"):
        if subprocess.run(["git", "rev-parse", "-q", "--verify", name], cwd=ROOT, capture_output=True).returncode == 0:
            return name
    raise SystemExit("error: there is no branch main, here or at origin: fetch it, or name the tests with ARGS")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    print(" ".join(to_run(changed_files())))
