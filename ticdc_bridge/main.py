"""`ticdc-bridge COMMAND …`: one command line over the service's commands and the jobs'."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from ticdc_bridge import __version__
from ticdc_bridge.command_table import COMMANDS, EXTRA, GROUPS, JOBS, OWN, SERVICE
from ticdc_bridge.extras import missing_package

PROGRAM: Final = "ticdc-bridge"
_WRONG_USAGE: Final = 2
_INTERRUPTED: Final = 130
_CLOSED_PIPE: Final = 141  # as a shell says of a program that SIGPIPE ended
# The module of a program whose main(words, prog) returns an exit code or raises SystemExit; loaded when it is needed.
_MODULES: Final = {
    SERVICE: "ticdc_bridge.service.__main__",
    JOBS: "ticdc_bridge.spark_jobs.commands.main",
    OWN: "ticdc_bridge.completion",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. In: the words after the program's name (default: those of this process). Out: its exit code."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    return _with_streams(lambda: _main(words))


def _main(words: list[str]) -> int:
    if not words:
        print(help_text(), file=sys.stderr)
        return _WRONG_USAGE
    first = words[0]
    if first in ("-h", "--help", "help"):
        following = words[1:2] if first == "help" else []
        if not following:
            print(help_text())
            return 0
        words, first = [*following, "--help"], following[0]
    if first in ("-V", "--version", "version"):
        print(f"{PROGRAM} {__version__}")
        return 0
    if first not in COMMANDS:
        return _unknown(first)
    return _run(COMMANDS[first].package, words, PROGRAM)


def run(package: str, words: Sequence[str], prog: str) -> int:
    """Runs a command of a program. In: its package, the words from the command on, the name that help shows.

    Out: the exit code; 2 where what the program needs is not installed.
    """
    return _with_streams(lambda: _run(package, words, prog))


def _with_streams(work: Callable[[], int]) -> int:
    """The exit code of the work, whose output is UTF-8 in any locale; 141 where its reader went away (| head)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()  # what it still holds is written here, where a closed pipe can be told
    except KeyboardInterrupt:  # while modules are imported: commands have an answer of their own
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE


def _run(package: str, words: Sequence[str], prog: str) -> int:
    try:
        code: int | None = importlib.import_module(_MODULES[package]).main([*words], prog)
    except ModuleNotFoundError as error:
        reason = missing_package(error, EXTRA.get(package, ""))
        if reason is None:
            raise
        print(f"{PROGRAM}: {words[0] if words else prog}: {reason}", file=sys.stderr)
        return _WRONG_USAGE
    return code or 0


def help_text() -> str:
    """All commands, by what they are for."""
    width = max(map(len, COMMANDS))
    lines = [
        f"Usage: {PROGRAM} COMMAND [OPTIONS]",
        "",
        "Tools for TiCDC: schema registry, table history, decoding, format conversion, lake tables.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {one.name:{width}}  {one.text}" for one in commands)]
    return "\n".join(
        [
            *lines,
            "",
            f"{PROGRAM} COMMAND --help shows a command's options with examples; --version prints the version.",
            f"Completion, here for bash: source <({PROGRAM} completion bash)",
        ]
    )


def _unknown(word: str) -> int:
    from difflib import get_close_matches

    what = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, COMMANDS, n=1) if what == "command" else []
    hint = f"did you mean {PROGRAM} {near[0]}? " if near else ""
    print(f"{PROGRAM}: there is no {what} {word}: {hint}{PROGRAM} --help lists all", file=sys.stderr)
    return _WRONG_USAGE
