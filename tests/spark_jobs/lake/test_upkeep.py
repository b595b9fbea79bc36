"""`maintain`, and what users run instead, while a stream writes the tables."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tests.spark_jobs.lake.test_consistent import totals
from tests.spark_jobs.lake.test_many_tables import change, messages, wait_for
from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.support.changes import Changes
from tests.support.history_events import T0
from tests.support.streams import run_while, send
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import ms_to_tso
from ticdc_bridge.spark_jobs.io.locations import TableLocation, table_location_of
from ticdc_bridge.spark_jobs.lake import points_in_time, tables
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.streaming import merge_batch, writers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

DAY = ms_to_tso(86_400_000)


def lake_table(spark: SparkSession, place: str, engine: str = "auto") -> LakeTable:
    location = table_location_of(place)
    assert isinstance(location, TableLocation)
    return tables.engine_of(spark, engine, location.format)(spark, location.name)


def deleted_keys(path: str) -> list[Any]:
    return sorted(row["id"] for row in DeltaTable(path).to_pyarrow_table().to_pylist())


@pytest.mark.slow
def test_old_deletes_go_and_later_ones_stop(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """What a run marks, the next one removes; a change from before that may not bring a row back."""
    del spark
    Path("ddl.jsonl").write_text(
        json.dumps({"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (id INT PRIMARY KEY, v INT)"}) + "\n"
    )

    def merge(*changes: dict[str, Any]) -> int:
        argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--table", "d.t", "--out", "delta:t"]
        return main([*argv, "--in", messages(*changes), "--engine", "deltalake"])

    def delete(ts: int, id_: str) -> dict[str, Any]:
        return {**change("d.t", ts, id=id_), "op": "d", "before": {"id": id_, "v": "1"}, "after": None}

    rows = [change("d.t", T0 + n, id=str(n), v="1") for n in range(4)]
    assert (
        merge(*rows, delete(T0 + 10, "0"), delete(T0 + 9 * DAY, "1"), change("d.t", T0 + 10 * DAY, id="9", v="1")) == 0
    )
    upkeep = ["maintain", "--table-at", "delta:t", "--keep", "2d", "--engine", "deltalake"]
    for kept, text in (([0, 1], "0 removed, 1 marked"), ([1], "1 removed, 0 marked")):
        assert main(upkeep) == 0
        assert deleted_keys("t__tombstones") == kept
        assert f"maintain: delta:t: deleted keys: {text}" in capsys.readouterr().err
    assert merge(rows[1], rows[2]) == 0  # one is known as deleted, the other is there
    assert merge(rows[0]) == 2
    assert "comes late" in capsys.readouterr().err
    assert sorted(row["id"] for row in DeltaTable("t").to_pyarrow_table().to_pylist()) == [2, 3, 9]
    assert main([*upkeep, "--keep-changes", "1d"]) == 2
    assert main(["maintain", "--table-at", "delta:none"]) == 2
    assert "there is no table" in capsys.readouterr().err


@pytest.mark.slow
def test_points_go_with_their_versions(spark: SparkSession) -> None:
    """By the clock, also where a stream was down; the newest stays, as its version is the table's."""
    table, now = lake_table(spark, "delta:points"), ms_to_tso(int(time.time() * 1000))
    for days in (31, 30):
        points_in_time.add_points(
            spark, table, now - days * DAY, {"delta:/t": points_in_time.TablePoint("d.t", days, -1, 0)}
        )
    assert main(["maintain", "--table-at", "delta:points", "--keep", "3d"]) == 0
    assert [row["version"] for row in table.read().collect()] == [30]


ENGINES = pytest.mark.parametrize("engine", ["delta-spark", "deltalake", "iceberg-spark"])


@pytest.mark.slow
@ENGINES
def test_upkeep_during_a_stream(engine: str, kafka: Kafka, spark: SparkSession) -> None:
    """By maintain, and as users do it: the stream goes on, and its table is TiDB's.

    VACUUM without an hour at least would take the files of a batch that is not committed yet.
    """
    changes, topic = Changes(), kafka.create_topic(partitions=2)
    place = f"iceberg:{new_catalog(spark)}.db.orders" if engine == "iceberg-spark" else "delta:orders"
    argv = [
        "merge", "--format", "open", "--in", f"kafka:{topic}", "--ddl", str(changes.ddl(Path("ddl.jsonl"))),
        "--table", "shop.orders", "--out", place, "--engine", engine, "--stream", "--checkpoint", "cp",
        "--trigger", "100ms", "--bootstrap-servers", kafka.bootstrap_servers,
    ]  # fmt: skip
    send(kafka, topic, changes.lot(30))

    def is_merged() -> bool:
        table = lake_table(spark, place, engine)
        return table.exists() and totals(table.read().collect()) == changes.table

    def script() -> None:
        wait_for(is_merged)
        for n in range(4):
            send(kafka, topic, changes.lot(30))
            if n % 2:
                assert main(["maintain", "--table-at", place, "--engine", engine]) == 0
            else:
                for location in (place, f"{place}__tombstones"):
                    lake_table(spark, location, engine).compact()
                    lake_table(spark, location, engine).expire(0 if engine == "iceberg-spark" else 1)
        wait_for(is_merged)

    assert run_while(argv, script) == 0
    assert is_merged()
    assert main([*argv, "--trigger", "now", "--checkpoint", "anew"]) == 0  # the deleted keys are known still
    assert is_merged()


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 9])
def test_a_batch_that_lost_a_conflict_is_done_again(
    times: int, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, and so often that the stream gives up."""
    changes, topic, lost = Changes(), kafka.create_topic(partitions=2), list[int]()

    def merge_table(*arguments: Any) -> int:
        if len(lost) < times:
            lost.append(1)
            raise SetupError("STOPPED", where="orders", details="lost") from CommitFailedError("another commit")
        return merge_batch.merge_table(*arguments)

    monkeypatch.setattr(writers, "merge_table", merge_table)
    argv = [
        "merge", "--format", "open", "--in", f"kafka:{topic}", "--ddl", str(changes.ddl(Path("ddl.jsonl"))),
        "--table", "shop.orders", "--out", "delta:orders", "--engine", "deltalake", "--stream", "--checkpoint", "cp",
        "--trigger", "now", "--bootstrap-servers", kafka.bootstrap_servers,
    ]  # fmt: skip
    send(kafka, topic, changes.lot(9))
    assert main(argv) == (0 if times == 1 else 2)
    if times == 1:
        assert totals(DeltaTable("orders").to_pyarrow_table().to_pylist()) == changes.table
    else:
        assert (len(lost), "stopped at orders: lost" in capsys.readouterr().err) == (4, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_numbers_of_batches_outlive_upkeep(kind: str, kafka: Kafka, spark: SparkSession) -> None:
    """Rows that were appended are not appended again, though the snapshots after them are all of upkeep."""
    changes, topic = Changes(), kafka.create_topic(partitions=2)
    place = f"iceberg:{new_catalog(spark)}.db.log" if kind == "iceberg" else "delta:log"
    argv = [
        "decode", "--format", "open", "--in", f"kafka:{topic}", "--ddl", str(changes.ddl(Path("ddl.jsonl"))),
        "--out", place, "--stream", "--checkpoint", "cp", "--trigger", "now",
        "--bootstrap-servers", kafka.bootstrap_servers,
    ]  # fmt: skip
    table = lake_table(spark, place)
    for _ in range(6):
        send(kafka, topic, changes.lot(5))
        assert main(argv) == 0
    table.compact()
    table.expire(0)
    assert len(table.commits()) < 6 or kind == "delta"
    for path in [*Path("cp/spark/commits").glob("5*"), *Path("cp/spark/commits").glob(".5*")]:
        path.unlink()
    assert main(argv) == 0
    assert table.read().where("kind = 'row'").count() == len(changes.made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_changes_are_kept_by_days(kind: str, spark: SparkSession) -> None:
    Path("ddl.jsonl").write_text(
        json.dumps({"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (id INT PRIMARY KEY, v INT)"}) + "\n"
    )
    place = f"iceberg:{new_catalog(spark)}.db.log" if kind == "iceberg" else "delta:log"
    now = spark.sql("SELECT unix_millis(current_timestamp())").collect()[0][0]
    days = (200, 91, 89, 0)
    changes = [change("d.t", ms_to_tso(now) - day * DAY, id=str(day), v="1") for day in days]
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--table", "d.t", "--changelog", place]
    assert main([*argv, "--in", messages(*changes)]) == 0
    assert main(["maintain", "--table-at", place, "--keep-changes", "90d"]) == 0
    assert sorted(row["id"] for row in lake_table(spark, place).read().collect()) == [0, 89]
