"""Statements on a database or a table that an earlier statement of the same check has dropped or renamed.

A tracked history alone does not tell: FLASHBACK DATABASE and FLASHBACK CLUSTER bring some back without an event.
"""

from __future__ import annotations

from collections.abc import Iterator

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterDatabase,
    AlterTable,
    CreateRelation,
    CreateTable,
    DropTables,
    RenameTables,
    Statement,
    TableName,
    TruncateTable,
)
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.definitions import unknown


def of_gone(first: Catalog, now: Catalog, statement: Statement, db: str) -> Iterator[Refusal]:
    """first: the catalog before the first statement. now: before this one."""
    match statement:
        case AlterDatabase():
            yield from _of_database(first, now, statement.name or db)
        case CreateTable(temporary="" | "global") | CreateRelation():
            yield from _of_database(first, now, statement.table.db or db)
        case AlterTable() | TruncateTable():
            yield from _of_table(first, now, statement.table, db)
        case DropTables(if_exists=False):
            for name in statement.tables:
                yield from _of_dropped(first, now, statement.kind, name.in_db(db))
        case RenameTables():
            # A later pair may name what an earlier one makes.
            yield from _of_table(first, now, statement.pairs[0][0], db)


def _of_database(first: Catalog, now: Catalog, name: str) -> Iterator[Refusal]:
    if first.databases.get(name) is not None and now.databases.get(name) is None:
        yield Refusal(1049, f"Unknown database '{name}'")


def _of_table(first: Catalog, now: Catalog, name: TableName, db: str) -> Iterator[Refusal]:
    id_ = name.in_db(db)
    if first.exists(id_) and not now.exists(id_):
        yield Refusal(1146, f"Table '{id_}' doesn't exist")


def _of_dropped(first: Catalog, now: Catalog, kind: str, id_: TableId) -> Iterator[Refusal]:
    if first.exists(id_) and not now.exists(id_):
        yield unknown(kind, id_)
