"""A statement as a person typed it, with the NOT NULL of some added columns written otherwise. All else stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ticdc_bridge.schemas.ddl.parser.lexer import END, QUOTED, WORD, LexicalMode, Token, tokens
from ticdc_bridge.schemas.model.errors import DdlError

_BEFORE_NAME = ("ADD", "COLUMN", "EXISTS")


def rewrite_not_null(sql: str, mode: LexicalMode, words: Mapping[str, str]) -> str:
    """The statement with `;` at its end, "" where one of the columns has no NOT NULL.

    words: what stands instead of NOT NULL, by the column's name in lower case.
    """
    try:
        found = tokens(sql, mode)
    except DdlError:
        return ""
    edits: dict[str, tuple[int, int, str]] = {}
    for at in _definitions(found):
        name = str(found[at].value).lower()
        place = _not_null(sql, found, at + 1) if name in words else None
        if place is not None:
            edits[name] = (*place[:2], words[name] + place[2])
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
        if token.kind in (WORD, QUOTED) and starts:
            yield at
        depth += (token.upper == "(") - (token.upper == ")")
        in_list = in_list and depth > 0


def _not_null(sql: str, found: Sequence[Token], at: int) -> tuple[int, int, str] | None:
    """Where NOT NULL stands in the definition that goes on at a token, and the comment between its words."""
    depth = 0
    while found[at].kind != END:
        upper = found[at].upper
        if depth == 0 and upper in (",", ")", ";"):
            return None
        depth += (upper == "(") - (upper == ")")
        if depth == 0 and upper == "NOT" and found[at + 1].upper == "NULL":
            between = sql[found[at].end : found[at + 1].start]
            return found[at].start, found[at + 1].end, between if between.strip() else ""
        at += 1
    return None
