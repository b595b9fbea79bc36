"""Rows of MySQL's text protocol → where their values stand, as `dump_text` has it, for numba."""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.dump_text import CUT, ENDED, MALFORMED, MORE, NULL, QUOTED, Cells
from ticdc_bridge.schemas.columnar.kernels.jit import inline, jit
from ticdc_bridge.schemas.columnar.kernels.text import Array

_MOST = 0xFFFFFF
"""Bytes of a packet that another one follows."""


@inline
def _number(data: Array, at: int, width: int) -> Any:
    number = np.int64(0)
    for n in range(width):
        number |= np.int64(data[at + n]) << (8 * n)
    return number


@jit
def scan_packets(data: Array, at: int, end: int, columns: int, cells: Cells, rows: int, state: Array) -> int:
    """Rows from data[at] on; rows: how many `cells` has already. How many it has then.

    state: how it ended, and where: after the last row (CUT, MORE), at the packet after the rows (ENDED), at one that is
    no row, or a part of one (MALFORMED).
    """
    starts, ends, kinds = cells
    while True:
        state[1] = at
        if (rows + 1) * columns > starts.shape[0]:
            state[0] = MORE
            return rows
        size = _number(data, at, 3) if at + 4 < end else _MOST
        if at + 4 >= end or (size < _MOST and at + 4 + size > end):
            state[0] = CUT
            return rows
        first, last = at + 4, at + 4 + size
        if data[first] == 0xFF or (data[first] == 0xFE and size < 9):
            state[0] = ENDED
            return rows
        state[0] = MALFORMED
        if size == _MOST:
            return rows
        for cell in range(rows * columns, (rows + 1) * columns):
            if first >= last:
                return rows
            length, kind = _number(data, first, 1), QUOTED
            first += 1
            if length >= 0xFB:
                width = 0 if length == 0xFB else 2 if length == 0xFC else 3 if length == 0xFD else 8
                if first + width > last:
                    return rows
                kind = QUOTED if width else NULL
                length = _number(data, first, width)
                first += width
            if length < 0 or length > last - first:
                return rows
            starts[cell], ends[cell], kinds[cell] = first, first + length, kind
            first += length
        if first != last:
            return rows
        at, rows = last, rows + 1
