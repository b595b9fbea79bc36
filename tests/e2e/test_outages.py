"""Kafka and the registry go away while a job runs: it goes on where it was, or ends with exit code 2 and can go on."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException

from tests.support.blocking_registry import Gate
from tests.support.changes import POISON, Changes, change_of
from tests.support.golden import Golden
from tests.support.processes import until
from tests.support.registries import Answer, Server, answer, golden_registry, serving
from tests.support.streams import letters, lines, received, run_while, send
from ticdc_bridge.cli import main
from ticdc_bridge.clients.kafka import read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

AVRO = Golden("avro", "evolution.ext1")
CRASH = bool(os.environ.get("BRIDGE_SOAK"))


@pytest.fixture(autouse=True)
def _elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> Iterator[None]:
    """Jobs find the test's own broker, or the run's: one of them is enough."""
    broker = request.getfixturevalue("own_kafka" if "own_kafka" in request.fixturenames else "kafka")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    yield
    spark.catalog.clearCache()


def stream(source: str, out: str, *more: str, trigger: str = "200ms") -> list[str]:
    Changes().ddl(Path("ddl.jsonl"))
    return ["decode", "--format", "open", "--ddl", "ddl.jsonl", "--in", f"kafka:{source}", "--out", out, "--stream",
            "--checkpoint", "checkpoint", "--trigger", trigger, "--dead-letter", "dead", *more]  # fmt: skip


def restarted(kafka: Kafka) -> None:
    kafka.down(crash=CRASH)
    kafka.up()


@pytest.mark.slow
def test_a_broker_restarts_under_a_stream(own_kafka: Kafka) -> None:
    """Twice; the topic read and the topic written are both on it."""
    kafka = own_kafka
    source, target = kafka.create_topic(partitions=2), kafka.create_topic()
    changes, lots = Changes(poison=1), 3

    def trouble() -> None:
        for number in range(1, lots):
            send(kafka, source, changes.lot(20))
            until(partial(_holds, kafka, target, 22 * number), "a lot is written")
            restarted(kafka)
        send(kafka, source, changes.lot(20))  # and two watermarks: 22 messages a lot
        until(partial(_holds, kafka, target, 22 * lots), "the last lot is written")

    assert run_while(stream(source, f"kafka:{target}"), trouble) == 1
    assert main(stream(source, f"kafka:{target}", trigger="now")) == 0  # nothing was left: it ended after a batch
    by_id = {dict(m.headers)["bridge.id"]: m.value for m in received(kafka, target)}
    found = [json.loads(value or b"") for value in by_id.values()]
    assert Counter(change_of(x) for x in found if x["kind"] == "row") == Counter(changes.made)
    assert len(by_id) == 22 * lots
    assert sum(len(p.read_text().splitlines()) for p in Path("dead").iterdir()) == lots


def _holds(kafka: Kafka, topic: str, count: int) -> bool:
    return len({dict(m.headers)["bridge.id"] for m in received(kafka, topic)}) >= count


@pytest.mark.skipif(not CRASH, reason="as the stream's; make soak")
def test_a_broker_restarts_under_a_batch(own_kafka: Kafka, spark: SparkSession) -> None:
    """In this process, between two partitions; and in Spark, while its tasks run."""
    kafka = own_kafka
    source = kafka.create_topic(partitions=3)
    changes = Changes(partitions=3)
    send(kafka, source, changes.lot(600))
    incoming = read_topic(source, {"bootstrap.servers": kafka.bootstrap_servers})
    found = [next(incoming)]
    restarted(kafka)
    found += incoming
    assert [(m.partition, m.offset) for m in found] == sorted((m.partition, m.offset) for m in received(kafka, source))
    assert len(found) == 603

    words = ["decode", "--format", "open", "--ddl", str(changes.ddl(Path("ddl.jsonl"))), "--in", f"kafka:{source}"]
    began = threading.Event()

    def trouble() -> None:
        tracker = spark.sparkContext.statusTracker()
        until(lambda: tracker.getActiveStageIds() or began.is_set(), "the job begins")
        restarted(kafka)

    thread = threading.Thread(target=trouble)
    thread.start()
    try:
        assert main([*words, "--spark", "--out", "rows.jsonl"]) == 0
    finally:
        began.set()
        thread.join()
    assert main([*words, "--out", "truth.jsonl"]) == 0
    assert Path("rows.jsonl").read_bytes() == Path("truth.jsonl").read_bytes()


@pytest.mark.slow
def test_a_topic_is_deleted_in_mid_stream(
    kafka: Kafka, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clear end. Nor does the stream take another topic of that name for the one whose offsets it knows."""
    source = kafka.create_topic(partitions=2)
    changes = Changes()

    def delete() -> None:
        send(kafka, source, changes.lot(10))
        until(lambda: len(lines("out")) == 12, "the rows are written")
        admin = kafka.admin
        admin.delete_topics([source])[source].result(30)
        assert ended.wait(300)

    def run(argv: list[str]) -> int:
        try:
            return main(argv)
        finally:
            ended.set()

    ended = threading.Event()
    argv = stream(source, "out", "--patience", "20s")
    assert run_while(argv, delete, run) == 2
    assert source in capsys.readouterr().err
    offsets = sorted(Path("checkpoint/spark/commits").glob("[0-9]*"))
    assert main(argv) == 2
    assert source in capsys.readouterr().err
    with suppress(KafkaException):  # a client may have made it anew
        admin = kafka.admin
        admin.delete_topics([source])[source].result(30)
    kafka.create_topic(source, 2)
    send(kafka, source, Changes(seed="other").lot(40))
    assert main([*argv[: argv.index("--trigger")], "--trigger", "now"]) == 2
    assert "is another topic" in capsys.readouterr().err
    assert sorted(Path("checkpoint/spark/commits").glob("[0-9]*")) == offsets
    assert Counter(change_of(x) for x in lines("out") if x["kind"] == "row") == Counter(changes.made)


class _Registry:
    """A registry of golden schemas that can be taken off its port and come back to it."""

    def __init__(self) -> None:
        self._respond = golden_registry(AVRO)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.asked = threading.Event()
        self.away = threading.Event()
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> Server:
        self.away.clear()
        return self._stack.enter_context(serving(self._answer, self.port))

    def down(self) -> None:
        self.away.set()
        self._stack.close()

    def _answer(self, method: str, path: str, body: bytes) -> Answer:
        if self.away.is_set() and path != "/":
            self.asked.set()
            return answer(503, {"error_code": 50301, "message": "away"})
        return self._respond(method, path, body)


@pytest.fixture
def registry() -> Iterator[_Registry]:
    found = _Registry()
    yield found
    found.down()


def avro(source: str, url: str, *more: str) -> list[str]:
    return ["decode", "--format", "avro", "--registry", url, "--in", f"kafka:{source}", "--out", "out",
            "--stream", "--checkpoint", "checkpoint", "--trigger", "now", *more]  # fmt: skip


def sent(kafka: Kafka) -> tuple[str, list[Any]]:
    messages = [m for m in AVRO.messages() if m.topic == "tidb_test_evo" and m.value is not None]
    source = kafka.create_topic()
    send(kafka, source, messages)
    return source, messages


def test_the_registry_is_not_there(kafka: Kafka, registry: _Registry, capsys: pytest.CaptureFixture[str]) -> None:
    """At the start: exit code 2 after --registry-wait, nothing begun."""
    source, _ = sent(kafka)
    assert main(avro(source, registry.url, "--registry-wait", "300ms")) == 2
    err = capsys.readouterr().err
    assert f"schema registry {registry.url} can't be reached" in err
    assert "tried for 0.3 s" in err
    assert not Path("out").exists()
    assert not Path("checkpoint/spark").exists()


def test_a_patient_stream_waits_for_its_registry_at_the_start_too(
    kafka: Kafka, registry: _Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """--patience that is given counts from the start on, and a line says what is waited for."""
    source, messages = sent(kafka)
    threading.Timer(3, registry.up).start()
    assert main(avro(source, registry.url, "--patience", "60s")) == 0
    assert f"waiting up to 60 s for {registry.url}: " in capsys.readouterr().err
    assert len(lines("out")) == len(messages)


def test_the_registry_goes_and_comes_back_in_mid_stream(
    kafka: Kafka, registry: _Registry, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked until it answers. With little patience: exit 2, no offset committed, and the next run goes on."""
    source, messages = sent(kafka)
    registry.up()
    registry.away.set()
    assert main(avro(source, registry.url, "--patience", "1s")) == 2
    assert "REGISTRY_UNREACHABLE" in capsys.readouterr().err
    assert list(Path("checkpoint/spark/commits").glob("[0-9]*")) == []
    assert not Path("out").exists()
    registry.asked.clear()

    def trouble() -> None:
        assert registry.asked.wait(120)  # a micro-batch waits for an answer
        registry.down()
        registry.up()
        until(lambda: len(lines("out")) >= len(messages), "all rows are written")

    argv = avro(source, registry.url)
    assert run_while([*argv[: argv.index("--trigger")], "--trigger", "200ms"], trouble) == 0
    assert sorted(x["offset"] for x in lines("out")) == list(range(len(messages)))
    assert {x["kind"] for x in lines("out")} == {"row"}
    registry.down()
    assert main([*argv, "--registry-wait", "200ms"]) == 2


@pytest.mark.slow
def test_a_python_worker_is_killed_under_a_local_stream(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """With a master such as local[2] Spark tries no task twice: the stream runs the micro-batch again."""
    source, messages = sent(kafka)
    send(kafka, source, [POISON])
    gate = Gate(AVRO, shut=[5])  # the fourth of six ids: the worker has read some by then

    def kill() -> None:
        found = until(gate.waiting, "a worker waits for a schema")
        assert found is not None
        found.kill()
        gate.open([5])
        until(lambda: lines("out"), "the rows are written")

    with gate.up():
        argv = avro(source, gate.url, "--dead-letter", "dead")
        assert run_while([*argv[: argv.index("--trigger")], "--trigger", "200ms", *argv[-2:]], kill) == 1
    found = lines("out")
    assert sorted(x["offset"] for x in found if x["kind"] == "row") == list(range(len(messages)))
    assert [x["code"] for x in found if x["kind"] != "row"] == []
    (letter,) = letters("dead")
    assert (letter.key, letter.value) == (POISON.key, POISON.value)
    assert f"decode: messages in {len(messages) + 1}\n" in capsys.readouterr().err
