"""`completion`: the scripts that bash, zsh and fish read, and the words that they ask for while somebody types.

A script asks `ticdc-bridge completion words WORD…` for what the last word could become, a line each: the word, a tab
and what it means. No line: names of files. The words come from the grammars of the commands themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ticdc_bridge.command_table import COMMANDS, JOBS, OWN, SERVICE

SCRIPTS: Final = {
    "bash": """\
_ticdc_bridge() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("${line%%$'\\t'*}"); done \\
        < <(ticdc-bridge completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _ticdc_bridge ticdc-bridge
""",
    "zsh": """\
#compdef ticdc-bridge
_ticdc_bridge() {
    local -a lines
    lines=("${(@f)$(ticdc-bridge completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n ${lines[1]} ]]; then compadd -- "${(@)lines%%$'\\t'*}"; else _files; fi
}
if [[ ${funcstack[1]} == _ticdc_bridge ]]; then _ticdc_bridge "$@"; else compdef _ticdc_bridge ticdc-bridge; fi
""",
    "fish": """\
function __ticdc_bridge_words
    set -l words (commandline -opc) (commandline -ct)
    ticdc-bridge completion words $words[2..] 2>/dev/null
end
complete -c ticdc-bridge -a '(__ticdc_bridge_words)'
""",
}
_USAGE: Final = """\
usage: ticdc-bridge completion bash|zsh|fish

Prints the completion script of a shell.

  bash   source <(ticdc-bridge completion bash)                  in ~/.bashrc
  zsh    source <(ticdc-bridge completion zsh)                   in ~/.zshrc, after compinit
  fish   ticdc-bridge completion fish > ~/.config/fish/completions/ticdc-bridge.fish
"""


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its spellings, whether a value follows it, which values there are if they are few, its help."""

    names: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may follow a command: options and commands below it."""

    options: tuple[Option, ...] = ()
    commands: dict[str, Grammar] = field(default_factory=dict)


def main(words: Sequence[str], prog: str) -> int:
    """In: `completion` and a shell's name, or `words` and what was typed. Out: the exit code, 2 for wrong usage."""
    if words[1:2] == ["words"]:
        for word, text in candidates([*words[2:]] or [""]):
            print(f"{word}\t{text}" if text else word)
        return 0
    if len(words) == 2 and words[1] in SCRIPTS:
        print(SCRIPTS[words[1]], end="")
        return 0
    asked = words[1:2] in (["--help"], ["-h"])
    print(_USAGE, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What the last of the words could become, each with what it means. None: a name of a file, or anything."""
    *before, typed = words
    if not before:
        commands = {**{name: one.text for name, one in COMMANDS.items()}, "--help": "", "--version": ""}
        yield from ((name, text) for name, text in commands.items() if name.startswith(typed))
        return
    # A program that isn't installed, or not in order, has no words.
    with contextlib.suppress(ImportError):
        grammar = grammar_of(before[0])
        while len(before) > 1 and before[1] in grammar.commands:
            grammar, before = grammar.commands[before[1]], before[1:]
        yield from _following(grammar, before[-1], typed)


def _following(grammar: Grammar, previous: str, typed: str) -> Iterator[tuple[str, str]]:
    option = next((one for one in grammar.options if previous in one.names), None)
    if option is not None and option.takes_value:
        yield from ((one, "") for one in option.choices if one.startswith(typed))
    elif typed.startswith("-"):
        for one in grammar.options:
            yield from ((name, one.text) for name in one.names if name.startswith(typed))
    else:
        yield from ((name, "") for name in grammar.commands if name.startswith(typed))


def grammar_of(command: str) -> Grammar:
    """What may follow a command; ImportError where its program can't be loaded."""
    package = COMMANDS[command].package if command in COMMANDS else OWN
    if package == OWN:
        return Grammar(commands=dict.fromkeys(SCRIPTS, Grammar())) if command == "completion" else Grammar()
    return {SERVICE: _of_service, JOBS: _of_jobs}[package](command)


def _of_jobs(command: str) -> Grammar:
    from ticdc_bridge.spark_jobs.commands.main import parser

    # argparse has no public way to ask for what it was told.
    commands = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return Grammar(
        tuple(
            Option(tuple(one.option_strings), one.nargs != 0, tuple(map(str, one.choices or ())), one.help or "")
            for one in commands.choices[command]._actions
            if one.option_strings
        )
    )


def _of_service(command: str) -> Grammar:
    from typer.main import get_command

    from ticdc_bridge.service.cli import app

    top: Any = get_command(app)
    return _of_typer(top.commands[command])


def _of_typer(command: Any) -> Grammar:
    options = [one for one in command.params if one.param_type_name == "option"]
    return Grammar(
        (
            *(
                Option((*one.opts, *one.secondary_opts), not one.is_flag, _choices(one), one.help or "")
                for one in options
            ),
            Option(("--help",), takes_value=False),
        ),
        {name: _of_typer(one) for name, one in getattr(command, "commands", {}).items()},
    )


def _choices(option: Any) -> tuple[str, ...]:
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    return tuple(map(str, typing.get_args(annotation))) if typing.get_origin(annotation) is typing.Literal else ()
