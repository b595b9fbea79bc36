"""The driver of streams is killed (SIGKILL) at random moments; afterwards the sinks hold what the source says.

Each kind of sink has a stream of its own. The streams run in one driver, so that a kill ends them all, each at another
point. What is left then is done in this process. There is one kill, of two kinds by default and of the others in
`make test-all`. `make soak` (BRIDGE_SOAK=1) has all kinds at once and kills twenty times (BRIDGE_KILLS=… for another
number, and none after BRIDGE_KILLS_MINUTES=…).
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.changes import POISON, Changes, change_of
from tests.support.processes import Job
from tests.support.streams import letters, lines, received, send
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.io.message_files import LineWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

SOAK = bool(os.environ.get("BRIDGE_SOAK"))
ROUNDS = int(os.environ.get("BRIDGE_KILLS", "20")) if SOAK else 1
MINUTES = float(os.environ.get("BRIDGE_KILLS_MINUTES", "inf"))
LOT, AGAIN = (60, 12) if SOAK else (30, 6)
KINDS = ("dedupe", "merge")
OTHERS = ("resolved", "deltalake", "folder", "delta", "kafka")
_MORE = {
    "dedupe": ["--dedupe"], "resolved": ["--until-resolved"], "merge": ["--table", "shop.orders"],
    "deltalake": ["--table", "shop.orders", "--engine", "deltalake"],
}  # fmt: skip
_MERGES = ("merge", "deltalake")


@dataclass
class Streams:
    """The streams, one of each kind, of one source; and how the kills met them."""

    kafka: Kafka
    folder: Path
    source: str
    targets: dict[str, str]
    changes: Changes
    kinds: tuple[str, ...]
    kills: int = 0
    midst: Counter[str] = field(default_factory=Counter)

    def words(self, kind: str, trigger: str) -> list[str]:
        out = f"kafka:{self.targets[kind]}" if kind in self.targets else str(self.folder / kind / "out")
        return [
            "merge" if kind in _MERGES else "decode", "--format", "open", "--ddl", str(self.folder / "ddl.jsonl"),
            "--bootstrap-servers", self.kafka.bootstrap_servers, "--in", f"kafka:{self.source}", "--out",
            f"delta:{out}" if kind in ("delta", *_MERGES) else out, "--dead-letter", str(self.folder / kind / "dead"),
            "--stream", "--checkpoint", str(self.folder / kind / "checkpoint"), "--trigger", trigger,
            "--max-per-batch", str(LOT // 2 if trigger != "now" else 4 * LOT), *_MORE.get(kind, []),
        ]  # fmt: skip

    def started(self) -> Job:
        send(self.kafka, self.source, self.changes.lot(LOT))
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps([self.words(kind, "1s") for kind in self.kinds]))
        return Job([str(plan)], self.folder, [sys.executable, "-m", "tests.support.many_jobs"])

    def numbers(self, kind: str, what: str) -> set[int]:
        """The micro-batches of a stream that have begun (`offsets`) or ended (`commits`)."""
        found = (self.folder / kind / "checkpoint" / "spark" / what).glob("*")
        return {int(p.name) for p in found if p.name.isdigit()}

    def killed_once(self, chance: random.Random) -> None:
        """A run that is killed: while it starts, or some time after a first micro-batch has begun."""
        before = {kind: self.numbers(kind, "offsets") for kind in self.kinds}
        with self.started() as job:
            if self.kills == 0 or chance.random() < 0.9:
                begun = partial(self._has_begun, before)
                job.until(begun, "a micro-batch begins", 900)
                time.sleep(chance.uniform(0, 12.0 if SOAK else 2.0))
            else:
                time.sleep(chance.uniform(0, 15.0 if SOAK else 8.0))
            assert not job.ended, job.log[-3000:]
        self.kills += 1
        self.midst.update(k for k in self.kinds if self.numbers(k, "offsets") - self.numbers(k, "commits"))

    def _has_begun(self, before: dict[str, set[int]]) -> bool:
        return any(self.numbers(kind, "offsets") - before[kind] for kind in self.kinds)

    def to_the_end(self) -> None:
        send(self.kafka, self.source, self.changes.lot(LOT))
        for kind in self.kinds:
            assert main(self.words(kind, "now")) == 1, kind  # 1: the poison messages


@pytest.fixture
def streams(request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path) -> Streams:
    changes = Changes(again=AGAIN, poison=2, seed=f"kills{ROUNDS}")
    changes.ddl(tmp_path / "ddl.jsonl")
    targets = {kind: kafka.create_topic() for kind in ("kafka", "dedupe")}
    return Streams(kafka, tmp_path, kafka.create_topic(partitions=2), targets, changes, request.param)


_AT_ONCE = [KINDS + OTHERS] if SOAK else [KINDS, OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("streams", _AT_ONCE, ids=", ".join, indirect=True)
@pytest.mark.timeout(0 if SOAK else 1800)
def test_a_killed_driver_loses_nothing_and_writes_nothing_twice(streams: Streams, spark: SparkSession) -> None:
    chance = random.Random(os.environ.get("BRIDGE_KILLS_SEED", f"{ROUNDS}"))
    end = time.monotonic() + MINUTES * 60
    while streams.kills < ROUNDS and time.monotonic() < end:
        streams.killed_once(chance)
    streams.to_the_end()
    changes = streams.changes
    print(f"\n{streams.kills} kills, {len(changes.made)} changes ({len(changes.sent)} with repeats)")
    for kind in streams.kinds:
        print(f"{kind}: {streams.midst[kind]} kills in a micro-batch, {len(streams.numbers(kind, 'commits'))} of these")
        _poison_is_whole(streams.folder / kind / "dead", changes.poisoned)
    if "dedupe" in streams.kinds:
        assert Counter(_rows(_written(streams, "dedupe"))) == Counter(changes.made)
    if "resolved" in streams.kinds:
        resolved = _rows(lines(streams.folder / "resolved" / "out"))
        assert [row[0] for row in resolved] == sorted(row[0] for row in resolved)
        assert Counter(resolved) == Counter(changes.sent)
    for kind in _MERGES:
        if kind in streams.kinds:
            merged = spark.read.format("delta").load(str(streams.folder / kind / "out")).collect()
            assert {row["id"]: str(row["total"]) for row in merged} == changes.table
            assert len(merged) == len(changes.table)
    if "folder" in streams.kinds:
        assert Counter(_rows(lines(streams.folder / "folder" / "out"))) == Counter(changes.sent)
    if "delta" in streams.kinds:
        delta = spark.read.format("delta").load(str(streams.folder / "delta" / "out")).collect()
        assert Counter(_rows(row.asDict(recursive=True) for row in delta)) == Counter(changes.sent)
    if "kafka" in streams.kinds:
        assert Counter(_rows(_written(streams, "kafka"))) == Counter(changes.sent)


def _poison_is_whole(folder: Path, count: int) -> None:
    """Each poison message is in the dead letters once, byte for byte."""
    found = letters(folder)
    assert {(m.key, m.value, m.headers[:2]) for m in found} == {(POISON.key, POISON.value, POISON.headers)}
    origins = Counter(dict(m.headers)["bridge.origin"] for m in found)
    assert set(origins.values()) == {1}
    assert len(origins) == count


def _rows(found: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [change_of(line) for line in found if line["kind"] == "row"]


def _written(streams: Streams, kind: str) -> Iterable[dict[str, Any]]:
    """The lines in a topic, where what was written twice shows; each id once, and always the same line."""
    by_id: dict[bytes | None, bytes | None] = {}
    found = received(streams.kafka, streams.targets[kind])
    for message in found:
        assert by_id.setdefault(dict(message.headers)["bridge.id"], message.value) == message.value
    print(f"{kind}: {len(found)} messages in the topic, {len(by_id)} ids")
    return [json.loads(value or b"") for value in by_id.values()]


def test_a_file_of_a_batch_is_whole_or_not_there(tmp_path: Path) -> None:
    writer = LineWriter(tmp_path / "000000000000.jsonl")
    writer.write_text("{}")
    assert list(tmp_path.glob("*.jsonl")) == []
    writer.close()
    assert [p.name for p in tmp_path.glob("*.jsonl")] == ["000000000000.jsonl"]
