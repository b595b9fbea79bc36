"""PARTITION BY and partition definitions: read in full, so that nothing unknown passes; rows don't feel them."""

from __future__ import annotations

from schemas.ddl.parser.column_definitions import charset_words
from schemas.ddl.parser.cursor import Cursor
from schemas.ddl.parser.expressions import expression
from schemas.ddl.parser.lexer import QUOTED, WORD
from schemas.ddl.parser.statements import PartitionBy


def partition_by(c: Cursor) -> PartitionBy | None:
    """PARTITION BY … with its definitions, if it comes."""
    if not c.accept("PARTITION", "BY"):
        return None
    at = c.at
    _method(c)
    names = [str(t.value) for t in c.all[at : c.at] if t.kind == QUOTED or (t.kind == WORD and t.upper not in _METHOD)]
    if c.accept("PARTITIONS"):
        c.integer()
    if c.accept("SUBPARTITION", "BY"):
        _method(c)
        if c.accept("SUBPARTITIONS"):
            c.integer()
    if c.upper == "(":
        definitions(c)
    return PartitionBy(tuple(names), update_indexes(c))


_METHOD = frozenset("LINEAR HASH KEY ALGORITHM RANGE LIST COLUMNS FIELDS INTERVAL SYSTEM_TIME LIMIT".split())


def _method(c: Cursor) -> None:
    c.accept("LINEAR")
    if c.accept("HASH"):
        c.expect("(")
        expression(c)
        c.expect(")")
    elif c.accept("KEY"):
        if c.accept("ALGORITHM"):
            c.expect("=")
            c.integer()
        _columns(c, empty=True)
    elif c.accept_any("RANGE", "LIST"):
        if c.accept_any("COLUMNS", "FIELDS"):
            _columns(c)
        else:
            c.expect("(")
            expression(c)
            c.expect(")")
        if c.accept("INTERVAL"):
            interval(c)
    elif c.accept("SYSTEM_TIME"):
        if c.accept("INTERVAL"):
            expression(c)
            c.name("a unit of time")
        elif c.accept("LIMIT"):
            c.integer()
    else:
        c.fail("HASH", "KEY", "RANGE", "LIST")


def _columns(c: Cursor, empty: bool = False) -> None:
    c.expect("(")
    if empty and c.accept(")"):
        return
    c.column()
    while c.accept(","):
        c.column()
    c.expect(")")


def interval(c: Cursor) -> None:
    """(n [unit]) FIRST PARTITION LESS THAN (…) LAST PARTITION LESS THAN (…) [NULL PARTITION] [MAXVALUE PARTITION]"""
    c.expect("(")
    expression(c)
    if c.upper != ")":
        c.name("a unit of time")
    c.expect(")")
    for word in ("FIRST", "LAST"):
        if c.accept(word, "PARTITION"):
            less_than(c)
    c.accept("NULL", "PARTITION")
    c.accept("MAXVALUE", "PARTITION")


def less_than(c: Cursor) -> None:
    """LESS THAN (values) | MAXVALUE"""
    c.expect("LESS", "THAN")
    if not c.accept("MAXVALUE"):
        _values(c)


def _values(c: Cursor) -> None:
    c.expect("(")
    while True:
        if c.upper == "(":
            _values(c)
        elif not c.accept_any("MAXVALUE", "DEFAULT"):
            expression(c)
        if not c.accept(","):
            c.expect(")")
            return


def definitions(c: Cursor) -> None:
    """(PARTITION name VALUES …, …)"""
    c.expect("(")
    definition(c)
    while c.accept(","):
        definition(c)
    c.expect(")")


def definition(c: Cursor) -> None:
    """One partition with its options and subpartitions."""
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.accept("VALUES", "LESS"):
        c.expect("THAN")
        if not c.accept("MAXVALUE"):
            _values(c)
    elif c.accept("VALUES", "IN"):
        _values(c)
    elif not c.accept("DEFAULT"):
        c.accept_any("HISTORY", "CURRENT")
    options(c)
    if c.accept("("):
        while True:
            c.expect("SUBPARTITION")
            c.name("a subpartition's name")
            options(c)
            if not c.accept(","):
                c.expect(")")
                return


def options(c: Cursor) -> None:
    """The options of one partition, or of a subpartition."""
    while True:
        if c.accept("COMMENT") or c.accept("DATA", "DIRECTORY") or c.accept("INDEX", "DIRECTORY"):
            c.skip_equals()
            c.string()
        elif c.accept("STORAGE", "ENGINE") or c.accept_any(*_NAMED):
            c.skip_equals()
            c.word_or_text("a name")
        elif c.accept_any("MAX_ROWS", "MIN_ROWS", "NODEGROUP"):
            c.skip_equals()
            c.integer()
        elif c.accept("PLACEMENT", "POLICY") or c.accept("DEFAULT", "PLACEMENT", "POLICY"):
            if not c.accept("SET", "DEFAULT"):
                c.skip_equals()
                c.word_or_text("a policy")
        elif charset_words(c):
            c.skip_equals()
            c.word_or_text("a character set")
        else:
            return


_NAMED = ("ENGINE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "INSERT_METHOD", "TABLESPACE", "AFFINITY",
          "STORAGE_CLASS")  # fmt: skip


def update_indexes(c: Cursor) -> bool:
    """UPDATE INDEXES (index GLOBAL|LOCAL, …), if it comes."""
    if not c.accept("UPDATE", "INDEXES"):
        return False
    c.skip_parentheses()
    return True


def names(c: Cursor) -> None:
    """name, … or ALL"""
    if c.accept("ALL"):
        return
    c.name("a partition's name")
    while c.accept(","):
        c.name("a partition's name")


def split_rule(c: Cursor) -> None:
    """After SPLIT: [PRIMARY KEY | INDEX name] BETWEEN (values) AND (values) REGIONS n"""
    if not c.accept("PRIMARY", "KEY") and c.accept("INDEX"):
        c.name("an index's name")
    c.expect("BETWEEN")
    _values(c)
    c.expect("AND")
    _values(c)
    c.expect("REGIONS")
    c.integer()
