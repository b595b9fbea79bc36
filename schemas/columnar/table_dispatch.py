"""Debezium JSON, Open Protocol and Craft messages of any tables → cells, by the compiled decoders of one table each.

Which table a message is of is guessed from a hash of the names in it, and learned once for each hash by the format's
own decoder. A wrong guess costs time only: a table's decoder takes nothing but sound rows of that table, and every
row's version is asked of the source of tables as the format's own decoder asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.columnar.columns import MAX_BATCH
from ticdc_bridge.schemas.columnar.craft_reader import CraftTableReader
from ticdc_bridge.schemas.columnar.debezium_reader import DebeziumTableReader
from ticdc_bridge.schemas.columnar.json_templates import TemplateReader
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.table_hash import hash_names, hash_terms
from ticdc_bridge.schemas.columnar.open_reader import OpenTableReader
from ticdc_bridge.schemas.columnar.rows import (
    Binaries,
    ChunkMemory,
    MessageBuffers,
    RowChunk,
    Rows,
    RowsBuilder,
    RowShape,
    Topics,
    freeze,
)
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.table import TableId, TableVersion

_FEW = 12  # messages of a table in a batch: fewer are read faster one by one
_TRIES = 64  # messages of a batch that are decoded to learn their tables, each of another hash
_AGAIN = 4  # of them, those of hashes that taught nothing before
_MOST_TABLES = 4  # of one hash
_MOST_VERSIONS = 16  # of a table, that are read compiled
_MAX_SAMPLE = 1 << 20  # bytes of a message that is decoded to learn its table
_FORMATS = {"debezium": (b'"db":"', b'"table":"'), "open": (b'"scm":"', b'"tbl":"')}


class TableDispatcher:
    """A `RowsReader` of a format: rows are those of the format's decoder with `context.tables`, but for `extra`.

    Without numba or tables all messages are left. complete: rows have the `RowShape.order` that the decoder's have, and
    `extra` is as `plain_lines.EXTRA_FIELDS` tells; where it can't, messages are left. Not for Craft.
    """

    def __init__(self, format_: str, context: Context, complete: bool = False) -> None:
        self.format, self._context, self._complete = format_, context, complete
        self._plain = format_named(format_).decoder(context)
        self._hashes: BoundedCache[int, list[TableId]] = BoundedCache(65_536)  # an empty list: it taught nothing
        self._tables: BoundedCache[TableId, _Table] = BoundedCache(4096)

    def read(self, keys: Binaries, values: Binaries, topics: Topics) -> tuple[Rows, Any]:
        """`RowsReader.read`. SetupError of the source of tables."""
        count = len(values.offsets) - 1
        builder = RowsBuilder(ChunkMemory())
        taken_mask = np.zeros(count, np.bool_)
        buffers = _buffers(keys, values)
        is_small = max(len(buffers.keys), len(buffers.values)) <= MAX_BATCH
        if count and COMPILED and self._context.tables is not None and is_small:
            size = len(buffers.values)
            memory = ChunkMemory(buffers.values, size // 8) if self.format == "craft" else ChunkMemory(size=2 * size)
            builder = RowsBuilder(memory)
            for hash_, index in self._groups(buffers, topics):
                for id_ in self._hashes.get(hash_, ()):
                    if id_ not in self._tables:
                        self._tables[id_] = _Table(id_, self.format, self._context, self._complete)
                    index = self._tables[id_].read(buffers, index, builder, taken_mask)
                    if not len(index):
                        break
        return builder.rows(), np.flatnonzero(~taken_mask)

    # ---- which table
    def _groups(self, buffers: MessageBuffers, topics: Topics) -> list[tuple[int, Any]]:
        """Messages (indices, ascending) that have a hash in common, where they are not too few; learns the tables."""
        by_topic = np.array([crc32((name or "").encode()) << 1 for name in topics.names] or [0], np.uint64)
        digests = self._hash(buffers)
        digests = np.where(digests == 0, by_topic[topics.of], digests)  # of an odd hash no more than of an even one
        order = np.argsort(digests, kind="stable")
        hashes, starts = np.unique(digests[order], return_index=True)
        found = zip(hashes, np.split(order, starts[1:]), strict=True)
        groups = [(int(hash_), index) for hash_, index in found if len(index) >= _FEW]
        groups.sort(key=lambda group: int(group[1][0]))
        tries, again = _TRIES, _AGAIN
        for hash_, index in groups:
            ids = self._hashes.get(hash_)
            if ids or tries <= 0 or (ids is not None and not again):
                continue
            again -= ids is not None
            for number in (index[0], index[len(index) // 2], index[-1]):
                tries -= 1
                if self._learn(hash_, buffers, int(number), topics):
                    break
        return groups

    def _hash(self, buffers: MessageBuffers) -> Any:
        out = np.zeros(len(buffers.value_first), np.uint64)
        if self.format == "craft":
            hash_terms(buffers.values, buffers.value_first, buffers.value_last, out)
            return out
        db, table = (np.frombuffer(text, np.uint8) for text in _FORMATS[self.format.partition("-")[0]])
        if self.format == "debezium":
            hash_names(buffers.values, buffers.value_first, buffers.value_last, db, table, out)
        else:
            hash_names(buffers.keys, buffers.key_first, buffers.key_last, db, table, out)
        return out

    def _learn(self, hash_: int, buffers: MessageBuffers, number: int, topics: Topics) -> bool:
        """Adds the table of a message to those of a hash. Out: False where it teaches none."""
        ids = self._hashes.setdefault(hash_, [])
        events = self._sample(buffers, number, topics.names[int(topics.of[number])])
        for event in events:
            if isinstance(event, Watermark) or not event.table:
                continue
            id_ = event.table.id if isinstance(event, RowChange) else TableId(event.db, event.table)
            if len(ids) < _MOST_TABLES and id_ not in ids:
                ids.append(id_)
        return bool(ids)

    def _sample(self, buffers: MessageBuffers, number: int, topic: str | None) -> list[Event]:
        """A message's events; none of one that is too large, or that can't be read."""
        first, last = int(buffers.value_first[number]), int(buffers.value_last[number])
        if first < 0 or last - first > _MAX_SAMPLE:
            return []
        key_first, key_last = int(buffers.key_first[number]), int(buffers.key_last[number])
        key = buffers.keys[key_first:key_last].tobytes() if key_first >= 0 else None
        try:
            return self._plain.decode(Message(key, buffers.values[first:last].tobytes(), topic))
        except (WireError, RecursionError):
            return []


CraftReader, DebeziumReader, OpenReader, OpenTiflowReader = (
    partial(TableDispatcher, name) for name in ("craft", "debezium", "open", "open-tiflow")
)


def _buffers(keys: Binaries, values: Binaries) -> MessageBuffers:
    pieces: list[Any] = []
    for binaries in (keys, values):
        offsets = np.asarray(binaries.offsets, np.int64)
        data = binaries.data[offsets[0] : offsets[-1]]  # of a slice, its own bytes
        offsets = offsets - offsets[0]
        pieces += [freeze(data), freeze(np.where(binaries.valid, offsets[:-1], -1)), freeze(offsets[1:])]
    return MessageBuffers(*pieces)


def _image_of(buffers: MessageBuffers, index: Any) -> MessageBuffers:
    key_first, key_last, value_first, value_last = (
        freeze(array[index]) for array in (buffers.key_first, buffers.key_last, buffers.value_first, buffers.value_last)
    )
    return MessageBuffers(buffers.keys, key_first, key_last, buffers.values, value_first, value_last)


# ---------------------------------------------------------------------------------- one table
@dataclass(slots=True)
class _Version:
    """A version of a table, for rows with a commit_ts up to high. shapes: of rows, and of those with the key alone."""

    version: TableVersion
    high: int
    decoder: CraftTableReader | TemplateReader
    zone: str
    shapes: tuple[RowShape, RowShape] | None = None

    def shapes_of(self, shape_pairs: list[tuple[RowShape, RowShape]]) -> tuple[RowShape, RowShape]:
        """Once it has read rows: until then it may not be known what messages add to the table.

        shape_pairs: those of the table, so that equal rows have one object; this version's is added.
        """
        if self.shapes is None:
            table = self.version.table
            order: tuple[str, ...] = ()
            if isinstance(self.decoder, TemplateReader):
                table, order = self.decoder.learned_table or table, self.decoder.order
            columns = tuple(c for c in table.columns if not c.virtual)
            order = () if order == tuple(c.name for c in columns) else order
            shape = RowShape(table, columns, table.handle_key, self.version.commit_ts, None, self.zone, order=order)
            self.shapes = next((both for both in shape_pairs if both[0] == shape), None)
            if self.shapes is None:
                self.shapes = shape, replace(shape, key_only=True)
                shape_pairs.append(self.shapes)
        return self.shapes


@dataclass(slots=True)
class _Table:
    """The decoders of a table's versions. versions: the newest first, those that were met."""

    id: TableId
    format: str
    context: Context
    complete: bool = False
    versions: list[_Version] = field(default_factory=list)
    shapes: list[tuple[RowShape, RowShape]] = field(default_factory=list)

    def read(self, buffers: MessageBuffers, index: Any, builder: RowsBuilder, taken_mask: Any) -> Any:
        """Adds the rows of messages at `index` to builder; out: the indices that are left."""
        if not self.versions:
            self._extend()
        for _ in range(2):  # once more where there is a version that was not known
            for version in list(self.versions):
                if not len(index):
                    return index
                mask = np.zeros(len(index), np.bool_)
                for chunk in version.decoder.read(_image_of(buffers, index), builder.memory, mask):
                    if self._holds(version, chunk):
                        chunk = replace(chunk, message=index[chunk.message])
                        builder.add(chunk, *version.shapes_of(self.shapes))
                        taken_mask[chunk.message] = True
                index = index[~taken_mask[index]]
            if not len(index) or not self._extend():
                break
        return index

    def _holds(self, version: _Version, rows: RowChunk) -> bool:
        """True if the source of tables still says that rows at these times have this version."""
        ends = {int(rows.commit_ts.min()), int(rows.commit_ts.max())}
        return all(_find_version(self.context.tables, self.id, ts) == version.version for ts in ends)

    def _extend(self) -> bool:
        """Asks for the versions again; decoders of those that are as they were stay. Out: whether any is new."""
        by_commit_ts = {v.version.commit_ts: v for v in self.versions}
        self.versions.clear()
        high = MAX_TSO
        for version in _versions(self.context.tables, self.id):
            if len(self.versions) >= _MOST_VERSIONS:
                break
            candidate = by_commit_ts.get(version.commit_ts)
            if candidate is None or candidate.high != high or candidate.version != version:
                candidate = self._make_version(version, high)
            self.versions.append(candidate)
            high = version.commit_ts
        return any(by_commit_ts.get(v.version.commit_ts) is not v for v in self.versions)

    def _make_version(self, version: TableVersion, high: int) -> _Version:
        table, low, options = version.table, version.commit_ts + 1, self.context.options
        if self.format == "craft":
            return _Version(version, high, CraftTableReader(table, low, high, options.craft_float), options.time_zone)
        if self.format == "debezium":
            return _Version(version, high, DebeziumTableReader(table, options, low, high, self.complete), "UTC")
        return _Version(version, high, OpenTableReader(table, options, low, high, self.complete), options.time_zone)


def _versions(tables: TableSource | None, id_: TableId) -> Iterator[TableVersion]:
    """A table's versions, the newest first."""
    at: int | None = None
    while True:
        version = _find_version(tables, id_, at)
        if version is None or (at is not None and version.commit_ts >= at):
            return
        yield version
        at = version.commit_ts


def _find_version(tables: TableSource | None, id_: TableId, commit_ts: int | None) -> TableVersion | None:
    """None too where it is not known any more: such rows are the decoder's, which says why."""
    try:
        return tables.at(id_, commit_ts) if tables is not None else None
    except WireError:
        return None
