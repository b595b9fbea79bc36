"""Clauses of ALTER TABLE about partitions (upstream `pkg/parser/parser.y`, AlterTableSpec)."""

from __future__ import annotations

from ticdc_bridge.schemas.ddl.parser import partitions
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.partition_definitions import PartitionDef
from ticdc_bridge.schemas.ddl.parser.statements import Clause, ExchangePartition, NoColumnEffect


def add_partition(c: Cursor) -> Clause:
    c.expect("PARTITION")
    lenient = c.accept("IF", "NOT", "EXISTS")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    added: tuple[PartitionDef, ...] = ()
    count = 0
    if c.accept("PARTITIONS"):
        count = c.integer()
    elif c.upper == "(":
        added = partitions.definitions(c)
    return NoColumnEffect("ADD PARTITION", added=added, lenient=lenient, count=count)


def drop_partition(c: Cursor) -> Clause:
    c.expect("PARTITION")
    lenient = c.accept("IF", "EXISTS")
    return NoColumnEffect("DROP PARTITION", names=partitions.names(c), lenient=lenient)


def exchange(c: Cursor) -> Clause:
    c.expect("EXCHANGE", "PARTITION")
    name = c.name("a partition's name")
    c.expect("WITH", "TABLE")
    table = c.table()
    word = c.accept_any("WITH", "WITHOUT")
    if word:
        c.expect("VALIDATION")
    return ExchangePartition(table, name, word != "WITHOUT")


def named_partitions(c: Cursor) -> Clause:
    what = c.advance().upper
    c.expect("PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return NoColumnEffect(f"{what} PARTITION", names=partitions.names(c))


def coalesce(c: Cursor) -> Clause:
    c.expect("COALESCE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    return NoColumnEffect("COALESCE PARTITION", count=c.integer())


def reorganize(c: Cursor) -> Clause:
    c.expect("REORGANIZE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if not c.is_name():
        return NoColumnEffect("REORGANIZE PARTITION")
    names = partitions.names(c)
    c.expect("INTO")
    return NoColumnEffect("REORGANIZE PARTITION", names=names, added=partitions.definitions(c))


def interval_end(c: Cursor) -> Clause:
    what = c.advance().upper
    if what == "SPLIT" and c.upper != "MAXVALUE":
        partitions.split_rule(c)
        return NoColumnEffect(what)
    if what in ("MERGE", "SPLIT"):
        what = f"{what} {c.accept_any('FIRST', 'MAXVALUE')}"
    c.expect("PARTITION")
    end = PartitionDef("", "LESS THAN", ((partitions.less_than(c),),))
    if what == "LAST":
        c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    elif what == "FIRST":
        c.accept("IF", "EXISTS")
    return NoColumnEffect(f"{what} PARTITION", added=(end,))


def partition(c: Cursor) -> Clause:
    """PARTITION BY … | PARTITION p ATTRIBUTES … | PARTITION p options"""
    spread = partitions.partition_by(c)
    if spread is not None:
        return NoColumnEffect("PARTITION BY", spread)
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.upper == "ATTRIBUTES":
        return text_or_default(c)
    partitions.options(c)
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
        partitions.names(c)
    c.expect("TABLESPACE")
    return NoColumnEffect(f"{what} TABLESPACE")
