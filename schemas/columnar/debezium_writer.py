"""Rows of any tables (`schemas.columnar.rows`) → TiCDC Debezium JSON by a compiled kernel, as `DebeziumEncoder` does.

Programs are made once per Shape, from the encoder's own plans; a batch is one call of the kernel, whatever tables its
rows are of. Without numba all rows are left.
"""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import json_write as kernel
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.json_write import REFUSE, SILENT, JsonSteps
from ticdc_bridge.schemas.columnar.kernels.temporal import NEVER, ONCE, TWICE
from ticdc_bridge.schemas.columnar.rows import (
    NO_COMMIT_TS,
    Binaries,
    Rows,
    RowShape,
    Topics,
    WrittenMessages,
    find_distinct,
    form_of,
    freeze,
)
from ticdc_bridge.schemas.columnar.time_zones import FIRST, LAST, zone_changes
from ticdc_bridge.schemas.formats.base import Context, says_changed
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium import ticdc
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

# ---- Plans of tables (`schemas.formats.debezium.ticdc`) → programs of the kernel that writes JSON
# (`schemas.columnar.kernels.json_write`).

_SLOTS = {
    ticdc.Slot.KEY: kernel.KEY, ticdc.Slot.BEFORE: kernel.BEFORE, ticdc.Slot.AFTER: kernel.AFTER,
    ticdc.Slot.SOURCE_MS: kernel.MS, ticdc.Slot.TS_MS: kernel.MS, ticdc.Slot.COMMIT_TS: kernel.COMMIT,
}  # fmt: skip


class Compiler:
    """Programs one after another, with the zones and the names of flags that they need."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._text = bytearray()
        self._spans: dict[str, tuple[int, int]] = {}
        self._steps: list[tuple[int, ...]] = []
        self._table: list[tuple[int, ...]] = []
        self._zones: dict[str, tuple[int, int]] = {}
        self._stretches: list[tuple[int, int, int]] = []
        self._made: tuple[JsonSteps, Any] | None = None
        self.flags: dict[str, int] = {}

    @property
    def size(self) -> int:
        """Bytes of literals so far."""
        return len(self._text)

    def add(self, shape: RowShape, plan: ticdc.RowTexts) -> int:
        """The number of the first of the shape's programs.

        ValueError for a zone or text that is none, and for rows that the kernel can't write, whatever their values are.
        """
        steps, start, size = len(self._steps), len(self._table), len(self._text)
        self._spans = {}  # the envelopes of a table have much in common
        try:
            keys = self._object(shape, plan.key, True)
            row = self._object(shape, plan.columns, False)
            key = self._layout(plan.key_layout)
            for kind in ticdc.KINDS:
                value = self._layout(plan.values[kind])
                rows = sum(p in (ticdc.Slot.BEFORE, ticdc.Slot.AFTER) for p in plan.values[kind])
                sizes = (self._size(key) + self._size(keys), self._size(value) + rows * self._size(row))
                self._table.append((*key, *value, *keys, *row, *sizes, len(shape.columns), kind == "d"))
        except ValueError:
            del self._steps[steps:], self._table[start:], self._text[size:]
            raise
        self._made = None
        return start

    def arrays(self) -> tuple[JsonSteps, Any]:
        """The programs so far, as the kernel takes it: programs and zones."""
        if self._made is None:
            text = freeze(np.frombuffer(bytes(self._text), np.uint8))
            steps = freeze(np.array(self._steps, np.int64).reshape(-1))
            table = freeze(np.array(self._table, np.int64).reshape(-1, kernel.OF_BEFORE + 1))
            self._made = JsonSteps(text, steps, table), freeze(np.array(self._stretches, np.int64).reshape(-1, 3))
        return self._made

    # ---- steps
    def _step(self, literal: str, op: int, *more: int) -> None:
        if literal not in self._spans:
            start = len(self._text)
            self._text += literal.encode("utf-8", "surrogateescape")
            self._spans[literal] = start, len(self._text)
        column, a, b, note, lack = more or (0, 0, 0, SILENT, kernel.PRESENT)
        self._steps.append((*self._spans[literal], op, column, a, b, note, lack))

    def _size(self, steps: tuple[int, int]) -> int:
        return sum(step[kernel.TO] - step[kernel.FROM] for step in self._steps[slice(*steps)])

    def _layout(self, layout: ticdc.Layout) -> tuple[int, int]:
        first, literal = len(self._steps), ""
        for piece in layout:
            if isinstance(piece, str):
                literal += piece
            elif piece is ticdc.Slot.START_TS:
                literal += "0"  # it is not known
            else:
                self._step(literal, _SLOTS[piece])
                literal = ""
        self._step(literal, kernel.END)
        return first, len(self._steps)

    def _object(self, shape: RowShape, cells: tuple[ticdc.ColumnTexts, ...], key: bool) -> tuple[int, int]:
        indexes = {c.name: n for n, c in enumerate(shape.columns)}
        first, lead = len(self._steps), "{"
        for cell in cells:
            column, name = cell.column, cell.column.name
            lacks = shape.key_only and not key and name not in shape.key
            if (index := indexes.get(name)) is None:
                if not lacks:
                    raise ValueError(name)
                self._step(f"{lead}{cell.name}null", kernel.END)
            else:
                if form_of(shape.columns[index]) is not form_of(column):
                    raise ValueError(name)
                op, a, b, note = self._value(column, shape.zone)
                self._step(lead + cell.name, op, index, a, b, note, kernel.LACKS if lacks else kernel.PRESENT)
            lead = ","
        self._step("}" if cells else "{}", kernel.END)
        return first, len(self._steps)

    # ---- values: (op, a, b, note), as the writers of `values` do
    def _value(self, column: Column, zone: str) -> tuple[int, int, int, int]:
        kind = column.type.kind
        if kind is Kind.TIMESTAMP:
            return kernel.TIMESTAMP, *self._zone(zone), self._flag("timestamp_fold", column)
        if kind is Kind.INTEGER:
            bits = column.type.bits
            if column.unsigned and bits == 64:
                silent = self._options.enable_tidb_extension
                return kernel.UNSIGNED, 0, 0, SILENT if silent else self._lossy_flag("unsigned_wrapped", column)
            return kernel.SIGNED, *values.integer_limits(bits, column.unsigned), SILENT
        if kind is Kind.DECIMAL:
            return kernel.DECIMAL, 0, 0, self._lossy_flag("lossy_decimal", column)
        if kind in (Kind.DATE, Kind.DATETIME):
            op = kernel.DATE
            if kind is Kind.DATETIME:
                op = kernel.MILLIS if publish.in_milliseconds(column) else kernel.MICROS
            return op, int(not column.nullable), 0, self._lossy_flag("zero_date", column)
        if kind is Kind.BIT and column.length != 1:
            if column.length is None or column.length > 64:
                return kernel.NOTHING, 0, 0, SILENT
            return kernel.BITS, values.bit_size(column.length), 0, SILENT
        return _OPS[kind], 0, 0, SILENT

    def _flag(self, name: str, column: Column) -> int:
        return self.flags.setdefault(f"{name}:{column.name}", len(self.flags))

    def _lossy_flag(self, name: str, column: Column) -> int:
        return self._flag(name, column) if self._options.on_lossy == "flag" else REFUSE

    def _zone(self, name: str) -> tuple[int, int]:
        """A zone's stretches; -1 for UTC, as a row's zone has to be called for its times to stay as they are."""
        if name == "UTC":
            return -1, -1
        if name not in self._zones:
            stretches = _stretches(name)
            first = len(self._stretches)
            self._stretches += stretches
            self._zones[name] = first, len(self._stretches)
        return self._zones[name]


def _stretches(name: str) -> list[tuple[int, int, int]]:
    """A zone as stretches of local time: (first second, offset, how often a clock shows its times)."""
    (start, offset), *changes = zone_changes(name)
    stretches = [(start + offset, offset, ONCE)]
    for at, after in changes:
        if after > offset:
            stretches += [(at + offset, 0, NEVER), (at + after, after, ONCE)]
        else:
            stretches += [(at + after, offset, TWICE), (at + offset, after, ONCE)]
        offset = after
    ends = [start for start, _, _ in stretches[1:]] + [LAST]
    ended = zip(stretches, ends, strict=True)
    within = [(max(s, FIRST), offset, times) for (s, offset, times), end in ended if end > FIRST]
    return [*(s for s in within if s[0] < LAST), (LAST, 0, NEVER)]


_OPS = {
    Kind.YEAR: kernel.YEAR, Kind.FLOAT: kernel.FLOAT, Kind.DOUBLE: kernel.DOUBLE, Kind.BIT: kernel.BOOLEAN,
    Kind.BINARY: kernel.BASE64, Kind.TIME: kernel.TIME,
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), kernel.STRING),
}  # fmt: skip

_MOST_PROGRAMS, _MOST_TEXT = 4096, 64 << 20
_MOST_UNSIZED = 31  # DATETIME columns without fsp, of a table
_NO_COMMIT_TS = 1 << _MOST_UNSIZED  # a bit beside theirs: of rows whose commit_ts is null
_ROOM = 1 << 16


class DebeziumWriter:
    """Writes what `DebeziumEncoder` does for the same rows, where they carry nothing beyond their cells (`extra`)."""

    def __init__(self, context: Context) -> None:
        self.options = context.options
        if COMPILED:
            self._forget()

    def _forget(self) -> None:
        self.compiler = Compiler(self.options)
        # Of a shape with bits of `_bits`: by object, and by what it says, for one that is made anew.
        self._programs: dict[tuple[int, int], tuple[RowShape, int]] = {}
        self._equal: dict[tuple[RowShape, int], int] = {}

    def write(self, rows: Rows, topics: Topics, timestamps: Any) -> WrittenMessages:
        """timestamps: of each row (`RowsWriter`). Flags: those of `DebeziumEncoder`, by row."""
        count = len(rows.shape)
        if not COMPILED or not count:
            return WrittenMessages.nothing(count)
        if len(self._programs) > _MOST_PROGRAMS or self.compiler.size > _MOST_TEXT:
            self._forget()
        return _Batch(self, rows, timestamps).write()

    def program(self, shape: RowShape, bits: int) -> int:
        """The first program of a shape, -1 where the encoder has to say why there is none. bits: see `_bits`."""
        entry = self._programs.get((id(shape), bits))
        if entry is None:
            if self.compiler.size > 2 * _MOST_TEXT:
                return -1  # the next batch starts anew
            number = self._equal.get((shape, bits))
            if number is None:
                number = self._equal[shape, bits] = self._compile(shape, bits)
            entry = self._programs[id(shape), bits] = shape, number  # with the shape, so that no other one gets its id
        return entry[1]

    def _compile(self, shape: RowShape, bits: int) -> int:
        scales = {c.name: 6 if bits >> n & 1 else 3 for n, c in enumerate(ticdc.unsized_columns(shape.table))}
        key_columns = frozenset(shape.key) if shape.key_only else None
        try:
            plan = ticdc.compile_plan(
                shape.table, scales, key_columns, self.options.cluster_id, self.options,
                has_commit_ts=not bits & _NO_COMMIT_TS,
            )  # fmt: skip
            return self.compiler.add(shape, plan)
        except (WireError, ValueError):
            return -1


def find_refused(rows: Rows, options: Options, keeps: str = "") -> Any:
    """Rows (bool) that an encoder refuses for what they are flagged with, but for flags that begin with `keeps`."""
    refused = np.zeros(len(rows.shape), np.bool_)
    for name, mask in rows.flags.items():
        if options.on_lossy == "error" and says_changed(name) and not (keeps and name.startswith(keeps)):
            refused |= mask
    return refused


class _Batch:
    """One batch on its way through the kernel."""

    def __init__(self, writer: DebeziumWriter, rows: Rows, timestamps: Any) -> None:
        self._writer, self._rows, self._options = writer, rows, writer.options
        self._count = len(rows.shape)
        self._shape = np.ascontiguousarray(rows.shape, np.int64)
        unset = np.zeros(0, np.int64)
        unknown = rows.commit_ts == NO_COMMIT_TS
        self._flags = {"commit_ts_unknown": unknown}
        commit_ts = np.ascontiguousarray(np.where(unknown, ~np.maximum(timestamps, 0), rows.commit_ts), np.int64)
        arrays = (unset, commit_ts, rows.after, rows.before, rows.step, rows.start, rows.length)
        by_cell = (freeze(array, np.int64) for array in arrays)
        self._cells = kernel.JsonRows._make((*by_cell, freeze(rows.data, np.uint8)))
        self._program = freeze(np.where(self._find_usable(rows.commit_ts >= NO_COMMIT_TS), self._programs(), -1))

    # ---- what each row is
    def _find_usable(self, usable: Any) -> Any:
        """Rows with the sides that their op has, and none that the encoder refuses for what it was flagged with."""
        rows = self._rows
        old, new, delete = rows.before >= 0, rows.after >= 0, rows.op == ord("d")
        key_only = np.array([s.key_only for s in rows.shapes], np.bool_)[self._shape]
        usable = usable & np.where(delete, old & ~new, new & (old <= (rows.op == ord("u"))) & ~key_only)
        usable &= delete | np.isin(rows.op, (ord("c"), ord("u")))
        self._flags["key_only_delete"] = key_only
        if self._options.update_without_before == "key-before":
            usable &= old | (rows.op != ord("u"))
        return usable & ~find_refused(rows, self._options, "lossy_decimal")

    def _programs(self) -> Any:
        """The program of each row: of its shape, of the sizes of its DATETIME values, and of its kind."""
        rows, updates = self._rows, self._rows.op == ord("u")
        lacks_before = updates & (self._options.no_old_value | (rows.before < 0))
        if not self._options.no_old_value:
            self._flags["no_before"] = lacks_before
        upsert = self._options.update_without_before == "upsert" and not self._options.no_old_value
        of_lacking = ticdc.KINDS.index("c" if upsert else "u-")
        kinds = np.where(rows.op == ord("d"), ticdc.KINDS.index("d"), np.where(lacks_before, of_lacking, updates * 1))
        first = self._first_programs(lacks_before)
        return np.where(first < 0, -1, first + kinds)

    def _first_programs(self, lacks_before: Any) -> Any:
        shapes, bits = self._rows.shapes, self._bits(lacks_before)
        if bits is None:
            used = np.bincount(self._shape, minlength=len(shapes)).tolist()
            of = [self._writer.program(s, 0) if used[n] else -1 for n, s in enumerate(shapes)]
            return np.array(of, np.int64)[self._shape]
        distinct_bits, _, of = find_distinct(bits)
        distinct, _, back = find_distinct(self._shape * len(distinct_bits) + of)
        programs = []
        for pair in distinct.tolist():
            shape, row_bits = shapes[pair // len(distinct_bits)], int(distinct_bits[pair % len(distinct_bits)])
            is_sized = len(ticdc.unsized_columns(shape.table)) <= _MOST_UNSIZED
            programs.append(self._writer.program(shape, row_bits) if is_sized else -1)
        return np.array(programs, np.int64)[back]

    def _bits(self, lacks_before: Any) -> Any:
        """Bits of what a row's program is of beside its shape: `_sizes`, and a schema of its own without a commit_ts.

        None where that is nothing of any row.
        """
        sizes, unknown = self._sizes(lacks_before), self._flags["commit_ts_unknown"]
        if self._options.debezium_disable_schema or not self._options.enable_tidb_extension or not unknown.any():
            return sizes
        return unknown * _NO_COMMIT_TS | (0 if sizes is None else sizes)

    def _sizes(self, lacks_before: Any) -> Any:
        """A bit for each DATETIME without fsp, as the encoder goes by a row's values; None where no table has any."""
        lists = []
        for shape in self._rows.shapes:
            indexes = {c.name: n for n, c in enumerate(shape.columns)}
            lists.append([indexes.get(c.name, -1) for c in ticdc.unsized_columns(shape.table)][:_MOST_UNSIZED])
        if not any(lists):
            return None
        ends = np.cumsum([len(numbers) for numbers in lists], dtype=np.int64)
        columns = np.array([number for numbers in lists for number in numbers], np.int64)
        sizes = np.zeros(self._count, np.int64)
        kernel.mark_unsized(
            self._cells, freeze(self._shape), freeze(lacks_before), freeze(ends), freeze(columns), sizes
        )
        return sizes

    # ---- the kernel
    def write(self) -> WrittenMessages:
        programs, zones = self._writer.compiler.arrays()
        rows = self._cells._replace(program=self._program)
        keys, values = self._first_room(programs.table)
        ends = np.zeros((2, self._count + 1), np.int64)
        left = np.ones(self._count, np.bool_)
        notes = np.empty((len(rows.start), 2), np.int64)
        state = np.zeros(kernel.VALUE_NEED + 1, np.int64)
        at = 0
        while True:
            out = kernel.JsonOutput(keys, values, ends[0], ends[1], left, notes, state)
            at = kernel.write(at, rows, programs, zones, out)
            if at == self._count:
                break
            keys = _grow(keys, int(state[kernel.KEY_TO]), int(state[kernel.KEY_NEED]))
            values = _grow(values, int(state[kernel.VALUE_TO]), int(state[kernel.VALUE_NEED]))
        self._note(notes[: state[kernel.NOTES]])
        valid = ~left
        written_keys = Binaries(keys[: ends[0, -1]], ends[0], valid)
        written_values = Binaries(values[: ends[1, -1]], ends[1], valid)
        flags = {name: mask for name, mask in self._flags.items() if mask.any()}
        return WrittenMessages(written_keys, written_values, left, flags)

    def _first_room(self, table: Any) -> tuple[Any, Any]:
        """Room for the literals, and for values as they mostly are; more is made when it is needed."""
        program = self._program[self._program >= 0]
        sizes = table[program][:, [kernel.KEY_SIZE, kernel.VALUE_SIZE]].sum(axis=0)
        values = int(sizes[1]) + 24 * len(self._cells.start) + 2 * len(self._cells.data) + 64 * self._count
        return np.empty(int(sizes[0]) + 64 * self._count + _ROOM, np.uint8), np.empty(values + _ROOM, np.uint8)

    def _note(self, notes: Any) -> None:
        names = list(self._writer.compiler.flags)
        for number in np.flatnonzero(np.bincount(notes[:, 1])).tolist():
            mask = np.zeros(self._count, np.bool_)
            mask[notes[notes[:, 1] == number, 0]] = True
            self._flags[names[number]] = mask


def _grow(array: Any, used: int, need: int) -> Any:
    """The array with room for `need` bytes more; itself where it has that."""
    if len(array) - used >= need:
        return array
    larger = np.empty(max(2 * len(array), used + need + _ROOM), np.uint8)
    larger[:used] = array[:used]
    return larger
