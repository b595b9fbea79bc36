"""The different numbers of an array that has few of them, without sorting it."""

from __future__ import annotations

from typing import Any


def distinct(numbers: Any) -> tuple[Any, Any, Any]:
    """(the different numbers, where each is first, which of them each element is), as numpy.unique, which sorts.

    numbers: of an integer type.
    """
    import numpy as np

    if not len(numbers):
        return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= 1 << 16:
        found, first, back = np.unique(numbers, return_index=True, return_inverse=True)
        return found, first, back
    shifted = (numbers - numbers.dtype.type(low)).astype(np.int64)
    first = np.full(high - low + 1, -1, np.int64)
    first[shifted[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of the same number, the last one written stays
    there = np.flatnonzero(first >= 0)
    place = np.empty(len(first), np.int64)
    place[there] = np.arange(len(there))
    return there.astype(numbers.dtype) + numbers.dtype.type(low), first[there], place[shifted]
