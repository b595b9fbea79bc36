"""Arrow batches of messages → lines of the plain form, by compiled readers and a compiled writer.

What the kernels leave goes through the plain codec; the outcome, counts included, is `message_codec`'s.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.plain_lines import NONE
from ticdc_bridge.schemas.columnar.plain_lines import EXTRA_FIELDS, plain_lines, plain_texts
from ticdc_bridge.schemas.columnar.rows import Rows, RowsReader
from ticdc_bridge.schemas.plain.writer import b64, json_line
from ticdc_bridge.spark_jobs.arrow import batches as cells
from ticdc_bridge.spark_jobs.arrow.batches import BatchReader, several_flags
from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.result import Summary

_POSITION_COLUMNS = frozenset(("topic", "partition", "offset"))
_MOST_BYTES = 1 << 30  # of texts at a time: offsets of Arrow's strings have 31 bits


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Lines that kernels wrote, in message order: of which message (int64), its number there (int32), its text."""

    origin: Any
    number: Any
    lines: Any


def can_write_lines(config: CodecConfig, marked: bool = False) -> bool:
    """True if kernels write lines of what is read: not of rows that a checksum judges, nor of events with marks."""
    is_readable = config.format in EXTRA_FIELDS and (config.tables is not None or config.format == "avro")
    return COMPILED and is_readable and not (config.verify_checksum or marked)


class LineReader(BatchReader):
    """Messages → lines of the plain form."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(config, can_write_lines(config), _POSITION_COLUMNS)

    @cached_property
    def _reader(self) -> RowsReader:
        return cells.reader_of(self._config, complete=True)

    def _build_output(
        self, batch: Any, rows: Rows, left: Any, topics: Any, summary: Summary | None
    ) -> tuple[LineBatch, Any]:
        slow = cells.other_messages(batch, rows, left)
        extra, untold = EXTRA_FIELDS[self._config.format](cells.binaries(batch.column("value")), rows.message)
        slow[rows.message[several_flags(rows) | untold]] = True
        texts = plain_texts(rows)
        if self._table is not None:
            slow[rows.message[self._table.find_doubtful(rows)]] = True
        columns = (batch.column(name).cast(pa.int64()).fill_null(NONE) for name in ("partition", "offset"))
        origins = (topics.of[rows.message], *(np.asarray(column)[rows.message] for column in columns))
        written = plain_lines(rows, texts, self._config.format, topics.names, origins, extra)
        if len(written.data) > _MOST_BYTES:
            raise ValueError("too many lines for one batch")
        lines = _with_headers(cells.arrow_array(written, pa.string()), batch, rows.message)
        mask = cells.leave_out(rows, self._config.chosen, slow, summary)
        cells.count_rows(rows, {}, mask, topics, summary)
        message, chunk = rows.message, cells.numbers_in_message(rows.message)
        if not mask.all():
            which = np.flatnonzero(mask)
            message, chunk, lines = message[which], chunk[which], lines.take(pa.array(which))
        return LineBatch(message, chunk, lines), slow


def _with_headers(lines: Any, batch: Any, message: Any) -> Any:
    """The lines, each with its message's record headers if it has any (schemas.plain.writer). message: each line's."""
    counts = cells.header_counts(batch)
    if counts is None or not len(lines):
        return lines
    which = np.flatnonzero(counts)
    ends = np.full(batch.num_rows, "}", object)
    for index, headers in zip(which.tolist(), batch.column("headers").take(pa.array(which)).to_pylist(), strict=True):
        text = json_line([[header["key"], b64(header["value"])] for header in headers])
        ends[index] = f', "headers": {text}}}'
    heads = pc.utf8_slice_codeunits(lines, 0, -1)
    return pc.binary_join_element_wise(heads, pa.array(ends[message], pa.string()), "")
