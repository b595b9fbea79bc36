"""`history`: the version history of TiDB's tables, from recorded DDL."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ticdc_bridge.cli.options import DdlZone, StoreUrl, one_place, split_table
from ticdc_bridge.cli.output import exit_with, load_settings
from ticdc_bridge.schemas.model.errors import BridgeError, DdlError, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.service.server.logs import print_line

if TYPE_CHECKING:
    from ticdc_bridge.schemas.model.table import Table
    from ticdc_bridge.service.registry.view import RegistryView
    from ticdc_bridge.service.store.history_reader import HistoryStore

history = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The version history of TiDB's tables.")

HistoryFile = Annotated[
    str | None, typer.Argument(metavar="FILE", help="JSON lines of a recorded DDL history; - is standard input.")
]
HistoryIn = Annotated[str | None, typer.Option("--in", metavar="FILE", help="The same.")]
ReplayMode = Annotated[
    Literal["wire", "typed"], typer.Option(help="wire: the statements as TiCDC sends them; typed: as they were typed.")
]


@history.command("replay")
def history_replay(given: HistoryFile = None, source: HistoryIn = None, mode: ReplayMode = "wire") -> None:
    """Replay a recorded DDL history and print each statement's tables as they are after it.

    A line in: {"script","seq","db","ddl","sql_mode","ok","wire":[{"ts","scm","tbl","t","q"}]}. A line out:
    {"script","seq","ok","error","tables","gone"}. Catalogs start empty at each new script. A statement that could not
    be read or applied has "ok" false and says why; the exit code is 0 all the same, 2 where FILE is no history.

    Examples:
      ticdc-bridge history replay ddl.jsonl --mode typed
    """
    from ticdc_bridge.service.history.table_json import replay

    done, failed, file = 0, 0, one_place("FILE", given, source)
    try:
        with open(0 if file == "-" else file, encoding="utf-8-sig", closefd=file != "-") as lines:
            for result in replay(lines, mode):
                print(json.dumps(result, ensure_ascii=False))
                done, failed = done + 1, failed + (not result["ok"])
    except SetupError as error:
        exit_with(error.detail)
    except BrokenPipeError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        exit_with(f"{file}: {reason_of(error)}")
    print_line(f"history replay: {done} statements, {failed} that could not be read or applied")


Feed = Annotated[str | None, typer.Option("--changefeed", metavar="NAME", help="The history it is for. [the only one]")]
ShowCreate = Annotated[
    str | None, typer.Argument(metavar="SQL", help="What SHOW CREATE TABLE printed; - is standard input.")
]
Db = Annotated[str, typer.Option("--db", metavar="DATABASE", help="The table's database.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="TSO|TIME", help="Valid from this time. [the resolved ts of the history]")
]
Tables = Annotated[
    str | None,
    typer.Option(
        "--ddl",
        metavar="SOURCE",
        help="Many tables at once: a file of SQL or DDL, a dump's folder, or mysql://USER@HOST:4000/DB.",
    ),
]
Subject = Annotated[
    str | None, typer.Option(metavar="SUBJECT", help="A registered subject, which describes the table in part.")
]
Version = Annotated[int | None, typer.Option(metavar="N", help="The subject's version. [the newest]")]
MessageFile = Annotated[
    str | None,
    typer.Option("--message", metavar="FILE", help="A message that describes it: one line, key_b64, value_b64."),
]
Earlier = Annotated[str, typer.Argument(metavar="FROM", help="The earlier time: a commit_ts or an RFC 3339 time.")]
Later = Annotated[str, typer.Argument(metavar="TO", help="The later time.")]
All = Annotated[bool, typer.Option("--all", help="Rebuild all versions, not only those after events that failed.")]


@contextmanager
def _open_histories(url: str | None, *, reads: bool = False) -> Iterator[tuple[HistoryStore, RegistryView]]:
    """The store's histories. BridgeError and ValueError end the command with exit code 2. reads: it must exist."""
    from ticdc_bridge.service.registry.registry import Registry
    from ticdc_bridge.service.registry.view import RegistryView
    from ticdc_bridge.service.store import open_store, store_exists
    from ticdc_bridge.service.store.history_reader import HistoryStore

    settings = load_settings(store=url)
    if reads and not store_exists(settings.store):  # opening one makes it
        exit_with(f"--store {settings.store}: there is no such file")
    try:
        store = open_store(settings.store, wait_seconds=settings.store_wait_seconds)
        try:
            yield HistoryStore(store), RegistryView(Registry(store))
        finally:
            store.close()
    except BridgeError as error:
        exit_with(error.detail)
    except BrokenPipeError:  # the reader of the output went away (| head)
        raise
    except (OSError, ValueError) as error:
        exit_with(reason_of(error))


@history.command("snapshot")
def history_snapshot(
    sql: ShowCreate = None,
    db: Db = "",
    table: Annotated[
        str,
        typer.Option(
            "--table",
            metavar="[DB.]TABLE",
            help="The table's name, if the source has another. With --ddl: only this table.",
        ),
    ] = "",
    tables: Tables = None,
    subject: Subject = None,
    version: Version = None,
    message: MessageFile = None,
    at: At = None,
    changefeed: Feed = None,
    store: StoreUrl = None,
) -> None:
    """Give a history that began in the middle the definition of a table, or of many, at a commit_ts.

    Without --at, tables of a live TiDB are valid from the time they were read. Exit code 0; 2 where the snapshot
    can't be read.

    Examples:
      mysql -Ne 'SHOW CREATE TABLE orders\\G' shop | tail -n +3 | ticdc-bridge history snapshot - --db shop
    """
    from ticdc_bridge.service.history.manual_entry import record_snapshot, record_tables
    from ticdc_bridge.service.history.model import Batch

    db, table = split_table(db, table)
    body: dict[str, object] = {"db": db, "table": table, "changefeed": changefeed}
    with _open_histories(store) as (histories, view):
        if sql is not None:
            body["query"] = sys.stdin.read() if sql == "-" else sql
        if subject is not None:
            body |= {"subject": subject, "version": version}
        if message is not None:
            body["message"] = _first_message(message)
        if at is not None:
            body["time"] = at
        if tables is None:
            entry = record_snapshot(body, histories, view)
        elif len(body.keys() & {"query", "subject", "message"}):
            raise SetupError(
                "USAGE", details="--ddl SOURCE stands alone: give no SQL, --subject or --message beside it"
            )
        else:
            described, commit_ts = _tables_of(tables, db, table)
            entry = record_tables({"commit_ts": commit_ts if at is None else None, **body}, described, histories)
        result = histories.track(entry.changefeed, Batch(records=list(entry.records)), strict=True)
    for record in entry.records if len(entry.records) == 1 else ():
        outcome = "known already" if result.copies else "kept"
        print_line(f"history snapshot: {record.db}.{record.table} since commit_ts {record.commit_ts}: {outcome}")
    if len(entry.records) > 1:
        since = f"since commit_ts {entry.records[0].commit_ts}"
        print_line(f"history snapshot: {result.new} tables {since} kept, {result.copies} known already")


def _first_message(file: str) -> Any:
    """The JSON of a file's first line. SetupError USAGE."""
    try:
        with open(file, encoding="utf-8-sig") as lines:
            return json.loads(next(lines, ""))
    except (OSError, ValueError, RecursionError) as error:
        details = f"--message {file}: a line of JSON with key_b64 and value_b64 is needed: {reason_of(error)}"
        raise SetupError("USAGE", details=details) from None


def _named(db: str | None, table: str | None) -> tuple[str | None, str | None]:
    """--db and --table, None for what is not chosen."""
    db, table = split_table(db or "", table or "")
    return db or None, table or None


def _tables_of(source: str, db: str, only: str) -> tuple[list[Table], int | None]:
    """The tables of a source, by name, and of which commit_ts they are. SetupError USAGE."""
    from ticdc_bridge.cli.table_sources import read_tables
    from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
    from ticdc_bridge.schemas.ddl.executor.versions import apply_text

    read, catalog = read_tables(source, db), new_catalog()
    try:
        for one in read.statements:
            catalog, _ = apply_text(catalog, one)
    except DdlError as error:
        raise SetupError("USAGE", details=f"--ddl {source}: {error.detail}") from None
    every = sorted((table for database in catalog.databases for table in database.tables), key=lambda t: t.id)
    named = [table for table in every if not only or table.id.table.lower() == only.lower()]
    if not named:
        raise SetupError("USAGE", details=f"--ddl {source}: it has no table {only or 'at its end'}")
    return named, read.commit_ts


@history.command("diff")
def history_diff(
    earlier: Earlier,
    later: Later,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DATABASE", help="Only the tables of this database.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="[DB.]TABLE", help="Only this table (of --db), by its name at any time."),
    ] = None,
    inclusive: Annotated[
        bool,
        typer.Option("--inclusive", help="With the DDL at each of these very commit_ts, as rows after it have it."),
    ] = False,
    changefeed: Feed = None,
    format_: Annotated[
        Literal["text", "json"], typer.Option("--format-out", "--format", help="text, or one JSON object.")
    ] = "text",
    store: StoreUrl = None,
) -> None:
    """Print what changed between two times: tables created, dropped, renamed, and their columns, keys and options.

    As in `at`, a time stands for the tables that a row with this commit_ts has: the DDL at that very commit_ts is not
    in it without --inclusive. Exit code 0: nothing differs. 1: something does. 3: nothing that is known differs, but a
    table can't be compared. 2: wrong usage, or a store that can't be read.

    Examples:
      ticdc-bridge history diff 2026-11-01T00:00:00Z 2026-11-21T12:00:00Z --db shop
    """
    from ticdc_bridge.service.history.diff import Period, diff, text
    from ticdc_bridge.service.history.model import tso_of

    with _open_histories(store, reads=True) as (histories, _):
        period = Period(tso_of(earlier), tso_of(later), inclusive)
        form = diff(histories.span(changefeed, period, *_named(db, table))).form()
    if format_ == "json":
        print(json.dumps(form, ensure_ascii=False))
    else:
        print("\n".join(text(form)))
    if form["databases"] or form["counts"].keys() - {"unknown"}:
        raise typer.Exit(1)
    if form["counts"]:
        raise typer.Exit(3)


@history.command("export")
def history_export(
    form: Annotated[
        Literal["sql", "jsonl"],
        typer.Option("--format-out", "--format", help="sql, or JSON lines as --ddl takes them."),
    ] = "sql",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TSO|TIME", help="The tables at this time. [sql: newest; jsonl: all versions]"),
    ] = None,
    inclusive: Annotated[
        bool, typer.Option("--inclusive", help="With the DDL at that very commit_ts, as rows after it have it.")
    ] = False,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DATABASE", help="Only the tables of this database.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="[DB.]TABLE", help="Only this table (of --db).")
    ] = None,
    ddl_time_zone: DdlZone = None,
    changefeed: Feed = None,
    store: StoreUrl = None,
) -> None:
    """Print tables of a history: CREATE TABLE statements that TiDB runs, or JSON lines with every version.

    Both are what --ddl of decode, transcode, merge and check-ddl takes. A table that is not known exactly is left out
    and counted, with the reason. Exit code 0; 1 where something was left out; 2 where it can't start.

    Examples:
      ticdc-bridge history export --at 2026-11-21T12:00:00Z --db shop > shop.sql
    """
    from ticdc_bridge.service.history.export import HistoryExport
    from ticdc_bridge.service.history.model import tso_of

    with _open_histories(store, reads=True) as (histories, _):
        feed, (db, table) = histories.changefeed(changefeed), _named(db, table)
        histories.check_known(feed.name, db, table)
        export = HistoryExport(form, tso_of(at) if at else None, inclusive, ddl_time_zone)
        for line in export.lines(feed.name, histories.histories(feed.name, db, table)):
            print(line)
    for one in export.left_out:
        print_line(f"history export: left out {one}")
    print_line(f"history export: tables {export.tables}, versions {export.versions}, left out {len(export.left_out)}")
    if export.left_out:
        raise typer.Exit(1)


@history.command("rebuild")
def history_rebuild(
    changefeed: Annotated[
        str | None, typer.Option("--changefeed", metavar="NAME", help="One history. [all of them]")
    ] = None,
    every: All = False,
    store: StoreUrl = None,
) -> None:
    """Apply again the DDL that was not understood, and what depends on it: after an upgrade that understands more.

    Exit code 0; 1 where some is not understood still; 2 where it can't start.
    """
    left = 0
    with _open_histories(store) as (histories, _):
        names = [changefeed] if changefeed else [one.name for one in histories.changefeeds()]
        for name in names:
            histories.changefeed(name)
            done = histories.rebuild(name, everything=every)
            left += done.failed
            print_line(
                f"history rebuild: {name}: {done.events} applied, {done.healed} healed, {done.failed} not understood"
            )
    if left:
        raise typer.Exit(1)
