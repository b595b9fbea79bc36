"""The commands in README.md and docs/: what is in them, and what they need to run.

    <!-- run with: service kafka -->          before the first command of a page: what must be there
    <!-- slow: starts Spark -->               on a page whose commands take long: its test is a slow one
    <!-- not run: needs a Docker engine -->   before a block that these machines can't run
    <!-- until: listening on -->              before a block that goes on until Ctrl-C, which comes at these words
    <!-- exit: 1 -->                          before a block whose last command ends with another code than 0
    <!-- said -->                             before a block of text: what the commands before it print, all of it. A
                                              line `…` stands for any lines, `…` in a line for any text

A block of commands is fenced as `sh`; what they print is fenced as `text` or not marked. A block of Python is run
if the page says what it prints.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ \t]*$", re.DOTALL | re.MULTILINE
)
_COMMENT = re.compile(r"<!-- *(run with|not run|until|exit): *(.*?) *-->\s*\Z")
_SAID = re.compile(r"<!-- *said *-->\s*\Z")
_NEEDS = re.compile(r"<!-- *run with: *(.*?) *-->")
_SLOW = re.compile(r"<!-- *slow: .*? *-->")
_COMMAND = re.compile(
    r"^\s*(\$ |make |python[0-9.]* |\.venv/bin/|curl |docker |kubectl |pip |tiup |cdc |spark-submit |apt |helm )",
    re.MULTILINE,
)
_INDENTED = re.compile(r"^ {4,}(make |python3? |\.venv/bin/|curl |docker |kubectl )", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Commands between two fences. line: of the fence. not_run: why not, "" if they run.

    said: what they print, by the page. is_python: Python, not commands.
    """

    line: int
    text: str
    not_run: str = ""
    until: str = ""
    exit: int = 0
    said: str = ""
    is_python: bool = False


@dataclass(frozen=True)
class DocPage:
    path: Path
    needs: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    unmarked: tuple[int, ...] = field(default=())
    slow: bool = False

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


def read(path: Path) -> DocPage:
    """A page's commands; `unmarked` are lines of blocks that look like commands and are not fenced as `sh`."""
    text = path.read_text(encoding="utf-8")
    needs = _NEEDS.search(text)
    blocks, unmarked = [], []
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        if (language := fence["info"].strip()) in ("sh", "python"):
            said = _before(text[: fence.start()])
            known = said.get("not run", ""), said.get("until", ""), int(said.get("exit", "0"))
            blocks.append(Block(line, fence["body"], *known, is_python=language == "python"))
        elif blocks and _SAID.search(text[: fence.start()]):
            blocks[-1] = replace(blocks[-1], said=fence["body"])
        elif not fence["info"].strip() and _COMMAND.match(fence["body"]):
            unmarked.append(line)
    outside = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    unmarked += [outside.count("\n", 0, found.start()) + 1 for found in _INDENTED.finditer(outside)]
    blocks = [block for block in blocks if block.said or not block.is_python]
    slow = _SLOW.search(text) is not None
    return DocPage(path, tuple(needs[1].split()) if needs else (), tuple(blocks), tuple(unmarked), slow)


def _before(text: str) -> dict[str, str]:
    """What the comments right before a fence say."""
    found: dict[str, str] = {}
    while comment := _COMMENT.search(text):
        if comment[1] != "run with":
            found[comment[1]] = comment[2]
        text = text[: comment.start()]
    return found


def pages() -> list[DocPage]:
    return [read(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
