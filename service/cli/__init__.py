"""The command line of the service: a file a command, with its options and what it prints.

What a command does belongs in the folder of its subject (`migration`, `tracker`, `ddl_check`, `store`); answers to HTTP
requests belong in `service.api`.
"""

from __future__ import annotations

import sys

import typer

from service.cli.access import check_acl, hash_password, new_token
from service.cli.backup import backup, restore
from service.cli.check_ddl import check_ddl
from service.cli.doctor import doctor
from service.cli.health import health
from service.cli.history import history
from service.cli.mirror import mirror
from service.cli.serve import serve
from service.cli.track import fill_end, track
from service.cli.transfer import export, import_

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
app.command()(serve)
app.command()(health)
app.command()(check_acl)
app.command()(hash_password)
app.command()(new_token)
app.command()(backup)
app.command()(restore)
app.command("import")(import_)
app.command()(export)
app.command()(mirror)
app.command("check-ddl")(check_ddl)
app.command()(doctor)
app.command()(track)
app.add_typer(history, name="history")


@app.callback()
def commands() -> None:
    """A Confluent-compatible schema registry for TiCDC and Spark."""


def main() -> None:
    app(fill_end(sys.argv[1:]), prog_name="python -m service")
