"""A cell reader and a cell writer made of a format's plain codec: slow, and right by definition."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.columnar_events import events_of
from ticdc_bridge.schemas.columnar.rows import (
    ABSENT,
    NO_COMMIT_TS,
    NULL,
    Binaries,
    CellForm,
    Rows,
    RowShape,
    Topics,
    WrittenMessages,
    form_of,
)
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, Row, RowChange
from ticdc_bridge.schemas.model.table import Column, Value


class _Unsayable(Exception):
    pass


class SlowReader:
    """`schemas.columnar.rows.RowsReader`. FORMAT: of the subclass."""

    FORMAT = ""

    def __init__(self, context: Context, bare: bool = False, compiled: Any = None) -> None:
        self._decoder = format_named(self.FORMAT).decoder(context)
        self._shapes: dict[Any, tuple[int, RowShape]] = {}

    def read(self, keys: Binaries, values: Binaries, topics: Topics) -> tuple[Rows, Any]:
        out, left = _Out(), []
        for number, (key, value) in enumerate(zip(_strings(keys), _strings(values), strict=True)):
            topic = topics.names[topics.of[number]]
            try:
                events = self._decoder.decode(Message(key, value, topic))
                cells = [self._cells(e) for e in events if isinstance(e, RowChange)]
                if not events or len(cells) < len(events):
                    raise _Unsayable
            except (WireError, _Unsayable):
                left.append(number)
                continue
            for event, (shape, after, before) in zip(events, cells, strict=True):
                assert isinstance(event, RowChange)
                out.row(number, shape, event, after, before)
        return out.rows(tuple(s for _, s in self._shapes.values())), np.array(left, np.int64)

    def _cells(self, event: RowChange) -> tuple[int, list[Any] | None, list[Any] | None]:
        known = (id(event.table), event.key, event.table_version, event.schema_id, event.zone, event.key_only)
        columns = tuple(c for c in event.table.columns if not c.virtual)
        if known not in self._shapes:
            shape = RowShape(
                event.table, columns, event.key, event.table_version, event.schema_id, event.zone, event.key_only
            )
            self._shapes[known] = len(self._shapes), shape
        if event.op == "r" or (event.extra and self.FORMAT != "avro") or "keyspace" in event.extra:
            raise _Unsayable
        return self._shapes[known][0], _row(columns, event.after), _row(columns, event.before)


class _Out:
    def __init__(self) -> None:
        self.data = bytearray()
        self.cells: list[tuple[int, int]] = []
        self.found: list[tuple[int, int, int, int, int, int]] = []
        self.flags: dict[str, list[int]] = {}

    def row(self, number: int, shape: int, event: RowChange, after: Any, before: Any) -> None:
        commit_ts = NO_COMMIT_TS if event.commit_ts is None else event.commit_ts
        firsts = self._side(after), self._side(before)
        for flag in event.flags:
            self.flags.setdefault(flag, []).append(len(self.found))
        self.found.append((number, shape, commit_ts, ord(event.op), *firsts))

    def _side(self, cells: list[Any] | None) -> int:
        if cells is None:
            return -1
        first = len(self.cells)
        for cell in cells:
            if isinstance(cell, bytes):
                self.cells.append((len(self.data), len(cell)))
                self.data += cell
            else:
                self.cells.append(cell)
        return first

    def rows(self, shapes: tuple[RowShape, ...]) -> Rows:
        found = np.array(self.found, np.int64).reshape(-1, 6)
        cells = np.array(self.cells, np.int64).reshape(-1, 2)
        flags = {name: np.isin(np.arange(len(found)), which) for name, which in self.flags.items()}
        data = np.frombuffer(bytes(self.data), np.uint8)
        columns = (np.ascontiguousarray(found[:, n]) for n in range(6))
        message, shape, commit_ts, op, after, before = columns
        place, length = np.ascontiguousarray(cells[:, 0]), np.ascontiguousarray(cells[:, 1])
        return Rows(
            shapes, message, shape, commit_ts, op.astype(np.uint8), after, before, np.ones(len(op), np.int64), place,
            length, data, flags,
        )  # fmt: skip


def _row(columns: tuple[Column, ...], row: Row | None) -> list[Any] | None:
    if row is None:
        return None
    if not row.keys() <= {c.name for c in columns}:
        raise _Unsayable
    return [_cell(c, row[c.name]) if c.name in row else (0, ABSENT) for c in columns]


def _cell(column: Column, value: Value) -> Any:
    form = form_of(column)
    if value is None:
        return 0, NULL
    if form is CellForm.BYTES or (form is CellForm.UINT and isinstance(value, bytes)):
        if not isinstance(value, bytes):
            raise _Unsayable
        return value if form is CellForm.BYTES else (_signed(int.from_bytes(value, "big")), 8)
    if isinstance(value, bytes):
        raise _Unsayable
    if form is CellForm.TEXT:
        return value.encode()
    if form in (CellForm.INT, CellForm.UINT):
        return _signed(int(value)), 8
    return struct.unpack("<q", struct.pack("<d", float(value)))[0], 8


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


class SlowWriter:
    """`schemas.columnar.rows.RowsWriter`. FORMAT, SOURCE: of the subclass."""

    FORMAT, SOURCE = "", ""

    def __init__(self, context: Context) -> None:
        self._encoder = format_named(self.FORMAT).encoder(context)

    def write(self, rows: Rows, topics: Topics, timestamps: Any) -> WrittenMessages:
        keys, values, left = [], [], np.zeros(len(rows.message), bool)
        flags: dict[str, Any] = {}
        for n, event in enumerate(events_of(rows, self.SOURCE)):
            stamp = int(timestamps[n])
            origin = Message(None, None, topics.names[topics.of[n]], timestamp=None if stamp < 0 else stamp)
            try:
                (message,) = self._encoder.encode(replace(event), origin)
            except WireError:
                left[n] = True
                message = origin
            keys.append(message.key)
            values.append(message.value)
            for flag in event.flags:
                flags.setdefault(flag, np.zeros(len(left), bool))[n] = True
        return WrittenMessages(_binaries(keys), _binaries(values), left, flags)


def _strings(given: Binaries) -> list[bytes | None]:
    data, places = given.data.tobytes(), given.offsets.tolist()
    return [data[a:b] if v else None for a, b, v in zip(places, places[1:], given.valid.tolist(), strict=False)]


def _binaries(found: list[bytes | None]) -> Binaries:
    offsets = np.cumsum([0, *(len(b or b"") for b in found)]).astype(np.int64)
    data = np.frombuffer(b"".join(b or b"" for b in found), np.uint8)
    return Binaries(data, offsets, np.array([b is not None for b in found], bool))
