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
target = "delta:/lake/orders"    # and changelog, versions, partition-by, cluster-by, exclude, mask
"""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import typer

from ticdc_bridge.cli.app import Command
from ticdc_bridge.cli.job_command import refuse
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.spark_jobs.io.locations import TABLE_PREFIXES
from ticdc_bridge.spark_jobs.pipeline.private_columns import rule_pairs
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableLayout, TableOutput

OPTION: Final = "--file"
COMMANDS: Final = ("load", "merge", "reconcile", "decode", "transcode")
_ALIASES: Final = {"source": "in", "target": "out"}
_ONE_OF: Final = ({"in", "topics"}, {"table", "tables"})
"""Options of which a job has one."""
_ENTRIES: Final = "table"
_LAYOUT: Final = ("partition-by", "cluster-by")
_PRIVATE: Final = {"exclude", "mask"}
"""Options of which the command line adds to those of the file."""
_OUTPUT_KEYS: Final = ("target", "changelog", "versions")


class JobFileCommand(Command):
    """A command with --file: the options of the file stand before those of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            args, ctx.meta[OPTION] = with_file(args, str(ctx.info_name), self.get_params(ctx))
        except SetupError as error:
            raise typer.Exit(refuse(error)) from None
        return super().parse_args(ctx, args)


def table_outputs_of(ctx: typer.Context, _file: str | None) -> tuple[TableOutput, ...]:
    """The value of --file: the places of its tables."""
    return tuple(ctx.meta.get(OPTION, ()))


def with_file(words: list[str], command: str, params: Sequence[Any]) -> tuple[list[str], list[TableOutput]]:
    """A command's options with those of its file, and the places of the file's tables. SetupError USAGE."""
    path = _path_in(words)
    if path is None:
        return words, []
    document = _read(Path(path))
    section = document.pop(command, {})
    for other in COMMANDS:
        document.pop(other, None)
    entries = document.pop(_ENTRIES, [])
    if not isinstance(section, dict) or not isinstance(entries, list):
        raise SetupError("USAGE", details=f"{path}: write [{command}] for its options, and [[table]] for each table")
    named = [(name, parameter) for parameter in params for name in parameter.opts if name.startswith("--")]
    options = {name[2:]: parameter for name, parameter in named if name != OPTION}
    typed = {word.partition("=")[0].removeprefix("--") for word in words if word.startswith("--")}
    typed = typed.union(*(names for names in _ONE_OF if typed & names))
    added: list[str] = []
    for key, value in {**document, **section}.items():
        name = _option_name(key, command, options)
        if name not in options:
            near = get_close_matches(name, [*options, *_ALIASES, *COMMANDS], 1)
            advice = f"; did you mean {f'[{near[0]}]' if near[0] in COMMANDS else near[0]}?" if near else ""
            raise SetupError("USAGE", details=f"{path}: {command} has no option {key!r}{advice}")
        if name not in typed or name in _PRIVATE:
            added += _words(name, options[name], value, path)
    outputs = [_table_output(entry, path) for entry in entries]
    if not options.keys() >= _PRIVATE and any(output.private for output in outputs):
        raise SetupError("USAGE", details=f"{path}: {command} leaves no columns out, and masks none: as [[table]] says")
    return [*added, *words], outputs


def _path_in(words: list[str]) -> str | None:
    for number, word in enumerate(words):
        if word.startswith(f"{OPTION}="):
            return word.partition("=")[2]
        if word == OPTION and number + 1 < len(words):
            return words[number + 1]
    return None


def _read(path: Path) -> dict[str, Any]:
    with usage_errors(f"{OPTION} {path}", OSError, ValueError):
        return tomllib.loads(path.read_text("utf-8-sig"))


def _option_name(key: str, command: str, options: Mapping[str, Any]) -> str:
    name = key.replace("_", "-")
    if name in options:
        return name
    if name == "format" and command == "transcode":
        return "from"
    if name == "target" and command == "reconcile":
        return "lake"
    return _ALIASES.get(name, name)


def _words(name: str, option: Any, value: Any, path: str) -> list[str]:
    """The value as the command line would have it."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise SetupError("USAGE", details=f"{path}: {name} is true or false")
        return [f"--{name}"] if value else []
    if name == "mask" and isinstance(value, dict):
        value = _pairs(value)
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str | int | float) and not isinstance(entry, bool) for entry in values):
        raise SetupError("USAGE", details=f"{path}: {name}: a text, a number or a list of them is needed")
    return [f"--{name}={entry}" for entry in (values if option.multiple else [",".join(map(str, values))])]


def _table_output(entry: Any, path: str) -> TableOutput:
    values = {key.replace("_", "-"): value for key, value in entry.items()} if isinstance(entry, dict) else {}
    unknown = values.keys() - {"name", "out", "exclude", "mask", *_OUTPUT_KEYS, *_LAYOUT}
    if not values or unknown:
        words = "name, target, changelog, versions, partition-by, cluster-by, exclude and mask"
        details = f"{path}: [[table]] has {words}, not {', '.join(sorted(unknown)) or 'nothing'}"
        raise SetupError("USAGE", details=details)
    name, locations = values.get("name"), {word: values.get(word) for word in _OUTPUT_KEYS}
    locations["target"] = values.get("target", values.get("out"))
    lists = [_columns(values.get(word), word, path) for word in _LAYOUT]
    layout = TableLayout.of(*lists) if any(lists) else None
    private = _private(values.get("exclude", []), values.get("mask", {}), path)
    if not isinstance(name, str) or not (layout or private or any(output for output in locations.values())):
        raise SetupError("USAGE", details=f"{path}: [[table]] needs a name (db.table or a pattern) and a target")
    for word, location in locations.items():
        if location is not None and not (isinstance(location, str) and location.startswith(TABLE_PREFIXES)):
            raise SetupError("USAGE", details=f"{path}: [[table]] {name}: {word} {location}: delta:PATH is needed")
    tables = TableChoice.of([name])
    changelog, versions = locations["changelog"], locations["versions"]
    return TableOutput(tables, locations["target"], layout, changelog, versions, private)


def _private(exclude: Any, mask: Any, path: str) -> tuple[tuple[str, str], ...]:
    """Rules of TableOutput. SetupError USAGE."""
    texts = [*exclude, *mask.values()] if isinstance(exclude, list) and isinstance(mask, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        details = f'{path}: [[table]] exclude is a list of columns, and mask a table such as {{email = "hmac"}}'
        raise SetupError("USAGE", details=details)
    return rule_pairs(exclude, _pairs(mask))


def _pairs(value: Mapping[str, Any]) -> list[str]:
    return [f"{name}={entry}" for name, entry in value.items()]


def _columns(value: Any, word: str, path: str) -> str | None:
    """A list of columns as the command line has it."""
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ",".join(value)
    if value is None or isinstance(value, str):
        return value
    raise SetupError("USAGE", details=f"{path}: [[table]] {word}: a list of columns is needed")
