"""`tableChanges` of a DDL message: the table as it is after the statement (upstream ticdc `codec/debezium/codec.go`).

What TiCDC leaves to chance is not imitated: it writes a column's comment only in some statements, and YEAR's width.
A RENAME names the old table too in TiCDC; an event knows the new name alone, as Debezium's own connector does.
"""

from __future__ import annotations

import re
from typing import Any

from schemas.event import DdlEvent
from schemas.ports import TableSource
from schemas.table import Column, Table, TableId
from schemas.types import Kind
from schemas.values import shift_zone

# TiDB's ActionType → type of the change; all others are ALTER. "": no table changes (databases, TRUNCATE).
_BY_ACTION = {
    1: "", 2: "", 26: "", 11: "",
    3: "CREATE", 21: "CREATE", 60: "CREATE",
    4: "DROP", 24: "DROP", 8: "DROP",
}  # fmt: skip
_DROP_INDEX = 8  # TiCDC calls it DROP, of a table that stays
_WORDS = re.compile(r"\s*(CREATE|DROP|ALTER|TRUNCATE)\b(?:\s+OR\s+REPLACE)?\s+(\w+)?", re.IGNORECASE)
_BY_WORDS = {
    ("CREATE", "TABLE"): "CREATE", ("CREATE", "VIEW"): "CREATE", ("DROP", "TABLE"): "DROP", ("DROP", "VIEW"): "DROP",
    **{(verb, noun): "" for verb in ("CREATE", "DROP", "ALTER") for noun in ("DATABASE", "SCHEMA")},
    ("TRUNCATE", "TABLE"): "",
}  # fmt: skip
# java.sql.Types
_JDBC_BY_NAME = {
    "tinyint": 5, "smallint": 5, "bigint": -5, "float": 6, "binary": -2, "varbinary": -3, "char": 1, "year": 4,
}  # fmt: skip
_JDBC = {
    Kind.INTEGER: 4, Kind.DOUBLE: 8, Kind.DECIMAL: 3, Kind.BIT: -7, Kind.TEXT: 12, Kind.BINARY: 2004, Kind.ENUM: 1,
    Kind.SET: 1, Kind.DATE: 91, Kind.DATETIME: 93, Kind.TIMESTAMP: 2014, Kind.TIME: 92, Kind.JSON: 1111,
    Kind.VECTOR: 12,
}  # fmt: skip
_WIDTHS = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}
_CLOCK = "1970-01-01 00:00:00"  # what TiCDC writes for CURRENT_TIMESTAMP
_SIZED = ("char", "varchar", "binary", "varbinary")
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def of_event(event: DdlEvent, tables: TableSource | None, zone: str) -> list[dict[str, Any]]:
    """The changes that the event carries; else made from the table that the history knows after the statement.

    zone: the changefeed's, in which TiCDC writes the default of a TIMESTAMP here.
    """
    carried = event.extra.get("tableChanges")
    if isinstance(carried, list):
        return carried
    kind = _kind(event)
    if not kind or not event.table:
        return []
    id_ = TableId(event.db, event.table)
    change: dict[str, Any] = {"type": kind, "id": f'"{id_.db}"."{id_.table}"', "table": None}
    if tables is not None and (kind != "DROP" or event.ddl_type == _DROP_INDEX):
        version = tables.at(id_, None if event.commit_ts is None else event.commit_ts + 1)
        change["table"] = version and table_block(version.table, zone)
    return [change]


def _kind(event: DdlEvent) -> str:
    if event.ddl_type is not None:
        return _BY_ACTION.get(event.ddl_type, "ALTER")
    words = _WORDS.match(event.query)
    return _BY_WORDS.get((words[1].upper(), (words[2] or "").upper()), "ALTER") if words else "ALTER"


def table_block(table: Table, zone: str) -> dict[str, Any]:
    """A table as its change describes it. `comment` is null, as in TiCDC."""
    required = {c.name for c in table.columns if not c.nullable}
    unique = (i for i in table.indexes if i.name == "PRIMARY" or (i.unique and required.issuperset(i.columns)))
    primary = next((i.columns for i in sorted(unique, key=lambda i: i.name != "PRIMARY")), None)
    return {
        "defaultCharsetName": table.charset or "utf8mb4",
        "primaryKeyColumnNames": list(primary or table.handle_key),
        "columns": [_column(c, position, zone) for position, c in enumerate(table.columns, 1)],
        "comment": None,
    }


def _column(column: Column, position: int, zone: str) -> dict[str, Any]:
    kind, name = column.type.kind, column.type.name.upper()
    if column.unsigned and kind not in (Kind.DECIMAL, Kind.YEAR, Kind.BIT):
        name += " UNSIGNED"
    length, scale = _sizes(column)
    sized = f"({length},{scale})" if kind is Kind.DOUBLE and scale is not None else ""
    sized = f"({length})" if kind is Kind.VECTOR and length is not None else sized
    filled = column.auto_increment or bool(column.on_update)
    textual = kind in (Kind.TEXT, Kind.ENUM, Kind.SET)
    return {
        "name": column.name,
        "jdbcType": _JDBC_BY_NAME.get(column.type.name) or _JDBC[kind],
        "nativeType": None,
        "comment": column.comment or None,
        "defaultValueExpression": _default(column, zone),
        "enumValues": [f"'{e}'" for e in column.elements] if kind in (Kind.ENUM, Kind.SET) else None,
        "typeName": name,
        "typeExpression": name + sized,
        "charsetName": (column.charset or "utf8mb4") if textual else None,
        "length": length,
        "scale": scale,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": filled,
        "generated": filled,
    }


def _sizes(column: Column) -> tuple[int | None, int | None]:
    """(length, scale) as TiCDC writes them: no default widths, fsp as length, the width of a SET's longest value."""
    kind, name, length = column.type.kind, column.type.name, column.length
    if kind is Kind.INTEGER:
        return (None if length == _WIDTHS[name][column.unsigned] else length), None
    if kind is Kind.DECIMAL or (kind in (Kind.FLOAT, Kind.DOUBLE) and column.scale is not None):
        return length, column.scale
    if kind in _TEMPORAL:
        return column.scale or None, None
    if kind is Kind.BIT:
        return (None if length == 1 else length), None
    if kind is Kind.ENUM:
        return 1, None
    if kind is Kind.SET:
        return max(2 * len(column.elements) - 1, 0), None
    return (length if name in _SIZED or kind is Kind.VECTOR else None), None


def _default(column: Column, zone: str) -> str | None:
    value = column.default
    if value is None:
        return None
    if isinstance(value, bytes):
        if column.type.kind is Kind.BIT:
            return f"{int.from_bytes(value, 'big'):b}"
        return value.decode("utf-8", "replace")
    clock = column.default_is_expr or value.upper().startswith("CURRENT_TIMESTAMP")
    if clock and column.type.kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return _CLOCK
    return shift_zone(value, "UTC", zone)[0] if column.type.kind is Kind.TIMESTAMP else value
