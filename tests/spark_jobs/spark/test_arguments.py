"""What the Spark API takes: files by path, subject strategies, Kafka's columns in their types; all else is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Golden
from tests.support.table import check_rows
from ticdc_bridge import decode, encode, transcode
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.spark.frames import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO = Golden("avro", "evolution.ext1")
META = AVRO.meta_file
RECORD = "default.test.evo"


@pytest.fixture
def messages(spark: SparkSession) -> DataFrame:
    return read_files(spark, str(AVRO.messages_file)).where("topic = 'tidb_test_evo'").limit(4)


_SUBJECTS = {
    "topic": {"out-key", "out-value"}, "record": {f"{RECORD}-key", RECORD},
    "topic-record": {f"out-{RECORD}-key", f"out-{RECORD}"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "encoded"),
    [
        ("topic-record", False), ("record", True),  # test_flow has each without Spark
        *(pytest.param(*entry, marks=pytest.mark.slow)
          for entry in (("topic", False), ("record", False), ("topic", True), ("topic-record", True))),
    ],
)  # fmt: skip
def test_what_is_written_is_registered(messages: DataFrame, strategy: Any, encoded: bool) -> None:
    with running_service() as url:
        options = {"enable_tidb_extension": True}
        to: dict[str, Any] = {"ddl": META, "topic": "out", "subject_strategy": strategy, "options": options}
        if encoded:
            changes = decode(messages, format="avro", schemas=META, ddl=META)
            made = encode(changes, format="avro", registry=url, **to)
        else:
            made = transcode(messages, from_format="avro", to_format="avro", schemas=META, to_registry=url, **to)
        rows = made.collect()
        assert [row["error"] for row in rows] == [None] * 4
        assert {entry.subject for entry in HttpSchemas(url).all()} == _SUBJECTS[strategy]
        again, first = decode(made, format="avro", registry=url), decode(messages, format="avro", schemas=META)
        assert [(row["op"], row["after"]) for row in again.collect()] == [
            (row["op"], row["after"]) for row in first.collect()
        ]


def test_times_in_milliseconds(messages: DataFrame) -> None:
    """Kafka's own form, as its Java client and Parquet files of messages have it."""
    stamped = messages.selectExpr("key", "value", "1700000000123L as timestamp")
    made = transcode(stamped, from_format="avro", to_format="open", schemas=META, ddl=META).first()
    assert made is not None
    assert made["timestamp"].timestamp() == 1700000000.123


_OTHER_TYPES = (
    "'1' as partition", "1.0 as offset", "'2024-01-01' as timestamp", "date'2024-01-01' as timestamp",
    "1 as topic", "map('a', 'b') as headers",
)  # fmt: skip


def test_columns_of_another_type_than_kafkas(messages: DataFrame) -> None:
    def check(column: str) -> None:
        with pytest.raises(SetupError, match=f"column {column.split()[-1]}: Kafka's is"):
            decode(messages.selectExpr("key", "value", column), format="avro", schemas=META)

    check_rows(_OTHER_TYPES, check)


def test_what_is_no_file(messages: DataFrame) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"schemas": {"1": "{}"}}, "schemas is of type dict"), ({"schemas": META, "ddl": {"a": 1}}, "ddl=dict"),
        ({"schemas": Path("absent")}, "absent"), ({"schemas": META, "ddl": Path("absent")}, "absent"),
    ]  # fmt: skip
    for given, reported in wrong:
        with pytest.raises(SetupError, match=reported):
            decode(messages, format="avro", **given)


def test_a_strategy_that_there_is_not(messages: DataFrame) -> None:
    with pytest.raises(SetupError, match="choose topic or record or topic-record"):
        transcode(messages, from_format="avro", to_format="avro", schemas=META, subject_strategy="table")  # type: ignore[arg-type]
