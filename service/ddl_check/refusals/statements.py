"""Statements that TiDB itself refuses, as far as the tables alone can tell: with TiDB's error numbers.

What depends on rows (a NULL, a value that is too long, a duplicate) is a risk, not a refusal. Checks are those of
upstream tidb `pkg/planner/core/preprocess.go` and `pkg/ddl`; docs/history.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, column_indexes
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateRelation,
    CreateTable,
    DropDatabase,
    DropTables,
    IndexDef,
    NamedObject,
    NoRowEffect,
    RenameTables,
    Statement,
    TableName,
    TruncateTable,
)
from ticdc_bridge.schemas.model.table import Index, Table, TableId
from ticdc_bridge.service.ddl_check.refusals import auto_random, dependencies
from ticdc_bridge.service.ddl_check.refusals import indexes as index_refusals
from ticdc_bridge.service.ddl_check.refusals.alter_table import Alteration
from ticdc_bridge.service.ddl_check.refusals.columns import NULL_IN_PRIMARY_KEY, Refusal, SqlModes, of_name
from ticdc_bridge.service.ddl_check.refusals.definitions import (
    MAX_COLUMNS,
    bare_columns,
    charset_of,
    of_charset_names,
    of_comment,
    of_definition,
    of_dependency,
    of_options,
    of_order,
    of_owner,
    of_table_name,
    of_taken,
    of_target,
    of_twice,
    unknown,
    wrong_object,
)
from ticdc_bridge.service.ddl_check.refusals.partitions import of_partitioning
from ticdc_bridge.service.ddl_check.refusals.sequences import conflict, is_conflict, of_altered_sequence
from ticdc_bridge.service.ddl_check.refusals.unique_keys import of_partition, unique_key
from ticdc_bridge.service.ddl_check.refusals.views import SYSTEM, of_view


def refusals(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> list[Refusal]:
    """Why TiDB refuses a statement, in no order of TiDB's; [] where nothing is known against it."""
    return list(dict.fromkeys(_of_statement(catalog, statement, db, modes)))


def _of_statement(catalog: Catalog, statement: Statement, db: str, modes: SqlModes) -> Iterator[Refusal]:
    match statement:
        case NoRowEffect(replaces_none=True):
            yield Refusal(1221, "Incorrect usage of OR REPLACE and IF NOT EXISTS")
        case NoRowEffect(what="ALTER SEQUENCE", about=NamedObject() as about):
            yield from of_altered_sequence(catalog, about, db)
        case CreateDatabase():
            yield from of_name(statement.name, 1102, "Incorrect database name '{name}'")
            yield from of_charset_names(statement.charset, statement.collate)
            if catalog.databases.get(statement.name) and not statement.if_not_exists:
                yield Refusal(1007, f"Can't create database '{statement.name}'; database exists")
        case DropDatabase() if not statement.if_exists and catalog.databases.get(statement.name) is None:
            yield Refusal(1008, f"Can't drop database '{statement.name}'; database doesn't exist", certain=False)
        case DropDatabase() if database := catalog.databases.get(statement.name):
            yield from dependencies.of_leaving_database(catalog, database)
        case AlterDatabase():
            yield from of_charset_names(statement.charset, statement.collate)
            if (name := statement.name or db) and catalog.databases.get(name) is None:
                yield Refusal(1049, f"Unknown database '{name}'", certain=False)
        case CreateTable() if statement.from_select:
            yield Refusal(1105, "'CREATE TABLE ... SELECT' is not implemented yet")
        case CreateTable():
            yield from _of_create(catalog, statement, db, modes)
        case CreateRelation():
            yield from _of_database(catalog, statement.table, db)
            yield from of_table_name(statement.table)
            if not (statement.replace or statement.if_not_exists):
                yield from of_taken(catalog, statement.table, db)
            elif statement.replace and catalog.table(statement.table.in_db(db)) is not None:
                yield wrong_object(statement.table.in_db(db), "VIEW")
            yield from of_view(catalog, statement, db, modes)
            if statement.kind == "sequence" and is_conflict(statement.numbers, new=True):
                yield conflict(statement.table.in_db(db))
        case RenameTables():
            yield from _of_renames(catalog, statement, db)
        case AlterTable():
            table = catalog.table(statement.table.in_db(db))
            if table is not None:
                yield from Alteration(catalog, table, db, modes).refusals(statement.clauses)
            elif catalog.exists(statement.table.in_db(db)):
                yield wrong_object(statement.table.in_db(db), "BASE TABLE")
        case DropTables():
            yield from _of_drop(catalog, statement, db)
        case TruncateTable():
            id_ = statement.table.in_db(db)
            if catalog.table(id_) is None and catalog.exists(id_):
                yield Refusal(1146, f"Table '{id_}' doesn't exist")
            yield from dependencies.of_leaving_table(catalog, id_, (), truncated=True)


def _of_database(catalog: Catalog, name: TableName, db: str) -> Iterator[Refusal]:
    """A database other than the current one, which is written before the name of something new."""
    if name.db and name.db.lower() not in (*SYSTEM, db.lower()) and catalog.databases.get(name.db) is None:
        yield Refusal(1049, f"Unknown database '{name.db}'", certain=False)


def _of_renames(catalog: Catalog, s: RenameTables, db: str) -> Iterator[Refusal]:
    """In order: a later pair sees what an earlier one did."""
    left, made = set[TableId](), set[TableId]()
    for old, new in s.pairs:
        source, target = old.in_db(db), new.in_db(db)
        yield from of_table_name(new)
        yield from dependencies.of_cached(catalog.table(source), "Rename Table")
        there = target.folded in made or (catalog.exists(target) is not None and target.folded not in left)
        if there:
            yield Refusal(1050, f"Table '{target}' already exists")
        yield from of_target(catalog, source, target)
        left.add(source.folded)
        made.discard(source.folded)
        made.add(target.folded)
        left.discard(target.folded)


def _of_drop(catalog: Catalog, s: DropTables, db: str) -> Iterator[Refusal]:
    ids = [name.in_db(db) for name in s.tables]
    for id_ in ids if s.temporary != "local" else ():
        table, relation = catalog.table(id_), catalog.relation(id_)
        if s.kind == "table" and relation and not s.if_exists:
            yield unknown(s.kind, id_)
        elif s.temporary and table is not None and table.details and not table.details.temporary:
            yield Refusal(8007, "`drop global temporary table` can only drop global temporary table")
        elif catalog.exists(id_) is None and not s.if_exists:
            yield unknown(s.kind, id_)._replace(certain=False)
        elif s.kind == "table":
            yield from dependencies.of_leaving_table(catalog, id_, ids, truncated=False)
        elif table is not None or (relation is not None and relation.kind != s.kind):
            yield wrong_object(id_, s.kind.upper())


# ---- CREATE TABLE
def _of_like(catalog: Catalog, source: TableId) -> Iterator[Refusal]:
    table = catalog.table(source)
    if table is None:
        there = catalog.exists(source)
        text = f"Table '{source}' doesn't exist"
        yield wrong_object(source, "BASE TABLE") if there else Refusal(1146, text, certain=False)
    elif table.details is not None and table.details.temporary:
        yield dependencies.on_temporary("CREATE TABLE LIKE")


def _of_create(catalog: Catalog, s: CreateTable, db: str, modes: SqlModes) -> Iterator[Refusal]:
    yield from of_table_name(s.table)
    yield from _of_database(catalog, s.table, db)
    if not s.if_not_exists and s.temporary != "local":
        yield from of_taken(catalog, s.table, db)
    if s.like is not None:
        yield from _of_like(catalog, s.like.in_db(db))
        return
    if not s.columns:
        yield Refusal(1113, "A table must have at least 1 column")
    yield from of_options(s.options)
    database = catalog.databases.get(s.table.in_db(db).db)
    charset = charset_of(s.options.charset, s.options.collate, database.charset if database else DEFAULT)
    names = [c.name for c in s.columns]
    yield from of_twice(names)
    if len(names) > MAX_COLUMNS:
        yield Refusal(1117, "Too many columns")
    for defined in s.columns:
        yield from of_owner(defined, s.table.in_db(db))
        yield from of_definition(defined, charset, modes, added=False)
        yield from of_dependency(defined, names)
    yield from of_order(s.columns)
    if modes.strict:
        yield from of_comment(s.table.table, s.options)
    yield from dependencies.of_affinity(
        s.options.affinity, partitioned=s.partition is not None, temporary=bool(s.temporary)
    )
    if s.temporary:
        yield from _of_temporary(s)
    for word in s.options.others:
        if word in _NOT_SUPPORTED:
            yield _NOT_SUPPORTED[word]
        elif word in ("TTL_ENABLE", "TTL_JOB_INTERVAL") and s.options.ttl is None:
            yield Refusal(8150, f"Cannot set {word} on a table without TTL config")
    made = bare_columns(s.columns, charset)
    if made is None:
        return
    table = Table(s.table.in_db(db), made, (), charset.name, charset.collate)
    indexes = [*s.indexes, *column_indexes(s.columns)]
    yield from index_refusals.of_indexes(table, indexes, strict=modes.strict)
    yield from index_refusals.of_automatic(s.columns, indexes)
    for index in s.indexes:
        yield from index_refusals.of_foreign_key(catalog, table, index)
    if "SHARD_ROW_ID_BITS" in s.options.others and _clustered(s, indexes):
        yield Refusal(8200, "Unsupported shard_row_id_bits for table with primary key as row id")
    if s.options.ttl is not None:
        keyed = replace(table, indexes=tuple(_primary_key(indexes)))
        yield from dependencies.of_ttl(keyed, s.options.ttl, _clustered(s, indexes))
    yield from _of_keys(s, indexes)
    if s.partition is not None:
        yield from of_partitioning(table, s.partition)
        unique = [unique_key(table, i) for i in indexes if i.kind in ("primary", "unique")]
        yield from of_partition(table, s.partition, unique)


_NOT_SUPPORTED = {
    "UNION": Refusal(8232, "CREATE/ALTER table with union option is not supported"),
    "INSERT_METHOD": Refusal(8233, "CREATE/ALTER table with insert method option is not supported"),
    "ENGINE_ATTRIBUTE": Refusal(3981, "Storage engine 'InnoDB' does not support ENGINE_ATTRIBUTE.", certain=False),
}


def _of_temporary(s: CreateTable) -> Iterator[Refusal]:
    """A temporary table, of whatever kind."""
    if s.partition is not None:
        yield Refusal(1562, "Cannot create temporary table with partitions")
    if any(i.kind == "foreign" for i in s.indexes):
        yield dependencies.NO_FOREIGN_KEY
    if s.options.ttl is not None:
        yield Refusal(8151, "Set TTL for temporary table is not allowed")
    words = set(s.options.others).intersection(dependencies.ON_PERMANENT)
    if any(c.auto_random for c in s.columns):
        words.add("AUTO_RANDOM")
    for word in sorted(words):
        yield dependencies.on_temporary(word)


def _primary_key(indexes: Sequence[IndexDef]) -> Iterator[Index]:
    yield from (Index(PRIMARY, one.parts, True) for one in indexes if one.kind == "primary")


def _clustered(s: CreateTable, indexes: Sequence[IndexDef]) -> bool | None:
    written = [one.clustered for one in s.columns if one.clustered is not None]
    written += [one.clustered for one in indexes if one.clustered is not None]
    return written[0] if written else None


def _of_keys(s: CreateTable, indexes: Sequence[IndexDef]) -> Iterator[Refusal]:
    """Primary keys that may be NULL, names of foreign keys, AUTO_RANDOM, and what can't stand beside partitions."""
    primary = next((i for i in indexes if i.kind == "primary"), None)
    names = {part.lower() for part in primary.parts} if primary else set()
    if primary is None:
        required = {c.name.lower() for c in s.columns if c.nullable is False or c.auto_increment}
        uniques = [i for i in indexes if i.kind == "unique" and {p.lower() for p in i.parts} <= required]
        if uniques and uniques[0].invisible:
            yield index_refusals.INVISIBLE_PRIMARY
    nullable = [c for c in s.columns if c.nullable or (c.default is not None and c.default.kind == "null")]
    if any(c.name.lower() in names for c in nullable):
        yield NULL_IN_PRIMARY_KEY
    keys = [i for i in s.indexes if i.kind == "foreign"]
    written = [i.name.lower() for i in keys if i.name]
    for name in dict.fromkeys(n for n in written if written.count(n) > 1):
        yield Refusal(1826, f"Duplicate foreign key constraint name '{name}'")
    if keys and s.partition is not None:
        yield Refusal(1506, "Foreign key clause is not yet supported in conjunction with partitioning")
    for one in s.columns:
        if one.auto_random:
            yield from auto_random.of_new(one, primary)
