"""encode(): change events of a DataFrame, as maps and as structs, become the messages that they were decoded from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import shop
from tests.ticdc_bridge.cli.test_format_options import _metric
from ticdc_bridge import decode, encode
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.spark.frames import kafka_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"enable_tidb_extension": True}


def _frame(spark: SparkSession, messages: list[Message]) -> DataFrame:
    """The messages, each with its number in a header, and one that is not carried on."""
    rows = [(m.key, m.value, m.topic, n, [("n", b"%d" % n), ("ce_id", b"")]) for n, m in enumerate(messages)]
    kind = "key binary, value binary, topic string, offset bigint, headers array<struct<key:string,value:binary>>"
    return kafka_columns(spark.createDataFrame(rows, kind))


@pytest.mark.parametrize("table", [None, "shop.customers"], ids=["maps", "structs"])
def test_decoded_and_encoded_again(spark: SparkSession, table: str | None) -> None:
    messages = [m for m in shop.messages() if table is None or b"customers" in (m.topic or "").encode()]
    changes = decode(_frame(spark, messages), format="avro", schemas=shop.schemas(), table=table)
    newest = changes.where("schema_id <> 2") if table else changes  # a struct has the newest version's columns
    written = encode(newest, format="avro", schemas=shop.schemas(), options=_OPTIONS)
    found = {
        (
            r["topic"],
            bytes(r["key"] or b""),
            bytes(r["value"] or b""),
            *((h["key"], bytes(h["value"])) for h in r["headers"]),
        )
        for r in written.collect()
        if not r["error"]
    }
    want = {(m.topic, m.key or b"", m.value or b"", ("n", b"%d" % n)) for n, m in enumerate(messages)}
    assert found
    assert found <= want
    if table is None:
        assert found == want


def test_what_cannot_be_written_is_an_error(spark: SparkSession) -> None:
    changes = spark.createDataFrame(
        [
            ("row", "c", 1 << 50, "no", "table", None, ["id"], None, {"id": "1"}, [], None),
            ("row", "x", 1 << 50, "shop", "customers", 2, ["id"], None, {"id": "1"}, [], None),
            ("row", "c", 1 << 50, "shop", "customers", 2, ["id"], None, {"id": "1", "strange": "1"}, [], None),
            ("row", "c", 1 << 50, "shop", "customers", 2, ["id"], None, {"id": "1", "name": '{"hex":"00"}'}, [], None),
            ("watermark", None, 1 << 50, None, None, None, None, None, None, None, None),
            ("ddl", None, 1 << 50, "shop", "customers", None, None, None, None, None, None),
            ("ddl", None, 1 << 50, "shop", "customers", None, None, None, None, None, "truncate table customers"),
            ("bootstrap", None, None, "shop", "customers", None, None, None, None, None, None),
        ],
        "kind string, op string, commit_ts bigint, db string, `table` string, schema_id int, `key` array<string>,"
        " before map<string,string>, after map<string,string>, flags array<string>, query string",
    )
    made = encode(changes, format="avro", schemas=shop.schemas(), options=_OPTIONS)
    written = made.collect()
    skipped = {"tombstone": 0, "empty": 0, "ddl": 1, "truncate": 1, "watermark": 1, "bootstrap": 1}
    assert _metric(made, "ticdc_bridge_skipped") == skipped
    assert sorted(r["error"]["code"] for r in written) == ["INVALID_VALUE"] * 3 + ["TYPE_UNKNOWN"]
    assert all(r["key"] is None and r["value"] is None for r in written)
