"""Craft's and TiCDC's JSON messages of one table → Arrow batches as `arrow.columns` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.columnar.craft_reader import CraftTableReader
from schemas.columnar.debezium_reader import DebeziumTableReader
from schemas.columnar.json_templates import MessageBuffers
from schemas.columnar.kernels.jit import COMPILED
from schemas.columnar.open_reader import OpenTableReader
from schemas.columnar.typed_rows import TypedColumn, TypedRows
from schemas.formats.base import Context, OneTable
from schemas.inspect.format_lookup import format_named
from schemas.model.event import MAX_TSO, Message, RowChange
from schemas.model.options import Options
from schemas.model.spark_types import python_value
from schemas.model.table import Column, Table, TableId, TableVersion
from schemas.model.types import BY_NAME
from spark_jobs.arrow.columns import OPS, ArrowEncoder, array_of_typed, bytes_of, row_type
from spark_jobs.arrow.sample_rows import sample_columns, sample_row

pa: Any = pyarrow  # the stubs know less than the library


def batch_schema(columns: Sequence[Column]) -> Any:
    """The schema of a batch."""
    head = [("message", pa.int64()), ("op", pa.string()), ("commit_ts", pa.int64()), ("partition", pa.int64())]
    row = row_type(columns)
    return pa.schema([*head, ("key_only", pa.bool_()), ("before", row), ("after", row)])


# ---------------------------------------------------------------------------------------------- reading
class ArrowDecoder:
    """Messages → batches of a table's rows. low, high: commit_ts of the rows that have this version of it."""

    def __init__(self, table: Table, low: int = 0, high: int = MAX_TSO) -> None:
        self._typed = CraftTableReader(table, low, high)
        self.columns = self._typed.columns

    def decode(self, messages: Any) -> tuple[list[Any], list[int]]:
        """A binary array → (batches in message order, indices of the messages that `CraftDecoder` has to read).

        Left are messages with anything but rows of this table in its present shape, and those that are wrong.
        """
        data, offsets = bytes_of(messages.fill_null(b"") if messages.null_count else messages)
        starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        decoded = self._typed.decode(data, starts, ends)
        return [batch_of_typed(rows, self.columns) for rows in decoded.chunks], decoded.left


def batch_of_typed(rows: TypedRows, columns: Sequence[Column]) -> Any:
    """Typed columns → a batch, mostly without a copy."""
    sides = []
    for bit, typed in ((2, rows.before), (1, rows.after)):
        absent = pa.array((rows.side & bit) == 0)
        fields = list(row_type(columns))
        sides.append(pa.StructArray.from_arrays([array_of_typed(c) for c in typed], fields=fields, mask=absent))
    ops = pa.DictionaryArray.from_arrays(rows.side.astype(np.int8), pa.array(OPS)).dictionary_decode()
    arrays = [pa.array(rows.message), ops, pa.array(rows.commit_ts), pa.array(rows.partition)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(rows.key_only), *sides], schema=batch_schema(columns))


def batch_of(events: Sequence[tuple[int, RowChange]], columns: Sequence[Column]) -> Any:
    """(message, row) by row, as `CraftDecoder` gives them → a batch: what is done with messages that were left."""
    rows: dict[str, list[Any]] = {name: [] for name in batch_schema(columns).names}
    for message, event in events:
        rows["message"].append(message)
        rows["op"].append(event.op)
        rows["commit_ts"].append(event.commit_ts)
        rows["partition"].append(event.extra.get("partition", event.extra.get("ptn", -1)))
        rows["key_only"].append(event.key_only)
        for side, row in (("before", event.before), ("after", event.after)):
            cells = None if row is None else {c.name: python_value(c, row.get(c.name)) for c in columns}
            rows[side].append(cells)
    return pa.RecordBatch.from_pydict(rows, schema=batch_schema(columns))


# ---------------------------------------------------------------------------------------------- compiling
def warm_craft() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.columnar.kernels.jit`): once in a driver or
    an image.

    Workers then find them. Out: False without numba, where there is nothing to compile.
    """
    columns = (*sample_columns(), Column("decimal as text", BY_NAME["decimal"], length=65, scale=2))
    table = Table(TableId("a", "b"), columns)
    encoder, decoder = ArrowEncoder(table, Options()), ArrowDecoder(table)
    if not encoder.is_compiled:
        return False
    sample = sample_row(columns)
    row = {c.name: python_value(c, sample[c.name]) for c in columns}
    # An old row that is there, one that is not, and a NULL.
    head = {"message": 0, "commit_ts": 1, "partition": -1, "key_only": False}
    rows = [{**head, "op": op, "before": old, "after": row} for op, old in (("u", dict.fromkeys(row)), ("c", None))]
    batch = pa.RecordBatch.from_pylist(rows, schema=batch_schema(columns))
    decoder.decode(encoder.encode(batch)[0])
    return True


pc: Any = pyarrow.compute


_READERS: Mapping[str, type[DebeziumTableReader] | type[OpenTableReader]] = {
    "debezium": DebeziumTableReader,
    "open": OpenTableReader,
    "open-tiflow": OpenTableReader,
}
FORMATS = tuple(_READERS)


class ArrowJsonDecoder:
    """Messages of a format in JSON → batches of a table's rows.

    format_: one of FORMATS. low, high: commit_ts of the rows that have this version of the table. Not
    for several threads at once: it learns from what it reads. keyed: of Debezium, whose events have the keys that their
    messages have, rows are left that are known by another key than the table's, or by none.
    """

    def __init__(
        self,
        format_: str,
        table: Table,
        options: Options | None = None,
        low: int = 0,
        high: int = MAX_TSO,
        keyed: bool = False,
    ) -> None:
        reader, arguments = _READERS[format_], (table, options or Options(), low, high)
        self._typed = reader(*arguments, keyed) if reader is DebeziumTableReader else reader(*arguments)
        self.columns = self._typed.columns

    def decode(self, values: Any, keys: Any = None) -> tuple[list[Any], list[int]]:
        """Binary arrays of values and keys → (batches in message order, indices of the messages that are left).

        Left are messages with anything but sound rows of this table in full, without flags: for the format's own
        decoder. keys: None where they are not known (Open needs them).
        """
        value_data, value_first, value_last = _places(values)
        if keys is None:
            nothing = np.full(len(value_first), -1, np.int64)
            key_data, key_first, key_last = np.zeros(0, np.uint8), nothing, nothing
        else:
            key_data, key_first, key_last = _places(keys)
            if len(key_first) != len(value_first):
                raise ValueError(f"{len(key_first)} keys for {len(value_first)} values")
        buffers = MessageBuffers(key_data, key_first, key_last, value_data, value_first, value_last)
        decoded = self._typed.decode(buffers)
        return [batch_of_typed(_parse_reals(rows), self.columns) for rows in decoded.chunks], decoded.left


def _places(array: Any) -> tuple[Any, Any, Any]:
    """The bytes of an array, and where each element starts and ends; -1 for a null."""
    there = np.asarray(array.is_valid())
    data, offsets = bytes_of(array.fill_null(b"") if array.null_count else array)
    first, last = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return data, np.where(there, first, -1), np.where(there, last, -1)


def _parse_reals(rows: TypedRows) -> TypedRows:
    """Reals are text up to here: Arrow reads them as exactly as Python does."""
    return replace(rows, after=tuple(map(_real, rows.after)), before=tuple(map(_real, rows.before)))


def _real(typed: TypedColumn) -> TypedColumn:
    if typed.form not in ("real", "real32"):
        return typed
    validity = None if typed.valid.all() else pa.py_buffer(np.packbits(typed.valid, bitorder="little"))
    texts = [validity, pa.py_buffer(typed.offsets), pa.py_buffer(typed.values)]
    numbers = pc.cast(pa.Array.from_buffers(pa.string(), len(typed.valid), texts), pa.float64())
    floats = np.frombuffer(numbers.buffers()[1], np.float64)[numbers.offset : numbers.offset + len(numbers)]
    form = "double" if typed.form == "real" else "float"
    return TypedColumn(typed.column, form, floats, typed.valid)


# ---------------------------------------------------------------------------------------------- compiling
def warm_json() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.columnar.kernels.jit`): once in a driver or an image.

    Workers then find them. Out: False without numba, where there is nothing to compile.
    """
    if not COMPILED:
        return False
    columns = [*sample_columns()]
    columns += [
        Column("id", BY_NAME["int"], unsigned=True, handle_key=True),
        Column("bit1", BY_NAME["bit"], length=1),
        Column("preset", BY_NAME["int"], has_default=True, default="7"),
        Column("long decimal", BY_NAME["decimal"], length=65, scale=2),
    ]
    table = Table(TableId("a", "b"), tuple(columns))
    source = OneTable(TableVersion(0, table))
    row = sample_row(columns) | {"long decimal": None}
    for name in FORMATS:
        encoder = format_named(name).encoder(Context(source, None, Options.of({"on_lossy": "flag"})))
        change = RowChange("made", table, "u", 1 << 60, row, row, ("id",), "UTC")
        messages = encoder.encode(change, Message(None, None))
        values, keys = ([getattr(m, part) for m in messages] for part in ("value", "key"))
        ArrowJsonDecoder(name, table).decode(pa.array(values, pa.binary()), pa.array(keys, pa.binary()))
    return True
