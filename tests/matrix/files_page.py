"""docs/files.md: every file of code and the first line of what it says of itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.support.golden import ROOT

PAGE: Final = ROOT / "docs" / "files.md"
_PARTS: Final = ("schemas", "service", "spark_jobs", "benchmarks", "scripts")
_KINDS: Final = (".py", ".java")
_HEAD: Final = """\
# Every file

Made by `make docs` from the first line of each file. [DESIGN.md](DESIGN.md) has the other direction: where something is done. `tests/` has the same folders; a fuller account of a file is at its top.
"""  # noqa: E501


def files() -> list[Path]:
    """Every module and Java class that is not empty, by folder and name."""
    found = [
        path for part in _PARTS for kind in _KINDS for path in (ROOT / part).rglob(f"*{kind}") if path.stat().st_size
    ]
    return sorted((path.relative_to(ROOT) for path in found), key=lambda path: (path.parent.parts, path.name))


def listed(page: str) -> list[Path]:
    """The files that the page has."""
    found, folder = [], Path()
    for line in page.splitlines():
        if line.startswith("## "):
            folder = Path(line[3:])
        elif match := re.match(r"\| `(\w+\.(?:py|java))` \|", line):
            found.append(folder / match[1])
    return found


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_folders())


def _folders() -> Iterator[str]:
    for folder, paths in groupby(files(), key=lambda path: path.parent):
        of_each = {path.name: summary(path) for path in paths}
        head = of_each.pop("__init__.py", "")
        yield f"\n## {folder}\n" + (f"{head}\n" if head else "") + "\n| file | |\n|---|---|\n" * bool(of_each)
        for name, text in of_each.items():
            yield f"| `{name}` | {text} |\n"


def summary(path: Path) -> str:
    """The first sentence or line of a file's docstring, as Markdown in a table."""
    code = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".java":
        comment = re.search(r"/\*\*(.*?)\*/", code, re.DOTALL)
        text = re.sub(r"(?m)^ *\* ?", "", comment[1]).strip() if comment else ""
    else:
        text = ast.get_docstring(ast.parse(code)) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    first = re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0]
    parts = first.replace("|", "\\|").split("`")
    return "`".join(text if place % 2 else text.replace("<", "&lt;") for place, text in enumerate(parts))


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")
