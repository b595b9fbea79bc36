"""DEFAULT of a column as written (upstream `pkg/parser/parser.y`, DefaultValueExpr)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import atom, expression
from ticdc_bridge.schemas.ddl.parser.lexer import BITS, NUMBER, QUOTED, STRING, WORD, Token
from ticdc_bridge.schemas.ddl.parser.statements import DefaultValue
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import require_bytes

NOW = frozenset(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"))
_TODAY = frozenset(("CURRENT_DATE", "CURDATE"))


def default_value(c: Cursor) -> DefaultValue:
    """Reads the value after DEFAULT: a literal, CURRENT_TIMESTAMP, NEXT VALUE FOR, or an expression in parentheses."""
    c.qualified = True
    default = _default_value(c)
    c.qualified = False
    return default


def _default_value(c: Cursor) -> DefaultValue:
    if c.accept("("):
        with c.enter_level():
            is_simple, start = _is_simple(c), c.at
            default = _default_value(c) if is_simple else DefaultValue("expr", expression(c))
        if is_simple and c.upper in ("+", "-"):
            c.refuse("DEFAULT is neither a literal nor a call of a function")
        is_kept = default.kind != "expr" or c.all[start].upper[:4] == "NEXT" or _is_call(c.all[start : c.at])
        c.expect(")")
        return default if is_kept else replace(default, kind="computed")
    if (simple := _simple_default(c)) is not None:
        return simple
    # Without parentheses only a function may stand here: a COLLATE after it is the column's. (MySQL has DATE '…' too.)
    if c.token.kind in (WORD, QUOTED) and c.peek().upper != "(" and c.upper not in ("DATE", "TIME", "TIMESTAMP"):
        c.fail("a literal, CURRENT_TIMESTAMP, or an expression in parentheses")
    return DefaultValue("expr", atom(c))


def _is_call(tokens: Sequence[Token]) -> bool:
    """True if an expression is one call of a function, which TiDB keeps; any other it computes at once."""
    depths = list(accumulate({"(": 1, ")": -1}.get(token.upper, 0) for token in tokens[1:]))
    return tokens[0].upper not in ("(", "CAST", "CONVERT") and 0 in depths[1:] and 0 not in depths[:-1]


def _is_simple(c: Cursor) -> bool:
    """True if a literal fills the parentheses: DEFAULT (1) is DEFAULT 1."""
    number = 1 if c.upper in ("-", "+") else 0
    if c.is_introducer(number):
        return c.peek(number + 2).upper == ")"
    token = c.peek(number)
    if token.upper in NOW | _TODAY or token.upper in ("NEXT", "NEXTVAL", "("):
        return True
    literal = token.kind in (STRING, NUMBER, BITS) or token.upper in ("NULL", "TRUE", "FALSE")
    while c.peek(number).kind == STRING and c.peek(number + 1).kind == STRING:
        number += 1
    return literal and c.peek(number + 1).upper == ")"


def _simple_default(c: Cursor) -> DefaultValue | None:
    token = c.token
    if token.kind == STRING or (c.is_introducer() and c.peek().kind == STRING):
        return DefaultValue("text", c.literal())
    if token.kind == NUMBER or c.upper in ("-", "+"):
        return _number(c)
    if token.kind == BITS or c.is_introducer():
        if c.token.kind != BITS:
            c.advance()
        return DefaultValue("bits", bits=require_bytes(c.advance().value))
    if c.accept("NULL"):
        return DefaultValue("null")
    if c.upper in ("TRUE", "FALSE"):
        return DefaultValue("int", "1" if c.advance().upper == "TRUE" else "0")
    if c.upper in NOW:
        return DefaultValue("now", read_now(c))
    if c.accept_any(*_TODAY):
        if c.accept("("):
            c.expect(")")
        return DefaultValue("date", "CURRENT_DATE")
    return _sequence(c)


def read_now(c: Cursor) -> str:
    """CURRENT_TIMESTAMP and the like: its fraction digits, "" where none are written."""
    word, digits = c.advance().upper, ""
    if word == "NOW" and c.upper != "(":
        c.fail("(")
    if c.accept("("):
        if c.upper != ")":
            digits = str(c.integer("fraction digits"))
        c.expect(")")
    return digits


def _sequence(c: Cursor) -> DefaultValue | None:
    if c.accept("NEXT", "VALUE"):
        c.expect("FOR")
        name = c.table()
    elif c.upper == "NEXTVAL" and c.peek().upper == "(":
        c.expect("NEXTVAL")
        name = c.in_parentheses(Cursor.table)
    else:
        return None
    return DefaultValue("expr", f"nextval({quote_name(name.db or c.db)}.{quote_name(name.table)})")


def _number(c: Cursor) -> DefaultValue:
    sign = ""
    while c.upper in ("-", "+"):
        sign = {"-": "" if sign else "-", "+": sign}[c.advance().upper]
    if c.token.kind != NUMBER:
        c.fail("a number")
    text = str(c.advance().value)
    if "e" in text or "E" in text:
        return DefaultValue("float", sign + text)
    if "." in text:
        integer, _, fraction = text.partition(".")
        integer = integer.lstrip("0") or "0"
        sign = sign if text.strip("0.") else ""
        return DefaultValue("decimal", f"{sign}{integer}.{fraction}" if fraction else sign + integer)
    digits = text.lstrip("0")
    return DefaultValue("int", sign + digits if digits else "0")
