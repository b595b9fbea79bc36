"""DDL text → a statement. Recursive descent over schemas.ddl.parser.cursor; one function a kind of statement.

What TiDB's grammar allows and TiCDC can send is read in full; an unknown clause is an error with line, column and what
was expected. Source: upstream tidb `pkg/parser/parser.y`.
"""

from collections.abc import Callable
from typing import Literal

from ticdc_bridge.schemas.ddl.parser import alter_clauses, partitions, statements
from ticdc_bridge.schemas.ddl.parser.column_definitions import charset_words, placement_policy
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import END, NUMBER, STRING, TYPED, LexicalMode
from ticdc_bridge.schemas.ddl.parser.table_elements import elements, index_options, table_options
from ticdc_bridge.schemas.ddl.parser.table_elements import index_columns as index_parts
from ticdc_bridge.schemas.model.errors import DdlError

Temporary = Literal["", "local", "global"]


def parse(text: str, mode: LexicalMode = TYPED, db: str = "") -> statements.Statement:
    """One DDL statement. db: the current database, for names in stored expressions.

    DdlError DDL_SYNTAX (line, column, what is expected) or DDL_TOO_LONG.
    """
    c = Cursor(text, mode, db)
    parser = _STATEMENTS.get(c.upper)
    if parser is None:
        c.fail("a DDL statement")
    try:
        statement = parser(c)
        c.end()
    except RecursionError:
        raise DdlError("DDL_SYNTAX", line=1, column=1, details="nested too deep") from None
    return statement


# ---- CREATE
def _create(c: Cursor) -> statements.Statement:
    c.expect("CREATE")
    if c.accept_any("DATABASE", "SCHEMA"):
        lenient = c.accept("IF", "NOT", "EXISTS")
        return statements.CreateDatabase(c.name("a database's name"), lenient, *_database_options(c))
    temporary = _temporary(c)
    if c.upper == "TABLE":
        return _create_table(c, temporary)
    if _starts_index(c):
        return _create_index(c)
    or_replace = c.accept("OR", "REPLACE")
    if or_replace and c.upper == "TABLE":
        c.refuse("TiDB has no CREATE OR REPLACE TABLE")
    if c.upper in ("ALGORITHM", "DEFINER", "SQL", "VIEW"):
        return _create_view(c, or_replace)
    if c.accept("SEQUENCE"):
        lenient = c.accept("IF", "NOT", "EXISTS")
        sequence = statements.CreateRelation("sequence", c.table(), if_not_exists=lenient)
        c.rest()
        return sequence
    return _without_rows(c, "CREATE")


# Of MySQL, and not in TiDB's grammar.
_NOT_TIDBS = ("TRIGGER", "EVENT", "FUNCTION", "AGGREGATE", "SERVER", "TABLESPACE", "LOGFILE", "UNDO")


def _create_view(c: Cursor, or_replace: bool) -> statements.CreateRelation:
    """From ALGORITHM, DEFINER, SQL SECURITY or VIEW to the statement's end."""
    while c.token.kind != END and c.upper not in ("VIEW", *_NOT_TIDBS):
        c.advance()
    if c.upper in _NOT_TIDBS:
        c.refuse(f"TiDB has no CREATE {c.upper}")
    c.expect("VIEW")
    view = statements.CreateRelation("view", c.table(), or_replace)
    c.rest()
    return view


def _temporary(c: Cursor) -> Temporary:
    if c.accept("GLOBAL", "TEMPORARY"):
        return "global"
    return "local" if c.accept("TEMPORARY") else ""


def _starts_index(c: Cursor) -> bool:
    if c.upper in ("VECTOR", "COLUMNAR", "HYBRID"):
        return c.peek().upper == "INDEX"
    if c.upper in ("UNIQUE", "FULLTEXT", "SPATIAL"):
        return c.peek().upper in ("INDEX", "KEY")
    return c.upper in ("INDEX", "KEY")


def _database_options(c: Cursor) -> tuple[str, str]:
    """Character set and collation, "" where not written."""
    charset = collate = ""
    while True:
        c.accept("DEFAULT")
        if charset_words(c):
            c.accept("=")
            charset = c.word_or_text("a character set").lower()
        elif c.accept("COLLATE"):
            c.accept("=")
            collate = c.word_or_text("a collation").lower()
        elif c.accept("ENCRYPTION"):
            c.accept("=")
            c.string()
        elif c.accept("PLACEMENT", "POLICY"):
            placement_policy(c)
        elif c.accept("SET"):
            alter_clauses.tiflash_replica(c)
        else:
            return charset, collate


def _create_table(c: Cursor, temporary: Temporary) -> statements.Statement:
    c.expect("TABLE")
    lenient = c.accept("IF", "NOT", "EXISTS")
    table = c.table()
    if c.upper == "LIKE" or (c.upper == "(" and c.peek().upper == "LIKE"):
        in_parentheses = c.accept("(")
        c.expect("LIKE")
        like = c.table()
        if in_parentheses:
            c.expect(")")
        _on_commit(c, temporary)
        return statements.CreateTable(table, like=like, if_not_exists=lenient, temporary=temporary)
    columns, indexes = elements(c) if c.upper == "(" else ((), ())
    options = table_options(c)
    partitioned, partitioning = partitions.partition_by(c)
    if c.mode.shown:  # TTL comes last
        table_options(c)
    while c.accept("SPLIT"):
        partitions.split_rule(c)
    from_select = c.upper in _SELECTS or (c.upper == "(" and not columns)
    if from_select:
        c.rest()
    else:
        _on_commit(c, temporary)
    return statements.CreateTable(
        table, columns, indexes, options, None, lenient, temporary, partitioned, from_select, partitioning
    )


_SELECTS = ("AS", "SELECT", "WITH", "TABLE", "VALUES", "IGNORE", "REPLACE")


def _on_commit(c: Cursor, temporary: Temporary) -> None:
    """Global temporary tables have it, and no others (upstream `pkg/parser/parser.y`, CreateTableStmt)."""
    if temporary == "global":
        c.expect("ON", "COMMIT", "DELETE", "ROWS")


def _create_index(c: Cursor) -> statements.Statement:
    first = c.advance().upper
    kind: Literal["unique", "index"] = "unique" if first == "UNIQUE" else "index"
    special = first if first in ("FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID") else ""
    c.accept_any("INDEX", "KEY")
    lenient = c.accept("IF", "NOT", "EXISTS")
    name = c.name("an index's name")
    if c.accept_any("USING", "TYPE"):
        c.name("BTREE or HASH")
    c.expect("ON")
    table = c.table()
    pieces, lengths, texts = index_parts(c)
    index = index_options(c, statements.IndexDef(kind, name, pieces, lengths, special, expressions=texts))
    while c.upper in alter_clauses.ALGORITHMS:
        alter_clauses.algorithm(c)
    return statements.AlterTable(table, (statements.AddIndex(index, lenient),))


# ---- DROP, TRUNCATE, RENAME
def _drop(c: Cursor) -> statements.Statement:
    c.expect("DROP")
    if c.accept_any("DATABASE", "SCHEMA"):
        lenient = c.accept("IF", "EXISTS")
        return statements.DropDatabase(c.name("a database's name"), lenient)
    if _starts_index(c) or (c.upper == "HYPO" and c.peek().upper == "INDEX"):
        c.accept("HYPO")
        c.expect("INDEX")
        lenient = c.accept("IF", "EXISTS")
        index = "PRIMARY" if c.accept("PRIMARY") else c.name("an index's name")
        c.expect("ON")
        table = c.table()
        while c.upper in alter_clauses.ALGORITHMS:
            alter_clauses.algorithm(c)
        return statements.AlterTable(table, (statements.DropIndex(index, lenient),))
    temporary = _temporary(c)
    kind = _DROPPED.get(c.upper)
    if kind is None or (temporary and kind != "table"):
        return _without_rows(c, "DROP")
    c.advance()
    lenient = c.accept("IF", "EXISTS")
    tables = tuple(c.listed(Cursor.table))
    c.accept_any("RESTRICT", "CASCADE")
    return statements.DropTables(kind, tables, lenient, temporary)


_DROPPED: dict[str, Literal["table", "view", "sequence"]] = {
    "TABLE": "table", "TABLES": "table", "VIEW": "view", "SEQUENCE": "sequence",
}  # fmt: skip


def _truncate(c: Cursor) -> statements.Statement:
    c.expect("TRUNCATE")
    c.accept("TABLE")
    return statements.TruncateTable(c.table())


def _rename(c: Cursor) -> statements.Statement:
    c.expect("RENAME")
    if not c.accept_any("TABLE", "TABLES"):
        return _without_rows(c, "RENAME")
    pairs = []
    while True:
        old = c.table()
        c.expect("TO")
        pairs.append((old, c.table()))
        if not c.accept(","):
            return statements.RenameTables(tuple(pairs))


# ---- ALTER
def _alter(c: Cursor) -> statements.Statement:
    c.expect("ALTER")
    c.accept("IGNORE")
    if c.accept_any("DATABASE", "SCHEMA"):
        words = ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "PLACEMENT", "SET")
        name = c.name("a database's name") if c.is_name() and c.upper not in words else ""
        return statements.AlterDatabase(name, *_database_options(c))
    if not c.accept("TABLE"):
        return _without_rows(c, "ALTER")
    table = c.table()
    if c.accept("COMPACT"):
        if c.accept("PARTITION"):
            partitions.names(c)
        c.accept("TIFLASH", "REPLICA")
        return statements.AlterTable(table, (statements.NoColumnEffect("COMPACT"),))
    if c.upper == "ANALYZE":
        clause = partitions.named_partitions(c)
        c.rest()  # INDEX …, WITH n BUCKETS and the like
        return statements.AlterTable(table, (clause,))
    return statements.AlterTable(table, alter_clauses.clauses(c))


# ---- RECOVER and FLASHBACK
def _recover(c: Cursor) -> statements.Statement:
    c.expect("RECOVER", "TABLE")
    if c.accept("BY"):
        c.expect("JOB")
        c.integer("a job's number")
        return statements.RecoverTable(None)
    table = c.table()
    if c.token.kind == NUMBER:
        c.integer()
    return statements.RecoverTable(table)


def _flashback(c: Cursor) -> statements.Statement:
    c.expect("FLASHBACK")
    if c.accept("CLUSTER"):
        return _to_time(c)
    if c.accept_any("DATABASE", "SCHEMA"):
        name = c.name("a database's name")
        if _comes_time(c):
            return _to_time(c)
        return statements.FlashbackDatabase(name, c.name("a database's name") if c.accept("TO") else "")
    c.expect("TABLE")
    tables = tuple(c.listed(Cursor.table))
    if _comes_time(c):
        return _to_time(c)
    if len(tables) > 1:
        c.fail("TO TIMESTAMP", "TO TSO")
    return statements.RecoverTable(tables[0], c.name("a table's name") if c.accept("TO") else "")


def _comes_time(c: Cursor) -> bool:
    """True if TO TIMESTAMP '…' or TO TSO n comes. A table may be called `timestamp`."""
    return c.upper == "TO" and c.peek().upper in ("TIMESTAMP", "TSO") and c.peek(2).kind in (STRING, NUMBER)


def _to_time(c: Cursor) -> statements.Statement:
    c.expect("TO")
    if c.accept("TIMESTAMP"):
        c.string("a time in quotes")
    else:
        c.expect("TSO")
        if c.integer() == 0:
            c.step_back()
            c.refuse("a TSO is above 0")
    return statements.NoRowEffect("FLASHBACK TO TIMESTAMP")


# ---- the rest
def _without_rows(c: Cursor, verb: str) -> statements.Statement:
    """Statements about other things than tables: read to their end, because nothing in them changes a table."""
    if c.upper in _NOT_TIDBS or (verb, c.upper) == ("ALTER", "VIEW"):
        c.refuse(f"TiDB has no {verb} {c.upper}")
    for words in _OTHER_OBJECTS:
        if c.accept(*words):
            c.rest()
            return statements.NoRowEffect(f"{verb} {' '.join(words)}")
    c.fail("TABLE", "DATABASE", "INDEX", "VIEW", "SEQUENCE", *(" ".join(words) for words in _OTHER_OBJECTS))


_OTHER_OBJECTS = tuple(
    tuple(words.split())
    for words in (
        "PLACEMENT POLICY", "RESOURCE GROUP", "SEQUENCE", "USER", "ROLE", "STATISTICS", "GLOBAL BINDING",
        "SESSION BINDING", "BINDING", "INSTANCE", "RANGE", "STATS", "PREPARE", "PROCEDURE", "MASKING POLICY",
    )
)  # fmt: skip


def _lock(c: Cursor) -> statements.Statement:
    what = c.advance().upper
    word = c.accept_any("STATS", "TABLE", "TABLES") or c.fail("TABLES", "STATS")
    c.rest()
    return statements.NoRowEffect(f"{what} {'STATS' if word == 'STATS' else 'TABLES'}")


def _admin(c: Cursor) -> statements.Statement:
    what = c.advance().upper
    c.rest()
    return statements.NoRowEffect(what)


_STATEMENTS: dict[str, Callable[[Cursor], statements.Statement]] = {
    "CREATE": _create, "DROP": _drop, "TRUNCATE": _truncate, "RENAME": _rename, "ALTER": _alter, "RECOVER": _recover,
    "FLASHBACK": _flashback, "LOCK": _lock, "UNLOCK": _lock, "ADMIN": _admin,
}  # fmt: skip
