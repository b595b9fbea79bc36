"""The clauses of ALTER TABLE (upstream `pkg/parser/parser.y`, AlterTableSpec)."""

from __future__ import annotations

from collections.abc import Callable

from schemas.ddl.parser import partitions
from schemas.ddl.parser.column_definitions import charset_words, column_definition, position
from schemas.ddl.parser.cursor import Cursor
from schemas.ddl.parser.default_values import default_value
from schemas.ddl.parser.lexer import END, STRING
from schemas.ddl.parser.statements import (
    AddColumns,
    AddIndex,
    ChangeColumn,
    Clause,
    ConvertTo,
    DropColumn,
    DropIndex,
    ExchangePartition,
    NoColumnEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    SetOptions,
)
from schemas.ddl.parser.table_elements import elements, index_definition, starts_index, table_options


def clauses(c: Cursor) -> tuple[Clause, ...]:
    """Clauses up to the end of the statement. None at all is what TiCDC leaves of some TTL clauses."""
    result: list[Clause] = []
    while c.upper != ";" and c.token.kind != END:
        result.append(_clause(c))
        if c.accept(","):
            if c.upper == ";" or c.token.kind == END:
                c.fail("a clause of ALTER TABLE")
        elif c.upper not in _SINGLE:  # these need no comma before them
            break
    return tuple(result)


_SINGLE = frozenset(("PARTITION", "REMOVE", "REORGANIZE", "SPLIT", "MERGE", "IMPORT", "DISCARD"))


def _clause(c: Cursor) -> Clause:
    at, reader = c.at, _CLAUSES.get(c.upper)
    if c.upper == "FORCE" and c.peek().upper in ("AUTO_INCREMENT", "AUTO_RANDOM_BASE"):
        reader = None
    if reader is not None:
        return reader(c)
    options = table_options(c)
    if c.at == at:
        c.fail("a clause of ALTER TABLE")
    return SetOptions(options)


# ---- ADD
def _add(c: Cursor) -> Clause:
    c.expect("ADD")
    if c.upper == "PARTITION":
        return _add_partition(c)
    if starts_index(c):
        # IF NOT EXISTS stands between INDEX and the name.
        lenient = c.peek().upper == "IF"
        return AddIndex(index_definition(c), lenient)
    if c.upper == "STATS_EXTENDED":
        c.rest()
        return NoColumnEffect("ADD STATS_EXTENDED")
    if _masking_policy(c):
        return _add_masking_policy(c)
    c.accept("COLUMN")
    lenient = c.accept("IF", "NOT", "EXISTS")
    if c.upper == "(":
        columns, indexes = elements(c)
        return AddColumns(columns, if_not_exists=lenient, indexes=indexes)
    return AddColumns((column_definition(c),), position(c), lenient)


def _add_partition(c: Cursor) -> Clause:
    c.expect("PARTITION")
    c.accept("IF", "NOT", "EXISTS")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if c.accept("PARTITIONS"):
        c.integer()
    elif c.upper == "(":
        partitions.definitions(c)
    return NoColumnEffect("ADD PARTITION")


# ---- DROP
def _drop(c: Cursor) -> Clause:
    c.expect("DROP")
    if c.accept("PRIMARY", "KEY"):
        return DropIndex("PRIMARY")
    if c.accept_any("INDEX", "KEY"):
        lenient = c.accept("IF", "EXISTS")
        return DropIndex(c.name("an index's name"), lenient)
    if c.accept("FOREIGN", "KEY"):
        c.accept("IF", "EXISTS")
        c.name("a foreign key's name")
        return NoColumnEffect("DROP FOREIGN KEY")
    if c.upper in ("CHECK", "CONSTRAINT"):
        c.advance()
        c.name("a constraint's name")
        return NoColumnEffect("DROP CHECK")
    if c.upper == "PARTITION" or (c.upper == "FIRST" and c.peek().upper == "PARTITION"):
        return _drop_partition(c)
    if c.upper == "STATS_EXTENDED":
        c.rest()
        return NoColumnEffect("DROP STATS_EXTENDED")
    if _masking_policy(c):
        return NoColumnEffect("DROP MASKING POLICY")
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    name = c.column()
    c.accept_any("RESTRICT", "CASCADE")
    return DropColumn(name, lenient)


def _drop_partition(c: Cursor) -> Clause:
    if c.accept("FIRST", "PARTITION"):
        partitions.less_than(c)
    else:
        c.expect("PARTITION")
        c.accept("IF", "EXISTS")
        partitions.names(c)
    return NoColumnEffect("DROP PARTITION")


# ---- columns
def _modify(c: Cursor) -> Clause:
    c.expect("MODIFY")
    if _masking_policy(c):
        return _modify_masking_policy(c)
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    column = column_definition(c)
    return ChangeColumn(column.name, column, position(c), lenient)


def _change(c: Cursor) -> Clause:
    c.expect("CHANGE")
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    old = c.column()
    return ChangeColumn(old, column_definition(c), position(c), lenient)


def _rename(c: Cursor) -> Clause:
    c.expect("RENAME")
    if c.accept("COLUMN"):
        old = c.column()
        c.expect("TO")
        return RenameColumn(old, c.column())
    if c.upper in ("INDEX", "KEY"):
        c.advance()
        old = c.name("an index's name")
        c.expect("TO")
        return RenameIndex(old, c.name("an index's name"))
    c.accept_any("TO", "AS", "=")
    return RenameTo(c.table())


def _alter(c: Cursor) -> Clause:
    c.expect("ALTER")
    if c.upper == "INDEX":
        c.expect("INDEX")
        c.name("an index's name")
        if not c.accept_any("VISIBLE", "INVISIBLE"):
            c.fail("VISIBLE", "INVISIBLE")
        return NoColumnEffect("ALTER INDEX")
    if c.upper in ("CHECK", "CONSTRAINT"):
        c.advance()
        c.name("a constraint's name")
        if not (c.accept("NOT", "ENFORCED") or c.accept("ENFORCED")):
            c.fail("ENFORCED", "NOT ENFORCED")
        return NoColumnEffect("ALTER CHECK")
    c.accept("COLUMN")
    column = c.column()
    if c.accept("DROP", "DEFAULT"):
        return SetDefault(column, None)
    c.expect("SET", "DEFAULT")
    return SetDefault(column, default_value(c))


# ---- masking policies (upstream tidb, 2026): what SELECT shows of a column; the rows and their types stay
def _masking_policy(c: Cursor) -> bool:
    """MASKING POLICY and its name, if they come. A column may be called `masking`."""
    if not c.accept("MASKING", "POLICY"):
        return False
    c.name("a masking policy's name")
    return True


def _add_masking_policy(c: Cursor) -> Clause:
    c.expect("ON", "(")
    c.column()
    c.expect(")", "AS")
    c.skip_expression("RESTRICT", "ENABLE", "DISABLE")
    if c.accept("RESTRICT"):
        _restricted_operations(c)
    c.accept_any("ENABLE", "DISABLE")
    return NoColumnEffect("ADD MASKING POLICY")


def _modify_masking_policy(c: Cursor) -> Clause:
    c.expect("SET")
    if c.accept("RESTRICT"):
        _restricted_operations(c)
    else:
        c.expect("EXPRESSION", "=")
        c.skip_expression()
    return NoColumnEffect("MODIFY MASKING POLICY")


def _restricted_operations(c: Cursor) -> None:
    c.expect("ON")
    if not c.accept("NONE"):
        c.skip_parentheses()


# ---- the table as a whole
def _convert(c: Cursor) -> Clause:
    c.expect("CONVERT", "TO")
    if not charset_words(c):
        c.fail("CHARACTER SET")
    charset = "" if c.accept("DEFAULT") else c.word_or_text("a character set").lower()
    collate = ""
    if c.accept("COLLATE"):
        c.skip_equals()
        collate = c.word_or_text("a collation").lower()
    return ConvertTo(charset, collate)


def _order(c: Cursor) -> Clause:
    c.expect("ORDER", "BY")
    while True:
        c.skip_expression("ASC", "DESC")
        c.accept_any("ASC", "DESC")
        if not c.accept(","):
            return NoColumnEffect("ORDER BY")


def _remove(c: Cursor) -> Clause:
    c.expect("REMOVE")
    if not c.accept_any("PARTITIONING", "TTL"):
        c.fail("PARTITIONING", "TTL")
    return NoColumnEffect("REMOVE")


def _set(c: Cursor) -> Clause:
    c.expect("SET")
    c.accept("HYPO")
    tiflash_replica(c)
    return NoColumnEffect("SET TIFLASH REPLICA")


def tiflash_replica(c: Cursor) -> None:
    """TIFLASH REPLICA n [LOCATION LABELS 'a', …]"""
    c.expect("TIFLASH", "REPLICA")
    c.integer()
    if c.accept("LOCATION"):
        c.expect("LABELS")
        c.string()
        while c.upper == "," and c.peek().kind == STRING:
            c.advance()
            c.string()


def _text_or_default(c: Cursor) -> Clause:
    """ATTRIBUTES = … and STATS_OPTIONS = …"""
    what = c.advance().upper
    c.skip_equals()
    if not c.accept("DEFAULT"):
        c.string()
    return NoColumnEffect(what)


def _with_value(c: Cursor) -> Clause:
    what = c.advance().upper
    c.skip_equals()
    c.word_or_text("a value")
    return NoColumnEffect(what)


def _with_or_without(c: Cursor) -> Clause:
    c.advance()
    c.expect("VALIDATION")
    return NoColumnEffect("VALIDATION")


def _one_word(c: Cursor) -> Clause:
    return NoColumnEffect(c.advance().upper)


def _keys(c: Cursor) -> Clause:
    what = c.advance().upper
    if _masking_policy(c):
        return NoColumnEffect(f"{what} MASKING POLICY")
    c.expect("KEYS")
    return NoColumnEffect(f"{what} KEYS")


def _tablespace(c: Cursor) -> Clause:
    what = c.advance().upper
    if c.accept("PARTITION"):
        partitions.names(c)
    c.expect("TABLESPACE")
    return NoColumnEffect(f"{what} TABLESPACE")


def _read(c: Cursor) -> Clause:
    c.expect("READ")
    if not c.accept_any("ONLY", "WRITE"):
        c.fail("ONLY", "WRITE")
    return NoColumnEffect("READ")


# ---- partitions
def _exchange(c: Cursor) -> Clause:
    c.expect("EXCHANGE", "PARTITION")
    c.name("a partition's name")
    c.expect("WITH", "TABLE")
    table = c.table()
    if c.accept_any("WITH", "WITHOUT"):
        c.expect("VALIDATION")
    return ExchangePartition(table)


def _named_partitions(c: Cursor) -> Clause:
    what = c.advance().upper
    c.expect("PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    partitions.names(c)
    return NoColumnEffect(f"{what} PARTITION")


def _coalesce(c: Cursor) -> Clause:
    c.expect("COALESCE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    c.integer()
    return NoColumnEffect("COALESCE PARTITION")


def _reorganize(c: Cursor) -> Clause:
    c.expect("REORGANIZE", "PARTITION")
    c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if c.is_name():
        partitions.names(c)
        c.expect("INTO")
        partitions.definitions(c)
    return NoColumnEffect("REORGANIZE PARTITION")


def _interval_end(c: Cursor) -> Clause:
    what = c.advance().upper
    if what == "SPLIT" and c.upper != "MAXVALUE":
        partitions.split_rule(c)
        return NoColumnEffect(what)
    if what in ("MERGE", "SPLIT"):
        what = f"{what} {c.accept_any('FIRST', 'MAXVALUE')}"
    c.expect("PARTITION")
    partitions.less_than(c)
    if what == "LAST":
        c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    elif what == "FIRST":
        c.accept("IF", "EXISTS")
    return NoColumnEffect(f"{what} PARTITION")


def _partition(c: Cursor) -> Clause:
    """PARTITION BY … | PARTITION p ATTRIBUTES … | PARTITION p options"""
    partition = partitions.partition_by(c)
    if partition is not None:
        return NoColumnEffect("PARTITION BY", partition)
    c.expect("PARTITION")
    c.name("a partition's name")
    if c.upper == "ATTRIBUTES":
        return _text_or_default(c)
    at = c.at
    partitions.options(c)
    if c.at == at:
        c.fail("ATTRIBUTES", "PLACEMENT POLICY")
    return NoColumnEffect("PARTITION")


_CLAUSES: dict[str, Callable[[Cursor], Clause]] = {
    "ADD": _add, "DROP": _drop, "MODIFY": _modify, "CHANGE": _change, "RENAME": _rename, "ALTER": _alter,
    "CONVERT": _convert, "ORDER": _order, "REMOVE": _remove, "SET": _set, "ATTRIBUTES": _text_or_default,
    "STATS_OPTIONS": _text_or_default, "READ": _read,
    "ALGORITHM": _with_value, "LOCK": _with_value, "WITH": _with_or_without, "WITHOUT": _with_or_without,
    "FORCE": _one_word, "CACHE": _one_word, "NOCACHE": _one_word, "SECONDARY_LOAD": _one_word,
    "SECONDARY_UNLOAD": _one_word, "ENABLE": _keys, "DISABLE": _keys, "DISCARD": _tablespace, "IMPORT": _tablespace,
    "EXCHANGE": _exchange, "TRUNCATE": _named_partitions, "REBUILD": _named_partitions, "CHECK": _named_partitions,
    "OPTIMIZE": _named_partitions, "REPAIR": _named_partitions, "ANALYZE": _named_partitions, "COALESCE": _coalesce,
    "REORGANIZE": _reorganize, "FIRST": _interval_end, "LAST": _interval_end, "MERGE": _interval_end,
    "SPLIT": _interval_end, "PARTITION": _partition,
}  # fmt: skip
