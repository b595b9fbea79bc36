"""Statement by statement from one catalog to the next (upstream `pkg/ddl/executor.go`).

Pure: the catalog that goes in stays as it is. TiCDC sends what TiDB has accepted, so a statement that does not fit
means that something is missing here: an error, never a guess.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.ddl.executor import indexes
from ticdc_bridge.schemas.ddl.executor.alter_table import apply_clauses
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, Database, Relation
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT, Charset, resolve
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.details import details_of_create
from ticdc_bridge.schemas.ddl.parser import statements
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.names import repeated_name
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import MAX_COLUMNS


def apply(catalog: Catalog, statement: statements.Statement, db: str = "") -> Catalog:
    """The catalog after a statement; db is the database that names without one are in.

    DdlError: DDL_UNKNOWN_TABLE where the history began after the table's CREATE, DDL_NOT_APPLICABLE otherwise.
    """
    return _APPLY[type(statement)](catalog, statement, db)


def affected_tables(catalog: Catalog, statement: statements.Statement, db: str = "") -> tuple[TableId, ...]:
    """The tables, views and sequences that a statement is about, as it names them, before it is applied."""
    match statement:
        case statements.AlterTable():  # where none has a database, the error is about the other one
            return (_id(statement.table, db), *[_id(name, db) for name in statements.named_tables(statement)[1:]])
        case statements.DropDatabase() if database := catalog.databases.get(statement.name):
            return tuple(database.objects())
        case statements.FlashbackDatabase() if dropped_db := catalog.dropped.get(statement.name):
            return tuple(i._replace(db=statement.new or dropped_db.name) for i in dropped_db.objects())
    return tuple(_id(name, db) for name in statements.named_tables(statement))


def _id(name: statements.TableName, db: str) -> TableId:
    if not (name.db or db):
        details = f"which database is {name.table} in? None is chosen"
        raise DdlError("DDL_NOT_APPLICABLE", details=details, without_database=name.table)
    return name.in_db(db)


def _table(catalog: Catalog, id_: TableId) -> tuple[Database, Table]:
    database, table = catalog.databases.get(id_.db), catalog.table(id_)
    if database is None or table is None:
        raise DdlError("DDL_UNKNOWN_TABLE", table=id_, details="its CREATE TABLE was not seen; give a snapshot of it")
    return database, table


# ---- databases
def _create_database(catalog: Catalog, s: statements.CreateDatabase, _: str) -> Catalog:
    if catalog.databases.get(s.name):
        if s.if_not_exists:
            return catalog
        raise DdlError("DDL_NOT_APPLICABLE", details=f"database {s.name} exists already")
    return catalog.with_database(Database(s.name, resolve(s.charset, s.collate, DEFAULT)))


def _alter_database(catalog: Catalog, s: statements.AlterDatabase, db: str) -> Catalog:
    database = catalog.databases.get(s.name or db) or Database(s.name or db)
    return catalog.with_database(replace(database, charset=resolve(s.charset, s.collate, database.charset)))


def _drop_database(catalog: Catalog, s: statements.DropDatabase, _: str) -> Catalog:
    database = catalog.databases.get(s.name)
    if database is None:
        # Not an error without IF EXISTS either: the history may have begun after its CREATE, and nothing is lost.
        return catalog
    return Catalog(catalog.databases.without(s.name), catalog.dropped.with_(database.name, database))


def _flashback_database(catalog: Catalog, s: statements.FlashbackDatabase, _: str) -> Catalog:
    dropped_db = catalog.dropped.get(s.name)
    if dropped_db is None:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"database {s.name} was not dropped in this history")
    back = Database(s.new or dropped_db.name, dropped_db.charset, dropped=dropped_db.dropped)
    for table in dropped_db.tables:
        back = back.with_table(replace(table, id=table.id._replace(db=back.name)))
    return Catalog(catalog.databases.with_(back.name, back), catalog.dropped.without(s.name))


# ---- tables
def _create_table(catalog: Catalog, s: statements.CreateTable, db: str) -> Catalog:
    if s.temporary == "local":
        return catalog
    if s.from_select or not (s.columns or s.like):
        raise DdlError("DDL_NOT_APPLICABLE", details="a CREATE TABLE … SELECT, or one without columns, makes no table")
    id_ = _id(s.table, db)
    database = catalog.databases.get(id_.db) or Database(id_.db)
    if database.tables.get(id_.table) or database.relations.get(id_.table):
        if s.if_not_exists:
            return catalog
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {id_} exists already")
    id_ = id_._replace(db=database.name)
    if s.like is None:
        return catalog.with_database(database.with_table(_new_table(s, id_, database.charset)))
    source = _table(catalog, _id(s.like, db))[1]
    # Foreign keys are not copied (upstream `BuildTableInfoWithLike`).
    details = replace(source.details, foreign_keys=()) if source.details else None
    return catalog.with_database(database.with_table(replace(source, id=id_, details=details)))


def _new_table(s: statements.CreateTable, id_: TableId, database: Charset) -> Table:
    if len(s.columns) > MAX_COLUMNS or len(s.indexes) > MAX_COLUMNS:
        details = f"table {id_} would have more than {MAX_COLUMNS} columns or indexes"
        raise DdlError("DDL_NOT_APPLICABLE", details=details)
    charset = resolve(s.options.charset, s.options.collate, database)
    columns = tuple(replace(column(c, charset), id=number) for number, c in enumerate(s.columns, 1))
    if (twice := repeated_name([c.name.lower() for c in columns])) is not None:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {id_} would have two columns {twice}")
    table = Table(id_, columns, (), charset.name, charset.collate, s.options.comment or "")
    # The table's own indexes come before those of its columns (upstream `buildColumnsAndConstraints`).
    table = indexes.with_keys(indexes.with_indexes(table, [*s.indexes, *indexes.column_indexes(s.columns)]))
    return replace(table, details=details_of_create(s, table))


def _alter_table(catalog: Catalog, s: statements.AlterTable, db: str) -> Catalog:
    id_ = _id(s.table, db)
    if catalog.table(id_) is None and catalog.exists(id_):
        return catalog  # ALTER TABLE of a sequence or a view
    database, table = _table(catalog, id_)
    catalog = catalog.with_database(database.with_table(apply_clauses(table, s.clauses, database.charset)))
    for clause in s.clauses:
        if isinstance(clause, statements.RenameTo):
            catalog = _rename_relation(catalog, table.id, _id(clause.new, db))
        elif isinstance(clause, statements.ExchangePartition) and (other := catalog.table(_id(clause.table, db))):
            # Its rows are others from here on, so it has a version of its own from here on.
            catalog = catalog.with_table(other)
    return catalog


def _rename_tables(catalog: Catalog, s: statements.RenameTables, db: str) -> Catalog:
    for old, new in s.pairs:
        catalog = _rename_relation(catalog, _id(old, db), _id(new, db))
    return catalog


def _rename_relation(catalog: Catalog, old: TableId, new: TableId) -> Catalog:
    database = catalog.databases.get(old.db)
    relation = database.relations.get(old.table) if database else None
    if database and relation:
        catalog = catalog.with_database(replace(database, relations=database.relations.without(old.table)))
        return _with_relation(catalog, replace(relation, id=new))
    database, table = _table(catalog, old)
    catalog = catalog.with_database(replace(database, tables=database.tables.without(old.table)))
    target = catalog.databases.get(new.db) or Database(new.db)
    if target.tables.get(new.table) or target.relations.get(new.table):
        raise DdlError("DDL_NOT_APPLICABLE", details=f"{table.id} can't be renamed: {new} exists already")
    moved = replace(table, id=TableId(target.name, new.table))
    return _rename_references(catalog.with_database(target.with_table(moved)), table.id, moved.id)


def _rename_references(catalog: Catalog, old: TableId, new: TableId) -> Catalog:
    """Foreign keys that name a table follow its rename."""
    for table in catalog.described_tables():
        details = table.details
        if details and any(f.table.folded == old.folded for f in details.foreign_keys):
            keys = (replace(f, table=new) if f.table.folded == old.folded else f for f in details.foreign_keys)
            catalog = catalog.with_table(replace(table, details=replace(details, foreign_keys=tuple(keys))))
    return catalog


def _drop_tables(catalog: Catalog, s: statements.DropTables, db: str) -> Catalog:
    for name in s.tables:
        id_ = _id(name, db)
        database = catalog.databases.get(id_.db)
        if s.temporary == "local" or database is None:
            continue
        table, relation = database.tables.get(id_.table), database.relations.get(id_.table)
        if table and s.kind == "table":
            dropped = database.dropped.with_(id_.table, table)
            database = replace(database, tables=database.tables.without(id_.table), dropped=dropped)
        elif relation and s.kind == relation.kind:
            database = replace(database, relations=database.relations.without(id_.table))
        # What is not known needs no dropping: the history may have begun after its CREATE.
        catalog = catalog.with_database(database)
    return catalog


def _truncate_table(catalog: Catalog, s: statements.TruncateTable, db: str) -> Catalog:
    id_ = _id(s.table, db)
    database, table = _table(catalog, id_)
    # TRUNCATE drops a table and makes it anew: FLASHBACK TABLE can bring the old one back.
    return catalog.with_database(replace(database, dropped=database.dropped.with_(id_.table, table)))


def _recover_table(catalog: Catalog, s: statements.RecoverTable, db: str) -> Catalog:
    if s.table is None:
        details = "RECOVER TABLE BY JOB does not name the table; give a snapshot of it"
        raise DdlError("DDL_NOT_APPLICABLE", details=details)
    id_ = _id(s.table, db)
    database = catalog.databases.get(id_.db)
    dropped_table = database.dropped.get(id_.table) if database else None
    if database is None or dropped_table is None:
        raise DdlError("DDL_UNKNOWN_TABLE", table=id_, details="its DROP was not seen; give a snapshot of it")
    back = replace(dropped_table, id=TableId(database.name, s.new or dropped_table.id.table))
    if database.tables.get(back.id.table):
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {back.id} exists already")
    return catalog.with_database(replace(database.with_table(back), dropped=database.dropped.without(id_.table)))


# ---- views, sequences, the rest
def _create_relation(catalog: Catalog, s: statements.CreateRelation, db: str) -> Catalog:
    id_ = _id(s.table, db)
    return catalog if catalog.exists(id_) and s.if_not_exists else _with_relation(catalog, Relation(s.kind, id_))


def _with_relation(catalog: Catalog, relation: Relation) -> Catalog:
    database = catalog.databases.get(relation.id.db) or Database(relation.id.db)
    return catalog.with_database(replace(database, relations=database.relations.with_(relation.id.table, relation)))


_APPLY: dict[type, Callable[[Catalog, Any, str], Catalog]] = {
    statements.CreateDatabase: _create_database, statements.AlterDatabase: _alter_database,
    statements.DropDatabase: _drop_database, statements.FlashbackDatabase: _flashback_database,
    statements.CreateTable: _create_table, statements.AlterTable: _alter_table, statements.RenameTables: _rename_tables,
    statements.DropTables: _drop_tables, statements.TruncateTable: _truncate_table,
    statements.RecoverTable: _recover_table, statements.CreateRelation: _create_relation,
    statements.NoRowEffect: lambda catalog, _, __: catalog,
}  # fmt: skip
