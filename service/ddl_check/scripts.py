"""Scripts of other programs as plain SQL: changelogs of Liquibase, and what mysql's own client reads."""

from __future__ import annotations

import re
from typing import Final

from ticdc_bridge.schemas.inputs.sql_files import pieces

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
