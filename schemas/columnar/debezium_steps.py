"""Plans of tables (`ticdc_json`) → programs of the kernel that writes JSON (`schemas.columnar.kernels.json_write`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import json_write as kernel
from ticdc_bridge.schemas.columnar.kernels.json_write import REFUSE, SILENT, JsonSteps
from ticdc_bridge.schemas.columnar.kernels.temporal import NEVER, ONCE, TWICE
from ticdc_bridge.schemas.columnar.rows import RowShape, form_of, freeze
from ticdc_bridge.schemas.columnar.time_zones import FIRST, LAST, zone_changes
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium.ticdc_json import KINDS, ColumnTexts, Layout, RowTexts, Slot
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

_SLOTS = {
    Slot.KEY: kernel.KEY,
    Slot.BEFORE: kernel.BEFORE,
    Slot.AFTER: kernel.AFTER,
    Slot.SOURCE_MS: kernel.MS,
    Slot.TS_MS: kernel.MS,
    Slot.COMMIT_TS: kernel.COMMIT,
}
_UNKNOWN_START_TS = "0"


class NoProgram(ValueError):
    """Rows that the kernel can't write, whatever their values are."""


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

    def add(self, shape: RowShape, plan: RowTexts) -> int:
        """The number of the first of the shape's programs. NoProgram; ValueError for a zone or text that is none."""
        steps, start, size = len(self._steps), len(self._table), len(self._text)
        self._spans = {}  # the envelopes of a table have much in common
        try:
            keys = self._object(shape, plan.key, True)
            row = self._object(shape, plan.columns, False)
            key = self._layout(plan.key_layout)
            for kind in KINDS:
                value = self._layout(plan.values[kind])
                rows = sum(p in (Slot.BEFORE, Slot.AFTER) for p in plan.values[kind])
                sizes = (self._size(key) + self._size(keys), self._size(value) + rows * self._size(row))
                self._table.append((*key, *value, *keys, *row, *sizes, len(shape.columns), kind == "d"))
        except ValueError:
            del self._steps[steps:], self._table[start:], self._text[size:]
            raise
        self._made = None
        return start

    def arrays(self) -> tuple[JsonSteps, Any]:
        """What has been compiled, as the kernel takes it: programs and zones."""
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
        column, a, b, note, lack = more or (0, 0, 0, SILENT, kernel.WHOLE)
        self._steps.append((*self._spans[literal], op, column, a, b, note, lack))

    def _size(self, steps: tuple[int, int]) -> int:
        return sum(step[kernel.TO] - step[kernel.FROM] for step in self._steps[slice(*steps)])

    def _layout(self, layout: Layout) -> tuple[int, int]:
        first, literal = len(self._steps), ""
        for piece in layout:
            if isinstance(piece, str):
                literal += piece
            elif piece is Slot.START_TS:
                literal += _UNKNOWN_START_TS
            else:
                self._step(literal, _SLOTS[piece])
                literal = ""
        self._step(literal, kernel.END)
        return first, len(self._steps)

    def _object(self, shape: RowShape, cells: tuple[ColumnTexts, ...], key: bool) -> tuple[int, int]:
        places = {c.name: n for n, c in enumerate(shape.columns)}
        first, lead = len(self._steps), "{"
        for cell in cells:
            column, name = cell.column, cell.column.name
            lacks = shape.key_only and not key and name not in shape.key
            place = places.get(name)
            if place is None:
                if not lacks:
                    raise NoProgram(name)
                self._step(f"{lead}{cell.name}null", kernel.END)
            else:
                if form_of(shape.columns[place]) is not form_of(column):
                    raise NoProgram(name)
                op, a, b, note = self._value(column, shape.zone)
                self._step(lead + cell.name, op, place, a, b, note, kernel.LACKS if lacks else kernel.WHOLE)
            lead = ","
        self._step("}" if cells else "{}", kernel.END)
        return first, len(self._steps)

    # ---- values: (op, a, b, note), as the writers of `values` do
    def _value(self, column: Column, zone: str) -> tuple[int, int, int, int]:
        if column.type.kind is Kind.TIMESTAMP:
            return kernel.TIMESTAMP, *self._zone(zone), self._flag("timestamp_fold", column)
        return _VALUES[column.type.kind](self, column)

    def _flag(self, name: str, column: Column) -> int:
        return self.flags.setdefault(f"{name}:{column.name}", len(self.flags))

    def _lossy_flag(self, name: str, column: Column) -> int:
        return self._flag(name, column) if self._options.on_lossy == "flag" else REFUSE

    def _integer(self, column: Column) -> tuple[int, int, int, int]:
        bits = column.type.bits
        if column.unsigned and bits == 64:
            silent = self._options.enable_tidb_extension
            return kernel.UNSIGNED, 0, 0, SILENT if silent else self._lossy_flag("unsigned_wrapped", column)
        return kernel.SIGNED, *values.integer_limits(bits, column.unsigned), SILENT

    def _bit(self, column: Column) -> tuple[int, int, int, int]:
        if column.length == 1:
            return kernel.BOOLEAN, 0, 0, SILENT
        if column.length is None or column.length > 64:
            return kernel.NOTHING, 0, 0, SILENT
        return kernel.BITS, values.bit_size(column.length), 0, SILENT

    def _temporal(self, column: Column) -> tuple[int, int, int, int]:
        op = kernel.DATE
        if column.type.kind is Kind.DATETIME:
            op = kernel.MILLIS if publish.in_milliseconds(column) else kernel.MICROS
        return op, int(not column.nullable), 0, self._lossy_flag("zero_date", column)

    def _decimal(self, column: Column) -> tuple[int, int, int, int]:
        return kernel.DECIMAL, 0, 0, self._lossy_flag("lossy_decimal", column)

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
    within = [
        (max(s, FIRST), offset, times) for (s, offset, times), end in zip(stretches, ends, strict=True) if end > FIRST
    ]
    return [*(s for s in within if s[0] < LAST), (LAST, 0, NEVER)]


def _plain_step(op: int) -> Callable[[Compiler, Column], tuple[int, int, int, int]]:
    return lambda _compiler, _column: (op, 0, 0, SILENT)


_VALUES: dict[Kind, Callable[[Compiler, Any], tuple[int, int, int, int]]] = {
    Kind.INTEGER: Compiler._integer,
    Kind.YEAR: _plain_step(kernel.YEAR),
    Kind.FLOAT: _plain_step(kernel.FLOAT),
    Kind.DOUBLE: _plain_step(kernel.DOUBLE),
    Kind.DECIMAL: Compiler._decimal,
    Kind.BIT: Compiler._bit,
    Kind.BINARY: _plain_step(kernel.BASE64),
    Kind.DATE: Compiler._temporal,
    Kind.DATETIME: Compiler._temporal,
    Kind.TIME: _plain_step(kernel.TIME),
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR), _plain_step(kernel.STRING)),
}
