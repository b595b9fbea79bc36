"""Facts of a table besides columns and keys (`TableDetails`): made by CREATE TABLE, kept by ALTER TABLE."""

from collections.abc import Mapping
from dataclasses import replace

from ticdc_bridge.schemas.ddl.parser import statements
from ticdc_bridge.schemas.model.table import ForeignKey, Table, TableDetails, TableId


def details_of_create(s: statements.CreateTable, table: Table) -> TableDetails:
    """The details of a CREATE TABLE that gave this table."""
    clustered = next((column.clustered for column in s.columns if column.primary_key), None)
    details = TableDetails(clustered, _known(s.partitioned_by, table), partitioning=s.partitioning)
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
            by = _known(clause.partitioned_by, table)
            details = replace(details, partitioned_by=by, partitioning=clause.partitioning)
        case statements.NoColumnEffect() if details.partitioning is not None:
            partitioning = details.partitioning.after(clause.what, clause.partitions)
            details = replace(details, partitioning=partitioning)
    return details


def renamed(details: TableDetails | None, names: Mapping[str, str]) -> TableDetails | None:
    """With columns under their new names; names: in lower case → new."""
    if details is None or not names:
        return details

    def new(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(column.lower(), column) for column in columns)

    by = details.partitioned_by
    return replace(
        details,
        partitioned_by=None if by is None else new(by),
        foreign_keys=tuple(replace(f, columns=new(f.columns)) for f in details.foreign_keys),
    )


def _known(names: tuple[str, ...] | None, table: Table) -> tuple[str, ...] | None:
    """The columns among names, in the table's letters, once each; PARTITION BY KEY () names none."""
    if names is None:
        return None
    columns = {c.name.lower(): c.name for c in table.columns}
    return tuple(dict.fromkeys(columns[n.lower()] for n in names if n.lower() in columns)) or table.primary_key


def _with_index(details: TableDetails, index: statements.IndexDef, table: TableId, number: int = 0) -> TableDetails:
    """number: of a foreign key among those of a CREATE TABLE, after which TiDB calls one without a name."""
    if index.kind == "primary":
        details = replace(details, clustered=index.clustered)
    if index.kind == "foreign" and index.references is not None:
        target = index.references.in_db(table.db)
        key = ForeignKey(index.name or f"fk_{number}", index.parts, target, index.referenced)
        return replace(details, foreign_keys=(*details.foreign_keys, key))
    return details
