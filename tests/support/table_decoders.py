"""Craft's and TiCDC's JSON messages of one table → Arrow batches of its rows, by the readers of one table alone.

A batch has `message` (index of the message in its input), `op`, `commit_ts`, `partition` (physical table id, -1 for
none), `key_only`, and `before` and `after`: structs of the table's columns in the exact types of
`spark_jobs.arrow.change_schema`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow

from ticdc_bridge.schemas.columnar.columns import read_columns
from ticdc_bridge.schemas.columnar.craft_reader import CraftTableReader
from ticdc_bridge.schemas.columnar.debezium_reader import DebeziumTableReader
from ticdc_bridge.schemas.columnar.json_templates import TemplateReader
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.open_reader import OpenTableReader
from ticdc_bridge.schemas.columnar.rows import ChunkMemory, MessageBuffers, RowChunk, RowsBuilder, RowShape
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import MAX_TSO, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.arrow.table_columns import array_of_column, row_type
from ticdc_bridge.spark_jobs.arrow.warm_up import sample_columns, sample_row

pa: Any = pyarrow  # the stubs know less than the library

# By side: 1 new only, 2 old only, 3 both, 5 new only of an update (Craft can't tell it from an insert).
_OPS = ("r", "c", "d", "u", "u", "u")


def batch_schema(columns: Sequence[Column]) -> Any:
    """The schema of a batch."""
    head = [("message", pa.int64()), ("op", pa.string()), ("commit_ts", pa.int64()), ("partition", pa.int64())]
    row = row_type(columns)
    return pa.schema([*head, ("key_only", pa.bool_()), ("before", row), ("after", row)])


# ---------------------------------------------------------------------------------------------- reading
class ArrowDecoder:
    """Craft messages → batches of a table's rows. low, high: commit_ts of the rows that have this version of it."""

    def __init__(self, table: Table, low: int = 0, high: int = MAX_TSO) -> None:
        self._reader = CraftTableReader(table, low, high)
        self.columns = self._reader.columns
        self._shape = RowShape(table, self.columns, table.handle_key)

    def decode(self, messages: Any) -> tuple[list[Any], list[int]]:
        """A binary array → (batches in message order, indices of the messages that `CraftDecoder` has to read).

        Left are messages with anything but rows of this table in its present shape, and those that are wrong.
        """
        data, first, last = _places(messages)
        return _decode(self._reader, MessageBuffers(data, first, last, data, first, last), self._shape, data)


def _decode(
    reader: CraftTableReader | TemplateReader, buffers: MessageBuffers, shape: RowShape, messages: Any = b""
) -> tuple[list[Any], list[int]]:
    """What a table's reader takes of messages: a batch a chunk; and the indices of the messages that are left."""
    memory = ChunkMemory(messages, 0 if len(messages) else 2 * len(buffers.values))
    taken_mask = np.zeros(len(buffers.value_first), np.bool_)
    batches = [_batch_of_chunk(chunk, shape, memory) for chunk in reader.read(buffers, memory, taken_mask)]
    return batches, np.flatnonzero(~taken_mask).tolist()


def _batch_of_chunk(chunk: RowChunk, shape: RowShape, memory: ChunkMemory) -> Any:
    builder = RowsBuilder(memory)
    builder.add(chunk, shape)
    rows, positions = builder.rows(), np.arange(len(shape.columns)).reshape(1, -1)
    kind, images = row_type(shape.columns), []
    for first in (rows.before, rows.after):
        if (first < 0).all():
            images.append(pa.nulls(len(first), kind))
            continue
        typed, bad = read_columns(rows, rows.shape, first, rows.step, shape.columns, positions)
        assert not bad.any()  # the reader has looked at each
        arrays = list(map(array_of_column, typed))
        images.append(pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(first < 0)))
    ops = pa.DictionaryArray.from_arrays(chunk.image_bits.astype(np.int8), pa.array(_OPS)).dictionary_decode()
    heads = [pa.array(chunk.message), ops, pa.array(chunk.commit_ts), pa.array(chunk.partition)]
    return pa.RecordBatch.from_arrays([*heads, pa.array(chunk.key_only), *images], schema=batch_schema(shape.columns))


def _bytes_of(array: Any) -> tuple[Any, Any]:
    """The bytes of a binary or string array and its offsets, from 0 on; what a null has there is of no account."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int32)
    positions = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole[positions[0] : positions[-1]], positions - positions[0]


# ---------------------------------------------------------------------------------------------- compiling
def warm_craft() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.columnar.kernels.jit`): once in a driver or
    an image.

    Workers then find them. Out: False without numba, where there is nothing to compile.
    """
    if not COMPILED:
        return False
    columns = (*sample_columns(), Column("decimal as text", BY_NAME["decimal"], length=65, scale=2))
    table, row = Table(TableId("a", "b"), columns), sample_row(columns)
    # An old row that is there, one that is not, and a NULL.
    changes = [RowChange("made", table, "u", 1, dict.fromkeys(row), row, (), "UTC")]
    changes.append(replace(changes[0], op="c", before=None))
    encoder = CraftEncoder(Context(SingleTable(TableVersion(0, table))))
    messages = encoder.encode_rows(changes, Message(None, None))
    ArrowDecoder(table).decode(pa.array([m.value for m in messages], pa.binary()))
    return True


_READERS: Mapping[str, type[DebeziumTableReader] | type[OpenTableReader]] = {
    "debezium": DebeziumTableReader,
    "open": OpenTableReader,
    "open-tiflow": OpenTableReader,
}
FORMATS = tuple(_READERS)


class ArrowJsonDecoder:
    """Messages of a format in JSON → batches of a table's rows.

    format_: one of FORMATS. low, high: commit_ts of the rows that have this version of the table. Not for several
    threads at once: it learns from what it reads.
    """

    def __init__(
        self, format_: str, table: Table, options: Options | None = None, low: int = 0, high: int = MAX_TSO
    ) -> None:
        self._reader = _READERS[format_](table, options or Options(), low, high, False)
        self.columns = self._reader.columns
        self._shape = RowShape(table, self.columns, table.handle_key)

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
        return _decode(self._reader, buffers, self._shape)


def _places(array: Any) -> tuple[Any, Any, Any]:
    """The bytes of an array, and where each element starts and ends; -1 for a null."""
    existing = np.asarray(array.is_valid())
    data, offsets = _bytes_of(array.fill_null(b"") if array.null_count else array)
    first, last = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return data, np.where(existing, first, -1), np.where(existing, last, -1)


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
    source = SingleTable(TableVersion(0, table))
    row = sample_row(columns) | {"long decimal": None}
    for name in FORMATS:
        encoder = format_named(name).encoder(Context(source, None, Options.of({"on_lossy": "flag"})))
        change = RowChange("made", table, "u", 1 << 60, row, row, ("id",), "UTC")
        messages = encoder.encode(change, Message(None, None))
        values, keys = ([getattr(m, field) for m in messages] for field in ("value", "key"))
        ArrowJsonDecoder(name, table).decode(pa.array(values, pa.binary()), pa.array(keys, pa.binary()))
    return True
