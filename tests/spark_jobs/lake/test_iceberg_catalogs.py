"""Merges into Iceberg by the catalogs that people have: SQL (JDBC), REST, and one that Spark does not know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.spark_jobs.lake.test_merge_iceberg import TABLE, merge_into, new_catalog
from tests.support.iceberg_rest import rest_catalog
from tests.support.lake_readers import iceberg_by_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(name="catalog")
def _catalog(spark: SparkSession) -> str:
    return new_catalog(spark)


@pytest.mark.slow
def test_a_catalog_in_sqlite(spark: SparkSession, catalog: str) -> None:
    """Spark's JDBC catalog is pyiceberg's SQL catalog: names of any letters, tombstones beside the table."""
    warehouse = Path("warehouse").absolute()
    settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{warehouse.parent}/catalog.db", "jdbc.schema-version": "V1"}
    for setting, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}.{setting}", value)
    changes: list[dict[str, Any]] = [
        {"after": {"id": "1", "v": "a", "w": "1"}},
        {"op": "d", "before": {"id": "1", "v": "a", "w": "1"}, "after": None},
        {"after": {"id": "2", "v": "b", "w": None}},
    ]
    for _ in range(2):
        assert merge_into(catalog, [TABLE], changes, table="my shop.`or.ders`") == 0
    by_name = SqlCatalog(catalog, uri=f"sqlite:///{warehouse.parent}/catalog.db", warehouse=str(warehouse))
    table = by_name.load_table(("my shop", "or.ders"))
    assert table.scan().to_arrow().to_pylist() == iceberg_by_duckdb(table.metadata_location)
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [2]
    deleted = by_name.load_table(("my shop", "or.ders__tombstones")).scan().to_arrow().to_pylist()
    assert {row["id"] for row in deleted} == {1}  # each run appends its own


@pytest.mark.slow
def test_a_rest_catalog(spark: SparkSession, catalog: str, tmp_path: Path) -> None:
    """Creates, MERGE, metadata alone, a table that is replaced, deleted keys and versions: a server has each commit."""
    with rest_catalog(tmp_path / "rest") as (url, existing, asked):
        spark.conf.unset(f"spark.sql.catalog.{catalog}.warehouse")
        for setting, value in {"type": "rest", "uri": url}.items():
            spark.conf.set(f"spark.sql.catalog.{catalog}.{setting}", value)
        ddl = [
            TABLE,
            "ALTER TABLE t RENAME COLUMN v TO vv, ADD COLUMN n INT DEFAULT 7",
            "ALTER TABLE t MODIFY w CHAR(9)",
        ]
        changes: list[dict[str, Any]] = [
            {"after": {"id": "1", "v": "a", "w": "1"}},
            {"after": {"id": "2", "vv": "b", "w": "2", "n": "3"}},
            {"op": "d", "before": {"id": "1", "vv": "a", "w": "1", "n": "7"}, "after": None},
        ]
        versions = ("--versions", f"iceberg:{catalog}.db.past")
        for end in (1, 2, 3, 3):
            assert merge_into(catalog, ddl[:end], changes[:end], *versions) == 0, asked[-9:]
        tables = {name: existing.load_table(("db", name)) for name in ("t", "t__tombstones", "past")}
        made = {name: table.scan().to_arrow().to_pylist() for name, table in tables.items()}
        assert [(row["id"], row["vv"], row["w"], row["n"]) for row in made["t"]] == [(2, "b", "2", 3)]
        assert {row["id"] for row in made["t__tombstones"]} == {1}, "a delete that comes again may stand twice"
        past = {(row["id"], row["w"], row["_valid_from_ts"], row["_valid_to_ts"]) for row in made["past"]}
        assert past == {(1, "1", 5, 25), (2, "2", 15, None)}
        assert made["t"] == iceberg_by_duckdb(tables["t"].metadata_location)
        assert "POST namespaces/db/tables/t" in asked


def test_a_catalog_that_spark_does_not_know(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    del spark
    assert merge_into("nowhere", [TABLE], [{"after": {"id": "1", "v": "a", "w": "1"}}]) == 2
    output = capsys.readouterr().err
    assert "knows no catalog nowhere" in output
    assert "spark.sql.catalog.nowhere.type=rest" in output
    assert merge_into("nowhere", [TABLE], [], "--engine", "deltalake") == 2
    assert "does not write Iceberg tables" in capsys.readouterr().err
