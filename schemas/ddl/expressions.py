"""Expressions: read and written again as TiDB stores them (generated columns, default expressions).

TiDB stores the text of its own printer: names in backquotes without their table, words in lower case, a character set
before each text, one space around binary operators (upstream `pkg/parser/ast`, Restore; flags in
`pkg/ddl/add_column.go`). Parentheses stay where they were, so no tree is needed: the reader writes as it goes.
"""

from __future__ import annotations

from schemas.ddl.cursor import Cursor
from schemas.ddl.lexer import BITS, END, NUMBER, QUOTED, STRING, WORD

_LOGICAL = {"AND": "and", "&&": "and", "OR": "or", "XOR": "xor"}
_COMPARISONS = {
    "=": "=", "<=>": "<=>", ">=": ">=", ">": ">", "<=": "<=", "<": "<", "<>": "!=", "!=": "!=", ":=": ":=",
}  # fmt: skip
_ARITHMETIC = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "MOD": "%", "DIV": "div", "|": "|", "&": "&", "^": "^",
    "<<": "<<", ">>": ">>",
}  # fmt: skip
_PREFIXES = {"-": "-", "+": "+", "~": "~", "!": "!"}
_CONSTANTS = {"NULL": "null", "TRUE": "true", "FALSE": "false", "MAXVALUE": "maxvalue"}
# Functions that may be written without parentheses, and what they are stored as.
_BARE = {
    "CURRENT_TIMESTAMP": "current_timestamp()", "CURRENT_DATE": "current_date()", "CURRENT_TIME": "current_time()",
    "LOCALTIME": "localtime()", "LOCALTIMESTAMP": "localtimestamp()", "CURRENT_USER": "current_user()",
    "UTC_TIMESTAMP": "utc_timestamp()", "UTC_DATE": "utc_date()", "UTC_TIME": "utc_time()",
}  # fmt: skip
_UNITS = frozenset(
    """
    MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND
    HOUR_MICROSECOND HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH
    SQL_TSI_SECOND SQL_TSI_MINUTE SQL_TSI_HOUR SQL_TSI_DAY SQL_TSI_WEEK SQL_TSI_MONTH SQL_TSI_QUARTER SQL_TSI_YEAR
""".split()
)
_UNIT_FIRST = frozenset(("TIMESTAMPDIFF", "TIMESTAMPADD"))
_COMMA = (",",)
_BETWEEN_ARGUMENTS = dict.fromkeys(("SUBSTRING", "SUBSTR", "MID"), (",", "FROM", "FOR"))
_RESERVED_FUNCTIONS = frozenset(
    ("IF", "LEFT", "RIGHT", "REPLACE", "REPEAT", "MOD", "CHAR", "INSERT", "VALUES", "INTERVAL", "DATABASE", *_BARE)
)


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str, charset: str = "utf8mb4") -> str:
    """A text as TiDB stores it in an expression."""
    return f"_{charset}'" + text.replace("'", "''") + "'"


def expression(c: Cursor, qualified: bool = False) -> str:
    """Reads an expression, returns TiDB's text of it. qualified: names keep their database and table."""
    with c.deeper():
        out = _predicate(c, qualified)
        while True:
            if c.upper in _LOGICAL:
                out += f" {_LOGICAL[c.advance().upper]} {_predicate(c, qualified)}"
            elif c.upper == "||":
                c.advance()
                right = _predicate(c, qualified)
                out = f"concat({out}, {right})" if c.mode.pipes_as_concat else f"{out} or {right}"
            else:
                return out


def _predicate(c: Cursor, qualified: bool) -> str:
    if c.accept("NOT"):
        with c.deeper():
            return "not " + _predicate(c, qualified)
    out = _arithmetic(c, qualified)
    while True:
        if c.upper in _COMPARISONS:
            out += f" {_COMPARISONS[c.advance().upper]} {_arithmetic(c, qualified)}"
        elif c.accept("IS"):
            negated = "not " if c.accept("NOT") else ""
            out += f" is {negated}{(c.accept_any('NULL', 'TRUE', 'FALSE', 'UNKNOWN') or _no_value(c)).lower()}"
        else:
            negated = (
                "not " if c.upper == "NOT" and c.ahead().upper in ("IN", "LIKE", "BETWEEN", "REGEXP", "RLIKE") else ""
            )
            if negated:
                c.advance()
            if c.accept("MEMBER", "OF"):
                c.expect("(")
                out += f" member of ({_list(c, qualified, ', ')})"
                continue
            word = c.accept_any("IN", "LIKE", "BETWEEN", "REGEXP", "RLIKE", "ILIKE")
            if not word:
                return out
            out += f" {negated}{_tested(c, word, qualified)}"


def _no_value(c: Cursor) -> str:
    c.fail("NULL", "TRUE", "FALSE")


def _tested(c: Cursor, word: str, qualified: bool) -> str:
    if word == "IN":
        c.expect("(")
        return f"in ({_list(c, qualified, ',')})"
    first = _arithmetic(c, qualified)
    if word == "BETWEEN":
        c.expect("AND")
        return f"between {first} and {_arithmetic(c, qualified)}"
    if word in ("LIKE", "ILIKE") and c.accept("ESCAPE"):
        return f"{word.lower()} {first} escape '{c.string()}'"
    return f"{'regexp' if word == 'RLIKE' else word.lower()} {first}"


def _arithmetic(c: Cursor, qualified: bool) -> str:
    out = _operand(c, qualified)
    while c.upper in _ARITHMETIC:
        op = _ARITHMETIC[c.advance().upper]
        if op in "+-" and c.upper == "INTERVAL":
            c.advance()
            function = "date_add" if op == "+" else "date_sub"
            out = f"{function}({out}, interval {expression(c, qualified)} {_unit(c)})"
        else:
            out += f" {op} {_operand(c, qualified)}"
    return out


def _operand(c: Cursor, qualified: bool) -> str:
    if c.upper in _PREFIXES:
        with c.deeper():
            return _PREFIXES[c.advance().upper] + _operand(c, qualified)
    out = _atom(c, qualified)
    while True:
        if c.accept("->"):
            out = f"json_extract({out}, {text_literal(c.string('a JSON path'))})"
        elif c.accept("->>"):
            out = f"json_unquote(json_extract({out}, {text_literal(c.string('a JSON path'))}))"
        elif c.accept("COLLATE"):
            out += f" collate {c.word_or_text('a collation').lower()}"
        else:
            return out


def _atom(c: Cursor, qualified: bool) -> str:
    token = c.token
    if token.kind == STRING:
        return text_literal(c.string())
    if token.kind == NUMBER:
        return str(c.advance().value)
    if token.kind == BITS:
        raw = c.advance()
        return _bits_text(c.text[raw.start : raw.end])
    if token.kind == WORD:
        return _word(c, qualified)
    if token.kind == QUOTED:
        return _reference(c, qualified)
    if c.accept("("):
        out = _list(c, qualified, ", ")
        return f"({out})"
    c.fail("an expression")


def _bits_text(written: str) -> str:
    digits = written[2:].rstrip("'")
    if written[1] in "xX" or written[0] in "xX":
        return f"x'{digits.lower()}'"
    return f"b'{digits.lstrip('0') or '0'}'"


def _word(c: Cursor, qualified: bool) -> str:
    upper, next_ = c.upper, c.ahead()
    if upper in _CONSTANTS:
        c.advance()
        return _CONSTANTS[upper]
    if upper.startswith("_") and next_.kind in (STRING, BITS):
        charset = str(c.advance().value)[1:].lower()
        if c.token.kind == BITS:
            return f"_{charset} {_atom(c, qualified)}"
        return text_literal(c.string(), charset)
    if upper in _SPECIAL:
        return _SPECIAL[upper](c, qualified)
    if upper in ("DATE", "TIME", "TIMESTAMP") and next_.kind == STRING:
        c.advance()
        return f"{upper} '{c.string().replace(chr(39), chr(39) * 2)}'"
    if next_.upper == "(" and (upper in _RESERVED_FUNCTIONS or c.is_name()):
        return _call(c, qualified)
    if upper in _BARE:
        c.advance()
        return _BARE[upper]
    return _reference(c, qualified)


def _reference(c: Cursor, qualified: bool) -> str:
    parts = [c.name("an expression")]
    while c.accept("."):
        parts.append(c.after_dot("a name"))
    return ".".join(map(quoted, parts if qualified else parts[-1:]))


def _call(c: Cursor, qualified: bool) -> str:
    upper, name = c.upper, str(c.advance().value).lower()
    c.expect("(")
    if upper in _UNIT_FIRST:
        unit = _unit(c)
        c.expect(",")
        return f"{name}({unit}, {_list(c, qualified, ', ')})"
    if c.accept(")"):
        return f"{name}()"
    out = [_argument(c, qualified)]
    while c.accept_any(*_BETWEEN_ARGUMENTS.get(upper, _COMMA)):
        out.append(_argument(c, qualified))
    c.expect(")")
    if upper == "MOD" and len(out) == 2:
        return " % ".join(out)
    return f"{name}({', '.join(out)})"


def _list(c: Cursor, qualified: bool, between: str) -> str:
    """Expressions up to the closing parenthesis, which is read."""
    out = [_argument(c, qualified)]
    while c.accept(","):
        out.append(_argument(c, qualified))
    c.expect(")")
    return between.join(out)


def _argument(c: Cursor, qualified: bool) -> str:
    if c.accept("INTERVAL"):
        return f"interval {expression(c, qualified)} {_unit(c)}"
    distinct = "distinct " if c.accept("DISTINCT") else ""
    return distinct + expression(c, qualified)


def _unit(c: Cursor) -> str:
    if c.upper not in _UNITS:
        c.fail("a unit of time such as DAY")
    return c.advance().upper.lower().removeprefix("sql_tsi_")


def _case(c: Cursor, qualified: bool) -> str:
    c.expect("CASE")
    out = "case" if c.upper == "WHEN" else f"case {expression(c, qualified)}"
    while c.accept("WHEN"):
        condition = expression(c, qualified)
        c.expect("THEN")
        out += f" when {condition} then {expression(c, qualified)}"
    if c.accept("ELSE"):
        out += f" else {expression(c, qualified)}"
    c.expect("END")
    return out + " end"


def _cast(c: Cursor, qualified: bool) -> str:
    c.expect("CAST", "(")
    inner = expression(c, qualified)
    c.expect("AS")
    type_ = _cast_type(c)
    array = " array" if c.accept("ARRAY") else ""
    c.expect(")")
    return f"cast({inner} as {type_}{array})"


def _cast_type(c: Cursor) -> str:
    if c.token.kind not in (WORD,) or c.token.kind == END:
        c.fail("a type")
    word = c.advance().upper.lower()
    if word in ("signed", "unsigned"):
        c.accept_any("INTEGER", "INT")
        return word
    if word not in ("char", "binary", "date", "datetime", "time", "decimal", "json", "float", "double", "real", "year",
                    "vector", "nchar"):  # fmt: skip
        c.at -= 1
        c.token = c.all[c.at]
        c.fail("a type such as CHAR, SIGNED, DECIMAL, DATETIME or JSON")
    out = word
    if c.accept("("):
        sizes = [str(c.integer())]
        while c.accept(","):
            sizes.append(str(c.integer()))
        c.expect(")")
        out += f"({','.join(sizes)})"
    if c.accept("CHARSET") or c.accept("CHARACTER", "SET"):
        out += f" charset {c.word_or_text('a character set').lower()}"
    return out


def _convert(c: Cursor, qualified: bool) -> str:
    c.expect("CONVERT", "(")
    inner = expression(c, qualified)
    if c.accept("USING"):
        charset = c.word_or_text("a character set").lower()
        c.expect(")")
        return f"convert({inner} using '{charset}')"
    c.expect(",")
    type_ = _cast_type(c)
    c.expect(")")
    return f"convert({inner}, {type_})"


def _extract(c: Cursor, qualified: bool) -> str:
    if c.ahead().upper != "(":
        return _reference(c, qualified)
    c.expect("EXTRACT", "(")
    unit = _unit(c)
    c.expect("FROM")
    inner = expression(c, qualified)
    c.expect(")")
    return f"extract({unit} from {inner})"


def _trim(c: Cursor, qualified: bool) -> str:
    if c.ahead().upper != "(":
        return _reference(c, qualified)
    c.expect("TRIM", "(")
    side = c.accept_any("BOTH", "LEADING", "TRAILING").lower()
    removed = "" if side and c.upper == "FROM" else expression(c, qualified)
    if not c.accept("FROM"):
        c.expect(")")
        return f"trim({removed})"
    inner = expression(c, qualified)
    c.expect(")")
    return "trim(" + " ".join(filter(None, (side, removed, "from", inner))) + ")"


def _position(c: Cursor, qualified: bool) -> str:
    if c.ahead().upper != "(":
        return _reference(c, qualified)
    c.expect("POSITION", "(")
    first = _arithmetic(c, qualified)
    c.expect("IN")
    second = _arithmetic(c, qualified)
    c.expect(")")
    return f"position({first} in {second})"


def _binary(c: Cursor, qualified: bool) -> str:
    c.expect("BINARY")
    return f"binary {_operand(c, qualified)}"


_SPECIAL = {
    "CASE": _case, "CAST": _cast, "CONVERT": _convert, "EXTRACT": _extract, "TRIM": _trim, "BINARY": _binary,
    "POSITION": _position,
}  # fmt: skip
