"""The driver of a stream is killed (SIGKILL) at random moments; afterwards the sink is what the source says.

Three kills and one sink here; `make soak` (BRIDGE_SOAK=1) kills twenty times for each kind of sink.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from schemas.event import Message
from spark_jobs.kafka import TopicWriter, read_topic
from spark_jobs.messages import LineWriter, read_messages
from tests.support.changes import POISON, Changes, change_of
from tests.support.running import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

SOAK = bool(os.environ.get("BRIDGE_SOAK"))
ROUNDS = int(os.environ.get("BRIDGE_KILLS", "20")) if SOAK else 3
LOT = 120 if SOAK else 60
KINDS = ("folder", "delta", "kafka", "dedupe", "resolved", "merge") if SOAK else ("folder",)


@dataclass
class Trial:
    """A stream of one kind: its source, its command line, and what is in its sink."""

    kafka: Kafka
    kind: str
    folder: Path
    changes: Changes
    source: str
    target: str
    kills: int = 0
    started: int = 0
    batches: list[int] = field(default_factory=list)

    def words(self, trigger: str) -> list[str]:
        out = {"kafka": f"kafka:{self.target}", "dedupe": f"kafka:{self.target}", "delta": "delta:table"}
        out["merge"] = out["delta"]
        command = "merge" if self.kind == "merge" else "decode"
        more = {"dedupe": ["--dedupe"], "resolved": ["--until-resolved"], "merge": ["--table", "shop.orders"]}
        return [
            command, "--format", "open", "--ddl", "ddl.jsonl", "--bootstrap-servers", self.kafka.bootstrap_servers,
            "--in", f"kafka:{self.source}", "--out", out.get(self.kind, "out"), "--dead-letter", "dead", "--stream",
            "--checkpoint", "checkpoint", "--trigger", trigger, "--max-per-batch", str(LOT // 3), "--master",
            "local[2]", *more.get(self.kind, []),
        ]  # fmt: skip

    def send(self) -> None:
        writer = TopicWriter(self.source, {"bootstrap.servers": self.kafka.bootstrap_servers})
        for message in self.changes.lot(LOT):
            writer.write(message)
        writer.close()

    def begun(self) -> int:
        """How many micro-batches have begun in all runs together."""
        return len([p for p in (self.folder / "checkpoint" / "spark" / "offsets").glob("*") if p.name.isdigit()])

    def killed_once(self, chance: random.Random) -> None:
        """A run that is killed: while it starts, or some time after its first micro-batch has begun."""
        self.send()
        before = self.begun()
        with Job(self.words("1s"), self.folder) as job:
            self.started += 1
            if chance.random() < 0.9:
                job.until(lambda: self.begun() > before, "a micro-batch begins", 300)
                time.sleep(chance.uniform(0, 8.0))
            else:
                time.sleep(chance.uniform(0, 15.0))
            assert not job.ended, job.log[-3000:]
            self.kills += 1
        self.batches.append(self.begun() - before)

    def to_the_end(self) -> None:
        self.send()
        with Job(self.words("now"), self.folder) as job:
            assert job.wait(1500 if SOAK else 400) == 1, job.log[-3000:]  # 1: the poison messages


@pytest.fixture(params=KINDS)
def trial(request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path) -> Trial:
    kind = str(request.param)
    changes = Changes(again=20 if kind == "dedupe" else 0, poison=2, seed=f"{kind}{ROUNDS}")
    changes.ddl(tmp_path / "ddl.jsonl")
    return Trial(kafka, kind, tmp_path, changes, kafka.create_topic(partitions=2), kafka.create_topic())


@pytest.mark.timeout(0 if SOAK else 900)
def test_a_killed_driver_loses_nothing_and_writes_nothing_twice(trial: Trial, request: pytest.FixtureRequest) -> None:
    chance = random.Random(os.environ.get("BRIDGE_KILLS_SEED", f"{trial.kind}{ROUNDS}"))
    while trial.kills < ROUNDS:
        trial.killed_once(chance)
    trial.to_the_end()
    print(f"\n{trial.kind}: {trial.kills} kills, {len(trial.changes.made)} changes, micro-batches begun a run "
          f"{trial.batches}, {trial.begun()} in all")  # fmt: skip
    _poison_is_whole(trial)
    if trial.kind in ("delta", "merge"):
        _tables(trial, request.getfixturevalue("spark"))
    else:
        _lines(trial)


def _poison_is_whole(trial: Trial) -> None:
    """Each poison message is in the dead letters once, byte for byte."""
    letters = [m for p in (trial.folder / "dead").glob("*.jsonl") for m in read_messages(p) if isinstance(m, Message)]
    assert {(m.key, m.value, m.headers[:2]) for m in letters} == {(POISON.key, POISON.value, POISON.headers)}
    origins = Counter(dict(m.headers)["bridge.origin"] for m in letters)
    assert set(origins.values()) == {1}
    assert len(origins) == trial.changes.poisoned


def _lines(trial: Trial) -> None:
    lines = list(_written(trial))
    rows = [change_of(line) for line in lines if line["kind"] == "row"]
    if trial.kind == "resolved":
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert Counter(rows) == Counter(trial.changes.made)


def _written(trial: Trial) -> Iterator[dict[str, Any]]:
    """The lines in the sink; of a topic, where at-least-once shows, each id once."""
    if trial.kind not in ("kafka", "dedupe"):
        for path in sorted((trial.folder / "out").glob("*.jsonl")):
            yield from map(json.loads, path.read_text().splitlines())
        return
    by_id: dict[bytes | None, bytes | None] = {}
    found = list(read_topic(trial.target, {"bootstrap.servers": trial.kafka.bootstrap_servers}))
    for message in found:
        id_ = dict(message.headers)["bridge.id"]
        assert by_id.setdefault(id_, message.value) == message.value
    print(f"{trial.kind}: {len(found)} messages in the topic, {len(by_id)} ids")
    yield from (json.loads(value or b"") for value in by_id.values())


def _tables(trial: Trial, spark: SparkSession) -> None:
    found = spark.read.format("delta").load(str(trial.folder / "table"))
    if trial.kind == "merge":
        rows = found.select("id", "total", "note").collect()
        assert {r["id"]: str(r["total"]) for r in rows} == {i: t.lstrip() for i, t in trial.changes.table.items()}
        assert len(rows) == len(trial.changes.table)
        assert all(r["note"] == f"note of {r['id']}" for r in rows)
        return
    rows = found.where("kind = 'row'").select("commit_ts", "op", "before", "after").collect()
    assert Counter(change_of(r.asDict(recursive=True)) for r in rows) == Counter(trial.changes.made)


def test_a_file_of_a_batch_is_whole_or_not_there(tmp_path: Path) -> None:
    writer = LineWriter(tmp_path / "000000000000.jsonl")
    writer.write_text("{}")
    assert list(tmp_path.glob("*.jsonl")) == []
    writer.close()
    assert [p.name for p in tmp_path.glob("*.jsonl")] == ["000000000000.jsonl"]
