"""Statements that TiDB itself refuses, as far as the tables alone can tell: with TiDB's error numbers.

Rules that migrations of public repositories run into and that hold in every supported version; `--try` asks a TiDB for
the rest. What depends on rows (a NULL, a value that is too long, a duplicate) is a risk, not a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.indexes import column_indexes
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateRelation,
    CreateTable,
    DropTables,
    RenameTables,
    Statement,
    TruncateTable,
)
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.ddl_check.refusals import keys
from ticdc_bridge.service.ddl_check.refusals.alter_table import NULL_IN_PRIMARY_KEY, Alteration, of_rename
from ticdc_bridge.service.ddl_check.refusals.definitions import (
    MAX_COLUMNS,
    Refusal,
    SqlModes,
    charset_of,
    of_charset_names,
    of_definition,
    of_dependency,
    of_name,
    of_options,
    of_twice,
)


def refusals(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> list[Refusal]:
    """Why TiDB refuses a statement, in no order of TiDB's; [] where nothing is known against it."""
    return list(dict.fromkeys(_of_statement(catalog, statement, db, modes)))


def _of_statement(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> Iterator[Refusal]:
    match statement:
        case CreateDatabase():
            yield from of_name(statement.name, 1102, "database")
            yield from of_charset_names(statement.charset, statement.collate)
            if catalog.databases.get(statement.name) and not statement.if_not_exists:
                yield Refusal(1007, f"Can't create database '{statement.name}'; database exists")
        case AlterDatabase():
            yield from of_charset_names(statement.charset, statement.collate)
        case CreateTable() if statement.from_select:
            yield Refusal(1105, "'CREATE TABLE ... SELECT' is not implemented yet")
        case CreateTable():
            yield from _of_create(catalog, statement, db, modes)
        case CreateRelation() if not (statement.replace or statement.if_not_exists):
            yield from _of_taken(catalog, statement.table.in_db(db))
        case RenameTables():
            left, made = set[TableId](), set[TableId]()
            for old, new in statement.pairs:  # in order: a later pair sees what an earlier one did
                source, target = old.in_db(db), new.in_db(db)
                found = list(of_rename(catalog, source, new, db))
                yield from (r for r in found if r.number != 1050 or target.folded not in left)
                if target.folded in {*made, source.folded}:
                    yield Refusal(1050, f"Table '{target}' already exists")
                left = (left | {source.folded}) - {target.folded}
                made = (made - {source.folded}) | {target.folded}
        case AlterTable():
            table = catalog.table(statement.table.in_db(db))
            if table is not None:
                yield from Alteration(catalog, table, db, modes).refusals(statement.clauses)
            elif there := catalog.exists(statement.table.in_db(db)):
                yield Refusal(1347, f"'{there}' is not BASE TABLE")
        case DropTables() if statement.temporary != "local":
            ids = [name.in_db(db) for name in statement.tables]
            for id_ in ids:
                if catalog.exists(id_) is None and not statement.if_exists:
                    yield Refusal(1051, f"Unknown table '{id_}'", certain=False)
                elif statement.kind == "table":
                    yield from keys.of_dropped_table(catalog, id_, ids, truncated=False)
        case TruncateTable():
            yield from keys.of_dropped_table(catalog, statement.table.in_db(db), (), truncated=True)


def _of_taken(catalog: Catalog, id_: TableId) -> Iterator[Refusal]:
    if catalog.exists(id_):
        yield Refusal(1050, f"Table '{id_}' already exists")


def _of_create(catalog: Catalog, s: CreateTable, db: str, modes: SqlModes) -> Iterator[Refusal]:
    id_ = s.table.in_db(db)
    yield from of_name(s.table.table, 1103, "table")
    if not s.if_not_exists and s.temporary != "local":
        yield from _of_taken(catalog, id_)
    if s.like is not None:
        source = s.like.in_db(db)
        if catalog.table(source) is None:
            yield Refusal(1146, f"Table '{source}' doesn't exist", certain=False)
        return
    if not s.columns:
        yield Refusal(1113, "A table must have at least 1 column")
    yield from of_options(s.options)
    database = catalog.databases.get(id_.db)
    charset = charset_of(s.options.charset, s.options.collate, database.charset if database else DEFAULT)
    yield from of_twice([c.name for c in s.columns])
    if len(s.columns) > MAX_COLUMNS:
        yield Refusal(1117, "Too many columns")
    for defined in s.columns:
        yield from of_definition(defined, charset, modes, added=False)
        yield from of_dependency(defined, s.columns)
    indexes = [*s.indexes, *column_indexes(s.columns)]
    primary = {part.lower() for index in indexes if index.kind == "primary" for part in index.parts}
    if any(c.name.lower() in primary and (c.nullable or (c.default and c.default.kind == "null")) for c in s.columns):
        yield NULL_IN_PRIMARY_KEY
    try:
        made = tuple(column(one, charset) for one in s.columns)
    except DdlError:
        return
    table = Table(id_, made, (), charset.name, charset.collate)
    yield from keys.of_indexes(table, indexes)
    yield from keys.of_automatic(s.columns, indexes)
    foreign = [index for index in s.indexes if index.kind == "foreign"]
    for index in foreign:
        yield from keys.of_foreign_key(catalog, table, index)
    names = [index.name.lower() for index in foreign if index.name]
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        yield Refusal(1826, f"Duplicate foreign key constraint name '{name}'")
    if foreign and s.partitioned_by is not None:
        yield Refusal(1506, "Foreign key clause is not yet supported in conjunction with partitioning")
