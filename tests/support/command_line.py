"""A command line as the command sees it, and the grammar of every command."""

import importlib
from collections.abc import Iterator
from typing import Any

from ticdc_bridge.cli.app import load
from ticdc_bridge.cli.command_table import COMMANDS


def parse_job(words: list[str]) -> Any:
    """The command of the jobs that a command line gives, before it runs. typer.Exit or a usage error if it is wrong."""
    row = COMMANDS[words[0]]
    context = load(row.name).make_context(row.name, words[1:])
    return getattr(importlib.import_module(row.module), row.attribute)(**context.params)


def commands() -> Iterator[tuple[str, Any]]:
    """Each command, and each below it, with Typer's description of it."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for word, inner in getattr(command, "commands", {}).items():
            yield from below(f"{name} {word}", inner)

    for name in COMMANDS:
        yield from below(name, load(name))


def option_names(command: Any) -> set[str]:
    """Every spelling of its options."""
    names = {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    }
    return names | {"--help"}
