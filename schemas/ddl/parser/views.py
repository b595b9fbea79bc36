"""CREATE VIEW: its words before the name, and what a plain SELECT names (upstream `pkg/parser/parser.y`)."""

from __future__ import annotations

import re
from dataclasses import replace

from ticdc_bridge.schemas.ddl.parser.calls import calls
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import END
from ticdc_bridge.schemas.ddl.parser.statements import CreateRelation, TableName, ViewItem, ViewSelect

# Of MySQL, and not in TiDB's grammar.
NOT_TIDBS = ("TRIGGER", "EVENT", "FUNCTION", "AGGREGATE", "SERVER", "TABLESPACE", "LOGFILE", "UNDO")
_AFTER_USER = ("SQL", "VIEW", *NOT_TIDBS)
_SELECTS = ("SELECT", "(", "WITH", "TABLE", "VALUES")
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WITH")
_JOINS = ("JOIN", "INNER", "CROSS", "LEFT", "RIGHT")
# Of TiDB's own text of an expression: texts, the names of a column with its table before it, and each of them.
_TEXT = re.compile(r"'(?:[^']|'')*'")
_PATH = re.compile(r"(?:`(?:[^`]|``)+`\.)*`(?:[^`]|``)+`")
_NAME = re.compile(r"`((?:[^`]|``)+)`")
_BETWEEN = ("UNION", "EXCEPT", "INTERSECT")
# Where one of these stands, the SELECT is no plain one.
_NOT_PLAIN = frozenset(
    """
    SELECT WINDOW OVER INTO NATURAL USING SQL_CACHE SQL_NO_CACHE SQL_BUFFER_RESULT
""".split()
)


def create_view(c: Cursor, or_replace: bool) -> CreateRelation:
    """From ALGORITHM, DEFINER, SQL SECURITY or VIEW to the statement's end."""
    definer = _before_name(c)
    view = CreateRelation("view", c.table(), or_replace, definer=definer)
    columns = c.list_in_parentheses(lambda c: c.name("a column's name")) if c.upper == "(" else []
    c.expect("AS")
    if c.upper not in _SELECTS:
        c.fail("SELECT")
    at = c.at
    selects = _plain_selects(c)
    c.rest()
    _check_option(c, at)
    variables = any(token.upper.startswith("@") for token in c.all[at:])
    called = tuple(calls(c.all[at:]))
    return replace(view, has_variables=variables, columns=tuple(columns), selects=selects, calls=called)


def _check_option(c: Cursor, at: int) -> None:
    """The end of what is read: TiDB wants LOCAL or CASCADED in WITH … CHECK OPTION."""
    words = [token.upper for token in c.all[at:] if token.kind != END and token.upper != ";"]
    if words[-3:] == ["WITH", "CHECK", "OPTION"]:
        c.refuse("WITH LOCAL CHECK OPTION or WITH CASCADED CHECK OPTION is expected")


def _before_name(c: Cursor) -> str:
    """Gives the user's name of DEFINER."""
    definer = ""
    if c.accept("ALGORITHM"):
        c.expect("=")
        if not c.accept_any("UNDEFINED", "MERGE", "TEMPTABLE"):
            c.fail("UNDEFINED", "MERGE", "TEMPTABLE")
    if c.accept("DEFINER"):
        c.expect("=")
        at, definer = c.at, str(c.token.value)
        while c.token.kind != END and c.upper not in _AFTER_USER:  # a user's name: u@h, 'u'@'h', CURRENT_USER()
            c.advance()
        if c.at == at:
            c.fail("a user")
        if c.upper in NOT_TIDBS:
            c.refuse(f"TiDB has no CREATE {c.upper}")
    if c.accept("SQL"):
        c.expect("SECURITY")
        if not c.accept_any("DEFINER", "INVOKER"):
            c.fail("DEFINER", "INVOKER")
    c.expect("VIEW")
    return definer


def _plain_selects(c: Cursor) -> tuple[ViewSelect, ...]:
    """SELECT columns FROM tables …, without subqueries and the like, or several with UNION and the like between them.

    () where one is any other; then nothing is read.
    """
    starts, depth = [c.at], 0
    for place, token in enumerate(c.all[c.at :], c.at):
        depth += (token.upper == "(") - (token.upper == ")")
        if token.upper in _BETWEEN and not depth:
            starts.append(place + 1 + (c.all[place + 1].upper in ("ALL", "DISTINCT")))
    if any(token.upper in _NOT_PLAIN and place not in starts for place, token in enumerate(c.all[c.at :], c.at)):
        return ()
    return c.attempt(lambda c: tuple(_read_from(c, start) for start in starts)) or ()


def _read_from(c: Cursor, start: int) -> ViewSelect:
    while c.at < start:
        c.advance()
    return _read_select(c)


def _read_select(c: Cursor) -> ViewSelect:
    c.expect("SELECT")
    c.accept_any("ALL", "DISTINCT")
    paths = list[tuple[str, ...]]()
    items = c.listed(lambda c: _item(c, paths))
    tables = list[tuple[TableName, str]]()
    if c.accept("FROM"):
        tables.append(_table(c))
        while c.accept(",") or _join(c):
            tables.append(_table(c))
            if c.accept("ON"):
                _expression(c, paths, *_JOINS, *_AFTER_FROM, *_BETWEEN)
        if c.accept("WHERE"):
            _expression(c, paths, *_AFTER_FROM, *_BETWEEN)
    if c.token.kind != END and c.upper not in (*_AFTER_FROM, *_BETWEEN, ";"):
        c.fail("the end of the statement")
    return ViewSelect(tuple(items), tuple(tables), tuple(paths))


def _expression(c: Cursor, paths: list[tuple[str, ...]], *ends: str) -> None:
    """An expression up to a comma or an end. paths: gets the columns that it names, where it is understood."""
    at = c.at
    c.skip_expression(*ends)
    end = c.at
    while c.at > at:
        c.step_back()
    c.qualified = True
    text = c.attempt(expression)
    c.qualified = False
    if text is not None and c.at == end:
        paths += [_names(path) for path in _PATH.findall(_TEXT.sub("''", text))]
    while c.at > end:
        c.step_back()
    while c.at < end:
        c.advance()


def _names(path: str) -> tuple[str, ...]:
    return tuple(one.replace("``", "`") for one in _NAME.findall(path))


def _join(c: Cursor) -> bool:
    if c.accept_any("LEFT", "RIGHT"):
        c.accept("OUTER")
        c.expect("JOIN")
        return True
    c.accept_any("INNER", "CROSS")
    return c.accept("JOIN")


def _table(c: Cursor) -> tuple[TableName, str]:
    """A table and its alias, or the table's own name."""
    table = c.table()
    if c.accept("AS") or c.is_name():
        return table, c.name("an alias")
    return table, table.table


def _item(c: Cursor, paths: list[tuple[str, ...]]) -> ViewItem:
    """One column of the SELECT. name "": that of an expression, which is its text."""
    path = _path(c)
    if path and path[-1] == "*":
        return ViewItem("*", path[:-1])
    if not path:
        _expression(c, paths, "AS", "FROM", *_BETWEEN)
    if c.accept("AS"):
        return ViewItem(c.word_or_text("an alias"), path)
    if path and c.is_name():
        return ViewItem(c.name(), path)
    return ViewItem(path[-1] if path else "", path)


def _path(c: Cursor) -> tuple[str, ...]:
    """db.table.column, table.* and the like, if nothing else is in the item; else (), and nothing is read."""
    return c.attempt(_read_path) or ()


def _read_path(c: Cursor) -> tuple[str, ...]:
    names = list[str]()
    while True:
        if c.upper == "*":
            names.append(c.advance().upper)
            break
        if not (c.is_name() if not names else c.token.kind != END):
            break
        names.append(str(c.advance().value))
        if not c.accept("."):
            break
    ends = c.upper in (",", "FROM", "AS", ";", *_BETWEEN) or c.token.kind == END
    if not names or not (ends or (names[-1] != "*" and c.is_name())):
        c.fail("a column")
    return tuple(names)
