"""Calls of functions in expressions that nobody has read: by their tokens alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.parser.lexer import OP, QUOTED, RESERVED, WORD, LexicalMode, Token, tokens

# Words before a parenthesis that may call no function: types of CONVERT, and words of a SELECT that are not reserved.
_NO_CALLS: Final = frozenset("DATETIME DEC FIXED VECTOR LATERAL ANY SOME INTERVAL JSON_TABLE".split())
_RESERVED_CALLS: Final = frozenset("IF LEFT RIGHT REPLACE REPEAT INSERT MOD DATABASE".split())
_NAMES: Final = frozenset("AS WITH RECURSIVE FROM JOIN STRAIGHT_JOIN INDEX KEY TABLE".split())
_STORED: Final = LexicalMode(backslashes=False)


class Call(NamedTuple):
    """A call of a function. name: in small letters. arguments: how many, as far as commas tell. close: no blank before
    the parenthesis."""

    name: str
    arguments: int
    close: bool = True


def calls_of(text: str) -> list[Call]:
    """The calls in TiDB's own text of an expression."""
    return list(calls(tokens(text, _STORED)))


def calls(read: Sequence[Token]) -> Iterator[Call]:
    """The calls among the tokens of an expression, or of a SELECT."""
    groups = list[tuple[int, list[int]]]()
    for place, token in enumerate(read):
        if token.upper == "(":
            groups.append((place, [0]))
        elif token.upper == "," and groups:
            groups[-1][1][0] += 1
        elif token.upper == ")" and groups:
            at, (commas,) = groups.pop()
            if _is_call(read, at - 1) and not _names_a_query(read, place):
                name = read[at - 1]
                count = commas + 1 if place > at + 1 else 0
                yield Call(str(name.value).lower(), count, name.end == read[at].start)


def _is_call(read: Sequence[Token], at: int) -> bool:
    """Whether a name before a parenthesis stands where an expression begins: an alias and a table do not."""
    if at < 0 or read[at].kind not in (WORD, QUOTED) or read[at].upper in _NO_CALLS:
        return False
    if read[at].upper in RESERVED - _RESERVED_CALLS:
        return False
    if at == 0:
        return True
    before = read[at - 1]
    if before.upper == ".":  # of a database
        return _is_call(read, at - 2)
    if before.kind == OP:
        return before.upper not in (")", "@")
    return before.kind == WORD and before.upper in RESERVED | {"INTERVAL"} and before.upper not in _NAMES


def _names_a_query(read: Sequence[Token], close: int) -> bool:
    """Whether AS ( follows: name (columns) AS (SELECT …)."""
    after = [token.upper for token in read[close + 1 : close + 3]]
    return after == ["AS", "("]
