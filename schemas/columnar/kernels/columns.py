"""Cells of rows (`schemas.columnar.rows`) → columns, and the different numbers of a column, for numba."""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy
from ticdc_bridge.schemas.columnar.kernels.jit import jit

Array = Any  # numpy arrays: numba knows their types


@jit
def by_column(
    first: Array, step: Array, shape: Array, offsets: Array, start: Array, length: Array, starts: Array, lengths: Array
) -> None:
    """Starts and lengths by column. first, step: each row's first cell, -1 for none, and the distance of the others.

    offsets: [shape, column], which of the row's cells it is, -1: the shape has none. A cell that is not there has the
    length -2 (ABSENT) and the start 0, NULL -1 and 0.
    """
    for row in range(first.shape[0]):
        begin, apart, of = first[row], step[row], shape[row]
        for column in range(starts.shape[0]):
            offset = offsets[of, column]
            starts[column, row] = 0
            if begin < 0 or offset < 0:
                lengths[column, row] = -2
            else:
                cell = begin + apart * offset
                size = length[cell]
                lengths[column, row] = size
                if size >= 0:
                    starts[column, row] = start[cell]


@jit
def find_few(numbers: Array, distinct: Array, first: Array, back: Array) -> int:
    """The different numbers (int64) in the order in which they come, where each is first, and which one each is.

    Out: how many there are, -1 for more than `distinct` has room for.
    """
    count, last, found_at = 0, 0, -1
    for n in range(numbers.shape[0]):
        number = numbers[n]
        if found_at < 0 or number != last:
            found_at, last = 0, number
            while found_at < count and distinct[found_at] != number:
                found_at += 1
            if found_at == count:
                if count == distinct.shape[0]:
                    return -1
                distinct[found_at], first[found_at] = number, n
                count += 1
        back[n] = found_at
    return count


@jit
def text_offsets(lengths: Array, offsets: Array) -> int:
    """Offsets of the texts one after another; out: their bytes in all, -1 where they do not fit 31 bits."""
    total = np.int64(0)
    for row in range(lengths.shape[0]):
        offsets[row] = total
        if lengths[row] > 0:
            total += lengths[row]
            if total > 0x7FFFFFFF:
                return -1
    offsets[lengths.shape[0]] = total
    return int(total)


@jit
def copy_texts(data: Array, starts: Array, lengths: Array, offsets: Array, out: Array) -> None:
    """The texts one after another, as `offsets` says."""
    for row in range(lengths.shape[0]):
        if lengths[row] > 0:
            copy(out, int(offsets[row]), data, int(starts[row]), int(lengths[row]))
