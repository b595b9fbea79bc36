"""Rows of any tables in flat arrays: what compiled readers give and compiled writers take, a batch at a time.

A row is cells at equal distances, one for each column of its shape, in the shape's order: next to one another where
readers go row by row (Avro), as far apart as a chunk has rows where they go column by column (JSON, Craft). Rows of
different tables and versions stand side by side, each naming its shape, so that one call of a kernel reads or writes a
batch whatever is in it. The values are those of the row model (`schemas.model.event`): what a cell can't say exactly is
not in a cell, and its message is left to the format's own codec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.columns import find_few
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import set_names

NULL, ABSENT = -1, -2
"""Lengths of a cell without a value: NULL, and a column that the row does not carry (a delete by its key alone)."""


NO_COMMIT_TS = -1


class CellForm(IntEnum):
    """Forms of a cell's `start`. SPAN: its first byte in `Rows.data`, of `length` bytes; else the value itself."""

    INT = 0  # int64
    UINT = 1  # uint64, as the int64 of the same bits
    DOUBLE = 2  # float64, as the int64 of the same bits; finite
    FLOAT = 3  # float32 widened to float64, as the int64 of the same bits; finite
    TEXT = 4  # SPAN: sound UTF-8, SQL text as the row model has it
    BYTES = 5  # SPAN: any bytes


def form_of(column: Column) -> CellForm:
    """The form of a column's cells, whatever format they come from."""
    if column.type.kind is Kind.INTEGER:
        return CellForm.UINT if column.unsigned else CellForm.INT
    return _FORMS[column.type.kind]


_FORMS = {
    Kind.YEAR: CellForm.INT,
    Kind.BIT: CellForm.UINT,
    Kind.FLOAT: CellForm.FLOAT,
    Kind.DOUBLE: CellForm.DOUBLE,
    Kind.BINARY: CellForm.BYTES,
    **dict.fromkeys(
        (
            Kind.DECIMAL, Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR, Kind.DATE, Kind.DATETIME,
            Kind.TIMESTAMP, Kind.TIME,
        ),
        CellForm.TEXT,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowShape:
    """Properties that rows share. columns: of the cells, in order (virtual ones left out); key: the handle key's names.

    table, table_version, schema_id, zone, key_only: as `RowChange` has them. order: names of the columns as they stand
    in the decoder's rows, where that is another order; columns that it lacks are ABSENT.
    """

    table: Table
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    table_version: int | None = None
    schema_id: int | None = None
    zone: str = "UTC"
    key_only: bool = False
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in message order; numpy arrays, one element a row unless said otherwise.

    message (int64): index of the row's message in the batch. shape (int64): index in `shapes`. commit_ts (int64): a
    TSO, or NO_COMMIT_TS. op (uint8): ord of "c", "u" or "d". after, before (int64): the row's first cell, -1: none;
    step (int64, from 1 on): the distance of its cells. start, length (int64, one element a cell): see CellForm, NULL,
    ABSENT; the length of what is no span is 8. data (uint8): what spans point into. flags: by name, which rows (bool)
    the decoder flags so.
    """

    shapes: tuple[RowShape, ...]
    message: Any
    shape: Any
    commit_ts: Any
    op: Any
    after: Any
    before: Any
    step: Any
    start: Any
    length: Any
    data: Any
    flags: Mapping[str, Any] = field(default_factory=dict)

    def without(self, messages: Any) -> Rows:
        """The rows, but for those of these messages (int64)."""
        stays = np.flatnonzero(~np.isin(self.message, messages))
        by_row = ("message", "shape", "commit_ts", "op", "after", "before", "step")
        pieces = {name: getattr(self, name)[stays] for name in by_row}
        return replace(self, **pieces, flags={name: mask[stays] for name, mask in self.flags.items()})


@dataclass(frozen=True, slots=True)
class Binaries:
    """Byte strings one after another: element n is data[offsets[n]:offsets[n + 1]]; valid False: null.

    data: uint8; offsets: int64, one more than elements; valid: bool.
    """

    data: Any
    offsets: Any
    valid: Any


@dataclass(frozen=True, slots=True)
class WrittenMessages:
    """Keys and values of the messages written, one for each row; left (bool): the row is for the format's own encoder.

    What stands at a row that is left is of no account. flags: by name, which rows (bool) the encoder flags so. within:
    rows (bool) that are in the message of a row before; None: no row is.
    """

    keys: Binaries
    values: Binaries
    left: Any
    flags: Mapping[str, Any] = field(default_factory=dict)
    within: Any = None

    @classmethod
    def nothing(cls, count: int) -> WrittenMessages:
        """All of so many rows are left."""
        none = Binaries(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64), np.zeros(count, np.bool_))
        return cls(none, none, np.ones(count, np.bool_))


@dataclass(frozen=True, slots=True)
class Topics:
    """A topic each of messages or rows: names[of[n]]. of: int64. A name is None where the topic is not known."""

    names: Sequence[str | None]
    of: Any


class RowsReader(Protocol):
    """A format's messages → rows. Learns from what it reads; not for several threads at once."""

    def read(self, keys: Binaries, values: Binaries, topics: Topics) -> tuple[Rows, Any]:
        """Messages → (rows, indices (int64, ascending) of the messages that the format's decoder has to read).

        Taken are messages of which the decoder gives sound rows and nothing else; a message that is wrong in any way
        is left. One RowShape object stands for equal rows in all batches, so that writers compile it once. Errors of a
        source of schemas or tables that is away pass through (SetupError).
        """


class RowsWriter(Protocol):
    """Rows → messages of a format, byte for byte those of its encoder. Not for several threads at once."""

    def write(self, rows: Rows, topics: Topics, timestamps: Any) -> WrittenMessages:
        """topics: where each row goes. timestamps: Kafka's, of each row's message (int64 ms, -1 for none).

        A row that the encoder would refuse, or that the kernel does not know, is left: the encoder says why.
        """


def freeze(array: Any, dtype: Any = None) -> Any:
    """A contiguous view that can't be written: numba compiles anew for arrays that can."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def find_distinct(numbers: Any) -> tuple[Any, Any, Any]:
    """(the different numbers, where each is first, which of them each element is), as numpy.unique, which
    sorts, where they are many and far apart only.

    numbers: int64 or uint64.
    """
    if not len(numbers):
        return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if COMPILED:
        few, first, back = np.empty(_FEW, np.int64), np.empty(_FEW, np.int64), np.empty(len(numbers), np.int64)
        count = find_few(freeze(numbers.view(np.int64)), few, first, back)
        if count >= 0:
            distinct = few[:count].view(numbers.dtype)
            order = np.argsort(distinct)
            return distinct[order], first[order], np.argsort(order)[back] if count > 1 else back
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= 1 << 16:
        distinct, first, back = np.unique(numbers, return_index=True, return_inverse=True)
        return distinct, first, back
    shifted = (numbers - numbers.dtype.type(low)).astype(np.int64)
    first = np.full(high - low + 1, -1, np.int64)
    first[shifted[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of the same number, the last one written stays
    present = np.flatnonzero(first >= 0)
    start = np.empty(len(first), np.int64)
    start[present] = np.arange(len(present))
    return present.astype(numbers.dtype) + numbers.dtype.type(low), first[present], start[shifted]


_FEW = 32


# ---- Rows of one table, a column after another, as the readers of JSON and Craft make them →
# `schemas.columnar.rows.Rows`.
#
# A chunk is as many rows as stay in the processor's cache between the pass that finds their values and the pass that
# reads them: both work in the same two arrays, which then are the cells.

CELLS = 120_000
"""Of one side of a chunk's rows: what was found is still in the cache when it is read."""

_OPS = (0, ord("c"), ord("d"), ord("u"), 0, ord("u"))  # by `RowChunk.image_bits`


@dataclass(frozen=True, slots=True)
class MessageBuffers:
    """Keys and values of messages: uint8 buffers, and int64 positions of each; a first of -1: there is none."""

    keys: Any
    key_first: Any
    key_last: Any
    values: Any
    value_first: Any
    value_last: Any


class ChunkMemory:
    """Where the cells of chunks are, and the bytes that their spans point into.

    messages: spans may point into them, too. size: bytes of spans that are to be expected.
    """

    def __init__(self, messages: Any = b"", size: int = 0) -> None:
        self.used = len(messages)
        self.data = np.empty(self.used + size + 4096, np.uint8)
        self.data[: self.used] = np.frombuffer(messages, np.uint8)

    def new_cells(self, slots: int, room: int) -> tuple[Any, Any]:
        """(start, length) of a chunk."""
        start, length = np.empty((2, slots, room), np.int64)
        return start, length

    def reserve(self, size: int) -> None:
        """Room for `size` bytes more."""
        if len(self.data) - self.used < size:
            larger = np.empty(2 * len(self.data) + size, np.uint8)
            larger[: self.used] = self.data[: self.used]
            self.data = larger

    def add(self, text: bytes) -> int:
        """Where the bytes are."""
        self.reserve(len(text))
        start = self.used
        self.used += len(text)
        self.data[start : self.used] = np.frombuffer(text, np.uint8)
        return start


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Rows of one table in message order; numpy arrays, one element a row unless said otherwise.

    message: its index in the batch. image_bits: 1 new only (c), 2 old only (d), 3 both (u), 5 new only of an update
    (u). partition: the physical table's id, -1 for none. key_only: a delete of which the message has its key alone.
    start, length: int64 [new columns, then old ones][row], as `Rows` has them; there may be room for more rows.
    flags: by name, which rows.
    """

    message: Any
    commit_ts: Any
    partition: Any
    image_bits: Any
    key_only: Any
    start: Any
    length: Any
    flags: dict[str, Any] = field(default_factory=dict)


class RowsBuilder:
    """Rows of several tables, a chunk of one table's at a time → rows of all, in the order of their messages."""

    def __init__(self, memory: ChunkMemory) -> None:
        self.memory = memory
        self._shapes: dict[int, tuple[int, RowShape]] = {}
        self._chunks: list[tuple[Any, ...]] = []  # message … step, start, length
        self._cells = 0
        self._flags: dict[str, list[tuple[int, Any]]] = {}
        self._count = 0

    def add(self, chunk: RowChunk, shape: RowShape, key_only: RowShape | None = None) -> None:
        """Rows with all columns of the shape. key_only: the shape of deletes by their keys alone."""
        count = len(chunk.message)
        slots, room = chunk.start.shape
        at = self._cells + np.arange(count)
        after = np.where(chunk.image_bits & 1, at, -1)
        before = np.where(chunk.image_bits & 2, at + slots // 2 * room, -1)
        of = np.full(count, self._number(shape), np.int64)
        if key_only is not None and chunk.key_only.any():
            of[chunk.key_only] = self._number(key_only)
        op = np.array(_OPS, np.uint8)[chunk.image_bits]
        rows = (chunk.message, of, chunk.commit_ts, op, after, before, np.full(count, room, np.int64))
        self._chunks.append((*rows, chunk.start.reshape(-1), chunk.length.reshape(-1)))
        for name, mask in chunk.flags.items():
            self._flags.setdefault(name, []).append((self._count, mask))
        self._cells += chunk.start.size
        self._count += count

    def _number(self, shape: RowShape) -> int:
        return self._shapes.setdefault(id(shape), (len(self._shapes), shape))[0]

    def rows(self) -> Rows:
        if not self._chunks:
            none = np.zeros(0, np.int64)
            self._chunks.append((none, none, none, np.zeros(0, np.uint8), *(none,) * 5))
        by_name = zip(*self._chunks, strict=True)
        columns = [arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for arrays in by_name]
        flags = {name: np.zeros(self._count, np.bool_) for name in self._flags}
        for name, pieces in self._flags.items():
            for first, mask in pieces:
                flags[name][first : first + len(mask)] |= mask
        if len(self._chunks) > 1:
            order = np.argsort(columns[0], kind="stable")
            columns[:-2] = [column[order] for column in columns[:-2]]
            flags = {name: mask[order] for name, mask in flags.items()}
        shapes = tuple(shape for _, shape in self._shapes.values())
        message, of, commit_ts, op, after, before, step, start, length = columns
        data = freeze(self.memory.data[: self.memory.used])
        return Rows(shapes, message, of, commit_ts, op, after, before, step, start, length, data, flags)


def name_numbers(column: Column, position: Any, length: Any, memory: ChunkMemory) -> Any:
    """ENUM's indices and SET's masks in `position` become spans of their names; of the numbers, where these are
    not known.

    Out: which rows have a number as their text.
    """
    valid = length >= 0
    numbers = position * valid
    if not column.elements or column.type.kind is Kind.SET:
        distinct, _, which = find_distinct(numbers.view(np.uint64))
        names = [set_names(n, column.elements) if column.elements else str(n) for n in distinct.tolist()]
    else:
        names, which = ["", *column.elements], numbers
    texts = [name.encode() for name in names]
    sizes = np.array([len(text) for text in texts], np.int64)
    position[:] = (np.cumsum(sizes) - sizes + memory.add(b"".join(texts)))[which]
    length[:] = np.where(valid, sizes[which], length)
    return valid & (not column.elements)
