"""Tables by their names in the catalogs that people have: SQL (JDBC), REST, Hive, Glue, Spark's own, an unknown one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog

from tests.spark_jobs.lake.test_consistent import totals
from tests.spark_jobs.lake.test_merge_iceberg import TABLE, merge_into, new_catalog
from tests.spark_jobs.lake.test_merge_schema_changes import merge, messages
from tests.support.changes import Changes
from tests.support.dumps import write_dump
from tests.support.hive_metastore import hive_metastore
from tests.support.iceberg_rest import rest_catalog
from tests.support.kafka import Kafka
from tests.support.lake_readers import delta_by_duckdb, iceberg_by_duckdb, iceberg_by_pyiceberg
from tests.support.processes import Job
from tests.support.s3 import KEYS, s3_server
from tests.support.streams import send
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import TableLocation
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.pipeline.table_choice import location_by_rule
from ticdc_bridge.spark_jobs.runtime.jars import jars

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


@pytest.mark.slow
def test_delta_by_name(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Created with its schema, followed through DDL, joined and read as it was; deleted keys beside it by name."""
    name = "spark_catalog.by_name.t"
    ddl = [(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"), (20, "ALTER TABLE t MODIFY v TEXT, ADD `w w` INT")]
    changes: list[dict[str, Any]] = [
        {"commit_ts": 10, "after": {"id": "1", "v": "a"}},
        {"commit_ts": 30, "after": {"id": "2", "v": "b", "w w": "3"}},
        {"commit_ts": 40, "op": "d", "key": ["id"], "before": {"id": "1", "v": "a", "w w": None}, "after": None},
    ]
    assert merge(ddl, changes, name, (15, 35)) == 0
    assert [row.asDict() for row in spark.table(name).drop("_commit_ts").collect()] == [{"id": 2, "v": "b", "w w": 3}]
    assert [row["id"] for row in spark.table(f"{name}__tombstones").collect()] == [1]
    assert not Path(name).exists()
    assert main(["maintain", "--table-at", f"delta:{name}"]) == 0
    capsys.readouterr()
    assert main(["at", "--lake", f"delta:{name}", "--format", "sql"]) == 0
    assert "SELECT * FROM `spark_catalog`.`by_name`.`t` VERSION AS OF" in capsys.readouterr().out
    spark.sql("CREATE TABLE spark_catalog.by_name.other (id INT) USING parquet")
    assert merge(ddl, changes, "spark_catalog.by_name.other", ()) == 2
    assert "the catalog has a table of parquet there" in capsys.readouterr().err
    assert merge(ddl, changes, "nowhere.by_name.t", ()) == 2
    assert "Spark knows no catalog nowhere" in capsys.readouterr().err
    assert merge(ddl, changes, name, (), engine="deltalake") == 2
    assert "deltalake writes only to folders" in capsys.readouterr().err
    assert merge(ddl, changes, f"./{name}", ()) == 0
    assert Path(name, "_delta_log").exists()


@pytest.mark.slow
def test_rows_of_other_types_by_name(spark: SparkSession) -> None:
    """Spark would cast them; by a path Delta refuses them. Those that widen the table are taken."""
    spark.sql("CREATE SCHEMA IF NOT EXISTS spark_catalog.by_name")
    for number, (have, rows, kept) in enumerate(_TYPES):
        places = [
            TableLocation("delta", f"types{number}"),
            TableLocation("delta", f"spark_catalog.by_name.types{number}"),
        ]
        for place in places:
            tables.append(spark.sql(f"SELECT {have} AS c"), place, None)
            with nullcontext() if kept else pytest.raises(SetupError, match="fit together"):
                tables.append(spark.sql(f"SELECT {rows} AS c"), place, ("bridge", 1))
        by_path, by_name = (tables.engine_of(spark, AUTO)(spark, place.name).read() for place in places)
        assert sorted(map(str, by_path.collect())) == sorted(map(str, by_name.collect())), (have, rows)
        assert by_path.schema == by_name.schema


_TYPES = [
    ("1", "'007'", False), ("'a'", "X'ff'", False), ("1D", "1", False), ("1L", "CAST(1 AS DECIMAL(20,0))", False),
    ("named_struct('a', 1)", "named_struct('a', 'x')", False), ("1", "1L", True), ("1L", "1", False),
    ("CAST(1 AS DECIMAL(5,2))", "CAST(1 AS DECIMAL(9,2))", True),
    ("named_struct('a', 1)", "named_struct('b', 1)", True),
]  # fmt: skip


def test_many_tables_by_name(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A statement without rows is followed; a name that the catalog has not is refused before anything is written."""
    ddl = [(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"), (20, "ALTER TABLE t ADD w INT")]
    made = messages(ddl, [{"commit_ts": 10, "after": {"id": "1", "v": "a"}}])
    Path("first").write_text(Path("ddl").read_text().splitlines(keepends=True)[0])
    argv = ["merge", "--format", "open", "--tables", "d.*", "--out", "delta:spark_catalog.{schema}_many.{table}"]
    assert main([*argv, "--ddl", "first", "--in", written(made)]) == 0
    assert main([*argv, "--ddl", "ddl", "--in", written([])]) == 0
    assert "w" in spark.table("spark_catalog.d_many.t").columns
    odd = [(1, "CREATE TABLE `t-1` (id INT PRIMARY KEY)")]
    made = messages(odd, [{"commit_ts": 10, "table": "t-1", "after": {"id": "1"}}])
    capsys.readouterr()
    assert main([*argv, "--ddl", "ddl", "--in", written(made)]) == 2
    assert "takes names of letters, digits and _ alone" in capsys.readouterr().err
    for place, reported in (("nowhere.a.b", "knows no catalog nowhere"), ("c.`my db`.t", "without backquotes")):
        assert main(["decode", "--format", "open", "--in", written(made), "--out", f"delta:{place}"]) == 2
        assert reported in capsys.readouterr().err
    assert location_by_rule("delta:{table}", TableId("d", "a.b.c")) == "delta:./a.b.c"


def _follow(kafka: Kafka, folder: Path, outs: dict[str, list[str]]) -> dict[int, str]:
    """Streams of one topic into each place, twice; the table then. outs: the options of a place."""
    changes, topic = Changes(partitions=1), kafka.create_topic()
    changes.ddl(folder / "ddl.jsonl")
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--bootstrap-servers", kafka.bootstrap_servers]
    argv += ["--in", f"kafka:{topic}", "--table", "shop.orders", "--stream", "--trigger", "now"]
    for number in range(2):
        send(kafka, topic, changes.lot(30))
        for place, options in outs.items():
            checkpoint = ["--checkpoint", f"of {place.partition(':')[0]}"]
            with Job([*argv, *checkpoint, "--out", place, *options], folder) as job:
                assert job.wait() == 0, job.log
            assert ("merged directly" in job.log) == (number > 0 and place.startswith("delta:"))
    return changes.table


def _catalog_options(**settings: str) -> list[str]:
    lake = "spark.sql.catalog.lake"
    pairs = {f"{lake}.{name.replace('__', '.').replace('_', '-')}": value for name, value in settings.items()}
    return [f"--conf={lake}=org.apache.iceberg.spark.SparkCatalog", *(f"--conf={n}={v}" for n, v in pairs.items())]


@pytest.mark.slow
def test_hives_metastore(kafka: Kafka, tmp_path: Path) -> None:
    """Delta and Iceberg in one server; Delta's later batches go without MERGE; a load and its reconcile by name."""
    warehouse = tmp_path / "warehouse"
    with hive_metastore(tmp_path / "metastore", warehouse) as url:
        iceberg = _catalog_options(type="hive", uri=url, warehouse=str(warehouse))
        iceberg.append("--conf=spark.hadoop.iceberg.engine.hive.lock-enabled=false")
        delta = [f"--conf=spark.hadoop.hive.metastore.uris={url}", "--conf=spark.sql.catalogImplementation=hive"]
        delta.append(f"--conf=spark.sql.warehouse.dir={warehouse}")
        full = [*delta, "--reader-features", "full"]
        table = _follow(kafka, tmp_path, {"delta:spark_catalog.shop.orders": full, "iceberg:lake.ice.orders": iceberg})
        assert totals(delta_by_duckdb(warehouse / "shop.db/orders")) == table
        metadata = max((warehouse / "ice.db/orders/metadata").glob("*.metadata.json"))
        assert totals(iceberg_by_pyiceberg(str(metadata))) == table
        rows = [[str(number), f"n{number}"] for number in range(5000)]
        create = "CREATE TABLE `items` (`id` bigint PRIMARY KEY, `name` varchar(40))"
        dump = write_dump(tmp_path / "dump", 463_299_738_777_157_634, create, rows, db="shop", table="items")
        for words in (["load", "--source", dump, "--out"], ["reconcile", "--dump", dump, "--lake"]):
            given = [*words, "delta:spark_catalog.{schema}.{table}", "--table", "shop.items", *delta]
            with Job(given, tmp_path) as job:
                assert job.wait() == 0, job.log
        assert len(delta_by_duckdb(warehouse / "shop.db/items")) == len(rows)


@pytest.mark.slow
def test_glue(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's catalog, and its tables in S3, by moto; Iceberg's own jar for AWS takes the place of Hadoop's driver."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as (url, bucket):
        options = _catalog_options(
            type="glue", glue__endpoint=url, s3__endpoint=url, s3__path_style_access="true",
            client__region=KEYS["AWS_REGION"], warehouse="s3://lake/warehouse",
        )  # fmt: skip
        options.append(f"--conf=spark.jars={jars('aws')[0]}")
        table = _follow(kafka, tmp_path, {"iceberg:lake.shop.orders": options})
        with Job(["maintain", "--table-at", "iceberg:lake.shop.orders", *options], tmp_path) as job:
            assert job.wait() == 0, job.log
        read = {f"{of}.{name}": value for of in ("glue", "s3") for name, value in _READ.items()}
        catalog = GlueCatalog("glue", **read, **{"glue.endpoint": url, "s3.endpoint": url})
        found = catalog.load_table(("shop", "orders"))
        assert found.metadata_location.startswith("s3://lake/warehouse/shop.db/orders/")
        assert totals(found.scan().to_arrow().to_pylist()) == table
        assert bucket.keys("warehouse/shop.db/orders__tombstones/")


_READ = {"region": "us-east-1", "access-key-id": "test", "secret-access-key": "test"}
