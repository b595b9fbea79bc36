"""`history`: the version history of TiDB's tables, from recorded DDL."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import typer

from ticdc_bridge.cli.options import DDL_ZONE, DEFINITIONS, INPUT, StoreOptions, argument, flag, format_out, option
from ticdc_bridge.cli.output import ServiceCommand, choose_source, exit_with, load_settings
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of, usage_errors
from ticdc_bridge.service.server.logs import print_line

if TYPE_CHECKING:
    from ticdc_bridge.schemas.model.table import Table
    from ticdc_bridge.service.registry.view import RegistryView
    from ticdc_bridge.service.store.history_store import HistoryStore

_DB: Final[Any] = option(INPUT, "DATABASE", "Only the tables of this database.")
_INCLUSIVE: Final[Any] = flag(None, "--inclusive", "Include a DDL with exactly this commit_ts.")


@dataclass(kw_only=True)
class Replay(ServiceCommand):
    """Replay a recorded DDL history and print each statement's tables as they are after it.

    A line in: {"script","seq","db","ddl","sql_mode","ok","wire":[{"ts","scm","tbl","t","q"}]}. A line out:
    {"script","seq","ok","error","tables","gone"}. Catalogs start empty at each new script. A statement that could not
    be read or applied has "ok" false and says why; the exit code is 0 all the same, 2 where FILE is no history.

    Examples:
      ticdc-bridge history replay ddl.jsonl --mode typed
    """

    file: str | None = argument("FILE", "JSON lines of a recorded DDL history; - is standard input.")
    source: str | None = option(INPUT, "FILE", "The same.", "--in")
    mode: Literal["wire", "typed"] = option(
        None, None, "wire: the statements as TiCDC sends them; typed: as they were typed.", default="wire"
    )

    def run(self) -> None:
        from ticdc_bridge.service.history.table_json import replay

        done, failed, file = 0, 0, choose_source("FILE", self.file, self.source)
        try:
            with open(0 if file == "-" else file, encoding="utf-8-sig", closefd=file != "-") as lines:
                for result in replay(lines, self.mode):
                    print(json.dumps(result, ensure_ascii=False))
                    done, failed = done + 1, failed + (not result["ok"])
        except BrokenPipeError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            exit_with(f"{file}: {reason_of(error)}")
        print_line(f"history replay: {done} statements, {failed} that could not be read or applied")


@dataclass(kw_only=True)
class HistoryCommand(StoreOptions, ServiceCommand):
    """A command on a store's histories."""

    wrong: ClassVar = (OSError, ValueError)
    changefeed: str | None = option(DEFINITIONS, "NAME", "The changefeed whose history is meant. [the only one]")

    @contextmanager
    def histories(self, *, reads: bool = True) -> Iterator[tuple[HistoryStore, RegistryView]]:
        """The store's histories. reads: it must exist."""
        from ticdc_bridge.service.registry.registry import Registry
        from ticdc_bridge.service.registry.view import RegistryView
        from ticdc_bridge.service.store import open_store, store_exists
        from ticdc_bridge.service.store.history_store import HistoryStore

        settings = load_settings(store=self.store)
        if reads and not store_exists(settings.store):  # opening one makes it
            exit_with(f"--store {settings.store}: there is no such file: `serve` and `track` make it")
        store = open_store(settings.store, wait_seconds=settings.store_wait_seconds)
        try:
            yield HistoryStore(store), RegistryView(Registry(store))
        finally:
            store.close()


@dataclass(kw_only=True)
class Snapshot(HistoryCommand):
    """Give a history that began in the middle the definition of a table, or of many, at a commit_ts.

    Without --at, tables of a live TiDB are valid from the time they were read. Exit code 0; 2 if the snapshot
    can't be read.

    Examples:
      mysql -Ne 'SHOW CREATE TABLE orders\\G' shop | tail -n +3 | ticdc-bridge history snapshot - --db shop
    """

    sql: str | None = argument("SQL", "What SHOW CREATE TABLE printed; - is standard input.")
    db: str = option(INPUT, "DATABASE", "The table's database.", default="")
    table: str = option(
        INPUT, "[DB.]TABLE", "The table's name, if the source has another. With --ddl: only this table.", default=""
    )
    ddl: str | None = option(
        DEFINITIONS, "SOURCE",
        "Many tables at once: a file of SQL or DDL, a dump's folder, or mysql://USER@HOST:4000/DB.",
    )  # fmt: skip
    subject: str | None = option(None, "SUBJECT", "A registered subject, which describes the table in part.")
    version: int | None = option(None, "N", "The subject's version. [the newest]")
    message: str | None = option(None, "FILE", "A message that describes it: one line, key_b64, value_b64.")
    at: str | None = option(INPUT, "TSO|TIME", "Valid from this time. [the resolved ts of the history]")

    def run(self) -> None:
        from ticdc_bridge.service.history.manual_entry import record_snapshot, record_tables
        from ticdc_bridge.service.history.model import Batch

        db, table = _split_table(self.db, self.table)
        body: dict[str, object] = {"db": db, "table": table, "changefeed": self.changefeed}
        with self.histories(reads=False) as (histories, view):
            if self.sql is not None:
                body["query"] = sys.stdin.read() if self.sql == "-" else self.sql
            if self.subject is not None:
                body |= {"subject": self.subject, "version": self.version}
            if self.message is not None:
                body["message"] = _first_message(self.message)
            if self.at is not None:
                body["time"] = self.at
            if self.ddl is None:
                records = record_snapshot(body, histories, view)
            elif body.keys() & {"query", "subject", "message"}:
                details = "--ddl SOURCE stands alone: give no SQL, --subject or --message beside it"
                raise SetupError("USAGE", details=details)
            else:
                described, commit_ts = _tables_of(self.ddl, db, table)
                body = {"commit_ts": commit_ts if self.at is None else None, **body}
                records = record_tables(body, described, histories)
            result = histories.track(records[0].changefeed, Batch(records=records), strict=True)
        for record in records if len(records) == 1 else ():
            outcome = "known already" if result.copies else "kept"
            print_line(f"history snapshot: {record.db}.{record.table} since commit_ts {record.commit_ts}: {outcome}")
        if len(records) > 1:
            since = f"since commit_ts {records[0].commit_ts}"
            print_line(f"history snapshot: {result.new} tables {since} kept, {result.copies} known already")


def _first_message(file: str) -> Any:
    """The JSON of a file's first line. SetupError USAGE."""
    what = f"--message {file}: a line of JSON with key_b64 and value_b64 is needed"
    with usage_errors(what, OSError, ValueError, RecursionError), open(file, encoding="utf-8-sig") as lines:
        return json.loads(next(lines, ""))


def _split_table(db: str | None, table: str | None) -> tuple[str, str]:
    """The database and the name of --db and --table, which may be DB.TABLE where no database is given."""
    before, dot, after = (table or "").partition(".")
    return (before, after) if dot and not db else (db or "", table or "")


def _tables_of(source: str, db: str, only: str) -> tuple[list[Table], int | None]:
    """The tables of a source, by name, and of which commit_ts they are. SetupError USAGE."""
    from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
    from ticdc_bridge.schemas.ddl.executor.versions import apply_text
    from ticdc_bridge.schemas.inputs.table_sources import definition_source, read_statements

    read, catalog = read_statements(definition_source(source), db), new_catalog()
    with usage_errors(f"--ddl {source}", DdlError):
        for statement in read.statements:
            catalog, _ = apply_text(catalog, statement)
    every = sorted((table for database in catalog.databases for table in database.tables), key=lambda t: t.id)
    named = [table for table in every if not only or table.id.table.lower() == only.lower()]
    if not named:
        raise SetupError("USAGE", details=f"--ddl {source}: it has no table {only or 'at its end'}")
    return named, read.commit_ts


@dataclass(kw_only=True)
class Diff(HistoryCommand):
    """Print what changed between two times: tables created, dropped, renamed, and their columns, keys and options.

    A time stands for the tables that a row with this commit_ts has: a DDL with exactly this commit_ts is left out
    without --inclusive. Exit code 0: nothing differs. 1: something does. 3: nothing that is known differs, but a
    table can't be compared. 2: wrong usage, or a store that can't be read.

    Examples:
      ticdc-bridge history diff 2026-11-01T00:00:00Z 2026-11-21T12:00:00Z --db shop
    """

    earlier: str = argument("FROM", "The earlier time: a commit_ts or an RFC 3339 time.", ...)
    later: str = argument("TO", "The later time.", ...)
    db: str | None = _DB
    table: str | None = option(INPUT, "[DB.]TABLE", "Only this table (of --db), by its name at any time.")
    inclusive: bool = _INCLUSIVE
    format: Literal["text", "json"] = format_out("text, or one JSON object.")

    def run(self) -> int:
        from ticdc_bridge.service.history.diff import Period, diff, text
        from ticdc_bridge.service.history.model import tso_of

        with self.histories() as (histories, _):
            period = Period(tso_of(self.earlier), tso_of(self.later), self.inclusive)
            db, table = _split_table(self.db, self.table)
            form = diff(histories.span(self.changefeed, period, db or None, table or None)).form()
        print(json.dumps(form, ensure_ascii=False) if self.format == "json" else "\n".join(text(form)))
        if form["databases"] or form["counts"].keys() - {"unknown"}:
            return 1
        return 3 if form["counts"] else 0


@dataclass(kw_only=True)
class Export(HistoryCommand):
    """Print tables of a history: CREATE TABLE statements that TiDB runs, or JSON lines with every version.

    Both are what --ddl of decode, transcode, merge and check-ddl takes. A table that is not known exactly is left out
    and counted, with the reason. Exit code 0; 1 if something was left out; 2 if it can't start.

    Examples:
      ticdc-bridge history export --at 2026-11-21T12:00:00Z --db shop > shop.sql
    """

    format: Literal["sql", "jsonl"] = format_out("sql, or JSON lines as --ddl takes them.", "sql")
    at: str | None = option(INPUT, "TSO|TIME", "The tables at this time. [sql: newest; jsonl: all versions]")
    inclusive: bool = _INCLUSIVE
    db: str | None = _DB
    table: str | None = option(INPUT, "[DB.]TABLE", "Only this table (of --db).")
    ddl_time_zone: str | None = DDL_ZONE

    def run(self) -> int:
        from ticdc_bridge.service.history.export import HistoryExport
        from ticdc_bridge.service.history.model import tso_of

        with self.histories() as (histories, _):
            feed, names = histories.changefeed(self.changefeed), _split_table(self.db, self.table)
            db, table = names[0] or None, names[1] or None
            histories.check_known(feed.name, db, table)
            at = tso_of(self.at) if self.at else None
            export = HistoryExport(self.format, at, self.inclusive, self.ddl_time_zone)
            for line in export.lines(feed.name, histories.histories(feed.name, db, table)):
                print(line)
        for reason in export.left_out:
            print_line(f"history export: left out {reason}")
        left_out = len(export.left_out)
        print_line(f"history export: tables {export.tables}, versions {export.versions}, left out {left_out}")
        return 1 if left_out else 0


@dataclass(kw_only=True)
class Rebuild(HistoryCommand):
    """Apply again the DDL that was not understood, and what depends on it: after an upgrade that understands more.

    Exit code 0; 1 if some DDL is still not understood; 2 if it can't start.
    """

    changefeed: str | None = option(DEFINITIONS, "NAME", "The changefeed whose history is rebuilt. [all]")
    everything: bool = flag(None, "--all", "Rebuild all versions, not only those after events that failed.")

    def run(self) -> int:
        left = 0
        with self.histories() as (histories, _):
            for name in [self.changefeed] if self.changefeed else [feed.name for feed in histories.changefeeds()]:
                histories.changefeed(name)
                done = histories.rebuild(name, everything=self.everything)
                left += done.failed
                counts = f"{done.events} applied, {done.healed} healed, {done.failed} not understood"
                print_line(f"history rebuild: {name}: {counts}")
        return 1 if left else 0


history = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="The version history of TiDB's tables."
)
for _command in (Replay, Snapshot, Diff, Export, Rebuild):
    history.command(_command.__name__.lower())(_command.as_function())
