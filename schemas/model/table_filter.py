"""TiDB's table filter: which tables a list of patterns means (upstream tidb `pkg/util/table-filter`).

`db.table` with `*`, `?`, `[a-z]`; names in backquotes or double quotes; `/regular expressions/`; `!` excludes. The last
pattern that fits decides.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_PATTERN = 4096
_MAX_REPEATED = 3
_MAX_NAME = 256  # TiDB has names of 64 characters
_ANY = "*"
_TOKEN = re.compile(
    r"""(?P<back>`(?:[^`]|``)*`)|(?P<double>"(?:[^"]|"")*")|(?P<regex>/(?:[^/\\]|\\.)*/)
      |(?P<set>\[!?[^\]]+\])|(?P<any>\*)|(?P<one>\?)|(?P<escaped>\\[^A-Za-z0-9])|(?P<dot>\.)
      |(?P<plain>[\w$\-\u0080-\U0010ffff]+)""",
    re.VERBOSE,
)


class PatternError(ValueError):
    """A pattern that TiDB would not read either."""


@dataclass(frozen=True, slots=True)
class _Rule:
    positive: bool
    db: re.Pattern[str]
    table: re.Pattern[str]


class TableFilter:
    """Patterns, compiled. Raises PatternError."""

    def __init__(self, patterns: Iterable[str], case_sensitive: bool = False) -> None:
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        self._rules = [_rule(p, flags) for p in patterns if p.strip() and not p.lstrip().startswith("#")]

    def matches(self, db: str, table: str) -> bool:
        db, table = db[:_MAX_NAME], table[:_MAX_NAME]
        for rule in reversed(self._rules):
            if rule.db.fullmatch(db) and rule.table.fullmatch(table):
                return rule.positive
        return False


def _rule(pattern: str, flags: int) -> _Rule:
    text = pattern.strip()
    if len(text) > _MAX_PATTERN:
        raise PatternError(f"a pattern has more than {_MAX_PATTERN} characters")
    positive = not text.startswith("!")
    if text.startswith("@"):
        raise PatternError(f"pattern {pattern!r}: a file can't be read here, give its lines")
    db, rest = _name(text.lstrip("!") if not positive else text, pattern, flags)
    if not rest.startswith("."):
        raise PatternError(f"pattern {pattern!r}: a dot is missing, write db.table")
    table, rest = _name(rest[1:], pattern, flags)
    if rest:
        raise PatternError(f"pattern {pattern!r}: {rest[:20]!r} can't be here")
    return _Rule(positive, db, table)


def _name(text: str, pattern: str, flags: int) -> tuple[re.Pattern[str], str]:
    """The first name of a pattern, compiled, and what follows it."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise PatternError(f"pattern {pattern!r}: {text[at]!r} can't be here")
        kind, value = token.lastgroup, token[0]
        if kind == "dot":
            break
        pieces.append(_regex(kind or "", value, pattern))
        at = token.end()
    if not pieces:
        raise PatternError(f"pattern {pattern!r}: a name is missing")
    try:
        return re.compile(_join_names(pieces), flags), text[at:]
    except re.error as error:
        raise PatternError(f"pattern {pattern!r}: {error}") from None


def _join_names(names: list[str]) -> str:
    """Parts as one expression. What follows a `*` is taken where it fits first and never looked for again, so that
    matching takes no exponential time; only the last `*` has to reach the end.
    """
    pieces: list[list[str]] = [[]]
    for name in names:
        if name == _ANY:
            pieces.append([])
        else:
            pieces[-1].append(name)
    first, *rest = ("".join(piece) for piece in pieces)
    return first if not rest else first + "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece) + ".*" + rest[-1]


def _regex(kind: str, value: str, pattern: str) -> str:
    match kind:
        case "back":
            return re.escape(value[1:-1].replace("``", "`"))
        case "double":
            return re.escape(value[1:-1].replace('""', '"'))
        case "regex":
            body = value[1:-1].replace("\\/", "/")
            repeated = len(re.findall(r"[+*{]", body))
            if repeated > _MAX_REPEATED or re.search(r"[+*}?]\)*[+*{]|\)[+*{]", body):
                # Go's expressions can't take exponential time; Python's can.
                raise PatternError(f"pattern {pattern!r}: so many repetitions are not read here")
            return f"(?:{body})"
        case "set":
            return "[^" + value[2:] if value.startswith("[!") else value
        case "any":
            return _ANY
        case "one":
            return "."
        case "escaped":
            return re.escape(value[1:])
    return re.escape(value)
