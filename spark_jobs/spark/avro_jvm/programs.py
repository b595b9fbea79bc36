"""The registered versions of a table as programs for the reader in Spark's JVM (AvroRows.java).

A step for each field: what is read, which branch of its union is null, where and how it goes into the newest row.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.columnar.avro_steps import column_step, extension_step
from ticdc_bridge.schemas.columnar.kernels import avro_codes as codes
from ticdc_bridge.schemas.formats.avro.schema import BEFORE
from ticdc_bridge.schemas.formats.avro.values import RecordReader
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.spark_types import python_value, spark_type, widens
from ticdc_bridge.schemas.model.table import Column, Table, Value
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.pipeline.avro_versions import WriterSchema
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, default_of
from ticdc_bridge.spark_jobs.spark.avro_jvm import program_codes as java

ERRORS: Mapping[int, tuple[str, str]] = {
    java.EMPTY: ("EMPTY_RECORD", "key and value are null, or a delete has no key"),
    java.OTHER_TABLE: ("", ""),
    java.NOT_FRAMED: ("NOT_FRAMED", 'no Confluent header; check="exact" reads AWS Glue\'s, and DDL and watermarks'),
    java.TOO_LARGE: ("TOO_LARGE", f"a message has at most {MAX_MESSAGE} bytes"),
    java.UNKNOWN_ID: ("UNKNOWN_SCHEMA_ID", 'the schema id is not known; check="exact" asks for those registered since'),
    java.CUT: ("TRUNCATED", 'the record ends too early; check="exact" says where'),
    java.MALFORMED: ("MALFORMED", 'the record is none of its schema; check="exact" says why'),
    java.TRAILING: ("TRAILING_BYTES", 'there are bytes after the record; check="exact" says how many'),
    java.NAMED: ("NOT_FRAMED", 'the record headers name the schema, not the first bytes; check="exact" reads it'),
    java.EIGHT_BYTE_ID: (
        "UNKNOWN_SCHEMA_ID", 'the schema id has 8 bytes, as Apicurio writes it; check="exact" reads it',
    ),
}  # fmt: skip
"""Error code and detail of what the reader refuses, from its code 1 on."""
assert [*ERRORS] == [*range(1, java.REFUSALS + 1)]

# What a value that is read so can be written as.
_INTEGERS = ("smallint", "int", "bigint", "decimal")
_HELD: Mapping[int, tuple[str, ...]] = {
    **dict.fromkeys((codes.LONG, codes.INT, codes.LONG_UNSIGNED, codes.INT_UNSIGNED, codes.TEXT_UNSIGNED), _INTEGERS),
    **dict.fromkeys((codes.FLOAT, codes.DOUBLE), ("float", "double")),
    **dict.fromkeys((codes.TEXT, codes.DECIMAL_TEXT), ("string",)),
    **dict.fromkeys((codes.BYTES, codes.BITS), ("binary",)),
    codes.DECIMAL_BYTES: ("decimal",),
}
_WRITTEN = {
    "smallint": java.SHORT, "int": java.INT, "bigint": java.LONG, "decimal": java.DECIMAL,
    "float": java.FLOAT, "double": java.DOUBLE,
}  # fmt: skip


@dataclass(frozen=True)
class JvmPrograms:
    """What the reader is made of. packed: its bytes; keys: the columns' names of keys, from number 1 on."""

    packed: bytes
    keys: tuple[tuple[str, ...], ...]


def programs(
    table: Table,
    keys: Sequence[WriterSchema],
    rows: Sequence[WriterSchema],
    refused: Mapping[int, int],
    missing: Missing,
    zone: str,
) -> JvmPrograms:
    """keys, rows: all versions of the table's key and value schemas. table: with the newest one's columns.

    refused: schema ids of which every message is refused, with the code. missing, zone: as AvroPlan.
    """
    of_keys, of_rows = ({w.entry.id: w for w in some if isinstance(w.entry.id, int)} for some in (keys, rows))
    all_ = {**of_keys, **of_rows}  # Glue's header is no one's here
    numbers: dict[tuple[str, ...], int] = {}
    compiler = _Compiler(table, missing, zone)
    by_id = {id_: _refusal_program(code) for id_, code in refused.items()}
    for id_, writer in all_.items():
        names = tuple(c.name for c in writer.record.columns)
        if id_ in of_keys and not writer.record.of_value:
            key = numbers.setdefault(names, len(numbers) + 1)
            strange = sorted(i for i, w in all_.items() if not {*names} <= {c.name for c in w.record.columns})
            by_id[id_] = compiler.program(writer, key, strange, beside=id_ not in of_rows)
        else:
            by_id[id_] = compiler.program(writer, 0, [], beside=False)
    ids = sorted(by_id)
    lengthy: list[int] = []  # columns whose values have a place of their own in a row, and its size (0: the value's)
    for position, kind in enumerate(map(spark_type, table.columns)):
        if kind in ("string", "binary") or _digits(kind)[0] > java.COMPACT:
            lengthy += position, 0 if kind in ("string", "binary") else 16
    head = struct.pack(">2i", MAX_MESSAGE, len(table.columns)) + _numbers(lengthy) + _numbers(ids)
    return JvmPrograms(head + b"".join(by_id[id_] for id_ in ids), tuple(numbers))


class _Compiler:
    """Records → programs, for rows of `table`."""

    def __init__(self, table: Table, missing: Missing, zone: str) -> None:
        self._table, self._missing, self._zone = table, missing, zone
        self._positions = {c.name: n for n, c in enumerate(table.columns)}

    def program(self, writer: WriterSchema, key: int, strange: list[int], beside: bool) -> bytes:
        """key, strange: as AvroRows has them. beside: it is a key's alone: beside a value nothing is taken of it."""
        record, fields = writer.record, json.loads(writer.entry.schema)["fields"]
        steps = self._record_steps(record, fields)
        flags = java.OF_VALUE if record.of_value else 0
        names = {c.name for c in record.columns}
        absent = [c for c in self._table.columns if c.name not in names]
        try:
            presets = self._presets(absent) if self._missing == "default" else {}
        except (ValueError, ArithmeticError, TypeError):  # no value of the column: the codec says so of each row
            steps, presets = None, {}
        if steps is None and beside:
            steps, flags = self._record_steps(record, fields, placed=False), java.BESIDE
        if steps is None:
            return _refusal_program(java.MALFORMED)
        lacking = [(self._positions[c.name], _digits(spark_type(c))[0]) for c in absent if c not in presets]
        encoded = b"".join(data for _, data in presets.values())
        preset = [number for step, _ in presets.values() for number in step]
        positions = [position for position, precision in lacking if precision > java.COMPACT]
        positions += [location for some in (preset, steps) for location in _written_positions(some)]
        flags |= java.SHUFFLED if positions != sorted(positions) and flags != java.BESIDE else 0
        return (
            struct.pack(">2i", flags, key)
            + _numbers(strange)
            + _numbers(steps)
            + _numbers([number for pair in lacking for number in pair])
            + _numbers(preset)
            + struct.pack(">i", len(encoded))
            + encoded
        )

    def _record_steps(
        self, record: RecordReader, fields: list[Mapping[str, Any]], placed: bool = True
    ) -> list[int] | None:
        """The steps of all fields; None for a record that TiCDC does not write. placed: the values go into the row."""
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
                step = self._column(columns[name], kind["type"], null, placed)
                if step is None:
                    return None
                steps += step
                left -= 1
            elif name == BEFORE and old is not None:
                inner = [self._inner(old, f) for f in kind["fields"]]
                if left or None in inner:
                    return None  # its values would stand within the row's
                row = [number for step in inner for number in step or ()]
                steps += [codes.BEFORE, null, -1, java.AS_IT_IS, len(row), 0, 0, 0, *row]
            else:
                extension = extension_step(name, kind)
                if extension is None:
                    return None
                steps += [extension[0], null, -1, java.AS_IT_IS, 0, 0, 0, 0]
        return steps

    def _inner(self, old: RecordReader, field: Mapping[str, Any]) -> list[int] | None:
        null, kind = _union(field["type"])
        column = next(c for c in old.columns if c.name == field["name"])
        return self._column(column, kind["type"], null, placed=True)

    def _column(self, column: Column, primitive: str, null: int, placed: bool) -> list[int] | None:
        """None for what the newest version's column does not hold."""
        position = self._positions.get(column.name, -1) if placed else -1
        step = column_step(column, primitive)
        code, *made = step or (codes.DOUBLE, 1, 0)  # a FLOAT as a double, which is the float that its text says
        kind = spark_type(column if position < 0 else self._table.columns[position])
        if position >= 0 and not (widens(spark_type(column), kind) and kind.startswith(_HELD[code])):
            return None
        if code == codes.BITS:  # so many bytes, of which the first has a value below the second number
            made[1] = 1 << ((made[1] - 1) % 8 + 1)
        elif column.type.kind is Kind.INTEGER and column.type.bits == 64:
            made[0] = int(column.unsigned)  # a negative number stands for one from 2^63 on
        return [code, null, position, _write_code(kind), *made, *_digits(kind)]

    def _presets(self, absent: list[Column]) -> dict[Column, tuple[list[int], bytes]]:
        """What columns get that a version lacks: steps, and their values in Avro's binary form. ValueError,
        ArithmeticError, TypeError for a default that its column does not hold.
        """
        presets = {}
        for column in absent:
            value = default_of(column, self._zone)
            if value is not None:
                kind = spark_type(column)
                code, data = _encode_default(column, kind, value)
                presets[column] = [code, -1, self._positions[column.name], _write_code(kind), *_digits(kind) * 2], data
        return presets


def _written_positions(steps: list[int]) -> list[int]:
    """The columns whose values get a place of their own, as steps write them; the old row's come in the same order."""
    positions = []
    for at in range(0, len(steps), java.STEP):
        code, _, position, form, _, _, precision, _ = steps[at : at + java.STEP]
        if code == codes.BEFORE:
            break
        if position >= 0 and (form == java.AS_IT_IS or precision > java.COMPACT):
            positions.append(position)
    return positions


def _union(kind: Any) -> tuple[int, Any]:
    """A field's type → (branch of null or -1, the type without null)."""
    if not isinstance(kind, list):
        return -1, kind
    null = kind.index("null")
    return null, kind[1 - null]


def _write_code(kind: str) -> int:
    return _WRITTEN.get(kind.partition("(")[0], java.AS_IT_IS)


def _digits(kind: str) -> tuple[int, int]:
    """Precision and scale of a Spark type."""
    if not kind.startswith("decimal("):
        return 0, 0
    precision, scale = map(int, kind[8:-1].split(","))
    return precision, scale


def _encode_default(column: Column, kind: str, value: Value) -> tuple[int, bytes]:
    """A default of Spark type `kind` → what is read, and its bytes."""
    default, name = python_value(column, value), kind.partition("(")[0]
    if name in ("smallint", "int", "bigint"):
        return codes.LONG, binary.write_long(default)
    if name == "float":
        return codes.FLOAT, binary.write_float(default)
    if name == "double":
        return codes.DOUBLE, binary.write_double(default)
    if name == "decimal":
        return codes.DECIMAL_BYTES, binary.write_decimal(values.unscaled_decimal(format(default, "f"), *_digits(kind)))
    if name == "binary":
        return codes.BYTES, binary.write_bytes(default)
    return codes.TEXT, binary.write_bytes(default.encode())


def _refusal_program(code: int) -> bytes:
    """The program of messages that are refused."""
    return struct.pack(">2i", java.UNREADABLE | code << java.CODE_SHIFT, 0) + _numbers([]) * 4 + struct.pack(">i", 0)


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{1 + len(numbers)}i", len(numbers), *numbers)
