"""`merge --consistent` and `at`: at each resolved ts every table is what TiDB had then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.support.changes import CREATE, Changes
from tests.support.history_events import T0
from tests.support.lake_readers import query_duckdb
from tests.support.streams import send
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.io.locations import TableLocation
from ticdc_bridge.spark_jobs.lake.points_in_time import TablePoint
from ticdc_bridge.spark_jobs.streaming import consistent
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

FAR = T0 + (1 << 50)
"""Above all changes: a statement that no batch follows yet."""


class Feed:
    """Two tables, each on a topic of two partitions, into a place each. lake: a rule of places."""

    def __init__(self, kafka: Kafka, lake: str, *more: str) -> None:
        self.kafka = kafka
        self.tables = {name: Changes(name=name, seed=name) for name in ("orders", "items")}
        self.topics = {name: kafka.create_topic(partitions=2) for name in self.tables}
        lines = [{"commit_ts": T0, "db": "shop", "query": CREATE.format(name)} for name in self.tables]
        if "--consistent" in more:
            lines.append({"commit_ts": FAR, "db": "shop", "query": "TRUNCATE TABLE orders"})
        Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.argv = [
            "merge", "--format", "open", "--in", "kafka:" + ",".join(self.topics.values()), "--ddl", "ddl.jsonl",
            "--tables", "shop.*", "--out", lake, "--bootstrap-servers", kafka.bootstrap_servers, "--stream",
            "--trigger", "now", *more,
        ]  # fmt: skip

    def send(self, count: int) -> None:
        for name, changes in self.tables.items():
            send(self.kafka, self.topics[name], changes.lot(count))

    def merge(self, *more: str, checkpoint: str = "cp") -> int:
        return main([*self.argv, "--checkpoint", checkpoint, *more])

    def rows_at(self, name: str, commit_ts: int) -> dict[int, str]:
        """What TiDB has in a table then."""
        table = dict[int, str]()
        for ts, _, id_, total in self.tables[name].made:
            if ts <= commit_ts and total is None:
                del table[id_]
            elif ts <= commit_ts and total is not None:
                table[id_] = total
        return table


def at(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["at", *words, "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def totals(rows: list[Any]) -> dict[int, str]:
    return {row["id"]: str(row["total"]) for row in rows}


def test_a_batch_ends_at_a_resolved_ts(kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows above the least watermark wait; what is written can be read as it was."""
    del spark
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--engine", "deltalake", "--consistent", "delta:points")
    feed.send(9)
    assert feed.merge() == 0
    commit_ts = min(changes.newest_ts for changes in feed.tables.values())
    for reading in at(capsys, "--consistent", "delta:points"):
        assert reading["commit_ts"] == commit_ts
        table = DeltaTable(reading["location"].partition(":")[2], reading["version"])
        truth = feed.rows_at(reading["table"].partition(".")[2], commit_ts)
        assert totals(table.to_pyarrow_table().to_pylist()) == truth
    assert main([word for word in feed.argv if word != "--stream"]) == 2
    assert "--consistent goes with --stream" in capsys.readouterr().err


PLACES = {
    "delta-spark": ("delta:lake/{schema}/{table}", "delta:points"),
    "deltalake": ("delta:lake/{schema}/{table}", "delta:points"),
    "iceberg-spark": ("iceberg:CATALOG.{schema}.{table}", "iceberg:CATALOG.db.points"),
}


def test_no_row_while_a_table_is_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its version is one of before the resolved ts."""
    place = TableLocation("delta", str(tmp_path / "points"))
    points = consistent.ConsistentPoints(place, "auto", Checkpoint(tmp_path / "cp", {}), "shop.*")
    points.points = {"delta:/lake/orders": TablePoint("shop.orders", 3, -1, 10)}
    no_session: Any = None
    assert points.keep()["tables"].keys() == {"delta:/lake/orders"}
    points.record(no_session, 10, {"shop.items": (5, "EXCHANGE PARTITION")})
    assert "yet: shop.items is set aside" in capsys.readouterr().err
    assert not (tmp_path / "points").exists()
    assert points.checkpoint.read("points.json", dict[str, Any]())["tables"].keys() == {"delta:/lake/orders"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", PLACES)
def test_each_table_is_tidbs_at_each_resolved_ts(
    engine: str, kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Micro-batches that end in the middle; one whose rows of PLACE were not written is done again."""
    catalog = new_catalog(spark)
    lake, points = (text.replace("CATALOG", catalog) for text in PLACES[engine])
    feed = Feed(kafka, lake, "--consistent", points, "--engine", engine, "--max-per-batch", "21")
    feed.send(20)
    assert feed.merge() == 0
    feed.send(20)
    with monkeypatch.context() as patch:
        patch.setattr(consistent, "add_points", lambda *_: 1 / 0)
        assert feed.merge() == 2
    assert feed.merge() == 0
    newest = min(changes.newest_ts for changes in feed.tables.values())
    name = points.partition(":")[2]
    frame = spark.table(name) if "iceberg" in points else spark.read.format("delta").load(str(Path(name).absolute()))
    rows = frame.collect()
    assert max(row["resolved_ts"] for row in rows) == newest
    assert len({(row["resolved_ts"], row["table"]) for row in rows}) == len(rows)
    stamps = sorted({row["resolved_ts"] for row in rows})
    assert len(stamps) >= 2
    for commit_ts in (*stamps, FAR):
        readings = at(capsys, "--consistent", points, "--commit-ts", str(commit_ts), "--tables", "shop.*")
        assert {reading["commit_ts"] for reading in readings} == {min(commit_ts, newest)}
        for reading in readings:
            truth = feed.rows_at(reading["table"].partition(".")[2], min(commit_ts, newest))
            assert totals(spark.sql(reading["sql"]["spark"]).collect()) == truth
            assert [column["name"] for column in reading["columns"]] == ["id", "total", "note", "_commit_ts"]
            if "delta" in points:
                assert totals(query_duckdb(reading["sql"]["duckdb"], [], ("delta",))) == truth
    assert main(["at", "--consistent", points, "--commit-ts", "7"]) == 2
    assert "its oldest resolved ts is" in capsys.readouterr().err
    if engine == "deltalake":
        return
    (reading,) = at(capsys, "--lake", lake.format(schema="shop", table="items"), "--commit-ts", str(stamps[0] + 1))
    assert totals(spark.sql(reading["sql"]["spark"]).collect()) == feed.rows_at("items", reading["commit_ts"])
    assert reading["exactly"].startswith("to the batch; the next one has changes up to ")


@pytest.mark.slow
def test_tables_that_are_further_are_waited_for(
    kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A merge without --consistent wrote the tables, and read the whole topics: earlier resolved ts get no row."""
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--engine", "deltalake")
    feed.send(12)
    assert feed.merge(checkpoint="before") == 0
    merged = max(ts for changes in feed.tables.values() for ts, *_ in changes.made)
    feed.send(12)
    feed.send(12)
    assert feed.merge("--consistent", "delta:points", "--max-per-batch", "14") == 0
    assert "no row in delta:points yet: shop." in capsys.readouterr().err
    rows = spark.read.format("delta").load(str(Path("points").absolute())).collect()
    assert min(row["resolved_ts"] for row in rows) >= merged
    for row in rows:
        version = spark.read.format("delta").option("versionAsOf", row["version"]).load(row["location"][6:])
        assert totals(version.collect()) == feed.rows_at(row["table"].partition(".")[2], row["resolved_ts"])


@pytest.mark.slow
def test_row_versions_and_changelogs_by_their_rows(
    kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(kafka, "delta:lake/{schema}/{table}", "--engine", "delta-spark")
    feed.send(30)
    more = ["--versions", "delta:past/{schema}/{table}", "--changelog", "delta:log/{schema}/{table}"]
    assert feed.merge(*more) == 0
    made = feed.tables["orders"].made
    untimed = f"_tidb_commit_ts = NULL, _kafka_timestamp = timestamp_millis({made[15][0] >> 18})"  # as Avro's deletes
    log = f"delta.`{Path('log/shop/orders').absolute()}`"
    spark.sql(f"UPDATE {log} SET {untimed} WHERE _tidb_commit_ts = {made[15][0]}")
    for commit_ts in (made[9][0], made[20][0] - 1):
        when = ("--commit-ts", str(commit_ts))
        (past,) = at(capsys, "--lake", "delta:past/shop/orders", *when)
        assert past["exactly"] == "to the row"
        for rows in (spark.sql(past["sql"]["spark"]).collect(), query_duckdb(past["sql"]["duckdb"], [], ("delta",))):
            assert totals(rows) == feed.rows_at("orders", commit_ts)
        (past,) = at(capsys, "--lake", "delta:log/shop/orders", *when)
        assert spark.sql(past["sql"]["spark"]).count() == sum(ts <= commit_ts for ts, *_ in made)
