"""Simple's tableSchema → table (upstream ticdc `pkg/sink/codec/simple/message.go`, TableSchema)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import Number, integer, string, utf8
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Index, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind

_SIZED = (Kind.DECIMAL, Kind.BIT, Kind.VECTOR)
_PLAIN_FLOAT = 12  # the length of FLOAT without (M,D)
_WHOLE = {Kind.DATETIME: 19, Kind.TIMESTAMP: 19, Kind.TIME: 10}  # lengths without fraction digits


def table_of(schema: Any, avro: bool) -> tuple[Table, int] | None:
    """A message's tableSchema → (table, schema version); None for a view, which has no columns of its own.

    avro: it comes from the Avro encoding, where a BIT default is its bytes; in JSON it is a number.

    TiCDC makes up a last index "primary" where the table has no index PRIMARY: for a clustered integer key, and for a
    table without primary key, of its first NOT NULL unique key. The latter is told by that key having the same columns.

    KeyError, TypeError or ValueError where TiCDC would not write it.
    """
    columns = [_column(c, avro) for c in schema["columns"]]
    id_ = TableId(text(schema["schema"], "schema"), text(schema["table"], "table"))
    version = whole_number(schema["version"], "version")
    indexes = [_index(i) for i in schema["indexes"]]
    plain = [i.columns for i, name, _ in indexes if i.unique and not name]
    indexes = [i for i in indexes if i[1] in ("", "PRIMARY") or i[0].columns not in plain]
    typed_columns = [c for c in columns if c is not None]
    if len(typed_columns) < len(columns):
        return None
    if len({c.name for c in typed_columns}) < len(typed_columns):
        raise ValueError("two columns have one name")
    return Table(id_, _with_keys(typed_columns, indexes), tuple(index for index, *_ in indexes)), version


def whole_number(value: Any, what: str) -> int:
    """An integer, as JSON or Avro has it. ValueError."""
    return value if type(value) is int else integer(value, what)


text = utf8


def boolean(value: Any, what: str) -> bool:
    """true, false, or left out. ValueError."""
    if value is None or type(value) is bool:
        return bool(value)
    raise ValueError(f"{what} is no boolean")


def _column(listed: Any, avro: bool) -> Column | None:
    data_type = listed["dataType"]
    name = text(data_type["mysqlType"], "mysqlType")
    if name == "unspecified":
        return None
    if name not in BY_NAME:
        raise ValueError(f"type {name[:40]!r} is not known")
    type_ = BY_NAME[name]
    length, decimal = (
        None if data_type.get(k) is None else whole_number(data_type[k], k) for k in ("length", "decimal")
    )
    column = Column(
        text(listed["name"], "name"),
        type_,
        unsigned=boolean(data_type.get("unsigned"), "unsigned") and type_.kind not in (Kind.BIT, Kind.YEAR),
        length=length if type_.kind in _SIZED else None,
        scale=_scale(type_.kind, length, decimal),
        elements=tuple(text(e, "element") for e in data_type.get("elements") or ()),
        nullable=boolean(listed["nullable"], "nullable"),
        charset=text(data_type["charset"], "charset"),
        collate=text(data_type["collate"], "collate"),
    )
    if column.type.kind is Kind.BIT and not 1 <= (column.length or 0) <= 64:
        raise ValueError(f"BIT({column.length})")
    if column.type.kind is Kind.DECIMAL and not 0 <= (column.scale or 0) <= (column.length or 0) <= 65:
        raise ValueError(f"DECIMAL({column.length},{column.scale})")
    if column.type.kind in _WHOLE and not 0 <= (column.scale or 0) <= 6:
        raise ValueError(f"{column.scale} fraction digits")
    default = listed.get("default")
    if default is None:
        return column
    default_text = str(default) if isinstance(default, Number) else string(default, "default")
    clock = type_.kind in (Kind.DATETIME, Kind.TIMESTAMP) and default_text.upper().startswith("CURRENT_TIMESTAMP")
    return replace(column, has_default=True, default=_default(column, default_text, avro), default_is_expr=clock)


def _scale(kind: Kind, length: int | None, decimal: int | None) -> int | None:
    """DECIMAL's scale, or fraction digits; Avro leaves DATETIME's and TIME's out, their length tells them."""
    if kind is Kind.DECIMAL:
        return decimal or 0
    if kind in _WHOLE:
        beyond = (length or _WHOLE[kind]) - _WHOLE[kind]
        return decimal if decimal is not None else max(beyond - 1, 0)
    # FLOAT(M,D) is a double to Debezium; D itself is not told.
    return 0 if kind is Kind.FLOAT and length not in (None, _PLAIN_FLOAT) else None


def _default(column: Column, default_text: str, avro: bool) -> Value:
    if column.type.kind is Kind.BIT and not avro:
        return values.integer(default_text).to_bytes(values.bit_size(column.length or 64), "big")
    if column.type.kind in (Kind.BIT, Kind.BINARY):
        return default_text.encode("utf-8", "surrogateescape")
    return default_text


def _index(listed: Any) -> tuple[Index, str, bool]:
    """(index, its name where it is said to be primary, whether one of its columns can be NULL)."""
    columns = tuple(text(c, "column") for c in listed["columns"])
    primary, unique = boolean(listed["primary"], "primary"), boolean(listed["unique"], "unique")
    name = text(listed["name"], "name")
    return (
        Index("PRIMARY" if primary else name, columns, unique or primary),
        name if primary else "",
        boolean(listed["nullable"], "nullable"),
    )


def _with_keys(columns: list[Column], indexes: list[tuple[Index, str, bool]]) -> tuple[Column, ...]:
    """The columns with their keys. Handle key: the primary key, else the NOT NULL unique key of fewest columns."""
    names = {c.name for c in columns}
    primary = next((i.columns for i, name, _ in indexes if name), ())
    unique = [i.columns for i, _, null in indexes if i.unique and not null and set(i.columns) <= names]
    handle = primary or min(unique, key=len, default=())
    alone = {i.columns[0] for i, *_ in indexes if i.unique and len(i.columns) == 1 and i.name != "PRIMARY"}
    shared = {c for i, *_ in indexes if len(i.columns) > 1 or not i.unique for c in i.columns}
    return tuple(
        replace(
            c,
            primary_key=c.name in primary,
            handle_key=c.name in handle,
            unique_key=c.name in alone,
            multiple_key=c.name in shared,
        )
        for c in columns
    )
