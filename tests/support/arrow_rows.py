"""Arrow batches of a table's rows, held to the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from schemas.model.event import RowChange
from schemas.model.table import Column
from spark_jobs.arrow.table_decoders import batch_of, batch_schema

pa: Any = pyarrow  # the stubs know less than the library


def check_rows(batches: Sequence[Any], wanted: list[tuple[int, RowChange]], columns: Sequence[Column]) -> None:
    """The batches hold these rows (with the index of the message of each), and nothing else."""
    found = pa.Table.from_batches(batches, schema=batch_schema(columns))
    expected = pa.Table.from_batches([batch_of(wanted, columns)])
    if not found.equals(expected):  # NaN is never there, so equal means equal
        assert found.to_pylist() == expected.to_pylist()
        raise AssertionError("the same values in another form")
