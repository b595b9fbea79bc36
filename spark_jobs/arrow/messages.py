"""Arrow batches of messages → messages of another format, by compiled readers and writers (schemas.columnar).

What the kernels leave goes through the plain codec; the outcome, counts included, is that of `message_codec`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar import READERS, WRITERS
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import Rows, RowsReader, RowsWriter, Topics
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.arrow import batches as cells
from ticdc_bridge.spark_jobs.arrow.batches import BatchReader
from ticdc_bridge.spark_jobs.arrow.input_batches import messages_of_lines
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.worker_cache import get_cached
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.topic_rules import table_topic_by_rule

_BY_OPTIONS = frozenset(["craft", "debezium"])
"""Writers that nothing but their options and the rows is of account to."""


_MOST_BYTES = 1 << 30  # of what is written at a time: offsets of Arrow's binaries have 31 bits


def can_transcode(read: str, write: str) -> bool:
    """True if there are kernels from one format to the other."""
    return COMPILED and read in READERS and write in WRITERS and (read, write) not in _NOT


_NOT = frozenset([("debezium", "debezium"), ("craft", "craft")])
"""The encoder writes again what the message says beside its rows (`RowChange.extra`), and cells have no room for it."""


@dataclass(frozen=True, slots=True)
class KernelOutput:
    """What the kernels wrote, in message order.

    origin (int64): each one's message in the batch; number (int32): its number among what that message gave; keys and
    values: Arrow arrays in binary; to: where each goes.
    """

    origin: Any
    number: Any
    keys: Any
    values: Any
    to: Topics

    @property
    def topics(self) -> Any:
        """Where each goes, as an Arrow array of text."""
        if len(self.to.names) == 1:
            return pa.repeat(pa.scalar(self.to.names[0], pa.string()), len(self.origin))
        return pa.array(list(self.to.names), pa.string()).take(pa.array(self.to.of))

    def record_batch(self, chunk: Any, schema: Any, /, **more: Any) -> Any:
        """A record batch of the schema: what was written, and of the messages what else the schema names."""
        columns = {"key": self.keys, "value": self.values, **more}
        if "topic" in schema.names:
            columns["topic"] = self.topics
        same = len(self.origin) == chunk.num_rows and bool((self.origin == np.arange(chunk.num_rows)).all())
        which = None if same else pa.array(self.origin)
        arrays = []
        for field in schema:
            array = columns.get(field.name)
            if array is None:
                array = chunk.column(field.name)
                array = array if which is None else array.take(which)
                array = cells.carried_array(array) if field.name == "headers" else array
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Transcoder(BatchReader):
    """Messages → messages of another format. SetupError where a source of schemas or tables is away."""

    def __init__(self, read: CodecConfig, write: CodecConfig, topic: str | None = None, marked: bool = False) -> None:
        """topic, marked: as `message_codec.transcode_message` has them; with marks all goes by the plain codec."""
        super().__init__(read, can_transcode(read.format, write.format) and not marked, frozenset(("topic",)))
        self._write, self._topic, self._marked = write, topic, marked

    @cached_property
    def _plain(self) -> Any:
        decoder, encoder, chosen = self._config.decoder(), self._write.encoder(), self._config.chosen
        return lambda message: transcode_message(decoder, encoder, message, self._topic, self._marked, chosen)

    @cached_property
    def _reader(self) -> RowsReader:
        return cells.reader_of(self._config, without_extra=self._write.format != "avro")

    @cached_property
    def _writer(self) -> RowsWriter:
        config = self._write
        make: Callable[[], RowsWriter] = partial(cells.instantiate, WRITERS[config.format], config)
        return get_cached((WRITERS[config.format], config.options), make) if config.format in _BY_OPTIONS else make()

    def _build_output(
        self, batch: Any, rows: Rows, left: Any, topics: Topics, summary: Summary | None
    ) -> tuple[KernelOutput, Any]:
        stamps, odd = cells.milliseconds(batch.column("timestamp"))
        to = Topics(topics.names, topics.of[rows.message])
        if self._topic is not None:
            to = Topics([table_topic_by_rule(self._topic, s.table.id) for s in rows.shapes], rows.shape)
        output = self._writer.write(rows, to, stamps[rows.message])
        if max(cells.size(output.keys), cells.size(output.values)) > _MOST_BYTES:
            raise ValueError("too many bytes for one batch")
        slow = cells.other_messages(batch, rows, left)
        # Rows with nothing but their key that are no deletes: few formats have a form for them (codec._encode).
        key_only = np.array([s.key_only for s in rows.shapes], bool)
        refused = key_only[rows.shape] & (rows.op != ord("d")) if key_only.any() else False
        slow[rows.message[output.left | refused]] = True
        slow |= odd
        mask = cells.leave_out(rows, self._config.chosen, slow, summary)
        cells.count_rows(rows, output.flags, mask, topics, summary)
        keys, values = cells.arrow_array(output.keys, pa.binary()), cells.arrow_array(output.values, pa.binary())
        message, of = np.asarray(rows.message), np.asarray(to.of)
        if output.within is not None:
            mask = mask & ~output.within
        if not mask.all():
            which = np.flatnonzero(mask)
            keys, values, message = keys.take(pa.array(which)), values.take(pa.array(which)), message[which]
            of = of[which]
        return KernelOutput(message, cells.numbers_in_message(message), keys, values, Topics(to.names, of)), slow


class RowFinder:
    """Tells messages of rows, which a kernel takes, from others, which may be DDL."""

    def __init__(self, read: CodecConfig) -> None:
        self._read = read

    @cached_property
    def _reader(self) -> RowsReader:
        return cells.reader_of(self._read)

    def find_others(self, batch: Any) -> Any:
        """The messages that are not surely rows and nothing else; all where there is no kernel, or no definitions."""
        is_readable = COMPILED and self._read.format in READERS and self._read.tables is not None
        if not is_readable or batch.num_rows < cells.FEW or not {"topic", "line"} & set(batch.schema.names):
            return batch
        batch = messages_of_lines(batch)
        try:
            rows, left, _ = cells.read_rows(self._reader, batch)
        except SetupError:
            return batch  # definitions are away: whoever needs a message's table says so
        return batch.filter(pa.array(cells.other_messages(batch, rows, left)))
