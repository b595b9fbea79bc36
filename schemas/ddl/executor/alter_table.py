"""ALTER TABLE: clauses applied to one table. Pure: a table goes in, a table comes out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from ticdc_bridge.schemas.ddl.executor import indexes as executor_indexes
from ticdc_bridge.schemas.ddl.executor.charsets import BINARY, Charset, resolve
from ticdc_bridge.schemas.ddl.executor.column_types import column, convert_charset
from ticdc_bridge.schemas.ddl.executor.default_values import with_default
from ticdc_bridge.schemas.ddl.executor.details import details_after, renamed
from ticdc_bridge.schemas.ddl.parser import statements
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.names import repeated_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import MAX_COLUMNS, Kind

MAX_CLAUSES = 4096


def apply_clauses(table: Table, clauses: tuple[statements.Clause, ...], fallback: Charset) -> Table:
    """The table after all clauses; `fallback` is its database's character set. RenameTo is the caller's.

    Names in a clause are those of the table before the statement, as in TiDB: RENAME COLUMN a TO b, RENAME COLUMN
    b TO a swaps. DDL_NOT_APPLICABLE for what the table does not have.
    """
    new_columns = sum(len(c.columns) for c in clauses if isinstance(c, statements.AddColumns))
    if len(clauses) > MAX_CLAUSES or new_columns > MAX_COLUMNS:
        details = f"more than {MAX_CLAUSES} clauses or {MAX_COLUMNS} new columns at once"
        raise DdlError("DDL_NOT_APPLICABLE", details=details)
    draft = _TableDraft(table, fallback)
    for clause in _with_names(table, clauses):
        draft.table = _CLAUSES[type(clause)](draft, clause)
        draft.table = replace(draft.table, details=details_after(draft.table, clause))
    return executor_indexes.with_keys(_rename_columns(draft.table, draft.renames))


def _with_names(table: Table, clauses: tuple[statements.Clause, ...]) -> Iterator[statements.Clause]:
    """Clauses with names for the foreign keys that have none (upstream `AlterTable`)."""
    used_names = {i.name.lower() for i in table.indexes}  # where a history did not see all of its foreign keys
    names = (name for n in count(table.foreign_keys + 1) if (name := f"fk_{n}") not in used_names)
    for clause in clauses:
        if isinstance(clause, statements.AddIndex) and clause.index.kind == "foreign" and not clause.index.name:
            clause = replace(clause, index=replace(clause.index, name=next(names)))
        yield clause


class _TableDraft:
    """A table in the middle of a statement. Columns keep their names to its end; `renames` are those they get then.

    charset: the table's before the statement, in which all its columns are defined. conversion: CONVERT TO was among
    the clauses so far; it takes in columns that later clauses add.
    """

    def __init__(self, table: Table, fallback: Charset) -> None:
        self.table = self.before = table
        self.charset = Charset(table.charset, table.collate)
        self.conversion: Charset | None = None
        self.fallback = fallback
        self.renames: dict[str, str] = {}

    def find(self, name: str) -> Column:
        match = executor_indexes.find(self.table.columns, name)
        if match is None:
            raise DdlError("DDL_NOT_APPLICABLE", details=f"table {self.table.id} has no column {name}")
        return match

    def with_columns(self, columns: tuple[Column, ...]) -> Table:
        self.table = replace(self.table, columns=columns)
        return self.table


# ---- columns
def _add_columns(draft: _TableDraft, clause: statements.AddColumns) -> Table:
    at = clause.position
    for defined in clause.columns:
        if executor_indexes.find(draft.table.columns, defined.name):
            if clause.if_not_exists:
                continue
            raise DdlError("DDL_NOT_APPLICABLE", details=f"table {draft.table.id} has a column {defined.name} already")
        new_column = replace(column(defined, draft.charset), id=1 + _last_id(draft.table))
        new_column = convert_charset(new_column, draft.conversion) if draft.conversion else new_column
        draft.with_columns(_position_column(draft, draft.table.columns, new_column, at))
        added = executor_indexes.column_indexes([defined])
        draft.table = executor_indexes.with_indexes(draft.table, added, draft.before.indexes)
    return draft.table


def _last_id(table: Table) -> int:
    """The highest id that a column of the table has or had: TiDB gives none twice (`TableInfo.MaxColumnID`)."""
    return max([table.last_column_id, *(c.id for c in table.columns)])


def _position_column(
    draft: _TableDraft, columns: tuple[Column, ...], entry: Column, at: statements.ColumnPosition | None
) -> tuple[Column, ...]:
    if at is None:
        return (*columns, entry)
    if not at.after:
        return (entry, *columns)
    after = draft.find(at.after).name
    index = next((i for i, c in enumerate(columns) if c.name == after), None)
    if index is None:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"column {entry.name} can't stand after itself")
    return (*columns[: index + 1], entry, *columns[index + 1 :])


def _change_column(draft: _TableDraft, clause: statements.ChangeColumn) -> Table:
    if clause.if_exists and executor_indexes.find(draft.table.columns, clause.old) is None:
        return draft.table
    old = draft.find(clause.old)
    new = column(clause.column, draft.charset)
    if new.name != old.name:
        draft.renames[old.name] = new.name
    new = replace(new, name=old.name, id=old.id, nullable=new.nullable and not old.primary_key)
    if clause.position is None:
        draft.with_columns(tuple(new if c is old else c for c in draft.table.columns))
    else:
        others = tuple(c for c in draft.table.columns if c is not old)
        draft.with_columns(_position_column(draft, others, new, clause.position))
    draft.table = executor_indexes.with_prefixes_of(draft.table, new)
    # PRIMARY KEY and UNIQUE in the new definition add an index, unless there is that primary key.
    added = executor_indexes.column_indexes([replace(clause.column, name=old.name)])
    if any(i.name == executor_indexes.PRIMARY for i in draft.table.indexes):
        added = [entry for entry in added if entry.kind != "primary"]
    return executor_indexes.with_indexes(draft.table, added, draft.before.indexes)


def _rename_column(draft: _TableDraft, clause: statements.RenameColumn) -> Table:
    old = draft.find(clause.old)
    if clause.old.lower() == clause.new.lower():  # TiDB does nothing when only letters' cases differ
        return draft.table
    draft.renames[old.name] = clause.new
    before = draft.before.by_name.get(old.name, old)  # whatever CONVERT TO made of it (`GetModifiableColumnJob`)
    return draft.with_columns(tuple(before if c is old else c for c in draft.table.columns))


def _rename_columns(table: Table, renames: dict[str, str]) -> Table:
    """The table with all renames of a statement at once."""
    if not renames:
        return table
    columns = tuple(replace(c, name=renames.get(c.name, c.name)) for c in table.columns)
    if (twice := repeated_name([c.name.lower() for c in columns])) is not None:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {table.id} would have two columns {twice}")
    indexes = (replace(i, columns=tuple(renames.get(n, n) for n in i.columns)) for i in table.indexes)
    details = renamed(table.details, {old.lower(): new for old, new in renames.items()})
    return replace(table, columns=columns, indexes=tuple(indexes), details=details)


def _drop_column(draft: _TableDraft, clause: statements.DropColumn) -> Table:
    if clause.if_exists and executor_indexes.find(draft.table.columns, clause.name) is None:
        return draft.table
    name = draft.find(clause.name).name
    left = ((i, [part for part in i.parts if part[0] != name]) for i in draft.table.indexes)
    indexes = tuple(
        replace(i, columns=tuple(n for n, _ in parts), lengths=tuple(n for _, n in parts)) for i, parts in left if parts
    )
    columns = tuple(c for c in draft.table.columns if c.name != name)
    return replace(draft.table, columns=columns, indexes=indexes, last_column_id=_last_id(draft.table))


def _set_default(draft: _TableDraft, clause: statements.SetDefault) -> Table:
    old = draft.find(clause.column)
    if old.type.kind is Kind.BIT and old.has_default and clause.default == statements.DefaultValue("null"):
        return draft.table  # upstream `ColumnInfo.SetDefaultValue` leaves the bits as they are
    new = with_default(old, clause.default or statements.DefaultValue("null"))
    new = new if clause.default else replace(new, default_dropped=True)
    return draft.with_columns(tuple(new if c is old else c for c in draft.table.columns))


# ---- indexes
def _add_index(draft: _TableDraft, clause: statements.AddIndex) -> Table:
    if clause.if_not_exists and executor_indexes.find(draft.table.indexes, clause.index.name):
        return draft.table
    return executor_indexes.with_indexes(draft.table, [clause.index], draft.before.indexes)


def _drop_index(draft: _TableDraft, clause: statements.DropIndex) -> Table:
    # One that had the columns which the statement drops is gone already.
    if executor_indexes.find(draft.before.indexes, clause.name) is None and not clause.if_exists:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"table {draft.table.id} has no index {clause.name}")
    return replace(draft.table, indexes=tuple(i for i in draft.table.indexes if i.name.lower() != clause.name.lower()))


def _rename_index(draft: _TableDraft, clause: statements.RenameIndex) -> Table:
    index = executor_indexes.find(draft.table.indexes, clause.old)
    if index is None:
        return _drop_index(draft, statements.DropIndex(clause.old))  # an error, or it is gone already
    prefix = executor_indexes.hidden_column(clause.old, "").lower()
    columns = tuple(
        executor_indexes.hidden_column(clause.new, i) if name.lower().startswith(prefix) else name
        for i, name in enumerate(index.columns)
    )
    renamed_index = replace(index, name=clause.new, columns=columns)
    return replace(draft.table, indexes=tuple(renamed_index if i is index else i for i in draft.table.indexes))


# ---- the table as a whole
def _set_options(draft: _TableDraft, clause: statements.SetOptions) -> Table:
    options, table = clause.options, draft.table
    if options.charset or options.collate:
        charset = resolve(options.charset, options.collate, draft.charset)
        if charset != draft.charset:  # else it is no clause (upstream `checkAlterTableCharset`)
            table = replace(table, charset=charset.name, collate=charset.collate)
    return table if options.comment is None else replace(table, comment=options.comment)


def _convert(draft: _TableDraft, clause: statements.ConvertTo) -> Table:
    charset = resolve(clause.charset, clause.collate, draft.fallback)
    if charset == draft.charset and all((c.charset, c.collate) in (charset, BINARY) for c in draft.before.columns):
        return draft.table  # it is no clause then (upstream `checkAlterTableCharset`)
    draft.conversion = charset
    columns = tuple(convert_charset(c, charset) for c in draft.table.columns)
    return replace(draft.table, columns=columns, charset=charset.name, collate=charset.collate)


_CLAUSES: dict[type, Callable[[_TableDraft, Any], Table]] = {
    statements.AddColumns: _add_columns, statements.ChangeColumn: _change_column,
    statements.RenameColumn: _rename_column, statements.DropColumn: _drop_column, statements.SetDefault: _set_default,
    statements.AddIndex: _add_index, statements.DropIndex: _drop_index, statements.RenameIndex: _rename_index,
    statements.SetOptions: _set_options, statements.ConvertTo: _convert,
    **dict.fromkeys(
        (statements.RenameTo, statements.ExchangePartition, statements.NoColumnEffect), lambda draft, _: draft.table
    ),
}  # fmt: skip
