"""Arrow batches of messages → messages of another format, by compiled readers and writers (schemas.codec.cells).

What the kernels leave, a message or one of its rows, goes through the plain codec message by message; what comes out,
errors and counts included, is what `codec.transcode_one` gives for each message. No session, no Spark classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.codec.cells import Binaries, CellReader, CellRows, CellWriter, Topics, Written
from schemas.codec.jit import COMPILED
from schemas.codec.typed import frozen
from schemas.errors import SetupError
from schemas.event import Message
from spark_jobs.codec import Result, Side, topic_of_table, transcode_one
from spark_jobs.kept import kept
from spark_jobs.line_batches import messages_of_lines
from spark_jobs.messages import rows_of
from spark_jobs.summary import Summary

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute

READERS: Mapping[str, str] = {
    "avro": "schemas.wire.avro_cells:AvroCellReader",
    "craft": "schemas.wire.typed_cells:CraftCellReader",
    "debezium": "schemas.wire.typed_cells:DebeziumCellReader",
    "open": "schemas.wire.typed_cells:OpenCellReader",
    "open-tiflow": "schemas.wire.typed_cells:OpenTiflowCellReader",
}
"""Formats that are read into cells: the class, as module:name."""
WRITERS: Mapping[str, str] = {
    "avro": "schemas.wire.avro_cell_writer:AvroCellWriter",
    "debezium": "schemas.wire.debezium_cells:DebeziumCellWriter",
}
"""Formats that are written from cells, a message a row."""

_BY_OPTIONS = frozenset(["debezium"])
"""Writers that nothing but their options and the rows is of account to."""

FEW = 32
"""In batches with fewer messages the kernels' fixed costs are more than what they save."""
_MOST_BYTES = 1 << 30  # of what is written at a time: offsets of Arrow's binaries have 31 bits


def takes(read: str, write: str) -> bool:
    """Whether there are kernels from one format to the other."""
    return COMPILED and read in READERS and write in WRITERS and (read, write) not in _NOT


_NOT = frozenset([("debezium", "debezium")])
"""The encoder writes again what the message says beside its rows (`RowChange.extra`), and cells have no room for it."""


def _made(place: str, side: Side, **more: Any) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)(side.context(), **more)


@dataclass(frozen=True, slots=True)
class Fast:
    """What the kernels wrote, in message order.

    origin (int64): each one's message in the batch; part (int32): its number among what that message gave. Arrow
    arrays: keys and values in binary, topics in text.
    """

    origin: Any
    part: Any
    keys: Any
    values: Any
    topics: Any

    def carried(self, part: Any, schema: Any, **more: Any) -> Any:
        """A record batch of the schema: what was written, and of the messages what else the schema names."""
        columns = {"topic": self.topics, "key": self.keys, "value": self.values, **more}
        same = len(self.origin) == part.num_rows and bool((self.origin == np.arange(part.num_rows)).all())
        which = None if same else pa.array(self.origin)
        arrays = []
        for field in schema:
            array = columns.get(field.name)
            if array is None:
                array = part.column(field.name)
                array = array if which is None else array.take(which)
                array = _without_nulls(array) if field.name == "headers" else array
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _without_nulls(headers: Any) -> Any:
    """No headers are an empty list, as `Message` has them."""
    if not headers.null_count:
        return headers
    offsets = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(np.asarray(headers.value_lengths().fill_null(0)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), headers.flatten(), type=headers.type)


class Transcoder:
    """One task's codecs, plain and compiled. Not for several threads at once."""

    def __init__(self, read: Side, write: Side, topic: str | None = None, marked: bool = False) -> None:
        """topic, marked: as `codec.transcode_one` has them; with marks everything goes through the plain codec."""
        self._read, self._write, self._topic, self._marked = read, write, topic, marked
        self._fits = takes(read.format, write.format) and not marked

    @cached_property
    def _plain(self) -> Any:
        decoder, encoder = self._read.decoder(), self._write.encoder()
        return lambda message: transcode_one(decoder, encoder, message, self._topic, self._marked)

    @cached_property
    def _reader(self) -> CellReader:
        return reader_of(self._read, bare=self._write.format != "avro")

    @cached_property
    def _writer(self) -> CellWriter:
        side = self._write
        if side.format in _BY_OPTIONS:
            return kept((WRITERS[side.format], side.options), lambda: _writer_of(side))
        return _writer_of(side)

    def one(self, message: Message) -> Result:
        """A message by the plain codec."""
        result: Result = self._plain(message)
        return result

    def parts(self, batch: Any, summary: Summary | None = None) -> Iterator[tuple[Any, Fast | None, Any]]:
        """A batch with Kafka's columns → parts of it, in order: (messages, what kernels wrote, indices of the rest).

        A batch of lines (spark_jobs.line_batches) comes with these columns. The messages that the kernels took are
        counted in `summary`; the rest (int64) is left to the caller. SetupError where a source of schemas or tables is
        away.
        """
        if not self._fits or batch.num_rows < FEW or not {"topic", "line"} & set(batch.schema.names):
            yield batch, None, np.arange(batch.num_rows)
            return
        batch = messages_of_lines(batch)
        rows, left, topics = read(self._reader, batch)
        stamps, odd = milliseconds(batch.column("timestamp"))
        to = self._bound_for(rows, topics)
        written = self._writer.write(rows, to, stamps[rows.message])
        if max(_size(written.keys), _size(written.values)) > _MOST_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self.parts(batch.slice(0, half), summary)
            yield from self.parts(batch.slice(half), summary)
            return
        slow = unread(batch, rows, left)
        slow[rows.message[written.left | self._refused(rows)]] = True
        slow |= odd
        kept = ~slow[rows.message]
        if summary is not None:
            count(rows, written.flags, kept, topics, summary)
        yield batch, _fast(rows, written, kept, to), np.flatnonzero(slow)

    def _bound_for(self, rows: CellRows, topics: Topics) -> Topics:
        """Where each row goes."""
        if self._topic is None:
            return Topics(topics.names, topics.of[rows.message])
        return Topics([topic_of_table(self._topic, s.table.id) for s in rows.shapes], rows.shape)

    def _refused(self, rows: CellRows) -> Any:
        """Rows with nothing but their key that are no deletes: few formats have a form for them (codec._encode)."""
        shapes = np.array([s.key_only for s in rows.shapes], bool)
        if not shapes.any():
            return np.zeros(len(rows.message), bool)
        return shapes[rows.shape] & (rows.op != ord("d"))


class RowFinder:
    """Tells messages of rows, which a kernel takes, from others, which may be DDL."""

    def __init__(self, read: Side) -> None:
        self._read = read

    @cached_property
    def _reader(self) -> CellReader:
        return reader_of(self._read)

    def others(self, batch: Any) -> Any:
        """The messages that are not surely rows and nothing else; all where there is no kernel, or no definitions."""
        known = COMPILED and self._read.format in READERS and self._read.tables is not None
        if not known or batch.num_rows < FEW or not {"topic", "line"} & set(batch.schema.names):
            return batch
        batch = messages_of_lines(batch)
        try:
            rows, left, _ = read(self._reader, batch)
        except SetupError:
            return batch  # definitions are away: whoever needs a message's table says so
        return batch.filter(pa.array(unread(batch, rows, left)))


Slow = Callable[[dict[str, Any]], Iterable[dict[str, Any]]]


def in_order(part: Any, rest: Any, schema: Any, slow: Slow, fast: Any = None, origin: Any = None) -> Any:
    """Rows that kernels made, and those that `slow` makes of the other messages (`rest`), in message order.

    part: the messages; fast: a record batch of `schema`, origin: which message each of its rows is from.
    """
    if fast is not None and not len(rest):
        return fast
    rows: list[dict[str, Any]] = []
    origins: list[int] = []
    others = part if len(rest) == part.num_rows else part.take(pa.array(rest))
    for index, found in zip(rest.tolist(), rows_of(others), strict=True):
        made = list(slow(found))
        rows += made
        origins += [index] * len(made)
    made_slowly = pa.RecordBatch.from_pylist(rows, schema=schema)
    if fast is None or not fast.num_rows:
        return made_slowly
    order = np.argsort(np.concatenate((origin, np.array(origins, np.int64))), kind="stable")
    (whole,) = pa.Table.from_batches([fast, made_slowly]).combine_chunks().to_batches()
    return whole.take(pa.array(order))


# ---------------------------------------------------------------------------------------------- into kernels
def reader_of(side: Side, bare: bool = False, whole: bool = False) -> CellReader:
    """bare: without what an Avro message has beside its row, which is of account to Avro's own encoder only.

    whole: what other messages have beside their rows can be told (schemas.wire.beside), and their columns' order is.
    """
    more: dict[str, Any] = {"whole": True} if whole else {}
    if side.format == "avro":
        from schemas.wire.avro_cells import Compiled

        zone = side.options.time_zone
        more = {"bare": bare, "compiled": kept((Compiled, zone), lambda: Compiled(zone))}
    reader: CellReader = _made(READERS[side.format], side, **more)
    return reader


def _writer_of(side: Side) -> CellWriter:
    writer: CellWriter = _made(WRITERS[side.format], side)
    return writer


def read(reader: CellReader, batch: Any) -> tuple[CellRows, Any, Topics]:
    """A batch with key, value and topic → (rows, indices of the messages that are left, the messages' topics)."""
    topics = _topics(batch.column("topic"))
    rows, left = reader.read(binaries(batch.column("key")), binaries(batch.column("value")), topics)
    return rows, left, topics


def unread(batch: Any, rows: CellRows, left: Any) -> Any:
    """Which of a batch's messages (bool) are not surely rows and nothing else."""
    other = np.ones(batch.num_rows, bool)
    other[rows.message] = False
    other[left] = True
    return other


def binaries(column: Any) -> Binaries:
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    count = len(column)
    if offsets is None or offsets.size == 0:
        places = np.zeros(count + 1, np.int64)
    else:
        places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    valid = np.ones(count, bool) if not column.null_count else np.asarray(column.is_valid())
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return Binaries(frozen(bytes_), frozen(places), frozen(valid))


def _topics(column: Any) -> Topics:
    coded = column.cast(pa.string()).dictionary_encode(null_encoding="encode")
    return Topics(coded.dictionary.to_pylist(), frozen(np.asarray(coded.indices).astype(np.int64)))


def milliseconds(column: Any) -> tuple[Any, Any]:
    """(Kafka's timestamps in ms, -1: none; which of them have a fraction of one, or are none but not NULL)."""
    whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    micros = np.asarray(whole.fill_null(-1000) if whole.null_count else whole)
    odd = micros % 1000 != 0
    if len(micros) and micros.min() < 0:
        odd |= (micros < 0) & np.asarray(column.is_valid())
    return frozen(micros // 1000), odd


# ---------------------------------------------------------------------------------------------- out of kernels
def _size(binaries: Binaries) -> int:
    return int(binaries.offsets[-1]) if len(binaries.offsets) else 0


def array(binaries: Binaries, kind: Any) -> Any:
    """Byte strings as an Arrow array, binary or string, without a copy of the bytes."""
    valid = np.asarray(binaries.valid)
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    offsets = pa.py_buffer(np.ascontiguousarray(binaries.offsets, dtype=np.int32))
    data = pa.py_buffer(np.ascontiguousarray(binaries.data))
    return pa.Array.from_buffers(kind, len(valid), [validity, offsets, data])


def _fast(rows: CellRows, written: Written, kept: Any, to: Topics) -> Fast:
    keys, values = array(written.keys, pa.binary()), array(written.values, pa.binary())
    message, of = np.asarray(rows.message), np.asarray(to.of)
    if not kept.all():
        which = np.flatnonzero(kept)
        keys, values, message, of = keys.take(pa.array(which)), values.take(pa.array(which)), message[which], of[which]
    topics = pa.array(list(to.names), pa.string()).take(pa.array(of)) if len(of) else pa.array([], pa.string())
    return Fast(message, numbers(message), keys, values, topics)


def numbers(message: Any) -> Any:
    """The number (int32) of each element among those of its message; what a message has stands together."""
    count = len(message)
    if not count:
        return np.zeros(0, np.int32)
    begins = np.concatenate((np.ones(1, bool), message[1:] != message[:-1]))
    if begins.all():
        return np.zeros(count, np.int32)
    places = np.arange(count)
    return (places - np.maximum.accumulate(np.where(begins, places, 0))).astype(np.int32)


def count(rows: CellRows, more: Mapping[str, Any], kept: Any, topics: Topics, summary: Summary) -> None:
    """Counts messages that kernels took as `Summary.count` does each. more: flags beside those of the rows."""
    message = rows.message[kept]
    if not len(message):
        return
    summary.messages += 1 + int(np.count_nonzero(message[1:] != message[:-1]))
    ops = np.bincount(rows.op[kept], minlength=256)
    for op in np.flatnonzero(ops).tolist():
        summary.rows[chr(op)] += int(ops[op])
    shapes = len(rows.shapes)
    pairs, counts = np.unique(topics.of[message] * shapes + rows.shape[kept], return_counts=True)
    for pair, found in zip(pairs.tolist(), counts.tolist(), strict=True):
        topic, shape = topics.names[pair // shapes], rows.shapes[pair % shapes]
        id_ = shape.table.id
        summary.used[topic, id_.db, id_.table, shape.table_version, shape.schema_id] += found
    for name in dict.fromkeys((*rows.flags, *more)):
        flagged = np.zeros(len(kept), bool)
        for flags in (rows.flags, more):
            if name in flags:
                flagged |= flags[name]
        if found := int(np.count_nonzero(flagged & kept)):
            summary.flags[name.partition(":")[0]] += found
