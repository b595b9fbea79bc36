"""Table definitions as SQL, which have no time and so hold from the beginning.

What people write and what mysqldump, dumpling, `history export` and SHOW CREATE TABLE print: statements that end with
`;` or another DELIMITER, `USE db`, comments. SET of sql_mode and time_zone says how the statements after it are
written. Statements that define no table (INSERT, LOCK TABLES, triggers …) are passed over. A CREATE TABLE of what TiDB
does not have (INVISIBLE, SPATIAL KEY, ucs2 …) leaves that table unknown, with a warning in the log.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import FIRST_DATABASE, new_catalog
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import CreateDatabase, CreateTable, DropTables, Statement
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.model.values import zone as known_zone

_COMMENT: Final = r"--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*(?![!T]).*?\*/"
_QUOTED: Final = (r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"", r"'(?:[^'\\]|''|\\.)*+'|\"(?:[^\"\\]|\"\"|\\.)*+\"")
_IGNORABLE: Final = re.compile(rf"(?:\s|{_COMMENT})+", re.DOTALL)
_WORD: Final = re.compile(
    r"(?:\s|/\*(?:!\d*|T!(?:\[[^\]]*\])?)|\*/|/\*.*?\*/|--(?=\s)[^\n]*|\#[^\n]*)*+(\w+)", re.DOTALL
)
_USE: Final = re.compile(r"use\s+(?:`((?:[^`]|``)+)`|([\w$]+))\s*\Z", re.IGNORECASE)
_SETTING: Final = re.compile(
    r"(?<![\w@.])(?:@@(?:session\.|local\.)?|(?:session|local)\s+)?`?(sql_mode|time_zone)`?\s*:?=\s*"
    r"(?:'([^']*)'|\"([^\"]*)\"|(@{0,2}[\w.]+))",
    re.IGNORECASE,
)
_GLOBAL: Final = re.compile(r"(?:\b(?:global|persist(?:_only)?)\s+|@@(?:global|persist(?:_only)?)\.)\w+", re.IGNORECASE)
_DEFINING: Final = ("CREATE", "ALTER", "DROP", "RENAME")
_OTHER_OBJECTS: Final = (
    "DEFINER", "EVENT", "FUNCTION", "PROCEDURE", "RESOURCE", "ROLE", "SERVER", "TRIGGER", "USER", "VIEW", "ALGORITHM",
    "SQL", "PLACEMENT", "SEQUENCE", "OR", "TABLESPACE", "INSTANCE", "AGGREGATE", "LOGFILE", "BINDING", "STATISTICS",
    "PREPARE", "SESSION", "SPATIAL",
)  # fmt: skip
_PASSED_OVER: Final = (
    "ADMIN", "ANALYZE", "BEGIN", "BATCH", "CALL", "CHANGE", "CHECK", "CHECKSUM", "COMMIT", "DEALLOCATE", "DELETE",
    "DESC", "DESCRIBE", "DO", "EXECUTE", "EXPLAIN", "FLUSH", "GRANT", "HANDLER", "IMPORT", "INSERT", "KILL", "LOAD",
    "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT",
    "SHOW", "SPLIT", "START", "STOP", "TRUNCATE", "UNLOCK", "UPDATE", "VALUES", "WITH", "XA",
)  # fmt: skip
# What the mysql client prints of SHOW CREATE TABLE: with \G, in a box, and lines of batch mode (NAME, tab, statement).
_ROW: Final = re.compile(r"^\*{9,} *\d+\. row *\*{9,}$\n", re.MULTILINE)
_CREATE: Final = re.compile(
    r"^ *Create (?:Table|Database): (.*?)(?:\n\d+ rows? in set[^\n]*)?\s*\Z", re.MULTILINE | re.DOTALL
)
_BOX: Final = re.compile(r"^\|[^|\n]*\| (CREATE .*?) *\|$", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(
    r"^[^\t\n]+\t(CREATE (?:TEMPORARY )?(?:TABLE|DATABASE) .*(?:\n(?![^\t\n]+\tCREATE ).*)*)", re.MULTILINE
)
_NAMED: Final = re.compile(
    r"(?:(?P<create>create)\s+(?:(?:global\s+)?temporary\s+)?|alter\s+)table\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"(?P<name>(?:`(?:[^`]|``)+`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[\w$]+))?)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_LOG: Final = logging.getLogger(__name__)
_ESCAPES: Final = {"n": "\n", "t": "\t", "0": "\0"}


def is_sql(text: str) -> bool:
    """True if a file holds SQL, not JSON."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return bool(start) and start not in "{["


def sql_statements(text: str, db: str = "") -> list[DdlText]:
    """The statements that define tables, in order, with commit_ts 0.

    db: the database of names that have none, until a USE says another. ValueError says which line is wrong.
    """
    text = text.lstrip("\ufeff").replace("\r\n", "\n")
    script, printed = _SqlScript(text, db), _printed(text)
    ddl_texts = list(script.shown(printed) if printed else script.statements())
    if not ddl_texts:
        raise (NoTable if script.unknown else ValueError)(next(iter(script.unknown.values()), "it has no CREATE TABLE"))
    for id_, reason in script.unknown.items():
        _LOG.warning("table %s is left out, as it can't be one of TiDB's: %s", id_, reason)
    return ddl_texts


class NoTable(ValueError):
    """No table that SQL defines can be one of TiDB's."""


def table_called(name: str, db: str) -> TableId:
    """The table of a name as it is written, with or without its database and backticks."""
    names = [(quoted or plain).replace("``", "`") for quoted, plain in _NAME.findall(name)]
    return TableId(names[0] if len(names) > 1 else db, names[-1])


# ---- what the mysql client prints
def _printed(text: str) -> list[str]:
    """The statements of SHOW CREATE TABLE as the client prints them; none where the text is something else."""
    start = text.lstrip()
    if _ROW.match(start):
        return [match[1] for word in _ROW.split(start)[1:] if (match := _CREATE.search(word))]
    if start.startswith("+-"):
        return [match[1] for match in _BOX.finditer(start)]
    if start.startswith("Table\tCreate Table\n") or _LINE.match(start):
        return [_unescape(match[1]) for match in _LINE.finditer(start)]
    return []


def _unescape(text: str) -> str:
    """Batch mode writes a statement on one line, with escapes; with --raw as it is."""
    return text if "\n" in text.rstrip("\n") else re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)


# ---- scripts
class _SqlScript:
    """A script, and what holds at the place to which it was read: database, delimiter, sql_mode, time zone."""

    def __init__(self, text: str, db: str) -> None:
        self._text, self._db = text, db
        self._delimiter, self._mode, self._zone = ";", TYPED, ""
        self._databases: set[str] = set()
        self._known: set[TableId] = set()
        self.unknown: dict[TableId, str] = {}
        """Tables whose CREATE TABLE can't be read → why."""

    def shown(self, statements: Sequence[str]) -> Iterator[DdlText]:
        """Statements as SHOW CREATE TABLE prints them, instead of the script's."""
        self._mode = SHOW
        for number, statement in enumerate(statements, 1):
            yield from self._defining(statement, f"row {number}")

    def statements(self) -> Iterator[DdlText]:
        for first, last in self._split():
            statement = self._text[first:last]
            line = self._text.count("\n", 0, first) + 1
            words = _words(statement)
            if words[0] == "USE":
                name = _USE.match(statement.strip())
                if name is None:
                    raise ValueError(f"line {line}: USE wants the name of a database")
                self._db = name[1].replace("``", "`") if name[1] else name[2]
            elif words[0] == "SET":
                self._set(statement, line)
            elif words[0] in _DEFINING and words[1] not in _OTHER_OBJECTS and words[2] != "BINDING":
                yield from self._defining(statement, f"line {line}")
            elif words[0] not in _PASSED_OVER and words[0] not in _DEFINING:
                start = statement.strip()[:40]
                raise ValueError(f"line {line}: {start!r} begins no SQL statement that a file of definitions has")

    def _split(self) -> Iterator[tuple[int, int]]:
        """Where each statement begins and ends, without its delimiter and the comments in front of it."""
        first = at = 0
        while match := pieces(self._delimiter, self._mode.backslashes).search(self._text, at):
            at = match.end()
            start = self._skip(first, match.start())
            if match["end"]:
                if start < match.start():
                    yield start, match.start()
                first = at
            elif match["new"] and start == match.start():
                self._delimiter, first = match["new"], at
        start = self._skip(first, len(self._text))
        if self._text[start:].strip():
            yield start, len(self._text)

    def _skip(self, first: int, last: int) -> int:
        ignorable = _IGNORABLE.match(self._text, first, last)
        return ignorable.end() if ignorable else first

    def _set(self, statement: str, line: int) -> None:
        for match in _SETTING.finditer(_GLOBAL.sub("", statement)):
            name, text, other = match[1].lower(), match[2] or match[3] or "", match[4]
            if other and not (other.startswith("@") or other.upper() in ("DEFAULT", "SYSTEM")):
                raise ValueError(f"line {line}: {name} is set to an expression: a text in quotes is needed")
            if name == "sql_mode":
                self._mode = LexicalMode.of_sql_mode(text)
            else:
                self._zone = _zone(text, line)

    def _defining(self, statement: str, where: str) -> Iterator[DdlText]:
        match = _NAMED.match(statement)
        named = table_called(match["name"], self._db).folded if match else None
        try:
            entry, parsed = _checked(statement, self._mode, self._db, where, self._zone)
            if isinstance(parsed, CreateTable) and parsed.like is None:
                apply(new_catalog(), parsed, self._db)
        except DdlError as error:
            reason = f"the statement of {where}: {error.detail}"
            if match is None or named is None or named in self._known or not (match["create"] or named in self.unknown):
                raise ValueError(reason) from error
            self.unknown.setdefault(named, reason)
            return
        ids = {id_.folded for id_ in affected_tables(new_catalog(), parsed, self._db)}
        if isinstance(parsed, (CreateTable, DropTables)):
            self.unknown = {id_: why for id_, why in self.unknown.items() if id_ not in ids}
            self._known |= ids if isinstance(parsed, CreateTable) else set()  # a dump drops what it then creates
        elif not self.unknown.keys().isdisjoint(ids):
            return
        if isinstance(parsed, CreateDatabase):
            name = parsed.name.lower()
            if name == FIRST_DATABASE and name not in self._databases and not parsed.if_not_exists:
                yield DdlText(0, "", f"DROP DATABASE {quote_name(parsed.name)}", TYPED, where=entry.where)
            self._databases.add(name)
        yield entry


@cache
def pieces(delimiter: str, backslashes: bool) -> re.Pattern[str]:
    """Matches the end of a statement, and what may hide it."""
    return re.compile(
        rf"(?P<end>{re.escape(delimiter)})|{_QUOTED[backslashes]}|`(?:[^`]|``)*+`|/\*.*?\*/|--(?=\s|\Z)[^\n]*|\#[^\n]*"
        r"|^[ \t]*(?i:delimiter)[ \t]+(?P<new>\S+)[^\n]*",
        re.DOTALL | re.MULTILINE,
    )


def _words(statement: str) -> tuple[str, str, str]:
    """The first three words, in upper case; "" where something else stands."""
    words, at = ["", "", ""], 0
    for number in range(3):
        match = _WORD.match(statement, at)
        if match is None:
            break
        words[number], at = match[1].upper(), match.end()
    return words[0], words[1], words[2]


def _zone(text: str, line: int) -> str:
    """A zone by its name, "" for the server's, which is not known."""
    if text.upper() in ("", "SYSTEM"):
        return ""
    try:
        known_zone(text)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error
    return text


def _checked(statement: str, mode: LexicalMode, db: str, where: str, zone: str = "") -> tuple[DdlText, Statement]:
    """The statement, and what it says, if it can be read in one way and its tables have a database. DdlError,
    ValueError.
    """
    parsed = parse(statement, mode, db)
    plain = mode.backslashes and not mode.ansi_quotes and mode is not SHOW
    if plain and "\\" in statement and parse(statement, SHOW, db) != parsed:
        details = (
            "a backslash means one thing in SQL as typed and another in what SHOW CREATE TABLE prints:"
            ' give the statement as a JSON line {"commit_ts","db","query"} with "typed":true or "mode":"show"'
        )
        raise ValueError(f"{where}: {details}")
    pairs = getattr(parsed, "pairs", ())
    names = [getattr(parsed, "table", None), *getattr(parsed, "tables", ()), *(name for pair in pairs for name in pair)]
    for name in names:
        if name is not None and not (getattr(name, "db", "") or db):
            raise ValueError(f"{where}: table {name.table} has no database: write db.{name.table}, or USE db; before")
    return DdlText(0, db, statement, mode, zone, where=where), parsed
