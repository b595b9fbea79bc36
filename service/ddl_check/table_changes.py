"""What a statement does to each table: which table it was, which it becomes, and which column is which."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.service.history.statements import column_renames


@dataclass(frozen=True)
class TableChange:
    """One table before and after a statement; None where there is none. renames: columns, by their old name.

    rows: what happens to rows without a row event: "", or `truncated`, `partitions dropped`, `partitions exchanged`,
    `recovered`. like: the table that CREATE TABLE … LIKE copies. has_several_pairs: RENAME TABLE has several pairs.
    lacks_database: the statement leaves out the database of a table that it renames or copies.
    """

    before: Table | None
    after: Table | None
    renames: dict[str, str] = field(default_factory=dict)
    rows: str = ""
    like: TableId | None = None
    has_several_pairs: bool = False
    lacks_database: bool = False

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


def changes(catalog: Catalog, statement: ddl.Statement, db: str) -> tuple[Catalog, list[TableChange]]:
    """The catalog after a statement, and each table that it touches. DdlError as `apply`."""
    unique = {i.folded: i for i in affected_tables(catalog, statement, db)}.values()
    after, rows = apply(catalog, statement, db), _rows(statement)
    if after is catalog:
        same = [t for i in unique if (t := catalog.table(i))] if rows else []
        return after, [TableChange(t, t, rows=rows) for t in same]
    origin, names = _origins(statement, db), column_renames(statement)
    many = isinstance(statement, ddl.RenameTables) and len(statement.pairs) > 1
    copied = statement.like if isinstance(statement, ddl.CreateTable) else None
    like = copied.in_db(db) if copied else None
    table_changes: list[TableChange] = []
    for id_ in unique:
        now, source = after.table(id_), origin.get(id_.folded, id_)
        was = catalog.table(source) if source is not None else None
        if was is not None or now is not None:
            # By the columns' names as the table has them; another case of letters is no other name.
            renames = {c.name: names.get(c.name.lower(), c.name) for c in (was.columns if was is not None else ())}
            renames = {old: new for old, new in renames.items() if old.lower() != new.lower()}
            table_changes.append(TableChange(was, now, renames, rows, like, many, _lacks_database(statement)))
    return after, table_changes


def _lacks_database(statement: ddl.Statement) -> bool:
    match statement:
        case ddl.RenameTables():
            return any(not old.db for old, _ in statement.pairs)
        case ddl.AlterTable():
            return not statement.table.db
        case ddl.CreateTable(like=ddl.TableName() as copied):
            return not copied.db
    return False


def _origins(statement: ddl.Statement, db: str) -> dict[TableId, TableId | None]:
    """New name → the name that its table had before; None: it is another table's name now, or free."""
    pairs = []
    match statement:
        case ddl.RenameTables():
            pairs = [(old.in_db(db), new.in_db(db)) for old, new in statement.pairs]
        case ddl.AlterTable():
            news = [clause.new.in_db(db) for clause in statement.clauses if isinstance(clause, ddl.RenameTo)]
            pairs = [(statement.table.in_db(db), new) for new in news]
    origin: dict[TableId, TableId | None] = {}
    for old, new in pairs:
        source = origin.get(old.folded, old) if old.folded in origin else old
        origin[old.folded] = None
        origin[new.folded] = source
    return origin


_PARTITIONS = {
    "DROP PARTITION": "partitions dropped", "TRUNCATE PARTITION": "partitions dropped",
    "FIRST PARTITION": "partitions dropped", "REORGANIZE PARTITION": "partitions moved",
    "COALESCE PARTITION": "partitions moved", "PARTITION BY": "partitions moved",
    "REMOVE PARTITIONING": "partitions moved",
}  # fmt: skip


def _rows(statement: ddl.Statement) -> str:
    match statement:
        case ddl.TruncateTable():
            return "truncated"
        case ddl.RecoverTable():
            return "recovered"
        case ddl.AlterTable():
            for clause in statement.clauses:
                if isinstance(clause, ddl.ExchangePartition):
                    return "partitions exchanged"
                if isinstance(clause, ddl.NoColumnEffect) and clause.what in _PARTITIONS:
                    return _PARTITIONS[clause.what]
    return ""


def describe_effect(change: TableChange) -> Iterator[str]:
    """In plain words, a line for each fact; none where a job sees nothing."""
    before, after = change.before, change.after
    if before is None or after is None:
        if before is not None:
            yield f"no more rows of {change.id}"
        elif after is not None:
            yield f"rows of a new table {change.id}; a job with table='…' counts and skips them"
        return
    if change.is_renamed:
        yield f"rows of {after.id} instead of {before.id}; a job with table='{before.id}' counts and skips them"
    for column in change.added_columns:
        if column.virtual:
            continue
        yield (
            f"`{column.name}` {spark_type(column)} in `after` of new rows (NULL in rows written before). A streaming "
            "job with a table keeps the columns it started with: restart it to see the column; without a table it is "
            "a new key of the map"
        )
    for column in change.dropped_columns:
        yield f"`{column.name}` is missing from new rows: NULL in a job that started with it"
    for old, new in change.pairs:
        if old.name != new.name:
            yield f"`{new.name}` instead of `{old.name}`: NULL under the old name until the job is restarted"
        a, b = spark_type(old), spark_type(new)
        if a != b:
            yield (
                f"`{new.name}` as {b} instead of {a}: a streaming job goes on with {a} and reports values that do not "
                "fit; a Delta sink needs its column changed"
            )
    old_key, new_key = change.handle_keys
    if old_key != new_key:
        yield f"`key` is {list(new_key)} instead of {list(old_key)}: merges by key must change with it"


def name(table: ddl.TableName) -> str:
    return f"{table.db}.{table.table}" if table.db else table.table


def _type(kind: ddl.DataType) -> str:
    inside = ",".join(str(n) for n in (kind.length, kind.scale) if n is not None)
    if kind.elements:
        shown = (f"'{e}'" if isinstance(e, str) else f"x'{e.hex()}'" for e in kind.elements[:10])
        inside = ",".join(shown) + (",…" if len(kind.elements) > 10 else "")
    return kind.name.upper() + (f"({inside})" if inside else "") + (" UNSIGNED" if kind.unsigned else "")


def _default(value: ddl.DefaultValue | None) -> str:
    if value is None:
        return "no default"
    if value.kind == "null":
        return "DEFAULT NULL"
    if value.kind == "now":
        return "DEFAULT CURRENT_TIMESTAMP" + (f"({value.text})" if value.text else "")
    text = "0x" + value.bits.hex() if value.kind == "bits" else repr(value.text) if value.kind == "text" else value.text
    return f"DEFAULT {text or 'CURRENT_DATE'}"


def _describe_definition(column: ddl.ColumnDef) -> str:
    words = [f"`{column.name}` {_type(column.type)}"]
    words.append("NOT NULL" if column.nullable is False or column.primary_key else "NULL allowed")
    if column.generated is None:
        words.append(_default(column.default))
    else:
        words.append("generated, " + ("STORED" if column.stored else "VIRTUAL"))
    words += ["AUTO_INCREMENT"] * column.auto_increment + ["PRIMARY KEY"] * column.primary_key
    words += ["UNIQUE"] * column.unique_key
    return ", ".join(words)


def _position_text(position: ddl.ColumnPosition | None) -> str:
    if position is None:
        return ""
    return f", after `{position.after}`" if position.after else ", as the first column"


def _add_columns(c: ddl.AddColumns) -> str:
    many = f"add {len(c.columns)} columns: " if len(c.columns) > 1 else "add column "
    return many + "; ".join(_describe_definition(column) for column in c.columns[:20]) + _position_text(c.position)


def _change(c: ddl.ChangeColumn) -> str:
    renamed = "" if c.old.lower() == c.column.name.lower() else f" and rename it to `{c.column.name}`"
    return f"change column `{c.old}` to {_describe_definition(c.column)}{renamed}{_position_text(c.position)}"


def _add_index(c: ddl.AddIndex) -> str:
    kinds = {"primary": "primary key", "unique": "unique index", "foreign": "foreign key", "check": "check"}
    columns = ", ".join(f"`{part}`" if part else "(expression)" for part in c.index.parts)
    return f"add {kinds.get(c.index.kind, 'index')} {c.index.name or ''} ({columns})".replace("  ", " ")


def _options(c: ddl.SetOptions) -> str:
    options = {"character set": c.options.charset, "collation": c.options.collate, "comment": c.options.comment}
    pieces = [f"{what} {value!r}" for what, value in options.items() if value is not None]
    return "set the table's " + ", ".join(pieces) if pieces else "set options that don't affect rows"


CLAUSES: Final[dict[type, Callable[[Any], str]]] = {
    ddl.AddColumns: _add_columns, ddl.ChangeColumn: _change,
    ddl.RenameColumn: lambda c: f"rename column `{c.old}` to `{c.new}`",
    ddl.DropColumn: lambda c: f"drop column `{c.name}`",
    ddl.SetDefault: lambda c: f"column `{c.column}`: {_default(c.default)}", ddl.AddIndex: _add_index,
    ddl.DropIndex: lambda c: "drop the primary key" if c.name == "PRIMARY" else f"drop index {c.name}",
    ddl.RenameIndex: lambda c: f"rename index {c.old} to {c.new}",
    ddl.RenameTo: lambda c: f"rename the table to {name(c.new)}", ddl.SetOptions: _options,
    ddl.ConvertTo: lambda c: f"convert all text to character set {c.charset or 'DEFAULT'} {c.collate}".rstrip(),
    ddl.ExchangePartition: lambda c: f"exchange a partition's rows with those of {name(c.table)}",
    ddl.NoColumnEffect: lambda c: f"{c.what} (no column changes){masking_note(c.what)}",
}  # fmt: skip


def masking_note(what: str) -> str:
    """What a changefeed makes of a MASKING POLICY; "" for a statement or clause of another kind."""
    note = ". It masks queries alone: the changefeed sends clear values (for the lake: --mask)"
    return note if what.endswith("MASKING POLICY") and not what.startswith("DROP") else ""


def describe_statement(statement: ddl.Statement) -> str:
    """A statement that has no clauses."""
    match statement:
        case ddl.CreateTable() if statement.like:
            return f"create table {name(statement.table)} with the columns of {name(statement.like)}"
        case ddl.CreateTable():
            return f"create table {name(statement.table)} with {len(statement.columns)} columns"
        case ddl.DropTables():
            return f"drop {statement.kind} " + ", ".join(name(t) for t in statement.tables[:20])
        case ddl.RenameTables():
            return "rename " + ", ".join(f"{name(a)} to {name(b)}" for a, b in statement.pairs[:20])
        case ddl.TruncateTable():
            return f"remove all rows of {name(statement.table)}"
        case ddl.DropDatabase():
            return f"drop database {statement.name} with all its tables"
        case ddl.RecoverTable():
            return f"bring back {name(statement.table)}" if statement.table else "bring back the table of a DDL job"
        case ddl.CreateRelation():
            return f"create {statement.kind} {name(statement.table)}"
    return "no table's columns change"
