"""`merge --order offset`: changes without a commit_ts, as those of Debezium's MySQL connector, in Kafka's order.

One table per test has a key for each sequence, so that Spark plans few jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import BASE, ENGINES, merge_orders, runs_of_key
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


_DDL = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"}
_CONNECTOR = ("--format", "debezium-mysql", "--ddl", "ddl.jsonl")

# What comes, by runs: a letter inserts or updates, in small letters it deletes, "." is the null value after it. After
# ">" messages go to another partition, after "<" to one before it; a digit: that run is read again.
ORDERS: list[tuple[Sequence[str], str | None]] = [
    (["ABC"], "C"),
    (["CB", "A"], "A"),  # what comes again wins until the repeat is read to its end
    (["Ab"], None),
    (["Ab."], None),
    (["Ab", ".C"], "C"),
    (["Ab.C", "."], None),
    (["Ab", "0"], None),
    (["Ab", "C", "0"], "C"),
    (["AB", "0"], "B"),
    (["AB", "c", "0", "1"], None),
    (["Ab", "A", "b"], None),
    # In two partitions, by Kafka's timestamps.
    (["A", ">B"], "B"),
    ([">B", "<A"], "A"),
    (["A>B"], "B"),
    ([">A<b"], None),
    (["A", ">b", "0"], None),
    (["A", ">b", "<C"], "C"),
    (["A|5", ">B|3"], "A"),
]


def _connector_message(key: int, op: str, name: str, offset: int, partition: int = 0, time: int | None = None,
                       **source: Any) -> Message:  # fmt: skip
    row = {"id": key, "name": name}
    value = {
        "before": row if op in "ud" else None, "after": None if op == "d" else row, "op": op, "ts_ms": 1,
        "source": {"connector": "mysql", "ts_ms": 1764000000000, "db": "shop", "table": "orders",
                   "file": "bin.000009", "pos": 4, "row": 0, **source},
    }  # fmt: skip
    return Message(json.dumps({"id": key}).encode(), json.dumps(value).encode(), "orders", partition, offset, time)


def _step_message(key: int, step: str, partition: int, offset: int, time: int) -> Message:
    made = _connector_message(key, "d" if step.islower() else "u", step, offset, partition, time)
    if step != ".":
        return made
    fields = [{"field": "id", "type": "int32", "optional": False}]
    schema = {"type": "struct", "name": "s.shop.orders.Key", "optional": False, "fields": fields}
    data = json.dumps({"schema": schema, "payload": {"id": key}}).encode()
    return Message(data, None, "s.shop.orders", partition, offset, time)


@pytest.mark.slow
@ENGINES
def test_changes_in_kafkas_order(spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is that of the last offsets, whatever the binlog's positions say."""
    Path("ddl.jsonl").write_text(json.dumps(_DDL) + "\n")
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(ORDERS):
        for run, made in enumerate(runs_of_key(sequence, key, _step_message)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))
        argv = (*_CONNECTOR, "--order", "offset", "--in", written(messages, f"{run}.jsonl"))
        for _ in range(2 if run == 0 else 1):
            assert merge_orders(engine, *argv, "--changelog", "delta:log", "--on-error", "fail") == 0
    known = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): known.get(n) for n, (sequence, last) in enumerate(ORDERS) if known.get(n) != last}
    assert not wrong
    positions = [(row["_kafka_topic"], row["_kafka_partition"], row["_kafka_offset"]) for row in rows(spark, "log")]
    assert len(positions) == len(set(positions))

    untimed, offset = [_connector_message(1, "u", "z", 90_000)], ("--order", "offset")
    tie = [_connector_message(77, "u", "y", 90_001, 0, 5), _connector_message(77, "u", "z", 90_001, 1, 5)]
    refused: list[tuple[list[Message], tuple[str, ...], str]] = [
        (untimed, (), "--order offset"),
        ([_connector_message(1, "u", "z", 90_000, commit_ts=BASE)], offset, "leave out --order offset"),
        ([_connector_message(1, "u", "z", 90_000, commit_ts=BASE)], (), "ordered by Kafka's offsets"),
        (tie, offset, "have the same timestamp"),
        (untimed, (*offset, "--versions", "delta:v"), "--versions needs"),
    ]  # fmt: skip
    for messages, more, words in refused:
        capsys.readouterr()
        assert merge_orders(engine, *_CONNECTOR, *more, "--in", written(messages)) == 2
        assert words in capsys.readouterr().err
    assert {row["id"]: row["name"] for row in rows(spark, "lake")} == known


@pytest.mark.slow
def test_flattened_rows_in_kafkas_order(spark: SparkSession) -> None:
    """One rule for every format without commit_ts: rows without an envelope, Canal-JSON without TiDB's extension."""
    Path("ddl.jsonl").write_text(json.dumps(_DDL) + "\n")
    values = [{"id": 1, "name": name} for name in "ab"]
    flat = [Message(b'{"id":1}', json.dumps(v).encode(), "s.shop.orders", 0, n) for n, v in enumerate(values)]
    canal = [
        Message(None, json.dumps({
            "id": 0, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
            "es": 1, "ts": 1, "sql": "", "sqlType": {"id": 4, "name": 12}, "old": None,
            "mysqlType": {"id": "int", "name": "varchar"}, "data": [{"id": "1", "name": v["name"]}],
        }).encode(), "orders", 0, n) for n, v in enumerate(values)
    ]  # fmt: skip
    for name, messages in (("debezium-mysql", flat), ("canal-json", canal)):
        argv = ["merge", "--format", name, "--ddl", "ddl.jsonl", "--table", "shop.orders", "--engine", "deltalake"]
        argv += ["--order", "offset", "--out", f"delta:{name}", "--in", written(messages)]
        assert main(argv) == 0
        assert [(row["id"], row["name"]) for row in rows(spark, name)] == [(1, "b")]
