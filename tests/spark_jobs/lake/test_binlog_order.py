"""`merge` of changes of Debezium's MySQL connector: in the order of the binlog, and null values after deletes.

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
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.binlog_changes import check_servers
from ticdc_bridge.spark_jobs.pipeline.event_order import BINLOG_SERVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# (op, name, file, pos, row) of the changes of a key, by runs; and the name at last.
_Step = tuple[str, str, str, int, int]
BINLOG: list[tuple[Sequence[Sequence[_Step]], str | None]] = [
    ([[("r", "a", "bin.000003", 4, 0), ("u", "b", "bin.000003", 23, 0), ("u", "c", "bin.000003", 123, 0)]], "c"),
    ([[("u", "c", "bin.000003", 123, 0), ("u", "b", "bin.000003", 23, 0), ("r", "a", "bin.000009", 4, 0)]], "c"),
    ([[("c", "a", "bin.000009", 900, 0)], [("u", "b", "bin.000123", 4, 0)], [("c", "a", "bin.000009", 900, 0)]], "b"),
    ([[("u", "b", "bin.999999", 900, 0), ("u", "c", "bin.1000000", 4, 0)]], "c"),
    ([[("u", "b", "bin.1", 900, 1), ("u", "a", "bin.1", 900, 0)]], "b"),
    ([[("c", "a", "bin.1", 900, 0), ("d", "a", "bin.1", 901, 0)], [("c", "a", "bin.1", 900, 0)]], None),
    ([[("r", "a", "bin.1", 900, 0)], [("d", "a", "bin.1", 950, 0)], [("r", "a", "bin.1", 900, 0)]], None),
    ([[("c", "a", "bin.1", 5, 0), ("d", "a", "bin.1", 6, 0), ("c", "b", "bin.1", 7, 0)]], "b"),
    ([[("c", "a", "bin.1", (1 << 32) - 1, 0), ("u", "b", "bin.2", 4, 0)]], "b"),
]
_DDL = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"}


def _connector_message(key: int, step: _Step, offset: int, **source: Any) -> Message:
    op, name, file, pos, number = step
    row = {"id": key, "name": name}
    value = {
        "before": row if op in "ud" else None, "after": None if op == "d" else row, "op": op, "ts_ms": 1,
        "source": {
            "connector": "mysql", "ts_ms": 1764000000000, "db": "shop", "table": "orders", "file": file, "pos": pos,
            "row": number, **source,
        },
    }  # fmt: skip
    return Message(json.dumps({"id": key}).encode(), json.dumps(value).encode(), "orders", 0, offset)


@pytest.mark.slow
@ENGINES
def test_the_connectors_changes_in_the_order_of_the_binlog(
    spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ddl.jsonl").write_text(json.dumps(_DDL) + "\n")
    connector = ("--format", "debezium-mysql", "--ddl", "ddl.jsonl")
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(BINLOG):
        for run, steps in enumerate(sequence):
            runs[run] += [_connector_message(key, step, 100 * key + n) for n, step in enumerate(steps)]
    for run, messages in sorted(runs.items()):
        assert merge_orders(engine, *connector, "--in", written(messages, f"{run}.jsonl")) == 0
    there = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {n: there.get(n) for n, (_, last) in enumerate(BINLOG) if there.get(n) != last}
    assert not wrong

    # What nobody can order is refused, and the reason names no switch of another product.
    step = ("u", "z", "bin.5", 4, 0)
    refused: list[tuple[list[Message], str]] = [
        ([_connector_message(1, step, 0, commit_ts=BASE)], "ordered by binlog position"),
        ([_connector_message(1, step, 0), _connector_message(2, step, 1, commit_ts=BASE)], "merge them apart"),
        ([_connector_message(1, ("u", "z", "", 0, 0), 0)], "debezium-mysql"),
        (
            [_connector_message(1, ("u", name, file, 4, 0), n, gtid=f"{server * 36}:7") for n, (name, file, server)
             in enumerate((("y", "bin.7", "a"), ("z", "bin.1", "b")))], "failover",
        ),
    ]  # fmt: skip
    for messages, words in refused:
        capsys.readouterr()
        assert merge_orders(engine, *connector, "--in", written(messages)) == 2
        told = capsys.readouterr().err
        assert words in told
        assert "enable-tidb-extension" not in told


# The same steps as in AVRO, but a delete has a position: it is the small letter that comes between the large ones, and
# "." is the null value after it, or what compaction left of another.
NULLS: list[tuple[Sequence[str], str | None]] = [
    (["Ab."], None),
    (["Ab", "."], None),
    (["Ab", ".C"], "C"),
    (["Ab", ".", "C"], "C"),
    (["A", "."], None),
    (["Ab.C", "."], None),
    (["Ab", ".", "C", "."], None),
    (["Ab", ".C", "."], None),
    (["A", ".C"], "C"),
    # Read again.
    (["Ab", ".", "C", "1"], "C"),
    (["Ab", ".", "C", "0", "1"], "C"),
    (["Ab.", "Cd", ".", "E", "2"], "E"),
    (["Ab", ".", "Cd", ".E", "1"], "E"),
    (["Ab", ".", "C", ".", "1"], None),
    (["Ab", ".", "C", ".", "E", "3"], "E"),
    (["Ab", "C", ".", "0", "1", "2"], None),
    # The row came again in another partition, which was read before.
    (["Ab", ">C", "."], "C"),
    (["A", ">C", "b", "."], "C"),
    ([">C", "Ab", "."], "C"),
    ([">C", "Ab", ".", "2"], "C"),
    (["Ab", "<C", "."], "C"),
    (["Ab>Cd", ".", ">."], None),
    (["Ab>Cd", "<E", ".>."], "E"),
]


@pytest.mark.slow
@ENGINES
def test_null_values_after_deletes(spark: SparkSession, engine: str) -> None:
    """One is no delete of its own where its delete was read, in any earlier batch."""
    Path("ddl.jsonl").write_text(json.dumps(_DDL) + "\n")
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(NULLS):
        for run, made in enumerate(runs_of_key(sequence, key, _null_message)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))
        more = ("--format", "debezium-mysql", "--ddl", "ddl.jsonl", "--in", written(messages, f"{run}.jsonl"))
        assert merge_orders(engine, *more, "--versions", "delta:v", "--on-error", "fail") == 0
    there = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): there.get(n) for n, (sequence, last) in enumerate(NULLS) if there.get(n) != last}
    assert not wrong
    assert {row["id"]: row["name"] for row in rows(spark, "v") if row["_valid_to"] is None} == there


def _null_message(key: int, step: str, partition: int, offset: int, time: int) -> Message:
    fields = [{"field": "id", "type": "int32", "optional": False}]
    schema = {"type": "struct", "name": "s.shop.orders.Key", "optional": False, "fields": fields}
    op, value = "d" if step.islower() else "c", None
    if step != ".":
        value = _connector_message(key, (op, step, "bin.1", 100 * ord(step.upper()), 0), 0).value
    data = json.dumps({"schema": schema, "payload": {"id": key}}).encode()
    return Message(data, value, "s.shop.orders", partition, offset, time)


_Change = tuple[int, str, int, int]
"""partition, server, number of the transaction, position."""
# What is kept of earlier batches, the newest position then, the changes of this one; what is kept after it, or "!".
SERVERS: list[tuple[str | None, int | None, list[_Change], str | None]] = [
    (None, None, [(0, "a", 1, 10), (0, "a", 2, 20), (1, "a", 3, 5)], '{"a": null}'),
    ('{"a": null}', 20, [(0, "a", 1, 10), (0, "a", 3, 30)], None),
    ('{"a": null}', 20, [(0, "b", 1, 30)], '{"a": null, "b": 1}'),  # it reads a replica, whose source is another now
    ('{"a": null}', 20, [(0, "b", 1, 10)], "!"),
    ('{"a": null}', 20, [(0, "a", 9, 25), (0, "b", 1, 10)], "!"),
    ('{"a": 9, "b": 1}', 30, [(0, "a", 4, 10), (0, "b", 1, 30), (0, "b", 2, 40)], '{"a": 9, "b": 2}'),  # sent again
    ('{"a": 9, "b": 1}', 30, [(0, "a", 10, 20)], "!"),  # the first server is read again
    (None, None, [(0, "a", 8, 20), (0, "b", 1, 4)], "!"),
    (None, None, [(0, "a", 8, 20), (1, "b", 1, 4)], '{"a": 8, "b": 1}'),  # another partition may be behind
    (None, None, [(0, "a", 8, 20), (0, "b", 1, 30), (0, "a", 8, 20), (0, "b", 1, 30)], '{"a": 8, "b": 1}'),
    ('{"server_id 1": null}', 20, [(0, "server_id 2", 0, 10)], "!"),
    ('{"server_id 1": null}', 20, [(0, "server_id 2", 0, 30)], '{"server_id 1": null, "server_id 2": 0}'),
]


@pytest.mark.slow
def test_positions_of_another_server_after_a_failover(spark: SparkSession) -> None:
    source = "struct<topic:string,partition:int>"
    columns = f"commit_ts bigint, position bigint, row int, source {source}, flags array<string>"

    def check(row: tuple[str | None, int | None, list[_Change], str | None]) -> None:
        stored, newest, changes, kept = row
        rows = [
            (position, n, 0, ("t", partition), [BINLOG_SERVER + f"{number} {server}"])
            for n, (partition, server, number, position) in enumerate(changes)
        ]
        frame = spark.createDataFrame(rows, columns)
        if kept == "!":
            with pytest.raises(SetupError, match="failover"):
                check_servers(frame, stored, lambda: newest, TableId("shop", "orders"))
        else:
            assert check_servers(frame, stored, lambda: newest, TableId("shop", "orders")) == kept

    check_rows(SERVERS, check)
