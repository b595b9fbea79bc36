"""Varints into a numpy buffer, for numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.codec.kernels import varint_jit as jit

Array = Any  # numpy arrays: numba knows their types


@jit
def put(out: Array, at: int, value: Any) -> int:
    """A uvarint; next position."""
    rest = np.uint64(value)
    while rest > np.uint64(127):
        out[at] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@jit
def zigzag(value: Any) -> Any:
    return np.uint64((np.int64(value) << 1) ^ (np.int64(value) >> 63))
