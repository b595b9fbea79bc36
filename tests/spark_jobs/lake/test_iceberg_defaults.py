"""ADD COLUMN with a default in Iceberg tables of format version 3: no file is new where all readers know the value."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, NotEqualTo
from pyiceberg.table import StaticTable
from pyspark.sql import functions as F

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog, rows
from tests.spark_jobs.lake.test_merge_schema_changes import Changes, Ddl, messages
from tests.support.lake_readers import hadoop_metadata, query_duckdb
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KNOWN = {
    "t": ("TINYINT DEFAULT -128", -128), "su": ("SMALLINT UNSIGNED DEFAULT 65535", 65535), "i": ("INT DEFAULT 7", 7),
    "zero": ("INT NOT NULL", 0), "iu": ("INT UNSIGNED DEFAULT 4294967295", 4294967295),
    "b": ("BIGINT DEFAULT -9223372036854775808", -(1 << 63)), "y": ("YEAR DEFAULT 2155", 2155),
    "bu": ("BIGINT UNSIGNED DEFAULT 18446744073709551615", Decimal(18446744073709551615)),
    "d": ("DOUBLE DEFAULT 0.1", 0.1), "dc": ("DECIMAL(38,10) DEFAULT -12.0123456789", Decimal("-12.0123456789")),
    "small": ("DECIMAL(5,2) NOT NULL", Decimal("0.00")), "v": ("VARCHAR(9) DEFAULT '🐟''\"'", "🐟'\""),
    "none": ("TEXT NOT NULL", ""), "e": ("ENUM('a','b') DEFAULT 'b'", "b"), "bits": ("BIT(12) DEFAULT b'11'", b"\0\3"),
    "bin": ("BINARY(3) DEFAULT 'x'", b"x\0\0"),
}  # fmt: skip
"""A column's definition, and its value in rows from before it."""
UNKNOWN = {
    "f": "FLOAT DEFAULT 0.1", "day": "DATE DEFAULT '1000-01-01'", "at": "DATETIME DEFAULT '2026-07-01 12:00:00'",
    "cut": "VARCHAR(9) DEFAULT 'a\\0b'",
}  # fmt: skip
"""Definitions of columns whose value some reader would not show, or not find by a filter."""
TABLE = (1, "CREATE TABLE t (id INT PRIMARY KEY, w INT)")


@pytest.fixture(name="catalog")
def _catalog(spark: SparkSession) -> str:
    """As new_catalog has it; tables of it are of format version 3."""
    name = new_catalog(spark)
    spark.conf.set(f"spark.sql.catalog.{name}.table-default.format-version", "3")
    return name


def _merge(out: str, ddl: Ddl, changes: Changes, *more: str) -> None:
    made = messages(ddl, changes)
    argv = ["merge", "--format", "open", "--table", "d.t", "--time-zone", "UTC", "--types", "typed", "--out", out]
    assert main([*argv, "--ddl", "ddl", "--in", written(made), *more]) == 0


def _changes(*times: int) -> Changes:
    """An insert of a row of TABLE at each commit_ts."""
    return [{"commit_ts": ts, "after": {"id": str(ts), "w": "1"}} for ts in times]


def _files(spark: SparkSession, catalog: str) -> set[str]:
    return {row["file_path"] for row in spark.table(f"{catalog}.db.t.data_files").collect()}


def _same_as_delta(spark: SparkSession) -> bool:
    delta = spark.read.format("delta").load(str(Path("t").absolute())).drop("_commit_ts")
    return rows(spark, "t") == sorted(delta.toArrow().to_pylist(), key=lambda row: str(row["id"]))


def _find(spark: SparkSession, catalog: str, name: str, value: Any) -> list[list[int]]:
    """How many rows Spark, pyiceberg and DuckDB find by =, >= and <>."""
    metadata = hadoop_metadata(Path("warehouse", "db", "t"))
    column, table = F.col(name), StaticTable.from_metadata(metadata)
    by_spark = (column == F.lit(value), column >= F.lit(value), column != F.lit(value))
    by_pyiceberg: tuple[Any, ...] = (EqualTo, GreaterThanOrEqual, NotEqualTo)
    by_duckdb = (f"SELECT count(*) n FROM iceberg_scan(?) WHERE {name} {sign} ?" for sign in ("=", ">=", "<>"))
    return [
        [spark.table(f"{catalog}.db.t").where(entry).count() for entry in by_spark],
        [len(table.scan(row_filter=entry(name, value)).to_arrow()) for entry in by_pyiceberg],
        [query_duckdb(entry, [metadata, value], ("avro", "iceberg"))[0]["n"] for entry in by_duckdb],
    ]


@pytest.mark.slow
def test_defaults_that_readers_know(spark: SparkSession, catalog: str) -> None:
    """Nothing is written at ADD COLUMN, and files that are written then have the value. The rows are those of Delta,
    under later names and types, too.
    """
    spark.conf.set(f"spark.sql.catalog.{catalog}.table-default.write.merge.mode", "merge-on-read")
    out, added = f"iceberg:{catalog}.db.t", ", ".join(f"ADD COLUMN {name} {ddl}" for name, (ddl, _) in KNOWN.items())
    ddl, changes = [TABLE, (20, f"ALTER TABLE t {added}")], _changes(11, 12, 13)
    _merge(out, ddl[:1], changes)
    before = _files(spark, catalog)
    _merge(out, ddl, [])
    assert _files(spark, catalog) == before
    for name, (_, value) in KNOWN.items():
        assert _find(spark, catalog, name, value) == [[3, 3, 0]] * 3, name
    late = {"commit_ts": 15, "op": "u", "before": {"id": "11", "w": "1"}, "after": {"id": "11", "w": "2"}}
    changes += [late, *_changes(16)]
    later = (30, "ALTER TABLE t MODIFY i BIGINT, MODIFY small DECIMAL(9,2), RENAME COLUMN e TO ee, DROP COLUMN v")
    _merge(out, [*ddl, later], changes)
    ddl = [*ddl, later, (40, "ALTER TABLE t MODIFY b VARCHAR(30)")]
    for location in (out, "delta:t"):
        _merge(location, ddl, changes)
    assert _same_as_delta(spark)


@pytest.mark.slow
def test_defaults_that_a_reader_does_not_know(spark: SparkSession, catalog: str) -> None:
    """They are written into the rows; another column of the statement need not be."""
    out, added = f"iceberg:{catalog}.db.t", ", ".join(f"ADD COLUMN {name} {ddl}" for name, ddl in UNKNOWN.items())
    ddl, before = [TABLE, (20, f"ALTER TABLE t {added}, ADD COLUMN n INT DEFAULT 7")], set[str]()
    for until, changes in ((1, _changes(11, 12)), (2, [])):
        for location in (out, "delta:t"):
            _merge(location, ddl[:until], changes)
        files, before = before, _files(spark, catalog)
    assert files.isdisjoint(before)
    assert _same_as_delta(spark)
    fields = spark.table(f"{catalog}.db.t").schema
    assert [name for name in (*UNKNOWN, "n") if "EXISTS_DEFAULT" in fields[name].metadata] == ["n"]


@pytest.mark.slow
def test_rows_that_do_not_get_a_default(spark: SparkSession, catalog: str) -> None:
    """Those that are newer than a statement that comes late; and Iceberg reads no default of a file of ORC."""
    out = f"iceberg:{catalog}.db.t"
    late, later = (20, "ALTER TABLE t ADD COLUMN a INT DEFAULT 7"), (40, "ALTER TABLE t ADD COLUMN b INT DEFAULT 8")
    _merge(out, [TABLE], _changes(11, 25))
    _merge(out, [TABLE, late], [])
    spark.sql(f"ALTER TABLE {catalog}.db.t SET TBLPROPERTIES ('write.format.default' = 'orc')")
    _merge(out, [TABLE, late], _changes(12))
    _merge(out, [TABLE, late, later], [])
    made = spark.table(f"{catalog}.db.t").select("id", "a", "b").collect()
    assert sorted(map(tuple, made)) == [(11, 7, 8), (12, 7, 8), (25, None, 8)]
