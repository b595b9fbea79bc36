"""A table's names, hashed: which cells are whose columns, for numba."""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import equal_bytes
from ticdc_bridge.schemas.columnar.kernels.craft_cells import deltas, read_back, uvarint
from ticdc_bridge.schemas.columnar.kernels.jit import jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.text import Array

# ---------------------------------------------------------------------------------- which table a message is of
_FAR, _NEAR = 2048, 512  # bytes in which the first text is looked for, and the second after it


@jit
def _find(data: Array, pos: int, end: int, text: Array) -> int:
    """Where a text is in data[pos:end], or -1."""
    size = text.shape[0]
    while pos + size <= end:
        if data[pos] == text[0] and equal_bytes(data, pos, text, 0, size):
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


@jit_allocating
def hash_terms(data: Array, first: Array, last: Array, out: Array) -> None:
    """A hash of a Craft message's dictionary, where its names stand; 0 where there is none.

    Before the number at the end are as many bytes of size tables; their first table has its count, the headers' size
    and how much more the dictionary's is (zig-zag).
    """
    sizes = np.zeros(2, np.int64)
    for row in range(first.shape[0]):
        out[row] = 0
        if first[row] < 0:
            continue
        size, end = read_back(data, last[row] - 1, first[row])
        tables = end - size
        if end < 0 or tables < first[row]:
            continue
        _, pos = uvarint(data, tables, end)
        if pos >= 0 and deltas(data, pos, end, 2, 0, tables - first[row], sizes) >= 0 and sizes[1]:
            out[row] = _hash(data, tables - sizes[1], min(tables, tables - sizes[1] + _FAR))
