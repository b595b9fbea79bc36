"""Frames that are not quite as Spark's Kafka source or decode() gives them: read as meant, or refused in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.support import shop
from tests.support.table import check_rows
from ticdc_bridge import decode, encode, transcode
from ticdc_bridge.schemas.model.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FAR = 1_700_000_000_123_000  # microseconds, given as ms: a time in the year 55840


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _messages(spark: SparkSession, copies: int = 1) -> DataFrame:
    rows = [(m.key, m.value, m.topic, 0, n) for n, m in enumerate(shop.messages() * copies)]
    found = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
    return found.withColumn("timestamp", F.timestamp_millis(F.lit(1_700_000_000_000)))


def _rows(frame: DataFrame) -> list[Any]:
    times = {"timestamp": F.unix_millis("timestamp")} if "timestamp" in frame.columns else {}
    return [tuple(row) for row in frame.withColumns(times).collect()]


@pytest.mark.parametrize("copies", [1, pytest.param(20, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.slow
def test_a_time_beyond_the_year_9999(spark: SparkSession, copies: int) -> None:
    """A producer that stamped microseconds: Kafka takes it, Python has no such time."""
    far = F.timestamp_millis(F.lit(_FAR))
    given = _messages(spark, copies)
    given = given.withColumn("timestamp", F.when(F.col("offset") == 1, far).otherwise(F.col("timestamp")))
    count = len(shop.messages()) * copies
    stamp = F.unix_millis("source.timestamp").alias("timestamp")
    for table in (None, "shop.customers"):
        found = decode(given, format="avro", schemas=shop.schemas(), table=table)
        stamps = [row["timestamp"] for row in found.where("error is null").select(stamp).collect()]
        assert table is not None or len(stamps) == count
        assert set(stamps) <= {_FAR, 1_700_000_000_000}
        assert table is not None or stamps.count(_FAR) == 1
    changes = decode(given, format="avro", schemas=shop.schemas())
    flag, ticdc = {"on_lossy": "flag"}, {"enable_tidb_extension": True}
    for made in (
        transcode(given, from_format="avro", to_format="debezium", schemas=shop.schemas(), options=flag),
        transcode(given, from_format="avro", to_format="avro", schemas=shop.schemas(), options=ticdc),
        encode(changes, format="debezium", from_schemas=shop.schemas(), options=flag),
    ):
        written = made.select("error", F.unix_millis("timestamp").alias("ms")).collect()
        assert [row["error"] for row in written if row["error"]] == []
        assert [row["ms"] for row in written].count(_FAR) == 1


def test_names_in_another_case(spark: SparkSession) -> None:
    """A session takes them as its own names are taken; `spark_session` sets spark.sql.caseSensitive, others don't."""
    given = _messages(spark)
    upper = given.toDF(*(name.upper() for name in given.columns))
    with _set(spark, "spark.sql.caseSensitive", "true"), pytest.raises(SetupError, match="key and value in binary"):
        decode(upper, format="avro", schemas=shop.schemas())
    with _set(spark, "spark.sql.caseSensitive", "false"):
        words: dict[str, Any] = {"from_format": "avro", "to_format": "debezium", "schemas": shop.schemas()}
        assert _rows(transcode(upper, **words)) == _rows(transcode(given, **words))
        changes = decode(upper, format="avro", schemas=shop.schemas())
        expected = _rows(encode(changes, format="debezium", from_schemas=shop.schemas()))
        shouted = changes.toDF(*(name.upper() for name in changes.columns))
        assert _rows(encode(shouted, format="debezium", from_schemas=shop.schemas())) == expected
        assert len(expected) > 1


def test_events_without_a_column(spark: SparkSession) -> None:
    changes = decode(_messages(spark), format="avro", schemas=shop.schemas())

    def check(name: str) -> None:
        with pytest.raises(SetupError, match=f"have a column {name} of type .*: here it is missing"):
            encode(changes.drop(name), format="debezium", from_schemas=shop.schemas())
        with pytest.raises(SetupError, match=f"have a column {name} of type .*: here it is double"):
            encode(changes.withColumn(name, F.lit(1.0)), format="debezium", from_schemas=shop.schemas())

    check_rows(["kind", "op", "commit_ts", "db", "table", "before", "after"], check)


def test_what_is_refused_before_anything_runs(spark: SparkSession) -> None:
    given = _messages(spark)
    words: dict[str, Any] = {"from_format": "avro", "schemas": shop.schemas()}
    for name in ("simple", "canal-json", "auto"):
        with pytest.raises(SetupError, match=f"{name} is read, not written"):
            transcode(given, to_format=name, **words)
    for rule, reported in (("{db}_{table}", "{db} is not known"), ("", "it is empty")):
        with pytest.raises(SetupError, match=reported):
            transcode(given, to_format="open", topic=rule, **words)
    twice = given.withColumn("KEY", F.col("key"))
    with _set(spark, "spark.sql.caseSensitive", "true"):
        assert decode(twice, format="avro", schemas=shop.schemas()).count() == given.count()
    with _set(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"), pytest.raises(SetupError, match="TIMESTAMP_LTZ"):
        decode(given, format="avro", schemas=shop.schemas())
