"""`merge` and `decode` to Iceberg: the tables that Delta's engines make, as pyiceberg and DuckDB read them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import StaticTable

from tests.spark_jobs.lake import (
    test_changelog,
    test_merge,
    test_merge_order,
    test_merge_schema_changes,
    test_offset_order,
    test_row_versions,
)
from tests.spark_jobs.lake import test_many_tables as many
from tests.spark_jobs.lake.test_many_tables import change
from tests.spark_jobs.lake.test_merge_schema_changes import messages
from tests.support.changes import Changes
from tests.support.golden import Golden
from tests.support.lake_readers import hadoop_metadata, iceberg_by_duckdb, iceberg_by_pyiceberg
from tests.support.streams import send
from tests.ticdc_bridge.cli.test_encode import found, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.locations import TableLocation
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.changelog import CHANGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

SAME = (
    test_merge.test_names_that_stand_for_other_columns, test_merge.test_types_that_change,
    test_merge_order.test_deletes_from_avro_and_what_comes_again, test_offset_order.test_changes_in_kafkas_order,
    test_merge_schema_changes.test_a_create_empties_the_place_of_another_table,
    test_merge_schema_changes.test_definitions_that_do_not_lead_to_a_places_key_stop,
    test_merge_schema_changes.test_columns_in_other_letters,
    test_merge_schema_changes.test_rows_get_the_values_of_their_columns_new_types,
    test_merge_schema_changes.test_names_in_other_letters, test_merge_schema_changes.test_deleted_keys_follow_the_key,
    test_merge_schema_changes.test_a_table_made_anew_forgets_deletes,
    test_merge_schema_changes.test_another_key_after_deletes,
    test_merge_schema_changes.test_a_table_that_is_dropped_and_brought_back,
    test_merge_schema_changes.test_a_table_that_is_made_anew,
    test_merge_schema_changes.test_tables_that_swap_names_are_not_mixed,
    test_merge_schema_changes.test_keys_that_are_one_to_tidb,
    test_merge_schema_changes.test_a_table_that_is_removed_is_missed,
    test_merge_schema_changes.test_what_came_before_a_truncate_need_not_fit,
    test_merge_schema_changes.test_a_history_that_lacks_a_statement,
    test_changelog.test_batches_give_the_log_that_one_run_gives,
    test_row_versions.test_versions_of_batches_in_any_order, test_row_versions.test_changes_of_a_key_in_any_order,
)  # fmt: skip
"""Tests of merge by Delta's engines that read the table by `rows`: here by Iceberg."""
AVRO = Golden("avro", "evolution.ext1")
_NUMBERS = count()
_TIMES = ("commit_ts", "_tidb_commit_ts", "_valid_from_ts")


@pytest.fixture(name="catalog")
def _catalog(spark: SparkSession) -> str:
    return new_catalog(spark)


def new_catalog(spark: SparkSession) -> str:
    """The name of a catalog that no other test has, in the folder `warehouse`."""
    name = f"lake{next(_NUMBERS)}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(Path("warehouse").absolute()),
    }
    for setting, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}{setting}", value)
    return name


def rows(_spark: SparkSession, path: str, by_spark: bool = False) -> list[dict[str, Any]]:
    """As tests.spark_jobs.lake.test_merge.rows, of the table `db.PATH`: two readers, which must agree.

    Not on `headers` and `_before`: to pyiceberg 0.12 a list of structs that is NULL is an empty one.
    """
    del by_spark
    metadata = hadoop_metadata(Path("warehouse", "db", path))
    left, other = (
        sorted(
            ({k: v for k, v in row.items() if k not in ("_commit_ts", "headers", "_before")} for row in read(metadata)),
            key=lambda row: (str(row.get("id")), *(row.get(name) or 0 for name in _TIMES), str(row.get(CHANGE))),
        )
        for read in (iceberg_by_pyiceberg, iceberg_by_duckdb)
    )
    assert left == other
    return left


@pytest.mark.slow
@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__.removeprefix("test_"))
def test_as_by_delta(
    test: Callable[..., None], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, catalog: str
) -> None:
    merged = []

    def by_iceberg(argv: Sequence[str]) -> int:
        if argv[0] == "merge":
            merged.append(argv[0])
            argv = [word.replace("delta:", f"iceberg:{catalog}.db.") for word in argv]
            while "--engine" in argv:
                at = argv.index("--engine")
                argv = [*argv[:at], *argv[at + 2 :]]
        return main(list(argv))

    for module in (test_merge, test_merge_order, test_merge_schema_changes, test_changelog, test_row_versions):
        monkeypatch.setattr(module, "main", by_iceberg)
        monkeypatch.setattr(module, "rows", rows)
    monkeypatch.setattr(test_offset_order, "rows", rows)
    own = {"how": "stepwise", "engine": "iceberg-spark", "together": False}
    names = inspect.signature(test).parameters
    test(**{name: own[name] if name in own else request.getfixturevalue(name) for name in names})
    assert merged


TABLE = "CREATE TABLE t (id int primary key, v varchar(9), w smallint)"


def merge_into(
    catalog: str, ddl: Sequence[str], changes: Sequence[dict[str, Any]], *more: str, table: str = "db.t"
) -> int:
    """A merge of changes at commit_ts 5, 15, …; DDL at 1, 11, …"""
    timed = [{"commit_ts": 10 * n + 5, "key": ["id"], **change} for n, change in enumerate(changes)]
    made = messages([(10 * n + 1, text) for n, text in enumerate(ddl)], timed)
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--out", f"iceberg:{catalog}.{table}"]
    return main([*argv, "--in", written(made), *more])


def test_a_table_as_two_readers_see_it(spark: SparkSession, catalog: str) -> None:
    """A rename, another type, an order and a delete; types and comments of the columns."""
    ddl = [TABLE, "ALTER TABLE t RENAME COLUMN v TO vv, MODIFY w BIGINT UNSIGNED FIRST"]
    changes: list[dict[str, Any]] = [
        {"after": {"id": "1", "v": "a", "w": "1"}},
        {"after": {"id": "2", "vv": "b", "w": "18446744073709551615"}},
        {"op": "d", "before": {"id": "1", "vv": "a", "w": "1"}, "after": None},
    ]
    assert merge_into(catalog, ddl, changes) == 0
    assert rows(spark, "t") == [{"id": 2, "vv": "b", "w": Decimal(18446744073709551615)}]


@pytest.mark.slow
def test_many_tables(spark: SparkSession, catalog: str) -> None:
    """Each in the namespace of its schema, one of them partitioned; a changelog beside each."""
    many.ddl()
    many.messages(
        change("shop.orders", 10, id="1", note="a"), change("shop.items", 11, sku="x", qty="3"),
        change("crm.orders", 12, id="1", name="c"), change("shop.orders", 13, id="1", note="b"),
    )  # fmt: skip
    Path("job.toml").write_text("[[table]]\nname = 'shop.items'\npartition_by = 'qty'\n")
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--tables", "*.*"]
    positions = [
        "--out",
        f"iceberg:{catalog}.{{schema}}.{{table}}",
        "--changelog",
        f"iceberg:{catalog}.log.{{schema}}_{{table}}",
    ]
    for _ in range(2):
        assert main([*argv, *positions, "--file", "job.toml"]) == 0
    counts = {}
    for table in ("shop.orders", "shop.items", "crm.orders", "log.shop_orders", "log.shop_items", "log.crm_orders"):
        frame = spark.table(f"{catalog}.{table}")
        counts[table] = frame.count()
    assert counts == {
        "shop.orders": 1, "shop.items": 1, "crm.orders": 1, "log.shop_orders": 2, "log.shop_items": 1,
        "log.crm_orders": 1,
    }  # fmt: skip
    assert [r["note"] for r in spark.table(f"{catalog}.shop.orders").collect()] == ["b"]
    assert spark.table(f"{catalog}.shop.items.partitions").count() == 1


TYPES = {
    "t": "tinyint", "tu": "tinyint unsigned", "s": "smallint", "su": "smallint unsigned", "i": "int",
    "iu": "int unsigned", "b": "bigint", "bu": "bigint unsigned", "y": "year", "f": "float", "d": "double",
    "dc": "decimal(38,10)", "dl": "decimal(40,2)", "bit": "bit(12)", "bin": "varbinary(9)", "txt": "text", "js": "json",
    "e": "enum('a','b')", "st": "set('a','b')", "tm": "time(3)", "day": "date", "dt": "datetime(6)",
    "ts": "timestamp(6)",
}  # fmt: skip
VALUES = {
    "t": "-128", "tu": "255", "s": "-32768", "su": "65535", "i": "-2147483648", "iu": "4294967295",
    "b": "-9223372036854775808", "bu": "18446744073709551615", "y": "2155", "f": "0.1", "d": "1e-300",
    "dc": "-1234567890123456789012345678.0123456789", "dl": "12345678901234567890123456789012345678.01",
    "bit": {"hex": "0fff"}, "bin": {"hex": "00ff"}, "txt": "🐟\x00'", "js": '{"a": 1.0}', "e": "b", "st": "a,b",
    "tm": "-838:59:59.000", "day": "1000-01-01", "dt": "9999-12-31 23:59:59.999999", "ts": "2026-07-01 12:00:00.000001",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("types", ["exact", "typed"])
def test_every_type_as_delta_has_it(spark: SparkSession, catalog: str, types: str) -> None:
    """Rows and types, after a merge by copy-on-write and one by merge-on-read; TIMESTAMP keeps its zone."""
    columns = ", ".join(f"{name} {kind} NULL" for name, kind in TYPES.items())
    ddl = [f"CREATE TABLE t (id int primary key, {columns})"]
    nothing = dict.fromkeys(TYPES)
    changes: list[dict[str, Any]] = [
        {"after": {"id": "1", **nothing}},
        {"after": {"id": "2", **VALUES}},
        {"op": "u", "before": {"id": "1", **nothing}, "after": {"id": "1", **VALUES}},
    ]
    options = ("--types", types, "--time-zone", "UTC")
    assert merge_into(catalog, ddl, changes[:2], *options) == 0
    spark.sql(f"ALTER TABLE {catalog}.db.t SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
    for _ in range(2):
        assert merge_into(catalog, ddl, changes, *options) == 0
    assert merge_into(catalog, ddl, changes, *options, "--out", "delta:t") == 0
    delta = spark.read.format("delta").load(str(Path("t").absolute())).sort("id")
    assert rows(spark, "t") == [
        {k: v for k, v in row.items() if k != "_commit_ts"} for row in delta.toArrow().to_pylist()
    ]
    iceberg = spark.table(f"{catalog}.db.t")
    small = {"tinyint", "smallint"}
    assert [(n, k) for n, k in iceberg.dtypes] == [(n, "int" if k in small else k) for n, k in delta.dtypes]
    comments = {f.name: f.metadata.get("comment") for f in iceberg.schema}
    assert {n: comments[n] for n in TYPES} == TYPES | {"y": comments["y"]}
    assert "delete" in json.dumps(
        [s["summary"] for s in spark.table(f"{catalog}.db.t.snapshots").collect()], default=str
    )


@pytest.mark.slow
def test_messages_of_transcode(spark: SparkSession, catalog: str) -> None:
    """A table of messages is what a message file has; a second run appends."""
    argv = ["transcode", "--from", "avro", "--to", "debezium", "--schemas", str(AVRO.meta_file), "--in",
            str(AVRO.messages_file), "--ddl", str(AVRO.meta_file), "--on-lossy", "flag"]  # fmt: skip
    assert main([*argv, "--out", "messages.jsonl"]) == 0
    made = [(m.key, m.value) for m in found("messages.jsonl")]
    for runs in (1, 2):
        assert main([*argv, "--spark", "--out", f"iceberg:{catalog}.db.messages"]) == 0
        known = spark.table(f"{catalog}.db.messages").select("key", "value").collect()
        assert sorted(((r["key"], r["value"]) for r in known), key=str) == sorted(made * runs, key=str)


@pytest.mark.slow
def test_columns_are_known_by_their_ids(spark: SparkSession, catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rename, a wider type, an order, a comment, a column added and one dropped write no file and keep ids; other
    types replace the table under the user's layout and properties. A column of the partitioning can't go.
    """
    ddl = [
        "CREATE TABLE t (id int primary key, a int, b float, c decimal(5,2), p int)",
        "ALTER TABLE t MODIFY a bigint, MODIFY b double, MODIFY c decimal(9,2), RENAME COLUMN a TO aa",
        "ALTER TABLE t ADD COLUMN n int FIRST, MODIFY c decimal(9,2) AFTER id",
        "ALTER TABLE t MODIFY p varchar(9)",
    ]
    changes: list[dict[str, Any]] = [{"after": {"id": "1", "a": "1", "b": "0.5", "c": "1.25", "p": "7"}}]
    name = f"{catalog}.db.t"

    def files() -> list[str]:
        return [row["file_path"] for row in spark.table(f"{name}.files").collect()]

    def field_ids() -> dict[str, int]:
        return {field.name: field.field_id for field in StaticTable.from_metadata(_metadata()).schema().fields}

    assert merge_into(catalog, ddl[:1], changes) == 0
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('owner.note' = 'mine')")
    before, ids = files(), field_ids()
    assert merge_into(catalog, ddl[:3], []) == 0
    assert (files(), spark.table(name).columns) == (before, ["n", "id", "c", "aa", "b", "p", "_commit_ts"])
    now = field_ids()
    assert {now["aa"], now["b"], now["c"]} == {ids["a"], ids["b"], ids["c"]}
    assert merge_into(catalog, ddl, []) == 0
    assert files() != before
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(4, c)")
    capsys.readouterr()
    assert merge_into(catalog, [*ddl, "ALTER TABLE t DROP COLUMN c"], []) == 2
    assert "Cannot find source column for partition field" in capsys.readouterr().err
    assert (properties["owner.note"], spark.table(name).schema["p"].dataType.simpleString()) == ("mine", "string")


def _metadata() -> str:
    return hadoop_metadata(Path("warehouse", "db", "t"))


@pytest.mark.slow
def test_a_batch_that_comes_again_is_appended_once(spark: SparkSession, catalog: str) -> None:
    """Of each application the newest number counts; new columns and wider types, in structs too, widen the table."""
    location = TableLocation("iceberg", f"{catalog}.db.t")
    steps: list[tuple[tuple[str, int] | None, str, int]] = [
        (("a", 0), "1 AS id, named_struct('x', 1) AS s", 1), (("a", 0), "1 AS id, named_struct('x', 1) AS s", 1),
        (("a", 1), "2 AS id, named_struct('x', 1L, 'y', 'q') AS s", 2), (("b", 0), "3L AS id, 1 AS n", 3),
        (("a", 0), "4 AS id", 3), (("a", 1), "4 AS id", 3), (("b", 0), "4 AS id", 3), (None, "4 AS id", 4),
    ]  # fmt: skip
    for once, columns, existing in steps:
        tables.append(spark.sql(f"SELECT {columns}"), location, once)
        assert len(rows(spark, "t")) == existing, (once, columns)
    assert dict(spark.table(location.name).dtypes) == {"id": "bigint", "s": "struct<x:bigint,y:string>", "n": "int"}
    with pytest.raises(SetupError, match="don't fit together"):
        tables.append(spark.sql("SELECT 'x' AS id"), location, None)


@pytest.mark.slow
def test_a_stream_says_in_each_snapshot_what_it_has(
    spark: SparkSession, catalog: str, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly once, though Spark forgets the end of the last batch; TiCDC's key of the resolved ts, and ours."""
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    changes = Changes()
    changes.ddl(Path("ddl.jsonl"))
    topic = kafka.create_topic(partitions=changes.partitions)
    common = ("--format", "open", "--in", f"kafka:{topic}", "--ddl", "ddl.jsonl", "--stream", "--trigger", "now")
    location = f"iceberg:{catalog}.db."
    jobs = {
        "log": ["decode", *common, "--checkpoint", "c1", "--out", location + "log"],
        "orders": ["merge", *common, "--checkpoint", "c2", "--out", location + "orders", "--table", "shop.orders"],
    }
    for lot in range(2):
        send(kafka, topic, changes.lot(20))
        for number, (table, argv) in enumerate(jobs.items(), 1):
            assert main(argv) == 0
            summary = _summary(spark, f"{catalog}.db.{table}")
            for path in Path(f"c{number}/spark/commits").glob(f"{lot}*"):
                path.unlink()
            for path in Path(f"c{number}/spark/commits").glob(f".{lot}*"):
                path.unlink()
            assert main(argv) == 0
            assert _summary(spark, f"{catalog}.db.{table}") | {"bridge.batch": ""} == summary | {"bridge.batch": ""}
            assert int(summary["bridge.batch"]) == lot
            assert int(summary["bridge.commit_ts"]) == max(ts for ts, *_ in changes.made)
            assert int(summary["tidb.committed_resolved_ts"]) >= int(summary["bridge.commit_ts"])
            assert [*json.loads(summary["bridge.offsets"])] == [topic]
    log = rows(spark, "log")
    assert sum(row["kind"] == "row" for row in log) == len(changes.made)
    assert {row["id"]: str(row["total"]) for row in rows(spark, "orders")} == changes.table


def _summary(spark: SparkSession, table: str) -> dict[str, str]:
    """What the newest snapshot says of the changes in it."""
    row = spark.table(f"{table}.snapshots").orderBy("committed_at").collect()[-1]
    return {k: v for k, v in row["summary"].items() if k.startswith(("bridge.", "tidb."))}
