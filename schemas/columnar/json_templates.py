"""Many JSON messages of one table at once → chunks of its rows, by compiled kernels.

Templates are learned: a message that no template matches is decoded by the format's own decoder, and where that finds
sound rows of this table and nothing else, the text around its values becomes a template. So a message that is taken
says the same as one that was decoded, but for its values; those that are not certain leave their message. What comes
out is what that decoder gives; what is left is for it to say. Without numba all messages are left.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ticdc_bridge.schemas.columnar.columns import MAX_BATCH
from ticdc_bridge.schemas.columnar.kernels import json_cells, json_scan
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import ChunkMemory, MessageBuffers, RowChunk, freeze, name_numbers
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion

# ---- How the values of a column are read from JSON into cells.


class ValueKind(NamedTuple):
    """kind: of the value in the message (`json_scan`). code, a, b, c: how the cell is made of it (`json_cells`).

    room: bytes of a value at most, where it can be longer than what stands in the message.
    """

    kind: int
    code: int
    a: int = 0
    b: int = 0
    c: int = 0
    room: int = 0


def integer(column: Column, wraps: bool) -> ValueKind:
    """wraps: BIGINT UNSIGNED travels as int64."""
    low, high = values.integer_limits(column.type.bits, column.unsigned)
    if not column.unsigned:
        return ValueKind(json_scan.INTEGER, json_cells.SIGNED, low, high)
    return ValueKind(json_scan.INTEGER, json_cells.UNSIGNED, high, wraps and column.type.bits == 64)


YEAR = ValueKind(json_scan.INTEGER, json_cells.YEAR, 0, 2155)
FLOAT, DOUBLE = (
    ValueKind(json_scan.REAL, code, int.from_bytes(struct.pack(">d", most)))
    for code, most in ((json_cells.FLOAT, (2 - 2**-23) * 2.0**127), (json_cells.DOUBLE, (2 - 2**-52) * 2.0**1023))
)
TEXT, BASE64 = ValueKind(json_scan.STRING, json_cells.TEXT), ValueKind(json_scan.STRING, json_cells.BASE64)

# ---------------------------------------------------------------------------------- a table
_OPS = {1: "c", 2: "d", 3: "u", 5: "u"}  # by `RowChunk.image_bits`
_MOST_TEMPLATES = 16  # of a decoder
_TRIES = 16  # messages in a batch that teach nothing; after them, they are tried at twice the distance each time
_MAX_TEXT = 1 << 22
_CELLS = 1 << 19  # of one side of a chunk's rows: a batch of Spark's is one chunk, so that its columns are slices
_BROKEN = (WireError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError)
# What a sample of another form than expected raises: it teaches nothing.


@dataclass(frozen=True, slots=True)
class SampleValue:
    """A value in a sample: text[start:end] is of `kind` (`json_scan`) and belongs in `slot`."""

    start: int
    end: int
    kind: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class _Sample:
    """A row of a message that was decoded. key: None where there is none; values are in the order of the text.

    images: by column, contents that the message leaves in doubt (NULL or a default).
    """

    key: str | None
    key_values: list[SampleValue]
    value: str
    row_values: list[SampleValue]
    image_bits: int
    images: Mapping[str, tuple[bytes, ...]]


class TemplateReader(ABC):
    """Compiled per table version, and by what it learns.

    Args:
        table: What the version says.
        kind: How a column is read that is not virtual; None where that can't be known: nothing is read then.
        decoder: The format's.
        low: The first commit_ts of rows that have this version.
        high: The last.
        beside: Rows with more beside them (`RowChange.extra`) than this are left, and such as have their columns in
            another order; None: none is for that.
    """

    def __init__(
        self, table: Table, options: Options, kind: Callable[[Column], ValueKind | None],
        decoder: Callable[[Context], Any], low: int, high: int, beside: frozenset[str] | None,
    ) -> None:  # fmt: skip
        self.columns = tuple(c for c in table.columns if not c.virtual)
        self.learned_table: Table | None = None
        """The table as the decoder has it in the rows; None before any was taken."""
        self.order: tuple[str, ...] = ()
        """The columns as they stand in the decoder's rows; with `beside`, once any was taken."""
        source = SingleTable(TableVersion(low, table))
        self._decoder = decoder(Context(source, source, options))
        self._table_id, self._low, self._high, self._beside = table.id, low, high, beside
        kinds = [kind(column) for column in self.columns]
        self.kinds = () if None in kinds else tuple(kind for kind in kinds if kind is not None)
        self.column_slots = {column.name: n for n, column in enumerate(self.columns)}
        steps = self.kinds * 2  # new columns, then old ones
        # High limits have 64 bits without a sign: they travel as they are.
        a = np.array([step.a & (1 << 64) - 1 for step in steps], np.uint64).view(np.int64)
        pieces = ([s.code for s in steps], a, [s.b for s in steps], [s.c for s in steps], [s.room for s in steps])
        self._slots = json_cells.SlotReaders._make(freeze(np.array(piece, np.int64)) for piece in pieces)
        self._forget()

    def _forget(self) -> None:
        self._samples: set[tuple[Any, ...]] = set()
        self._images: dict[str, tuple[bytes, ...]] = {}
        self._text = bytearray()
        self._steps: list[tuple[int, int, int]] = []
        self._heads: list[tuple[int, int, int, bool, int]] = []
        self._compile()

    # ---- what a format says of its messages
    @abstractmethod
    def message_rows(self, buffers: MessageBuffers) -> Any:
        """The rows of messages: int64 (message, key first, key last, value first, value last), key first -1: none."""

    @abstractmethod
    def message_of(self, key: bytes | None, value: bytes) -> Message:
        """A row as `message_rows` cut it out → a message of it alone."""

    @abstractmethod
    def key_values(self, text: str) -> Iterator[SampleValue]:
        """The values in a row's key; the text is empty where there is none."""

    @abstractmethod
    def row_values(self, text: str) -> Iterator[SampleValue]:
        """The values in a row."""

    def doubtful_contents(self, text: str) -> Mapping[str, tuple[bytes, ...]]:
        """By column, contents of which the message does not say whether they are NULL or a default."""
        return {}

    def is_of_table(self, row: RowChange) -> bool:
        """True if a sound row is of this table, which the first such row says in full."""
        if row.table.id != self._table_id or row.table_version is None:
            return False
        if self._beside is not None:
            order, *others = (tuple(image) for image in (row.after, row.before) if image is not None)
            if not row.extra.keys() <= self._beside or any(other != order for other in others):
                return False
            self.order = self.order or order
            if order != self.order:
                return False
        if self.learned_table is None:
            self.learned_table = row.table
        return row.table == self.learned_table

    # ---- reading
    def read(self, buffers: MessageBuffers, memory: ChunkMemory, taken_mask: Any) -> Iterator[RowChunk]:
        """Chunks of rows in the order of their messages, of which there are MAX_BATCH bytes at most (else ValueError).

        memory: for the chunks. taken_mask (bool, by message) gets those that were taken: the decoder has to read the
        others.
        """
        if not COMPILED or not self.kinds:
            return
        if max(len(buffers.keys), len(buffers.values)) > MAX_BATCH:
            raise ValueError(f"more than {MAX_BATCH} bytes in one batch")
        if len(self._heads) >= _MOST_TEMPLATES:  # of odd messages perhaps, which must not stand in the way for ever
            self._forget()
        yield from self._chunks(buffers, self.message_rows(buffers), memory, taken_mask, learning=True)

    def _chunks(
        self, buffers: MessageBuffers, rows: Any, memory: ChunkMemory, taken_mask: Any, learning: bool
    ) -> Iterator[RowChunk]:
        width = len(self.columns)
        room = max(_CELLS // max(width, 1), 1024)
        _, back, sizes = np.unique(rows[:, 0], return_inverse=True, return_counts=True)
        rows = rows[sizes[back] <= room]  # a message of more rows is left
        room = min(room, len(rows))
        columns = [freeze(rows[:, k]) for k in (1, 2, 3, 4, 0)]
        scanned = json_scan.MessageRows(freeze(buffers.keys), freeze(buffers.values), *columns)
        matched, last = np.zeros(len(rows), np.uint8), np.zeros(1, np.int64)
        at, misses, learn_from = 0, 0, 0 if learning else len(rows)
        while at < len(rows):
            offset, length = memory.new_cells(2 * width, room)
            positions = json_scan.ValuePositions(offset, length, *(np.empty(room, np.int64) for _ in range(4)))
            size = int((scanned.value_last - scanned.value_first)[at:].sum())
            memory.reserve(size + room * int(self._slots.room.sum()) + BLOCK)
            bad = np.zeros(room, np.uint8)
            start, count, unknown = at, 0, 0
            while unknown >= 0:
                count, at, unknown, memory.used = json_cells.read(
                    scanned, at, count, learn_from, self._templates, positions, matched, last,
                    self._slots, self._compiled_images, memory.data, memory.used, bad,
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
                self._finish(offset, length, count, memory)
                taken_mask[positions.message[:count]] = True
                yield RowChunk(
                    positions.message[:count], positions.commit_ts[:count], positions.partition[:count],
                    positions.image_bits[:count], np.zeros(count, np.bool_), offset, length,
                )  # fmt: skip

    def _finish(self, start: Any, length: Any, rows: int, memory: ChunkMemory) -> None:
        """Rounds FLOATs and names ENUMs and SETs where all cells of some rows have been read."""
        for slot, (column, kind) in enumerate(zip(self.columns * 2, self.kinds * 2, strict=True)):
            if kind.code == json_cells.FLOAT:
                reals = start[slot, :rows].view(np.float64)
                reals[:] = reals.astype(np.float32)  # as the decoders round
            elif kind.code in (json_cells.ENUM, json_cells.SET):
                name_numbers(column, start[slot, :rows], length[slot, :rows], memory)

    # ---- templates
    def _sample(self, key: bytes | None, value: bytes) -> _Sample | None:
        """A row as `message_rows` cut it out → what it teaches; None where it is not a sound row of this table."""
        try:
            row = self._sound_row(self._decoder.decode(self.message_of(key, value)))
            if row is None or not self.is_of_table(row):
                return None
            key_text, text = None if key is None else key.decode(), value.decode()
            key_values, row_values = list(self.key_values(key_text or "")), list(self.row_values(text))
            return _Sample(key_text, key_values, text, row_values, _image_bits(row), self.doubtful_contents(text))
        except _BROKEN:
            return None

    def _sound_row(self, events: list[Any]) -> RowChange | None:
        """The row of a message that says it without a doubt and in full; None for anything else."""
        if len(events) != 1 or not isinstance(events[0], RowChange):
            return None
        row: RowChange = events[0]
        names = self.column_slots.keys()
        is_complete = all(image is None or image.keys() == names for image in (row.before, row.after))
        if row.flags or row.key_only or not is_complete or row.commit_ts is None:
            return None
        return row if self._low <= row.commit_ts <= self._high and _OPS.get(_image_bits(row)) == row.op else None

    def _learn(self, buffers: MessageBuffers, row: Any) -> bool:
        """Makes a template of a row. Out: False where it teaches nothing that is new."""
        _, key_first, key_last, first, last = map(int, row)
        if len(self._heads) >= _MOST_TEMPLATES or len(self._text) + last - first > _MAX_TEXT:
            return False
        key = bytes(buffers.keys[key_first:key_last]) if key_first >= 0 else None
        sample = self._sample(key, bytes(buffers.values[first:last]))
        if sample is None or not self._is_complete(sample):
            return False
        pieces = [[], []] if sample.key is None else [list(_pieces(sample.key, sample.key_values)), []]
        pieces[1] = list(_pieces(sample.value, sample.row_values))
        signature = (sample.key is None, sample.image_bits, *map(tuple, pieces))
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
        self._heads.append((bounds[0], bounds[1], bounds[2], sample.key is not None, sample.image_bits))
        self._compile()
        return True

    def _is_complete(self, sample: _Sample) -> bool:
        """True if a template of it says everything: commit_ts, and each column's value once.

        In a compressed value, which its decoder reads too, no value stands anywhere.
        """
        width = len(self.columns)
        after, before = sample.image_bits & 1, sample.image_bits >> 1 & 1
        wanted_slots = [*range(width * after), *range(width, width + width * before)]
        values = [*sample.key_values, *sample.row_values]
        of_no_column = (json_scan.ANY, json_scan.COMMIT, json_scan.COUNT, json_scan.PARTITION)
        slots = sorted(p.slot for p in values if p.kind not in of_no_column)
        return slots == wanted_slots and sum(p.kind == json_scan.COMMIT for p in values) == 1

    def _compile(self) -> None:
        """What was learned, as the kernel takes it."""
        text = np.frombuffer(bytes(self._text) or b"\0", np.uint8)
        steps, heads = np.array(self._steps, np.int64).reshape(-1, 3), np.array(self._heads, np.int64).reshape(-1, 5)
        pieces: Any = map(freeze, (text, steps, *heads.T))
        self._templates: Any = json_scan.Templates._make((*pieces, self._low, self._high, len(self.columns)))
        by_slot = [self._images.get(column.name, ()) for column in self.columns * 2]
        images = [image for images in by_slot for image in images]
        ends = np.cumsum([len(image) for image in images], dtype=np.int64)
        firsts = np.cumsum([0, *map(len, by_slot)], dtype=np.int64)
        text = np.frombuffer(b"".join(images) or b"\0", np.uint8)
        self._compiled_images: Any = json_cells.Images(*map(freeze, (text, ends, firsts)))


def _pieces(text: str, sample_values: list[SampleValue]) -> Iterator[tuple[int, bytes, int]]:
    """(kind, text of a literal, slot) of a text in which values stand at `sample_values`."""
    at = 0
    for value in sample_values:
        if value.start > at:
            yield json_scan.LITERAL, text[at : value.start].encode(), 0
        yield value.kind, b"", value.slot
        at = value.end
    if at < len(text):
        yield json_scan.LITERAL, text[at:].encode(), 0


def _image_bits(row: RowChange) -> int:
    """Which images a row has, as `RowChunk.image_bits` says it."""
    return (row.after is not None) + 2 * (row.before is not None) + 4 * (row.op == "u" and row.before is None)
