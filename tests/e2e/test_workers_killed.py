"""Executors and Python workers are killed (SIGKILL) while they compute: the sink is as without it, the counts too.

With the real spark-submit on a cluster of two workers. Spark runs the tasks again; what a task had told is not kept.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.event import Message
from spark_jobs.cli import main
from spark_jobs.codec import decode_one, plain_lines
from spark_jobs.kafka import TopicWriter
from spark_jobs.messages import read_messages
from tests.support.changes import POISON, Changes, change_of
from tests.support.cluster import EXECUTOR, PYTHON, busy, packaged, submitted
from tests.support.golden import Golden
from tests.support.running import Job
from tests.support.streams import received

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

OPEN = Golden("open", "wide.default")
COUNT, COPIES = 1500, 8


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def changes() -> Changes:
    return Changes(partitions=4, poison=5)


@pytest.fixture(scope="module")
def source(kafka: Kafka, changes: Changes) -> str:
    """The changes on four partitions, over and over, so that a run takes a while: `COPIES` times the same."""
    topic, lot = kafka.create_topic(partitions=4), changes.lot(COUNT)
    writer = TopicWriter(topic, {"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(COPIES):
        for message in lot:
            writer.write(message)
    writer.close()
    return topic


def _kill(job: Job, word: str) -> None:
    """The first worker that is seen at work, or its executor."""
    seen: dict[int, float] = {}
    found = job.until(lambda: busy(job, word, seen), f"a worker computes ({word})", 600)
    assert found is not None
    found.kill()


def _words(kafka: Kafka, source: str, folder: Path, changes: Changes) -> list[str]:
    ddl = changes.ddl(folder / "ddl.jsonl")
    return ["decode", "--format", "open", "--ddl", str(ddl), "--bootstrap-servers", kafka.bootstrap_servers, "--in",
            f"kafka:{source}"]  # fmt: skip


@pytest.mark.skipif("BRIDGE_SOAK" not in os.environ, reason="takes a minute; make soak")
@pytest.mark.timeout(1500)
def test_a_batch_in_spark(kafka: Kafka, source: str, changes: Changes, package: Path, tmp_path: Path) -> None:
    words = _words(kafka, source, tmp_path, changes)
    assert main([*words, "--out", str(tmp_path / "truth.jsonl")]) == 1
    more = ["--spark", "--out", "rows.jsonl", "--dead-letter", "dead.jsonl"]
    with submitted([*words, *more], tmp_path, package) as job:
        _kill(job, PYTHON)
        _kill(job, EXECUTOR)
        assert job.wait(900) == 1, job.log[-4000:]
        assert f"decode: messages in {COPIES * (COUNT + 5 + 4)}\n" in job.log
        assert f"decode: errors {COPIES * 5} (" in job.log
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "truth.jsonl").read_bytes()
    assert len(list(read_messages(tmp_path / "dead.jsonl"))) == COPIES * 5


@pytest.mark.timeout(1500)
def test_a_stream(kafka: Kafka, source: str, changes: Changes, package: Path, tmp_path: Path) -> None:
    words = [*_words(kafka, source, tmp_path, changes), "--stream", "--checkpoint", "checkpoint", "--trigger", "now"]
    target = kafka.create_topic()
    more = ["--max-per-batch", "8000", "--out", f"kafka:{target}", "--dead-letter", "dead"]
    with submitted(["transcode", "--from", "open", "--to", "open", *words[3:], *more], tmp_path, package) as job:
        _kill(job, EXECUTOR)
        job.until(lambda: "transcode: batch 0:" in job.log, "the first micro-batch ends", 600)
        _kill(job, PYTHON)
        assert job.wait(900) == 1, job.log[-4000:]
        assert f"transcode: messages in {COPIES * (COUNT + 5 + 4)}\n" in job.log
        assert f"transcode: out {COPIES * (COUNT + 4)}\n" in job.log
    decoder, by_id = OPEN.side().decoder(), {dict(m.headers)["bridge.id"]: m for m in received(kafka, target)}
    lines = [line for m in by_id.values() for line in plain_lines(decode_one(decoder, m), m)]
    rows = Counter(change_of(line) for line in lines if line["kind"] == "row")
    assert rows == Counter(dict.fromkeys(changes.made, COPIES))
    letters = [m for p in (tmp_path / "dead").iterdir() for m in read_messages(p) if isinstance(m, Message)]
    assert [m.value for m in letters] == [POISON.value] * COPIES * 5
