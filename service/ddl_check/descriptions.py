"""What a DDL statement does and who reads the result, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ticdc_bridge.schemas.ddl.parser.statements import (
    AddColumns,
    AddIndex,
    ChangeColumn,
    ColumnDef,
    ColumnPosition,
    ConvertTo,
    CreateRelation,
    CreateTable,
    DataType,
    DefaultValue,
    DropColumn,
    DropDatabase,
    DropIndex,
    DropTables,
    ExchangePartition,
    NoColumnEffect,
    RecoverTable,
    RenameColumn,
    RenameIndex,
    RenameTables,
    RenameTo,
    SetDefault,
    SetOptions,
    Statement,
    TableName,
    TruncateTable,
)
from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.service.ddl_check.table_changes import TableChange


def describe_effect(change: TableChange) -> list[str]:
    """In plain words, one line a fact; [] where a job sees nothing."""
    if change.before is None and change.after is None:
        return []
    if change.after is None:
        return [f"no more rows of {change.id}"]
    if change.before is None:
        return [f"rows of a new table {change.id}; a job with table='…' counts and skips them"]
    return list(_lines(change))


def _lines(change: TableChange) -> Iterator[str]:
    before, after = change.before, change.after
    assert before is not None
    assert after is not None
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


def name(table: TableName) -> str:
    return f"{table.db}.{table.table}" if table.db else table.table


def _type(kind: DataType) -> str:
    inside = ",".join(str(n) for n in (kind.length, kind.scale) if n is not None)
    if kind.elements:
        shown = (f"'{e}'" if isinstance(e, str) else f"x'{e.hex()}'" for e in kind.elements[:10])
        inside = ",".join(shown) + (",…" if len(kind.elements) > 10 else "")
    return kind.name.upper() + (f"({inside})" if inside else "") + (" UNSIGNED" if kind.unsigned else "")


def _default(value: DefaultValue | None) -> str:
    if value is None:
        return "no default"
    if value.kind == "null":
        return "DEFAULT NULL"
    if value.kind == "now":
        return "DEFAULT CURRENT_TIMESTAMP" + (f"({value.text})" if value.text else "")
    text = "0x" + value.bits.hex() if value.kind == "bits" else repr(value.text) if value.kind == "text" else value.text
    return f"DEFAULT {text or 'CURRENT_DATE'}"


def _describe_definition(column: ColumnDef) -> str:
    words = [f"`{column.name}` {_type(column.type)}"]
    words.append("NOT NULL" if column.nullable is False or column.primary_key else "NULL allowed")
    if column.generated is None:
        words.append(_default(column.default))
    else:
        words.append("generated, " + ("STORED" if column.stored else "VIRTUAL"))
    words += ["AUTO_INCREMENT"] * column.auto_increment + ["PRIMARY KEY"] * column.primary_key
    words += ["UNIQUE"] * column.unique_key
    return ", ".join(words)


def _position_text(position: ColumnPosition | None) -> str:
    if position is None:
        return ""
    return f", after `{position.after}`" if position.after else ", as the first column"


def _add_columns(c: AddColumns) -> str:
    many = f"add {len(c.columns)} columns: " if len(c.columns) > 1 else "add column "
    return many + "; ".join(_describe_definition(one) for one in c.columns[:20]) + _position_text(c.position)


def _change(c: ChangeColumn) -> str:
    renamed = "" if c.old.lower() == c.column.name.lower() else f" and rename it to `{c.column.name}`"
    return f"change column `{c.old}` to {_describe_definition(c.column)}{renamed}{_position_text(c.position)}"


def _add_index(c: AddIndex) -> str:
    kinds = {"primary": "primary key", "unique": "unique index", "foreign": "foreign key", "check": "check"}
    columns = ", ".join(f"`{part}`" if part else "(expression)" for part in c.index.parts)
    return f"add {kinds.get(c.index.kind, 'index')} {c.index.name or ''} ({columns})".replace("  ", " ")


def _options(c: SetOptions) -> str:
    options = {"character set": c.options.charset, "collation": c.options.collate, "comment": c.options.comment}
    parts = [f"{what} {value!r}" for what, value in options.items() if value is not None]
    return "set the table's " + ", ".join(parts) if parts else "set options that rows don't feel"


CLAUSES: Final[dict[type, Callable[[Any], str]]] = {
    AddColumns: _add_columns,
    ChangeColumn: _change,
    RenameColumn: lambda c: f"rename column `{c.old}` to `{c.new}`",
    DropColumn: lambda c: f"drop column `{c.name}`",
    SetDefault: lambda c: f"column `{c.column}`: {_default(c.default)}",
    AddIndex: _add_index,
    DropIndex: lambda c: "drop the primary key" if c.name == "PRIMARY" else f"drop index {c.name}",
    RenameIndex: lambda c: f"rename index {c.old} to {c.new}",
    RenameTo: lambda c: f"rename the table to {name(c.new)}",
    SetOptions: _options,
    ConvertTo: lambda c: f"convert all text to character set {c.charset or 'DEFAULT'} {c.collate}".rstrip(),
    ExchangePartition: lambda c: f"exchange a partition's rows with those of {name(c.table)}",
    NoColumnEffect: lambda c: f"{c.what} (no column changes)",
}


def describe_statement(statement: Statement) -> str:
    """A statement that has no clauses."""
    match statement:
        case CreateTable() if statement.like:
            return f"create table {name(statement.table)} with the columns of {name(statement.like)}"
        case CreateTable():
            return f"create table {name(statement.table)} with {len(statement.columns)} columns"
        case DropTables():
            return f"drop {statement.kind} " + ", ".join(name(t) for t in statement.tables[:20])
        case RenameTables():
            return "rename " + ", ".join(f"{name(a)} to {name(b)}" for a, b in statement.pairs[:20])
        case TruncateTable():
            return f"remove all rows of {name(statement.table)}"
        case DropDatabase():
            return f"drop database {statement.name} with all its tables"
        case RecoverTable():
            return f"bring back {name(statement.table)}" if statement.table else "bring back the table of a DDL job"
        case CreateRelation():
            return f"create {statement.kind} {name(statement.table)}"
    return "no table's columns change"
