"""CREATE TABLE: columns, indexes, options and partitions (upstream `pkg/parser/parser.y`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from schemas.ddl.columns import charset_words, column_definition, enforced, references
from schemas.ddl.cursor import Cursor
from schemas.ddl.expressions import expression
from schemas.ddl.lexer import NUMBER, STRING, WORD
from schemas.ddl.statements import ColumnDef, IndexDef, TableOptions

_INDEX_FIRST = frozenset("CONSTRAINT PRIMARY UNIQUE INDEX KEY FULLTEXT SPATIAL FOREIGN CHECK".split())


def starts_index(c: Cursor) -> bool:
    """Whether an index or a constraint comes, not a column. A column may be called `vector` or `columnar`."""
    if c.upper in ("VECTOR", "COLUMNAR"):
        return c.ahead().upper in ("INDEX", "KEY")
    return c.upper in _INDEX_FIRST


def elements(c: Cursor) -> tuple[tuple[ColumnDef, ...], tuple[IndexDef, ...]]:
    """( column or index, … ), from the opening parenthesis to the closing one."""
    columns: list[ColumnDef] = []
    indexes: list[IndexDef] = []
    c.expect("(")
    while True:
        if starts_index(c):
            indexes.append(index_definition(c))
        else:
            columns.append(column_definition(c))
        if not c.accept(","):
            c.expect(")")
            return tuple(columns), tuple(indexes)


# ---- indexes
def index_definition(c: Cursor) -> IndexDef:
    """[CONSTRAINT name] PRIMARY KEY | UNIQUE | INDEX | FOREIGN KEY | CHECK …"""
    name = ""
    if c.accept("CONSTRAINT") and c.is_name():
        name = c.name()
    if c.accept("PRIMARY", "KEY"):
        return IndexDef("primary", optional_name(c) or name, _keys(c))
    if c.accept("UNIQUE"):
        c.accept_any("INDEX", "KEY")
        return IndexDef("unique", optional_name(c) or name, _keys(c))
    if c.accept("FOREIGN", "KEY"):
        return _foreign(c, name)
    if c.accept("CHECK"):
        c.expect("(")
        expression(c)
        c.expect(")")
        enforced(c)
        return IndexDef("check", name)
    if name or not starts_index(c):
        c.fail("PRIMARY KEY", "UNIQUE", "FOREIGN KEY", "CHECK")
    if c.accept_any("FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR"):
        c.accept_any("INDEX", "KEY")
    else:
        c.advance()
    return IndexDef("index", optional_name(c, exists=True), _keys(c))


def optional_name(c: Cursor, exists: bool = False) -> str:
    """An index's name, if one comes. USING is a word an index may begin with, so it is no name."""
    if exists:
        c.accept("IF", "NOT", "EXISTS")
    return c.name() if c.is_name() and c.upper not in ("USING", "TYPE") else ""


def _foreign(c: Cursor, name: str) -> IndexDef:
    c.accept("IF", "NOT", "EXISTS")
    name = optional_name(c) or name
    columns = parts(c)
    references(c)
    return IndexDef("foreign", name, columns)


def _keys(c: Cursor) -> tuple[str, ...]:
    _using(c)
    columns = parts(c)
    index_options(c)
    return columns


def _using(c: Cursor) -> None:
    if c.accept_any("USING", "TYPE") and not c.accept_any("BTREE", "HASH", "RTREE", "HYPO", "HNSW", "INVERTED"):
        c.fail("BTREE", "HASH", "HNSW")


def parts(c: Cursor) -> tuple[str, ...]:
    """(column [(length)] | (expression), …): names, "" for an expression."""
    c.expect("(")
    found = []
    while True:
        if c.upper == "(":
            c.expect("(")
            expression(c)
            c.expect(")")
            found.append("")
        else:
            found.append(c.column())
            if c.accept("("):
                c.integer("a length")
                c.expect(")")
        c.accept_any("ASC", "DESC")
        if not c.accept(","):
            c.expect(")")
            return tuple(found)


def index_options(c: Cursor) -> None:
    """What may follow an index's columns; none of it has an effect on rows."""
    while True:
        if c.upper in ("USING", "TYPE"):
            _using(c)
        elif c.accept("COMMENT"):
            c.string()
        elif c.accept("KEY_BLOCK_SIZE") or c.accept("PRE_SPLIT_REGIONS"):
            c.skip_equals()
            if c.upper == "(":
                c.parenthesised()
            else:
                c.integer()
        elif c.accept("WITH"):
            c.expect("PARSER")
            c.name("a parser's name")
        elif c.accept("WHERE"):
            expression(c)
        elif c.accept_any("ADD_COLUMNAR_REPLICA_ON_DEMAND", "SECONDARY_ENGINE_ATTRIBUTE"):
            if c.token.kind == STRING or c.upper == "=":
                c.skip_equals()
                c.string()
        elif not c.accept_any("CLUSTERED", "NONCLUSTERED", "VISIBLE", "INVISIBLE", "GLOBAL", "LOCAL"):
            return


# ---- table options
def _number_option(c: Cursor, found: TableOptions) -> TableOptions:
    c.integer()
    return found


def _word_option(c: Cursor, found: TableOptions) -> TableOptions:
    if c.token.kind == NUMBER:
        c.integer()
    else:
        c.word_or_text("a word or a text")
    return found


def _charset_option(c: Cursor, found: TableOptions) -> TableOptions:
    return replace(found, charset=c.word_or_text("a character set").lower())


def _collate_option(c: Cursor, found: TableOptions) -> TableOptions:
    return replace(found, collate=c.word_or_text("a collation").lower())


def _comment_option(c: Cursor, found: TableOptions) -> TableOptions:
    return replace(found, comment=c.string())


def _ttl_option(c: Cursor, found: TableOptions) -> TableOptions:
    expression(c)
    return found


def _union_option(c: Cursor, found: TableOptions) -> TableOptions:
    c.parenthesised()
    return found


_NUMBERS = """AUTO_INCREMENT AUTO_RANDOM_BASE AUTO_ID_CACHE AVG_ROW_LENGTH CHECKSUM KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS
    SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS STATS_BUCKETS STATS_TOPN TABLE_CHECKSUM DELAY_KEY_WRITE STATS_SAMPLE_PAGES
    FORCE_AUTO_INCREMENT""".split()
_WORDS = """ENGINE ROW_FORMAT COMPRESSION CONNECTION PASSWORD ENCRYPTION INSERT_METHOD TABLESPACE NODEGROUP
    STATS_PERSISTENT STATS_AUTO_RECALC STATS_SAMPLE_RATE STATS_COL_CHOICE STATS_COL_LIST PACK_KEYS
    SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE ENGINE_ATTRIBUTE TTL_ENABLE TTL_JOB_INTERVAL STORAGE AFFINITY
    AUTOEXTEND_SIZE PAGE_CHECKSUM PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL TRANSACTIONAL IETF_QUOTES SEQUENCE
    """.split()
_OPTIONS: dict[str, Callable[[Cursor, TableOptions], TableOptions]] = {
    **dict.fromkeys(_NUMBERS, _number_option), **dict.fromkeys(_WORDS, _word_option), "COMMENT": _comment_option,
    "COLLATE": _collate_option, "CHARSET": _charset_option, "TTL": _ttl_option, "UNION": _union_option,
}  # fmt: skip
_PHRASES = (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"), ("PLACEMENT", "POLICY"))


def table_option(c: Cursor, found: TableOptions) -> TableOptions | None:
    """One option of a table, or None if none comes."""
    default = c.upper == "DEFAULT" and c.ahead().upper in ("CHARSET", "CHARACTER", "CHAR", "COLLATE", "PLACEMENT")
    if default:
        c.advance()
    if charset_words(c):
        c.skip_equals()
        return _charset_option(c, found)
    if c.token.kind == WORD and c.upper in _OPTIONS and c.ahead().upper != "(":
        reader = _OPTIONS[c.advance().upper]
        c.skip_equals()
        return reader(c, found)
    if c.upper == "UNION":
        c.expect("UNION")
        return _union_option(c, found)
    for words in _PHRASES:
        if c.accept(*words):
            c.skip_equals()
            return _word_option(c, found)
    if default:
        c.fail("CHARACTER SET", "COLLATE")
    return None


def table_options(c: Cursor) -> TableOptions:
    """All options; commas may stand between them."""
    found = TableOptions()
    while True:
        changed = table_option(c, found)
        if changed is None:
            return found
        found = changed
        if c.upper == "," and c.ahead().kind == WORD:
            c.advance()
