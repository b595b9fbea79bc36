"""Rows of any tables (`schemas.columnar.rows`) → Craft messages by compiled kernels, as `CraftEncoder` writes them.

The rows of a source message go into as few messages as the options allow. Left to the encoder are, beside what it
refuses: rows that came from Craft, source messages with rows of several tables, and TIMESTAMP that changes its zone.
Without numba all rows are left.
"""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.columns import decimal_size
from ticdc_bridge.schemas.columnar.debezium_writer import find_refused
from ticdc_bridge.schemas.columnar.kernels import craft_write as kernel
from ticdc_bridge.schemas.columnar.kernels.columns import copy_texts
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import (
    NO_COMMIT_TS,
    Binaries,
    Rows,
    RowShape,
    Topics,
    WrittenMessages,
    form_of,
    freeze,
)
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import values as craft_values
from ticdc_bridge.schemas.formats.craft.layout import check_utf8
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind
from ticdc_bridge.schemas.model.values import integer_limits

_MOST_LAYOUTS = 4096
_U, _D = ord("u"), ord("d")


class CraftWriter:
    """Compiled per shape and options (max_batch_size, max_message_bytes, no_old_value, delete_only_…)."""

    def __init__(self, context: Context) -> None:
        self._options = context.options
        self._layouts: dict[int, tuple[RowShape, Any]] = {}

    def write(self, rows: Rows, topics: Topics, timestamps: Any) -> WrittenMessages:
        """`RowsWriter.write`. Flags: those of `CraftEncoder`, by row."""
        count, options = len(rows.shape), self._options
        left, leads = np.ones(count, np.bool_), np.zeros(count, np.bool_)
        values: list[tuple[Any, Any, Any]] = []
        commit_ts, usable, flags = _commit_ts_of_rows(rows, timestamps, options)
        is_update, is_delete = rows.op == _U, rows.op == _D
        if not options.no_old_value:
            flags["no_before"] = is_update & (rows.before < 0)
        flags["key_only_delete"] = np.array([s.key_only for s in rows.shapes], np.bool_)[rows.shape]
        if COMPILED and count:
            if len(self._layouts) > _MOST_LAYOUTS:
                self._layouts = {}
            usable &= ~find_refused(rows, options) & (np.where(is_delete, rows.before, rows.after) >= 0)
            usable &= is_delete | ~flags["key_only_delete"]
            image_bits = np.where(is_delete, 2, 1 + 2 * (is_update & (rows.before >= 0) & (not options.no_old_value)))
            group = np.cumsum(_begins(rows.message) | _begins(topics.of))
            mixed = np.zeros(count + 1, np.bool_)  # by group, from 1 on
            mixed[group[_begins(rows.shape) & ~_begins(group)]] = True
            usable &= ~mixed[group]
            for number, shape in enumerate(rows.shapes):
                chosen = np.flatnonzero((rows.shape == number) & usable)
                layout = self._layout(shape) if len(chosen) else None
                if layout is not None:
                    values.append(_write(layout, rows, chosen, commit_ts, image_bits, group, options, left, leads))
        none = Binaries(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64), np.zeros(count, np.bool_))
        flags = {name: mask for name, mask in flags.items() if mask.any()}
        return WrittenMessages(none, _in_order(values, leads), left, flags, ~leads)

    def _layout(self, shape: RowShape) -> Any:
        """None where the encoder has to say why there is none."""
        entry = self._layouts.get(id(shape))
        if entry is None:
            try:
                layout = _compile_layout(shape, self._options)
            except (WireError, ValueError):
                layout = None
            entry = self._layouts[id(shape)] = shape, layout  # with the shape, so that no other one gets its id
        return entry[1]


def _commit_ts_of_rows(rows: Rows, timestamps: Any, options: Options) -> tuple[Any, Any, dict[str, Any]]:
    """(commit_ts of each row as `required_commit_ts` gives it, 0 for none; whether it is one; flags by name)."""
    unknown = rows.commit_ts == NO_COMMIT_TS
    is_synthetic = unknown & (timestamps > 0)
    usable = (rows.commit_ts >= NO_COMMIT_TS) & (~is_synthetic | (timestamps <= tso_physical_ms(MAX_TSO)))
    if options.on_lossy == "error":
        usable &= ~unknown | (rows.op != _D)
    synthetic = np.where(is_synthetic & usable, timestamps, 0) * ms_to_tso(1)
    commit_ts = np.ascontiguousarray(np.where(unknown, synthetic, rows.commit_ts), np.int64)
    return commit_ts, usable, {"synthetic_commit_ts": is_synthetic, "commit_ts_unknown": unknown & ~is_synthetic}


def _begins(numbers: Any) -> Any:
    """Where another number begins than before (bool)."""
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = numbers[1:] != numbers[:-1]
    return begins


# ---------------------------------------------------------------------------------- rows of one shape
def _write(
    layout: Any, rows: Rows, chosen: Any, commit_ts: Any, image_bits: Any, group: Any, options: Options, left: Any,
    leads: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Messages of the chosen rows → (the rows that they begin with, their bytes one after another, where each ends).

    left and leads (`WrittenMessages`) are brought up to date.
    """
    count, columns = len(chosen), len(layout.codes)
    short = image_bits[chosen] == 2
    short &= bool(options.delete_only_output_handle_key_columns)
    pieces = (commit_ts, image_bits, None, group, rows.after, rows.before, rows.step)
    arrays = [short if piece is None else piece[chosen] for piece in pieces]
    cells = map(freeze, (rows.start, rows.length, rows.data))
    plain = kernel.RowsToWrite._make((*(freeze(a, np.int64) for a in arrays), *cells))
    numbers, lengths = (np.zeros((count, 2 * columns), np.int64) for _ in range(2))
    bad = np.zeros(count, np.uint8)
    kernel.measure(layout, plain, numbers, lengths, bad)
    names = np.array([*np.diff(layout.name_ends, prepend=0)[layout.column] + 16] * 2, np.int64)
    database, table = layout.name_ends[0], layout.name_ends[layout.table] - layout.name_ends[max(layout.table - 1, 0)]
    contents = np.maximum(lengths, 0).sum(axis=1)
    estimates = 32 + database + (table if layout.table else database) + (lengths != -2) @ names + contents
    room = int(contents.sum()) + count * (2 * (12 + 20 * columns) + 180 + int(layout.name_ends[-1]) + 10 * columns)
    out, ends, begun = np.empty(room, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    kernel.write(layout, plain, numbers, lengths, estimates, bad, out, ends, begun)
    left[chosen] = bad != 0
    leads[chosen] = begun
    return chosen[begun], out, ends[begun]


def _in_order(values: list[tuple[Any, Any, Any]], leads: Any) -> Binaries:
    """Messages of several shapes → of all, by the rows that they begin with."""
    count = len(leads)
    start, length, size = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
    for rows, out, ends in values:
        length[rows] = np.diff(ends, prepend=0)
        start[rows] = size + ends - length[rows]
        size += len(out)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
    if len(values) == 1:
        return Binaries(values[0][1][: offsets[-1]], offsets, leads)
    out = np.empty(int(offsets[-1]), np.uint8)
    if values:
        copy_texts(freeze(np.concatenate([out for _, out, _ in values])), start, length, offsets, out)
    return Binaries(out, offsets, leads)


# ---------------------------------------------------------------------------------- layouts
def _compile_layout(shape: RowShape, options: Options) -> Any:
    """`craft_write.WriteLayout`. WireError, ValueError for a table that can't be written."""
    id_, columns = shape.table.id, tuple(c for c in shape.table.columns if not c.virtual)
    names = list(dict.fromkeys((id_.db, id_.table, *(c.name for c in columns))))
    cells = {column.name: n for n, column in enumerate(shape.columns)}
    if not (id_.db and id_.table and columns) or not cells.keys() <= set(names):
        raise ValueError("no table of Craft's")
    for name in names:
        check_utf8(name, name)
    elements: list[bytes] = []
    steps = [_step(column, shape, cells, elements, options) for column in columns]
    kinds = [craft_values.type_of(c) for c in columns]
    texts = [name.encode() for name in names]

    def array(numbers: Any) -> Any:
        return freeze(np.array(list(numbers), np.int64))

    def joined(pieces: list[bytes]) -> tuple[Any, Any]:
        ends = array(np.cumsum([len(p) for p in pieces] or [0]))
        return freeze(np.frombuffer(b"".join(pieces) or b"\0", np.uint8)), ends

    a = freeze(np.array([a & (1 << 64) - 1 for _, a, _ in steps], np.uint64).view(np.int64))
    return kernel.WriteLayout(
        *joined(texts), names.index(id_.table), array(names.index(c.name) for c in columns),
        array(code for code, _ in kinds), array(flags for _, flags in kinds), array(c.handle_key for c in columns),
        array(code for code, _, _ in steps), a, array(b for _, _, b in steps),
        array(cells.get(c.name, -1) for c in columns), *joined(elements), max(1, options.max_batch_size),
        options.max_message_bytes,
    )  # fmt: skip


def _step(
    column: Column, shape: RowShape, cells: dict[str, int], elements: list[bytes], options: Options
) -> tuple[int, int, int]:
    """How a column's values are written: (code, a, b) of `craft_write`."""
    kind = column.type.kind
    source = shape.columns[cells[column.name]] if column.name in cells else column
    named = kind in ELEMENTS
    if form_of(source) is not form_of(column) or (column.vague and not named and kind is not Kind.BIT):
        raise ValueError(column.name)
    if named:
        if not column.elements:
            return kernel.NOTHING, 0, 0
        first = len(elements)
        elements += [name.encode() for name in column.elements]
        return kernel.ENUM if kind is Kind.ENUM else kernel.SET, first, len(elements)
    if kind is Kind.TIMESTAMP:
        return kernel.DATETIME if shape.zone == options.time_zone else kernel.NOTHING, 0, 0
    if kind is Kind.INTEGER:
        low, high = integer_limits(column.type.bits, column.unsigned)
        return (kernel.UNSIGNED, high, 0) if column.unsigned else (kernel.SIGNED, low, high)
    if kind is Kind.DECIMAL:
        return kernel.DECIMAL, *decimal_size(column)
    if kind is Kind.BIT:
        return kernel.UNSIGNED, (1 << (column.length or 64)) - 1, 0
    codes = {
        Kind.YEAR: (kernel.YEAR, 0, 2155), Kind.FLOAT: (kernel.DOUBLE, 0, 0), Kind.DOUBLE: (kernel.DOUBLE, 0, 0),
        Kind.DATE: (kernel.DATE, 0, 0), Kind.DATETIME: (kernel.DATETIME, 0, 0), Kind.TIME: (kernel.TIME, 0, 0),
    }  # fmt: skip
    return codes.get(kind, (kernel.SPAN, 0, 0))
