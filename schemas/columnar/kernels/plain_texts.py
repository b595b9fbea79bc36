"""Cells → the texts of the plain form (`schemas.plain.writer`), for numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels import numbers as real
from schemas.columnar.kernels.byte_buffers import copy
from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.text import Array

# What a cell holds: as `Form`; from BITS on BIT, of as many bytes as the number is larger, 0 for as few as it takes.
NOTHING, INT, UINT, DOUBLE, FLOAT, TEXT, BYTES, BITS = range(8)

_LONGEST = 32  # of a number or BIT
_HEAD, _TAIL = np.frombuffer(b'{"hex":"', np.uint8), np.frombuffer(b'"}', np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@jit
def classify_cells(shape: Array, first: Array, step: Array, ends: Array, kinds: Array, cells: Array) -> bool:
    """Says of each cell of rows from `first` on, `step` apart, what it holds.

    kinds: of the columns of shape n, up to ends[n]. False for a row that has cells that are not there.
    """
    for row in range(shape.shape[0]):
        start = ends[shape[row] - 1] if shape[row] else 0
        count = ends[shape[row]] - start
        if first[row] >= 0:
            if (count - 1) * step[row] >= cells.shape[0] - first[row]:
                return False
            for column in range(count):
                cells[first[row] + step[row] * column] = kinds[start + column]
    return True


@jit
def room(cells: Array, length: Array, most: int) -> int:
    """Bytes that the texts take at most. most: bytes of data; a cell of more is none."""
    total = 0
    for cell in range(cells.shape[0]):
        total += _LONGEST
        if (cells[cell] == TEXT or cells[cell] == BYTES) and 0 < length[cell] <= most:
            total += 2 * length[cell]
    return total


@jit
def fill(cells: Array, place: Array, length: Array, data: Array, out: Array, offsets: Array, valid: Array) -> int:
    """Texts one after another; NULL, ABSENT and what no row has are not valid. Out: the first cell that is none, -1."""
    to = 0
    for cell in range(cells.shape[0]):
        offsets[cell] = to
        valid[cell] = length[cell] >= 0 and cells[cell] != NOTHING
        if valid[cell]:
            to = _text(cells[cell], place[cell], length[cell], data, out, to)
            if to < 0:
                return cell
    offsets[cells.shape[0]] = to
    return -1


@jit
def _text(kind: int, place: int, size: int, data: Array, out: Array, to: int) -> int:
    """Where a value's text ends; -1 for what is no value."""
    if kind in (TEXT, BYTES):
        if place < 0 or place > data.shape[0] - size:
            return -1
        if kind == BYTES:
            return _hex(data, place, size, out, to)
        copy(out, to, data, place, size)
        return to + size
    if kind == INT:
        return real.put_int(place, out, to)
    if kind == UINT:
        return real.put_unsigned(np.uint64(place), out, to)
    if kind in (DOUBLE, FLOAT):
        digits, power, sound = real.of_double(place) if kind == DOUBLE else real.of_float(place)
        return real.put_general(place < 0, digits, power, out, to) if sound else -1
    return _bits(np.uint64(place), kind - BITS, out, to)


@jit
def _hex(data: Array, place: int, size: int, out: Array, to: int) -> int:
    copy(out, to, _HEAD, 0, _HEAD.shape[0])
    to += _HEAD.shape[0]
    for i in range(place, place + size):
        out[to], out[to + 1] = _HEX[data[i] >> 4], _HEX[data[i] & 15]
        to += 2
    copy(out, to, _TAIL, 0, _TAIL.shape[0])
    return to + 2


@jit
def _bits(number: Any, size: int, out: Array, to: int) -> int:
    """BIT's bytes, high byte first; -1 where they are too few."""
    least = 1
    while least < 8 and number >> np.uint64(8 * least):
        least += 1
    size = size or least
    if size < least:
        return -1
    copy(out, to, _HEAD, 0, _HEAD.shape[0])
    to += _HEAD.shape[0]
    for i in range(2 * size - 1, -1, -1):
        out[to] = _HEX[number >> np.uint64(4 * i) & np.uint64(15)]
        to += 1
    copy(out, to, _TAIL, 0, _TAIL.shape[0])
    return to + 2
