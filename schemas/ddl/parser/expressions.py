"""Expressions: read and written again as TiDB stores them (generated columns, default expressions).

TiDB stores the text of its own printer: names in backquotes without their table, words in lower case, a character set
before each text, one space around binary operators (upstream `pkg/parser/ast`, Restore; flags in
`pkg/ddl/add_column.go`). Parentheses stay where they were, so no tree is needed: the reader writes as it goes.
"""

from ticdc_bridge.schemas.ddl.parser import literals
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import BITS, NUMBER, QUOTED, STRING, WORD
from ticdc_bridge.schemas.model.names import quote_name

_LOGICAL = {"AND": "and", "&&": "and", "OR": "or", "XOR": "xor"}
_COMPARISONS = {
    "=": "=", "<=>": "<=>", ">=": ">=", ">": ">", "<=": "<=", "<": "<", "<>": "!=", "!=": "!=", ":=": ":=",
}  # fmt: skip
_ARITHMETIC = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "MOD": "%", "DIV": "div", "|": "|", "&": "&", "^": "^",
    "<<": "<<", ">>": ">>",
}  # fmt: skip
_LOOSE = frozenset(("|", "&", "<<", ">>"))
_PREFIXES = {"-": "-", "+": "+", "~": "~", "!": "!"}
_CONSTANTS = {"NULL": "null", "TRUE": "true", "FALSE": "false", "MAXVALUE": "maxvalue"}
# Functions that may be written without parentheses, and what they are stored as.
_WITHOUT_PARENTHESES = {
    "CURRENT_TIMESTAMP": "current_timestamp()", "CURRENT_DATE": "current_date()", "CURRENT_TIME": "current_time()",
    "LOCALTIME": "localtime()", "LOCALTIMESTAMP": "localtimestamp()", "CURRENT_USER": "current_user()",
    "UTC_TIMESTAMP": "utc_timestamp()", "UTC_DATE": "utc_date()", "UTC_TIME": "utc_time()",
}  # fmt: skip
_UNIT_FIRST = frozenset(("TIMESTAMPDIFF", "TIMESTAMPADD"))
_FORMATS = frozenset(("DATE", "DATETIME", "TIME", "TIMESTAMP"))
_STORED_NAMES = {"char": "char_func", "insert": "insert_func"}
_BETWEEN_ARGUMENTS = dict.fromkeys(("SUBSTRING", "SUBSTR", "MID"), (",", "FROM", "FOR"))
_RESERVED_FUNCTIONS = frozenset(
    (*"IF LEFT RIGHT REPLACE REPEAT MOD CHAR INSERT INTERVAL DATABASE CURRENT_ROLE".split(), *_WITHOUT_PARENTHESES)
)


def expression(c: Cursor) -> str:
    """Reads an expression, returns TiDB's text of it."""
    with c.enter_level():
        out = _predicate(c)
        while True:
            if c.upper in _LOGICAL:
                out += f" {_LOGICAL[c.advance().upper]} {_predicate(c)}"
            elif c.accept("||"):
                out += f" or {_predicate(c)}"
            else:
                return out


def _predicate(c: Cursor) -> str:
    if not c.mode.high_not and c.accept("NOT"):
        with c.enter_level():
            return "not " + _predicate(c)
    out = arithmetic(c)
    while True:
        if c.upper in _COMPARISONS:
            out += f" {_COMPARISONS[c.advance().upper]} {arithmetic(c)}"
        elif c.accept("IS"):
            negated = "not " if c.accept("NOT") else ""
            word = c.accept_any("NULL", "TRUE", "FALSE", "UNKNOWN") or c.fail("NULL", "TRUE", "FALSE")
            out += f" is {negated}{'null' if word == 'UNKNOWN' else word.lower()}"
        else:
            negated = (
                "not " if c.upper == "NOT" and c.peek().upper in ("IN", "LIKE", "BETWEEN", "REGEXP", "RLIKE") else ""
            )
            if negated:
                c.advance()
            if c.accept("MEMBER", "OF"):
                c.expect("(")
                out += f" member of ({_list(c, ', ')})"
                continue
            word = c.accept_any("IN", "LIKE", "BETWEEN", "REGEXP", "RLIKE", "ILIKE")
            if not word:
                return out
            out += f" {negated}{_parse_test(c, word)}"


def _parse_test(c: Cursor, word: str) -> str:
    if word == "IN":
        c.expect("(")
        return f"in ({_list(c, ',')})"
    first = arithmetic(c)
    if word == "BETWEEN":
        c.expect("AND")
        return f"between {first} and {arithmetic(c)}"
    if word in ("LIKE", "ILIKE") and c.accept("ESCAPE"):
        escape = c.string()
        if len(escape) > 1:
            c.refuse("ESCAPE takes one character")
        return f"{word.lower()} {first}" + (f" escape '{escape}'" if escape != "\\" else "")  # TiDB leaves that one out
    return f"{'regexp' if word == 'RLIKE' else word.lower()} {first}"


def arithmetic(c: Cursor) -> str:
    if c.upper == "INTERVAL" and not _is_call(c):  # INTERVAL n unit + time
        added = _interval(c)
        c.expect("+")
        with c.enter_level():
            return f"date_add({arithmetic(c)}, {added})"
    # What binds looser than + and - stays out of the first argument of date_add: it begins at `start`.
    pieces, start, wrapped = [_operand(c)], 0, 0
    while c.upper in _ARITHMETIC:
        op = _ARITHMETIC[c.advance().upper]
        if op in "+-" and c.upper == "INTERVAL" and not _is_call(c):
            wrapped += 1
            c.check_depth(wrapped)
            function = "date_add" if op == "+" else "date_sub"
            pieces[start:] = [f"{function}({''.join(pieces[start:])}, {_interval(c)})"]
            continue
        pieces.append(f" {op} ")
        if op in _LOOSE:
            start = len(pieces)
        pieces.append(_operand(c))
    return "".join(pieces)


def _interval(c: Cursor) -> str:
    c.expect("INTERVAL")
    return f"interval {expression(c)} {literals.unit(c)}"


def _is_call(c: Cursor) -> bool:
    """True if INTERVAL ( … ) is the function: a comma follows its first argument, a unit of time an interval."""
    if c.peek().upper != "(":
        return False
    depth = 0
    for at in range(c.at + 1, len(c.all)):
        upper = c.all[at].upper
        depth += (upper == "(") - (upper == ")")
        if not depth:
            return c.all[min(at + 1, len(c.all) - 1)].upper not in literals.UNITS
    return False


def _operand(c: Cursor) -> str:
    out, joined = _unary(c), 0
    while c.mode.pipes_as_concat and c.accept("||"):
        joined += 1
        c.check_depth(joined)
        out = f"concat({out}, {_unary(c)})"
    return out


def _unary(c: Cursor) -> str:
    if c.upper in _PREFIXES or (c.upper == "NOT" and c.mode.high_not):
        with c.enter_level():
            return _PREFIXES.get(c.advance().upper, "!") + _unary(c)
    out = atom(c)
    if c.upper in ("->", "->>") and out.startswith("`"):
        unquotes = c.advance().upper == "->"
        out = f"json_extract({out}, {literals.text_literal(c.literal('a JSON path'))})"
        out = out if unquotes else f"json_unquote({out})"
    while c.accept("COLLATE"):
        out += f" collate {c.word_or_text('a collation').lower()}"
    return out


def atom(c: Cursor) -> str:
    """A literal, a name, a function or what stands in parentheses."""
    token = c.token
    if token.kind == STRING:
        return literals.text_literal(c.literal())
    if token.kind == NUMBER:
        return literals.number_literal(c)
    if token.kind == BITS:
        raw = c.advance()
        return literals.bits_literal(c.text[raw.start : raw.end])
    if token.kind == WORD:
        return _word(c)
    if token.kind == QUOTED:
        return _reference(c)
    if c.accept("("):  # (a) stays so; (a, b) is a row
        out = expression(c)
        if c.accept(","):
            return f"row({out},{_list(c, ',')})"
        c.expect(")")
        return f"({out})"
    if c.accept("{"):
        return literals.odbc_literal(c)
    c.fail("an expression")


def _word(c: Cursor) -> str:
    upper, next_ = c.upper, c.peek()
    if upper in _CONSTANTS:
        c.advance()
        return _CONSTANTS[upper]
    if c.is_introducer():
        charset = str(c.token.value)[1:].lower()
        if next_.kind == BITS:
            c.advance()  # TiDB prints no introducer of bits (upstream `pkg/types/parser_driver/value_expr.go`)
            return atom(c)
        return literals.text_literal(c.literal(), "utf8" if charset == "utf8mb3" else charset)
    if c.accept("ROW", "("):
        return f"row({_list(c, ',')})"
    if c.accept("CASE"):
        return _case(c)
    if c.accept("BINARY"):
        return f"binary {_unary(c)}"
    if upper in _SPECIAL and (next_.upper == "(" or upper not in _NAMES_TOO):
        c.advance()
        return c.in_parentheses(_SPECIAL[upper])
    if upper in ("DATE", "TIME", "TIMESTAMP") and next_.kind == STRING:
        c.advance()
        return literals.temporal_literal(upper, c.literal())
    if next_.upper == "(" and (upper in _RESERVED_FUNCTIONS or c.is_name()):
        return _call(c)
    if upper in _WITHOUT_PARENTHESES:
        c.advance()
        return _WITHOUT_PARENTHESES[upper]
    return _reference(c)


def _reference(c: Cursor) -> str:
    pieces = [c.name("an expression")]
    while c.accept("."):
        pieces.append(c.name_after_dot("a name"))
    return ".".join(map(quote_name, pieces if c.qualified else pieces[-1:]))


def _call(c: Cursor) -> str:
    upper, name = c.upper, str(c.advance().value).lower()
    c.expect("(")
    if upper in _UNIT_FIRST or (upper == "GET_FORMAT" and c.upper in _FORMATS):
        word = literals.unit(c) if upper in _UNIT_FIRST else c.advance().upper.lower()
        c.expect(",")
        return f"{name}({word}, {_list(c, ', ')})"
    name = _STORED_NAMES.get(name, name)
    if c.accept(")"):
        return f"{name}()"
    out = [_argument(c)]
    while c.accept_any(*_BETWEEN_ARGUMENTS.get(upper, (",",))):
        out.append(_argument(c))
    if upper == "CHAR":
        out.append(f"'{c.word_or_text('a character set').lower()}'" if c.accept("USING") else "null")
    c.expect(")")
    if upper == "MOD" and len(out) == 2:
        return " % ".join(out)
    if upper in ("ADDDATE", "SUBDATE") and len(out) == 2 and not out[1].startswith("interval "):
        out[1] = f"interval {out[1]} day"
    return f"{name}({', '.join(out)})"


def _list(c: Cursor, between: str) -> str:
    """Expressions up to the closing parenthesis, which is read."""
    out = c.listed(_argument)
    c.expect(")")
    return between.join(out)


def _argument(c: Cursor) -> str:
    if c.upper == "INTERVAL" and not _is_call(c):
        added = _interval(c)
        return f"date_add({arithmetic(c)}, {added})" if c.accept("+") else added
    return ("distinct " if c.accept("DISTINCT") else "") + expression(c)


def _case(c: Cursor) -> str:
    out = "case" if c.upper == "WHEN" else f"case {expression(c)}"
    while c.accept("WHEN"):
        condition = expression(c)
        c.expect("THEN")
        out += f" when {condition} then {expression(c)}"
    if c.accept("ELSE"):
        out += f" else {expression(c)}"
    c.expect("END")
    return out + " end"


# ---- what stands in the parentheses of functions with words in them
def _cast(c: Cursor) -> str:
    inner = expression(c)
    c.expect("AS")
    type_ = literals.cast_type(c)
    return f"cast({inner} as {type_}{' array' if c.accept('ARRAY') else ''})"


def _convert(c: Cursor) -> str:
    inner = expression(c)
    if c.accept("USING"):
        return f"convert({inner} using '{c.word_or_text('a character set').lower()}')"
    c.expect(",")
    return f"convert({inner}, {literals.cast_type(c)})"


def _extract(c: Cursor) -> str:
    each = literals.unit(c)
    c.expect("FROM")
    return f"extract({each} from {expression(c)})"


def _trim(c: Cursor) -> str:
    ends = c.accept_any("BOTH", "LEADING", "TRAILING").lower()
    removed = "" if ends and c.upper == "FROM" else expression(c)
    if not c.accept("FROM"):
        return f"trim({removed})"
    inner = expression(c)
    if ends and not removed:
        removed = literals.text_literal(" ")
    return "trim(" + " ".join(filter(None, (ends, removed, "from", inner))) + ")"


def _position(c: Cursor) -> str:
    first = arithmetic(c)
    c.expect("IN")
    return f"position({first} in {arithmetic(c)})"


_NAMES_TOO = ("EXTRACT", "TRIM", "POSITION")
_SPECIAL = {"CAST": _cast, "CONVERT": _convert, "EXTRACT": _extract, "TRIM": _trim, "POSITION": _position}
