"""CREATE TABLE: columns, indexes, options and partitions (upstream `pkg/parser/parser.y`)."""

from dataclasses import replace

from ticdc_bridge.schemas.ddl.parser import column_definitions
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import NUMBER, STRING
from ticdc_bridge.schemas.ddl.parser.literals import unit
from ticdc_bridge.schemas.ddl.parser.statements import UNREAD, ColumnDef, IndexDef, TableOptions

_INDEX_FIRST = frozenset("CONSTRAINT PRIMARY UNIQUE INDEX KEY FULLTEXT SPATIAL FOREIGN CHECK".split())


def starts_index(c: Cursor) -> bool:
    """True if an index or a constraint comes, not a column. A column may be called `vector` or `columnar`."""
    return c.peek().upper == "INDEX" if c.upper in ("VECTOR", "COLUMNAR", "HYBRID") else c.upper in _INDEX_FIRST


def elements(c: Cursor) -> tuple[tuple[ColumnDef, ...], tuple[IndexDef, ...]]:
    """( column or index, … ), from the opening parenthesis to the closing one."""
    found = c.list_in_parentheses(_element)
    columns = tuple(element for element in found if isinstance(element, ColumnDef))
    return columns, tuple(element for element in found if isinstance(element, IndexDef))


def _element(c: Cursor) -> ColumnDef | IndexDef:
    if c.upper == ")":
        c.refuse("a column or an index is expected, not ')'")
    return index_definition(c) if starts_index(c) else column_definitions.column_definition(c)


# ---- indexes
def index_definition(c: Cursor) -> IndexDef:
    """[CONSTRAINT name] PRIMARY KEY | UNIQUE | INDEX | FOREIGN KEY | CHECK …"""
    name = ""
    if c.accept("CONSTRAINT") and c.is_name():
        name = c.name()
    if c.accept("PRIMARY", "KEY"):
        return _keys(c, IndexDef("primary", _index_name(c, name)))
    if c.accept("UNIQUE"):
        c.accept_any("INDEX", "KEY")
        return _keys(c, IndexDef("unique", _index_name(c, name)))
    if c.accept("FOREIGN", "KEY"):
        c.accept("IF", "NOT", "EXISTS")
        name = _index_name(c, name)
        columns, lengths, _ = index_columns(c)
        table, referenced = column_definitions.references(c)
        return IndexDef("foreign", name, columns, lengths, references=table, referenced=referenced)
    if c.upper == "CHECK":
        column_definitions.check_constraint(c)
        return IndexDef("check", name)
    if not starts_index(c):
        c.fail("PRIMARY KEY", "UNIQUE", "FOREIGN KEY", "CHECK")
    special = c.accept_any("FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID")
    if special:
        c.accept_any("INDEX", "KEY")
    else:
        c.advance()
    c.accept("IF", "NOT", "EXISTS")
    return replace(_keys(c, IndexDef("index", _index_name(c, name))), special=special)


def _index_name(c: Cursor, of_constraint: str) -> str:
    """The name after CONSTRAINT, or that which comes, if one does. An index may be called `type`, but not `using`."""
    name = c.name() if c.is_name() else ""
    return of_constraint or name


def _keys(c: Cursor, index: IndexDef) -> IndexDef:
    _using(c)
    columns, lengths, texts = index_columns(c)
    return index_options(c, replace(index, parts=columns, lengths=lengths, expressions=texts))


def _using(c: Cursor) -> None:
    if c.accept_any("USING", "TYPE") and not c.accept_any("BTREE", "HASH", "RTREE", "HYPO", "HNSW", "INVERTED"):
        c.fail("BTREE", "HASH", "HNSW")


def index_columns(c: Cursor) -> tuple[tuple[str, ...], tuple[int | None, ...], tuple[str, ...]]:
    """(column [(length)] | (expression), …): names, "" for an expression; lengths, None where not written; and the text
    of the expressions that are understood."""
    c.expect("(")
    names, lengths, texts = list[str](), list[int | None](), list[str]()
    while True:
        lengths.append(None)
        if c.upper == "(":
            if (text := c.attempt(lambda c: c.in_parentheses(expression))) is None:
                c.skip_parentheses()
            else:
                texts.append(text)
            names.append("")
        else:
            names.append(c.column())
            if c.upper == "(":
                lengths[-1] = c.in_parentheses(lambda c: c.integer("a length"))
        c.accept_any("ASC", "DESC")
        if not c.accept(","):
            c.expect(")")
            return tuple(names), tuple(lengths), tuple(texts)


def index_options(c: Cursor, index: IndexDef) -> IndexDef:
    """The index with what may follow its columns; none of it has an effect on rows."""
    while True:
        if c.upper in ("USING", "TYPE"):
            _using(c)
        elif c.accept("COMMENT"):
            c.string()
        elif c.accept("PARAMETER"):
            c.accept("=")
            c.string()
        elif c.accept("KEY_BLOCK_SIZE") or c.accept("PRE_SPLIT_REGIONS"):
            c.accept("=")
            if c.upper == "(":
                c.skip_parentheses()
            else:
                c.integer()
        elif c.accept("WITH"):
            c.expect("PARSER")
            c.name("a parser's name")
        elif c.accept("WHERE"):
            index = replace(index, condition=c.attempt(expression) or UNREAD)
            if index.condition == UNREAD:
                c.skip_expression()
        elif c.accept_any("ADD_COLUMNAR_REPLICA_ON_DEMAND", "SECONDARY_ENGINE_ATTRIBUTE"):
            if c.token.kind == STRING or c.upper == "=":
                c.accept("=")
                c.string()
        elif c.upper in ("CLUSTERED", "NONCLUSTERED"):
            index = replace(index, clustered=c.advance().upper == "CLUSTERED")
        elif not c.accept_any("VISIBLE", "INVISIBLE", "LOCAL", "GLOBAL"):
            return index


# ---- table options
_OPTIONS = frozenset("""
    AUTO_INCREMENT AUTO_RANDOM_BASE AUTO_ID_CACHE AVG_ROW_LENGTH CHECKSUM KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS
    SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS STATS_BUCKETS STATS_TOPN TABLE_CHECKSUM DELAY_KEY_WRITE COMPRESSION CONNECTION
    PASSWORD STATS_COL_CHOICE STATS_COL_LIST ROW_FORMAT INSERT_METHOD TABLESPACE NODEGROUP STATS_PERSISTENT PACK_KEYS
    SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE ENGINE_ATTRIBUTE STORAGE AUTOEXTEND_SIZE STORAGE_CLASS PAGE_CHECKSUM
    PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL TRANSACTIONAL IETF_QUOTES SEQUENCE TTL_ENABLE TTL_JOB_INTERVAL
    STATS_AUTO_RECALC STATS_SAMPLE_PAGES STATS_SAMPLE_RATE AFFINITY ENCRYPTION COMMENT ENGINE COLLATE CHARSET TTL UNION
""".split())  # fmt: skip
_KEPT = ("COMMENT", "ENGINE", "COLLATE", "CHARSET", "TTL", "AFFINITY")
_PHRASES = (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"), ("STORAGE", "ENGINE"), ("PLACEMENT", "POLICY"))


def _option_value(c: Cursor, word: str, options: TableOptions) -> TableOptions:
    """The options with the value of one, which comes. Only the kept ones are looked at."""
    match word:
        case "CHARSET" if c.upper == "DEFAULT":
            c.refuse("a character set is expected: TiDB has DEFAULT after CONVERT TO alone")
        case "CHARSET":
            return replace(options, charset=c.word_or_text("a character set").lower())
        case "COLLATE":
            return replace(options, collate=c.word_or_text("a collation").lower())
        case "ENGINE":
            return replace(options, engine=c.word_or_text("an engine"))
        case "COMMENT":
            return replace(options, comment=c.string())
        case "UNION":
            c.skip_parentheses()
        case "TTL":  # column + INTERVAL literal unit
            c.name("a column's name")
            c.expect("+", "INTERVAL")
            c.advance()
            unit(c)
        case _ if c.token.kind == NUMBER:
            c.advance()
        case _:
            c.word_or_text("a number, a word or a text")
    return options


def table_option(c: Cursor, options: TableOptions) -> TableOptions | None:
    """One option of a table, or None if none comes."""
    default = c.upper == "DEFAULT" and c.peek().upper in ("CHARSET", "CHARACTER", "CHAR", "COLLATE", "PLACEMENT")
    if default:
        c.advance()
    if column_definitions.charset_words(c):
        c.accept("=")
        return _option_value(c, "CHARSET", options)
    if phrase := " ".join(next((words for words in _PHRASES if c.accept(*words)), ())):
        others = replace(options, others=(*options.others, phrase))
        if phrase == "PLACEMENT POLICY":
            is_default = c.upper == "SET"
            column_definitions.placement_policy(c)
            return options if is_default else others
        c.accept("=")
        return _option_value(c, phrase, others)
    if c.upper in _OPTIONS and (c.upper == "UNION" or c.peek().upper != "("):
        word = c.advance().upper
        c.accept("=")
        is_kept = word in _KEPT or (word == "SHARD_ROW_ID_BITS" and c.upper == "0")  # none, as of any table
        return _option_value(c, word, options if is_kept else replace(options, others=(*options.others, word)))
    if c.upper == "FORCE" and c.peek().upper in ("AUTO_INCREMENT", "AUTO_RANDOM_BASE"):
        c.advance()
        return table_option(c, options)
    if default:
        c.fail("CHARACTER SET", "COLLATE")
    return None


def table_options(c: Cursor) -> TableOptions:
    """All options; commas may stand between them. A comma after them is left for the caller."""
    options, comma = TableOptions(), False
    while True:
        changed = table_option(c, options)
        if changed is None:
            if comma:
                c.step_back()
            return options
        options, comma = changed, c.accept(",")
