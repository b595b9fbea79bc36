"""`tableChanges` of Debezium's schema changes, and the messages of DDL around them: read and written."""

import re
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import is_utf8
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.table import Column, Index, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME, CHARACTER, ELEMENTS, FRACTIONAL, MAX_COLUMNS, Kind
from ticdc_bridge.schemas.model.values import shift_zone

_CLOCK = "1970-01-01 00:00:00"


def table_after(changes: Any, id_: TableId) -> Table | None:
    """The table that the changes describe under this name; None where they describe none, or not as TiCDC does."""
    if not isinstance(changes, list):
        return None
    for change in changes[:64]:
        try:
            block = change["table"]
            if block is not None and str(change["id"]).endswith(f'"{id_.db}"."{id_.table}"'):
                return _table(block, id_)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            continue
    return None


def _table(block: dict[str, Any], id_: TableId) -> Table:
    listed = block["columns"]
    if not listed or len(listed) > MAX_COLUMNS:
        raise ValueError("no columns, or too many")
    primary = tuple(str(name) for name in block["primaryKeyColumnNames"] or ())
    columns = tuple(_read_column(entry, primary) for entry in sorted(listed, key=lambda c: int(c["position"])))
    if len({c.name for c in columns}) < len(columns):
        raise ValueError("a column is listed twice")
    return Table(id_, columns, (Index("PRIMARY", primary, unique=True),) if primary else ())


def _read_column(listed: dict[str, Any], primary: tuple[str, ...]) -> Column:
    words = str(listed["typeName"]).lower().split()
    type_ = BY_NAME[words[0]]
    length, scale = (None if listed[name] is None else int(listed[name]) for name in ("length", "scale"))
    if type_.kind in FRACTIONAL:
        length, scale = None, length or 0
    elif type_.kind is Kind.BIT:
        length = length or 1
    elif type_.kind in ELEMENTS:
        length = None
    default = listed["defaultValueExpression"]
    vague = ""
    if type_.kind in (Kind.DATETIME, Kind.TIMESTAMP) and default == _CLOCK:
        vague = f"{type_.name} with the default CURRENT_TIMESTAMP or {_CLOCK}"
    elif type_.kind is Kind.BIT and default is not None and int(str(default), 2) >> (length or 1):
        vague, default = f"bit({length}) with another default than the message says", None
    elements = tuple(_unquote(e) for e in listed["enumValues"] or ())
    return Column(
        str(listed["name"]), type_, "unsigned" in words, length, scale, elements, nullable=bool(listed["optional"]),
        has_default=default is not None,
        default=None if default is None else _read_default(type_.kind, str(default), length), vague=vague,
        handle_key=listed["name"] in primary, primary_key=listed["name"] in primary,
        charset=str(listed["charsetName"] or ""),
    )  # fmt: skip


def _unquote(element: Any) -> str:
    text = str(element)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _read_default(kind: Kind, text: str, length: int | None) -> Value:
    if kind is Kind.BIT:
        return int(text, 2).to_bytes(((length or 1) + 7) // 8, "big")
    return text.encode() if kind is Kind.BINARY else text


MYSQL = "io.debezium.connector.mysql"
"""What the names of the MySQL connector's schemas begin with; TiCDC's too."""
_SCHEMA = "io.debezium.connector.schema."


def _field(name: str, kind: str, optional: bool = True) -> dict[str, Any]:
    return {"field": name, "optional": optional, "type": kind}


_STRINGS = {"type": "string", "optional": False}
_COLUMN = {
    "name": _SCHEMA + "Column", "optional": False, "type": "struct", "version": 1,
    "fields": [
        _field("name", "string", False), _field("jdbcType", "int32", False), _field("nativeType", "int32"),
        _field("typeName", "string", False), _field("typeExpression", "string"), _field("charsetName", "string"),
        _field("length", "int32"), _field("scale", "int32"), _field("position", "int32", False),
        _field("optional", "boolean"), _field("autoIncremented", "boolean"), _field("generated", "boolean"),
        _field("comment", "string"), _field("defaultValueExpression", "string"),
        {**_field("enumValues", "array"), "items": _STRINGS},
    ],
}  # fmt: skip
_TABLE = {
    "field": "table", "optional": True, "type": "struct", "name": _SCHEMA + "Table", "version": 1,
    "fields": [
        _field("defaultCharsetName", "string"), {**_field("primaryKeyColumnNames", "array"), "items": _STRINGS},
        {**_field("columns", "array", False), "items": _COLUMN}, _field("comment", "string"),
    ],
}  # fmt: skip
_CHANGE = {
    "name": _SCHEMA + "Change", "optional": False, "type": "struct", "version": 1,
    "fields": [_field("type", "string", False), _field("id", "string", False), _TABLE],
}  # fmt: skip


def key(package: str = MYSQL) -> dict[str, Any]:
    """Schema of a DDL message's key."""
    return {
        "type": "struct", "name": package + ".SchemaChangeKey", "optional": False, "version": 1,
        "fields": [_field("databaseName", "string", False)],
    }  # fmt: skip


def value(source: dict[str, Any], package: str = MYSQL) -> dict[str, Any]:
    """Schema of a DDL message's value, around the schema of its source block."""
    return {
        "optional": False, "type": "struct", "version": 1, "name": package + ".SchemaChangeValue",
        "fields": [
            source, _field("ts_ms", "int64", False), _field("databaseName", "string"), _field("schemaName", "string"),
            _field("ddl", "string"), {**_field("tableChanges", "array", False), "items": _CHANGE},
        ],
    }  # fmt: skip


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


_SIZED = ("char", "varchar", "binary", "varbinary")


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


def statement(event: DdlEvent) -> str:
    """The statement. WireError INVALID_VALUE for one that no JSON can hold."""
    if not is_utf8(event.query):
        details = "the statement is not UTF-8, so the message would not be valid JSON"
        raise WireError("INVALID_VALUE", column="ddl", details=details)
    return event.query


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
        "columns": [_write_column(c, position, zone) for position, c in enumerate(table.columns, 1)],
        "comment": None,
    }


def _write_column(column: Column, position: int, zone: str) -> dict[str, Any]:
    kind, name = column.type.kind, column.type.name.upper()
    if column.unsigned and kind not in (Kind.DECIMAL, Kind.YEAR, Kind.BIT):
        name += " UNSIGNED"
    length, scale = _sizes(column)
    sized = f"({length},{scale})" if kind is Kind.DOUBLE and scale is not None else ""
    sized = f"({length})" if kind is Kind.VECTOR and length is not None else sized
    filled = column.auto_increment or bool(column.on_update)
    return {
        "name": column.name,
        "jdbcType": _JDBC_BY_NAME.get(column.type.name) or _JDBC[kind],
        "nativeType": None,
        "comment": column.comment or None,
        "defaultValueExpression": _write_default(column, zone),
        "enumValues": [f"'{e}'" for e in column.elements] if kind in ELEMENTS else None,
        "typeName": name,
        "typeExpression": name + sized,
        "charsetName": (column.charset or "utf8mb4") if kind in CHARACTER else None,
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
        return (None if length == column.type.digits[column.unsigned] else length), None
    if kind is Kind.DECIMAL or (kind in (Kind.FLOAT, Kind.DOUBLE) and column.scale is not None):
        return length, column.scale
    if kind in FRACTIONAL:
        return column.scale or None, None
    if kind is Kind.BIT:
        return (None if length == 1 else length), None
    if kind is Kind.ENUM:
        return 1, None
    if kind is Kind.SET:
        return max(2 * len(column.elements) - 1, 0), None
    return (length if name in _SIZED or kind is Kind.VECTOR else None), None


def _write_default(column: Column, zone: str) -> str | None:
    value = column.default
    if value is None:
        return None
    if isinstance(value, bytes):
        return f"{int.from_bytes(value, 'big'):b}" if column.type.kind is Kind.BIT else value.decode("utf-8", "replace")
    clock = column.default_is_expr or value.upper().startswith("CURRENT_TIMESTAMP")
    if clock and column.type.kind in (Kind.DATETIME, Kind.TIMESTAMP):
        return _CLOCK
    return shift_zone(value, "UTC", zone)[0] if column.type.kind is Kind.TIMESTAMP else value
