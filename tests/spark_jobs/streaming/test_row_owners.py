"""Of which table a row without a commit_ts is, where its name was another table's before."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.change_schema import CHANGES
from ticdc_bridge.spark_jobs.lake.name_history import NameOwner
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.row_owners import IS_ESTIMATED, OWNED_AT, RowOwners

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MS = 1_700_000_000_000
_FIRST, _SECOND = NameOwner(1, -1, _MS + 100 << 18), NameOwner(2, _MS + 200 << 18, _MS + 900 << 18)
_SHARED = {TableId("d", "t"): [_FIRST, _SECOND]}
_SCHEMA = CHANGES + ", position bigint"
Place = tuple[int | None, int | None]
"""When a row was committed (None: not known), and when it came to Kafka (None: of a file), in ms after _MS."""
_CASES: list[tuple[str, list[Place], int, bool]] = [
    ("between rows of the first", [(50, 60), (None, 70), (80, 90)], 1, False),
    ("between rows of the second", [(250, 260), (None, 270), (280, 290)], 2, False),
    ("the next row is of the first", [(None, 300), (80, 310)], 1, True),
    ("in Kafka before the second", [(50, 60), (None, 190)], 1, False),
    ("after a row of the second", [(250, 260), (None, 270)], 2, True),
    ("between rows of both, late as the nearest", [(50, 250), (None, 260), (300, 310)], 1, True),
    ("between rows of both, in Kafka with the second", [(50, 60), (None, 305), (300, 310)], 2, True),
    ("late as the row before", [(50, 250), (None, 420), (600, 800)], 2, True),
    ("alone", [(None, 300)], 2, True),
    ("alone, and early", [(None, 190)], 1, False),
    ("after the second went", [(250, 260), (None, 2000)], 2, True),
    ("a changefeed that begins again", [(250, 260), (None, 270), (50, 280)], 2, True),
    ("it begins again with the delete", [(250, 260), (None, 270), (250, 280)], 2, True),
    ("Kafka's clock is behind", [(None, 150), (400, 160)], 2, True),
    ("a file without times", [(50, None), (None, None), (80, None)], 1, False),
    ("a file without times, alone", [(None, None)], 2, True),
]
"""What it is, the rows of a partition, of which table the delete is, and whether that is an estimate."""


def _row(partition: int, offset: int, location: Place) -> dict[str, Any]:
    commit, kafka = location
    time = None if kafka is None else datetime.fromtimestamp((_MS + kafka) / 1000, UTC)
    commit_ts = None if commit is None else _MS + commit << 18
    named = {"kind": "row", "db": "D", "table": "T", "row": 0, "position": offset}
    return {**named, "commit_ts": commit_ts, "source": ("t", partition, offset, time)}


def test_rows_whose_name_two_tables_had(spark: SparkSession) -> None:
    made = [
        _row(n, at, location) for n, (_, locations, *_) in enumerate(_CASES) for at, location in enumerate(locations)
    ]
    marked = RowOwners(None, 0).mark(spark.createDataFrame(made, _SCHEMA), _SHARED).where("commit_ts IS NULL")
    found = {row["source"]["partition"]: row for row in marked.collect()}
    for number, (what, _, table, is_estimated) in enumerate(_CASES):
        at = found[number][OWNED_AT]
        assert [entry.table for entry in _SHARED[TableId("d", "t")] if entry.after < at <= entry.until] == [table], what
        assert found[number][IS_ESTIMATED] is is_estimated, what


@pytest.mark.slow
def test_rows_of_the_batch_before(spark: SparkSession, tmp_path: Path) -> None:
    """A delete that is the first of its partition comes after what an earlier micro-batch read there. Where it is the
    last one, too, the changefeed may have begun again with it.
    """
    checkpoint = Checkpoint(tmp_path, {})
    batches: dict[int, list[Place]] = {0: [(250, 260)], 1: [(None, 270)], 3: [(None, 280), (280, 290)]}
    for number in (0, 1, 3, 3):  # batch 2 has no rows, the last one is tried again
        made = [_row(0, 2 * number + at, batch) for at, batch in enumerate(batches[number])]
        for row in RowOwners(checkpoint, number).mark(spark.createDataFrame(made, _SCHEMA), _SHARED).collect():
            assert row[IS_ESTIMATED] is (number == 1)
            assert row[OWNED_AT] > _SECOND.after
    assert [path.stem for path in sorted((tmp_path / "last_rows").iterdir())] == ["000000000001", "000000000003"]
