"""Rows of one table, a column after another, as the readers of JSON and Craft make them → `schemas.columnar.rows.Rows`.

A chunk is as many rows as stay in the processor's cache between the pass that finds their values and the pass that
reads them: both work in the same two arrays, which then are the cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ticdc_bridge.schemas.columnar.rows import Rows, RowShape, find_distinct, freeze
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

CELLS = 120_000
"""Of one side of a chunk's rows: what was found is still in the cache when it is read."""

_OPS = (0, ord("c"), ord("d"), ord("u"), 0, ord("u"))  # by `RowChunk.side`


@dataclass(frozen=True, slots=True)
class MessageBuffers:
    """Keys and values of messages: uint8 buffers, and int64 places of each; a first place of -1: there is none."""

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
        """(place, length) of a chunk."""
        place, length = np.empty((2, slots, room), np.int64)
        return place, length

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

    message: its index in the batch. side: 1 new only (c), 2 old only (d), 3 both (u), 5 new only of an update (u).
    partition: the physical table's id, -1 for none. key_only: a delete of which the message has its key alone.
    place, length: int64 [new columns, then old ones][row], as `Rows` has them; there may be room for more rows.
    flags: by name, which rows.
    """

    message: Any
    commit_ts: Any
    partition: Any
    side: Any
    key_only: Any
    place: Any
    length: Any
    flags: dict[str, Any] = field(default_factory=dict)


class TableReader(Protocol):
    """Messages → rows of one table."""

    columns: tuple[Column, ...]

    def read(self, buffers: MessageBuffers, memory: ChunkMemory, taken_mask: Any) -> Iterator[RowChunk]:
        """Chunks of rows in the order of their messages, of which there are MAX_BATCH bytes at most (else ValueError).

        memory: for the chunks. taken_mask (bool, by message) gets those that were taken: the decoder in Python
        has to read the others.
        """
        ...


class RowsBuilder:
    """Rows of several tables, a chunk of one table's at a time → rows of all, in the order of their messages."""

    def __init__(self, memory: ChunkMemory) -> None:
        self.memory = memory
        self._shapes: dict[int, tuple[int, RowShape]] = {}
        self._parts: list[tuple[Any, ...]] = []  # message … step, place, length
        self._cells = 0
        self._flags: dict[str, list[tuple[int, Any]]] = {}
        self._count = 0

    def add(self, chunk: RowChunk, shape: RowShape, key_only: RowShape | None = None) -> None:
        """Rows with all columns of the shape. key_only: the shape of deletes by their keys alone."""
        count = len(chunk.message)
        slots, room = chunk.place.shape
        at = self._cells + np.arange(count)
        after = np.where(chunk.side & 1, at, -1)
        before = np.where(chunk.side & 2, at + slots // 2 * room, -1)
        of = np.full(count, self._number(shape), np.int64)
        if key_only is not None and chunk.key_only.any():
            of[chunk.key_only] = self._number(key_only)
        op = np.array(_OPS, np.uint8)[chunk.side]
        rows = (chunk.message, of, chunk.commit_ts, op, after, before, np.full(count, room, np.int64))
        self._parts.append((*rows, chunk.place.reshape(-1), chunk.length.reshape(-1)))
        for name, mask in chunk.flags.items():
            self._flags.setdefault(name, []).append((self._count, mask))
        self._cells += chunk.place.size
        self._count += count

    def _number(self, shape: RowShape) -> int:
        return self._shapes.setdefault(id(shape), (len(self._shapes), shape))[0]

    def rows(self) -> Rows:
        if not self._parts:
            none = np.zeros(0, np.int64)
            self._parts.append((none, none, none, np.zeros(0, np.uint8), *(none,) * 5))
        columns = [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        flags = {name: np.zeros(self._count, np.bool_) for name in self._flags}
        for name, parts in self._flags.items():
            for start, mask in parts:
                flags[name][start : start + len(mask)] |= mask
        if len(self._parts) > 1:
            order = np.argsort(columns[0], kind="stable")
            columns[:-2] = [column[order] for column in columns[:-2]]
            flags = {name: mask[order] for name, mask in flags.items()}
        shapes = tuple(shape for _, shape in self._shapes.values())
        message, of, commit_ts, op, after, before, step, place, length = columns
        data = freeze(self.memory.data[: self.memory.used])
        return Rows(shapes, message, of, commit_ts, op, after, before, step, place, length, data, flags)


def name_numbers(column: Column, place: Any, length: Any, memory: ChunkMemory) -> Any:
    """ENUM's indices and SET's masks in `place` become spans of their names; of the numbers, where these are not known.

    Out: which rows have a number as their text.
    """
    valid = length >= 0
    numbers = place * valid
    if not column.elements or column.type.kind is Kind.SET:
        distinct, _, which = find_distinct(numbers.view(np.uint64))
        names = [_name_of(column, number) for number in distinct.tolist()]
    else:
        names, which = ["", *column.elements], numbers
    texts = [name.encode() for name in names]
    sizes = np.array([len(text) for text in texts], np.int64)
    start = memory.add(b"".join(texts))
    place[:] = (np.cumsum(sizes) - sizes + start)[which]
    length[:] = np.where(valid, sizes[which], length)
    return valid & (not column.elements)


def _name_of(column: Column, number: int) -> str:
    if not column.elements:
        return str(number)
    return ",".join(name for bit, name in enumerate(column.elements) if number >> bit & 1)
