"""Row changes → cells (`schemas.columnar.rows`), the slow and plain way; at distances of one to three."""

import struct
from collections.abc import Callable, Sequence

import numpy as np

from ticdc_bridge.schemas.columnar.rows import ABSENT, NO_COMMIT_TS, NULL, CellForm, Rows, RowShape, form_of, freeze
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import Kind


class NoCell(Exception):
    """A value that a cell can't say."""


class Cells:
    """Makes Rows of row changes. One Shape stands for equal rows in all batches."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], RowShape] = {}

    def of(self, events: Sequence[RowChange]) -> tuple[Rows, list[int]]:
        """Rows of events that cells can say, and which events they are."""
        made = _Maker()
        taken, shapes, heads = [], [], []
        positions: dict[int, int] = {}
        used: list[RowShape] = []
        for number, event in enumerate(events):
            try:
                shape = self._shape(event)
                heads.append(made.row(event, shape))
            except NoCell:
                continue
            taken.append(number)
            shapes.append(positions.setdefault(id(shape), len(positions)))
            if len(positions) > len(used):
                used.append(shape)
        columns = [np.array([head[k] for head in heads], np.int64) for k in range(3)]
        step = 1 + len(taken) % 3
        columns[1:] = [np.where(first < 0, -1, first * step) for first in columns[1:]]
        flags = {flag for n in taken for flag in events[n].flags}
        rows = Rows(
            tuple(used), np.array(taken, np.int64), np.array(shapes, np.int64), columns[0],
            np.array([ord(events[n].op) for n in taken], np.uint8), columns[1], columns[2],
            np.full(len(taken), step), np.repeat(np.array(made.place, np.int64), step),
            np.repeat(np.array(made.length, np.int64), step),
            freeze(np.frombuffer(bytes(made.data), np.uint8)),
            {flag: np.array([flag in events[n].flags for n in taken]) for flag in flags},
        )  # fmt: skip
        return rows, taken

    def _shape(self, event: RowChange) -> RowShape:
        if event.op == "r" or event.extra.keys() & {"keyspace", "checksum", "source"}:
            raise NoCell
        columns = tuple(c for c in event.table.columns if not c.virtual)
        shape = RowShape(
            event.table, columns, event.key, event.table_version, event.schema_id, event.zone, event.key_only
        )
        known = (id(event.table), event.key, event.table_version, event.schema_id, event.zone, event.key_only)
        return self._known.setdefault(known, shape)


class _Maker:
    def __init__(self) -> None:
        self.place: list[int] = []
        self.length: list[int] = []
        self.data = bytearray()

    def row(self, event: RowChange, shape: RowShape) -> tuple[int, int, int]:
        """(commit_ts, after, before) of a row."""
        images = [[(c, _cell(c, row)) for c in shape.columns] for row in (event.after, event.before) if row is not None]
        starts = []
        for row in (event.after, event.before):
            starts.append(-1 if row is None else len(self.place))
            for column, cell in images.pop(0) if row is not None else ():
                self._put(form_of(column), cell)
        return NO_COMMIT_TS if event.commit_ts is None else event.commit_ts, starts[0], starts[1]

    def _put(self, form: CellForm, cell: int | bytes) -> None:
        if isinstance(cell, bytes):
            self.place.append(len(self.data))
            self.length.append(len(cell))
            self.data += cell
        elif cell in (_NULL, _ABSENT):
            self.place.append(0)
            self.length.append(NULL if cell == _NULL else ABSENT)
        else:
            self.place.append(cell - (1 << 64) if cell >> 63 == 1 else cell)
            self.length.append(8)


_NULL, _ABSENT = 1 << 70, 1 << 71


def _cell(column: Column, row: Row) -> int | bytes:
    if column.name not in row:
        return _ABSENT
    value = row[column.name]
    if value is None:
        return _NULL
    if column.type.kind is Kind.BIT and column.length and len(value) != values.bit_size(column.length):
        raise NoCell
    return _MAKE[form_of(column)](value)


def _signed(value: Value) -> int:
    number = values.integer(_text_of(value))
    if not -(1 << 63) <= number < 1 << 63:
        raise NoCell
    return number


def _unsigned(value: Value) -> int:
    number = int.from_bytes(value, "big") if isinstance(value, bytes) else values.integer(_text_of(value))
    if not 0 <= number < 1 << 64:
        raise NoCell
    return number


def _double(value: Value) -> int:
    return int.from_bytes(struct.pack(">d", values.real(_text_of(value))), "big")


def _float(value: Value) -> int:
    try:
        return int.from_bytes(struct.pack(">d", values.parse_float32(_text_of(value))), "big")
    except ValueError:
        raise NoCell from None


def _text(value: Value) -> bytes:
    return _text_of(value).encode()


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise NoCell
    return value


def _text_of(value: Value) -> str:
    if not isinstance(value, str):
        raise NoCell
    return value


_MAKE: dict[CellForm, Callable[[Value], int | bytes]] = {
    CellForm.INT: _signed, CellForm.UINT: _unsigned, CellForm.DOUBLE: _double, CellForm.FLOAT: _float,
    CellForm.TEXT: _text, CellForm.BYTES: _bytes,
}  # fmt: skip
