"""TiCDC's JSON messages → Arrow batches of one table's rows; the batches are those of `spark_jobs.craft_arrow`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.codec.json_batch import Buffers
from schemas.codec.kernels import COMPILED
from schemas.codec.typed import TypedColumn, TypedRows
from schemas.event import MAX_TSO, Message, RowChange
from schemas.options import Options
from schemas.table import Column, Table, TableId, TableVersion
from schemas.types import BY_NAME
from schemas.wire import format_named
from schemas.wire.base import Context, OneTable
from schemas.wire.debezium_typed import DebeziumTypedDecoder
from schemas.wire.open_protocol.typed import OpenTypedDecoder
from spark_jobs.craft_arrow import batch_of_typed, bytes_of
from spark_jobs.samples import sample_columns, sample_row

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute

FORMATS = ("debezium", "open", "open-tiflow")


class ArrowJsonDecoder:
    """Messages of a format in JSON → batches of a table's rows.

    format_: debezium, open or open-tiflow. low, high: commit_ts of the rows that have this version of the table. Not
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
        given = (table, options or Options(), low, high)
        self._typed: DebeziumTypedDecoder | OpenTypedDecoder
        self._typed = DebeziumTypedDecoder(*given, keyed) if format_ == "debezium" else OpenTypedDecoder(*given)
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
        given = Buffers(key_data, key_first, key_last, value_data, value_first, value_last)
        decoded = self._typed.decode(given)
        return [batch_of_typed(_settled(rows), self.columns) for rows in decoded.chunks], decoded.left


def _places(array: Any) -> tuple[Any, Any, Any]:
    """The bytes of an array, and where each element starts and ends; -1 for a null."""
    there = np.asarray(array.is_valid())
    data, offsets = bytes_of(array.fill_null(b"") if array.null_count else array)
    first, last = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return data, np.where(there, first, -1), np.where(there, last, -1)


def _settled(rows: TypedRows) -> TypedRows:
    """Reals are text up to here: Arrow reads them as exactly as Python does."""
    return replace(rows, after=tuple(map(_real, rows.after)), before=tuple(map(_real, rows.before)))


def _real(typed: TypedColumn) -> TypedColumn:
    if typed.form not in ("real", "real32"):
        return typed
    validity = None if typed.valid.all() else pa.py_buffer(np.packbits(typed.valid, bitorder="little"))
    texts = [validity, pa.py_buffer(typed.offsets), pa.py_buffer(typed.values)]
    numbers = pc.cast(pa.Array.from_buffers(pa.string(), len(typed.valid), texts), pa.float64())
    found = np.frombuffer(numbers.buffers()[1], np.float64)[numbers.offset : numbers.offset + len(numbers)]
    form = "double" if typed.form == "real" else "float"
    return TypedColumn(typed.column, form, found, typed.valid)


# ---------------------------------------------------------------------------------------------- compiling
def warm() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.codec.jit`): once in a driver or an image.

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
