"""Cells (`schemas.codec.cells`) → the texts of the plain form, all of a batch at once, by a compiled kernel."""

from __future__ import annotations

from schemas import values
from schemas.codec.cells import Binaries, CellRows, Shape, form_of
from schemas.codec.json_write_kernels import COMPILED
from schemas.codec.typed import frozen
from schemas.table import Column
from schemas.types import Kind

__all__ = ["COMPILED", "plain_texts"]


def plain_texts(rows: CellRows) -> Binaries:
    """The value of each cell as `schemas.plain` writes it: SQL text, {"hex":"…"} for bytes; one element a cell.

    NULL, ABSENT and cells of no row are not valid. Texts are UTF-8. ValueError for a cell that is no value of its
    column (`Form`). To be called where `COMPILED` only: without numba it takes milliseconds a row.
    """
    import numpy as np

    from schemas.codec import kernel_plain as kernel

    count = len(rows.place)
    ends = np.cumsum([len(s.columns) for s in rows.shapes], dtype=np.int64)
    kinds = np.array([k for s in rows.shapes for k in _kinds(s)], np.uint8)
    shape = frozen(np.ascontiguousarray(rows.shape, np.int64))
    cells = np.zeros(count, np.uint8)
    for first in (rows.after, rows.before):
        if not kernel.tell(shape, frozen(np.ascontiguousarray(first, np.int64)), frozen(ends), frozen(kinds), cells):
            raise ValueError("a row has cells that are not there")
    place, length = (frozen(np.ascontiguousarray(array, np.int64)) for array in (rows.place, rows.length))
    data = frozen(np.ascontiguousarray(rows.data, np.uint8))
    out = np.empty(kernel.room(frozen(cells), length, len(data)), np.uint8)
    offsets, valid = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    wrong = kernel.fill(frozen(cells), place, length, data, out, offsets, valid)
    if wrong >= 0:
        raise ValueError(f"cell {wrong} is no value of its column")
    return Binaries(out[: offsets[-1]], offsets, valid)


def _kinds(shape: Shape) -> list[int]:
    return [_kind(column) for column in shape.columns]


def _kind(column: Column) -> int:
    from schemas.codec import kernel_plain as kernel

    if column.type.kind is Kind.BIT:
        return kernel.BITS + (values.bit_size(column.length) if column.length else 0)
    return kernel.INT + form_of(column)
