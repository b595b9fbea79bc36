"""The broker fixture is a real broker: what goes in comes out, through Spark too, and it never outlives its tests."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, KafkaDidNotStart

ROOT = Path(__file__).resolve().parents[2]

MESSAGES: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"k1", b"\x00\x00\x00\x00\x01value"), (b"k2", bytes(range(256))), (b"tombstone", None), (None, b""),
    (b"big", b"x" * 200_000),
)  # fmt: skip


def _produce(kafka: Kafka, topic: str) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in MESSAGES:
        producer.produce(
            topic, value, key, partition=0, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(30) == 0
    assert failures == []


def test_what_is_produced_is_consumed(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=1)
    _produce(kafka, topic)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        got: list[tuple[bytes | None, bytes | None]] = []
        while len(got) < len(MESSAGES):
            message = consumer.poll(30)
            assert message is not None, f"no message within 30 s; the broker's log:\n{kafka.log[-4000:]}"
            assert message.error() is None
            got.append((message.key(), message.value()))
    finally:
        consumer.close()
    assert tuple(got) == MESSAGES


def test_spark_reads_the_same_bytes(kafka: Kafka, spark: SparkSession) -> None:
    topic = kafka.create_topic(partitions=1)
    _produce(kafka, topic)
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = frame.select("key", "value").orderBy("offset").collect()
    assert tuple((_bytes(row.key), _bytes(row.value)) for row in rows) == MESSAGES


def test_spark_writes_to_kafka_and_reads_back(kafka: Kafka, spark: SparkSession) -> None:
    topic = kafka.create_topic(partitions=3)
    frame = spark.range(100).selectExpr("cast(id as string) as key", "cast(id * id as string) as value")
    frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers).option("topic", topic).save()
    back = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .load()
    )
    rows = back.selectExpr("cast(cast(key as string) as int) as k", "cast(cast(value as string) as int) as v").collect()
    assert sorted((row.k, row.v) for row in rows) == [(n, n * n) for n in range(100)]


def test_topics(kafka: Kafka) -> None:
    assert kafka.topic_name() != kafka.topic_name()
    name = kafka.create_topic(kafka.topic_name("orders"), partitions=4)
    assert len(kafka.admin.list_topics(timeout=30).topics[name].partitions) == 4
    with pytest.raises(KafkaException, match="already exists"):
        kafka.create_topic(name)


@pytest.mark.slow
def test_broker_ends_when_its_test_run_is_killed() -> None:
    script = (
        "from tests.support.kafka import Kafka; kafka = Kafka().start();"
        "print(kafka.bootstrap_servers, kafka.folder, flush=True); input()"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with runner:
        assert runner.stdout is not None
        address, folder = runner.stdout.readline().split()
        port = int(address.partition(":")[2])
        assert _listens(port)
        brokers = psutil.Process(runner.pid).children(recursive=True)
        runner.send_signal(signal.SIGKILL)
    assert brokers
    deadline = time.monotonic() + 60
    while any(map(_runs, brokers)):  # it closes its port before its files
        assert time.monotonic() < deadline, "the broker outlived its test run"
        time.sleep(0.05)
    assert not _listens(port)
    shutil.rmtree(folder)


def test_failure_to_start_shows_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.kafka._SERVER", "process.roles=nonsense\nlog.dirs={data}\n")
    kafka = Kafka()
    with pytest.raises(KafkaDidNotStart, match="nonsense"):
        kafka.start()
    kafka.stop()
    assert not kafka.folder.exists()


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
