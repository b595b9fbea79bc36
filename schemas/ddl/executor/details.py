"""What TiDB keeps of a table besides columns and keys (`TableDetails`): made by CREATE TABLE, kept by ALTER TABLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.ddl.executor.intervals import interval_partitions
from ticdc_bridge.schemas.ddl.parser.partition_definitions import PartitionBy, PartitionDef
from ticdc_bridge.schemas.ddl.parser.statements import (
    AddColumns,
    AddIndex,
    ChangeColumn,
    Clause,
    ColumnDef,
    CreateTable,
    DropIndex,
    IndexDef,
    NoColumnEffect,
    RenameIndex,
    SetOptions,
)
from ticdc_bridge.schemas.model.table import ForeignKey, KnownPartition, Partitioning, Table, TableDetails, TableId


def details_of_create(s: CreateTable, table: Table) -> TableDetails:
    """Of a CREATE TABLE. CHECKs are kept where TiDB shows them; by default it keeps none of what is typed."""
    spread = _partitioning(s.partition, table)
    made = TableDetails(ttl=s.options.ttl or "", partitioning=spread, cached=s.cached, policy=s.options.policy or "")
    made = replace(made, affinity=_level(s.options.affinity), temporary=s.temporary == "global")
    made = _with_columns(made, s.columns)
    for index in s.indexes:
        made = _with_index(made, index, table.id)
    checks = tuple((i.name, _known(i.names, table)) for i in s.indexes if i.kind == "check") if s.shown else ()
    return replace(made, checks=checks)


def details_after(table: Table, clauses: Iterable[Clause]) -> TableDetails | None:
    """Of a table (as it is after the clauses, with the details from before them); None where they are not known."""
    details = table.details
    for clause in clauses:
        if details is None:
            return None
        change = _CLAUSES.get(type(clause))
        details = change(details, clause, table) if change else details
    return details


def renamed(details: TableDetails | None, names: Mapping[str, str]) -> TableDetails | None:
    """With columns under their new names; names: in lower case → new."""
    if details is None or not names:
        return details

    def new(one: str) -> str:
        return names.get(one.lower(), one)

    def all_new(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(new, columns))

    spread = details.partitioning
    return replace(
        details,
        partitioning=replace(spread, columns=all_new(spread.columns)) if spread else None,
        foreign_keys=tuple(replace(f, columns=all_new(f.columns)) for f in details.foreign_keys),
        ttl=new(details.ttl),
        auto_random=new(details.auto_random),
        prefixed=all_new(details.prefixed),
        checks=tuple((name, all_new(columns)) for name, columns in details.checks),
        expressions=tuple((name, all_new(columns)) for name, columns in details.expressions),
    )


def _partitioning(spread: PartitionBy | None, table: Table) -> Partitioning | None:
    if spread is None:
        return None
    columns = _known(spread.names, table) or (table.primary_key if spread.method == "KEY" else ())
    partitions = _partitions(spread.partitions or interval_partitions(spread, table) or ())
    if not partitions and spread.method in ("HASH", "KEY"):
        partitions = tuple(KnownPartition(f"p{number}") for number in range(spread.count or 1))
    return Partitioning(spread.method, columns, partitions)


def _partitions(made: Iterable[PartitionDef]) -> tuple[KnownPartition, ...]:
    return tuple(
        KnownPartition(one.name, one.numbers, one.has_maxvalue, one.single, one.policy, one.rows, one.has_default)
        for one in made
    )


def _level(affinity: str | None) -> str:
    level = (affinity or "").lower()
    return "" if level == "none" else level


def _known(names: Iterable[str], table: Table) -> tuple[str, ...]:
    """The columns among names, in the table's letters, once each."""
    columns = {c.name.lower(): c.name for c in table.columns}
    return tuple(dict.fromkeys(columns[n.lower()] for n in names if n.lower() in columns))


def _with_columns(details: TableDetails, columns: Iterable[ColumnDef]) -> TableDetails:
    for one in columns:
        if one.primary_key:
            details = replace(details, clustered=one.clustered)
        if one.auto_random:
            details = replace(details, auto_random=one.name, random=(one.random_bits, one.random_range))
    return details


def _with_index(details: TableDetails, index: IndexDef, table: TableId) -> TableDetails:
    if index.kind == "primary":
        details = replace(details, clustered=index.clustered)
    if index.kind == "foreign" and index.references is not None:
        target = TableId(index.references.db or table.db, index.references.table)
        name = index.name or f"fk_{len(details.foreign_keys) + 1}"
        key = ForeignKey(name, index.parts, target, index.referenced, index.sets_null)
        return replace(details, foreign_keys=(*details.foreign_keys, key))
    if index.everywhere:
        details = replace(details, everywhere=(*details.everywhere, index.name or index.parts[0]))
    if index.invisible:
        details = replace(details, invisible=(*details.invisible, index.name or index.parts[0]))
    prefixed = [part for part, length in zip(index.parts, index.lengths, strict=False) if length]
    details = replace(details, prefixed=(*details.prefixed, *prefixed)) if prefixed else details
    if "" in index.parts and index.names:
        return replace(details, expressions=(*details.expressions, (index.name, index.names)))
    return details


# ---- clauses of ALTER TABLE
def _add_columns(details: TableDetails, clause: AddColumns, table: Table) -> TableDetails:
    for index in clause.indexes:
        details = _with_index(details, index, table.id)
    return details


def _add_index(details: TableDetails, clause: AddIndex, table: Table) -> TableDetails:
    made = _with_index(details, clause.index, table.id)
    # A primary key that comes later is never clustered (upstream `CreatePrimaryKey`).
    return replace(made, clustered=False) if clause.index.kind == "primary" else made


def _change_column(details: TableDetails, clause: ChangeColumn, _: Table) -> TableDetails:
    new = clause.column
    if not new.auto_random:
        return details
    return replace(details, auto_random=clause.old, random=(new.random_bits, new.random_range))


def _drop_index(details: TableDetails, clause: DropIndex, _: Table) -> TableDetails:
    left = tuple(one for one in details.expressions if one[0].lower() != clause.name.lower())
    return replace(details, expressions=left, invisible=_without(details.invisible, clause.name))


def _rename_index(details: TableDetails, clause: RenameIndex, _: Table) -> TableDetails:
    left = _without(details.invisible, clause.old)
    return replace(details, invisible=left if left == details.invisible else (*left, clause.new))


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one.lower() != name.lower())


def _set_options(details: TableDetails, clause: SetOptions, _: Table) -> TableDetails:
    ttl, policy, affinity = clause.options.ttl, clause.options.policy, clause.options.affinity
    return replace(
        details,
        ttl=details.ttl if ttl is None else ttl,
        policy=details.policy if policy is None else policy,
        affinity=details.affinity if affinity is None else _level(affinity),
    )


def _no_column_effect(details: TableDetails, clause: NoColumnEffect, table: Table) -> TableDetails:
    gone = {name.lower() for name in clause.names}
    match clause.what:
        case "PARTITION BY":
            details = replace(details, everywhere=_everywhere(details, clause.partition))
            return replace(details, partitioning=_partitioning(clause.partition, table))
        case "REMOVE PARTITIONING":
            return replace(details, partitioning=None, everywhere=())
        case "CACHE" | "NOCACHE":
            return replace(details, cached=clause.what == "CACHE")
        case "ALTER INDEX INVISIBLE":
            names = (*_without(details.invisible, clause.names[0]), clause.names[0])
            return replace(details, invisible=names)
        case "ALTER INDEX VISIBLE":
            return replace(details, invisible=_without(details.invisible, clause.names[0]))
        case "REMOVE TTL":
            return replace(details, ttl="")
        case "DROP FOREIGN KEY":
            return replace(details, foreign_keys=tuple(f for f in details.foreign_keys if f.name.lower() not in gone))
        case "DROP CHECK":
            return replace(details, checks=tuple(one for one in details.checks if one[0].lower() not in gone))
    spread = details.partitioning
    if spread is not None and clause.what == "PARTITION":  # of one of them, by an option that may be its policy
        partitions = tuple(one._replace(policy="") for one in spread.partitions)
        return replace(details, partitioning=replace(spread, partitions=partitions))
    if spread is None or clause.what not in _PARTITION_NAMES:
        return details
    return replace(details, partitioning=replace(spread, partitions=_after(spread, clause, gone)))


def numbered_names(spread: Partitioning, count: int) -> list[str]:
    """Of partitions that ADD PARTITION PARTITIONS makes."""
    return [f"p{len(spread.partitions) + number}" for number in range(count)]


def _everywhere(details: TableDetails, spread: PartitionBy | None) -> tuple[str, ...]:
    """The global indexes after PARTITION BY … UPDATE INDEXES."""
    updated = {name.lower(): is_global for name, is_global in spread.indexes} if spread else {}
    kept = [name for name in details.everywhere if name.lower() not in updated]
    return (*kept, *(name for name, is_global in updated.items() if is_global))


def _after(spread: Partitioning, clause: NoColumnEffect, gone: Set[str]) -> tuple[KnownPartition, ...]:
    """The partitions after a clause that adds, drops or replaces some; () where that is not known."""
    if spread.method in ("HASH", "KEY") and clause.count:
        if clause.what == "COALESCE PARTITION":
            return spread.partitions[: -clause.count]
        if clause.what == "ADD PARTITION" and spread.partitions:
            return (*spread.partitions, *map(KnownPartition, numbered_names(spread, clause.count)))
    added, left = _partitions(clause.added), [one for one in spread.partitions if one.name.lower() not in gone]
    numbered = clause.what in ("ADD PARTITION", "REORGANIZE PARTITION") and not added
    if not spread.partitions or numbered or clause.what not in _NAMED_CHANGES:
        return ()
    first = next((n for n, one in enumerate(spread.partitions) if one.name.lower() in gone), len(left))
    return (*left[:first], *added, *left[first:])


_NAMED_CHANGES = ("ADD PARTITION", "DROP PARTITION", "REORGANIZE PARTITION")


_PARTITION_NAMES = (
    "ADD PARTITION", "DROP PARTITION", "REORGANIZE PARTITION", "COALESCE PARTITION", "FIRST PARTITION",
    "LAST PARTITION", "MERGE FIRST PARTITION", "SPLIT MAXVALUE PARTITION",
)  # fmt: skip
_CLAUSES: dict[type, Callable[[TableDetails, Any, Table], TableDetails]] = {
    AddColumns: _add_columns, AddIndex: _add_index, ChangeColumn: _change_column, DropIndex: _drop_index,
    SetOptions: _set_options, NoColumnEffect: _no_column_effect, RenameIndex: _rename_index,
}  # fmt: skip
