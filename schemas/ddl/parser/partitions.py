"""PARTITION BY and the clauses of ALTER TABLE about partitions (upstream `pkg/parser/parser.y`).

Kept is, where all of it is known here, which rows each partition has.
"""

from datetime import datetime
from typing import Any, cast

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import STRING
from ticdc_bridge.schemas.ddl.parser.statements import Clause, ExchangePartition, NoColumnEffect
from ticdc_bridge.schemas.ddl.parser.table_elements import table_options
from ticdc_bridge.schemas.model.partitions import Bound, Limit, Partition, PartitionChange, Partitioning, UnixTime

_METHODS = ("HASH", "KEY", "RANGE", "LIST", "SYSTEM_TIME")


def partition_by(c: Cursor) -> tuple[bool, Partitioning | None]:
    """PARTITION BY … with its definitions: whether it comes, and what it says, None where that is not known."""
    if not c.accept("PARTITION", "BY"):
        return False, None
    partitioning = c.attempt(_partitioning)
    if partitioning is None:
        _method(c)
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
    return True, partitioning


# ---- which rows each partition has; DdlError for what is not known here
def _partitioning(c: Cursor) -> Partitioning:
    method = c.accept_any("RANGE", "LIST", "HASH") or c.fail("RANGE", "LIST", "HASH")
    has_columns, function = c.accept_any("COLUMNS", "FIELDS"), ""
    c.expect("(")
    if not has_columns and c.upper in _FUNCTIONS:
        function = c.advance().upper
        c.expect("(")
    columns = c.listed(Cursor.column) if has_columns else [c.column()]
    c.expect(*(")" * (2 if function else 1)))
    by = Partitioning(cast(Any, method), function, tuple(columns), ())
    by = by.with_hash(c.integer() if c.accept("PARTITIONS") else 1)
    if c.upper == "(":
        by = by._replace(partitions=_definitions(c))
    if c.upper in ("INTERVAL", "SUBPARTITION") or (method != "HASH" and not all(part.values for part in by.partitions)):
        c.fail("(")
    return by


def _definitions(c: Cursor) -> tuple[Partition, ...]:
    return tuple(c.list_in_parentheses(_definition))


def _definition(c: Cursor) -> Partition:
    c.expect("PARTITION")
    name, values = c.name("a partition's name"), list[tuple[Bound, ...]]()
    if c.accept("VALUES", "LESS", "THAN"):
        values.append((Limit.MAXVALUE,) if c.accept("MAXVALUE") else _row(c))
    elif c.accept("VALUES", "IN"):
        values += c.list_in_parentheses(lambda c: _row(c) if c.upper == "(" else (_bound(c),))
    elif c.accept("DEFAULT"):
        values.append((Limit.DEFAULT,))
    table_options(c)
    return Partition(name, tuple(values))


def _row(c: Cursor) -> tuple[Bound, ...]:
    return tuple(c.list_in_parentheses(_bound))


def _bound(c: Cursor) -> Bound:
    if word := c.accept_any("MAXVALUE", "DEFAULT", "NULL"):
        return None if word == "NULL" else Limit(word)
    if word := c.accept_any(*_FUNCTIONS):
        text = c.in_parentheses(Cursor.literal)
        try:
            day = datetime.strptime(text, "%Y-%m-%d %H:%M:%S" if " " in text else "%Y-%m-%d")
        except ValueError:
            c.fail("a date or time such as '2026-01-31'")
        if word == "UNIX_TIMESTAMP":
            return UnixTime(f"{day}")
        return day.year if word == "YEAR" else day.toordinal() + 365
    if c.token.kind == STRING or c.is_introducer():
        text = c.literal()
        return text if "\\" not in text else c.fail("a text without a backslash")
    return (-1 if c.accept("-") else 1) * c.integer()


_FUNCTIONS = ("TO_DAYS", "YEAR", "UNIX_TIMESTAMP")


def added(c: Cursor) -> Clause:
    """After ADD PARTITION: PARTITIONS n, or definitions in parentheses."""
    if c.accept("PARTITIONS"):
        return NoColumnEffect("ADD PARTITION", partitions=PartitionChange(hashed=c.integer()))
    return NoColumnEffect("ADD PARTITION", partitions=_new_partitions(c) if c.upper == "(" else None)


def _new_partitions(c: Cursor, names: tuple[str, ...] = ()) -> PartitionChange | None:
    """Definitions in parentheses; None where they are not known here. names: of those that become them."""
    new = c.attempt(_definitions)
    if new is None:
        c.skip_parentheses()
    return None if new is None else PartitionChange(names, new)


def _method(c: Cursor) -> None:
    c.accept("LINEAR")
    if (c.accept_any(*_METHODS) or c.fail(*_METHODS[:-1])) == "SYSTEM_TIME":
        if c.accept_any("INTERVAL", "LIMIT"):
            c.skip_expression("PARTITIONS", "(")
        return
    if c.accept("ALGORITHM", "="):
        c.integer()
    c.accept_any("COLUMNS", "FIELDS")
    c.skip_parentheses()
    if c.accept("INTERVAL"):
        c.skip_parentheses()
        while c.accept_any("FIRST", "LAST"):
            c.expect("PARTITION")
            _less_than(c)
        c.accept("NULL", "PARTITION")
        c.accept("MAXVALUE", "PARTITION")


def _less_than(c: Cursor) -> None:
    c.expect("LESS", "THAN")
    if not c.accept("MAXVALUE"):
        c.skip_parentheses()


def names(c: Cursor) -> tuple[str, ...]:
    """name, …; () for ALL."""
    return () if c.accept("ALL") else tuple(c.listed(lambda c: c.name("a partition's name")))


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
    change: PartitionChange | None = PartitionChange()
    if what == "COALESCE":
        change = PartitionChange(hashed=c.integer())
    elif what == "REORGANIZE":
        if c.is_name():
            old = names(c)
            c.expect("INTO")
            change = _new_partitions(c, old)
    else:
        if what == "DROP":
            c.accept("IF", "EXISTS")
        change = PartitionChange(names(c))
    return NoColumnEffect(f"{what} PARTITION", partitions=change)


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
    partitioned, partitioning = partition_by(c)
    if partitioned:
        return NoColumnEffect("PARTITION BY", partitioned, partitioning=partitioning)
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.upper == "ATTRIBUTES":
        return text_or_default(c)
    table_options(c)
    return NoColumnEffect("PARTITION")


def text_or_default(c: Cursor) -> Clause:
    """ATTRIBUTES = … and STATS_OPTIONS = …"""
    what = c.advance().upper
    c.accept("=")
    if not c.accept("DEFAULT"):
        c.string()
    return NoColumnEffect(what)


def tablespace(c: Cursor) -> Clause:
    what = c.advance().upper
    if c.accept("PARTITION"):
        names(c)
    c.expect("TABLESPACE")
    return NoColumnEffect(f"{what} TABLESPACE")
