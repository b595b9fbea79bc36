"""TiCDC's Avro schemas as programs for the compiled reader (`schemas.columnar.kernels.avro_read`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.columnar.kernels import avro_codes as kernel
from ticdc_bridge.schemas.columnar.rows import form_of
from ticdc_bridge.schemas.formats.avro.schema import BEFORE
from ticdc_bridge.schemas.formats.avro.values import RecordReader
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

_OP, _COMMIT_TS, _SUM = "_tidb_op", "_tidb_commit_ts", "_tidb_row_level_checksum"
_PLAIN = {_OP, _COMMIT_TS, "_tidb_commit_physical_time"}
_DECIMAL_TEXT = 68  # the longest text of a DECIMAL

_Step = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class RecordSteps:
    """A schema, compiled. cells: how many a record fills at most. least: bytes that a record has at least.

    text: bytes of text that it may need beside the message. keyed: it can be a key's. extra: its events carry more
    than cells can say (a checksum, a keyspace).
    """

    schema_id: int
    record: RecordReader
    steps: tuple[_Step, ...]
    cells: int
    least: int
    text: int
    keyed: bool
    extra: bool


def compile_steps(schema_id: int, record: RecordReader, text: str) -> RecordSteps | None:
    """text: the schema that `record` was compiled from. Out: None for one that only the decoder reads."""
    steps = _steps(record, json.loads(text)["fields"])
    if steps is None or (record.before is not None and record.before.columns != record.columns):
        return None
    columns = sum(step[0] < kernel.OP for step in steps)
    decimals = sum(step[0] == kernel.DECIMAL_BYTES for step in steps)
    extra = bool(set(record.extension) - _PLAIN)
    return RecordSteps(
        schema_id, record, steps, columns, len(record.fields), decimals * _DECIMAL_TEXT, not record.of_value, extra,
    )  # fmt: skip


def _steps(record: RecordReader, fields: list[Mapping[str, Any]], nested: bool = False) -> tuple[_Step, ...] | None:
    steps: list[_Step] = []
    columns = {c.name: c for c in record.columns}
    for field in fields:
        name, kind = field["name"], field["type"]
        null = kind.index("null") if isinstance(kind, list) else -1
        kind = kind[1 - null] if null >= 0 else kind
        if name in columns:
            code = column_step(columns.pop(name), kind["type"])
        elif nested:
            return None  # an old row within the old row, or an op of its own
        elif name == BEFORE and record.before is not None:
            inner = _steps(record.before, kind["fields"], nested=True)
            if inner is None or columns:
                return None  # the old row's cells come after the row's
            steps += ((kernel.BEFORE, null, len(inner), 0), *inner)
            continue
        else:
            code = extension_step(name, kind)
        if code is None:
            return None
        steps.append((code[0], null, code[1], code[2]))
    return tuple(steps)


def extension_step(name: str, primitive: str) -> tuple[int, int, int] | None:
    """A field beside the columns → its step without a branch; None for a type that TiCDC does not give it."""
    wanted, code = _EXTENSION.get(name) or (primitive, _PASS[primitive])
    return (code, 0, 0) if primitive == wanted else None


_EXTENSION = {_OP: ("string", kernel.OP), _COMMIT_TS: ("long", kernel.COMMIT_TS), _SUM: ("string", kernel.PASS_TEXT)}
_PASS = {
    "int": kernel.PASS_INT, "long": kernel.PASS_LONG, "boolean": kernel.PASS_BOOLEAN, "float": kernel.PASS_FOUR,
    "double": kernel.PASS_EIGHT, "bytes": kernel.PASS_BYTES, "string": kernel.PASS_BYTES,
}  # fmt: skip


def column_step(column: Column, primitive: str) -> tuple[int, int, int] | None:
    """A column's field → its step without a branch; None for what no cell says."""
    kind = column.type.kind
    if kind is Kind.DECIMAL and primitive == "bytes":
        assert column.length is not None
        return kernel.DECIMAL_BYTES, column.length, column.scale or 0
    if kind is Kind.BIT:
        assert column.length is not None
        return kernel.BITS, values.bit_size(column.length), column.length
    if kind is Kind.INTEGER and column.unsigned:
        wide = column.type.bits == 64 and primitive == "long"  # the bits of a number up to 2^64-1
        return (kernel.LONG if wide else _UNSIGNED[primitive]), 0, 0 if column.type.bits == 64 else column.type.bits
    if kind is Kind.YEAR:
        return kernel.INT, 0, kernel.YEAR
    if kind is Kind.INTEGER and column.type.bits < 64:
        return kernel.INT, 0, 0
    # The decoder prints a FLOAT that comes as a double with a double's digits: no cell of a FLOAT says that.
    return (_CODES[kind, primitive], 0, 0) if (kind, primitive) in _CODES else None


_UNSIGNED = {"int": kernel.INT_UNSIGNED, "long": kernel.LONG_UNSIGNED, "string": kernel.TEXT_UNSIGNED}
_CODES: dict[tuple[Kind, str], int] = {
    (Kind.INTEGER, "int"): kernel.INT,
    (Kind.INTEGER, "long"): kernel.LONG,
    (Kind.FLOAT, "float"): kernel.FLOAT,
    (Kind.DOUBLE, "double"): kernel.DOUBLE,
    (Kind.DECIMAL, "string"): kernel.DECIMAL_TEXT,
    (Kind.BINARY, "bytes"): kernel.BYTES,
    **{
        (kind, "string"): kernel.TEXT
        for kind in (
            Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME,
        )
    },
}  # fmt: skip


def carries(source: Column, target: Column) -> bool:
    """True if a cell of `source` says as a cell of `target` what the decoder gives."""
    kinds = source.type.kind, target.type.kind
    if Kind.BIT in kinds:
        return kinds[0] is kinds[1] and source.length == target.length
    return form_of(source) is form_of(target)
