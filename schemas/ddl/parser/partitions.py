"""PARTITION BY, partition definitions and the clauses of ALTER TABLE about them (upstream `pkg/parser/parser.y`).

Read in full, so that nothing unknown passes; of what they say only the columns that rows are spread by are kept.
"""

from __future__ import annotations

from ticdc_bridge.schemas.ddl.parser.column_definitions import charset_words, placement_policy
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import arithmetic, expression
from ticdc_bridge.schemas.ddl.parser.lexer import END
from ticdc_bridge.schemas.ddl.parser.literals import unit
from ticdc_bridge.schemas.ddl.parser.statements import Clause, ExchangePartition, NoColumnEffect

_NAMED_OPTIONS = ("ENGINE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "INSERT_METHOD", "TABLESPACE", "AFFINITY",
                  "STORAGE_CLASS")  # fmt: skip


def partition_by(c: Cursor) -> tuple[str, ...] | None:
    """PARTITION BY … with its definitions, if it comes.

    Returns:
        The names in its columns or its expression: columns, functions, units. None where there is no PARTITION BY.
    """
    if not c.accept("PARTITION", "BY"):
        return None
    names = _method(c)
    if c.accept("PARTITIONS"):
        c.integer()
    if c.accept("SUBPARTITION", "BY"):
        if c.upper not in ("LINEAR", "HASH", "KEY"):
            c.fail("HASH", "KEY")
        _method(c)
        if c.accept("SUBPARTITIONS"):
            c.integer()
    if c.upper == "(":
        definitions(c)
    _update_indexes(c)
    return names


def _method(c: Cursor) -> tuple[str, ...]:
    c.accept("LINEAR")
    if c.accept("HASH"):
        return _expression(c)
    if c.accept("KEY"):
        if c.accept("ALGORITHM"):
            c.expect("=")
            if c.integer() not in (1, 2):
                c.step_back()
                c.refuse("1 or 2 is expected")
        return _columns(c, empty=True)
    if c.accept_any("RANGE", "LIST"):
        names = _columns(c) if c.accept_any("COLUMNS", "FIELDS") else _expression(c)
        if c.accept("INTERVAL"):
            _interval(c)
        return names
    if not c.accept("SYSTEM_TIME"):
        c.fail("HASH", "KEY", "RANGE", "LIST")
    if c.accept("INTERVAL"):
        expression(c)
        c.name("a unit of time")
    elif c.accept("LIMIT"):
        c.integer()
    return ()


def _expression(c: Cursor) -> tuple[str, ...]:
    """(expression): the names in it."""
    c.expect("(")
    at = c.at
    arithmetic(c)
    names = c.names_between(at, c.at)
    c.expect(")")
    return names


def _columns(c: Cursor, empty: bool = False) -> tuple[str, ...]:
    c.expect("(")
    if empty and c.accept(")"):
        return ()
    names = c.listed(Cursor.column)
    c.expect(")")
    return tuple(names)


def _interval(c: Cursor) -> None:
    """(n [unit]) FIRST PARTITION LESS THAN (…) LAST PARTITION LESS THAN (…) [NULL PARTITION] [MAXVALUE PARTITION]"""
    c.expect("(")
    expression(c)
    if c.upper != ")":
        unit(c)
    c.expect(")")
    if c.upper == "FIRST":
        for word in ("FIRST", "LAST"):
            c.expect(word, "PARTITION")
            _less_than(c)
    c.accept("NULL", "PARTITION")
    c.accept("MAXVALUE", "PARTITION")


def _less_than(c: Cursor) -> None:
    c.expect("LESS", "THAN")
    if not c.accept("MAXVALUE"):
        _values(c)


def _values(c: Cursor, words: tuple[str, ...] = ("MAXVALUE", "DEFAULT")) -> None:
    """(value, …); a value may be a tuple in parentheses."""
    c.expect("(")
    while True:
        if c.upper == "(" and _is_tuple(c):
            with c.read_in_full():  # DEFAULT stands alone
                _values(c, ("MAXVALUE",))
        elif not c.accept_any(*words):
            if c.upper in ("DEFAULT", ")"):
                c.refuse("a value is expected")
            arithmetic(c)
        if not c.accept(","):
            c.expect(")")
            return


def _is_tuple(c: Cursor) -> bool:
    """Whether the parenthesis that comes closes before a comma or another one: (1, 2), and not (1) + 2."""
    depth, number = 0, 0
    while c.peek(number).kind != END:
        upper = c.peek(number).upper
        depth += (upper == "(") - (upper == ")")
        number += 1
        if not depth:
            return c.peek(number).upper in (",", ")")
    return False


def definitions(c: Cursor) -> None:
    """(PARTITION name VALUES …, …)"""
    c.list_in_parentheses(_definition)


def _definition(c: Cursor) -> None:
    """One partition with its options and subpartitions."""
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.accept("VALUES", "LESS"):
        c.expect("THAN")
        if not c.accept("MAXVALUE"):
            _values(c, ("MAXVALUE",))
    elif c.accept("VALUES", "IN"):
        _values(c)
    else:
        c.accept_any("DEFAULT", "HISTORY", "CURRENT")
    _options(c)
    if c.upper == "(":
        c.list_in_parentheses(_subpartition)


def _subpartition(c: Cursor) -> None:
    c.expect("SUBPARTITION")
    c.name("a subpartition's name")
    _options(c)


def _options(c: Cursor) -> None:
    """The options of one partition, or of a subpartition."""
    while True:
        if c.accept("COMMENT") or c.accept("DATA", "DIRECTORY") or c.accept("INDEX", "DIRECTORY"):
            c.skip_equals()
            c.string()
        elif c.accept("STORAGE", "ENGINE") or c.accept_any(*_NAMED_OPTIONS):
            c.skip_equals()
            c.word_or_text("a name")
        elif c.accept_any("MAX_ROWS", "MIN_ROWS", "NODEGROUP"):
            c.skip_equals()
            c.integer()
        elif c.accept("PLACEMENT", "POLICY") or c.accept("DEFAULT", "PLACEMENT", "POLICY"):
            placement_policy(c)
        elif charset_words(c):
            c.skip_equals()
            c.word_or_text("a character set")
        else:
            return


def _update_indexes(c: Cursor) -> None:
    """UPDATE INDEXES (index GLOBAL|LOCAL, …), if it comes."""

    def index(c: Cursor) -> None:
        c.name("an index's name")
        if not c.accept_any("GLOBAL", "LOCAL"):
            c.fail("GLOBAL", "LOCAL")

    if c.accept("UPDATE", "INDEXES"):
        c.list_in_parentheses(index)


def skip_names(c: Cursor) -> None:
    """name, … or ALL"""
    if not c.accept("ALL"):
        c.listed(lambda c: c.name("a partition's name"))


def split_rule(c: Cursor) -> None:
    """After SPLIT: [PRIMARY KEY | INDEX name] BETWEEN (values) AND (values) REGIONS n"""
    if not c.accept("PRIMARY", "KEY") and c.accept("INDEX"):
        c.name("an index's name")
    c.expect("BETWEEN")
    c.skip_parentheses()
    c.expect("AND")
    c.skip_parentheses()
    c.expect("REGIONS")
    c.integer()


# ---- clauses of ALTER TABLE
def add_partition(c: Cursor) -> Clause:
    c.expect("PARTITION")
    c.accept("IF", "NOT", "EXISTS")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if c.accept("PARTITIONS"):
        c.integer()
    elif c.upper == "(":
        definitions(c)
    return NoColumnEffect("ADD PARTITION")


def drop_partition(c: Cursor) -> Clause:
    c.expect("PARTITION")
    c.accept("IF", "EXISTS")
    skip_names(c)
    return NoColumnEffect("DROP PARTITION")


def exchange(c: Cursor) -> Clause:
    c.expect("EXCHANGE", "PARTITION")
    c.name("a partition's name")
    c.expect("WITH", "TABLE")
    table = c.table()
    if c.accept_any("WITH", "WITHOUT"):
        c.expect("VALIDATION")
    return ExchangePartition(table)


def named_partitions(c: Cursor) -> Clause:
    what = c.advance().upper
    c.expect("PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    skip_names(c)
    return NoColumnEffect(f"{what} PARTITION")


def coalesce(c: Cursor) -> Clause:
    c.expect("COALESCE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    c.integer()
    return NoColumnEffect("COALESCE PARTITION")


def reorganize(c: Cursor) -> Clause:
    c.expect("REORGANIZE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if c.is_name():
        skip_names(c)
        c.expect("INTO")
        definitions(c)
    return NoColumnEffect("REORGANIZE PARTITION")


def interval_end(c: Cursor) -> Clause:
    """FIRST, LAST, MERGE FIRST or SPLIT MAXVALUE PARTITION LESS THAN …; SPLIT of regions."""
    what = c.advance().upper
    if what == "SPLIT" and c.upper != "MAXVALUE":
        split_rule(c)
        return NoColumnEffect(what)
    if what in ("MERGE", "SPLIT"):
        what = f"{what} {c.accept_any('FIRST', 'MAXVALUE')}"
    c.expect("PARTITION")
    _less_than(c)
    if what == "LAST":
        c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    elif what == "FIRST":
        c.accept("IF", "EXISTS")
    return NoColumnEffect(f"{what} PARTITION")


def partition(c: Cursor) -> Clause:
    """PARTITION BY … | PARTITION p ATTRIBUTES … | PARTITION p options"""
    names = partition_by(c)
    if names is not None:
        return NoColumnEffect("PARTITION BY", names)
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.upper == "ATTRIBUTES":
        return text_or_default(c)
    _options(c)
    return NoColumnEffect("PARTITION")


def text_or_default(c: Cursor) -> Clause:
    """ATTRIBUTES = … and STATS_OPTIONS = …"""
    what = c.advance().upper
    c.skip_equals()
    if not c.accept("DEFAULT"):
        c.string()
    return NoColumnEffect(what)


def tablespace(c: Cursor) -> Clause:
    what = c.advance().upper
    if c.accept("PARTITION"):
        skip_names(c)
    c.expect("TABLESPACE")
    return NoColumnEffect(f"{what} TABLESPACE")
