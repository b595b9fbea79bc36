"""Simple with encoding-format=avro: plain Avro binary of one embedded schema, no header.

The layout is written down here as data, from the golden messages and the published schema (upstream ticdc
`pkg/sink/codec/simple/message.json`). Field names are not on the wire: they are those of the JSON encoding, so that
both give the same object. Cells become what JSON has for them: numbers as text, TIMESTAMP as {"location","value"};
only binary strings stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from schemas.codec import avro as binary
from schemas.model import values
from schemas.model.errors import WireError

FIRST_BYTE = 0x16
"""The first byte of every such message: branch 11 (zig-zag) of the embedded union, the record Message."""

_MOST_ITEMS = 65_536  # elements of an ENUM; columns and indexes are far fewer in TiDB

Reader = Callable[[bytes, int], tuple[Any, int]]


def _text(buffer: bytes, pos: int) -> tuple[str, int]:
    data, pos = binary.read_bytes(buffer, pos)
    return data.decode("utf-8", "surrogateescape"), pos


def _enum(names: tuple[str, ...], what: str) -> Reader:
    """An enum: its symbols in order."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_int(buffer, pos)
        if not 0 <= index < len(names):
            raise ValueError(f"{what} {index}, there are {len(names)}")
        return names[index], pos

    return read


def _union(*branches: Reader | None) -> Reader:
    """A union; None stands for null."""

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        index, pos = binary.read_long(buffer, pos)
        if not 0 <= index < len(branches):
            raise ValueError(f"union branch {index}, there are {len(branches)}")
        branch = branches[index]
        return (None, pos) if branch is None else branch(buffer, pos)

    return read


def _record(*fields: tuple[str, Reader]) -> Reader:
    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        record: dict[str, Any] = {}
        for name, reader in fields:
            record[name], pos = reader(buffer, pos)
        return record, pos

    return read


def _blocks(item: Reader) -> Callable[[bytes, int], tuple[list[Any], int]]:
    """Array or map items, in blocks that end with an empty one. No count is trusted: each item takes a byte."""

    def read(buffer: bytes, pos: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, pos = binary.read_long(buffer, pos)
            if not count:
                return items, pos
            if not 0 < count <= _MOST_ITEMS - len(items):
                raise ValueError(f"a block of {count} items")
            for _ in range(count):
                value, pos = item(buffer, pos)
                items.append(value)

    return read


def _map(value: Reader) -> Reader:
    def entry(buffer: bytes, pos: int) -> tuple[Any, int]:
        name, pos = _text(buffer, pos)
        content, pos = value(buffer, pos)
        return (name, content), pos

    entries = _blocks(entry)

    def read(buffer: bytes, pos: int) -> tuple[Any, int]:
        pairs, pos = entries(buffer, pos)
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a column stands twice in one row")
        return members, pos

    return read


def _text_reader(reader: Reader, convert: Callable[[Any], str]) -> Reader:
    def read(buffer: bytes, pos: int) -> tuple[str, int]:
        value, pos = reader(buffer, pos)
        return convert(value), pos

    return read


_INT, _LONG, _BOOL = binary.READERS["int"], binary.READERS["long"], binary.READERS["boolean"]

_DATA_TYPE = _record(
    ("mysqlType", _text),
    ("charset", _text),
    ("collate", _text),
    ("length", _LONG),
    ("decimal", _union(None, _INT)),
    ("elements", _union(None, _blocks(_text))),
    ("unsigned", _union(None, _BOOL)),
    ("zerofill", _union(None, _BOOL)),
)
_COLUMN = _record(("name", _text), ("dataType", _DATA_TYPE), ("nullable", _BOOL), ("default", _union(None, _text)))
_INDEX = _record(
    ("name", _text), ("unique", _BOOL), ("primary", _BOOL), ("nullable", _BOOL), ("columns", _blocks(_text))
)
_TABLE = _record(
    ("schema", _text),
    ("table", _text),
    ("tableID", _LONG),
    ("version", _LONG),
    ("columns", _blocks(_COLUMN)),
    ("indexes", _blocks(_INDEX)),
)
_CHECKSUM = _record(("version", _INT), ("corrupted", _BOOL), ("current", _LONG), ("previous", _LONG))
_CELL = _union(
    None,
    _text_reader(_LONG, str),
    _text_reader(binary.READERS["float"], values.float_text),
    _text_reader(binary.READERS["double"], values.double_text),
    _text,
    binary.read_bytes,
    _record(("location", _text), ("value", _text)),
    _text_reader(_LONG, lambda number: str(number % (1 << 64))),
)
_ROW = _union(None, _map(_CELL))

_DML: tuple[tuple[str, Reader], ...] = (
    ("version", _INT),
    ("database", _text),
    ("table", _text),
    ("tableID", _LONG),
    ("type", _enum(("INSERT", "UPDATE", "DELETE"), "type of row")),
    ("commitTs", _LONG),
    ("buildTs", _LONG),
    ("schemaVersion", _LONG),
    ("claimCheckLocation", _union(None, _text)),
    ("handleKeyOnly", _union(None, _BOOL)),
    ("checksum", _union(None, _CHECKSUM)),
    ("data", _ROW),
    ("old", _ROW),
)
_CELLS = ("null", "long", "float", "double", "string", "bytes", "record Timestamp", "record UnsignedBigint")

_PAYLOADS: tuple[tuple[str, Reader], ...] = (
    ("WATERMARK", _record(("version", _INT), ("commitTs", _LONG), ("buildTs", _LONG))),
    ("BOOTSTRAP", _record(("version", _INT), ("buildTs", _LONG), ("tableSchema", _TABLE))),
    (
        "",
        _record(
            ("version", _INT),
            (
                "type",
                _enum(("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"), "type of DDL"),
            ),
            ("sql", _text),
            ("commitTs", _LONG),
            ("buildTs", _LONG),
            ("tableSchema", _union(None, _TABLE)),
            ("preTableSchema", _union(None, _TABLE)),
        ),
    ),
    ("", _record(*_DML)),
)


def cells(data: bytes) -> Iterator[tuple[str, str, int, int, str]]:
    """(data or old, column, start, end, type) of each cell of a row message that `read` reads; nothing for others."""
    pos = 3
    for name, reader in _DML if data[1:3] == b"\x06\x06" else ():
        if name not in ("data", "old") or data[pos] == 0:
            _, pos = reader(data, pos)
            continue
        count, pos = binary.read_long(data, pos + 1)
        while count:
            for _ in range(count):
                column, start = _text(data, pos)
                _, pos = _CELL(data, start)
                yield name, column, start, pos, _CELLS[data[start] >> 1]
            count, pos = binary.read_long(data, pos)


def read(data: bytes) -> dict[str, Any]:
    """Message → the object that the JSON encoding has. WireError TRUNCATED, MALFORMED, TRAILING_BYTES."""
    try:
        branch, pos = binary.read_long(data, 0)
        kind, pos = binary.read_int(data, pos)
        payload, pos = binary.read_long(data, pos)
        if branch != FIRST_BYTE >> 1 or kind != payload or not 0 <= kind < len(_PAYLOADS):
            raise ValueError(f"not Simple's Avro: branch {branch}, type {kind}, payload {payload}")
        name, reader = _PAYLOADS[kind]
        body, pos = reader(data, pos)
    except binary.TruncatedValue as cut:
        raise WireError("TRUNCATED", where="value", field="the message", details=str(cut)) from cut
    except ValueError as error:
        raise WireError("MALFORMED", where="value", details=str(error)[:300]) from error
    if pos != len(data):
        raise WireError("TRAILING_BYTES", where="value", count=len(data) - pos)
    return {"type": name, **body} if name else dict(body)
