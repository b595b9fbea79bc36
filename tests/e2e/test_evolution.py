"""Tables that change, or that nobody knows, while a stream runs: new schema ids, schemas that do not fit together."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import fastavro
import pytest

from tests.support.changes import CREATE, Changes
from tests.support.golden import Golden
from tests.support.history_events import T0, framed
from tests.support.processes import until
from tests.support.streams import delta_count, delta_rows, letters, lines, received, run_while, send
from ticdc_bridge.cli import main
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

ID = {"name": "id", "type": {"type": "long", "connect.parameters": {"tidb_type": "BIGINT"}}}
EXTENSION = [{"name": "_tidb_op", "type": "string"}, {"name": "_tidb_commit_ts", "type": "long"},
             {"name": "_tidb_commit_physical_time", "type": "long"}]  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, spark: SparkSession) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    yield
    spark.catalog.clearCache()


def column(name: str, tidb_type: str, avro: Any, **more: Any) -> dict[str, Any]:
    kind = avro if isinstance(avro, dict) else {"type": avro}
    return {"name": name, "type": ["null", {**kind, "connect.parameters": {"tidb_type": tidb_type}}], "default": None,
            **more}  # fmt: skip


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


class Feed:
    """TiCDC's Avro messages of shop.orders, under the schemas that it registers."""

    def __init__(self, url: str, topic: str) -> None:
        self._known, self.topic, self._ts = HttpSchemas(url), topic, T0
        body = json.dumps({"compatibility": "NONE"}).encode()
        with urlopen(Request(f"{url}/config", body, {"Content-Type": "application/json"}, method="PUT"), timeout=30):
            pass

    def rows(self, columns: list[dict[str, Any]], *found: dict[str, Any]) -> list[Message]:
        """Inserts of a version of the table, which is registered now."""
        key = {"type": "record", "name": "orders", "namespace": "default.shop", "fields": [ID]}
        value = {**key, "fields": [ID, *columns, *EXTENSION]}
        heads = [self._head(f"{self.topic}-{field}", schema) for field, schema in (("key", key), ("value", value))]
        out = []
        for row in found:
            self._ts += 1 << 18
            reported = {"_tidb_op": "c", "_tidb_commit_ts": self._ts, "_tidb_commit_physical_time": self._ts >> 18}
            pieces = [
                head + _avro(schema, {**row, **reported})
                for head, schema in zip(heads, (key, value), strict=True)
            ]  # fmt: skip
            out.append(Message(pieces[0], pieces[1], None, 0))
        return out

    def _head(self, subject: str, schema: dict[str, Any]) -> bytes:
        id_ = self._known.id_of(subject, json.dumps(schema))
        assert isinstance(id_, int)
        return b"\x00" + id_.to_bytes(4, "big")


def _avro(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, {f["name"]: row.get(f["name"]) for f in schema["fields"]})
    return file.getvalue()


@pytest.fixture
def registry() -> Iterator[str]:
    with running_service() as url:
        yield url


def delta(spark: SparkSession, path: str = "orders") -> list[Any]:
    """The rows of the table, [] where it is not there yet."""
    return sorted((r["after"] for r in delta_rows(spark, path)), key=lambda r: r["id"])


def _reaches(count: Callable[[], int], least: int) -> bool:
    return count() >= least


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["delta", "kafka"])
def test_versions_registered_while_the_stream_runs(sink: str, kafka: Kafka, spark: SparkSession, registry: str) -> None:
    """Into a Delta table or into a topic, without a restart: the newest columns, older rows NULL."""
    source, target = kafka.create_topic(), kafka.create_topic()
    feed = Feed(registry, source)
    total, note = column("total", "DECIMAL", decimal(10, 2)), column("note", "TEXT", "string")
    wide = column("total", "DECIMAL", decimal(14, 2))
    steps: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
        ([total], {"id": 1, "total": Decimal("1.50")}),
        ([total, note], {"id": 2, "total": Decimal("2.50"), "note": "two"}),
        ([wide, note], {"id": 3, "total": Decimal("123456789012.75"), "note": None}),
    ]

    def written() -> int:
        return delta_count("orders") if sink == "delta" else len(received(kafka, target))

    def grow() -> None:
        for count, (columns, row) in enumerate(steps, 1):
            send(kafka, source, feed.rows(columns, row))  # registered now, while the query runs
            until(partial(_reaches, written, count), f"row {count} is written")

    common = ["--registry", registry, "--in", f"kafka:{source}", "--stream", "--checkpoint", sink, "--trigger",
              "200ms"]  # fmt: skip
    words = {
        "delta": ["decode", "--format", "avro", "--table", "shop.orders", "--out", "delta:orders"],
        "kafka": ["transcode", "--from", "avro", "--to", "debezium", "--out", f"kafka:{target}", "--time-zone",
                  "UTC"],
    }  # fmt: skip
    assert run_while([*words[sink], *common], grow) == 0
    if sink == "delta":
        assert [tuple(r) for r in delta(spark)] == [
            (1, Decimal("1.50"), None), (2, Decimal("2.50"), "two"), (3, Decimal("123456789012.75"), None),
        ]  # fmt: skip
        return
    after = [json.loads(m.value or b"")["payload"]["after"] for m in received(kafka, target)]
    assert [sorted(a) for a in after] == [["id", "total"], ["id", "note", "total"], ["id", "note", "total"]]


@pytest.mark.slow  # seven streams
def test_schemas_of_one_table_that_do_not_fit_together(
    kafka: Kafka, spark: SparkSession, registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row by its own schema as lines; into typed columns what fits, else a dead letter: no digit changes."""
    source = kafka.create_topic()
    feed = Feed(registry, source)
    fine, text = column("total", "DECIMAL", decimal(12, 3)), column("total", "TEXT", "string")
    coarse = column("total", "DECIMAL", decimal(10, 2))
    send(kafka, source, feed.rows([fine], {"id": 1, "total": Decimal("1.125")}, {"id": 2, "total": Decimal("2.500")}))
    common = ["--registry", registry, "--in", f"kafka:{source}", "--stream", "--trigger", "now"]
    plain = ["decode", "--format", "avro", *common, "--out", "out", "--checkpoint", "c1"]
    typed = ["decode", "--format", "avro", *common, "--table", "shop.orders"]
    assert main(plain) == 0
    send(kafka, source, feed.rows([text], {"id": 3, "total": "three"}))
    send(kafka, source, feed.rows([coarse], {"id": 4, "total": Decimal("4.25")}))
    assert main(plain) == 0
    assert [x["after"]["total"] for x in lines("out")] == ["1.125", "2.500", "three", "4.25"]
    capsys.readouterr()
    assert main([*typed, "--out", "delta:numbers", "--checkpoint", "c2", "--dead-letter", "dead"]) == 1
    assert "internal error" not in capsys.readouterr().err
    assert [r["total"] for r in delta(spark, "numbers")] == [Decimal("2.50"), Decimal("4.25")]
    reported = sorted((dict(m.headers)["bridge.origin"], dict(m.headers)["bridge.reason"]) for m in letters("dead"))
    assert reported == [(f"{source}/0/{offset}".encode(), b"INVALID_VALUE") for offset in (0, 2)]
    send(kafka, source, feed.rows([text, column("note", "TEXT", "string")], {"id": 5, "total": "five"}))
    assert main([*typed, "--out", "delta:orders", "--checkpoint", "c3"]) == 0
    assert [r["total"] for r in delta(spark)] == ["1.125", "2.500", "three", "4.25", "five"]
    # The table has text now; a number's column can't take its place.
    send(kafka, source, feed.rows([column("total", "DATETIME", "string")], {"id": 6, "total": "2026-01-02 03:04:05"}))
    assert main([*typed, "--out", "delta:orders", "--checkpoint", "c3"]) == 0
    send(kafka, source, feed.rows([column("total", "BLOB", "bytes")], {"id": 7, "total": b"\x00\xff"}))
    capsys.readouterr()
    assert main([*typed, "--out", "delta:orders", "--checkpoint", "c3"]) == 2
    assert "internal error" not in capsys.readouterr().err
    assert [r["id"] for r in delta(spark)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow  # the next test has such a table too
def test_a_table_that_nobody_knows(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of a table without definition among others, in mid-stream: read as they are, left out where one is asked."""
    source, changes = kafka.create_topic(partitions=2), Changes()
    ghost = {"id": {"t": 8, "h": True, "f": 11, "v": 7}, "note": {"t": 15, "f": 64, "v": "boo"}}
    head = {"ts": T0 + 1, "scm": "shop", "tbl": "ghost", "t": 1}
    unknown = replace(Message(*framed(head, json.dumps({"u": ghost}).encode())), partition=0)
    send(kafka, source, [*changes.lot(5), unknown, *changes.lot(5)])
    Path("ddl.jsonl").write_text(json.dumps({"commit_ts": T0, "db": "shop", "query": CREATE.format("orders")}) + "\n")
    words = ["--ddl", "ddl.jsonl", "--in", f"kafka:{source}", "--stream", "--trigger", "now", "--max-per-batch", "6"]
    assert main(["decode", "--format", "open", *words, "--out", "out", "--checkpoint", "c1"]) == 0
    (row,) = [x for x in lines("out") if x.get("table") == "ghost"]
    assert row["after"] == {"id": "7", "note": "boo"}
    capsys.readouterr()
    typed = ["--table", "shop.orders", "--out", "delta:orders", "--checkpoint", "c2"]
    assert main(["decode", "--format", "open", *words, *typed]) == 0
    assert "decode: skipped other table 1\n" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 3])
def test_a_table_without_types(most: int, kafka: Kafka, registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Debezium's messages without schema don't tell types: the rows of a table that is not defined are dead letters."""
    known, ghosts = (_rows(Golden("debezium", f"{name}.noschema")) for name in ("pk_int", "pk_types"))
    source = kafka.create_topic()
    send(kafka, source, [replace(m, partition=0) for m in (*known[:2], *ghosts, *known[2:])])
    meta = str(Golden("debezium", "pk_int.noschema").meta_file)
    argv = [
        "transcode", "--from", "debezium", "--to", "avro", "--ddl", meta, "--in", f"kafka:{source}", "--to-registry",
        registry, "--time-zone", "UTC", "--out", "avro", "--stream", "--trigger", "now", "--checkpoint", "c",
        "--max-per-batch", str(most),
    ]  # fmt: skip
    assert main(argv) == 1
    assert f"transcode: errors {len(ghosts)} (TYPE_UNKNOWN {len(ghosts)})\n" in capsys.readouterr().err
    assert [m.value for m in letters("avro.dead")] == [m.value for m in ghosts]
    assert len(lines("avro")) == len(known)


def _rows(golden: Golden) -> list[Message]:
    return [m for m in golden.messages() if b'"op"' in (m.value or b"")]
