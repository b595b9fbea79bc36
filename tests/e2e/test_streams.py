"""Streams on a real broker, in a real Spark: every message in a sink, in the dead letters, or counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.support.changes import Changes, change_of
from tests.support.golden import Golden
from tests.support.streams import received, send
from ticdc_bridge.cli import main
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.dead_letters import ORIGIN, REASON
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import plain_event
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

AVRO = Golden("avro", "evolution.ext1")
OPEN = Golden("open", "wide.default")
BAD = Message(b"k", b"\x07nope", None, 0, None, 5, (("x", b"\x00\xff"),))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, spark: SparkSession) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    yield
    spark.catalog.clearCache()


def now(*words: str, checkpoint: str) -> list[str]:
    return [*words, "--stream", "--checkpoint", checkpoint, "--trigger", "now"]


@pytest.mark.parametrize("most", [9, pytest.param(4, marks=pytest.mark.slow)])
def test_new_schema_ids_in_mid_stream_and_a_poison_message(
    most: int, kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Avro → Debezium to Kafka, and one table typed to Delta: the newest columns, older rows NULL; run on and on."""
    messages = [m for m in AVRO.messages() if m.topic == "tidb_test_evo"]
    source, out = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    with running_service() as url:
        known = HttpSchemas(url)
        for schema in AVRO.meta["registered_schemas"]:
            known.id_of(schema["subject"], schema["schema"])
        ids = {entry["id"]: known.id_of(entry["subject"], entry["schema"]) for entry in AVRO.meta["registered_schemas"]}
        sent = [_renumbered(m, ids) for m in messages]
        common = ["--registry", url, "--in", f"kafka:{source}", "--max-per-batch", str(most)]
        ddl = ["--ddl", str(AVRO.meta_file), "--time-zone", "Asia/Shanghai"]
        to_kafka = now("transcode", "--from", "avro", "--to", "debezium", *common, *ddl, "--out", f"kafka:{out}",
                       "--dead-letter", "delta:dead", "--metrics", "m.prom", checkpoint="c1")  # fmt: skip
        to_delta = now("decode", "--format", "avro", *common, "--table", "test.evo", "--out", "delta:evo",
                       "--dead-letter", "bad", checkpoint="c2")  # fmt: skip
        send(kafka, source, [*sent[:3], BAD])
        assert main(to_kafka) == 1
        assert main(to_delta) == 1
        send(kafka, source, sent[3:])
        assert main(to_kafka) == 0
        assert main(to_delta) == 0
    written = received(kafka, out)
    assert len(written) == len(sent)
    assert len({dict(m.headers)["bridge.id"] for m in written}) == len(sent)
    assert {m.partition for m in written} == {0}, "what was in one partition, in its order, stays in one"
    (dead,) = spark.read.format("delta").load(str(Path("dead").absolute())).collect()
    reported = {h["key"]: bytes(h["value"]) for h in dead["headers"]}
    assert (bytes(dead["key"]), bytes(dead["value"]), reported["x"]) == (BAD.key, BAD.value, b"\x00\xff")
    assert (reported[REASON], reported[ORIGIN]) == (b"NOT_FRAMED", f"{source}/0/3".encode())
    (again,) = read_messages(next(Path("bad").iterdir()))
    assert isinstance(again, Message)
    assert again.value == BAD.value
    rows = spark.read.format("delta").load(str(Path("evo").absolute())).orderBy("commit_ts").collect()
    assert len(rows) == len(sent)
    newest = [r["after"].asDict() for r in rows if r["after"] is not None][-1]
    assert {"c0", "c2"} <= newest.keys()
    assert 'failed_total{pipeline="transcode"' not in Path("m.prom").read_text()  # the second run had none
    lines = [line for line in capsys.readouterr().err.splitlines() if ": batch " in line]
    assert any("dead 1 (NOT_FRAMED 1)" in line and "lag 0" in line for line in lines)


def _renumbered(message: Message, ids: dict[Any, Any]) -> Message:
    def framed(data: bytes | None) -> bytes | None:
        return data and data[:1] + int(ids[int.from_bytes(data[1:5], "big")]).to_bytes(4, "big") + data[5:]

    return replace(message, key=framed(message.key), value=framed(message.value), partition=0)


@pytest.mark.slow
@pytest.mark.parametrize("most", [12, 7])
def test_duplicates_and_watermarks_across_micro_batches(
    most: int, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """DDL of an early batch defines tables of later ones; rows wait for a watermark of both partitions."""
    source = kafka.create_topic(partitions=2)
    messages = [replace(m, partition=0) for m in OPEN.messages()]
    words = ["decode", "--format", "open", "--in", f"kafka:{source}", "--ddl", "stream", "--out", "out", "--dedupe"]
    argv = now(*words, "--until-resolved", "--max-per-batch", str(most), checkpoint="c")
    marks = [m for m in messages if b'"t":3' in (m.key or b"")]
    send(kafka, source, [*messages, *messages])
    send(kafka, source, [replace(m, partition=1) for m in marks])
    assert main(argv) == 0
    found = [json.loads(line) for path in sorted(Path("out").iterdir()) for line in path.read_text().splitlines()]
    rows = [line for line in found if line["kind"] == "row"]
    assert [r["commit_ts"] for r in rows] == sorted(r["commit_ts"] for r in rows)
    assert len({(r["commit_ts"], r["op"], json.dumps(r["before"]), json.dumps(r["after"])) for r in rows}) == len(rows)
    assert f"skipped duplicate {len(rows)}" in capsys.readouterr().err
    assert all("enum_number" not in flag for r in rows for flag in r["flags"])
    assert main([*argv[: argv.index("--out")], "--out", "elsewhere", *argv[argv.index("--out") + 2 :]]) == 2


@pytest.mark.slow
def test_messages_of_aborted_transactions_are_not_read(kafka: Kafka, tmp_path: Path) -> None:
    """As Kafka Connect leaves them that delivers exactly once; read in this process, in Spark and by streams."""
    made, aborted, source = Changes(), Changes(seed="aborted"), kafka.create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": source})
    producer.init_transactions()

    def send_lots() -> None:
        for changes in (made, aborted, made, aborted):
            producer.begin_transaction()
            for message in changes.lot(9):
                producer.produce(source, message.value, message.key, partition=message.partition or 0)
            if changes is made:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()

    argv = ["decode", "--format", "open", "--in", f"kafka:{source}", "--ddl", str(made.ddl(tmp_path / "ddl.jsonl"))]
    for _ in range(2):
        send_lots()
        assert main(now(*argv, "--out", "streamed", "--max-per-batch", "8", checkpoint="c")) == 0
    assert main([*argv, "--out", "a.jsonl"]) == main([*argv, "--out", "b.jsonl", "--spark"]) == 0
    for files in ([Path("a.jsonl")], [Path("b.jsonl")], sorted(Path("streamed").iterdir())):
        found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        assert Counter(change_of(entry) for entry in found if entry["kind"] == "row") == Counter(made.made), files


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("in process", "lines"), ("held", "tables")], ids=" and ".join)
def test_changes_of_a_row_stay_in_one_partition(ways: tuple[str, ...], kafka: Kafka, tmp_path: Path) -> None:
    """Whatever the key of what is written (lines have none, Open's has the commit_ts): in order, also in fewer ones."""
    changes = Changes(partitions=3)
    ddl, source = str(changes.ddl(tmp_path / "ddl.jsonl")), kafka.create_topic(partitions=3)
    send(kafka, source, changes.lot(90))
    read = ["--in", f"kafka:{source}", "--ddl", ddl]
    plain = ["decode", "--format", "open", *read]
    open_ = ["transcode", "--from", "open", "--to", "open", *read, "--time-zone", "UTC"]
    for way in ways:
        topic = kafka.create_topic(partitions=2)
        words = {
            "in process": [*plain, "--out", f"kafka:{topic}"],
            "lines": now(*open_, "--out", f"kafka:{topic}", checkpoint="c1"),
            "held": now(*plain, "--out", f"kafka:{topic}", "--until-resolved", checkpoint="c2"),
            "tables": now(*open_, "--out", "kafka:", "--topic", topic, checkpoint="c3"),
        }  # fmt: skip
        assert main(words[way]) == 0, way
        found = received(kafka, topic)
        if way in ("lines", "tables"):
            decoder = CodecConfig("open", FileSchemas([]), Options.of({})).decoder()
            events = [(m.partition, plain_event(e, m)) for m in found for e in decoder.decode(m)]
        else:
            events = [(m.partition, json.loads(m.value or b"")) for m in found]
        rows = [(partition, change_of(line)) for partition, line in events if line["kind"] == "row"]
        assert sorted(row for _, row in rows) == changes.made
        assert all(partition == row[2] % 3 % 2 for partition, row in rows)
        for id_ in {row[2] for _, row in rows}:
            times = [row[0] for _, row in rows if row[2] == id_]
            assert times == sorted(times)
        marks = Counter(partition for partition, line in events if line["kind"] == "watermark")
        assert marks == {0: 2, 1: 1}
