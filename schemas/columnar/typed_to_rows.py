"""Typed columns of one table's rows (`schemas.columnar.typed_rows`) → cells (`schemas.columnar.rows`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.columnar.avro_writer import find_distinct
from schemas.columnar.rows import ABSENT, NULL, Rows, RowShape, freeze
from schemas.columnar.typed_rows import TypedColumn, TypedRows
from schemas.model.table import Column

_AFTER, _BEFORE = (1, 3, 5), (2, 3)  # `TypedRows.side`: rows that have the new one, the old one
_OPS = (0, ord("c"), ord("d"), ord("u"), 0, ord("u"))
_NO_LENGTH = 8


@dataclass(slots=True)
class _Data:
    """Bytes that spans point into, as they come together."""

    parts: list[Any] = field(default_factory=list)
    size: int = 0

    def add(self, part: Any) -> int:
        """Where the bytes will be."""
        start = self.size
        self.parts.append(part)
        self.size += len(part)
        return start


class CellsOfTyped:
    """Rows of several tables, a chunk of one table's at a time → cells of all, in the order of their messages."""

    def __init__(self) -> None:
        self._data = _Data()
        self._shapes: dict[int, tuple[int, RowShape]] = {}
        self._columns: tuple[list[Any], ...] = tuple([] for _ in range(6))
        self._places: list[Any] = []
        self._lengths: list[Any] = []
        self._cells = 0
        self._flags: dict[str, list[tuple[int, Any]]] = {}
        self._rows = 0

    def add(self, rows: TypedRows, shape: RowShape, key_only: RowShape | None = None) -> None:
        """Rows with all columns of the shape, values in their canonical forms.

        key_only: the shape of deletes of which the message has the handle key alone; the other columns are ABSENT
        there. Flags: enum_number of ENUM and SET columns whose elements are not known.
        """
        import numpy as np

        count, width = len(rows.message), len(shape.columns)
        starts, length = [], None
        for side, which in ((rows.after, _AFTER), (rows.before, _BEFORE)):
            there = np.isin(rows.side, which)
            starts.append(np.where(there, self._cells + np.arange(count) * width, -1))
            if there.any():
                length = self._add_side(side, there)
        of = np.full(count, self._number(shape), np.int64)
        if key_only is not None and length is not None and rows.key_only.any():
            of[rows.key_only] = self._number(key_only)
            for k, column in enumerate(shape.columns):
                if not column.handle_key:
                    length[rows.key_only, k] = ABSENT  # of the old row, which a delete has
        op = np.array(_OPS, np.uint8)[np.asarray(rows.side, np.int64)]
        for chunks, array in zip(self._columns, (rows.message, of, rows.commit_ts, op, *starts), strict=True):
            chunks.append(array)
        self._rows += count

    def _add_side(self, side: Sequence[TypedColumn], there: Any) -> Any:
        """The cells of one side; out: their lengths."""
        import numpy as np

        count = len(there)
        place, length = np.zeros((count, len(side)), np.int64), np.empty((count, len(side)), np.int64)
        for k, typed in enumerate(side):
            starts, size = _CELLS[typed.form](typed, self._data)
            place[:, k], length[:, k] = starts, np.where(typed.valid, size, NULL)
            numbered = there & typed.valid if typed.form == "number" else there[:0]
            if numbered.any():
                self._flags.setdefault(f"enum_number:{typed.column.name}", []).append((self._rows, numbered))
        self._places.append(place.reshape(-1))
        self._lengths.append(length.reshape(-1))
        self._cells += place.size
        return length

    def _number(self, shape: RowShape) -> int:
        return self._shapes.setdefault(id(shape), (len(self._shapes), shape))[0]

    def rows(self) -> Rows:
        import numpy as np

        kinds = (np.int64, np.int64, np.int64, np.uint8, np.int64, np.int64)
        columns = [np.concatenate([np.zeros(0, k), *c], dtype=k) for c, k in zip(self._columns, kinds, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        flags = {}
        for name, parts in self._flags.items():
            flags[name] = np.zeros(self._rows, np.bool_)
            for start, mask in parts:
                flags[name][start : start + len(mask)] |= mask
            flags[name] = flags[name][order]
        place, length, data = (
            np.concatenate([np.zeros(0, kind), *parts], dtype=kind)
            for parts, kind in ((self._places, np.int64), (self._lengths, np.int64), (self._data.parts, np.uint8))
        )
        shapes = tuple(shape for _, shape in self._shapes.values())
        message, of, commit_ts, op, after, before = (column[order] for column in columns)
        return Rows(shapes, message, of, commit_ts, op, after, before, place, length, freeze(data), flags)


def cells_of_typed(rows: TypedRows, shape: RowShape, key_only: RowShape | None = None) -> Rows:
    """A chunk of rows as cells (`CellsOfTyped.add`)."""
    cells = CellsOfTyped()
    cells.add(rows, shape, key_only)
    return cells.rows()


# ---------------------------------------------------------------------------------- columns
_Cells = Callable[[TypedColumn, _Data], tuple[Any, Any]]
"""A column → (place, length) of its cells by row; of rows without a value they are of no account."""


def _integers(typed: TypedColumn, _data: _Data) -> tuple[Any, Any]:
    import numpy as np

    return typed.values.view(np.int64), _NO_LENGTH


def _doubles(typed: TypedColumn, _data: _Data) -> tuple[Any, Any]:
    import numpy as np

    return np.asarray(typed.values, np.float64).view(np.int64), _NO_LENGTH


def _reals(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    """Texts of numbers; those of FLOAT are rounded to float32 as the decoders do."""
    import numpy as np

    from schemas.columnar.kernels.typed_cells import read_reals

    bits, left = np.empty(len(typed.valid), np.uint64), np.empty(len(typed.valid), np.int64)
    count = read_reals(freeze(typed.values), freeze(typed.offsets), freeze(typed.valid), bits, left)
    reals = bits.view(np.float64)
    for row in left[:count].tolist():  # of more digits than the kernel takes
        reals[row] = float(typed.values[typed.offsets[row] : typed.offsets[row + 1]].tobytes())
    if typed.form == "real32":
        reals = reals.astype(np.float32).astype(np.float64)
    return reals.view(np.int64), _NO_LENGTH


def _texts(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    import numpy as np

    offsets = np.asarray(typed.offsets, np.int64)
    return offsets[:-1] + data.add(typed.values), offsets[1:] - offsets[:-1]


def _decimals(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    import numpy as np

    from schemas.columnar.kernels.typed_cells import DECIMAL_ROOM, write_decimals

    count = len(typed.valid)
    out = np.empty(count * DECIMAL_ROOM, np.uint8)
    place, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
    write_decimals(freeze(typed.values), freeze(typed.valid), typed.column.scale or 0, out, place, length)
    return place + data.add(out), length


def _enums(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    """The element's name, "" for 0."""
    return _name_texts(("", *typed.column.elements), typed.values * typed.valid, data)


def _sets(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    masks, _, which = find_distinct(typed.values * typed.valid)
    return _name_texts([_names_of(typed.column, mask) for mask in masks.tolist()], which, data)


def _names_of(column: Column, mask: int) -> str:
    return ",".join(name for bit, name in enumerate(column.elements) if mask >> bit & 1)


def _numbers(typed: TypedColumn, data: _Data) -> tuple[Any, Any]:
    """ENUM and SET of which only the number is known."""
    numbers, _, which = find_distinct(typed.values * typed.valid)
    return _name_texts([str(number) for number in numbers.tolist()], which, data)


def _name_texts(names: Sequence[str], which: Any, data: _Data) -> tuple[Any, Any]:
    import numpy as np

    texts = [name.encode() for name in names]
    sizes = np.array([len(text) for text in texts], np.int64)
    start = data.add(np.frombuffer(b"".join(texts), np.uint8))
    index = which.astype(np.int64)
    return (np.cumsum(sizes) - sizes + start)[index], sizes[index]


_CELLS: dict[str, _Cells] = {
    **dict.fromkeys(("int", "uint", "bit"), _integers),
    **dict.fromkeys(("double", "float"), _doubles),
    **dict.fromkeys(("real", "real32"), _reals),
    **dict.fromkeys(("text", "bytes"), _texts),
    "decimal": _decimals,
    "enum": _enums,
    "set": _sets,
    "number": _numbers,
}
