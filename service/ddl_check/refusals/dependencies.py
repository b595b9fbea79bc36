"""Columns, keys and tables that something else needs: foreign keys, partitions, TTL, CHECKs, expression indexes.

Known where the table's details are (`TableDetails`): from its SHOW CREATE TABLE or its DDL, not from a stored history.
Source: upstream tidb `pkg/ddl/foreign_key.go`, `pkg/ddl/executor.go`, `pkg/ddl/ttl.go`, `pkg/ddl/constraint.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, Database
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY, find
from ticdc_bridge.schemas.ddl.parser.statements import AddIndex, Clause, NoColumnEffect, SetOptions
from ticdc_bridge.schemas.model.table import Column, ForeignKey, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.ddl_check.refusals.columns import AUTO_WITHOUT_KEY, Refusal

_TTL_KINDS: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)


def children(catalog: Catalog, parent: TableId) -> list[tuple[Table, ForeignKey]]:
    """Foreign keys of other tables that name a table; none where the tables are read from a store."""
    return [
        (table, key)
        for table in catalog.described_tables()
        for key in (table.details.foreign_keys if table.details else ())
        if key.table.folded == parent.folded and table.id.folded != parent.folded
    ]


def references(catalog: Catalog, table: Table) -> list[tuple[Table, ForeignKey]]:
    """Foreign keys of other tables and of its own that name a table."""
    own = table.details.foreign_keys if table.details else ()
    return [*children(catalog, table.id), *((table, key) for key in own if key.table.folded == table.id.folded)]


def _has(names: Collection[str], name: str) -> bool:
    return name.lower() in {one.lower() for one in names}


# ---- columns
def of_leaving(catalog: Catalog, table: Table, name: str, *, dropped: bool) -> Iterator[Refusal]:
    """A column that is dropped, or gets another name."""
    details = table.details
    if details is None:
        return
    if details.partitioning and _has(details.partitioning.columns, name):
        text = f"Column '{name}' has a partitioning function dependency and cannot be dropped or renamed"
        yield Refusal(3855, text)
    yield from of_expressions(table, name)
    for check, columns in details.checks:
        if _has(columns, name):
            text = f"Check constraint '{check}' uses column '{name}', hence column cannot be dropped or renamed."
            yield Refusal(3959, text)
    if not dropped:
        return
    if details.ttl.lower() == name.lower():
        yield Refusal(8149, f"Cannot drop column '{name}': needed in TTL config")
    for key in details.foreign_keys:
        if _has(key.columns, name):
            yield Refusal(1828, f"Cannot drop column '{name}': needed in a foreign key constraint '{key.name}'")
    for child, key in references(catalog, table):
        if _has(key.referenced, name):
            text = f"Cannot drop column '{name}': needed in a foreign key constraint '{key.name}' of table '{child.id}'"
            yield Refusal(1829, text)


def of_expressions(table: Table, name: str) -> Iterator[Refusal]:
    """Expression indexes that name a column."""
    for index, columns in table.details.expressions if table.details else ():
        if _has(columns, name):
            text = f"Column '{name}' has an expression index dependency and cannot be dropped or renamed"
            yield Refusal(3837, text + (f" (index {index})" if index else ""))


def of_changing(catalog: Catalog, table: Table, old: Column, new: Column) -> Iterator[Refusal]:
    """A column that gets another definition."""
    details = table.details
    if details is None:
        return
    form = (old.type, old.unsigned, old.length, old.scale, old.charset, old.collate)
    other = (new.type, new.unsigned, new.length, new.scale, new.charset, new.collate)
    if details.partitioning and _has(details.partitioning.columns, old.name):
        kinds = [(c.type.kind, c.unsigned, c.nullable, c.charset, c.collate) for c in (old, new)]
        if kinds[0] != kinds[1]:
            text = "can't change the partitioning column, since it would require reorganize all partitions"
            yield Refusal(8200, f"Unsupported modify column: {text}")
    if details.ttl.lower() == old.name.lower() and new.type.kind not in _TTL_KINDS:
        text = "is of a not supported type for TTL config, expect DATETIME, DATE or TIMESTAMP"
        yield Refusal(8148, f"Field '{old.name}' {text}")
    if details.auto_random.lower() == old.name.lower() and old.name and form != other:
        yield Refusal(8216, "Invalid auto random: modifying the auto_random column type is not supported")
    for key in details.foreign_keys:
        if _has(key.columns, old.name):
            parent = table if key.table.folded == table.id.folded else catalog.table(key.table)
            if number := _misfit(old, new, _counterpart(parent, key, old), 1832):
                yield Refusal(
                    number, f"Cannot change column '{old.name}': used in a foreign key constraint '{key.name}'"
                )
            elif key.sets_null and not new.nullable:
                text = f"needed in a foreign key constraint '{key.name}' SET NULL"
                yield Refusal(1830, f"Column '{old.name}' cannot be NOT NULL: {text}")
    for child, key in references(catalog, table):
        if _has(key.referenced, old.name) and (number := _misfit(old, new, _counterpart(child, key, old), 1833)):
            text = f"used in a foreign key constraint '{key.name}' of table '{child.id}'"
            yield Refusal(number, f"Cannot change column '{old.name}': {text}")


def _counterpart(other: Table | None, key: ForeignKey, column: Column) -> Column | None:
    """The column on the other side of a foreign key."""
    for own, there in zip(key.columns, key.referenced, strict=False):
        if column.name.lower() in (own.lower(), there.lower()) and other is not None:
            name = there if other.id.folded == key.table.folded else own
            return find(other.columns, name)
    return None


def _misfit(old: Column, new: Column, other: Column | None, number: int) -> int:
    """TiDB's error where a column of a foreign key may not be changed so, 0 where it may: to another type than that on
    the other side, to a text that is shorter than it was or than the other, to another DECIMAL."""
    if (old.type, old.length, old.scale) == (new.type, new.length, new.scale):
        return 0
    if new.type is not (other or old).type:
        return 3780
    if new.type.kind is Kind.DECIMAL:
        return number if (old.length, old.scale) != (new.length, new.scale) else 0
    room = max(old.length or 0, (other.length or 0) if other else 0)
    return number if new.type.kind in (Kind.TEXT, Kind.BINARY) and (new.length or 0) < room else 0


REFERENCED_TTL: Final = Refusal(8152, "Set TTL for a table referenced by foreign key is not allowed")


def of_ttl(table: Table, name: str, clustered: bool | None = None) -> Iterator[Refusal]:
    """TTL on a column. clustered: whether the primary key is, None where that is not known."""
    primary = next((i.columns for i in table.indexes if i.name == PRIMARY), ())
    keys = [one for one in table.columns if one.name in primary or one.primary_key]
    if clustered is not False and any(one.type.kind in (Kind.FLOAT, Kind.DOUBLE) for one in keys):
        yield Refusal(8153, "Unsupported clustered primary key type FLOAT/DOUBLE for TTL", certain=clustered is True)
    column = find(table.columns, name)
    if column is None:
        yield Refusal(1054, f"Unknown column '{name}' in 'TTL config'")
    elif column.type.kind not in _TTL_KINDS:
        text = "is of a not supported type for TTL config, expect DATETIME, DATE or TIMESTAMP"
        yield Refusal(8148, f"Field '{name}' {text}")


# ---- keys
def of_leaving_index(catalog: Catalog, table: Table, name: str) -> Iterator[Refusal]:
    """An index that is dropped."""
    own = find(table.indexes, name)
    if own is None:
        return
    details, others = table.details, [i for i in table.indexes if i is not own]
    clustered = details.clustered if details else None
    if own.name == PRIMARY and clustered is not False:
        text = "Unsupported drop primary key when the table is using clustered index"
        yield Refusal(8200, text, certain=clustered is True)
    automatic = [c.name for c in table.columns if c.auto_increment]
    if automatic and own.columns[:1] == tuple(automatic) and not any(i.columns[:1] == own.columns[:1] for i in others):
        yield AUTO_WITHOUT_KEY
    if details is None:
        return
    needed = [key.columns for key in details.foreign_keys]
    needed += [key.referenced for _, key in references(catalog, table)]
    for columns in needed:
        if begins(own.columns, columns) and not any(begins(i.columns, columns) for i in others):
            text = f"Cannot drop index '{own.name}': needed in a foreign key constraint"
            yield Refusal(1553, text)


def begins(index: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    return tuple(map(str.lower, index[: len(columns)])) == tuple(map(str.lower, columns))


# ---- tables
_UNCACHED: Final = ("CACHE", "NOCACHE", "ALGORITHM", "LOCK")


def of_cached(table: Table | None, what: str) -> Iterator[Refusal]:
    """A statement on a cached table. what: its words in TiDB's error."""
    if table is not None and table.details is not None and table.details.cached:
        yield Refusal(8242, f"'{what}' is unsupported on cache tables.")


def of_cached_clauses(table: Table, clauses: Sequence[Clause]) -> Iterator[Refusal]:
    """ALTER TABLE of a cached table: CACHE and NOCACHE, and nothing else."""
    if any(not isinstance(one, NoColumnEffect) or one.what not in _UNCACHED for one in clauses):
        yield from of_cached(table, "Alter Table")


def of_temporary_clauses(table: Table, clauses: Sequence[Clause]) -> Iterator[Refusal]:
    """What a global temporary table has not."""
    if table.details is None or not table.details.temporary:
        return
    for clause in clauses:
        match clause:
            case AddIndex() if clause.index.kind == "foreign":
                yield NO_FOREIGN_KEY
            case NoColumnEffect(what="PARTITION BY"):
                yield Refusal(1562, "Cannot create temporary table with partitions")
            case NoColumnEffect(what="CACHE" | "SET TIFLASH REPLICA"):
                yield on_temporary(clause.what)
            case SetOptions():
                yield from (on_temporary(word) for word in clause.options.others if word in ON_PERMANENT)
                yield from of_affinity(clause.options.affinity, partitioned=False, temporary=True)
                if clause.options.ttl is not None:
                    yield Refusal(8151, "Set TTL for temporary table is not allowed")


ON_PERMANENT: Final = ("SHARD_ROW_ID_BITS", "PRE_SPLIT_REGIONS", "PLACEMENT POLICY")
"""Options that a temporary table can't have."""
NO_FOREIGN_KEY: Final = Refusal(1215, "Cannot add foreign key constraint")


def on_temporary(word: str) -> Refusal:
    return Refusal(8006, f"`{word.lower()}` is unsupported on temporary tables.")


def of_affinity(level: str | None, *, partitioned: bool, temporary: bool = False) -> Iterator[Refusal]:
    """AFFINITY of a table (upstream `validateTableAffinity`)."""
    level = (level or "").lower()
    if level in ("", "none"):
        return
    text = f"Can not set AFFINITY='{level}' on a {'' if partitioned else 'non-'}partition table."
    if level not in ("table", "partition"):
        text = f"Invalid AFFINITY '{level}'"
    elif temporary:
        text = "Can not set AFFINITY on a temporary table."
    elif partitioned == (level == "partition"):
        return
    yield Refusal(8266, text)


def of_partitions_beside_affinity(table: Table, what: str) -> Iterator[Refusal]:
    """Partitions of a table with AFFINITY stay as they are. what: the words of the clause."""
    if table.details is not None and table.details.affinity and what in _PARTITION_CHANGES:
        words = "ALTER TABLE PARTITIONING" if what == "PARTITION BY" else what
        yield Refusal(8200, f"Unsupported {words} of a table with AFFINITY option")


_PARTITION_CHANGES: Final = (
    "ADD PARTITION", "DROP PARTITION", "REORGANIZE PARTITION", "REMOVE PARTITIONING", "COALESCE PARTITION",
    "PARTITION BY", "EXCHANGE PARTITION",
)  # fmt: skip


def of_leaving_database(catalog: Catalog, database: Database) -> Iterator[Refusal]:
    """A database that is dropped with its tables."""
    for table in database.tables:
        for child, key in children(catalog, table.id):
            if child.id.db.lower() != table.id.db.lower():
                text = f"referenced by a foreign key constraint '{key.name}' on table '{child.id.table}'"
                yield Refusal(3730, f"Cannot drop table '{table.id.table}' {text}.")


def of_leaving_table(
    catalog: Catalog, table: TableId, gone: Collection[TableId], *, truncated: bool
) -> Iterator[Refusal]:
    """A table that is dropped with others (gone), or truncated."""
    yield from of_cached(catalog.table(table), "Truncate Table" if truncated else "Drop Table")
    for child, key in children(catalog, table):
        if truncated:
            text = f"`{child.id.db}`.`{child.id.table}` CONSTRAINT `{key.name}`"
            yield Refusal(1701, f"Cannot truncate a table referenced in a foreign key constraint ({text})")
        elif child.id.folded not in {one.folded for one in gone}:
            text = f"referenced by a foreign key constraint '{key.name}' on table '{child.id.table}'"
            yield Refusal(3730, f"Cannot drop table '{table.table}' {text}.")
