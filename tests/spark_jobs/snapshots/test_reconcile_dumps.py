"""`reconcile --dump`, and what `reconcile` can't tell."""

import random
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_jobs.snapshots.test_reconcile import compare, damage, lake_table
from tests.support.dumps import DUMPS, ZONE, write_dump
from ticdc_bridge.cli import main


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dump", ["sql", "csv", "parquet"])
def test_against_a_dump(spark: SparkSession, tmp_path: Path, dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, source = f"delta:{tmp_path}/{{table}}", f"dumpling:{DUMPS / dump}"
    words = ["--tables", "dmp.types,dmp.keyed", "--source-time-zone", ZONE, "--on-lossy", "flag"]
    assert main(["load", "--source", source, *words, "--out", out]) == 0
    words += ["--dump", source, "--lake", out, "--wait", "0s"]
    assert compare(*words) == (0, [])
    table = lake_table(spark, "delta-spark", out, "types")
    changed = damage(table, random.Random(dump))[0]
    expected = {id_: names - {"g_stored"} for id_, names in changed.items() if names != {"g_stored"}}
    code, found = compare(*words)
    assert code == 1
    assert {int(d["key"]["id"]): set(d["columns"]) for d in found} == expected
    assert {d["table"] for d in found} == {"types"}
    assert compare(*words, "--repair")[0] == 0
    strict = [word for word in words if word not in ("--on-lossy", "flag")]
    assert main(["reconcile", *strict, "--out", "x"]) == 2
    assert "g_stored is generated" in capsys.readouterr().err


@pytest.mark.slow
def test_a_repair_stops_at_a_date_without_a_type(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create, out = "CREATE TABLE `t` (`id` int NOT NULL, `d` datetime, PRIMARY KEY (`id`))", f"delta:{tmp_path}/lake"
    first = write_dump(tmp_path / "a", 1 << 60, create, [["1", "2024-01-01 00:00:00"], ["2", None]])
    later = write_dump(tmp_path / "b", 1 << 61, create, [["1", "2024-00-00 00:00:00"], ["2", "2025-01-01 00:00:00"]])
    assert main(["load", "--source", first, "--table", "d.t", "--out", out, "--types", "typed"]) == 0
    words = ["--dump", later, "--table", "d.t", "--lake", out, "--wait", "0s"]
    capsys.readouterr()
    assert main(["reconcile", *words, "--repair"]) == 2
    assert "date or time that Spark's types can't hold" in capsys.readouterr().err
    rows = {row["id"]: row["d"] for row in spark.read.format("delta").load(f"{tmp_path}/lake").collect()}
    assert rows == {1: datetime(2024, 1, 1), 2: None}
    code, found = compare(*words)
    assert (code, [d["columns"] for d in found]) == (1, [["d"], ["d"]])


@pytest.mark.slow
def test_a_repair_that_did_not_end(spark: SparkSession, tmp_path: Path) -> None:
    """The changelog has what was mended, whenever a repair ends, and once."""
    create, out, log = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` int)", f"{tmp_path}/lake", f"{tmp_path}/log"
    first = write_dump(tmp_path / "a", 1 << 60, create, [["1", "1"], ["2", "2"]])
    later = write_dump(tmp_path / "b", 1 << 61, create, [["1", "1"], ["2", "3"]])
    words = ["--table", "d.t", "--changelog", f"delta:{log}"]
    assert main(["load", "--source", first, *words, "--out", f"delta:{out}"]) == 0
    words += ["--dump", later, "--lake", f"delta:{out}", "--wait", "0s", "--repair"]
    for is_append_only, code in (("true", 2), ("false", 0)):
        spark.sql(f"ALTER TABLE delta.`{out}` SET TBLPROPERTIES ('delta.appendOnly' = '{is_append_only}')")
        assert main(["reconcile", *words]) == code
        logged = spark.read.format("delta").load(log).where(f"_tidb_commit_ts = {1 << 61}")
        assert [(row["_tidb_op"], row["id"], row["v"]) for row in logged.collect()] == [("R", 2, 3)]


@pytest.mark.slow
def test_an_hour_that_the_clocks_skip(spark: SparkSession, tmp_path: Path) -> None:
    """A DATETIME has no zone, and stays what it is in that of the changefeed."""
    create, rows = "CREATE TABLE `t` (`at` datetime(2) PRIMARY KEY, `n` int)", [["2026-03-29 03:30:00.50", "1"]]
    source, out = write_dump(tmp_path / "dump", 2_000_000, create, rows), f"delta:{tmp_path}/t"
    words = ["--table", "d.t", "--time-zone", "Europe/Berlin"]
    assert main(["load", "--source", source, *words, "--types", "typed", "--out", out]) == 0
    spark.sql(f"INSERT INTO delta.`{tmp_path}/t` VALUES (TIMESTAMP_NTZ'2026-03-29 02:30:00.5', 2, 1)")
    words += ["--dump", source, "--lake", out, "--wait", "0s"]
    code, (found,) = compare(*words)
    assert (code, found["kind"], found["key"]) == (1, "extra", {"at": "2026-03-29 02:30:00.50"})
    assert compare(*words, "--repair")[0] == 0
    assert compare(*words) == (0, [])
    assert [str(row["at"]) for row in spark.read.format("delta").load(str(tmp_path / "t")).collect()] == [
        "2026-03-29 03:30:00.500000"
    ]


def test_what_can_not_be_known(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"dumpling:{DUMPS / 'sql'}"
    words = ["reconcile", "--table", "dmp.keyed", "--lake", f"delta:{tmp_path}/x", "--out", "x"]
    assert main(words) == 2
    assert "Give --tidb mysql://USER@HOST:PORT or --dump dumpling:DIR-OR-URL" in capsys.readouterr().err
    assert main([*words, "--dump", "x"]) == 2
    assert main([*words, "--dump", source]) == 2
    assert f"delta:{tmp_path}/x: there is no table" in capsys.readouterr().err
    assert main([*words, "--dump", source, "--sample", "3"]) == 2
