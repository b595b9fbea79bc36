"""Indexes: their names, and what they make of the columns (primary, unique, handle key)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, IndexDef
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, ForeignKey, Index, Table
from ticdc_bridge.schemas.model.types import Kind

Named = TypeVar("Named", Column, Index, ForeignKey)
PRIMARY = "PRIMARY"
_HIDDEN = "_V$_"


def hidden_column(index: str, part: int | str) -> str:
    """The name of the hidden column that TiDB keeps for an expression in an index (upstream `pkg/ddl/index.go`)."""
    return f"{_HIDDEN}{index}_{part}"


def is_hidden(column: str) -> bool:
    """True if a name is that of a hidden column, which stands for an expression."""
    return column.startswith(_HIDDEN)


def column_indexes(columns: Iterable[ColumnDef]) -> list[IndexDef]:
    """The indexes that columns declare for themselves."""
    indexes: list[IndexDef] = []
    for column in columns:
        primary = IndexDef("primary", "", (column.name,), clustered=column.clustered)
        keys = [primary] * column.primary_key + [IndexDef("unique", "", (column.name,))] * column.unique_key
        indexes += reversed(keys) if column.unique_first else keys  # the first is called after the column
    return indexes


def with_indexes(table: Table, added: Sequence[IndexDef], before: Sequence[Index] | None = None) -> Table:
    """The table with more indexes, in order; one without a name is called after its first column.

    A primary key that is the handle itself (of one integer, in CREATE TABLE) is the first (upstream `PKIsHandle`).
    before: the indexes before an ALTER TABLE, the only ones that a foreign key of it looks at.
    DDL_NOT_APPLICABLE for an unknown column, a second primary key, or a name that is taken.
    """
    indexes = list(table.indexes)
    defined = [item for item in added if item.kind in ("primary", "unique", "index")]
    # Written names are taken before the others are made up (upstream `checkConstraintNames`).
    used_names = {i.name.lower() for i in indexes} | {item.name.lower() for item in defined if item.name}
    for entry in defined:
        name = entry.name or _free_name(table, entry, used_names)
        if entry.kind == "primary":
            # In CREATE TABLE a primary key without a name takes one from the others, though it is called PRIMARY.
            if not table.indexes:
                used_names.add(name.lower())
            name = PRIMARY
        if (entry.name or entry.kind == "primary") and find(indexes, name):
            raise DdlError("DDL_NOT_APPLICABLE", details=f"table {table.id} has an index {name} already")
        used_names.add(name.lower())
        names = tuple(_column(table, p).name if p else hidden_column(name, i) for i, p in enumerate(entry.parts))
        index = Index(name, names, entry.kind != "index", _lengths(table, entry), entry.condition)
        is_handle = entry.kind == "primary" and before is None and entry.clustered is not False and len(names) == 1
        first = is_handle and _column(table, names[0]).type.kind is Kind.INTEGER
        indexes.insert(0, index) if first else indexes.append(index)
    foreign = [item for item in added if item.kind == "foreign"]
    for number, entry in enumerate(foreign, table.foreign_keys + 1):
        # A foreign key gets an index of its own where none begins with its columns.
        names = tuple(_column(table, name).name for name in entry.parts)
        if not any(i.columns[: len(names)] == names for i in (indexes if before is None else before)):
            indexes.append(Index(entry.name or f"fk_{number}", names))
    return replace(table, indexes=tuple(indexes), foreign_keys=table.foreign_keys + len(foreign))


def _lengths(table: Table, entry: IndexDef) -> tuple[int | None, ...]:
    """The prefixes' lengths; one as long as the column is none."""
    pairs = zip(entry.parts, entry.lengths, strict=True) if any(entry.lengths) else ()
    lengths = tuple(n if part and n != _column(table, part).length else None for part, n in pairs)
    return lengths if any(lengths) else ()


def with_prefixes_of(table: Table, changed: Column) -> Table:
    """The table after a column changed, which ends prefixes that are no shorter (upstream `SetIdxColNameOffset`)."""
    longest = (changed.length or inf) if changed.type.kind in (Kind.TEXT, Kind.BINARY) else 0
    indexes = (
        replace(i, lengths=tuple(None if name == changed.name and n and n >= longest else n for name, n in i.parts))
        for i in table.indexes
    )
    return replace(table, indexes=tuple(indexes))


def _free_name(table: Table, name: IndexDef, used_names: set[str]) -> str:
    # CREATE TABLE looks at all parts, ALTER TABLE at the first (upstream `setEmptyConstraintName`, `CreateIndex`).
    expression = not name.parts[0] or (not table.indexes and "" in name.parts)
    base = "expression_index" if expression else name.parts[0]
    if base.lower() not in used_names and base.upper() != PRIMARY:
        return base
    number = 2
    while f"{base}_{number}".lower() in used_names:
        number += 1
    return f"{base}_{number}"


def _column(table: Table, name: str) -> Column:
    column = find(table.columns, name)
    if column is None:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {table.id} has no column {name} for an index")
    return column


def find(among: Iterable[Named], name: str) -> Named | None:
    """A column or a key by name, whatever the case of its letters."""
    lower = name.lower()
    return next((entry for entry in among if entry.name.lower() == lower), None)


def with_keys(table: Table) -> Table:
    """The table with its columns' key fields as the indexes say.

    Handle key: the primary key, else the NOT NULL unique index with the fewest columns, the older of equal ones; none
    with a virtual column, which rows do not carry, or a condition (upstream tiflow `schema_storage.go`,
    `IsIndexUnique`). Primary key columns are NOT NULL.
    """
    primary = next((i for i in table.indexes if i.name == PRIMARY), None)
    primary_names = frozenset(primary.columns if primary else ())
    certain = {c.name for c in table.columns if not c.nullable and not c.virtual}
    handle = primary or min(
        (i for i in table.indexes if i.unique and not i.condition and certain.issuperset(i.columns)),
        key=lambda i: len(i.columns),
        default=None,
    )
    handle_names = frozenset(handle.columns if handle else ())
    # The unique flag and the multiple flag (upstream `initColumnsFlag`; golden open/uk_notnull).
    others = [i for i in table.indexes if i.name != PRIMARY]
    unique = {name for i in others if i.unique for name in i.columns}
    multiple = {name for i in others if len(i.columns) > 1 or not i.unique for name in i.columns}

    def with_key(c: Column) -> Column:
        is_primary = c.name in primary_names
        flags = (c.name in handle_names, is_primary, c.name in unique, c.name in multiple)
        if flags == (c.handle_key, c.primary_key, c.unique_key, c.multiple_key) and not (is_primary and c.nullable):
            return c
        return replace(
            c, handle_key=flags[0], primary_key=is_primary, unique_key=flags[2], multiple_key=flags[3],
            nullable=c.nullable and not is_primary,
        )  # fmt: skip

    return replace(table, columns=tuple(map(with_key, table.columns)))
