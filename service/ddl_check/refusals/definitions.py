"""What TiDB refuses of definitions, in CREATE TABLE and ALTER TABLE alike: names, charsets, columns, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import Charset, resolve
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import END, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statements import ChangeColumn, ColumnDef, TableName, TableOptions
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal, SqlModes, of_column, of_name
from ticdc_bridge.service.ddl_check.refusals.defaults import of_default
from ticdc_bridge.service.ddl_check.refusals.generated import generated_names, of_generated

MAX_COLUMNS: Final = 1017  # TiDB's table-column-count-limit
_COLLATIONS: Final = frozenset("""
    ascii_bin binary gb18030_bin gb18030_chinese_ci gbk_bin gbk_chinese_ci latin1_bin utf8_bin utf8_general_ci
    utf8_unicode_ci utf8mb4_0900_ai_ci utf8mb4_0900_bin utf8mb4_bin utf8mb4_general_ci utf8mb4_unicode_ci
    utf8mb4_zh_pinyin_tidb_as_cs
""".split())  # fmt: skip
_CHARSETS: Final = ("utf8mb4", "utf8", "utf8mb3", "latin1", "ascii", "binary", "gbk", "gb18030")
_INTRODUCERS: Final = ("utf8mb4", "utf8", "utf8mb3", "latin1", "ascii", "binary")
_ENGINES: Final = (
    "archive", "blackhole", "csv", "example", "federated", "innodb", "memory", "merge", "mgr_myisam", "myisam", "ndb",
    "heap", "aria", "myrocks", "tokudb",
)  # fmt: skip


def of_table_name(name: TableName) -> Iterator[Refusal]:
    yield from of_name(name.table, 1103, "Incorrect table name '{name}'")


def of_taken(catalog: Catalog, name: TableName, db: str) -> Iterator[Refusal]:
    if catalog.exists(name.in_db(db)):
        yield Refusal(1050, f"Table '{name.in_db(db)}' already exists")


def wrong_object(id_: TableId, kind: str) -> Refusal:
    return Refusal(1347, f"'{id_}' is not {kind}")


def unknown(kind: str, id_: TableId) -> Refusal:
    """The error of DROP for a table, view or sequence that is not there."""
    return (
        Refusal(4139, f"Unknown SEQUENCE: '{id_}'") if kind == "sequence" else Refusal(1051, f"Unknown table '{id_}'")
    )


def of_rename(catalog: Catalog, old: TableId, new: TableName, db: str) -> Iterator[Refusal]:
    yield from of_table_name(new)
    target = new.in_db(db)
    if target.folded != old.folded:
        yield from of_taken(catalog, new, db)
        yield from of_target(catalog, old, target)


def of_target(catalog: Catalog, old: TableId, new: TableId) -> Iterator[Refusal]:
    """Where a table or a view goes to (upstream `pkg/ddl/executor.go`, ExtractTblInfos)."""
    relation = catalog.relation(old)
    if relation is not None and relation.kind == "view" and old.db != new.db:
        yield Refusal(1450, f"Changing schema from '{old.db}' to '{new.db}' is not allowed.")
    if catalog.databases.get(new.db) is None:
        text = f"Error on rename of '{old}' to '{new}' (errno: 168 - Database `{new.db}` doesn't exist)"
        yield Refusal(1025, text, certain=False)


# ---- character sets
def of_charset_names(charset: str | None, collate: str | None) -> Iterator[Refusal]:
    if charset and charset not in (*_CHARSETS, "default"):
        yield Refusal(1115, f"Unknown character set: '{charset}'")
    elif collate:
        known = collate.replace("utf8mb3_", "utf8_")
        if known not in _COLLATIONS:
            yield Refusal(1273, f"Unknown collation: '{collate}'")
        elif charset and charset != "default":
            owner = "binary" if known == "binary" else known.partition("_")[0]
            if owner != charset.replace("utf8mb3", "utf8"):
                yield Refusal(1253, f"COLLATION '{collate}' is not valid for CHARACTER SET '{charset}'")


def of_introducers(sql: str, mode: LexicalMode) -> Iterator[Refusal]:
    """Character sets before texts and bits, as in _gbk'…': TiDB takes some of those that it has."""
    c = Cursor(sql, mode)
    while c.token.kind != END:
        if c.is_introducer() and c.upper[1:].lower() not in _INTRODUCERS:
            yield Refusal(1115, f"Unsupported character introducer: '{c.upper[1:].lower()}'")
        c.advance()


def of_options(options: TableOptions) -> Iterator[Refusal]:
    yield from of_charset_names(options.charset, options.collate)
    if options.engine is not None and options.engine.lower() not in _ENGINES:
        yield Refusal(1286, f"Unknown storage engine '{options.engine}'")


def of_comment(table: str, options: TableOptions) -> Iterator[Refusal]:
    """A table's comment, in strict mode."""
    if len(options.comment or "") > 2048:
        yield Refusal(1628, f"Comment for table '{table}' is too long (max = 2048)")


def charset_of(charset: str | None, collate: str | None, fallback: Charset) -> Charset:
    try:
        return resolve(charset, collate, fallback)
    except DdlError:
        return fallback


# ---- columns
def of_definition(defined: ColumnDef, table: Charset, modes: SqlModes, added: bool) -> Iterator[Refusal]:
    """A column that is defined, in a table of this character set."""
    yield from of_charset_names(defined.type.charset, defined.collate)
    own = charset_of(defined.type.charset, defined.collate, table)
    before = [*of_column(defined, own, modes), *of_generated(defined)]
    yield from before
    if not before:
        try:
            bare = column(replace(defined, default=None), table)
        except DdlError:
            return
        yield from of_default(defined, bare, modes, added)


def of_owner(defined: ColumnDef, id_: TableId) -> Iterator[Refusal]:
    """Names of a table, and of a database, before the column's, which have to be its own."""
    *databases, table = (name.lower() for name in defined.owner or (id_.table,))
    if databases and databases != [id_.db.lower()]:
        yield Refusal(1102, f"Incorrect database name '{databases[0]}'")
    elif table != id_.table.lower():
        yield Refusal(1103, f"Incorrect table name '{table}'")


def of_dependency(defined: ColumnDef, names: Sequence[str]) -> Iterator[Refusal]:
    """names: all columns of the table, with the new one."""
    known = {name.lower() for name in names}
    for name in generated_names(defined.generated or ""):
        if name.lower() not in known:
            yield Refusal(1054, f"Unknown column '{name}' in 'generated column function'")


def of_order(columns: Sequence[ColumnDef]) -> Iterator[Refusal]:
    """CREATE TABLE: a generated column names only those that are ordinary or come before it."""
    later = {c.name.lower(): c for c in columns if c.generated is not None}
    automatic = {c.name.lower() for c in columns if c.auto_increment}
    for one in columns:
        for name in map(str.lower, generated_names(one.generated or "")):
            if name in later:
                yield Refusal(3107, "Generated column can refer only to generated columns defined prior to it.")
            if name in automatic:
                yield Refusal(3109, f"Generated column '{one.name}' cannot refer to auto-increment column.")
        later.pop(one.name.lower(), None)


def of_later(table: Table, clause: ChangeColumn) -> Iterator[Refusal]:
    """A generated column may name only generated ones that stand before it."""
    order = [c.name.lower() for c in table.columns if c.name.lower() != clause.old.lower()]
    place = next(n for n, c in enumerate(table.columns) if c.name.lower() == clause.old.lower())
    if clause.position is not None:
        after = clause.position.after.lower()
        place = order.index(after) + 1 if after in order else 0
    for name in map(str.lower, generated_names(clause.column.generated or "")):
        named = find(table.columns, name)
        if named is not None and named.generated is not None and name in order[place:]:
            yield Refusal(3107, "Generated column can refer only to generated columns defined prior to it.")


def of_twice(names: Sequence[str]) -> Iterator[Refusal]:
    lower = [name.lower() for name in names]
    yield from (
        Refusal(1060, f"Duplicate column name '{name}'") for n, name in enumerate(names) if name.lower() in lower[:n]
    )


def bare_columns(defined: Sequence[ColumnDef], charset: Charset) -> tuple[Column, ...] | None:
    try:
        return tuple(column(replace(one, default=None), charset) for one in defined)
    except DdlError:
        return None
