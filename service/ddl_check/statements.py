"""SQL text → statements, and what each says in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.parser.action_types import action_type
from ticdc_bridge.schemas.ddl.parser.lexer import END, OP, LexicalMode, position, readable_tokens, tokens
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import (
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
from ticdc_bridge.schemas.inputs.sql_files import pieces
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.ddl_check.descriptions import CLAUSES, describe_statement
from ticdc_bridge.service.ddl_check.session import Session, set_note

MAX_STATEMENTS: Final = 1000
SYNTAX_ERROR: Final = 1064


class StatementText(NamedTuple):
    """One statement of a text; line counts from 1. end: where it ends in the text."""

    sql: str
    line: int
    end: int = 0


def split(text: str, mode: LexicalMode, start: int = 0) -> list[StatementText]:
    """The statements of a text from a place on, without the `;` between them. What is no SQL stays in one piece.

    DdlError DDL_NOT_APPLICABLE for more than MAX_STATEMENTS.
    """
    try:
        found = readable_tokens(text[start:], mode)
    except DdlError:
        return [_piece(text, start, len(text))] if text[start:].strip() else []
    pieces, first, offset = list[StatementText](), None, start
    for token in (one._replace(start=one.start + offset, end=one.end + offset) for one in found if one.kind != END):
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
    if first is not None or (start < len(text) and not (found and found[-1].kind == END)):
        pieces.append(_piece(text, start if first is None else first, len(text)))
    return pieces


def _piece(text: str, start: int, end: int) -> StatementText:
    written = text[start:end]
    return StatementText(written.strip(), position(text, start + len(written) - len(written.lstrip()))[0], end)


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement as it was understood.

    kind: its first words. reaches: whether TiCDC sends it (upstream ticdc `pkg/filter/ddl.go`). statement None: it is
    no DDL (`note` says what it does), or it was not understood (`error` says why). refused: TiDB's error number, where
    TiDB runs none of its kind.
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
    refused: int = 0


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

# What TiDB reads and does not do (upstream `pkg/planner/core/planbuilder.go`).
_NOT_DONE = {"OPTIMIZE TABLE": (8200, "OPTIMIZE TABLE is not supported")}
# Of MySQL, by the first words, and not in TiDB's grammar.
_NOT_GRAMMAR = (
    "BINLOG", "CACHE INDEX", "CHANGE MASTER", "CHANGE REPLICATION", "CHECK TABLE", "CHECKSUM", "CLONE", "HANDLER",
    "INSTALL", "REPAIR", "UNINSTALL", "XA",
)  # fmt: skip
# What changes in TiDB without an event (upstream ticdc `pkg/filter/ddl.go` has what is sent).
_NOT_SENT = {
    "SET TIFLASH REPLICA", "CACHE", "NOCACHE", "ATTRIBUTES", "PARTITION", "STATS_OPTIONS", "COMPACT",
    "ANALYZE PARTITION", "AUTO_RANDOM_BASE", "ADD STATS_EXTENDED", "DROP STATS_EXTENDED", "ALTER CHECK", "DROP CHECK",
    "WITH VALIDATION", "WITHOUT VALIDATION", "ENABLE KEYS", "DISABLE KEYS", "ORDER BY", "ALGORITHM", "LOCK", "FORCE",
}  # fmt: skip


def understand(piece: StatementText, session: Session) -> ParsedStatement:
    """A statement, understood or not; of EXECUTE the one that it runs."""
    sql, db = session.executed(piece.sql) or piece.sql, session.db
    try:
        words = [token.upper for token in tokens(sql, session.mode) if token.upper != "("][:2]
    except DdlError as error:
        return _not_read(sql, piece.line, db, "nothing known", error)
    first, two = words[0], " ".join(words)
    note = _NO_DDL.get(first) or _NO_DDL.get(two)
    if note:
        note += set_note(session.assignments(sql))
        return ParsedStatement(sql, piece.line, db, first, reaches=False, note=note)
    number, text = _NOT_DONE.get(two, (0, ""))
    if first in _NOT_GRAMMAR or two in _NOT_GRAMMAR:
        number, text = SYNTAX_ERROR, f"TiDB has no {first}"
    if number:
        return ParsedStatement(sql, piece.line, db, two, error=text, refused=number)
    try:
        statement = parse(sql, session.mode, db)
    except DdlError as error:
        return _not_read(sql, piece.line, db, first or "nothing known", error)
    result = ParsedStatement(
        sql, piece.line, db, _kind(statement), statement=statement, ddl_type=action_type(statement)
    )
    note = _unsent_reason(statement)
    return replace(result, clauses=tuple(_words(statement)), reaches=not note, note=note)


def _not_read(sql: str, line: int, db: str, kind: str, error: DdlError) -> ParsedStatement:
    refused = SYNTAX_ERROR if error.code == "DDL_REFUSED" else 0
    return ParsedStatement(sql, line, db, kind, error=error.detail, refused=refused)


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


# ---- scripts of other programs as plain SQL
_LIQUIBASE: Final = re.compile(r"\s*--\s*liquibase\s+formatted\s+sql\b", re.IGNORECASE)
_MARK: Final = re.compile(r"^--(?=\w)", re.MULTILINE)
_CLIENT: Final = re.compile(r"^[ \t]*delimiter[ \t]|\\g", re.IGNORECASE | re.MULTILINE)
_SENT: Final = re.compile(r"\\[gG]")
_COMMENTS: Final = ("--", "#", "/*")
_RUN: Final = ("/*!", "/*T!")


def plain_script(text: str, backslashes: bool) -> str:
    """The script with a `;` after each statement. backslashes: they escape in texts.

    Of Liquibase, its own comments get the blank that SQL wants. Of mysql's client, lines of DELIMITER go and \\g,
    \\G and delimiters are `;`; a `;` within a statement, which only bodies of triggers and routines have, goes. Each
    statement stays at its place.
    """
    if _LIQUIBASE.match(text):
        text = _MARK.sub("-- ", text)
    return _without_client(text, backslashes) if _CLIENT.search(text) else text


def _without_client(text: str, backslashes: bool) -> str:
    out, delimiter, at, begun = list[str](), ";", 0, False
    while match := pieces(delimiter, backslashes).search(text, at):
        gap = text[at : match.start()]
        out.append(_between(gap, delimiter))
        begun = begun or bool(gap.strip())
        if match["end"]:
            out.append(";".ljust(len(delimiter)))
            begun = False
        elif match["new"] and not begun:
            delimiter = match["new"]
            out.append(" " * len(match[0]))
        else:
            out.append(match[0])
            begun = begun or not match[0].startswith(_COMMENTS) or match[0].startswith(_RUN)
        at = match.end()
    return "".join((*out, _between(text[at:], delimiter)))


def _between(gap: str, delimiter: str) -> str:
    return _SENT.sub("; ", gap if delimiter == ";" else gap.replace(";", " "))
