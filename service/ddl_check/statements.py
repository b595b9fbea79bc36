"""SQL text → statements, and what each says in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from schemas.ddl.parser.action_types import action_type
from schemas.ddl.parser.lexer import OP, LexicalMode, position, tokens, unknown_mode
from schemas.ddl.parser.statement_parser import parse
from schemas.ddl.parser.statements import (
    AlterDatabase,
    AlterTable,
    Clause,
    CreateDatabase,
    CreateRelation,
    CreateTable,
    DropDatabase,
    DropTables,
    FlashbackDatabase,
    NoColumnEffect,
    NoRowEffect,
    RecoverTable,
    RenameTables,
    Statement,
    TruncateTable,
)
from schemas.model.errors import DdlError
from service.ddl_check.descriptions import CLAUSES, describe_statement

MAX_STATEMENTS: Final = 1000


class StatementText(NamedTuple):
    """One statement of a text; line counts from 1."""

    sql: str
    line: int


def split(text: str, mode: LexicalMode) -> list[StatementText]:
    """The statements of a text, without the `;` between them. A text that is no SQL stays in one piece.

    DdlError DDL_NOT_APPLICABLE for more than MAX_STATEMENTS.
    """
    try:
        all_tokens = tokens(text, mode)
    except DdlError:
        return [_piece(text, 0, len(text))] if text.strip() else []
    pieces, start, first = list[StatementText](), 0, None
    for token in all_tokens[:-1]:
        if token.kind == OP and token.upper == ";":
            if first is not None:
                pieces.append(_piece(text, first, token.start))
            start, first = token.end, None
        elif first is None:
            # Comments before a statement are not its own, but what opens an executable comment is.
            between = text[start : token.start]
            opened = re.search(r"/\*[!T]", between)
            first = start + opened.start() if opened else token.start
        if len(pieces) > MAX_STATEMENTS:
            raise DdlError("DDL_NOT_APPLICABLE", details=f"more than {MAX_STATEMENTS} statements; check them in parts")
    if first is not None:
        pieces.append(_piece(text, first, len(text)))
    return pieces


def _piece(text: str, start: int, end: int) -> StatementText:
    return StatementText(
        text[start:end].strip(), position(text, start + len(text[start:end]) - len(text[start:end].lstrip()))[0]
    )


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement as it was understood.

    kind: its first words. reaches: whether TiCDC sends it (upstream ticdc `pkg/filter/ddl.go`). statement None: it is
    no DDL (`rows` says whether its rows reach the changefeed), or it was not understood (`error` says why). refused:
    TiDB's own grammar does not have it.
    """

    sql: str
    line: int
    db: str
    kind: str
    clauses: tuple[str, ...] = ()
    statement: Statement | None = None
    ddl_type: int | None = None
    reaches: bool = True
    note: str = ""
    error: str = ""
    refused: bool = False


_KINDS: dict[type, str] = {
    CreateDatabase: "CREATE DATABASE", AlterDatabase: "ALTER DATABASE", DropDatabase: "DROP DATABASE",
    FlashbackDatabase: "FLASHBACK DATABASE", CreateTable: "CREATE TABLE", AlterTable: "ALTER TABLE",
    RenameTables: "RENAME TABLE", TruncateTable: "TRUNCATE TABLE", RecoverTable: "RECOVER TABLE",
}  # fmt: skip

# First word, or two, of a statement that is no DDL → what it means for a changefeed.
_ROWS = "It changes rows, not columns: the changefeed sends them with the schema it has"
_SESSION = "It changes the session only"
_READS = "It reads only"
_NO_DDL: dict[str, str] = {
    **dict.fromkeys(("INSERT", "REPLACE", "UPDATE", "DELETE", "BATCH"), _ROWS),
    **dict.fromkeys(("SELECT", "SHOW", "EXPLAIN", "DESC", "DESCRIBE", "TABLE", "VALUES", "WITH", "TRACE", "HELP"),
                    _READS),
    **dict.fromkeys(("SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PREPARE",
                     "DEALLOCATE", "DO", "KILL"), _SESSION),
    **dict.fromkeys(("GRANT", "REVOKE", "FLUSH", "ANALYZE", "SPLIT", "REFRESH STATS", "SHUTDOWN", "RESTART",
                     "RECOMMEND", "CALIBRATE", "QUERY", "PLAN", "TRAFFIC", "CANCEL", "DISTRIBUTE", "PAUSE", "RESUME",
                     "PURGE"),
                    "It changes no table's columns"),
    **dict.fromkeys(("LOAD", "IMPORT", "RESTORE"),
                    "It brings rows in without changing columns; rows of a physical import (IMPORT INTO, RESTORE, "
                    "Lightning) do not reach a changefeed"),
    "BACKUP": "It changes nothing",
}  # fmt: skip

# What changes in TiDB without an event (upstream ticdc `pkg/filter/ddl.go` has what is sent).
_NOT_SENT = {
    "SET TIFLASH REPLICA", "CACHE", "NOCACHE", "ATTRIBUTES", "PARTITION", "STATS_OPTIONS", "COMPACT",
    "ANALYZE PARTITION", "AUTO_RANDOM_BASE", "ADD STATS_EXTENDED", "DROP STATS_EXTENDED", "ALTER CHECK", "DROP CHECK",
    "VALIDATION", "ENABLE KEYS", "DISABLE KEYS", "ORDER BY", "ALGORITHM", "LOCK", "FORCE",
}  # fmt: skip
_SET_MODE = re.compile(
    r"SET\s+(?:(?:SESSION|LOCAL)\s+|@@(?:(?:SESSION|LOCAL)\.)?)?SQL_MODE\s*:?=\s*(['\"])([\w,\s]*)\1\s*", re.IGNORECASE
)
_SET_CHECKS = re.compile(
    r"SET\s+(?:SESSION\s+|@@(?:SESSION\.)?)?FOREIGN_KEY_CHECKS\s*:?=\s*'?(0|1|ON|OFF|DEFAULT)'?\s*", re.IGNORECASE
)
_USE = re.compile(r"USE\s+(?:`((?:[^`]|``)+)`|([\w$]+))\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Session:
    """Where statements are typed: the current database, how their text is read, and the sql_mode.

    sql_mode None: TiDB's default. foreign_key_checks: on by default.
    """

    db: str
    mode: LexicalMode
    sql_mode: str | None = None
    foreign_key_checks: bool = True

    def after_statement(self, sql: str) -> Session:
        """After USE, SET sql_mode and SET foreign_key_checks; anything else changes nothing."""
        used = _USE.fullmatch(sql)
        if used:
            return replace(self, db=(used[1] or "").replace("``", "`") or used[2])
        checks = _SET_CHECKS.fullmatch(sql)
        if checks:
            return replace(self, foreign_key_checks=checks[1].upper() not in ("0", "OFF"))
        chosen = _SET_MODE.fullmatch(sql)
        return replace(self, mode=LexicalMode.of_sql_mode(chosen[2]), sql_mode=chosen[2]) if chosen else self


def unknown_mode_set(sql: str) -> str:
    """The mode of a SET sql_mode that TiDB does not know; "" for any other statement."""
    chosen = _SET_MODE.fullmatch(sql)
    return unknown_mode(chosen[2]) if chosen else ""


def understand(piece: StatementText, session: Session) -> ParsedStatement:
    """A statement, understood or not."""
    sql, db = piece.sql, session.db
    words = re.match(r"[(\s]*([A-Za-z]+)\s*([A-Za-z]*)", sql)
    first = words[1].upper() if words else ""
    note = _NO_DDL.get(first) or _NO_DDL.get(f"{first} {words[2].upper()}" if words else "")
    if note:
        return ParsedStatement(sql, piece.line, db, first, reaches=False, note=note)
    try:
        statement = parse(sql, session.mode, db)
    except DdlError as error:
        refused = error.code == "DDL_REFUSED"
        return ParsedStatement(sql, piece.line, db, first or "nothing known", error=error.detail, refused=refused)
    result = ParsedStatement(
        sql, piece.line, db, _kind(statement), statement=statement, ddl_type=action_type(statement)
    )
    note = _unsent_reason(statement)
    return replace(result, clauses=tuple(_words(statement)), reaches=not note, note=note)


def _kind(statement: Statement) -> str:
    match statement:
        case DropTables():
            return f"DROP {statement.kind.upper()}"
        case CreateRelation():
            return f"CREATE {statement.kind.upper()}"
        case NoRowEffect():
            return statement.what
        case CreateTable() if statement.like:
            return "CREATE TABLE … LIKE"
    return _KINDS[type(statement)]


def _unsent_reason(statement: Statement) -> str:
    """Why no event of it reaches a changefeed; "" when one does."""
    match statement:
        case CreateRelation(kind="sequence") | DropTables(kind="sequence"):
            return "Sequences do not reach a changefeed"
        case NoRowEffect():
            return f"{statement.what} does not reach a changefeed"
        case CreateTable(temporary="local") | DropTables(temporary="local"):
            return "A temporary table is the session's own: no changefeed sees it"
        case AlterTable() if statement.clauses and all(_is_silent(c) for c in statement.clauses):
            return "Nothing of it reaches a changefeed, and no column changes"
    return ""


def _is_silent(clause: Clause) -> bool:
    return isinstance(clause, NoColumnEffect) and clause.what in _NOT_SENT


def _words(statement: Statement) -> Iterator[str]:
    match statement:
        case AlterTable():
            yield from (CLAUSES[type(c)](c) for c in statement.clauses)
            if not statement.clauses:
                yield "nothing that is sent"
        case _:
            yield describe_statement(statement)
