"""`check-ddl --try`: a TiDB runs the statements in scratch databases, and says what it refuses and what each table is.

Only statements about base tables are run, with every database that they name replaced by a scratch database of this
run; a statement in which that is not certain is not run. The scratch databases are dropped at the end in every case.
"""

from __future__ import annotations

import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.show_create import create_statement
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.ddl.parser.lexer import QUOTED, SHOW, TYPED, WORD, LexicalMode, tokens
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.inputs.live_tables import ServerAddress, connect, error_reason
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.ddl_check.refusals import keys
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal
from ticdc_bridge.service.ddl_check.statements import Session

T = TypeVar("T")
_NO_RIGHT: Final = (1044, 1045, 1142, 1227, 8121)
_NO_TABLE: Final = 1146
_CLIENT_ERRORS: Final = range(2000, 3000)  # the connection's, not TiDB's


@dataclass(frozen=True, slots=True)
class TrialResult:
    """untried: why TiDB was not asked, "" where it was. refusals: TiDB's error. tables: by folded id, each touched
    table after the statement as TiDB has it, None where there is none or it can't be read here."""

    untried: str = ""
    refusals: tuple[Refusal, ...] = ()
    tables: Mapping[TableId, Table | None] = field(default_factory=dict)


class _Untried(Exception):
    """Why a statement is not run."""


@contextmanager
def open_trial(address: ServerAddress, client: Any, definitions: Sequence[DdlText]) -> Iterator[Trial]:
    """A trial in a TiDB, through PyMySQL. SetupError USAGE where it can't be reached or no database be made.

    definitions: the statements that made the tables; one that is not in them is made of what the catalog knows.
    """
    trial = Trial(address, client, definitions)
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) if in_main else None
    try:
        trial.start()
        yield trial
    finally:
        trial.close()
        if in_main:
            signal.signal(signal.SIGTERM, before)


class Trial:
    """The scratch databases of one run, and the tables that are in them."""

    def __init__(self, address: ServerAddress, client: Any, definitions: Sequence[DdlText]) -> None:
        self._address, self._client, self._definitions = address, client, definitions
        self._connection: Any = None
        self._name = f"ticdc_bridge_try_{secrets.token_hex(8)}"
        self._scratch: dict[str, str] = {}
        self._loaded: set[TableId] = set()
        self._replayed: set[int] = set()

    def start(self) -> None:
        try:
            self._connection = connect(self._address, self._client, autocommit=True)
            (version,) = self._query("SELECT VERSION()")[0]
            self._execute("SET time_zone = '+00:00'")
        except (self._client.MySQLError, OSError, RuntimeError) as error:
            raise self._failure(error) from None
        if "tidb" not in version.lower():
            raise SetupError("USAGE", details=f"--try {self._address.name}: it is {version}, no TiDB")
        self._database("test")

    def close(self) -> None:
        """Drops the scratch databases, over a connection of its own: the other may be in the middle of an answer."""
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
        try:
            with suppress(Exception):
                self._connection.close()
            if self._scratch:
                self._connection = connect(self._address, self._client, autocommit=True)
                for name in self._scratch.values():
                    self._execute(f"DROP DATABASE IF EXISTS {quote_name(name)}")
                self._connection.close()
        except (self._client.MySQLError, OSError, RuntimeError) as error:
            names = ", ".join(self._scratch.values())
            details = f"--try {self._address.name}: {error_reason(error)}. Drop what may be left there: {names}"
            raise SetupError("USAGE", details=details) from None
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before)

    def run(self, sql: str, statement: ddl.Statement, db: str, catalog: Catalog, session: Session) -> TrialResult:
        """One statement on the tables of the catalog, and on what the statements before it have made of them."""
        try:
            ids = affected_tables(catalog, statement, db)
            self._load(catalog, _asked(catalog, statement, ids, db))
            mapped = self._mapped(sql, session.mode, statement, catalog)
            self._use(db, catalog)
            self._set(session)
        except _Untried as error:
            return TrialResult(str(error))
        if refusal := self._refusal(mapped):
            return TrialResult(refusals=(refusal,))
        self._loaded |= {id_.folded for id_ in ids}
        self._execute("SET sql_mode = ''")  # under ANSI_QUOTES SHOW CREATE TABLE has other quotes
        return TrialResult(tables={id_.folded: self._table(id_, catalog) for id_ in ids})

    # ---- talking to TiDB
    def _failure(self, error: Exception) -> SetupError:
        return SetupError("USAGE", details=f"--try {self._address.name}: {error_reason(error)}")

    def _query(self, sql: str) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def _execute(self, sql: str, *values: object) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)

    def _refusal(self, sql: str) -> Refusal | None:
        """TiDB's error for a statement. SetupError where it could not answer."""
        try:
            self._execute(sql)
        except self._client.MySQLError as error:
            number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
            if not number or number in _CLIENT_ERRORS or number in _NO_RIGHT:
                raise self._failure(error) from None
            text = str(error.args[-1])
            for db, name in self._scratch.items():
                text = text.replace(name, db)
            return Refusal(number, text)
        except OSError as error:
            raise self._failure(error) from None
        return None

    def _set(self, session: Session) -> None:
        if session.sql_mode is None:
            self._execute("SET sql_mode = DEFAULT")
        else:
            self._execute("SET sql_mode = %s", session.sql_mode)
        for name, on in {"foreign_key_checks": True, **session.switches}.items():
            self._execute(f"SET {name} = {int(on)}")

    def _table(self, id_: TableId, catalog: Catalog) -> Table | None:
        name = f"{quote_name(self._database(id_.db, catalog))}.{quote_name(id_.table)}"
        try:
            text = self._query(f"SHOW CREATE TABLE {name}")[0][1]
        except self._client.MySQLError as error:
            if error.args[0] == _NO_TABLE:
                return None
            raise self._failure(error) from None
        try:
            return apply(Catalog(), parse(text, SHOW, id_.db), id_.db).table(id_)
        except DdlError:
            return None

    # ---- scratch databases
    def _database(self, db: str, catalog: Catalog | None = None) -> str:
        """The scratch database that stands for a database; made where there is none yet."""
        known = self._scratch.get(db.lower())
        if known is not None:
            return known
        name = f"{self._name}_{len(self._scratch)}"
        database = catalog.databases.get(db) if catalog else None
        charset = database.charset if database else None
        words = f" CHARACTER SET {charset.name} COLLATE {charset.collate}" if charset and charset.name else ""
        self._scratch[db.lower()] = name
        try:
            self._execute(f"CREATE DATABASE {quote_name(name)}{words}")
        except self._client.MySQLError as error:
            if error.args[0] not in _CLIENT_ERRORS:
                del self._scratch[db.lower()]  # there is none, or somebody else's, which is not ours to drop
            user = self._address.user
            details = (
                f"--try {self._address.name}: no scratch database could be made: {error_reason(error)}. User {user} "
                "needs CREATE, DROP, ALTER, INDEX and REFERENCES on databases `ticdc\\_bridge\\_try\\_%`"
            )
            raise SetupError("USAGE", details=details) from None
        return name

    def _use(self, db: str, catalog: Catalog) -> None:
        self._execute(f"USE {quote_name(self._database(db or 'test', catalog))}")

    def _mapped(self, sql: str, mode: LexicalMode, statement: ddl.Statement, catalog: Catalog) -> str:
        """The statement with scratch databases for those that it names. _Untried where that is not certain."""
        named = [name for name in _names(statement) if name.db]
        tables = {name.table.lower() for name in _names(statement)}
        scratch = {name.db.lower(): self._database(name.db, catalog) for name in named}
        if not tables.isdisjoint(scratch):
            raise _Untried("a table and a database of the statement have one name")
        edits, found = list[tuple[int, int, str]](), tokens(sql, mode)
        for before, token, after in zip([found[-1], *found], found, found[1:], strict=False):
            if token.kind in (WORD, QUOTED) and after.upper == "." and before.upper != ".":
                name = str(token.value).lower()
                if name in scratch:
                    edits.append((token.start, token.end, quote_name(scratch[name])))
                elif name not in tables:
                    raise _Untried(
                        f"{sql[token.start : token.end]} before a dot is no database or table that it is about"
                    )
        mapped = sql
        for start, end, text in reversed(edits):
            mapped = mapped[:start] + text + mapped[end:]
        expected = _changed(statement, lambda name: name._replace(db=scratch[name.db.lower()]) if name.db else name)
        try:
            same = parse(mapped, mode) == expected
        except DdlError:
            same = False
        if not same:
            raise _Untried("it names a database in an expression")
        return mapped

    # ---- tables as they are before
    def _load(self, catalog: Catalog, ids: Sequence[TableId]) -> None:
        """Makes the tables that are not there yet."""
        missing = [id_ for id_ in ids if id_.folded not in self._loaded and catalog.table(id_) is not None]
        self._execute("SET foreign_key_checks = 0")
        replayed = set[TableId]()
        for number, entry, statement in self._history_of({id_.folded for id_ in missing}):
            if number not in self._replayed:
                self._replayed.add(number)
                escapes = "" if entry.mode.backslashes else "NO_BACKSLASH_ESCAPES"
                quotes = "ANSI_QUOTES" if entry.mode.ansi_quotes else ""
                sql_mode = ",".join(filter(None, (escapes, quotes)))
                self._make(entry.query, entry.mode, statement, entry.db, catalog, sql_mode)
            replayed |= {id_.folded for id_ in affected_tables(Catalog(), statement, entry.db)}
        for id_ in missing:
            table = catalog.table(id_)
            if id_.folded not in replayed and table is not None:
                text = create_statement(table)
                self._make(text, TYPED, parse(text, TYPED, id_.db), id_.db, catalog, "")
        self._loaded |= {id_.folded for id_ in missing}

    def _make(
        self, sql: str, mode: LexicalMode, statement: ddl.Statement, db: str, catalog: Catalog, sql_mode: str
    ) -> None:
        mapped = self._mapped(sql, mode, statement, catalog)
        self._use(db, catalog)
        self._execute("SET sql_mode = %s", sql_mode)
        if refusal := self._refusal(mapped):
            names = ", ".join(f"{name.db or db}.{name.table}" for name in _names(statement))
            raise _Untried(f"TiDB does not take {names} as it is known: {refusal.text} (error {refusal.number})")

    def _history_of(self, needed: set[TableId]) -> list[tuple[int, DdlText, ddl.Statement]]:
        """The definitions that made these tables what they are, in order, each with its number among all."""
        chosen = list[tuple[int, DdlText, ddl.Statement]]()
        for number, entry in reversed(list(enumerate(self._definitions)) if needed else []):
            text = entry.query.lower()
            if not any(id_.table in text or "drop" in text for id_ in needed):
                continue
            try:
                statement = parse(entry.query, entry.mode, entry.db)
            except DdlError:
                continue
            if isinstance(statement, ddl.DropDatabase):
                needed = {id_ for id_ in needed if id_.db != statement.name.lower()}
            ids = {id_.folded for id_ in affected_tables(Catalog(), statement, entry.db)}
            if needed.isdisjoint(ids) or not is_tried(statement):
                continue
            if isinstance(statement, ddl.DropTables):
                needed = needed - ids
                continue
            chosen.append((number, entry, statement))
            if not isinstance(statement, ddl.CreateTable):
                needed = needed | ids
            elif statement.like is not None:
                needed = (needed - ids) | {statement.like.in_db(entry.db).folded}
            elif not statement.if_not_exists:
                needed = needed - ids
        return chosen[::-1]


def is_tried(statement: ddl.Statement) -> bool:
    """True if it does something to base tables, and to nothing else of the server: such statements alone are run."""
    match statement:
        case ddl.CreateTable():
            return not (statement.from_select or statement.temporary)
        case ddl.DropTables():
            return statement.kind == "table" and not statement.temporary
    return isinstance(statement, (ddl.AlterTable, ddl.RenameTables, ddl.TruncateTable))


def _asked(catalog: Catalog, statement: ddl.Statement, ids: Sequence[TableId], db: str) -> list[TableId]:
    """The tables that TiDB looks at: those that are touched or named, and what foreign keys lead to and from them."""
    found = dict.fromkeys((*ids, *(name.in_db(db) for name in _names(statement))))
    for id_ in [*found]:
        table = catalog.table(id_)
        found |= dict.fromkeys(key.table for key in (table.details.foreign_keys if table and table.details else ()))
        found |= dict.fromkeys(child.id for child, _ in keys.references(catalog, id_, with_itself=False))
    return [*found]


def _names(value: object) -> Iterator[ddl.TableName]:
    if isinstance(value, ddl.TableName):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from _names(entry)
    elif is_dataclass(value):
        for entry in fields(value):
            yield from _names(getattr(value, entry.name))


def _changed(value: T, change: Callable[[ddl.TableName], ddl.TableName]) -> T:
    """A part of a statement with its tables' names changed."""
    made: Any = value
    if isinstance(value, ddl.TableName):
        made = change(value)
    elif isinstance(value, tuple):
        made = tuple(_changed(entry, change) for entry in value)
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{entry.name: _changed(getattr(value, entry.name), change) for entry in fields(value)})
    return made  # type: ignore[no-any-return]
