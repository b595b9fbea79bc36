"""The command line: `ticdc-bridge`, `python -m ticdc_bridge`, and in a checkout `python -m service` and `spark_jobs`.

A file a command (those that read and write messages in `jobs`), which parses and calls: what a command does belongs to
`spark_jobs` or `service`. `command_table` lists the commands, `app` loads the file of the one that is asked for. Typer
is imported there, not here.
"""

import io
import os
import sys
from collections import namedtuple
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

PROGRAM: Final = "ticdc-bridge"
_WRONG_USAGE: Final = 2
_INTERRUPTED: Final = 130
_CLOSED_PIPE: Final = 141  # as a shell says of a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None, prog: str = PROGRAM) -> int:
    """Runs a command. Output is UTF-8 in any locale.

    Args:
        arguments: The words after the program's name; by default those of this process.
        prog: The program's name, for help and errors.

    Returns:
        The exit code: 0 done, 1 dead letters or a check that says no, 2 wrong usage or it can't start, 3 where a
        command's help says so, 130 after Ctrl-C, 141 where the reader of the output went away (`| head`).
    """
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    try:
        try:
            return _run(words, prog)
        finally:
            sys.stdout.flush()  # what it still holds is written here, where a closed pipe can be handled
    except KeyboardInterrupt:
        namedtuple("_Evaluated", ())  # CPython dies by SIGINT where text that it evaluated was interrupted last
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE


def _run(words: list[str], prog: str) -> int:
    if words == ["health"]:  # asked every few seconds by a container: without Typer
        with suppress(ImportError):
            from ticdc_bridge.service.server import health

            return health.run(None)
    try:
        from ticdc_bridge.cli.app import run
    except ModuleNotFoundError as error:
        reason = f"the Python package {error.name} is not installed: in a clone of {PROGRAM}, pip install ."
        print(f"{PROGRAM}: {reason}", file=sys.stderr)
        return _WRONG_USAGE
    return run(words, prog)
