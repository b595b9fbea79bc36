"""The command line. stdout holds data only; progress and summary go to stderr.

Exit codes: 0 done, 1 done with rows in the dead letter or a check that says no, 2 wrong usage or cannot start,
130 interrupted, 141 the reader of the output went away (| head).
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.spark_jobs.commands import (
    decode,
    demo,
    encode,
    explain,
    job_file,
    merge,
    options,
    package,
    replay,
    transcode,
    verify,
)

COMMANDS = {
    "decode": decode, "encode": encode, "transcode": transcode, "explain": explain, "verify": verify,
    "replay": replay, "merge": merge, "package": package, "demo": demo,
}  # fmt: skip


def parser(prog: str = "python -m spark_jobs") -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = options.Parser(prog=prog, description="Reads, explains and rewrites TiCDC's messages, exactly.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add(commands)
    return top


_CLOSED_PIPE = 141  # as a shell says of a program that SIGPIPE ended


def _check_paths(args: argparse.Namespace) -> None:
    """Makes paths of object stores' URLs where an option takes a file or folder. SetupError USAGE for other URLs."""
    from ticdc_bridge.spark_jobs.io.locations import check_is_path
    from ticdc_bridge.spark_jobs.io.object_paths import path_of

    for name, value in vars(args).items():
        if isinstance(value, Path):
            check_is_path(str(value), f"--{name.replace('_', '-')}")
            setattr(args, name, path_of(value))


def _parse(words: list[str], top: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with the options of its --file. SetupError USAGE."""
    commands = next(action.choices for action in top._actions if isinstance(action.choices, dict))
    words, places = job_file.with_file(words, commands)
    if words[0] in commands:
        _check_options(words[1:], commands[words[0]])
    args = top.parse_args(words)
    if places:
        args.places = tuple(places)
    return args


def _check_options(words: list[str], command: argparse.ArgumentParser) -> None:
    """Ends at an option that the command has not, with the one that may be meant: argparse would first miss others."""
    known = command._option_string_actions
    for word in takewhile(lambda one: one != "--", words):
        name = word.partition("=")[0]
        if word.startswith("--") and " " not in name and not any(one.startswith(name) for one in known):
            near = get_close_matches(name[2:], [one[2:] for one in known], 1)
            command.error(f"there is no option {name}" + (f": did you mean --{near[0]}?" if near else ""))


def main(argv: Sequence[str] | None = None, prog: str = "python -m spark_jobs") -> int:
    """Runs a command; returns its exit code."""
    words, grammar = sys.argv[1:] if argv is None else argv, parser(prog)
    if not words:
        grammar.print_help(sys.stderr)
        raise SystemExit(2)
    try:
        args = _parse([*words], grammar)
    except SetupError as error:
        print(f"error {error.code}: {error.detail}", file=sys.stderr)
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    try:
        _check_paths(args)
        code: int = COMMANDS[args.command].run(args)
        return code
    except BridgeError as error:
        print(f"error {error.code}: {error.detail}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the output is not complete", file=sys.stderr)
        return 130
    except BrokenPipeError as error:
        from ticdc_bridge.spark_jobs.spark.errors import java_end

        if (end := java_end(error)) is not None:
            return _refuse(end)
        # The reader of our output went away (| head): nothing more to say, and Python must not say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except Exception as error:
        from ticdc_bridge.spark_jobs.spark.errors import error_of

        reason = error_of(error)
        if reason is not None:
            return _refuse(reason)
        # Exit code 1 means "done": a defect of ours must not look like that.
        traceback.print_exc()
        print("internal error: please report it with the text above; the output is not complete", file=sys.stderr)
        return 2


def _refuse(reason: BridgeError) -> int:
    print(f"error {reason.code}: {reason.detail}; the output is not complete", file=sys.stderr)
    return 2
