"""Statements that TiDB itself refuses, as far as the tables alone can tell: with TiDB's error numbers.

What depends on rows (a NULL, a value that is too long, a duplicate) is a risk, not a refusal. Checks are those of
upstream tidb `pkg/planner/core/preprocess.go` and `pkg/ddl`; docs/dry-run.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.ddl.executor.catalog import Catalog
from schemas.ddl.executor.charsets import DEFAULT
from schemas.ddl.executor.indexes import column_indexes
from schemas.ddl.parser.statements import (
    AlterTable,
    CreateDatabase,
    CreateRelation,
    CreateTable,
    RenameTables,
    Statement,
)
from schemas.model.table import Table
from service.ddl_check.refusals import indexes as index_refusals
from service.ddl_check.refusals.alter_table import Alteration
from service.ddl_check.refusals.columns import Refusal, SqlModes, of_name
from service.ddl_check.refusals.definitions import (
    MAX_COLUMNS,
    bare_columns,
    charset_of,
    of_charset_names,
    of_definition,
    of_dependency,
    of_options,
    of_order,
    of_partition,
    of_rename,
    of_table_name,
    of_taken,
    of_twice,
    table_id,
)


def refusals(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> list[Refusal]:
    """Why TiDB refuses a statement, in no order of TiDB's; [] where nothing is known against it."""
    return list(dict.fromkeys(_of_statement(catalog, statement, db, modes)))


def _of_statement(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> Iterator[Refusal]:
    match statement:
        case CreateDatabase():
            yield from of_name(statement.name, 1102, "Incorrect database name '{name}'")
            yield from of_charset_names(statement.charset, statement.collate)
            if catalog.databases.get(statement.name) and not statement.if_not_exists:
                yield Refusal(1007, f"Can't create database '{statement.name}'; database exists")
        case CreateTable():
            yield from _of_create(catalog, statement, db, modes)
        case CreateRelation():
            yield from of_table_name(statement.table)
            if not (statement.replace or statement.if_not_exists):
                yield from of_taken(catalog, statement.table, db)
        case RenameTables(pairs=((old, new),)):
            yield from of_rename(catalog, table_id(old, db), new, db)
        case AlterTable():
            table = catalog.table(table_id(statement.table, db))
            if table is not None:
                yield from Alteration(catalog, table, db, modes).refusals(statement.clauses)


# ---- CREATE TABLE
def _of_create(catalog: Catalog, s: CreateTable, db: str, modes: SqlModes) -> Iterator[Refusal]:
    yield from of_table_name(s.table)
    if not s.if_not_exists and s.temporary != "local":
        yield from of_taken(catalog, s.table, db)
    if s.like is not None:
        return
    yield from of_options(s.options)
    database = catalog.databases.get(table_id(s.table, db).db)
    charset = charset_of(s.options.charset, s.options.collate, database.charset if database else DEFAULT)
    names = [c.name for c in s.columns]
    yield from of_twice(names)
    if len(names) > MAX_COLUMNS:
        yield Refusal(1117, "Too many columns")
    for defined in s.columns:
        yield from of_definition(defined, charset, modes, added=False)
        yield from of_dependency(defined, names)
    yield from of_order(s.columns)
    if modes.strict and len(s.options.comment or "") > 2048:
        yield Refusal(1628, f"Comment for table '{s.table.table}' is too long (max = 2048)")
    made = bare_columns(s.columns, charset)
    if made is None:
        return
    table = Table(table_id(s.table, db), made, (), charset.name, charset.collate)
    indexes = [*s.indexes, *column_indexes(s.columns)]
    yield from index_refusals.of_indexes(table, indexes)
    yield from index_refusals.of_automatic(s.columns, indexes)
    for index in s.indexes:
        yield from index_refusals.of_foreign_key(catalog, table, index, db)
    if s.partition is not None:
        unique = [(i.name or "PRIMARY", i.parts) for i in indexes if i.kind in ("primary", "unique")]
        yield from of_partition(table, s.partition, [] if any(i.everywhere for i in indexes) else unique)
