"""`history`: the version history of TiDB's tables, from recorded DDL."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from schemas.errors import SetupError
from service.commands.saying import give_up, say
from service.history.replay import HistoryMode, replay

history = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The version history of TiDB's tables.")

HistoryFile = Annotated[
    str, typer.Argument(metavar="FILE", help="JSON lines of a recorded DDL history; - is standard input.")
]
ReplayMode = Annotated[
    HistoryMode, typer.Option(help="wire: the statements as TiCDC sends them; typed: as they were typed.")
]


@history.command("replay")
def history_replay(file: HistoryFile, mode: ReplayMode = "wire") -> None:
    """Replay a recorded DDL history and print each statement's tables as they are after it.

    A line in: {"script","seq","db","ddl","sql_mode","ok","wire":[{"ts","scm","tbl","t","q"}]}. A line out:
    {"script","seq","ok","error","tables","gone"}. Catalogs start empty at each new script. A statement that could not
    be read or applied has "ok" false and says why; the exit code is 0 all the same, 2 where FILE is no history.

    Try it:  python -m service history replay ddl.jsonl --mode typed
    """
    done = failed = 0
    try:
        with open(0 if file == "-" else file, encoding="utf-8", closefd=file != "-") as lines:
            for result in replay(lines, mode):
                print(json.dumps(result, ensure_ascii=False))
                done, failed = done + 1, failed + (not result["ok"])
    except SetupError as error:
        give_up(error.detail)
    except (OSError, UnicodeDecodeError) as error:
        give_up(f"{file}: {error}")
    say(f"history replay: {done} statements, {failed} that could not be read or applied")
