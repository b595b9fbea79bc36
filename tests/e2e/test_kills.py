"""The driver of a stream is killed (SIGKILL) at random moments; afterwards the sink holds every row once.

Three rounds here; `make soak` (BRIDGE_SOAK=1) runs twenty, into a Delta table and into Kafka as well.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.kafka import TopicWriter, read_topic
from spark_jobs.messages import LineWriter
from tests.support.golden import ROOT, Golden

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

AVRO = Golden("avro", "bulk.ext1")
SOAK = bool(os.environ.get("BRIDGE_SOAK"))
ROUNDS = 20 if SOAK else 3
COPIES = 40 if SOAK else 4
SINKS = ("folder", "delta", "kafka") if SOAK else ("folder",)


def _command(kafka: Kafka, source: str, out: str, folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "spark_jobs", "decode", "--format", "avro", "--schemas", str(AVRO.meta_file),
        "--bootstrap-servers", kafka.bootstrap_servers, "--in", f"kafka:{source}", "--out", out, "--dead-letter",
        str(folder / "dead"), "--stream", "--checkpoint", str(folder / "checkpoint"), "--trigger", "now",
        "--max-per-batch", str(100 * COPIES // 4), "--master", "local[2]",
    ]  # fmt: skip


def _started(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: the JVM and the workers die with the driver."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, env=env, cwd=folder, stderr=log, stdout=log, start_new_session=True)


def _killed(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(process: subprocess.Popen[bytes], path: Path, seconds: float) -> None:
    """Until the query has begun to write its checkpoint."""
    end = time.monotonic() + seconds
    while not path.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.timeout(0 if SOAK else 900)
def test_a_killed_driver_loses_nothing_and_writes_nothing_twice(kafka: Kafka, tmp_path: Path, sink: str) -> None:
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=1)
    writer, sent = TopicWriter(source, {"bootstrap.servers": kafka.bootstrap_servers}), 0
    for _ in range(COPIES):
        for n, message in enumerate(m for m in AVRO.messages() if m.value is not None):
            writer.write(replace(message, partition=n % 2))
            sent += 1
    writer.close()
    out = {"folder": "out", "delta": f"delta:{tmp_path}/table", "kafka": f"kafka:{target}"}[sink]
    command = _command(kafka, source, out, tmp_path)
    chance = random.Random(f"{sink}{ROUNDS}")
    for number in range(ROUNDS):
        process = _started(command, tmp_path)
        _wait_for(process, tmp_path / "checkpoint" / "spark" / "offsets" / "0", 90)
        time.sleep(chance.uniform(0, 6.0 if number else 3.0))
        if process.poll() is None:
            _killed(process)
    process = _started(command, tmp_path)
    assert process.wait(1000 if SOAK else 500) == 0, (tmp_path / "log").read_text()[-3000:]
    assert not (tmp_path / "dead").exists()
    places = Counter(_places(kafka, sink, tmp_path, target))
    assert set(places.values()) == {1}
    assert len(places) == sent


def _places(kafka: Kafka, sink: str, folder: Path, target: str) -> list[Any]:
    """Where in the source each row in the sink came from."""
    if sink == "kafka":  # at least once: what came twice has one id
        found = read_topic(target, {"bootstrap.servers": kafka.bootstrap_servers})
        return list({dict(m.headers)["bridge.id"] for m in found})
    if sink == "folder":
        lines = [json.loads(x) for p in (folder / "out").glob("*.jsonl") for x in p.read_text().splitlines()]
        return [(line["partition"], line["offset"]) for line in lines]
    from spark_jobs.lake import session

    rows = session("local[2]", True).read.format("delta").load(str(folder / "table")).select("source").collect()
    return [(row["source"]["partition"], row["source"]["offset"]) for row in rows]


def test_a_file_of_a_batch_is_whole_or_not_there(tmp_path: Path) -> None:
    writer = LineWriter(tmp_path / "000000000000.jsonl")
    writer.write_text("{}")
    assert list(tmp_path.glob("*.jsonl")) == []
    writer.close()
    assert [p.name for p in tmp_path.glob("*.jsonl")] == ["000000000000.jsonl"]
