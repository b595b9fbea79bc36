"""What TiDB refuses of ALTER TABLE: each clause against the table before the statement, as TiDB checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT, Charset
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import (
    AddColumns,
    AddIndex,
    ChangeColumn,
    Clause,
    ColumnDef,
    ConvertTo,
    DefaultValue,
    DropColumn,
    DropIndex,
    ExchangePartition,
    NoColumnEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    SetOptions,
)
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table, TableDetails
from ticdc_bridge.service.ddl_check.refusals import auto_random, dependencies, indexes
from ticdc_bridge.service.ddl_check.refusals.columns import (
    NULL_IN_PRIMARY_KEY,
    Refusal,
    SqlModes,
    of_column_name,
    of_name,
)
from ticdc_bridge.service.ddl_check.refusals.defaults import of_literal, of_sequence
from ticdc_bridge.service.ddl_check.refusals.definitions import (
    MAX_COLUMNS,
    charset_of,
    of_charset_names,
    of_comment,
    of_definition,
    of_dependency,
    of_later,
    of_options,
    of_owner,
    of_rename,
    of_twice,
)
from ticdc_bridge.service.ddl_check.refusals.generated import generated_names
from ticdc_bridge.service.ddl_check.refusals.partition_changes import MANAGED, of_exchange, of_management
from ticdc_bridge.service.ddl_check.refusals.partitions import of_partitioning
from ticdc_bridge.service.ddl_check.refusals.sequences import of_default_sequence
from ticdc_bridge.service.ddl_check.refusals.together import of_algorithm, of_together
from ticdc_bridge.service.ddl_check.refusals.type_changes import of_change, of_charset
from ticdc_bridge.service.ddl_check.refusals.unique_keys import (
    known_key,
    of_invisible,
    of_partition,
    of_unique,
    unique_key,
)

# Clauses that TiDB parses and does not do (upstream `pkg/ddl/executor.go`, AlterTable).
_UNSUPPORTED: Final = {
    "CHECK PARTITION": "Unsupported check partition", "REBUILD PARTITION": "Unsupported rebuild partition",
    "OPTIMIZE PARTITION": "Unsupported optimize partition", "REPAIR PARTITION": "Unsupported repair partition",
    "MERGE FIRST PARTITION": "Unsupported MERGE FIRST PARTITION",
    "SPLIT MAXVALUE PARTITION": "Unsupported SPLIT LAST PARTITION",
    **dict.fromkeys(("IMPORT TABLESPACE", "DISCARD TABLESPACE", "SECONDARY_LOAD", "SECONDARY_UNLOAD", "FORCE"),
                    "Unsupported/unknown ALTER TABLE specification"),
}  # fmt: skip
_OPTIONS: Final = frozenset((
    "SHARD_ROW_ID_BITS", "AUTO_INCREMENT", "AUTO_ID_CACHE", "AUTO_RANDOM_BASE", "PLACEMENT POLICY", "ROW_FORMAT",
    "TTL_ENABLE", "TTL_JOB_INTERVAL", "STORAGE_CLASS",
))  # fmt: skip
"""Options that ALTER TABLE can change, besides character set, collation, comment, engine and TTL."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """The clauses of ALTER TABLE, each against the table before the statement, as TiDB checks them."""

    catalog: Catalog
    table: Table
    db: str
    modes: SqlModes

    def refusals(self, clauses: tuple[Clause, ...]) -> Iterator[Refusal]:
        yield from dependencies.of_cached_clauses(self.table, clauses)
        yield from dependencies.of_temporary_clauses(self.table, clauses)
        for clause in clauses:
            yield from _CLAUSES[type(clause)](self, clause)
            for default in _defaults(clause):
                yield from of_default_sequence(self.catalog, default)
        yield from of_invisible(self.catalog, self.table, clauses)
        yield from of_together(self.table, clauses)
        yield from of_algorithm(clauses)

    @property
    def details(self) -> TableDetails | None:
        return self.table.details

    @property
    def charset(self) -> Charset:
        return Charset(self.table.charset, self.table.collate)

    def find(self, name: str) -> Column | None:
        return find(self.table.columns, name)

    def unknown(self, name: str) -> Refusal:
        return Refusal(1054, f"Unknown column '{name}' in '{self.table.id.table}'")

    def of_dependents(self, name: str) -> Iterator[Refusal]:
        """Generated columns that name a column which goes or gets another name."""
        for one in self.table.columns:
            names = map(str.lower, generated_names(one.generated or ""))
            if one.name.lower() != name.lower() and name.lower() in names:
                yield Refusal(3108, f"Column '{name}' has a generated column dependency.")

    def of_automatic(self, defined: ColumnDef) -> Iterator[Refusal]:
        """A generated column that names one with AUTO_INCREMENT."""
        sources = map(self.find, generated_names(defined.generated or ""))
        if any(one is not None and one.auto_increment for one in sources):
            yield Refusal(3109, f"Generated column '{defined.name}' cannot refer to auto-increment column.")

    def of_leaving(self, name: str, *, dropped: bool) -> Iterator[Refusal]:
        """A column that goes or gets another name."""
        yield from self.of_dependents(name)
        yield from dependencies.of_leaving(self.catalog, self.table, name, dropped=dropped)


def _defaults(clause: Clause) -> list[DefaultValue | None]:
    match clause:
        case AddColumns():
            return [one.default for one in clause.columns]
        case ChangeColumn():
            return [clause.column.default]
        case SetDefault():
            return [clause.default]
    return []


def _add_columns(work: Alteration, clause: AddColumns) -> Iterator[Refusal]:
    names = [c.name for c in work.table.columns] + [c.name for c in clause.columns]
    yield from of_twice([c.name for c in clause.columns])
    for defined in clause.columns:
        if work.find(defined.name):
            if not clause.if_not_exists:
                yield Refusal(1060, f"Duplicate column name '{defined.name}'")
            continue
        constraints = {
            "AUTO_INCREMENT": defined.auto_increment, "PRIMARY KEY": defined.primary_key,
            "UNIQUE KEY": defined.unique_key, "AUTO_RANDOM": defined.auto_random,
        }  # fmt: skip
        for word in (word for word, given in constraints.items() if given):
            text = f"unsupported add column '{defined.name}' constraint {word} when altering '{work.table.id}'"
            yield Refusal(8200, text)
        if defined.generated is not None and defined.stored:
            text = "'Adding generated stored column through ALTER TABLE' is not supported for generated columns."
            yield Refusal(3106, text)
        yield from of_owner(defined, work.table.id)
        yield from of_definition(defined, work.charset, work.modes, added=True)
        yield from of_dependency(defined, names)
        if defined.name.lower() in map(str.lower, generated_names(defined.generated or "")):
            yield Refusal(3107, "Generated column can refer only to generated columns defined prior to it.")
        yield from work.of_automatic(defined)
    if len(names) > MAX_COLUMNS:
        yield Refusal(1117, "Too many columns")
    if clause.position and clause.position.after and not find(work.table.columns, clause.position.after):
        yield work.unknown(clause.position.after)
    for index in clause.indexes:
        yield from _add_index(work, AddIndex(index))


def _change_column(work: Alteration, clause: ChangeColumn) -> Iterator[Refusal]:
    old, defined = work.find(clause.old), clause.column
    if old is None:
        if not clause.if_exists:
            yield work.unknown(clause.old)
        return
    if defined.name.lower() != old.name.lower():
        if work.find(defined.name):
            yield Refusal(1060, f"Duplicate column name '{defined.name}'")
        yield from work.of_leaving(old.name, dropped=False)
    else:
        for refusal in (*work.of_dependents(old.name), *dependencies.of_expressions(work.table, old.name)):
            yield Refusal(3106, f"'{refusal.text}' is not supported for generated columns.")
    if clause.position and clause.position.after:
        after = work.find(clause.position.after)
        if after is None or after is old:
            yield work.unknown(clause.position.after)
    if old.primary_key and defined.nullable:
        yield NULL_IN_PRIMARY_KEY
    yield from auto_random.of_change(work.table, old, defined)
    constraints = {
        "PRIMARY KEY": defined.primary_key and not old.primary_key, "UNIQUE KEY": defined.unique_key,
    }  # fmt: skip
    for word in (word for word, given in constraints.items() if given):
        yield Refusal(8200, f"Unsupported modify column: can't change column constraint ({word})")
    found = [*of_owner(defined, work.table.id), *of_definition(defined, work.charset, work.modes, added=False)]
    found += of_dependency(defined, [*(c.name for c in work.table.columns), defined.name])
    found += of_later(work.table, clause)
    found += work.of_automatic(defined)
    yield from found
    if not found:
        try:
            new = column(defined, work.charset)
        except DdlError:
            return
        yield from of_change(old, new, work.table, auto_random=defined.auto_random)
        yield from dependencies.of_changing(work.catalog, work.table, old, new)
        yield from indexes.of_changed_part(work.table, old, new)


def _rename_column(work: Alteration, clause: RenameColumn) -> Iterator[Refusal]:
    if work.find(clause.old) is None:
        yield work.unknown(clause.old)
        return
    yield from of_column_name(clause.new)
    if clause.old.lower() != clause.new.lower():
        yield from work.of_leaving(clause.old, dropped=False)
        if work.find(clause.new):
            yield Refusal(1060, f"Duplicate column name '{clause.new}'")


def _drop_column(work: Alteration, clause: DropColumn) -> Iterator[Refusal]:
    old = work.find(clause.name)
    if old is None:
        if not clause.if_exists:
            yield Refusal(1091, f"Can't DROP '{clause.name}'; check that column/key exists")
        return
    yield from work.of_leaving(old.name, dropped=True)
    if len(work.table.columns) == 1:
        yield Refusal(1090, f"can't drop only column {old.name} in table {work.table.id.table}")
    if any(old.name in i.columns and (i.name == PRIMARY or len(i.columns) > 1) for i in work.table.indexes):
        text = f"can't drop column {old.name} with composite index covered or Primary Key covered now"
        yield Refusal(8200, text)


def _set_default(work: Alteration, clause: SetDefault) -> Iterator[Refusal]:
    old, default = work.find(clause.column), clause.default
    if old is None:
        yield work.unknown(clause.column)
    elif default is not None and old.name.lower() == (work.details.auto_random.lower() if work.details else ""):
        yield auto_random.INCOMPATIBLE
    elif default is not None and default.kind == "null":
        if not old.nullable:
            yield Refusal(1067, f"Invalid default value for '{old.name}'")
    elif default is not None and default.kind != "expr":
        yield from of_literal(old, default, work.modes)
    elif default is not None:
        yield from of_sequence(old, default)


# ---- indexes and the rest
def _add_index(work: Alteration, clause: AddIndex) -> Iterator[Refusal]:
    if clause.if_not_exists and find(work.table.indexes, clause.index.name):
        return
    yield from indexes.of_indexes(work.table, [clause.index], strict=work.modes.strict)
    if clause.by_create_index and clause.index.special == "FULLTEXT":
        yield Refusal(8200, "FULLTEXT index is not supported (TiDB of 2026 takes it)", certain=False)
    if clause.index.kind == "primary" and clause.index.clustered:
        text = "Adding clustered primary key is not supported. Please consider adding NONCLUSTERED primary key instead"
        yield Refusal(8200, text)
    if clause.index.invisible and indexes.becomes_primary(work.table, clause.index):
        yield indexes.INVISIBLE_PRIMARY
    details = work.table.details
    if details and details.partitioning and clause.index.kind in ("primary", "unique"):
        yield from of_unique(unique_key(work.table, clause.index), details.partitioning.columns)
    yield from indexes.of_foreign_key(work.catalog, work.table, clause.index)
    names = {key.name.lower() for key in details.foreign_keys} if details else set()
    if clause.index.kind == "foreign" and clause.index.name.lower() in names:
        yield Refusal(1826, f"Duplicate foreign key constraint name '{clause.index.name}'")


def _drop_index(work: Alteration, clause: DropIndex) -> Iterator[Refusal]:
    if not clause.if_exists and not find(work.table.indexes, clause.name):
        yield Refusal(1091, f"index {clause.name} doesn't exist")
    yield from dependencies.of_leaving_index(work.catalog, work.table, clause.name)


def _rename_index(work: Alteration, clause: RenameIndex) -> Iterator[Refusal]:
    yield from of_name(clause.new, 1280, "Incorrect index name '{name}'")
    if not find(work.table.indexes, clause.old):
        yield Refusal(1176, f"Key '{clause.old}' doesn't exist in table '{work.table.id.table}'")
    if clause.old.lower() != clause.new.lower() and find(work.table.indexes, clause.new):
        yield Refusal(1061, f"Duplicate key name '{clause.new}'")


def _rename_to(work: Alteration, clause: RenameTo) -> Iterator[Refusal]:
    yield from of_rename(work.catalog, work.table.id, clause.new, work.db)


def _set_options(work: Alteration, clause: SetOptions) -> Iterator[Refusal]:
    yield from of_options(clause.options)
    unknown = [word for word in clause.options.others if word not in _OPTIONS]
    if unknown:
        text = "This type of ALTER TABLE is currently unsupported"
        yield Refusal(8200, text, certain=unknown != ["ENGINE_ATTRIBUTE"])  # of a storage class, in newer versions
    details = work.table.details
    if work.modes.strict:
        yield from of_comment(work.table.id.table, clause.options)
    if clause.options.ttl is not None:
        yield from dependencies.of_ttl(work.table, clause.options.ttl, details.clustered if details else None)
        if dependencies.children(work.catalog, work.table.id):
            yield dependencies.REFERENCED_TTL
    elif details is not None and not details.ttl:
        for word in clause.options.others:
            if word in ("TTL_ENABLE", "TTL_JOB_INTERVAL"):
                yield Refusal(8150, f"Cannot set {word} on a table without TTL config")
    if details is not None:
        yield from dependencies.of_affinity(clause.options.affinity, partitioned=details.partitioning is not None)
    if details is not None and details.clustered and "SHARD_ROW_ID_BITS" in clause.options.others:
        yield Refusal(8200, "Unsupported shard_row_id_bits for table with primary key as row id")
    if details is not None and not details.auto_random and "AUTO_RANDOM_BASE" in clause.options.others:
        yield Refusal(8216, "Invalid auto random: alter auto_random_base of a non auto_random table")
    if clause.options.charset or clause.options.collate:
        after = charset_of(clause.options.charset, clause.options.collate, work.charset)
        yield from of_charset(work.charset, after)


def _convert(work: Alteration, clause: ConvertTo) -> Iterator[Refusal]:
    yield from of_charset_names(clause.charset, clause.collate)
    database = work.catalog.databases.get(work.table.id.db)
    after = charset_of(clause.charset, clause.collate, database.charset if database else DEFAULT)
    if not after.name:
        return
    for c in work.table.columns:
        if c.charset not in ("", "binary"):
            indexed = any(c.name in i.columns for i in work.table.indexes)
            yield from of_charset(Charset(c.charset, c.collate), after, c.name if indexed else "")
    if work.charset.name:
        yield from of_charset(work.charset, after)
    yield from indexes.of_converted(work.table, after.name)


def _exchange(work: Alteration, clause: ExchangePartition) -> Iterator[Refusal]:
    id_ = clause.table.in_db(work.db)
    other = work.catalog.table(id_)
    if other is None and work.catalog.exists(id_):
        yield Refusal(1177, "Can't open table")
        return
    for one in (work.table, other):
        if one is not None:
            yield from dependencies.of_partitions_beside_affinity(one, "EXCHANGE PARTITION")
    if clause.validated and work.details and work.details.partitioning and work.details.partitioning.method == "KEY":
        text = f"Unsupported partition type of table {work.table.id.table} when exchanging partition"
        yield Refusal(8200, text)
    yield from of_exchange(work.table, clause.partition, other)


def _no_column_effect(work: Alteration, clause: NoColumnEffect) -> Iterator[Refusal]:
    details = work.table.details
    yield from dependencies.of_partitions_beside_affinity(work.table, clause.what)
    if clause.what in _UNSUPPORTED:
        yield Refusal(8200, _UNSUPPORTED[clause.what])
    elif clause.what in MANAGED and details is not None:
        yield from of_management(work.table, clause)
    elif clause.what.startswith("ALTER INDEX"):
        yield from _visibility(work, clause)
    elif clause.what == "CACHE" and details is not None and details.partitioning:
        yield Refusal(8242, "'partition mode' is unsupported on cache tables.")
    elif clause.what == "DROP FOREIGN KEY" and clause.lenient:
        yield Refusal(1064, "newer versions have no IF EXISTS here", certain=False)
    elif clause.what == "DROP FOREIGN KEY" and details is not None:
        known = {key.name.lower() for key in details.foreign_keys}
        if "" not in known and clause.names[0].lower() not in known:
            yield Refusal(1091, f"Can't DROP '{clause.names[0]}'; check that column/key exists")
    if clause.partition is not None:
        yield from of_partitioning(work.table, clause.partition)
        unique = [known_key(work.table, i) for i in work.table.indexes if i.unique]
        yield from of_partition(work.table, clause.partition, unique)


def _visibility(work: Alteration, clause: NoColumnEffect) -> Iterator[Refusal]:
    index = find(work.table.indexes, clause.names[0])
    if index is None:
        yield Refusal(1176, f"Key '{clause.names[0]}' doesn't exist in table '{work.table.id.table}'")
    elif clause.what.endswith(" INVISIBLE") and indexes.is_primary(work.table, index):
        yield Refusal(3522, "A primary key index cannot be invisible")


_CLAUSES: Final[dict[type, Callable[[Alteration, Any], Iterator[Refusal]]]] = {
    AddColumns: _add_columns, ChangeColumn: _change_column, RenameColumn: _rename_column, DropColumn: _drop_column,
    SetDefault: _set_default, AddIndex: _add_index, DropIndex: _drop_index, RenameIndex: _rename_index,
    RenameTo: _rename_to, SetOptions: _set_options, ConvertTo: _convert, ExchangePartition: _exchange,
    NoColumnEffect: _no_column_effect,
}  # fmt: skip
