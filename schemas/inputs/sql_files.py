"""`--ddl FILE.sql`: table definitions as SQL, which have no time and so hold from the beginning.

What SHOW CREATE TABLE, `mysqldump --no-data` and people write: statements that end with `;`, `USE db;`, comments.
Statements that define no table (SET, INSERT, LOCK TABLES …) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from schemas.ddl.executor.versions import DdlText
from schemas.ddl.parser.lexer import SHOW, TYPED
from schemas.ddl.parser.statement_parser import parse
from schemas.model.errors import DdlError

_PIECE = re.compile(
    r"""(?P<end>;) | '(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|""|\\.)*" | `(?:[^`]|``)*`
      | /\*.*?\*/ | --(?=[\s]|\Z)[^\n]* | \#[^\n]* | . """,
    re.VERBOSE | re.DOTALL,
)
_IGNORABLE = re.compile(r"(?:\s|--(?=\s|\Z)[^\n]*|\#[^\n]*|/\*(?![!T]).*?\*/)+", re.DOTALL)
_EXECUTABLE = re.compile(r"/\*(?:!\d*|T!(?:\[[^\]]*\])?)\s*")
_WORDS = re.compile(r"(\w+)(?:\s+(\w+))?")
_USE = re.compile(r"use\s+(?:`((?:[^`]|``)+)`|([\w$]+))\s*\Z", re.IGNORECASE)
_DEFINING = ("CREATE", "ALTER", "DROP", "RENAME")
_OTHER_OBJECTS = (
    "DEFINER", "EVENT", "FUNCTION", "PROCEDURE", "RESOURCE", "ROLE", "SERVER", "TRIGGER", "USER", "VIEW", "ALGORITHM",
    "SQL", "PLACEMENT", "SEQUENCE", "OR", "TABLESPACE", "INSTANCE",
)  # fmt: skip
_PASSED_OVER = (
    "ANALYZE", "BEGIN", "CALL", "COMMIT", "DELETE", "FLUSH", "GRANT", "INSERT", "LOCK", "OPTIMIZE", "REPLACE", "REVOKE",
    "ROLLBACK", "SELECT", "SET", "SHOW", "START", "TRUNCATE", "UNLOCK", "UPDATE",
)  # fmt: skip


def is_sql(text: str) -> bool:
    """Whether a file holds SQL, not JSON."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return bool(start) and start not in "{["


def sql_statements(text: str, db: str = "") -> list[DdlText]:
    """The statements that define tables, in order, with commit_ts 0.

    db: the database of names that have none, until a USE says another. ValueError says which line is wrong.
    """
    ddl_texts = []
    for line, statement in _split(text.lstrip("\ufeff")):
        words = _first_words(statement)
        if words[0] == "USE":
            name = _USE.match(statement.strip())
            if name is None:
                raise ValueError(f"line {line}: USE wants the name of a database")
            db = name[1].replace("``", "`") if name[1] else name[2]
        elif words[0] in _DEFINING and words[1] not in _OTHER_OBJECTS:
            _check(statement, line, db)
            ddl_texts.append(DdlText(0, db, statement, TYPED, f"line {line}"))
        elif words[0] not in _PASSED_OVER and words[0] not in _DEFINING:
            start = statement.strip()[:40]
            raise ValueError(f"line {line}: {start!r} begins no SQL statement that a file of definitions has")
    if not ddl_texts:
        raise ValueError("it has no CREATE TABLE")
    return ddl_texts


def _split(text: str) -> Iterator[tuple[int, str]]:
    """(line where it begins, statement) without the `;`. Comments in front of a statement are left out."""
    first = 0
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            yield from _one(text, first, piece.start())
            first = piece.end()
    yield from _one(text, first, len(text))


def _one(text: str, first: int, last: int) -> Iterator[tuple[int, str]]:
    ignorable = _IGNORABLE.match(text, first, last)
    first = ignorable.end() if ignorable else first
    if text[first:last].strip():
        yield text.count("\n", 0, first) + 1, text[first:last]


def _first_words(statement: str) -> tuple[str, str]:
    executable = _EXECUTABLE.match(statement)
    words = _WORDS.match(statement, executable.end() if executable else 0)
    return (words[1].upper(), (words[2] or "").upper()) if words else ("", "")


def _check(statement: str, line: int, db: str) -> None:
    try:
        parsed: Any = parse(statement, TYPED, db)
        if "\\" in statement and parse(statement, SHOW, db) != parsed:
            details = (
                "a backslash means one thing in SQL as typed and another in what SHOW CREATE TABLE prints:"
                ' give the statement as a JSON line {"commit_ts","db","query"} with "typed":true or "mode":"show"'
            )
            raise ValueError(f"line {line}: {details}")
    except DdlError as error:
        raise ValueError(f"the statement of line {line}: {error.detail}") from error
    pairs = getattr(parsed, "pairs", ())
    names = [getattr(parsed, "table", None), *getattr(parsed, "tables", ()), *(name for pair in pairs for name in pair)]
    for name in names:
        if name is not None and not (getattr(name, "db", "") or db):
            details = f"table {name.table} has no database: write db.{name.table}, or USE db; before, or give --table"
            raise ValueError(f"line {line}: {details}")
