"""Where statements are typed: what USE, SET and PREPARE say of the statements after them.

SET may have several assignments, stand in an executable comment and give the value of another variable back, as dumps
and migration tools write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.parser.lexer import (
    END,
    NUMBER,
    QUOTED,
    STRING,
    WORD,
    LexicalMode,
    Token,
    tokens,
    unknown_mode,
)
from ticdc_bridge.schemas.model.errors import DdlError

_SCOPES: Final = ("SESSION", "LOCAL", "GLOBAL", "PERSIST", "PERSIST_ONLY", "INSTANCE")
_OWN: Final = ("", "SESSION", "LOCAL")
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

    switches: variables that are set. own: the user's variables. prepared: statements by name in lower case.
    """

    db: str
    mode: LexicalMode
    sql_mode: str | None = None
    switches: Mapping[str, bool] = field(default_factory=dict)
    own: Mapping[str, str | None] = field(default_factory=dict)
    prepared: Mapping[str, str] = field(default_factory=dict)

    def after_statement(self, sql: str) -> Session:
        """After USE, SET, PREPARE and DEALLOCATE PREPARE; anything else changes nothing."""
        words = self._words(sql)
        match [token.upper for token in words[:3]]:
            case ["USE", _] if words[1].kind in (WORD, QUOTED):
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
        return [one for part in _parts(words[1:]) if (one := self._assignment(part))]

    def permits(self, number: int, text: str) -> bool:
        """Whether a variable that is set lets TiDB run what it refuses else with this error."""
        return any(self.switches.get(name) is value and when(number, text) for name, value, when in _PERMITS)

    def executed(self, sql: str) -> str:
        """The statement that EXECUTE runs, "" where it is not known."""
        words = self._words(sql)
        if len(words) < 2 or words[0].upper != "EXECUTE":
            return ""
        return self.prepared.get(str(words[1].value).lower(), "")

    def _words(self, sql: str) -> list[Token]:
        """Of a statement that may be about the session; [] of any other, which may be long."""
        if not _OF_SESSION.search(sql, 0, _HEAD):
            return []
        try:
            found = tokens(sql, self.mode)
        except DdlError:
            return []
        return [token for token in found if token.kind != END]

    def _assignment(self, words: Sequence[Token]) -> Assignment | None:
        scope = ""
        if words and words[0].upper == "@":
            system = len(words) > 1 and words[1].upper == "@"
            words, scope = words[2 if system else 1 :], "" if system else "@"
        if len(words) > 1 and words[0].upper in _SCOPES:
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
        if len(said) == 1 and said[0].kind in (WORD, QUOTED, STRING, NUMBER):
            return (str(said[0].value),)
        match [token.upper for token in said]:
            case ["@", _]:
                name = str(said[1].value).lower()
                return (self.own[name],) if name in self.own else None
            case ["@", "@", _] | ["@", "@", "SESSION" | "LOCAL", ".", _] if said[-1].upper == SQL_MODE.upper():
                return (self.sql_mode,)
            case ["@", "@", _] | ["@", "@", "SESSION" | "LOCAL", ".", _]:
                switch = self.switches.get(str(said[-1].value).lower())
                return (None if switch is None else str(int(switch)),)
        return None

    def _after_set(self, assignments: Sequence[Assignment]) -> Session:
        session = self
        for one in assignments:
            if one.scope == "@":
                own = {name: value for name, value in session.own.items() if name != one.name}
                session = replace(session, own={**own, one.name: one.value} if one.known else own)
            elif one.scope in _OWN and one.known and one.name == SQL_MODE:
                session = replace(session, mode=LexicalMode.of_sql_mode(one.value or ""), sql_mode=one.value)
            elif one.scope in _OWN and one.known and one.name in _SWITCHES:
                on = _ON.get((one.value or "").upper())
                switches = {name: value for name, value in session.switches.items() if name != one.name}
                session = replace(session, switches=switches if on is None else {**switches, one.name: on})
        return session

    def _text(self, words: Sequence[Token]) -> str | None:
        value = self._value(words) if words and (words[0].kind == STRING or words[0].upper == "@") else None
        return value[0] if value else None

    def _prepared(self, name: str, text: str | None) -> Session:
        others = {key: value for key, value in self.prepared.items() if key != name.lower()}
        return replace(self, prepared={**others, name.lower(): text} if text else others)


def _parts(words: Sequence[Token]) -> Iterator[list[Token]]:
    """What stands between the commas that are in no parentheses."""
    part, depth = list[Token](), 0
    for token in words:
        depth += (token.upper == "(") - (token.upper == ")")
        if token.upper == "," and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def unknown_mode_set(assignments: Sequence[Assignment]) -> str:
    """A mode that these set and TiDB does not know; "" for none."""
    modes = [one.value or "" for one in assignments if one.name == SQL_MODE and one.scope != "@" and one.known]
    return next((mode for text in modes if (mode := unknown_mode(text))), "")


def set_note(assignments: Sequence[Assignment]) -> str:
    """What to say of a SET of sql_mode to a value that is not known; "" for any other."""
    if any(one.name == SQL_MODE and one.scope in _OWN and not one.known for one in assignments):
        return "; what it makes of sql_mode is not known here, so the statements after it are judged under the former"
    return ""
