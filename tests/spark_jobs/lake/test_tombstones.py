"""The table of deleted keys: deletes are appended, the newest of a key counts, and it is tidied now and then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.lake.engines.base import ENGINES, engine
from ticdc_bridge.spark_jobs.lake.table_columns import FORGOTTEN, TableColumns, TableKind, TableSettings
from ticdc_bridge.spark_jobs.lake.tombstones import Tombstones
from ticdc_bridge.spark_jobs.lake.untimed_deletes import KAFKA_POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


class _Property:
    """A lake table that has a property."""

    def __init__(self, **properties: str) -> None:
        self.stored = properties

    def exists(self) -> bool:
        return True

    def properties(self) -> dict[str, str]:
        return self.stored

    def set_properties(self, properties: dict[str, str]) -> None:
        self.stored = {**self.stored, **properties}


def test_what_is_forgotten_stays_so() -> None:
    """`maintain` removed deletes up to 100; then the key's type changed, when the newest of the others was at 80."""
    table: Any = _Property(**{FORGOTTEN: "100"})
    columns = TableColumns(table, table, table, TableKind(), TableSettings(TableId("d", "t")))
    for newest, until in ((None, 100), (80, 100), (120, 120)):
        assert columns._record_forgotten(newest) == (-1 if newest is None else until)
        assert table.properties()[FORGOTTEN] == str(until)


_DELTA = [name for name, entry in ENGINES.items() if entry.table_format == "delta"]


def _tombstones(spark: SparkSession, path: Path, name: str) -> Tombstones:
    keys = [Column("my id", BY_NAME["int"], handle_key=True)]
    return Tombstones(spark, engine(name)(spark, str(path / "t__tombstones")), keys, ["int"])


def _deletes(spark: SparkSession, rows: Sequence[tuple[int, int]], offset: int | None = None) -> DataFrame:
    frame = spark.createDataFrame(rows, "k_0 int, deleted_until_ts bigint")
    if offset is None:
        return frame
    position = (
        f"'topic', 't', 'partition', 0, 'offset', {offset}L, 'time', timestamp_millis({offset}), 'deleted_ts', 11L"
    )
    return frame.selectExpr("*", f"cast(named_struct({position}) as {KAFKA_POSITION}) delete_position")


def _late(tombstones: Tombstones, rows: Sequence[tuple[int, int]]) -> set[int]:
    spark, oldest = tombstones.spark, min(commit_ts for _, commit_ts in rows)
    newest = spark.createDataFrame([(k, ts, False) for k, ts in rows], "k_0 int, commit_ts bigint, is_deleted boolean")
    return {row["k_0"] for row in tombstones.mark_late(newest, oldest).where("late").collect()}


@pytest.mark.slow
@pytest.mark.parametrize("name", _DELTA)
def test_a_key_that_is_deleted_again(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Of several rows of a key the newest counts, whatever their order; tidying leaves one a key."""
    rounds = [([(1, 10), (2, 20)], False), ([(1, 30)], False), ([(1, 25), (3, 5)], False), ([(2, 15)], True)]
    for number, (deletes, is_tidy_time) in enumerate(rounds):
        _tombstones(spark, tmp_path, name).add_deleted(_deletes(spark, deletes), is_tidy_time)
        if number == 2:
            assert _tombstones(spark, tmp_path, name).table.read().count() == 5
            assert _late(_tombstones(spark, tmp_path, name), [(1, 29), (2, 20), (3, 4), (4, 1)]) == {1, 3}
    assert sorted(map(tuple, _tombstones(spark, tmp_path, name).table.read().collect())) == [(1, 30), (2, 20), (3, 5)]
    after = _tombstones(spark, tmp_path, name)
    assert _late(after, [(1, 30), (2, 19), (3, 5)]) == {2}
    assert after.mark_late(spark.createDataFrame([(1,)], "k_0 int"), None).where("late").isEmpty()


@pytest.mark.slow
@pytest.mark.parametrize("name", _DELTA)
def test_places_among_appended_deletes(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """A delete without a commit_ts changes all rows of its key; what is appended after it keeps the place."""
    _tombstones(spark, tmp_path, name).add_deleted(_deletes(spark, [(1, 10)]), False)
    _tombstones(spark, tmp_path, name).add_deleted(_deletes(spark, [(1, 12)]), False)
    for offset in (7, 9):
        _tombstones(spark, tmp_path, name).add_deleted(_deletes(spark, [(1, 11)], offset), False)
    _tombstones(spark, tmp_path, name).add_deleted(_deletes(spark, [(1, 14), (2, 3)]), False)
    stored = _tombstones(spark, tmp_path, name)
    assert stored.have_positions()
    for tombstones in (stored, _tombstones(spark, tmp_path, name)):
        by_key = tombstones.by_key(["k"]).orderBy("k").collect()
        stored_keys = [(row["k"], row["_deleted_until_ts"], row["_delete_position"]) for row in by_key]
        assert [(k, ts, at and at["offset"]) for k, ts, at in stored_keys] == [(1, 14, 9), (2, 3, None)]
        tombstones.add_deleted(_deletes(spark, [(2, 1)]), True)
