"""Arrow batches of messages → Arrow batches of change events, by compiled readers; the codec reads what they leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow

from schemas import columnar
from schemas.columnar.kernels.jit import COMPILED
from schemas.columnar.plain_lines import plain_texts
from schemas.columnar.rows import ABSENT, NO_COMMIT_TS, Rows, RowsReader
from spark_jobs.arrow import batches as cells
from spark_jobs.arrow.batches import BatchReader, several_flags
from spark_jobs.arrow.table_rows import source_array
from spark_jobs.arrow.view_checks import ViewCheck
from spark_jobs.pipeline.codec_config import CodecConfig
from spark_jobs.pipeline.result import Summary

pa: Any = pyarrow  # the stubs know less than the library


_PLACE = frozenset(("topic", "partition", "offset", "timestamp"))
_OP_BITS = 18  # of a TSO, below its milliseconds
_MOST_BYTES = 1 << 30  # of texts at a time: offsets of Arrow's strings have 31 bits


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Events that the kernels read, in message order: a record batch, and each one's message in the batch (int64)."""

    origin: Any
    rows: Any


def can_read_changes(side: CodecConfig) -> bool:
    """Whether change events of what a side reads come from kernels. Rows that a checksum judges do not."""
    is_readable = side.format in columnar.READERS and (side.tables is not None or side.format == "avro")
    return COMPILED and is_readable and not side.verify_checksum


class ChangeReader(BatchReader):
    """Messages → change events."""

    def __init__(self, side: CodecConfig, schema: Any) -> None:
        """schema: CHANGES as Arrow has it, or with structs of the side's view; then a row of another table is of the
        kind `other`. Rows that a checksum judges, or that the view may refuse, go through the plain codec.
        """
        super().__init__(side, can_read_changes(side), _PLACE)
        self._schema = schema

    @cached_property
    def _reader(self) -> RowsReader:
        return cells.reader_of(self._side, bare=True)  # CHANGES says nothing beside the row

    def _build_output(
        self, batch: Any, rows: Rows, left: Any, topics: Any, summary: Summary | None
    ) -> tuple[ChangeBatch, Any]:
        texts = _texts(rows)
        slow = cells.other_messages(batch, rows, left)
        slow[rows.message[several_flags(rows)]] = True
        if self._view is not None:
            slow[rows.message[self._view.find_doubtful(rows, texts)]] = True
        slow |= cells.milliseconds(batch.column("timestamp"))[1]
        mask = ~slow[rows.message]
        if self._side.chosen is not None:
            mask = cells.leave_out(rows, self._side.chosen, slow, summary)
        events = _events(rows, np.flatnonzero(mask), texts, batch, self._schema, self._view)
        if summary is not None:
            cells.count_rows(rows, {}, mask, topics, summary)
        return ChangeBatch(rows.message[mask], events), slow


def _texts(rows: Rows) -> Any:
    """The plain form of each cell, an Arrow array. ValueError where that is too much for one."""
    texts = plain_texts(rows)
    if len(texts.data) > _MOST_BYTES:
        raise ValueError("too many texts for one batch")
    return cells.arrow_array(texts, pa.string())


def _events(rows: Rows, chosen: Any, texts: Any, batch: Any, schema: Any, view: ViewCheck | None) -> Any:
    """The chosen rows as a record batch of the schema."""
    of, message = rows.shape[chosen], rows.message[chosen]
    shape, count = pa.array(of), len(chosen)
    stamps = rows.commit_ts[chosen]
    unstamped = stamps == NO_COMMIT_TS
    shapes = rows.shapes
    by_shape = {
        "db": [s.table.id.db for s in shapes], "table": [s.table.id.table for s in shapes],
        "schema_id": [s.schema_id for s in shapes], "table_version": [s.table_version for s in shapes],
        "key": [list(s.key) for s in shapes],
    }  # fmt: skip
    columns = {name: pa.array(values, schema.field(name).type).take(shape) for name, values in by_shape.items()}
    typed = pa.types.is_struct(schema.field("before").type)

    def side(name: str, first: Any) -> Any:
        kind = schema.field(name).type
        if not typed:
            return _maps(rows, chosen, first, texts, kind)
        assert view is not None
        return view.structs(rows, chosen, first, texts, kind)

    kinds = view.kinds(shapes) if typed and view is not None else ["row"] * len(shapes)
    columns |= {
        "kind": pa.array(kinds, pa.string()).take(shape),
        "op": cells.op_array(rows.op[chosen]),
        "commit_ts": pa.array(stamps, mask=unstamped),
        "commit_time": pa.array((stamps >> _OP_BITS) * 1000, mask=unstamped).view(schema.field("commit_time").type),
        "before": side("before", rows.before),
        "after": side("after", rows.after),
        "flags": _flags(rows, chosen, schema.field("flags").type),
        "row": pa.array(cells.numbers_in_message(message)),
        "source": source_array(batch, message, schema.field("source").type),
    }
    if "headers" in schema.names:
        columns["headers"] = cells.headers_array(batch, message)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _maps(rows: Rows, chosen: Any, first: Any, texts: Any, kind: Any) -> Any:
    """One side of the chosen rows: the columns that the row has, and their texts."""
    first, of, step = first[chosen], rows.shape[chosen], rows.step[chosen]
    widths = np.array([len(s.columns) for s in rows.shapes] or [0], np.int64)
    names = pa.array([c.name for s in rows.shapes for c in s.columns], pa.string())
    none = first < 0
    counts = np.where(none, 0, widths[of]) if len(of) else np.zeros(0, np.int64)
    ends = np.cumsum(counts)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    cell = np.repeat(first, counts) + np.repeat(step, counts) * within
    column = np.repeat((np.cumsum(widths) - widths)[of], counts) + within
    there = rows.length[cell] != ABSENT
    if not there.all():
        owner = np.repeat(np.arange(len(counts)), counts)[there]
        cell, column, counts = cell[there], column[there], np.bincount(owner, minlength=len(counts))
    items = texts if len(cell) == len(texts) and (cell == np.arange(len(cell))).all() else texts.take(pa.array(cell))
    mask = pa.array(none) if none.any() else None
    return pa.MapArray.from_arrays(_offsets(counts), names.take(pa.array(column)), items, type=kind, mask=mask)


def _flags(rows: Rows, chosen: Any, kind: Any) -> Any:
    which = np.zeros(len(chosen), np.int64)  # of a row with one flag, its number from 1 on
    for number, flagged in enumerate(rows.flags.values(), 1):
        which[flagged[chosen]] = number
    there = which > 0
    values = pa.array(list(rows.flags), pa.string()).take(pa.array(which[there] - 1))
    return pa.ListArray.from_arrays(_offsets(there.astype(np.int64)), values, type=kind)


def _offsets(counts: Any) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets)
