"""Helpers of rows in flat arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ticdc_bridge.schemas.columnar.rows import find_distinct

_POOLS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 100), min_size=1, max_size=80)


@given(_POOLS, st.lists(st.integers(0, 79), max_size=400), st.sampled_from(["uint64", "int64"]))
def test_distinct_numbers_are_those_of_numpy(pool: list[int], picks: list[int], kind: str) -> None:
    numbers = np.array([pool[n % len(pool)] for n in picks], np.uint64).view(kind)
    found = find_distinct(numbers)
    wanted = np.unique(numbers, return_index=True, return_inverse=True)
    for ours, numpys in zip(found, wanted, strict=True):
        assert ours.dtype == numpys.dtype
        assert (ours == numpys).all()
