"""Many JSON messages of one table at once → chunks of its rows, by compiled kernels.

Templates are learned: a message that no template matches is decoded by the format's own decoder, and where that finds
sound rows of this table and nothing else, the text around its values becomes a template. So a message that is taken
says the same as one that was decoded, but for its values; those that are not certain leave their message. What comes
out is what that decoder gives; what is left is for it to say. Without numba all messages are left.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ticdc_bridge.schemas.columnar.columns import MAX_BATCH, is_decimal128
from ticdc_bridge.schemas.columnar.kernels import json_cells, json_scan
from ticdc_bridge.schemas.columnar.kernels import json_cells as kernel
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.json_scan import (
    ANY,
    BOOLEAN,
    COMMIT,
    COUNT,
    INTEGER,
    LITERAL,
    PARTITION,
    REAL,
    STRING,
)
from ticdc_bridge.schemas.columnar.rows import ChunkMemory, MessageBuffers, RowChunk, freeze, name_numbers
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import Column, Table

# ---- How the values of a column are read from JSON into cells: a row of a table for each kind of value.
#
# A `ValueKind` says what stands in the message (`json_scan`) and how the cell is made of it (`json_cells`). A format
# has a table of them by kind of column.


class FillStep(NamedTuple):
    """How a cell is made, and what is of account to it (`json_cells`).

    room: bytes of a value at most, where it can be longer than what stands in the message.
    """

    code: int
    a: int = 0
    b: int = 0
    c: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True)
class ValueKind:
    """kind: of the value in the message. fill: how a column's cells are made."""

    kind: int
    fill: Callable[[Column], FillStep]


def _plain(kind: int, *step: int) -> ValueKind:
    return ValueKind(kind, lambda _: FillStep(*step))


# ---------------------------------------------------------------------------------- numbers
def integer(column: Column, wraps: bool) -> ValueKind:
    """wraps: BIGINT UNSIGNED travels as int64."""
    bits = column.type.bits
    if not column.unsigned:
        return _plain(INTEGER, kernel.SIGNED, *values.integer_limits(bits, False))
    return _plain(INTEGER, kernel.UNSIGNED, values.integer_limits(bits, True)[1], wraps and bits == 64)


def number(code: int, high: int) -> ValueKind:
    """ENUM's index, SET's mask or BIT as a number up to high."""
    return _plain(INTEGER, code, high)


YEAR = _plain(INTEGER, kernel.YEAR, 0, 2155)
FLOAT, DOUBLE = (
    _plain(REAL, code, int.from_bytes(struct.pack(">d", most)))
    for code, most in ((kernel.FLOAT, (2 - 2**-23) * 2.0**127), (kernel.DOUBLE, (2 - 2**-52) * 2.0**1023))
)
LONG_DECIMAL = _plain(REAL, kernel.NOTHING)
BIT1 = _plain(BOOLEAN, kernel.BOOLEAN)


def _short_decimal(column: Column) -> FillStep:
    return FillStep(kernel.SHORT_DECIMAL, column.length or 0, column.scale or 0, room=48)


def _decimal(column: Column) -> FillStep:
    is_checked = is_decimal128(column)
    return FillStep(kernel.DECIMAL, *((column.length or 0, column.scale or 0) if is_checked else (0, 0)))


SHORT_DECIMAL, DECIMAL = ValueKind(REAL, _short_decimal), ValueKind(STRING, _decimal)

# ---------------------------------------------------------------------------------- texts and bytes
TEXT, UNQUOTED, BASE64, BASE64_TEXT, DATE_TEXT, DATETIME_TEXT, TIME_TEXT, INSTANTS = (
    _plain(STRING, code)
    for code in (
        kernel.TEXT, kernel.UNQUOTED, kernel.BASE64, kernel.BASE64_TEXT, kernel.DATE, kernel.DATETIME, kernel.TIME,
        kernel.INSTANTS,
    )
)  # fmt: skip
BITS = ValueKind(STRING, lambda column: FillStep(kernel.BITS, values.bit_size(column.length or 0)))


# ---------------------------------------------------------------------------------- dates and times as numbers
def moments(milliseconds: bool) -> ValueKind:
    """DATETIME as a number since 1970."""

    def fill(column: Column) -> FillStep:
        fsp = 3 if column.scale is None else column.scale
        return FillStep(kernel.MOMENTS, column.nullable, 1000 if milliseconds else 1, fsp, room=26)

    return ValueKind(INTEGER, fill)


DAYS = ValueKind(INTEGER, lambda column: FillStep(kernel.DAYS, column.nullable, room=10))
TIMES = ValueKind(INTEGER, lambda column: FillStep(kernel.TIMES, 6 if column.scale is None else column.scale, room=17))


# ---------------------------------------------------------------------------------- a table
@dataclass(frozen=True)
class RowFiller:
    """How all values of a table's rows are read: new columns, then old ones."""

    columns: tuple[Column, ...]
    kinds: tuple[ValueKind, ...]

    @cached_property
    def slots(self) -> kernel.SlotReaders:
        steps = [kind.fill(column) for column, kind in zip(self.columns, self.kinds, strict=True)] * 2
        # High limits have 64 bits without a sign: they travel as they are.
        a = np.array([step.a & (1 << 64) - 1 for step in steps], np.uint64).view(np.int64)
        pieces = ([s.code for s in steps], a, [s.b for s in steps], [s.c for s in steps], [s.room for s in steps])
        return kernel.SlotReaders._make(freeze(np.array(piece, np.int64)) for piece in pieces)

    def reserve(self, memory: ChunkMemory, rows: int, size: int) -> None:
        """Room for the texts of some rows, of which the messages have `size` bytes."""
        memory.reserve(size + rows * int(self.slots.room.sum()) + BLOCK)

    def finish(self, start: Any, length: Any, rows: int, memory: ChunkMemory) -> None:
        """What is left to do where all cells of some rows have been read."""
        for slot, (column, code) in enumerate(zip(self.columns * 2, self.slots.code.tolist(), strict=True)):
            if code == kernel.FLOAT:
                reals = start[slot, :rows].view(np.float64)
                reals[:] = reals.astype(np.float32)  # as the decoders round
            elif code in (kernel.ENUM, kernel.SET):
                name_numbers(column, start[slot, :rows], length[slot, :rows], memory)


_OPS = {1: "c", 2: "d", 3: "u", 5: "u"}  # by side
_MOST_TEMPLATES = 16  # of a decoder
_TRIES = 16  # messages in a batch that teach nothing; after them, they are tried at twice the distance each time
_MAX_TEXT = 1 << 22
_CELLS = 1 << 19  # of one side of a chunk's rows: a batch of Spark's is one chunk, so that its columns are slices


@dataclass(frozen=True, slots=True)
class SampleValue:
    """A value in a sample: text[start:end] is of `kind` (`json_scan`) and belongs in `slot`."""

    start: int
    end: int
    kind: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of a message that was decoded. key: None where there is none; places are in the order of the text.

    images: by column, contents that the message leaves in doubt (NULL or a default).
    """

    key: str | None
    key_values: list[SampleValue]
    value: str
    row_values: list[SampleValue]
    side: int
    images: Mapping[str, tuple[bytes, ...]]


BROKEN = (WireError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError)
"""What a sample of another form than expected raises: it teaches nothing."""


class LearnedTable:
    """The table that a format's decoder says rows are of: a version's, with what the messages add to it.

    A decoder's rows are of one: `learn` refuses samples of another. keyed: and such as are known by another key than
    the handle key. beside: and such as have more beside the row (`RowChange.extra`) than this, or their columns in
    another order.
    """

    def __init__(self, keyed: bool = False, beside: frozenset[str] | None = None) -> None:
        self.table: Table | None = None
        self.order: tuple[str, ...] = ()
        self._keyed, self._beside = keyed, beside

    def learn(self, row: RowChange) -> bool:
        """True if a sound row is of this table, which the first row says."""
        if row.table_version is None or (self._keyed and row.key != row.table.handle_key):
            return False
        if self._beside is not None and not self._has_same_order(row, self._beside):
            return False
        if self.table is None:
            self.table = row.table
        return row.table == self.table

    def _has_same_order(self, row: RowChange, beside: frozenset[str]) -> bool:
        order, *others = (tuple(image) for image in (row.after, row.before) if image is not None)
        if not row.extra.keys() <= beside or any(other != order for other in others):
            return False
        self.order = self.order or order
        return order == self.order


class JsonFormat(Protocol):
    """What the batch decoder has to know of a format."""

    columns: tuple[Column, ...]
    cells: tuple[ValueKind, ...]
    told: LearnedTable

    def rows(self, buffers: MessageBuffers) -> Any:
        """The rows of messages: int64 (message, key first, key last, value first, value last), key first -1: none."""
        ...

    def sample(self, key: bytes | None, value: bytes) -> SampleRow | None:
        """A row as `rows` cut it out → what it teaches; None where it is not a sound row of this table."""
        ...


class TemplateReader:
    """Compiled per table version, and by what it learns. low, high: commit_ts of the rows, both ends included."""

    def __init__(self, format_: JsonFormat, low: int, high: int) -> None:
        self._format, self._low, self._high = format_, low, high
        self.columns = format_.columns
        self._filler = RowFiller(format_.columns, format_.cells)
        self._forget()

    def _forget(self) -> None:
        self._samples: set[tuple[Any, ...]] = set()
        self._images: dict[str, tuple[bytes, ...]] = {}
        self._built_images: Any = None
        self._text = bytearray()
        self._steps: list[tuple[int, int, int]] = []
        self._heads: list[tuple[int, int, int, bool, int]] = []
        self._plan: Any = None

    @property
    def learned_table(self) -> Table | None:
        """The table as the format's decoder has it in the rows; None before any was taken."""
        return self._format.told.table

    @property
    def order(self) -> tuple[str, ...]:
        """The columns as they stand in the decoder's rows; with `whole`, once any was taken."""
        return self._format.told.order

    def read(self, buffers: MessageBuffers, memory: ChunkMemory, taken_mask: Any) -> Iterator[RowChunk]:
        """`TableReader.read`."""
        if not COMPILED or self._format.cells == ():
            return
        if max(len(buffers.keys), len(buffers.values)) > MAX_BATCH:
            raise ValueError(f"more than {MAX_BATCH} bytes in one batch")
        if len(self._heads) >= _MOST_TEMPLATES:  # of odd messages perhaps, which must not stand in the way for ever
            self._forget()
        yield from self._chunks(buffers, self._format.rows(buffers), memory, taken_mask, learning=True)

    def _chunks(
        self, buffers: MessageBuffers, rows: Any, memory: ChunkMemory, taken_mask: Any, learning: bool
    ) -> Iterator[RowChunk]:
        width = len(self._format.columns)
        room = max(_CELLS // max(width, 1), 1024)
        _, back, sizes = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
        rows = rows[sizes[back] <= room]  # a message of more rows is left
        room = min(room, len(rows))
        scanned = _message_rows(json_scan, buffers, rows)
        matched, last = np.zeros(len(rows), np.uint8), np.zeros(1, np.int64)
        at, misses, learn_from = 0, 0, 0 if learning else len(rows)
        while at < len(rows):
            offset, length = memory.new_cells(2 * width, room)
            positions = json_scan.ValuePositions(offset, length, *(np.empty(room, np.int64) for _ in range(4)))
            self._filler.reserve(memory, room, int((scanned.value_last - scanned.value_first)[at:].sum()))
            bad = np.zeros(room, np.uint8)
            start, count, unknown = at, 0, 0
            while unknown >= 0:
                count, at, unknown, memory.used = json_cells.read(
                    scanned, at, count, learn_from, self._build_plan(), positions, matched, last,
                    self._filler.slots, self._build_images(), memory.data, memory.used, bad,
                )  # fmt: skip
                if unknown >= 0 and not self._learn(buffers, rows[unknown]):
                    misses += 1
                    at = int(np.searchsorted(rows[:, 0], rows[at, 0], "right"))
                    learn_from = at + ((1 << misses - _TRIES) if misses > _TRIES else 0)
            if not count:
                continue
            bad = bad[:count]
            if bad.any():
                spoilt = np.unique(positions.message[:count][bad != 0])
                others = rows[start:at][matched[start:at] == 1]
                others = others[~np.isin(others[:, 0], spoilt)]
                yield from self._chunks(buffers, others, memory, taken_mask, learning=False)
            else:
                self._filler.finish(offset, length, count, memory)
                taken_mask[positions.message[:count]] = True
                yield RowChunk(
                    positions.message[:count], positions.commit_ts[:count], positions.partition[:count],
                    positions.side[:count], np.zeros(count, np.bool_), offset, length,
                )  # fmt: skip

    # ---- templates
    def _learn(self, buffers: MessageBuffers, row: Any) -> bool:
        """Makes a template of a row. Out: False where it teaches nothing that is new."""
        _, key_first, key_last, first, last = map(int, row)
        if len(self._heads) >= _MOST_TEMPLATES or len(self._text) + last - first > _MAX_TEXT:
            return False
        key = bytes(buffers.keys[key_first:key_last]) if key_first >= 0 else None
        sample = self._format.sample(key, bytes(buffers.values[first:last]))
        if sample is None or not self._is_complete(sample):
            return False
        pieces = [[], []] if sample.key is None else [list(_pieces(sample.key, sample.key_values)), []]
        pieces[1] = list(_pieces(sample.value, sample.row_values))
        signature = (sample.key is None, sample.side, *map(tuple, pieces))
        if signature in self._samples:
            return False
        self._samples.add(signature)
        for name, images in sample.images.items():
            self._images[name] = tuple(dict.fromkeys((*self._images.get(name, ()), *images)))
        bounds = [len(self._steps)]
        for piece in pieces:
            for kind, text, slot in piece:
                start = slot
                if text:
                    start = len(self._text)
                    self._text += text
                self._steps.append((kind, start, len(self._text)))
            bounds.append(len(self._steps))
        self._heads.append((bounds[0], bounds[1], bounds[2], sample.key is not None, sample.side))
        self._plan = self._built_images = None
        return True

    def _is_complete(self, sample: SampleRow) -> bool:
        """True if a template of it says everything: commit_ts, and each column's value once.

        A compressed value, which its decoder reads too, has no places at all.
        """
        width = len(self._format.columns)
        wanted_slots = [*range(width * (sample.side & 1)), *range(width, width + width * (sample.side >> 1 & 1))]
        places = [*sample.key_values, *sample.row_values]
        slots = sorted(p.slot for p in places if p.kind not in (ANY, COMMIT, COUNT, PARTITION))
        return slots == wanted_slots and sum(p.kind == COMMIT for p in places) == 1

    def _build_plan(self) -> Any:
        if self._plan is None:
            heads = np.array(self._heads, np.int64).reshape(-1, 5)
            text = np.frombuffer(bytes(self._text) or b"\0", np.uint8)
            steps = np.array(self._steps, np.int64).reshape(-1, 3)
            pieces = (text, steps, *(np.ascontiguousarray(heads[:, k]) for k in range(5)))
            self._plan = json_scan.Templates._make(
                (*map(freeze, pieces), self._low, self._high, len(self._format.columns))
            )
        return self._plan

    def _build_images(self) -> Any:
        if self._built_images is None:
            by_slot = [self._images.get(column.name, ()) for column in self._format.columns * 2]
            ends = np.cumsum(np.array([len(image) for images in by_slot for image in images], np.int64))
            firsts = np.cumsum(np.array([0, *map(len, by_slot)], np.int64))
            text = np.frombuffer(b"".join(image for images in by_slot for image in images) or b"\0", np.uint8)
            self._built_images = json_cells.Images(*map(freeze, (text, ends, firsts)))
        return self._built_images


def _pieces(text: str, sample_values: list[SampleValue]) -> Iterator[tuple[int, bytes, int]]:
    """(kind, text of a literal, slot) of a text in which values stand at `sample_values`."""
    at = 0
    for value in sample_values:
        if value.start > at:
            yield LITERAL, text[at : value.start].encode(), 0
        yield value.kind, b"", value.slot
        at = value.end
    if at < len(text):
        yield LITERAL, text[at:].encode(), 0


def _message_rows(kernel: Any, buffers: MessageBuffers, rows: Any) -> Any:
    columns = [freeze(np.ascontiguousarray(rows[:, k])) for k in range(5)]
    return kernel.MessageRows(freeze(buffers.keys), freeze(buffers.values), *columns[1:], columns[0])


def sound_row(events: list[Any], columns: tuple[Column, ...], low: int, high: int) -> RowChange | None:
    """The row of a message that says it without a doubt and in full; None for anything else."""
    if len(events) != 1 or not isinstance(events[0], RowChange):
        return None
    row: RowChange = events[0]
    names = {c.name for c in columns}
    is_complete = all(image is None or image.keys() == names for image in (row.before, row.after))
    if row.flags or row.key_only or not is_complete or row.commit_ts is None or not low <= row.commit_ts <= high:
        return None
    return row if _OPS.get(image_bits_of(row)) == row.op else None


def image_bits_of(row: RowChange) -> int:
    """Which sides a row has, as `RowChunk.side` says it."""
    return (row.after is not None) + 2 * (row.before is not None) + 4 * (row.op == "u" and row.before is None)
