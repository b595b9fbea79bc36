"""The registered versions of a table as programs for the reader in Spark's JVM (spark_jobs/jvm/AvroRows.java).

A program is a step for each field of a record: what is read, which branch of its union is null, where the value goes in
the newest version's row and how it is written there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas import values
from schemas.codec import avro as binary
from schemas.publish.avro import BEFORE
from schemas.table import Column, Table, Value
from schemas.types import Kind
from schemas.wire.avro_record import Record
from schemas.wire.framing import MAX_MESSAGE
from spark_jobs.avro_schemas import WriterSchema
from spark_jobs.columns import python_value, spark_type
from spark_jobs.plans import widens
from spark_jobs.table_view import Missing, default_of

# All numbers here are Java's.
OTHER_TABLE, UNKNOWN_ID, MALFORMED = 2, 5, 7
ERRORS = (
    ("EMPTY_RECORD", "key and value are null"),
    ("", ""),  # another table's
    ("NOT_FRAMED", "no Confluent header"),
    ("TOO_LARGE", f"a message has at most {MAX_MESSAGE} bytes"),
    ("UNKNOWN_SCHEMA_ID", "the schema id is not known"),
    ("TRUNCATED", 'the record ends too early; check="exact" says where'),
    ("MALFORMED", 'the record is none of its schema; check="exact" says why'),
    ("TRAILING_BYTES", 'there are bytes after the record; check="exact" says how many'),
)
"""Error code and detail of what the reader refuses, from its code 1 on."""

_OF_VALUE, _UNREADABLE, _CODE_SHIFT = 1, 2, 2
_STEP = 8
_INT, _LONG, _UNSIGNED, _TEXT_UNSIGNED, _FLOAT, _DOUBLE = range(6)
_TEXT, _BYTES, _DECIMAL_TEXT, _DECIMAL, _BITS, _BOOLEAN, _CHECKSUM = range(6, 13)
_OLD = 15
_SAID = {
    "_tidb_op": (13, ("string",)),
    "_tidb_commit_ts": (14, ("int", "long")),
    "_tidb_row_level_checksum": (_CHECKSUM, ("string",)),
}
_READ: Mapping[tuple[Kind, str], int] = {
    (Kind.INTEGER, "int"): _INT,
    (Kind.INTEGER, "long"): _LONG,
    (Kind.INTEGER, "string"): _TEXT_UNSIGNED,
    (Kind.YEAR, "int"): _INT,
    (Kind.FLOAT, "float"): _FLOAT,
    (Kind.FLOAT, "double"): _DOUBLE,
    (Kind.DOUBLE, "double"): _DOUBLE,
    (Kind.DECIMAL, "string"): _DECIMAL_TEXT,
    (Kind.DECIMAL, "bytes"): _DECIMAL,
    (Kind.BINARY, "bytes"): _BYTES,
    (Kind.BIT, "bytes"): _BITS,
    **{
        (kind, "string"): _TEXT
        for kind in (
            Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME,
        )
    },
}  # fmt: skip
# What a value that is read so can be written as.
_WHOLE = ("smallint", "int", "bigint", "decimal")
_HELD: Mapping[int, tuple[str, ...]] = {
    **dict.fromkeys((_INT, _LONG, _UNSIGNED, _TEXT_UNSIGNED), _WHOLE),
    **dict.fromkeys((_FLOAT, _DOUBLE), ("float", "double")),
    **dict.fromkeys((_TEXT, _DECIMAL_TEXT), ("string",)),
    **dict.fromkeys((_BYTES, _BITS), ("binary",)),
    _DECIMAL: ("decimal",),
}
_PASSED = {
    "int": _INT, "long": _LONG, "boolean": _BOOLEAN, "float": _FLOAT, "double": _DOUBLE, "bytes": _BYTES,
    "string": _BYTES,
}  # fmt: skip
_WRITTEN = {"smallint": 0, "int": 1, "bigint": 2, "decimal": 3, "float": 4, "double": 5}
_AS_IT_IS = -1


@dataclass(frozen=True)
class Programs:
    """What the reader is made of. packed: its bytes; keys: the columns' names of keys, from number 1 on."""

    packed: bytes
    keys: tuple[tuple[str, ...], ...]


def programs(
    table: Table, writers: Sequence[WriterSchema], refused: Mapping[int, int], missing: Missing, zone: str
) -> Programs:
    """writers: all versions of the table's keys and values. table: with the newest one's columns.

    refused: schema ids of which every message is refused, with the code. missing, zone: as AvroPlan.
    """
    keys: dict[tuple[str, ...], int] = {}
    made = {id_: _refused(code) for id_, code in refused.items()}
    for writer in writers:
        id_ = writer.entry.id
        if isinstance(id_, int):  # Glue's header is no one's here
            made[id_] = _Compiler(table, missing, zone).program(writer, keys, _without(writer, writers))
    ids = sorted(made)
    packed = struct.pack(">2i", MAX_MESSAGE, len(table.columns)) + _numbers(ids) + b"".join(made[i] for i in ids)
    return Programs(packed, tuple(keys))


def _without(writer: WriterSchema, writers: Iterable[WriterSchema]) -> list[int]:
    """Ids of the schemas that lack a column of this one."""
    names = {c.name for c in writer.record.columns}
    return sorted(
        w.entry.id for w in writers if isinstance(w.entry.id, int) and names - {c.name for c in w.record.columns}
    )


class _Compiler:
    """Records → programs, for rows of `table`."""

    def __init__(self, table: Table, missing: Missing, zone: str) -> None:
        self._table, self._missing, self._zone = table, missing, zone
        self._places = {c.name: n for n, c in enumerate(table.columns)}

    def program(self, writer: WriterSchema, keys: dict[tuple[str, ...], int], strange: list[int]) -> bytes:
        """keys: the numbers of the names of keys' columns, which may become more. strange: as AvroRows has it."""
        record = writer.record
        steps = self._whole(record, json.loads(writer.entry.schema)["fields"])
        if steps is None:
            return _refused(MALFORMED)
        names = tuple(c.name for c in record.columns)
        absent = [c for c in self._table.columns if c.name not in names]
        of_key = writer.entry.subject.endswith("-key")
        presets = {} if of_key or self._missing != "default" else self._presets(absent)
        encoded = b"".join(data for _, data in presets.values())
        return (
            struct.pack(">i", _OF_VALUE if record.of_value else 0)
            + struct.pack(">i", 0 if record.of_value else keys.setdefault(names, len(keys) + 1))
            + _numbers(strange)
            + _numbers(steps)
            + _numbers([self._places[c.name] for c in absent if c not in presets])
            + _numbers([number for step, _ in presets.values() for number in step])
            + struct.pack(">i", len(encoded))
            + encoded
        )

    def _whole(self, record: Record, fields: list[Mapping[str, Any]]) -> list[int] | None:
        """The steps of all fields; None for a record that TiCDC does not write."""
        old = record.before
        if old is not None and (old.of_value or [c.name for c in old.columns] != [c.name for c in record.columns]):
            return None
        steps: list[int] = []
        left = len(record.columns)
        columns = {c.name: c for c in record.columns}
        for field in fields:
            name = field["name"]
            null, kind = _union(field["type"])
            if name in columns:
                step = self._column(columns[name], kind["type"], null)
                if step is None:
                    return None
                steps += step
                left -= 1
            elif name == BEFORE and old is not None:
                inner = [self._inner(old, f) for f in kind["fields"]]
                if left or None in inner:
                    return None  # its values would stand within the row's
                numbers = [number for step in inner for number in step or ()]
                steps += [_OLD, null, -1, _AS_IT_IS, len(numbers), 0, 0, 0, *numbers]
            elif name in _SAID:
                code, primitives = _SAID[name]
                if kind not in primitives:
                    return None
                steps += [code, null, -1, _AS_IT_IS, 0, 0, 0, 0]
            else:
                steps += [_PASSED[kind], null, -1, _WRITTEN["double"], 0, 0, 0, 0]
        return steps

    def _inner(self, old: Record, field: Mapping[str, Any]) -> list[int] | None:
        null, kind = _union(field["type"])
        column = next(c for c in old.columns if c.name == field["name"])
        return self._column(column, kind["type"], null)

    def _column(self, column: Column, primitive: str, null: int) -> list[int] | None:
        """None for what the newest version's column does not hold."""
        place, code = self._places.get(column.name, -1), _READ[column.type.kind, primitive]
        kind = spark_type(column if place < 0 else self._table.columns[place])
        if place >= 0 and not (widens(spark_type(column), kind) and kind.startswith(_HELD[code])):
            return None
        if code == _LONG and column.unsigned and column.type.bits == 64:
            code = _UNSIGNED  # the long of its bits
        own = 0, 0
        if column.type.kind is Kind.BIT:
            length = column.length or 1
            own = values.bit_size(length), 1 << ((length - 1) % 8 + 1)
        elif code == _DECIMAL:
            own = column.length or 0, column.scale or 0
        return [code, null, place, _written(kind), *own, *_digits(kind)]

    def _presets(self, absent: list[Column]) -> dict[Column, tuple[list[int], bytes]]:
        """What columns get that a version lacks: steps, and their values in Avro's binary form."""
        found = {}
        for column in absent:
            value = default_of(column, self._zone)
            if value is not None:
                kind = spark_type(column)
                code, data = _encoded(column, kind, value)
                found[column] = [code, -1, self._places[column.name], _written(kind), *_digits(kind) * 2], data
        return found


def _union(kind: Any) -> tuple[int, Any]:
    """A field's type → (branch of null or -1, the type without null)."""
    if not isinstance(kind, list):
        return -1, kind
    null = kind.index("null")
    return null, kind[1 - null]


def _written(kind: str) -> int:
    return _WRITTEN.get(kind.partition("(")[0], _AS_IT_IS)


def _digits(kind: str) -> tuple[int, int]:
    """Precision and scale of a Spark type."""
    if not kind.startswith("decimal("):
        return 0, 0
    precision, scale = map(int, kind[8:-1].split(","))
    return precision, scale


def _encoded(column: Column, kind: str, value: Value) -> tuple[int, bytes]:
    """A default of Spark type `kind` → what is read, and its bytes."""
    found, name = python_value(column, value), kind.partition("(")[0]
    if name in ("smallint", "int", "bigint"):
        return _LONG, binary.write_long(found)
    if name == "float":
        return _FLOAT, binary.write_float(found)
    if name == "double":
        return _DOUBLE, binary.write_double(found)
    if name == "decimal":
        return _DECIMAL, binary.write_decimal(values.unscaled_decimal(format(found, "f"), *_digits(kind)))
    if name == "binary":
        return _BYTES, binary.write_bytes(found)
    return _TEXT, binary.write_bytes(found.encode())


def _refused(code: int) -> bytes:
    """The program of messages that are refused."""
    return struct.pack(">2i", _UNREADABLE | code << _CODE_SHIFT, 0) + _numbers([]) * 4 + struct.pack(">i", 0)


def _numbers(found: Sequence[int]) -> bytes:
    return struct.pack(f">{1 + len(found)}i", len(found), *found)
