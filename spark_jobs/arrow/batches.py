"""Batches with Kafka's columns, their readers, and what kernels and codec made of them put in order again."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar import READERS
from ticdc_bridge.schemas.columnar.rows import Binaries, Rows, RowsReader, Topics, find_distinct, freeze
from ticdc_bridge.schemas.formats.framing import SCHEMA_HEADERS, is_carried
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.arrow.input_batches import messages_of_lines
from ticdc_bridge.spark_jobs.arrow.library import array_of, pa, pc
from ticdc_bridge.spark_jobs.arrow.table_columns import table_columns_of
from ticdc_bridge.spark_jobs.arrow.worker_cache import get_cached
from ticdc_bridge.spark_jobs.io.message_files import rows_of
from ticdc_bridge.spark_jobs.io.parquet import HEADERS
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, MessageResult, Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice

FEW = 32
"""In batches with fewer messages the kernels' fixed costs are more than what they save."""


def instantiate(path: str, config: CodecConfig, **more: Any) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)(config.context(), **more)


Slow = Callable[[dict[str, Any]], Iterable[dict[str, Any]]]


def merge_in_order(chunk: Any, rest: Any, schema: Any, slow: Slow, fast: Any = None, origin: Any = None) -> Any:
    """Rows that kernels made, and those that `slow` makes of the other messages (`rest`), in message order.

    chunk: the messages; fast: a record batch of `schema`, origin: which message each of its rows is from.
    """
    if fast is not None and not len(rest):
        return fast
    others = chunk if len(rest) == chunk.num_rows else chunk.take(pa.array(rest))
    return merge_rows(rest, map(slow, rows_of(others)), schema, fast, origin)


def merge_rows(
    rest: Any, slow: Iterable[Iterable[dict[str, Any]]], schema: Any, fast: Any = None, origin: Any = None
) -> Any:
    """As `merge_in_order`. slow: of each message of `rest`, its rows."""
    rows: list[dict[str, Any]] = []
    origins: list[int] = []
    for index, slow_rows in zip(rest.tolist(), slow, strict=True):
        rows += slow_rows
        origins += [index] * (len(rows) - len(origins))
    made_slowly = pa.RecordBatch.from_pylist(rows, schema=schema)
    if fast is None or not fast.num_rows:
        return made_slowly
    order = np.argsort(np.concatenate((origin, np.array(origins, np.int64))), kind="stable")
    (merged,) = pa.Table.from_batches([fast, made_slowly]).combine_chunks().to_batches()
    return merged.take(pa.array(order))


# ---------------------------------------------------------------------------------------------- into kernels
def reader_of(config: CodecConfig, without_extra: bool = False, complete: bool = False) -> RowsReader:
    """without_extra: without what an Avro message has beside its row, which is of account to Avro's own encoder only.

    complete: what other messages have beside their rows can be told (schemas.columnar.plain_lines), and their columns'
    order is.
    """
    more: dict[str, Any] = {"complete": True} if complete else {}
    if config.format == "avro":
        from ticdc_bridge.schemas.columnar.avro_reader import CompiledSchemas

        zone = config.options.time_zone
        compiled = get_cached((CompiledSchemas, zone), lambda: CompiledSchemas(zone))
        more = {"without_extra": without_extra, "compiled": compiled}
    reader: RowsReader = instantiate(READERS[config.format], config, **more)
    return reader


def read_rows(reader: RowsReader, batch: Any) -> tuple[Rows, Any, Topics]:
    """A batch with key, value and topic → (rows, indices of the messages that are left, the messages' topics).

    Left are messages, too, whose schemas their headers name: the kernels know no headers.
    """
    coded = batch.column("topic").cast(pa.string()).dictionary_encode(null_encoding="encode")
    topics = Topics(coded.dictionary.to_pylist(), freeze(np.asarray(coded.indices).astype(np.int64)))
    pieces = [binaries(batch.column(name)) for name in ("key", "value")]
    named = _named_by_headers(batch)
    if named is not None:
        pieces = [replace(piece, valid=freeze(piece.valid & ~named)) for piece in pieces]
    rows, left = reader.read(pieces[0], pieces[1], topics)
    return rows, left, topics


def _named_by_headers(batch: Any) -> Any:
    """Which messages (bool) have a schema's id in their headers; None where none has, as almost always."""
    index = batch.schema.get_field_index("headers")
    if index < 0 or not pa.types.is_list(batch.column(index).type):
        return None
    column = batch.column(index)
    flat = column.flatten()
    if not len(flat):
        return None
    match = pc.is_in(flat.field("key"), value_set=_SCHEMA_HEADERS)
    named = np.zeros(batch.num_rows, bool)
    named[np.asarray(pc.list_parent_indices(column))[np.asarray(match)]] = True
    return named if named.any() else None


_SCHEMA_HEADERS = pa.array([name for names in SCHEMA_HEADERS.values() for name in names], pa.string())


def other_messages(batch: Any, rows: Rows, left: Any) -> Any:
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
        positions = np.zeros(count + 1, np.int64)
    else:
        positions = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    valid = np.ones(count, bool) if not column.null_count else np.asarray(column.is_valid())
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return Binaries(freeze(bytes_), freeze(positions), freeze(valid))


def header_counts(batch: Any) -> Any:
    """How many record headers each message of a batch has (int64); None where none has any, as almost always."""
    index = batch.schema.get_field_index("headers")
    if index < 0 or not pa.types.is_list(batch.column(index).type) or not len(batch.column(index).flatten()):
        return None
    return np.asarray(batch.column(index).value_lengths().fill_null(0)).astype(np.int64)


def headers_array(batch: Any, message: Any) -> Any:
    """The record headers of rows' messages (HEADERS), NULL where there are none. message: each row's."""
    counts = header_counts(batch)
    if counts is None:
        return pa.nulls(len(message), HEADERS)
    return batch.column("headers").take(pa.array(message, mask=counts[message] == 0)).cast(HEADERS)


def source_array(batch: Any, message: Any, kind: Any) -> Any:
    """Where the messages of rows came from. message: each row's, ascending; kind: the column's Arrow type."""
    once = len(message) == batch.num_rows and bool((message == np.arange(len(message))).all())
    position = None if once else pa.array(message)
    fields = list(kind)
    columns = [batch.column(f.name) if once else batch.column(f.name).take(position) for f in fields]
    arrays = [a if a.type == f.type else a.cast(f.type) for a, f in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def carried_array(headers: Any) -> Any:
    """Lists of headers without those that say how their message is written (framing.is_carried); empty for NULL."""
    counts, flat = np.asarray(headers.value_lengths().fill_null(0)), headers.flatten()
    if len(flat):
        names = flat.field("key").dictionary_encode(null_encoding="encode")
        stays = np.array([is_carried(name or "") for name in names.dictionary.to_pylist()])[np.asarray(names.indices)]
        if not stays.all():
            counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[stays], minlength=len(counts))
            flat = flat.filter(pa.array(stays))
    elif not headers.null_count:
        return headers
    offsets = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=headers.type)


def milliseconds(column: Any) -> tuple[Any, Any]:
    """(Kafka's timestamps in ms, -1: none; which of them have a fraction of one, or are none but not NULL)."""
    units = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    micros = np.asarray(units.fill_null(-1000) if units.null_count else units)
    odd = micros % 1000 != 0
    if len(micros) and micros.min() < 0:
        odd |= (micros < 0) & np.asarray(column.is_valid())
    return freeze(micros // 1000), odd


# ---------------------------------------------------------------------------------------------- out of kernels
def size(binaries: Binaries) -> int:
    return int(binaries.offsets[-1]) if len(binaries.offsets) else 0


def arrow_array(binaries: Binaries, kind: Any) -> Any:
    """Byte strings as an Arrow array, binary or string, without a copy of the bytes."""
    offsets = np.ascontiguousarray(binaries.offsets, dtype=np.int32)
    return array_of(kind, np.asarray(binaries.valid), offsets, np.ascontiguousarray(binaries.data))


def op_array(ops: Any) -> Any:
    """The letters of rows' ops (uint8: c, u or d) as an Arrow array of text."""
    positions = np.arange(len(ops) + 1, dtype=np.int32)
    return array_of(pa.string(), np.ones(len(ops), bool), positions, np.ascontiguousarray(ops))


def numbers_in_message(message: Any) -> Any:
    """The number (int32) of each element among those of its message; what a message has stands together."""
    count = len(message)
    if not count:
        return np.zeros(0, np.int32)
    begins = np.concatenate((np.ones(1, bool), message[1:] != message[:-1]))
    if begins.all():
        return np.zeros(count, np.int32)
    positions = np.arange(count)
    return (positions - np.maximum.accumulate(np.where(begins, positions, 0))).astype(np.int32)


def count_rows(rows: Rows, more: Mapping[str, Any], mask: Any, topics: Topics, summary: Summary | None) -> None:
    """Counts messages that kernels took as `Summary.count` does each. more: flags beside those of the rows."""
    message = rows.message[mask]
    if summary is None or not len(message):
        return
    summary.messages += 1 + int(np.count_nonzero(message[1:] != message[:-1]))
    ops = np.bincount(rows.op[mask], minlength=256)
    for op in np.flatnonzero(ops).tolist():
        summary.rows[chr(op)] += int(ops[op])
    shapes = len(rows.shapes)
    pairs, _, back = find_distinct(topics.of[message] * shapes + rows.shape[mask])
    for pair, count in zip(pairs.tolist(), np.bincount(back).tolist(), strict=True):
        topic, shape = topics.names[pair // shapes], rows.shapes[pair % shapes]
        id_ = shape.table.id
        summary.used[topic, id_.db, id_.table, shape.table_version, shape.schema_id] += count
    for name in dict.fromkeys((*rows.flags, *more)):
        flagged = np.zeros(len(mask), bool)
        for flags in (rows.flags, more):
            if name in flags:
                flagged |= flags[name]
        if count := int(np.count_nonzero(flagged & mask)):
            summary.flags[name.partition(":")[0]] += count


def leave_out(rows: Rows, chosen: TableChoice | None, slow: Any, summary: Summary | None) -> Any:
    """Which rows (bool) are made by kernels. chosen: the tables that are taken, rows of others are counted; None: all.

    slow: the messages that are left to the codec; those with rows of both kinds become some.
    """
    if chosen is None:
        return ~slow[rows.message]
    taken = np.array([chosen.takes(shape.table.id) for shape in rows.shapes], bool)[rows.shape]
    has_taken, has_others = np.zeros(len(slow), bool), np.zeros(len(slow), bool)
    has_taken[rows.message[taken]] = True
    has_others[rows.message[~taken]] = True
    slow |= has_taken & has_others
    fast = ~slow[rows.message]
    if summary is not None and (count := int(np.count_nonzero(fast & ~taken))):
        summary.messages += len(np.unique(rows.message[fast & ~taken]))
        summary.skipped[OTHER_TABLE] += count
    return fast & taken


class BatchReader(ABC):
    """One task's decoders, plain and compiled. Not for several threads at once."""

    def __init__(self, config: CodecConfig, fits: bool, needed: frozenset[str]) -> None:
        """fits: whether the compiled ones read what the side does. needed: columns that a batch of messages needs."""
        self._config, self._fits, self._needed = config, fits, needed
        self._table = table_columns_of(config)

    @cached_property
    def _plain(self) -> Any:
        decoder, verify, chosen = self._config.decoder(), self._config.verify_checksum, self._config.chosen
        return lambda message: decode_message(decoder, message, verify, chosen=chosen)

    def process_message(self, message: Message) -> MessageResult:
        """A message by the plain codec."""
        result: MessageResult = self._plain(message)
        return result

    def process_batch(self, batch: Any, summary: Summary | None = None) -> Iterator[tuple[Any, Any, Any]]:
        """A batch with Kafka's columns, or of lines (spark_jobs.arrow.input_batches), which get them → parts of it, in
        order: (messages, what kernels made, indices of the rest).

        Messages that the kernels took are counted in `summary`; the rest (int64) is left to the caller.
        """
        names = set(batch.schema.names)
        if not self._fits or batch.num_rows < FEW or not (names >= self._needed or "line" in names):
            yield batch, None, np.arange(batch.num_rows)
            return
        batch = messages_of_lines(batch)
        read = read_rows(self._reader, batch)
        try:
            output, slow = self._build_output(batch, *read, summary)
        except ValueError:  # too much for one array, or what the kernels have no text for
            if batch.num_rows == 1:
                yield batch, None, np.arange(1)
                return
            half = batch.num_rows // 2
            yield from self.process_batch(batch.slice(0, half), summary)
            yield from self.process_batch(batch.slice(half), summary)
            return
        yield batch, output, np.flatnonzero(slow)

    @property
    @abstractmethod
    def _reader(self) -> RowsReader: ...

    @abstractmethod
    def _build_output(self, batch: Any, rows: Rows, left: Any, topics: Any, summary: Summary | None) -> tuple[Any, Any]:
        """What was read of a batch → (what is made of it, and counted; which messages, bool, are left).

        ValueError: too much for one array, or what the kernels have no text for.
        """


def several_flags(rows: Rows) -> Any:
    """Rows with more than one flag: in which order is the decoder's to say."""
    count = np.zeros(len(rows.message), np.int64)
    for flagged in rows.flags.values():
        count += flagged
    return count > 1
