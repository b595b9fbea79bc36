"""Arrow batches of a table's rows, held to the rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow

from tests.support.table_decoders import batch_schema
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.spark_types import python_value
from ticdc_bridge.schemas.model.table import Column

pa: Any = pyarrow  # the stubs know less than the library


def check_rows(batches: Sequence[Any], wanted: list[tuple[int, RowChange]], columns: Sequence[Column]) -> None:
    """The batches hold these rows (with the index of the message of each), and nothing else."""
    found = pa.Table.from_batches(batches, schema=batch_schema(columns))
    expected = pa.Table.from_batches([batch_of(wanted, columns)])
    if not found.equals(expected):  # NaN is never there, so equal means equal
        assert found.to_pylist() == expected.to_pylist()
        raise AssertionError("the same values in another form")


def batch_of(events: Sequence[tuple[int, RowChange]], columns: Sequence[Column]) -> Any:
    """(message, row) by row, as `CraftDecoder` gives them → a batch"""
    rows: dict[str, list[Any]] = {name: [] for name in batch_schema(columns).names}
    for message, event in events:
        rows["message"].append(message)
        rows["op"].append(event.op)
        rows["commit_ts"].append(event.commit_ts)
        rows["partition"].append(event.extra.get("partition", event.extra.get("ptn", -1)))
        rows["key_only"].append(event.key_only)
        for image, row in (("before", event.before), ("after", event.after)):
            cells = None if row is None else {c.name: python_value(c, row.get(c.name)) for c in columns}
            rows[image].append(cells)
    return pa.RecordBatch.from_pydict(rows, schema=batch_schema(columns))
