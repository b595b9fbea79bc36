"""`--file JOB.toml`: a job's options in a file, by their names; those of the command line win.

source = "kafka:shop"            # --in; any option of the command, without its dashes
format = "canal-json"            # transcode: --from
tables = ["shop.*", "!shop.tmp_*"]
target = "delta:/lake/{schema}/{table}"
trigger = "30s"

[merge]                          # of this command alone
at-once = 8

[[table]]                        # a table, or a pattern of some, with a place of its own
name = "shop.orders"
target = "delta:/lake/orders"    # and changelog, versions, partition-by, cluster-by
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.spark_jobs.io.locations import TABLE_PREFIXES
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, TablePlace

OPTION: Final = "--file"
COMMANDS: Final = ("merge", "decode", "transcode")
_ALIASES: Final = {"source": "in", "target": "out"}
_SOURCES: Final = {"in", "topics"}
"""Of which a job has one."""
_ENTRIES: Final = "table"
_LAYOUT: Final = ("partition-by", "cluster-by")
_PLACES: Final = ("target", "changelog", "versions")


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(OPTION, metavar="JOB.toml", help="these options from a file (docs/lake.md); the command line wins")
    p.set_defaults(places=())


def with_file(argv: list[str], parsers: Mapping[str, argparse.ArgumentParser]) -> tuple[list[str], list[TablePlace]]:
    """The command line with the options of its file, and the places of its tables. SetupError USAGE.

    parsers: of the commands, by name.
    """
    command = next((word for word in argv if not word.startswith("-")), "")
    path = _path_in(argv)
    if path is None or command not in COMMANDS:
        return argv, []
    document = _read(Path(path))
    own = document.pop(command, {})
    for other in COMMANDS:
        document.pop(other, None)
    entries = document.pop(_ENTRIES, [])
    if not isinstance(own, dict) or not isinstance(entries, list):
        raise SetupError("USAGE", details=f"{path}: write [{command}] for its options, and [[table]] for each table")
    actions = {
        name.removeprefix("--"): action
        for action in parsers[command]._actions
        for name in action.option_strings
        if name.startswith("--") and name not in (OPTION, "--help")
    }
    given = {word.partition("=")[0].removeprefix("--") for word in argv if word.startswith("--")}
    given |= _SOURCES if given & _SOURCES else set()
    words: list[str] = []
    for key, value in {**document, **own}.items():
        name = _option_name(key, command)
        if name not in actions:
            near = get_close_matches(name, [*actions, *_ALIASES], 1)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise SetupError("USAGE", details=f"{path}: {command} has no option {key!r}{advice}")
        if name not in given:
            words += _words(name, actions[name], value, path)
    at = argv.index(command) + 1
    return [*argv[:at], *words, *argv[at:]], [_place(entry, path) for entry in entries]


def _path_in(argv: list[str]) -> str | None:
    for number, word in enumerate(argv):
        if word.startswith(f"{OPTION}="):
            return word.partition("=")[2]
        if word == OPTION and number + 1 < len(argv):
            return argv[number + 1]
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SetupError("USAGE", details=f"{OPTION} {path}: {reason_of(error)}") from error


def _option_name(key: str, command: str) -> str:
    name = key.replace("_", "-")
    if name == "format" and command == "transcode":
        return "from"
    return _ALIASES.get(name, name)


def _words(name: str, action: argparse.Action, value: Any, path: str) -> list[str]:
    """The value as the command line would have it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise SetupError("USAGE", details=f"{path}: {name} is true or false")
        return [f"--{name}"] if value else []
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in values):
        raise SetupError("USAGE", details=f"{path}: {name}: a text, a number or a list of them is needed")
    repeatable = isinstance(action, argparse._AppendAction) or name == "tables"
    return [f"--{name}={one}" for one in (values if repeatable else [",".join(map(str, values))])]


def _place(entry: Any, path: str) -> TablePlace:
    given = {key.replace("_", "-"): value for key, value in entry.items()} if isinstance(entry, dict) else {}
    unknown = given.keys() - {"name", "out", *_PLACES, *_LAYOUT}
    if not given or unknown:
        words = "name, target, changelog, versions, partition-by and cluster-by"
        details = f"{path}: [[table]] has {words}, not {', '.join(sorted(unknown)) or 'nothing'}"
        raise SetupError("USAGE", details=details)
    name, places = given.get("name"), {word: given.get(word) for word in _PLACES}
    places["target"] = given.get("target", given.get("out"))
    lists = [_columns(given.get(word), word, path) for word in _LAYOUT]
    layout = TableLayout.of(*lists) if any(lists) else None
    if not isinstance(name, str) or not (layout or any(place is not None for place in places.values())):
        raise SetupError("USAGE", details=f"{path}: [[table]] needs a name (db.table or a pattern) and a target")
    for word, place in places.items():
        if place is not None and not (isinstance(place, str) and place.startswith(TABLE_PREFIXES)):
            raise SetupError("USAGE", details=f"{path}: [[table]] {name}: {word} {place}: delta:PATH is needed")
    return TablePlace(TableChoice.of([name]), places["target"], layout, places["changelog"], places["versions"])


def _columns(value: Any, word: str, path: str) -> str | None:
    """A list of columns as the command line has it."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if value is None or isinstance(value, str):
        return value
    raise SetupError("USAGE", details=f"{path}: [[table]] {word}: a list of columns is needed")
