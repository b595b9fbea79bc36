"""Facts of a table besides columns and keys (`TableDetails`): made by CREATE TABLE, kept by ALTER TABLE."""

from collections.abc import Mapping
from dataclasses import replace

from ticdc_bridge.schemas.ddl.parser import statements
from ticdc_bridge.schemas.model.table import ForeignKey, Table, TableDetails, TableId


def details_of_create(s: statements.CreateTable, table: Table) -> TableDetails:
    """The details of a CREATE TABLE that gave this table."""
    clustered = next((column.clustered for column in s.columns if column.primary_key), None)
    details = TableDetails(clustered, s.partitioned, partitioning=s.partitioning)
    for index in s.indexes:
        details = _with_index(details, index, table.id, len(details.foreign_keys) + 1)
    return details


def details_after(table: Table, clause: statements.Clause) -> TableDetails | None:
    """The details of a table as it is after a clause, with those from before it; None where they are not known."""
    if (details := table.details) is None:
        return None
    match clause:
        case statements.AddIndex():
            details = _with_index(details, clause.index, table.id)
            if clause.index.kind == "primary":  # one that comes later is never clustered (`CreatePrimaryKey`)
                details = replace(details, clustered=False)
        case statements.NoColumnEffect(what="DROP FOREIGN KEY"):
            kept = tuple(f for f in details.foreign_keys if f.name.lower() != clause.name.lower())
            details = replace(details, foreign_keys=kept)
        case statements.NoColumnEffect(what="PARTITION BY" | "REMOVE PARTITIONING"):
            details = replace(details, partitioned=clause.partitioned, partitioning=clause.partitioning)
        case statements.NoColumnEffect() if details.partitioning is not None:
            details = replace(details, partitioning=details.partitioning.after(clause.what, clause.partitions))
    return details


def renamed(details: TableDetails | None, names: Mapping[str, str]) -> TableDetails | None:
    """With columns under their new names; names: in lower case → new."""
    if details is None or not names:
        return details
    keys = [replace(f, columns=tuple(names.get(c.lower(), c) for c in f.columns)) for f in details.foreign_keys]
    return replace(details, foreign_keys=tuple(keys))


def _with_index(details: TableDetails, index: statements.IndexDef, table: TableId, number: int = 0) -> TableDetails:
    """number: of a foreign key among those of a CREATE TABLE, after which TiDB calls one without a name."""
    if index.kind == "primary":
        details = replace(details, clustered=index.clustered)
    if index.kind == "foreign" and index.references is not None:
        target = index.references.in_db(table.db)
        key = ForeignKey(index.name or f"fk_{number}", index.parts, target, index.referenced)
        return replace(details, foreign_keys=(*details.foreign_keys, key))
    return details
