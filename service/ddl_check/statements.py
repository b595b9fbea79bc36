"""SQL text → statements, each with what it says in plain words, and the session that USE, SET and PREPARE make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.parser import lexer
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.ddl.parser.action_types import action_type
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode, Token, tokens
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.inputs.sql_files import pieces
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.service.ddl_check.table_changes import CLAUSES, describe_statement, masking_note

_SESSION_SCOPES: Final = ("", "SESSION", "LOCAL")
_ON: Final = {"1": True, "ON": True, "TRUE": True, "0": False, "OFF": False, "FALSE": False}
_PERMITS: Final[tuple[tuple[str, bool, Callable[[int, str], bool]], ...]] = (
    # Upstream `pkg/ddl/foreign_key.go` (fkCheck), `pkg/ddl/modify_column.go`, `pkg/ddl/generated_column.go`.
    ("foreign_key_checks", False, lambda number, _: number in (1701, 1824, 3730)),
    ("tidb_allow_remove_auto_inc", True, lambda _, text: "@@tidb_allow_remove_auto_inc" in text),
    ("tidb_enable_auto_increment_in_generated", True, lambda number, _: number == 3109),
    ("tidb_enable_strict_double_type_check", False, lambda number, _: number == 1149),
)
"""Variables, and at which value TiDB does not give which errors."""
_SWITCHES: Final = tuple(name for name, _, _ in _PERMITS)
SQL_MODE: Final = "sql_mode"
_OF_SESSION: Final = re.compile(r"\b(?:USE|SET|PREPARE|EXECUTE)\b", re.IGNORECASE)
_HEAD: Final = 1000


class Assignment(NamedTuple):
    """One of SET. scope: "@" for a variable of the user's own. value: None for DEFAULT. known: False where the value
    is none that the statements tell."""

    scope: str
    name: str
    value: str | None
    known: bool = True


@dataclass(frozen=True, slots=True)
class Session:
    """db: the current database. mode: how text is read. sql_mode: None for TiDB's default.

    switches: variables that are set. variables: the user's own. prepared: statements by name in lower case.
    """

    db: str
    mode: LexicalMode
    sql_mode: str | None = None
    switches: Mapping[str, bool] = field(default_factory=dict)
    variables: Mapping[str, str | None] = field(default_factory=dict)
    prepared: Mapping[str, str] = field(default_factory=dict)

    def after_statement(self, sql: str) -> Session:
        """After USE, SET, PREPARE and DEALLOCATE PREPARE; anything else changes nothing."""
        words = self._words(sql)
        match [token.upper for token in words[:3]]:
            case ["USE", _] if words[1].kind in (lexer.WORD, lexer.QUOTED):
                return replace(self, db=str(words[1].value))
            case ["SET", *_]:
                return self._after_set(self.assignments(sql))
            case ["PREPARE", _, "FROM"]:
                return self._prepared(str(words[1].value), self._text(words[3:]))
            case ["DEALLOCATE" | "DROP", "PREPARE", _]:
                return self._prepared(str(words[2].value), None)
        return self

    def assignments(self, sql: str) -> list[Assignment]:
        """Those of a SET; [] of any other statement."""
        words = self._words(sql)
        if not words or words[0].upper != "SET":
            return []
        return [entry for piece in _split_at_commas(words[1:]) if (entry := self._assignment(piece))]

    def permits(self, number: int, text: str) -> bool:
        """True if a variable that is set lets TiDB run what it refuses else with this error."""
        return any(self.switches.get(name) is value and when(number, text) for name, value, when in _PERMITS)

    def executed(self, sql: str) -> str:
        """The statement that EXECUTE runs, "" where it is not known."""
        words = self._words(sql)
        if len(words) < 2 or words[0].upper != "EXECUTE":
            return ""
        return self.prepared.get(str(words[1].value).lower(), "")

    def _words(self, sql: str) -> list[Token]:
        """The words of a statement that may be about the session; [] of any other, which may be long."""
        if not _OF_SESSION.search(sql, 0, _HEAD):
            return []
        try:
            found = tokens(sql, self.mode)
        except DdlError:
            return []
        return [token for token in found if token.kind != lexer.END]

    def _assignment(self, words: Sequence[Token]) -> Assignment | None:
        scope = ""
        if words and words[0].upper == "@":
            system = len(words) > 1 and words[1].upper == "@"
            words, scope = words[2 if system else 1 :], "" if system else "@"
        if len(words) > 1 and words[0].upper in ("SESSION", "LOCAL", "GLOBAL", "PERSIST", "PERSIST_ONLY", "INSTANCE"):
            scope, words = words[0].upper, words[2 if words[1].upper == "." else 1 :]
        if len(words) < 3 or words[1].upper not in ("=", ":="):
            return None
        name, said = str(words[0].value).lower(), words[2:]
        if scope != "@" and len(said) == 1 and said[0].upper == "DEFAULT":
            return Assignment(scope, name, None)
        value = self._value(said)
        return Assignment(scope, name, value[0] if value else None, value is not None)

    def _value(self, said: Sequence[Token]) -> tuple[str | None] | None:
        """The value in a tuple, None where it is not known."""
        if len(said) == 1 and said[0].kind in (lexer.WORD, lexer.QUOTED, lexer.STRING, lexer.NUMBER):
            return (str(said[0].value),)
        match [token.upper for token in said]:
            case ["@", _]:
                name = str(said[1].value).lower()
                return (self.variables[name],) if name in self.variables else None
            case ["@", "@", _] | ["@", "@", "SESSION" | "LOCAL", ".", _] if said[-1].upper == SQL_MODE.upper():
                return (self.sql_mode,)
            case ["@", "@", _] | ["@", "@", "SESSION" | "LOCAL", ".", _]:
                switch = self.switches.get(str(said[-1].value).lower())
                return (None if switch is None else str(int(switch)),)
        return None

    def _after_set(self, assignments: Sequence[Assignment]) -> Session:
        session = self
        for assignment in assignments:
            if assignment.scope == "@":
                variables = {name: value for name, value in session.variables.items() if name != assignment.name}
                if assignment.known:
                    variables[assignment.name] = assignment.value
                session = replace(session, variables=variables)
            elif assignment.scope in _SESSION_SCOPES and assignment.known and assignment.name == SQL_MODE:
                mode = LexicalMode.of_sql_mode(assignment.value or "")
                session = replace(session, mode=mode, sql_mode=assignment.value)
            elif assignment.scope in _SESSION_SCOPES and assignment.known and assignment.name in _SWITCHES:
                on = _ON.get((assignment.value or "").upper())
                switches = {name: value for name, value in session.switches.items() if name != assignment.name}
                session = replace(session, switches=switches if on is None else {**switches, assignment.name: on})
        return session

    def _text(self, words: Sequence[Token]) -> str | None:
        value = self._value(words) if words and (words[0].kind == lexer.STRING or words[0].upper == "@") else None
        return value[0] if value else None

    def _prepared(self, name: str, text: str | None) -> Session:
        others = {key: value for key, value in self.prepared.items() if key != name.lower()}
        return replace(self, prepared={**others, name.lower(): text} if text else others)


def _split_at_commas(words: Sequence[Token]) -> Iterator[list[Token]]:
    """What stands between the commas that are in no parentheses."""
    piece, depth = list[Token](), 0
    for token in words:
        depth += (token.upper == "(") - (token.upper == ")")
        if token.upper == "," and not depth:
            yield piece
            piece = []
        else:
            piece.append(token)
    yield piece


def unknown_mode_set(assignments: Sequence[Assignment]) -> str:
    """A mode that these set and TiDB does not know; "" for none."""
    modes = [a.value or "" for a in assignments if a.name == SQL_MODE and a.scope != "@" and a.known]
    return next((mode for text in modes if (mode := lexer.unknown_mode(text))), "")


MAX_STATEMENTS: Final = 1000
SYNTAX_ERROR: Final = 1064


class StatementText(NamedTuple):
    """One statement of a text; line counts from 1. end: where it ends in the text."""

    sql: str
    line: int
    end: int = 0


def split(text: str, mode: LexicalMode, start: int = 0) -> list[StatementText]:
    """The statements from a place on, without `;`; what is no SQL stays whole. DdlError: more than MAX_STATEMENTS."""
    try:
        found = lexer.readable_tokens(text[start:], mode)
    except DdlError:
        return [_piece(text, start, len(text))] if text[start:].strip() else []
    pieces, first, offset = list[StatementText](), None, start
    tokens = (t._replace(start=t.start + offset, end=t.end + offset) for t in found if t.kind != lexer.END)
    for token in tokens:
        if token.kind == lexer.OP and token.upper == ";":
            if first is not None:
                pieces.append(_piece(text, first, token.start))
            start, first = token.end, None
        elif first is None:
            # Comments before a statement are not its own, but what opens an executable comment is.
            opened = re.search(r"/\*[!T]", text[start : token.start])
            first = start + opened.start() if opened else token.start
        if len(pieces) > MAX_STATEMENTS:
            raise DdlError("DDL_NOT_APPLICABLE", details=f"more than {MAX_STATEMENTS} statements; check them in parts")
    if first is not None or (start < len(text) and not (found and found[-1].kind == lexer.END)):
        pieces.append(_piece(text, start if first is None else first, len(text)))
    return pieces


def _piece(text: str, start: int, end: int) -> StatementText:
    written = text[start:end]
    return StatementText(written.strip(), lexer.position(text, start + len(written) - len(written.lstrip()))[0], end)


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
    statement: ddl.Statement | None = None
    ddl_type: int | None = None
    reaches: bool = True
    note: str = ""
    error: str = ""
    refused: int = 0


_KINDS: dict[type, str] = {
    ddl.CreateDatabase: "CREATE DATABASE", ddl.AlterDatabase: "ALTER DATABASE", ddl.DropDatabase: "DROP DATABASE",
    ddl.FlashbackDatabase: "FLASHBACK DATABASE", ddl.CreateTable: "CREATE TABLE", ddl.AlterTable: "ALTER TABLE",
    ddl.RenameTables: "RENAME TABLE", ddl.TruncateTable: "TRUNCATE TABLE", ddl.RecoverTable: "RECOVER TABLE",
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
        if any(a.name == SQL_MODE and a.scope in _SESSION_SCOPES and not a.known for a in session.assignments(sql)):
            note += (
                "; what it makes of sql_mode is not known here, so the statements after it are judged under the former"
            )
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
    kind, ddl_type = _kind(statement), action_type(statement)
    result = ParsedStatement(sql, piece.line, db, kind, statement=statement, ddl_type=ddl_type)
    clauses = [describe_statement(statement)]
    if isinstance(statement, ddl.AlterTable):
        clauses = [CLAUSES[type(c)](c) for c in statement.clauses] or ["nothing that is sent"]
    note = _unsent_reason(statement)
    return replace(result, clauses=tuple(clauses), reaches=not note, note=note)


def _not_read(sql: str, line: int, db: str, kind: str, error: DdlError) -> ParsedStatement:
    refused = SYNTAX_ERROR if error.code == "DDL_REFUSED" else 0
    return ParsedStatement(sql, line, db, kind, error=error.detail, refused=refused)


def _kind(statement: ddl.Statement) -> str:
    match statement:
        case ddl.DropTables():
            return f"DROP {statement.kind.upper()}"
        case ddl.CreateRelation():
            return f"CREATE {statement.kind.upper()}"
        case ddl.NoRowEffect():
            return statement.what
        case ddl.CreateTable() if statement.like:
            return "CREATE TABLE … LIKE"
    return _KINDS[type(statement)]


def _unsent_reason(statement: ddl.Statement) -> str:
    """Why no event of it reaches a changefeed; "" when one does."""
    match statement:
        case ddl.CreateRelation(kind="sequence") | ddl.DropTables(kind="sequence"):
            return "Sequences do not reach a changefeed"
        case ddl.NoRowEffect():
            return f"{statement.what} does not reach a changefeed{masking_note(statement.what)}"
        case ddl.CreateTable(temporary="local") | ddl.DropTables(temporary="local"):
            return "A temporary table is the session's own: no changefeed sees it"
        case ddl.AlterTable() if statement.clauses and all(
            isinstance(c, ddl.NoColumnEffect) and (c.what in _NOT_SENT or c.what.endswith("MASKING POLICY"))
            for c in statement.clauses
        ):
            return "Nothing of it reaches a changefeed, and no column changes"
    return ""


# ---- scripts of other programs as plain SQL
_LIQUIBASE: Final = re.compile(r"\s*--\s*liquibase\s+formatted\s+sql\b", re.IGNORECASE)
_MARK: Final = re.compile(r"^--(?=\w)", re.MULTILINE)
_CLIENT: Final = re.compile(r"^[ \t]*delimiter[ \t]|\\g", re.IGNORECASE | re.MULTILINE)
_SENT: Final = re.compile(r"\\[gG]")
_COMMENTS: Final = ("--", "#", "/*")


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
            begun = begun or not match[0].startswith(_COMMENTS) or match[0].startswith(("/*!", "/*T!"))
        at = match.end()
    return "".join((*out, _between(text[at:], delimiter)))


def _between(gap: str, delimiter: str) -> str:
    return _SENT.sub("; ", gap if delimiter == ";" else gap.replace(";", " "))


_BEFORE_NAME = ("ADD", "COLUMN", "EXISTS")


def rewrite_not_null(sql: str, mode: LexicalMode, words: Mapping[str, str]) -> str:
    """The statement with `words` (by column) instead of NOT NULL, "" where one of the columns has no NOT NULL."""
    try:
        found = tokens(sql, mode)
    except DdlError:
        return ""
    edits: dict[str, tuple[int, int, str]] = {}
    for at in _definitions(found):
        name = str(found[at].value).lower()
        span = _not_null(sql, found, at + 1) if name in words else None
        if span is not None:
            edits[name] = (*span[:2], words[name] + span[2])
    if edits.keys() != words.keys():
        return ""
    tail = sql[found[-2].end :]
    for start, end, text in sorted(edits.values(), reverse=True):
        sql = sql[:start] + text + sql[end:]
    # A `;` in the comment of a line would be part of it.
    return sql if found[-2].upper == ";" else f"{sql}\n;" if "--" in tail or "#" in tail else f"{sql};"


def _definitions(found: Sequence[Token]) -> Iterator[int]:
    """Where the name of an added column stands: after ADD, COLUMN, EXISTS, or in the list that is in their place."""
    depth, in_list = 0, False
    for at, token in enumerate(found[1:], 1):
        before = found[at - 1].upper
        if token.upper == "(":
            in_list = in_list or (depth == 0 and before in _BEFORE_NAME)
        starts = before in _BEFORE_NAME if depth == 0 else in_list and depth == 1 and before in ("(", ",")
        if token.kind in (lexer.WORD, lexer.QUOTED) and starts:
            yield at
        depth += (token.upper == "(") - (token.upper == ")")
        in_list = in_list and depth > 0


def _not_null(sql: str, found: Sequence[Token], at: int) -> tuple[int, int, str] | None:
    """Where NOT NULL stands in the definition that goes on at a token, and the comment between its words."""
    depth = 0
    while found[at].kind != lexer.END:
        upper = found[at].upper
        if depth == 0 and upper in (",", ")", ";"):
            return None
        depth += (upper == "(") - (upper == ")")
        if depth == 0 and upper == "NOT" and found[at + 1].upper == "NULL":
            between = sql[found[at].end : found[at + 1].start]
            return found[at].start, found[at + 1].end, between if between.strip() else ""
        at += 1
    return None
