"""`tableChanges` of TiCDC's Debezium DDL events, read: the table as it is after the statement.

The writer is `schemas.publish.table_changes`; upstream ticdc `codec/debezium/codec.go`. A change does not tell unique
keys, collations, comments of the table, nor CURRENT_TIMESTAMP from 1970-01-01 00:00:00: a column with that default is
`vague`, and so is a BIT whose default TiCDC garbles (it writes digits that do not fit; golden `defaults`).
"""

from __future__ import annotations

from typing import Any

from schemas.table import Column, Index, Table, TableId, Value
from schemas.types import BY_NAME, Kind

_CLOCK = "1970-01-01 00:00:00"
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_MOST_COLUMNS = 4096  # TiDB's own limit


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
    if not listed or len(listed) > _MOST_COLUMNS:
        raise ValueError("no columns, or too many")
    primary = tuple(str(name) for name in block["primaryKeyColumnNames"] or ())
    columns = tuple(_column(one, primary) for one in sorted(listed, key=lambda c: int(c["position"])))
    if len({c.name for c in columns}) < len(columns):
        raise ValueError("a column is listed twice")
    indexes = (Index("PRIMARY", primary, unique=True),) if primary else ()
    return Table(id_, columns, indexes)


def _column(listed: dict[str, Any], primary: tuple[str, ...]) -> Column:
    words = str(listed["typeName"]).lower().split()
    kind = BY_NAME[words[0]]
    length, scale = (None if listed[name] is None else int(listed[name]) for name in ("length", "scale"))
    if kind.kind in _TEMPORAL:
        length, scale = None, length or 0
    elif kind.kind is Kind.BIT:
        length = length or 1
    elif kind.kind in (Kind.ENUM, Kind.SET):
        length = None
    default = listed["defaultValueExpression"]
    vague = ""
    if kind.kind in (Kind.DATETIME, Kind.TIMESTAMP) and default == _CLOCK:
        vague = f"{kind.name} with the default CURRENT_TIMESTAMP or {_CLOCK}"
    elif kind.kind is Kind.BIT and default is not None and int(str(default), 2) >> (length or 1):
        vague, default = f"bit({length}) with another default than the message says", None
    return Column(
        str(listed["name"]),
        kind,
        unsigned="unsigned" in words,
        length=length,
        scale=scale,
        elements=tuple(_unquoted(e) for e in listed["enumValues"] or ()),
        nullable=bool(listed["optional"]),
        has_default=default is not None,
        default=None if default is None else _default(kind.kind, str(default), length),
        vague=vague,
        handle_key=listed["name"] in primary,
        primary_key=listed["name"] in primary,
        charset=str(listed["charsetName"] or ""),
    )


def _unquoted(element: Any) -> str:
    text = str(element)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _default(kind: Kind, text: str, length: int | None) -> Value:
    if kind is Kind.BIT:
        return int(text, 2).to_bytes(((length or 1) + 7) // 8, "big")
    return text.encode() if kind is Kind.BINARY else text
