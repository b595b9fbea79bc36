"""Executors and Python workers are killed (SIGKILL) while they compute: the sink is as without it, the counts too.

With the real spark-submit on a cluster of two workers. Spark runs the tasks again; what a task had told is not kept.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.event import Message
from spark_jobs.cli import main
from spark_jobs.kafka import TopicWriter
from spark_jobs.messages import read_messages
from tests.support.changes import POISON, Changes, change_of
from tests.support.cluster import EXECUTOR, PYTHON, busy, packaged, submitted
from tests.support.running import Job

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

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
    found = job.until(lambda: busy(job, word, seen), f"a worker computes ({word})")
    assert found is not None
    found.kill()


def _words(kafka: Kafka, source: str, folder: Path, changes: Changes) -> list[str]:
    ddl = changes.ddl(folder / "ddl.jsonl")
    return ["decode", "--format", "open", "--ddl", str(ddl), "--bootstrap-servers", kafka.bootstrap_servers, "--in",
            f"kafka:{source}"]  # fmt: skip


@pytest.mark.timeout(900)
def test_a_batch_in_spark(kafka: Kafka, source: str, changes: Changes, package: Path, tmp_path: Path) -> None:
    words = _words(kafka, source, tmp_path, changes)
    assert main([*words, "--out", str(tmp_path / "truth.jsonl")]) == 1
    more = ["--spark", "--out", "rows.jsonl", "--dead-letter", "dead.jsonl"]
    with submitted([*words, *more], tmp_path, package) as job:
        _kill(job, PYTHON)
        _kill(job, EXECUTOR)
        assert job.wait() == 1, job.log[-4000:]
        assert f"decode: messages in {COPIES * (COUNT + 5 + 4)}\n" in job.log
        assert f"decode: errors {COPIES * 5} (" in job.log
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "truth.jsonl").read_bytes()
    assert len(list(read_messages(tmp_path / "dead.jsonl"))) == COPIES * 5


@pytest.mark.timeout(900)
def test_a_stream(kafka: Kafka, source: str, changes: Changes, package: Path, tmp_path: Path) -> None:
    words = [*_words(kafka, source, tmp_path, changes), "--stream", "--checkpoint", "checkpoint", "--trigger", "now"]
    more = ["--max-per-batch", "8000", "--out", "rows", "--dead-letter", "dead"]
    with submitted([*words, *more], tmp_path, package) as job:
        _kill(job, EXECUTOR)
        job.until(lambda: "decode: batch 0:" in job.log, "the first micro-batch ends")
        _kill(job, PYTHON)
        assert job.wait() == 1, job.log[-4000:]
        assert f"decode: messages in {COPIES * (COUNT + 5 + 4)}\n" in job.log
        assert f"decode: out {COPIES * (COUNT + 4)}\n" in job.log
    lines = [json.loads(text) for p in (tmp_path / "rows").iterdir() for text in p.read_text().splitlines()]
    assert set(Counter((line["partition"], line["offset"]) for line in lines).values()) == {1}
    rows = Counter(change_of(line) for line in lines if line["kind"] == "row")
    assert rows == Counter(dict.fromkeys(changes.made, COPIES))
    letters = [m for p in (tmp_path / "dead").iterdir() for m in read_messages(p) if isinstance(m, Message)]
    assert [m.value for m in letters] == [POISON.value] * COPIES * 5
