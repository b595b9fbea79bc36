"""What a statement does to each table: which table it was, which it becomes, and which column is which."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterTable,
    CreateTable,
    ExchangePartition,
    NoColumnEffect,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
    TruncateTable,
)
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.service.history.statements import column_renames


@dataclass(frozen=True)
class TableChange:
    """One table before and after a statement; None where there is none. renames: columns, by their old name.

    rows: what happens to rows without a row event: "", or `truncated`, `partitions dropped`, `partitions exchanged`,
    `recovered`. like: the table that CREATE TABLE … LIKE copies. is_one_of_many: RENAME TABLE has several pairs.
    is_bare: the statement leaves out the database of a table that it renames or copies.
    """

    before: Table | None
    after: Table | None
    renames: dict[str, str] = field(default_factory=dict)
    rows: str = ""
    like: TableId | None = None
    is_one_of_many: bool = False
    is_bare: bool = False

    @property
    def id(self) -> TableId:
        table = self.after or self.before
        assert table is not None
        return table.id

    @property
    def is_renamed(self) -> bool:
        return self.before is not None and self.after is not None and self.before.id != self.after.id

    @cached_property
    def pairs(self) -> list[tuple[Column, Column]]:
        """Columns that are on both sides, old and new, in the new table's order."""
        if self.before is None or self.after is None:
            return []
        old_names = {new.lower(): old for old, new in self.renames.items()}
        renamed_columns = {old.lower() for old in self.renames}
        olds = {c.name.lower(): c for c in self.before.columns}
        result = []
        for column in self.after.columns:
            name = old_names.get(column.name.lower())
            if name is None and column.name.lower() in renamed_columns:
                continue
            old = olds.get((name or column.name).lower())
            if old is not None:
                result.append((old, column))
        return result

    @cached_property
    def added_columns(self) -> list[Column]:
        names = {new.name for _, new in self.pairs}
        return [c for c in self.after.columns if c.name not in names] if self.after else []

    @cached_property
    def dropped_columns(self) -> list[Column]:
        names = {old.name for old, _ in self.pairs}
        return [c for c in self.before.columns if c.name not in names] if self.before and self.after else []

    @property
    def primary_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns of the primary key, before (by their new names) and after, in index order."""
        return self._new_names(_primary(self.before)), _primary(self.after)

    @property
    def handle_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """As primary_keys, of the key by which TiCDC tells rows apart."""
        before = self.before.handle_key if self.before else ()
        return self._new_names(before), self.after.handle_key if self.after else ()

    def _new_names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.renames.get(c, c) for c in columns)


def _primary(table: Table | None) -> tuple[str, ...]:
    if table is None:
        return ()
    return next((i.columns for i in table.indexes if i.name == PRIMARY), table.primary_key)


def changes(catalog: Catalog, statement: Statement, db: str) -> tuple[Catalog, list[TableChange]]:
    """The catalog after a statement, and each table that it touches. DdlError as `apply`."""
    ids = affected_tables(catalog, statement, db)
    after = apply(catalog, statement, db)
    if after is catalog:
        rows = _rows(statement)
        same = [t for i in _unique(ids) if (t := catalog.table(i))] if rows else []
        return after, [TableChange(t, t, rows=rows) for t in same]
    origin = _origins(catalog, statement, db)
    names, rows = column_renames(statement), _rows(statement)
    many = isinstance(statement, RenameTables) and len(statement.pairs) > 1
    copied = statement.like if isinstance(statement, CreateTable) else None
    like = _id(copied.db, copied.table, db) if copied else None
    table_changes: list[TableChange] = []
    for id_ in _unique(ids):
        key = id_.folded
        now = after.table(id_)
        was = catalog.table(id_)
        if key in origin:
            source = origin[key]
            was = catalog.table(source) if source is not None else None
        if was is not None or now is not None:
            table_changes.append(
                TableChange(was, now, _old_spelling(was, names), rows, like, many, _is_bare(statement))
            )
    return after, table_changes


def _is_bare(statement: Statement) -> bool:
    match statement:
        case RenameTables():
            return any(not old.db for old, _ in statement.pairs)
        case AlterTable():
            return not statement.table.db
        case CreateTable(like=TableName() as copied):
            return not copied.db
    return False


def _unique(ids: tuple[TableId, ...]) -> list[TableId]:
    return list({i.folded: i for i in ids}.values())


def _old_spelling(table: Table | None, names: dict[str, str]) -> dict[str, str]:
    """Renames by the columns' names as the table has them; another case of letters is none."""
    columns = table.columns if table is not None else ()
    renames = {c.name: names.get(c.name.lower(), c.name) for c in columns}
    return {old: new for old, new in renames.items() if old.lower() != new.lower()}


def _origins(catalog: Catalog, statement: Statement, db: str) -> dict[TableId, TableId | None]:
    """New name → the name that its table had before; None: it is another table's name now, or free."""
    pairs = []
    match statement:
        case RenameTables():
            pairs = [(_id(a.db, a.table, db), _id(b.db, b.table, db)) for a, b in statement.pairs]
        case AlterTable():
            own = _id(statement.table.db, statement.table.table, db)
            for clause in statement.clauses:
                if isinstance(clause, RenameTo):
                    pairs.append((own, _id(clause.new.db, clause.new.table, db)))
    origin: dict[TableId, TableId | None] = {}
    for old, new in pairs:
        source = origin.get(old.folded, old) if old.folded in origin else old
        origin[old.folded] = None
        origin[new.folded] = source
    return origin


def _id(db: str, table: str, current: str) -> TableId:
    return TableId(db or current, table)


_PARTITIONS = {
    "DROP PARTITION": "partitions dropped", "TRUNCATE PARTITION": "partitions dropped",
    "FIRST PARTITION": "partitions dropped", "REORGANIZE PARTITION": "partitions moved",
    "COALESCE PARTITION": "partitions moved", "PARTITION BY": "partitions moved",
    "REMOVE PARTITIONING": "partitions moved",
}  # fmt: skip


def _rows(statement: Statement) -> str:
    match statement:
        case TruncateTable():
            return "truncated"
        case RecoverTable():
            return "recovered"
        case AlterTable():
            for clause in statement.clauses:
                if isinstance(clause, ExchangePartition):
                    return "partitions exchanged"
                if isinstance(clause, NoColumnEffect) and clause.what in _PARTITIONS:
                    return _PARTITIONS[clause.what]
        case CreateTable():
            return ""
    return ""
