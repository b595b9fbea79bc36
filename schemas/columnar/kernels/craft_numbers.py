"""Craft's numbers, chunks and texts in a numpy buffer, for numba; as `primitives` reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.columnar.kernels.jit import jit

Array = Any  # numpy arrays: numba knows their types


@jit
def uvarint(data: Array, pos: int, end: int) -> Any:
    """(value as uint64, next position), position -1 for a number that is none."""
    if pos >= end:
        return np.uint64(0), -1
    byte = data[pos]
    if byte < 128:
        return np.uint64(byte), pos + 1
    value = np.uint64(byte & 127)
    shift = 7
    pos += 1
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return np.uint64(0), -1
        value |= np.uint64(byte & 127) << np.uint64(shift)
        if byte < 128:
            return value, pos
        shift += 7
    return np.uint64(0), -1


@jit
def unzigzag(value: Any) -> Any:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@jit
def count_of(data: Array, pos: Any, end: Any, most: Any) -> Any:
    """(a count from 1 to `most` and to the bytes that follow, next position), -1 otherwise."""
    value, pos = uvarint(data, pos, end)
    if pos < 0 or value < np.uint64(1) or value > np.uint64(min(end - pos, most)):
        return 0, -1
    return np.int64(value), pos


@jit
def deltas(data: Array, pos: Any, end: Any, count: Any, low: Any, high: Any, out: Array) -> Any:
    """A delta varint chunk into out[:count]; next position, or -1 where a number is outside low…high."""
    number = np.int64(0)
    for i in range(count):
        value, pos = uvarint(data, pos, end)
        if pos < 0:
            return -1
        number += unzigzag(value)
        if number < low or number > high:
            return -1
        out[i] = number
    return pos


@jit
def equal_bytes(data: Array, a: int, b: int, size: int) -> bool:
    """Whether the bytes at a and at b are equal; both ranges are inside the data."""
    # Unsigned indices: numba need not look for negative ones, so that this is a vector operation.
    differ = np.uint8(0)
    i, first, second, last = np.uint64(0), np.uint64(a), np.uint64(b), np.uint64(size)
    while i < last:
        differ |= data[first + i] ^ data[second + i]
        i += np.uint64(1)
    return bool(differ == 0)
