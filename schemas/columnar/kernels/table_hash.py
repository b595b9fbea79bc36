"""A table's names, hashed: which cells are whose columns, for numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import equal_bytes
from ticdc_bridge.schemas.columnar.kernels.jit import jit
from ticdc_bridge.schemas.columnar.kernels.text import Array

# ---------------------------------------------------------------------------------- which table a message is of
_FAR, _NEAR = 2048, 512  # bytes in which the first text is looked for, and the second after it


@jit
def _find(data: Array, pos: int, end: int, text: Array) -> int:
    """Where a text is in data[pos:end], or -1."""
    size = text.shape[0]
    while pos + size <= end:
        if data[pos] == text[0]:
            i = 1
            while i < size and data[pos + i] == text[i]:
                i += 1
            if i == size:
                return pos
        pos += 1
    return -1


@jit
def _hash(data: Array, pos: int, end: int) -> Any:
    """FNV-1a; never 0."""
    hash_ = np.uint64(0xCBF29CE484222325)
    for i in range(pos, end):
        hash_ = (hash_ ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return hash_ | np.uint64(1)


@jit
def hash_names(data: Array, first: Array, last: Array, name: Array, other: Array, out: Array) -> None:
    """A hash of what stands from text `name` to the quote after text `other`, by message; 0 where they are not found.

    What stands at the same place as in the message before has the same hash, wherever else the texts are.
    """
    lead, size, known = 0, 0, -1  # of the last message that has them: where, how long; which one
    for row in range(first.shape[0]):
        out[row] = 0
        if first[row] < 0:
            continue
        offset = first[row] + lead
        if known >= 0 and last[row] - offset >= size and equal_bytes(data, offset, data, first[known] + lead, size):
            out[row] = out[known]
            continue
        start = _find(data, first[row], min(last[row], first[row] + _FAR), name)
        if start < 0:
            continue
        end = min(last[row], start + _NEAR)
        at = _find(data, start, end, other)
        if at < 0:
            continue
        at += other.shape[0]
        while at < end and data[at] != 34:
            at += 1
        out[row] = _hash(data, start, at)
        if at < end:
            lead, size, known = start - first[row], at + 1 - start, row


@jit
def _read_back(data: Array, pos: int, first: int) -> Any:
    """A uvarint that ends at pos, read from its end → (its number, its position), position -1 where there is none."""
    number = shift = 0
    while pos >= first and shift < 28:
        number |= int(data[pos] & 127) << shift
        if data[pos] < 128:
            return number, pos
        shift += 7
        pos -= 1
    return 0, -1


@jit
def _uvarint(data: Array, pos: int, end: int) -> Any:
    """(number, next position), position `end` where there is none."""
    number = shift = 0
    while pos < end and shift < 28:
        number |= int(data[pos] & 127) << shift
        pos += 1
        if data[pos - 1] < 128:
            return number, pos
        shift += 7
    return 0, end


@jit
def hash_terms(data: Array, first: Array, last: Array, out: Array) -> None:
    """A hash of a Craft message's dictionary, where its names stand; 0 where there is none.

    Before the number at the end are as many bytes of size tables; their first table has its count, the headers' size
    and how much more the dictionary's is (zig-zag).
    """
    for row in range(first.shape[0]):
        out[row] = 0
        if first[row] < 0:
            continue
        size, end = _read_back(data, last[row] - 1, first[row])
        tables = end - size
        if end < 0 or tables < first[row]:
            continue
        _, pos = _uvarint(data, tables, end)
        head, pos = _uvarint(data, pos, end)
        more, pos = _uvarint(data, pos, end)
        terms = ((head >> 1) ^ -(head & 1)) + ((more >> 1) ^ -(more & 1))
        if 0 < terms <= tables - first[row]:
            out[row] = _hash(data, tables - terms, min(tables, tables - terms + _FAR))
