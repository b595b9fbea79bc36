"""One side of rows as Spark's own binary rows: as Arrow's columns each cell costs its JVM 12 to 120 ns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels import spark_rows as kernel
from ticdc_bridge.schemas.columnar.kernels.byte_buffers import BLOCK
from ticdc_bridge.schemas.columnar.rows import CellForm, Rows, RowShape, form_of, freeze
from ticdc_bridge.schemas.model.spark_types import INTEGER_BITS, spark_type
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import bit_size, integer_limits
from ticdc_bridge.spark_jobs.arrow.library import array_of, pa

_COMPACT = 18  # digits of a decimal that is a number of 64 bits in a row
_REALS = {"float": kernel.FLOAT, "double": kernel.DOUBLE}
_LEAST = integer_limits(64, unsigned=False)[0]


def binary_rows(
    rows: Rows, shape: Any, first: Any, step: Any, columns: Sequence[Column], positions: Any
) -> tuple[Any, Any]:
    """One side of some rows as rows of these columns in their exact Spark types → (a binary array, NULL for a row that
    lacks this side; which rows have a value that its column can't hold: bool).

    The arguments are those of `schemas.columnar.columns.read_columns`. ValueError: more than 2 GiB.
    """
    count, steps = len(first), [_step(column) for column in columns]
    codes, a, b = (freeze(np.array([step[n] for step in steps], np.int64)) for n in range(3))
    low = [[_low(shape, cell, c) for cell, c in zip(cells, columns, strict=True)]
           for shape, cells in zip(rows.shapes, positions, strict=True)]  # fmt: skip
    by_shape = (freeze(np.ascontiguousarray(piece, np.int64).reshape(-1, len(columns))) for piece in (positions, low))
    layout = kernel.RowLayout(codes, a, b, *by_shape)
    begin, apart, of = (freeze(piece, np.int64) for piece in (first, step, shape))
    length, ends = freeze(rows.length), np.empty(count + 1, np.int32)
    size = kernel.put_ends(begin, apart, of, layout, length, ends)
    if size < 0:
        raise ValueError("rows of more than 2 GiB in one batch")
    out, bad = np.empty(size + BLOCK, np.uint8), np.zeros(count, np.uint8)
    kernel.put_rows(freeze(rows.data), begin, apart, of, layout, freeze(rows.start), length, ends, out, bad)
    return array_of(pa.binary(), first >= 0, ends, out[:size]), bad.astype(np.bool_)


def _step(column: Column) -> tuple[int, int, int]:
    """How the column's cells become values of a row (`schemas.columnar.kernels.spark_rows`)."""
    name = spark_type(column)
    if bits := INTEGER_BITS.get(name):
        return kernel.INTEGER, integer_limits(bits, unsigned=False)[1], -1 if bits == 64 else (1 << bits) - 1
    if name.startswith("decimal("):
        precision, scale = map(int, name[8:-1].split(","))
        if column.type.kind is not Kind.DECIMAL:
            return kernel.UNSIGNED, 0, 0
        return kernel.DECIMAL if precision <= _COMPACT else kernel.WIDE_DECIMAL, precision, scale
    if column.type.kind is Kind.BIT:
        return kernel.BITS, bit_size(column.length or 0), 0
    return _REALS.get(name, kernel.BYTES), 0, 0


def _low(shape: RowShape, cell: int, column: Column) -> int:
    """The least number of the shape's cells that is one of the column's."""
    forms = {form_of(shape.columns[cell] if cell >= 0 else column), form_of(column)}
    if CellForm.UINT not in forms:
        return integer_limits(INTEGER_BITS.get(spark_type(column), 64), unsigned=False)[0]
    # The bits of a number from 2^63 on are those of a negative one; a decimal holds it, an integer does not.
    return _LEAST if forms == {CellForm.UINT} and spark_type(column) not in INTEGER_BITS else 0
