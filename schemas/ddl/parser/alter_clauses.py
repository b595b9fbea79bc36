"""The clauses of ALTER TABLE (upstream `pkg/parser/parser.y`, AlterTableSpec)."""

from collections.abc import Callable

from ticdc_bridge.schemas.ddl.parser import partitions, statements
from ticdc_bridge.schemas.ddl.parser.column_definitions import charset_words, column_definition, position
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.default_values import NOW, default_value
from ticdc_bridge.schemas.ddl.parser.lexer import END, STRING
from ticdc_bridge.schemas.ddl.parser.table_elements import elements, index_definition, starts_index, table_option


def clauses(c: Cursor) -> tuple[statements.Clause, ...]:
    """Clauses up to the end of the statement. None at all is what TiCDC leaves of some TTL clauses."""
    result: list[statements.Clause] = []
    while c.upper != ";" and c.token.kind != END:
        is_last = c.upper in _LAST and not c.mode.restored
        made = _clause(c)
        result += made if isinstance(made, tuple) else (made,)
        if is_last:
            break
        if c.accept(","):
            if c.upper == ";" or c.token.kind == END or (c.upper in _LAST and not c.mode.restored):
                c.fail("a clause of ALTER TABLE that may follow a comma")
        elif c.upper not in _SINGLE:  # these need no comma before them
            break
    return tuple(result)


_SINGLE = frozenset(("PARTITION", "REMOVE", "REORGANIZE", "SPLIT", "MERGE", "IMPORT", "DISCARD"))
_LAST = frozenset(("PARTITION", "REMOVE", "REORGANIZE", "MERGE"))
"""As people type it, these come last and without a comma (AlterTableSpecSingleOpt); TiDB restores some with one."""


def _clause(c: Cursor) -> statements.Clause | tuple[statements.Clause, ...]:
    first, at = c.upper, c.at
    if reader := _CLAUSES.get(first):
        return reader(c)
    if first in _SECOND_WORDS:
        c.advance()
        if _is_masking_policy(c):
            return statements.NoColumnEffect(f"{first} MASKING POLICY")
        words = _SECOND_WORDS[first]
        return statements.NoColumnEffect(f"{first} {c.accept_any(*words) or c.fail(*words)}")
    if first in _SINGLE_WORDS and not (first == "FORCE" and c.peek().upper in ("AUTO_INCREMENT", "AUTO_RANDOM_BASE")):
        return statements.NoColumnEffect(c.advance().upper)
    options = statements.TableOptions()
    while changed := table_option(c, options):  # a comma begins another clause
        options = changed
    if c.at == at:
        c.fail("a clause of ALTER TABLE")
    return statements.SetOptions(options)


# ---- ADD
def _add(c: Cursor) -> statements.Clause | tuple[statements.Clause, ...]:
    c.expect("ADD")
    if c.accept("PARTITION"):
        c.accept("IF", "NOT", "EXISTS")
        c.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
        return partitions.added(c)
    if starts_index(c):
        # IF NOT EXISTS stands between INDEX and the name.
        lenient = c.peek().upper == "IF"
        return statements.AddIndex(index_definition(c), lenient)
    if c.accept("STATS_EXTENDED"):
        c.skip_expression()
        return statements.NoColumnEffect("ADD STATS_EXTENDED")
    if _is_masking_policy(c):
        return statements.NoColumnEffect("ADD MASKING POLICY")
    c.accept("COLUMN")
    lenient = c.accept("IF", "NOT", "EXISTS")
    if c.upper == "(":
        columns, indexes = elements(c)
        # TiDB, too, makes clauses of their own of the keys (upstream `ResolveAlterTableSpec`).
        return statements.AddColumns(columns, if_not_exists=lenient), *map(statements.AddIndex, indexes)
    return statements.AddColumns((column_definition(c),), position(c), lenient)


# ---- DROP
def _drop(c: Cursor) -> statements.Clause:
    if c.peek().upper == "PARTITION":
        return partitions.named_partitions(c)
    c.expect("DROP")
    if c.accept("PRIMARY", "KEY"):
        return statements.DropIndex("PRIMARY")
    if c.accept_any("INDEX", "KEY"):
        lenient = c.accept("IF", "EXISTS")
        return statements.DropIndex(c.name("an index's name"), lenient)
    if c.accept("FOREIGN", "KEY"):
        c.accept("IF", "EXISTS")
        return statements.NoColumnEffect("DROP FOREIGN KEY", name=c.name("a foreign key's name"))
    if c.accept_any("CHECK", "CONSTRAINT"):
        c.name("a constraint's name")
        return statements.NoColumnEffect("DROP CHECK")
    if c.accept("STATS_EXTENDED"):
        c.skip_expression()
        return statements.NoColumnEffect("DROP STATS_EXTENDED")
    if _is_masking_policy(c):
        return statements.NoColumnEffect("DROP MASKING POLICY")
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    name = c.column()
    c.accept_any("RESTRICT", "CASCADE")
    return statements.DropColumn(name, lenient)


# ---- columns
def _modify(c: Cursor) -> statements.Clause:
    c.expect("MODIFY")
    if _is_masking_policy(c):
        return statements.NoColumnEffect("MODIFY MASKING POLICY")
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    column = column_definition(c)
    return statements.ChangeColumn(column.name, column, position(c), lenient)


def _change(c: Cursor) -> statements.Clause:
    c.expect("CHANGE")
    c.accept("COLUMN")
    lenient = c.accept("IF", "EXISTS")
    return statements.ChangeColumn(c.column(), column_definition(c), position(c), lenient)


def _rename(c: Cursor) -> statements.Clause:
    c.expect("RENAME")
    if c.accept("COLUMN"):
        old = c.name("a column's name")
        c.expect("TO")
        return statements.RenameColumn(old, c.name("a column's name"))
    if c.accept_any("INDEX", "KEY"):
        old = c.name("an index's name")
        c.expect("TO")
        return statements.RenameIndex(old, c.name("an index's name"))
    c.accept_any("TO", "AS", "=")
    return statements.RenameTo(c.table())


def _alter(c: Cursor) -> statements.Clause:
    c.expect("ALTER")
    if c.accept("INDEX"):
        name = c.name("an index's name")
        visibility = c.accept_any("VISIBLE", "INVISIBLE") or c.fail("VISIBLE", "INVISIBLE")
        return statements.NoColumnEffect(f"ALTER INDEX {visibility}", name=name)
    if c.accept_any("CHECK", "CONSTRAINT"):
        c.name("a constraint's name")
        if not (c.accept("NOT", "ENFORCED") or c.accept("ENFORCED")):
            c.fail("ENFORCED", "NOT ENFORCED")
        return statements.NoColumnEffect("ALTER CHECK")
    c.accept("COLUMN")
    column = c.column()
    if c.accept("DROP", "DEFAULT"):
        return statements.SetDefault(column, None)
    c.expect("SET", "DEFAULT")
    if c.upper in NOW:
        c.fail("a literal, or an expression in parentheses")
    return statements.SetDefault(column, default_value(c))


def _is_masking_policy(c: Cursor) -> bool:
    """Reads MASKING POLICY to the clause's end, if it comes: what SELECT shows of a column. A column may be called
    `masking`. (Upstream tidb, 2026.)
    """
    if not c.accept("MASKING", "POLICY"):
        return False
    c.skip_expression()
    return True


# ---- the table as a whole
def _convert(c: Cursor) -> statements.Clause:
    c.expect("CONVERT", "TO")
    if not charset_words(c):
        c.fail("CHARACTER SET")
    charset = "" if c.accept("DEFAULT") else c.word_or_text("a character set").lower()
    collate = ""
    if c.accept("COLLATE"):
        c.accept("=")
        collate = c.word_or_text("a collation").lower()
    return statements.ConvertTo(charset, collate)


def _order(c: Cursor) -> statements.Clause:
    c.expect("ORDER", "BY")
    while True:
        c.skip_expression("ASC", "DESC")
        c.accept_any("ASC", "DESC")
        if not c.accept(","):
            return statements.NoColumnEffect("ORDER BY")


def _set(c: Cursor) -> statements.Clause:
    c.expect("SET")
    c.accept("HYPO")
    tiflash_replica(c)
    return statements.NoColumnEffect("SET TIFLASH REPLICA")


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


ALGORITHMS: dict[str, tuple[str, ...]] = {
    "ALGORITHM": ("DEFAULT", "COPY", "INPLACE", "INSTANT"), "LOCK": ("DEFAULT", "NONE", "SHARED", "EXCLUSIVE"),
}  # fmt: skip


def algorithm(c: Cursor) -> statements.Clause:
    """ALGORITHM = … or LOCK = …"""
    what = c.advance().upper
    c.accept("=")
    if not c.accept_any(*ALGORITHMS[what]):
        c.fail(*ALGORITHMS[what])
    return statements.NoColumnEffect(what)


_SECOND_WORDS: dict[str, tuple[str, ...]] = {
    "WITH": ("VALIDATION",), "WITHOUT": ("VALIDATION",), "ENABLE": ("KEYS",), "DISABLE": ("KEYS",),
    "READ": ("ONLY", "WRITE"), "REMOVE": ("PARTITIONING", "TTL"),
}  # fmt: skip


_SINGLE_WORDS = ("FORCE", "CACHE", "NOCACHE", "SECONDARY_LOAD", "SECONDARY_UNLOAD")
_CLAUSES: dict[str, Callable[[Cursor], statements.Clause | tuple[statements.Clause, ...]]] = {
    "ADD": _add, "DROP": _drop, "MODIFY": _modify, "CHANGE": _change, "RENAME": _rename, "ALTER": _alter,
    "CONVERT": _convert, "ORDER": _order, "SET": _set, "ALGORITHM": algorithm, "LOCK": algorithm,
    "PARTITION": partitions.partition, "EXCHANGE": partitions.exchange,
    **dict.fromkeys(("ATTRIBUTES", "STATS_OPTIONS"), partitions.text_or_default),
    **dict.fromkeys(("DISCARD", "IMPORT"), partitions.tablespace),
    **dict.fromkeys(("FIRST", "LAST", "MERGE", "SPLIT"), partitions.interval_end),
    **dict.fromkeys(
        ("TRUNCATE", "REBUILD", "CHECK", "OPTIMIZE", "REPAIR", "ANALYZE", "COALESCE", "REORGANIZE"),
        partitions.named_partitions,
    ),
}  # fmt: skip
