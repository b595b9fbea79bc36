"""Links of README.md and docs/ lead somewhere, and commands named in a sentence are there, with the options named."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tests.docs.pages import ROOT
from tests.support.command_line import commands, option_names
from tests.support.each import each
from tests.support.table import check_rows
from ticdc_bridge.cli.app import load
from ticdc_bridge.cli.command_table import COMMANDS

PAGES: Final = (ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE: Final = re.compile(r"^ *```.*?^ *```[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FILE: Final = re.compile(r"[\w./*]+\.py")
_HEADING: Final = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_NOT_A_WORD: Final = re.compile(r"[^\w\- ]")


@cache
def prose(path: Path) -> str:
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in _HEADING.findall(prose(path)):
        name = _NOT_A_WORD.sub("", heading.lower()).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return frozenset(found)


@each("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / unquote(file)).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


def test_files_in_sentences_are_there() -> None:
    """The name of a file, or the end of its path; `*` stands for any."""
    folders = ("schemas", "service", "spark_jobs", "ticdc_bridge", "tests", "benchmarks", "scripts")
    files = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")]

    def check(page: Path) -> None:
        named = [code for code in _CODE.findall(prose(page)) if _FILE.fullmatch(code)]
        lost = [code for code in named if not any(path.match(code) for path in files)]
        assert not lost

    check_rows(PAGES, check, name)


def options(words: list[str]) -> set[str] | None:
    """The options of `ticdc-bridge …`, `python -m service …` or `python -m spark_jobs …`; None where there is no such
    command.
    """
    module, *rest = words
    if not rest or rest[0].startswith("-"):
        return {"--help", "--version"}
    if module != "ticdc-bridge" and rest[0].isupper():  # JOB stands for any
        return {name for _, command in commands() for name in option_names(command)}
    if rest[0] not in COMMANDS:
        return None
    command = load(rest.pop(0))
    while rest and not rest[0].startswith("-") and (below := getattr(command, "commands", None)):
        if rest[0] not in below:
            return None
        command = below[rest.pop(0)]
    return option_names(command)


def test_commands_in_sentences_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    def check(page: Path) -> None:
        lost = []
        for code in _CODE.findall(prose(page)):
            if found := re.match(r"make ([a-z-]+)\b", code):
                lost += [code] if found[1] not in targets else []
            elif found := re.match(
                r"(?:\.venv/bin/)?(?:python -m )?((?:(?<=-m )(?:service|spark_jobs)|ticdc-bridge)(?:$|\s+(?!\[)).*)",
                code,
            ):
                words = shlex.split(found[1].replace("…", ""))
                known = options(words)
                given = {word.partition("=")[0] for word in words if word.startswith("--")}
                lost += [code] if known is None or given - known else []
        assert not lost

    check_rows(PAGES, check, name)


def test_pages_are_short_enough_to_be_read() -> None:
    counts = {name(page): len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    limits = {"README.md": 900, "docs/production.md": 2000} | {n: 400 for n in counts if "docs/decisions/0" in n}
    assert {n: counts[n] for n, most in limits.items() if counts[n] > most} == {}
    docs = {n for n in counts if n.startswith("docs/") and "/decisions/" not in n} - {"docs/reference.md"}
    assert sum(counts[n] for n in docs) <= 36_000
