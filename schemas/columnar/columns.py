"""Rows in flat arrays (`schemas.columnar.rows`) → columns of one table, as flat arrays too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import columns as kernel
from ticdc_bridge.schemas.columnar.rows import ABSENT, CellForm, Rows, RowShape, form_of, freeze
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import bit_size


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """A column of one side of the rows. valid: False for NULL and for a row that lacks this side or column.

    form says what `values` is: int (int64), uint and bit (uint64), double and float (float64), decimal (pairs of
    uint64, low and high, two's complement), text and bytes (uint8 with `offsets`).
    """

    column: Column
    form: str
    values: Any
    valid: Any
    offsets: Any = None


MAX_BATCH = 1 << 30  # bytes: offsets of texts have 31 bits


def decimal_size(column: Column) -> tuple[int, int]:
    """Precision and scale of a DECIMAL; (0, 0) where they are not known."""
    return (0, 0) if column.length is None or column.scale is None else (column.length, column.scale)


def is_decimal128(column: Column) -> bool:
    """True if a DECIMAL's precision and scale are known and fit 128 bits."""
    return column.length is not None and column.scale is not None and column.length <= 38


_INTEGERS, _REALS = (CellForm.INT, CellForm.UINT), (CellForm.FLOAT, CellForm.DOUBLE)


def cells_of(shape: RowShape, columns: Sequence[Column]) -> list[int] | None:
    """Which cell of the shape's each of the columns is, -1 for one that it lacks.

    None where a column can't hold what the shape has under its name: rows of it are for the plain codec.
    """
    by_name = {column.name: (n, column) for n, column in enumerate(shape.columns)}
    cells = []
    for column in columns:
        number, source = by_name.get(column.name, (-1, column))
        if not _can_hold(source, column):
            return None
        cells.append(number)
    return cells


def _can_hold(source: Column, target: Column) -> bool:
    """True if the source's cells are read as the target's; whether each integer and decimal fits is seen by value."""
    kinds = source.type.kind, target.type.kind
    if Kind.BIT in kinds:
        return kinds[0] is kinds[1] and bit_size(source.length or 0) == bit_size(target.length or 0) > 0
    if Kind.DECIMAL in kinds:
        return kinds[0] is kinds[1]
    pair = form_of(source), form_of(target)
    return pair[0] is pair[1] or (pair[0] in _INTEGERS and pair[1] in _INTEGERS) or pair == _REALS


def read_columns(
    rows: Rows, shape: Any, first: Any, step: Any, columns: Sequence[Column], starts: Any
) -> tuple[tuple[ColumnValues, ...], Any]:
    """Columns of one side of some rows → (columns, which rows have a value that its column can't hold: bool).

    shape, step: of each row; first: its first cell, -1 where it lacks this side. starts: [shape, column], as `cells_of`
    has them. A number in a bad row is of no account. ValueError: texts of more than 2 GiB.
    """
    start, length = _slice_columns(rows, first, step, starts) or _gather_columns(rows, shape, first, step, starts)
    bad = np.zeros(len(first), np.uint8)
    data = freeze(rows.data)
    pairs = zip(rows.shapes, starts, strict=True)
    forms = np.array([[form_of(s.columns[n]) if n >= 0 else -1 for n in numbers] for s, numbers in pairs])
    result = []
    for n, column in enumerate(columns):
        form, valid = "bit" if column.type.kind is Kind.BIT else form_of(column).name.lower(), length[n] >= 0
        values, offsets = start[n], None
        if column.type.kind is Kind.DECIMAL and is_decimal128(column):
            form, values = "decimal", _decimals(column, data, start[n], length[n], bad)
        elif form in ("text", "bytes"):
            values, offsets = _texts(data, start[n], length[n])
        elif form != "int":
            values = values.view(np.float64 if form in ("double", "float") else np.uint64)
        if form in ("int", "uint"):
            other = forms[:, n] == (CellForm.UINT if form == "int" else CellForm.INT)
            if other.any():  # the same bits are another number, if the first of them is set
                bad |= (other[shape] & valid & (start[n] < 0)).astype(np.uint8)
        result.append(ColumnValues(column, form, values, valid, offsets))
    return tuple(result), bad.astype(np.bool_)


def _slice_columns(rows: Rows, first: Any, step: Any, offsets: Any) -> tuple[list[Any], list[Any]] | None:
    """(starts, lengths) by column, without a copy: of rows of one shape that stand as a chunk has them; else None."""
    count, present = len(first), first >= 0
    if len(rows.shapes) != 1 or not present.any() or (offsets[0] < 0).any() or step[0] < count:
        return None
    starts = (first - np.arange(count))[present]
    if (starts != starts[0]).any() or (step != step[0]).any():
        return None
    spans = [slice(at := int(starts[0] + step[0] * n), at + count) for n in offsets[0].tolist()]
    lengths = [rows.length[span] for span in spans]
    if not present.all():
        lengths = [np.where(present, length, ABSENT) for length in lengths]
    return [rows.start[span] for span in spans], lengths


def _gather_columns(rows: Rows, shape: Any, first: Any, step: Any, starts: Any) -> tuple[Any, Any]:
    index, length = (np.empty((starts.shape[1], len(first)), np.int64) for _ in range(2))
    arrays = (first, step, shape, starts, rows.start, rows.length)
    first, step, shape, starts, *cells = (freeze(array, np.int64) for array in arrays)
    kernel.by_column(first, step, shape, starts, cells[0], cells[1], index, length)
    return index, length


def _decimals(column: Column, data: Any, start: Any, length: Any, bad: Any) -> Any:
    from ticdc_bridge.schemas.columnar.kernels.text import fill_decimals

    assert column.length is not None
    assert column.scale is not None
    out = np.empty((len(start), 2), np.uint64)
    fill_decimals(data, start, length, len(start), column.length, column.scale, out, bad)
    return out


def _texts(data: Any, offset: Any, length: Any) -> tuple[Any, Any]:
    offsets = np.empty(len(offset) + 1, np.int32)
    size = kernel.text_offsets(length, offsets)
    if size < 0:
        raise ValueError("a column of more than 2 GiB in one batch")
    start = int(offset[0]) if len(offset) else 0
    if (offset - start == offsets[:-1]).all():  # they stand one after another already
        return data[start : start + size], offsets
    out = np.empty(size, np.uint8)
    kernel.copy_texts(data, offset, length, offsets, out)
    return out, offsets
