"""Executors and Python workers are killed (SIGKILL) in the midst of a task: the sink is as without it, the counts too.

With the real spark-submit on a cluster of two workers. Spark runs the tasks again; what a task had told is not kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.blocking_registry import Gate
from tests.support.changes import POISON
from tests.support.cluster import executor_of, packaged, submitted
from tests.support.golden import Golden
from tests.support.processes import Job
from tests.support.streams import letters, received
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.kafka import TopicWriter
from ticdc_bridge.spark_jobs.io.message_files import read_messages

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

AVRO = Golden("avro", "evolution.ext1")
PARTITIONS, COPIES = 4, 100
FIRST, LATER = (2, 3), (4, 5, 6, 7)  # ids of the values' schemas


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged(tmp_path_factory.mktemp("package"))


def _with(ids: Iterable[int]) -> list[Message]:
    """A poison message, and the golden ones with one of these schema ids, many times."""
    found = [m for m in AVRO.messages() if m.value is not None and m.value[4] in ids]
    assert found
    return [POISON, *found * COPIES]


def _sent(kafka: Kafka, lots: Iterable[list[Message]]) -> str:
    """A topic with each lot on each of its partitions, one lot after the other."""
    topic = kafka.create_topic(partitions=PARTITIONS)
    writer = TopicWriter(topic, {"bootstrap.servers": kafka.bootstrap_servers})
    for lot in lots:
        for message in lot:
            for partition in range(PARTITIONS):
                writer.write(Message(message.key, message.value, None, partition, headers=message.headers))
    writer.close()
    return topic


def _caught(job: Job, gate: Gate) -> psutil.Process:
    """A worker in the midst of its task."""
    found = job.until(gate.waiting, "a worker waits for a schema", 600)
    assert found is not None
    return found


def _truth(words: list[str], out: Path) -> Path:
    assert main([*words, "--out", str(out)]) == 1  # poison
    return out


@pytest.mark.skipif("BRIDGE_SOAK" not in os.environ, reason="takes a minute; make soak")
@pytest.mark.timeout(1500)
def test_a_batch_in_spark(kafka: Kafka, package: Path, tmp_path: Path) -> None:
    lot = _with((*FIRST, *LATER))
    source = _sent(kafka, [lot])
    with Gate(AVRO, shut=LATER).up() as gate:
        words = ["decode", "--format", "avro", "--registry", gate.url, "--bootstrap-servers", kafka.bootstrap_servers,
                 "--in", f"kafka:{source}"]  # fmt: skip
        more = ["--spark", "--out", "rows.jsonl", "--dead-letter", "dead.jsonl"]
        with submitted([*words, *more], tmp_path, package) as job:
            _caught(job, gate).kill()
            executor_of(_caught(job, gate)).kill()
            gate.open(LATER)
            assert job.wait(900) == 1, job.log[-4000:]
            assert f"decode: messages in {PARTITIONS * len(lot)}\n" in job.log
            assert f"decode: errors {PARTITIONS} (" in job.log
        truth = _truth(words, tmp_path / "truth.jsonl")
    assert (tmp_path / "rows.jsonl").read_bytes() == truth.read_bytes()
    dead = [m.value for m in read_messages(tmp_path / "dead.jsonl") if isinstance(m, Message)]
    assert dead == [POISON.value] * PARTITIONS


@pytest.mark.slow  # test_outages kills a worker of a local stream
@pytest.mark.timeout(1500)
def test_a_stream(kafka: Kafka, package: Path, tmp_path: Path) -> None:
    """An executor is killed under its first micro-batch, a worker under its second."""
    lots = [_with(FIRST), _with(LATER)]
    assert len(lots[0]) < len(lots[1])  # so that two micro-batches of the second's size hold all
    lots[0] += lots[0][1:2] * (len(lots[1]) - len(lots[0]))
    count = PARTITIONS * len(lots[0])
    source, target = _sent(kafka, lots), kafka.create_topic()
    with Gate(AVRO, shut=(*FIRST, *LATER)).up() as gate:
        words = ["transcode", "--from", "avro", "--to", "craft", "--registry", gate.url, "--bootstrap-servers",
                 kafka.bootstrap_servers, "--in", f"kafka:{source}"]  # fmt: skip
        more = ["--stream", "--checkpoint", "checkpoint", "--trigger", "now", "--max-per-batch", str(count), "--out",
                f"kafka:{target}", "--dead-letter", "dead"]  # fmt: skip
        with submitted([*words, *more], tmp_path, package) as job:
            executor_of(_caught(job, gate)).kill()
            gate.open(FIRST)
            job.until(lambda: "transcode: batch 0: in " in job.log, "the first micro-batch ends", 600)
            _caught(job, gate).kill()
            gate.open(LATER)
            assert job.wait(900) == 1, job.log[-4000:]
            assert f"transcode: batch 1: in {count}," in job.log
            assert f"transcode: messages in {2 * count}\n" in job.log
            assert f"transcode: out {2 * (count - PARTITIONS)}\n" in job.log
        truth = _truth(words, tmp_path / "truth.jsonl")
    by_id = {dict(m.headers)["bridge.id"]: m for m in received(kafka, target)}
    expected = Counter((m.key, m.value) for m in read_messages(truth) if isinstance(m, Message))
    assert Counter((m.key, m.value) for m in by_id.values()) == expected
    assert expected.total() == 2 * (count - PARTITIONS)
    assert [m.value for m in letters(tmp_path / "dead")] == [POISON.value] * 2 * PARTITIONS
