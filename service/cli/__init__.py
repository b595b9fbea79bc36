"""The command line of the service: a file a command, with its options and what it prints.

What a command does belongs in the folder of its subject (`migration`, `tracker`, `ddl_check`, `store`); answers to HTTP
requests belong in `service.api`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup

from ticdc_bridge.command_table import COMMANDS
from ticdc_bridge.service.cli.access import check_acl, hash_password, new_token
from ticdc_bridge.service.cli.backup import backup, restore
from ticdc_bridge.service.cli.check_ddl import check_ddl
from ticdc_bridge.service.cli.doctor import doctor
from ticdc_bridge.service.cli.health import health
from ticdc_bridge.service.cli.history import history
from ticdc_bridge.service.cli.serve import serve
from ticdc_bridge.service.cli.track import fill_end, track
from ticdc_bridge.service.cli.transfer import export, import_

_CLOSED_PIPE = 141  # as a shell says of a program that SIGPIPE ended


# A metavar says what an argument is: `FILE`, not `FILE <str>`.
TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]


class _Commands(TyperGroup):
    """Ends as the other commands do where the reader of the output went away (| head); typer has 1 for it."""

    def make_context(self, *given: Any, **more: Any) -> Any:  # prints --help
        with _exit_where_pipe_is_closed():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _exit_where_pipe_is_closed():
            return super().invoke(ctx)


@contextmanager
def _exit_where_pipe_is_closed() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise typer.Exit(_CLOSED_PIPE) from None


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, rich_markup_mode=None)
_FUNCTIONS: dict[str, Callable[..., None]] = {
    "serve": serve, "health": health, "check-acl": check_acl, "hash-password": hash_password, "new-token": new_token,
    "backup": backup, "restore": restore, "import": import_, "export": export,
    "check-ddl": check_ddl, "doctor": doctor, "track": track,
}  # fmt: skip
for name, function in _FUNCTIONS.items():
    app.command(name, short_help=COMMANDS[name].text)(function)
app.add_typer(history, name="history", short_help=COMMANDS["history"].text)


@app.callback()
def commands() -> None:
    """A Confluent-compatible schema registry for TiCDC and Spark."""


def main(words: Sequence[str] | None = None, prog: str = "python -m service") -> None:
    """Runs a command and raises SystemExit. In: the words from the command on (default: those of this process)."""
    app(fill_end(sys.argv[1:] if words is None else words), prog_name=prog)
