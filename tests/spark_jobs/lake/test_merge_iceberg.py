"""`merge` and `decode` to Iceberg: the tables that Delta's engines make, as pyiceberg and DuckDB read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.commands.main import main
from tests.spark_jobs.commands.test_encode import written
from tests.spark_jobs.lake import test_many_tables as many
from tests.spark_jobs.lake import test_merge, test_merge_order, test_merge_schema_changes
from tests.spark_jobs.lake.test_many_tables import change
from tests.spark_jobs.lake.test_merge_schema_changes import messages
from tests.support.lake_readers import hadoop_metadata, iceberg_by_duckdb, iceberg_by_pyiceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = (
    test_merge.test_names_that_stand_for_other_columns,
    test_merge.test_types_that_change,
    test_merge_order.test_deletes_from_avro_and_what_comes_again,
    test_merge_order.test_the_connectors_changes_in_the_order_of_the_binlog,
    test_merge_schema_changes.test_rows_get_the_values_of_their_columns_new_types,
    test_merge_schema_changes.test_rows_get_the_values_of_some_new_types,
    test_merge_schema_changes.test_names_in_other_letters,
    test_merge_schema_changes.test_deleted_keys_follow_the_key,
    test_merge_schema_changes.test_a_table_made_anew_forgets_deletes,
    test_merge_schema_changes.test_another_key_after_deletes,
    test_merge_schema_changes.test_a_table_that_is_dropped_and_brought_back,
    test_merge_schema_changes.test_a_table_that_is_made_anew,
    test_merge_schema_changes.test_tables_that_swap_names_are_not_mixed,
    test_merge_schema_changes.test_what_came_before_a_truncate_need_not_fit,
    test_merge_schema_changes.test_a_history_that_lacks_a_statement,
)
"""Tests of merge by Delta's engines that read the table by `rows`: here by Iceberg."""
_NUMBERS = count()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def catalog(spark: SparkSession) -> str:
    """The name of a catalog of this test's own, in the folder `warehouse`."""
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
    """As tests.spark_jobs.lake.test_merge.rows, of the table `db.PATH`: two readers, which must agree."""
    del by_spark
    metadata = hadoop_metadata(Path("warehouse", "db", path))
    one, other = (
        sorted(
            ({k: v for k, v in row.items() if k != "_commit_ts"} for row in read(metadata)),
            key=lambda row: str(row.get("id")),
        )
        for read in (iceberg_by_pyiceberg, iceberg_by_duckdb)
    )
    assert one == other
    return one


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

    for module in (test_merge, test_merge_order, test_merge_schema_changes):
        monkeypatch.setattr(module, "main", by_iceberg)
        monkeypatch.setattr(module, "rows", rows)
    own = {"how": "stepwise", "engine": "iceberg-spark"}
    names = inspect.signature(test).parameters
    test(**{name: own[name] if name in own else request.getfixturevalue(name) for name in names})
    assert merged


TABLE = "CREATE TABLE t (id int primary key, v varchar(9), w smallint)"


def _merge(catalog: str, ddl: Sequence[str], changes: Sequence[dict[str, Any]], *more: str, table: str = "db.t") -> int:
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
    assert _merge(catalog, ddl, changes) == 0
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
    places = [
        "--out",
        f"iceberg:{catalog}.{{schema}}.{{table}}",
        "--changelog",
        f"iceberg:{catalog}.log.{{schema}}_{{table}}",
    ]
    for _ in range(2):
        assert main([*argv, *places, "--file", "job.toml"]) == 0
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
