"""Simple with encoding-format=avro: plain Avro binary of one embedded schema, no header.

The layout is written down here as data, from the golden messages and the published schema (upstream ticdc
`pkg/sink/codec/simple/message.json`). Field names are not on the wire: they are those of the JSON encoding, so that
both give the same object. Cells become what JSON has for them: numbers as text, TIMESTAMP as {"location","value"};
only binary strings stay bytes.
"""

from collections.abc import Iterator
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import avro_schema as compound
from ticdc_bridge.schemas.codec.avro_schema import converted, read_text, record_reader
from ticdc_bridge.schemas.formats.framing import malformed_error
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import reason_of

FIRST_BYTE = 0x16
"""The first byte of every such message: branch 11 (zig-zag) of the embedded union, the record Message."""

_INT, _LONG, _BOOL = binary.READERS["int"], binary.READERS["long"], binary.READERS["boolean"]


def _block(buffer: bytes, pos: int) -> tuple[int, int]:
    """TiCDC writes no sizes of blocks: a negative count is damage."""
    count, pos = binary.read_long(buffer, pos)
    if not 0 <= count <= compound.MOST_ITEMS:
        raise ValueError(f"a block of {count} items")
    return count, pos


def _array(item: binary.Reader) -> binary.Reader:
    return compound.array_reader(item, block=_block)


def _optional(read: binary.Reader) -> binary.Reader:
    return compound.union_reader(None, read)


_TEXTS = _array(read_text)


_DATA_TYPE = record_reader(
    mysqlType=read_text, charset=read_text, collate=read_text, length=_LONG, decimal=_optional(_INT),
    elements=_optional(_TEXTS), unsigned=_optional(_BOOL), zerofill=_optional(_BOOL),
)  # fmt: skip
_COLUMN = record_reader(name=read_text, dataType=_DATA_TYPE, nullable=_BOOL, default=_optional(read_text))
_INDEX = record_reader(name=read_text, unique=_BOOL, primary=_BOOL, nullable=_BOOL, columns=_TEXTS)
_TABLE = record_reader(
    schema=read_text, table=read_text, tableID=_LONG, version=_LONG, columns=_array(_COLUMN),
    indexes=_array(_INDEX),
)  # fmt: skip
_CHECKSUM = record_reader(version=_INT, corrupted=_BOOL, current=_LONG, previous=_LONG)
_CELL = compound.union_reader(
    None,
    converted(_LONG, str),
    converted(binary.read_float, values.float_text),
    converted(binary.read_double, values.double_text),
    read_text,
    binary.read_bytes,
    record_reader(location=read_text, value=read_text),
    converted(_LONG, lambda number: str(number % (1 << 64))),
)
_CELLS = ("null", "long", "float", "double", "string", "bytes", "record Timestamp", "record UnsignedBigint")
_ROW = _optional(compound.map_reader(_CELL, _block))
_ROW_TYPE = compound.enum_reader(("INSERT", "UPDATE", "DELETE"), "type of row")
_DDL_TYPE = compound.enum_reader(
    ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"), "type of DDL"
)  # fmt: skip
_DML = {
    "version": _INT, "database": read_text, "table": read_text, "tableID": _LONG, "type": _ROW_TYPE, "commitTs": _LONG,
    "buildTs": _LONG, "schemaVersion": _LONG, "claimCheckLocation": _optional(read_text),
    "handleKeyOnly": _optional(_BOOL), "checksum": _optional(_CHECKSUM), "data": _ROW, "old": _ROW,
}  # fmt: skip
_PAYLOADS = (
    ("WATERMARK", record_reader(version=_INT, commitTs=_LONG, buildTs=_LONG)),
    ("BOOTSTRAP", record_reader(version=_INT, buildTs=_LONG, tableSchema=_TABLE)),
    (
        "",
        record_reader(
            version=_INT, type=_DDL_TYPE, sql=read_text, commitTs=_LONG, buildTs=_LONG, tableSchema=_optional(_TABLE),
            preTableSchema=_optional(_TABLE),
        ),
    ),
    ("", record_reader(**_DML)),
)  # fmt: skip


def cells(data: bytes) -> Iterator[tuple[str, str, int, int, str]]:
    """(data or old, column, start, end, type) of each cell of a row message that `read` reads; nothing for others."""
    pos = 3
    for name, reader in _DML.items() if data[1:3] == b"\x06\x06" else ():
        if name not in ("data", "old") or data[pos] == 0:
            _, pos = reader(data, pos)
            continue
        count, pos = _block(data, pos + 1)
        while count:
            for _ in range(count):
                column, start = read_text(data, pos)
                _, pos = _CELL(data, start)
                yield name, column, start, pos, _CELLS[data[start] >> 1]
            count, pos = _block(data, pos)


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
    except (binary.TruncatedValue, ValueError) as error:
        if isinstance(error, binary.TruncatedValue) or (isinstance(error, compound.FieldError) and error.is_cut):
            raise WireError("TRUNCATED", where="value", field="the message", details=str(error)) from error
        raise malformed_error("value", reason_of(error)) from error
    if pos != len(data):
        raise WireError("TRAILING_BYTES", where="value", count=len(data) - pos)
    return {"type": name, **body} if name else dict(body)
