"""Unique keys that TiDB refuses: of partitioned tables, and invisible ones (upstream tidb `pkg/ddl/partition.go`,
checkPartitionKeysConstraint; `pkg/ddl/index.go`, checkInvisibleIndexOnPK)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.partition_definitions import PartitionBy
from ticdc_bridge.schemas.ddl.parser.statements import AddIndex, AlterTable, Clause, IndexDef, NoColumnEffect, TableName
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Index, Table, TableDetails
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal
from ticdc_bridge.service.ddl_check.refusals.indexes import is_primary


class UniqueKey(NamedTuple):
    """A unique key beside partitions. whole: its columns, but those of which it has a prefix only."""

    name: str
    whole: tuple[str, ...]
    everywhere: bool = False
    clustered: bool | None = None


def unique_key(table: Table, index: IndexDef) -> UniqueKey:
    lengths = index.lengths or (None,) * len(index.parts)
    columns = [(part, length, find(table.columns, part)) for part, length in zip(index.parts, lengths, strict=True)]
    whole = tuple(part for part, length, one in columns if length is None or (one is not None and one.length == length))
    name = PRIMARY if index.kind == "primary" else index.name or index.parts[0]
    return UniqueKey(name, whole, index.everywhere, index.clustered)


def known_key(table: Table, index: Index) -> UniqueKey:
    """A unique index of a table. Of a prefix that an index has, the length is not known: it counts as none."""
    details = table.details or TableDetails()
    everywhere = index.name.lower() in map(str.lower, details.everywhere)
    whole = tuple(name for name in index.columns if name not in details.prefixed)
    return UniqueKey(index.name, whole, everywhere, details.clustered if index.name == PRIMARY else None)


def of_partition(table: Table, partition: PartitionBy, unique: Sequence[UniqueKey]) -> Iterator[Refusal]:
    """Every unique key has the columns that rows are spread by, or is global; a clustered one can't be."""
    names = [c.name for c in table.columns if c.name.lower() in {name.lower() for name in partition.names}]
    updated = {name.lower(): is_global for name, is_global in partition.indexes}
    for key in unique:
        yield from of_unique(key._replace(everywhere=updated.get(key.name.lower(), key.everywhere)), names)


def of_unique(key: UniqueKey, columns: Sequence[str]) -> Iterator[Refusal]:
    """columns: by which rows are spread over partitions."""
    if {name.lower() for name in columns} <= {name.lower() for name in key.whole}:
        return
    if key.clustered:
        yield Refusal(1503, "A CLUSTERED INDEX must include all columns in the table's partitioning function")
    elif not key.everywhere:
        yield _of_global_index(key.name)


def _of_global_index(name: str) -> Refusal:
    text = "since the unique index is not including all partitioning columns, and GLOBAL is not given"
    return Refusal(8264, f"Global Index is needed for index '{name}', {text} as IndexOption")


def of_invisible(catalog: Catalog, table: Table, clauses: tuple[Clause, ...]) -> Iterator[Refusal]:
    """An invisible index that is the primary key after the clauses, or what stands in for one."""
    if table.details is None or not (table.details.invisible or any(map(_hides, clauses))):
        return
    statement = AlterTable(TableName(table.id.db, table.id.table), clauses)
    try:
        after = apply(catalog, statement, table.id.db).table(table.id)
    except DdlError:
        return
    hidden = {name.lower() for name in after.details.invisible} if after and after.details else set()
    if after and any(index.name.lower() in hidden and is_primary(after, index) for index in after.indexes):
        yield Refusal(3522, "A primary key index cannot be invisible")


def _hides(clause: Clause) -> bool:
    if isinstance(clause, AddIndex):
        return clause.index.invisible
    return isinstance(clause, NoColumnEffect) and clause.what == "ALTER INDEX INVISIBLE"
