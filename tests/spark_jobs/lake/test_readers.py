"""Who reads the tables: the page's table is what readers do, warnings name those that can't, and features come late."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.matrix import readers
from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_schema_changes import merge, messages
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.lake.engines import delta_features
from ticdc_bridge.spark_jobs.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_the_page_says_what_readers_do(spark: SparkSession, tmp_path: Path) -> None:
    read = readers.answers(spark, tmp_path)
    assert readers.PART.read() == readers.section(read), "run `python -m tests.matrix.readers`"
    for feature in (delta_features.MAPPING, delta_features.WIDENING, delta_features.NTZ):
        (cells,) = (cells for name, cells in read.items() if name.startswith("Delta") and feature.title in name)
        assert (cells["deltalake"] == "yes") == ("deltalake" not in feature.then), feature
        assert cells["DuckDB"] == "yes"


_TABLE = "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(9))"
_STEPS: dict[str, tuple[str, dict[str, Any], set[str], str]] = {
    "add": ("ALTER TABLE t ADD w INT", {"id": "2", "n": "1", "v": "a", "w": None}, set(), ""),
    "rename": ("ALTER TABLE t RENAME COLUMN v TO vv", {"id": "2", "n": "1", "vv": "a"}, {"columnMapping"},
               "the new name 'vv' of column 'v' needs Delta's column mapping: deltalake can't write"),
    "drop": ("ALTER TABLE t DROP COLUMN v", {"id": "2", "n": "1"}, {"columnMapping"},
             "column 'v', which is dropped, needs Delta's column mapping"),
    "widen": ("ALTER TABLE t MODIFY n BIGINT", {"id": "2", "n": str(1 << 40), "v": "a"}, {"typeWidening"},
              "column n from int to bigint needs Delta's type widening: deltalake can't read"),
    "another type": ("ALTER TABLE t MODIFY n VARCHAR(9)", {"id": "2", "n": "x", "v": "a"}, set(), ""),
    "a blank": ("ALTER TABLE t ADD `w w` INT", {"id": "2", "n": "1", "v": "a", "w w": "3"}, {"columnMapping"},
                "column 'w w' needs Delta's column mapping"),
}  # fmt: skip


@pytest.mark.slow
def test_a_feature_comes_with_the_change_that_needs_it(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """And once: the second run warns of nothing."""

    def check(name: str) -> None:
        statement, after, features, reported = _STEPS[name]
        location, ddl = name.replace(" ", "_"), [(150, _TABLE), (200, statement)]
        changes = [{"commit_ts": 160, "after": {"id": "1", "n": "5", "v": "a"}}, {"commit_ts": 250, "after": after}]
        assert merge(ddl[:1], changes[:1], location, ()) == 0
        assert ("warning: delta:" in capsys.readouterr().err, _features(spark, location)) == (False, set())
        for warnings in (int(bool(reported)), 0):
            assert merge(ddl, changes, location, ()) == 0
            err = capsys.readouterr().err
            assert err.count("warning: delta:") == warnings
            assert reported in err or not warnings
            assert _features(spark, location) == features
        assert len(rows(spark, location, by_spark=True)) == 2

    check_rows(_STEPS, check)


@pytest.mark.slow
def test_all_features_from_the_start(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [{"commit_ts": 160, "after": {"id": "1", "n": "5", "v": "a"}}]
    written(messages([(150, _TABLE)], changes), "m.jsonl")
    common = ["merge", "--format", "open", "--in", "m.jsonl", "--ddl", "ddl", "--table", "d.t"]
    try:
        assert main([*common, "--out", "delta:full", "--reader-features", "full"]) == 0
    finally:
        for name in delta_features.FULL:
            spark_session("tests").conf.unset(name)
    assert _features(spark, "full") == {"columnMapping", "typeWidening", "deletionVectors"}
    assert "warning: delta:" not in capsys.readouterr().err
    for more in (["--out", "iceberg:c.d.t"], ["--out", "delta:t", "--engine", "deltalake"]):
        assert main([*common, *more, "--reader-features", "full"]) == 2
        assert "--reader-features full goes with delta:PATH, written by delta-spark" in capsys.readouterr().err


def _features(spark: SparkSession, location: str) -> set[str]:
    name = f"delta.`{Path(location).absolute()}`"
    detail = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
    return set(detail["tableFeatures"]) & {"columnMapping", "typeWidening", "timestampNtz", "deletionVectors"}


def test_which_types_widen() -> None:
    wide = {
        ("int", "bigint"): True, ("bigint", "int"): False, ("tinyint", "double"): True, ("bigint", "double"): False,
        ("int", "decimal(10,0)"): True, ("int", "decimal(9,0)"): False, ("bigint", "decimal(20,0)"): True,
        ("decimal(5,2)", "decimal(7,3)"): True, ("decimal(5,2)", "decimal(5,3)"): False,
        ("decimal(5,2)", "decimal(5,2)"): False, ("float", "double"): True, ("date", "timestamp_ntz"): True,
        ("string", "binary"): False, ("int", "string"): False,
    }  # fmt: skip
    assert {pair: delta_features.widens(*pair) for pair in wide} == wide
