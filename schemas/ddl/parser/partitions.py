"""PARTITION BY and the clauses of ALTER TABLE about partitions (upstream `pkg/parser/parser.y`).

Of what they say only the columns that rows are spread by are kept; definitions in parentheses are not looked at.
"""

from __future__ import annotations

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import QUOTED, WORD
from ticdc_bridge.schemas.ddl.parser.statements import Clause, ExchangePartition, NoColumnEffect
from ticdc_bridge.schemas.ddl.parser.table_elements import table_options

_METHODS = ("HASH", "KEY", "RANGE", "LIST", "SYSTEM_TIME")


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
        _method(c)
        if c.accept("SUBPARTITIONS"):
            c.integer()
    if c.upper == "(":
        c.skip_parentheses()
    if c.accept("UPDATE", "INDEXES"):
        c.skip_parentheses()
    return names


def _method(c: Cursor) -> tuple[str, ...]:
    c.accept("LINEAR")
    if (c.accept_any(*_METHODS) or c.fail(*_METHODS[:-1])) == "SYSTEM_TIME":
        if c.accept_any("INTERVAL", "LIMIT"):
            c.skip_expression("PARTITIONS", "(")
        return ()
    if c.accept("ALGORITHM", "="):
        c.integer()
    c.accept_any("COLUMNS", "FIELDS")
    at = c.at
    c.skip_parentheses()
    names = tuple(str(t.value) for t in c.all[at : c.at] if t.kind in (WORD, QUOTED))  # columns, functions, units
    if c.accept("INTERVAL"):
        c.skip_parentheses()
        while c.accept_any("FIRST", "LAST"):
            c.expect("PARTITION")
            _less_than(c)
        c.accept("NULL", "PARTITION")
        c.accept("MAXVALUE", "PARTITION")
    return names


def _less_than(c: Cursor) -> None:
    c.expect("LESS", "THAN")
    if not c.accept("MAXVALUE"):
        c.skip_parentheses()


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
def exchange(c: Cursor) -> Clause:
    c.expect("EXCHANGE", "PARTITION")
    c.name("a partition's name")
    c.expect("WITH", "TABLE")
    table = c.table()
    if c.accept_any("WITH", "WITHOUT"):
        c.expect("VALIDATION")
    return ExchangePartition(table)


def named_partitions(c: Cursor) -> Clause:
    """verb PARTITION name, …; of COALESCE a number, of REORGANIZE what they become."""
    what = c.advance().upper
    c.expect("PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if what == "COALESCE":
        c.integer()
    elif what == "REORGANIZE":
        if c.is_name():
            skip_names(c)
            c.expect("INTO")
            c.skip_parentheses()
    else:
        if what == "DROP":
            c.accept("IF", "EXISTS")
        skip_names(c)
    return NoColumnEffect(f"{what} PARTITION")


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
    table_options(c)
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
