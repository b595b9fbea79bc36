"""`merge` of deletes without a commit_ts (Avro) in random deliveries: thousands of keys in one merge, each with a
history of its own. A changefeed restarts, a key moves to another partition, a reader is behind, or reads parts again.

BRIDGE_SOAK=N: N rounds; BRIDGE_SEED: of other histories.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import BASE, T0, Place, avro_message, write_avro_schemas
from tests.spark_jobs.lake.test_random_histories import take_as_many
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


ROUNDS = int(os.environ.get("BRIDGE_SOAK", "1"))
SEED = os.environ.get("BRIDGE_SEED", "1")
_KEYS, _RUNS, _PARTITIONS = 1000, 3, 3
_SECOND = 1000 << 18


@dataclass
class KeyHistory:
    """Changes of one key: the commit_ts of each, and whether it is a delete; how they come to a reader."""

    key: int
    seed: str
    changes: list[tuple[int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.key}")
        commit_ts, exists = BASE, False
        for _ in range(self._random.randint(1, 7)):
            commit_ts += self._random.randint(1, 3) * _SECOND
            is_delete = exists and self._random.random() < 0.6
            self.changes.append((commit_ts, is_delete))
            exists = not is_delete

    @property
    def name(self) -> str | None:
        """Of the row at the end; None: it was deleted."""
        commit_ts, is_delete = self.changes[-1]
        return None if is_delete else str(commit_ts)

    def sent(self, moves_at: int) -> Iterator[tuple[int, bool]]:
        """Numbers of changes as a changefeed sends them, and whether the key is in its new partition, from `moves_at`
        on. It restarts, there too, but not back over it; it repeats a row, not of a key that moves, nor the last one of
        a key that was deleted again: that looks like one that came back.
        """
        number, last, least, restarts, has_moved = 0, 0, 0, 2, False
        while number < len(self.changes):
            yield number, has_moved
            number += 1
            last = max(last, number)
            inserts = [n for n in range(number) if not self.changes[n][1]]
            deletes = number - len(inserts)
            is_plain = moves_at < 0 and not (deletes > 1 and self.changes[number - 1][1])
            if is_plain and self._random.random() < 0.1:
                yield self._random.choice(inserts), has_moved
            moves = number == last == moves_at and not has_moved
            if restarts and self._random.random() < (0.5 if moves else 0.2):
                restarts -= 1
                number = max(least, number - self._random.randint(1, 5))
            if moves:
                has_moved, least = True, number

    def logs(self) -> list[list[Message]]:
        """By partition; the key moves from one to another."""
        logs = list[list[Message]]([] for _ in range(_PARTITIONS))
        old, new = self._random.randrange(_PARTITIONS), self._random.randrange(_PARTITIONS)
        moves_at = self._random.randint(1, len(self.changes)) if old != new else -1
        now = 0
        for number, has_moved in self.sent(moves_at):
            commit_ts, is_delete = self.changes[number]
            partition = new if has_moved else old
            now = max(now + 1, (commit_ts >> 18) + 20)
            location = Place(partition, 1000 * self.key + len(logs[partition]), now)
            logs[partition].append(avro_message(self.key, None if is_delete else commit_ts, str(commit_ts), location))
        return logs

    def runs(self) -> Iterator[list[Message]]:
        """What the reader has in each run; every other one reads parts again."""
        logs = self.logs()
        ends = [[*sorted(self._random.randint(0, len(log)) for _ in range(_RUNS - 1)), len(log)] for log in logs]
        begun = [0] * len(logs)
        for number in range(_RUNS):
            run = list[Message]()
            for partition, log in enumerate(logs):
                end = ends[partition][number]
                first = self._random.randint(0, begun[partition]) if self._random.random() < 0.3 else begun[partition]
                run += log[first:end]
                begun[partition] = end
            yield run
            again = [sorted(self._random.randint(0, end) for _ in "ab") for end in begun]
            is_again = self._random.random() < 0.5
            yield [m for log, (first, last) in zip(logs, again, strict=True) for m in log[first:last] if is_again]


def describe(history: KeyHistory) -> str:
    """The changes and the runs, as letters."""
    names = {ts: chr(ord("A") + n) for n, (ts, is_delete) in enumerate(history.changes) if not is_delete}
    runs = [[_letter(m, names) for m in run] for run in KeyHistory(history.key, history.seed).runs()]
    whole = "".join("-" if is_delete else names[ts] for ts, is_delete in history.changes)
    return f"{history.key}: {whole}: " + " | ".join(" ".join(run) for run in runs)


def _letter(m: Message, names: dict[int, str]) -> str:
    letter = "-" if m.value is None else next(n for ts, n in names.items() if str(ts).encode() in m.value)
    return f"{m.partition}:{(m.offset or 0) % 1000}:{letter}@{(m.timestamp or 0) - T0}"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_rows_after_any_delivery_of_deletes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    take_as_many(monkeypatch, f"{SEED}/{number}")
    histories = [KeyHistory(key, f"{SEED}/{number}") for key in range(_KEYS)]
    runs = defaultdict[int, list[Message]](list)
    for history in histories:
        for run, messages in enumerate(history.runs()):
            runs[run] += messages
    argv = ["merge", "--table", "shop.orders", "--out", "delta:lake", "--versions", "delta:versions", "--engine"]
    argv += ["deltalake", "--format", "avro", "--schemas", write_avro_schemas()]
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))  # as Kafka gives them
        assert main([*argv, "--in", written(messages, f"{run}.jsonl")]) == 0
    known = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = [describe(entry) for entry in histories if known.get(entry.key) != entry.name]
    assert not wrong, f"{len(wrong)} keys, such as " + "\n".join(wrong[:8])
    open_rows = {row["id"]: row["name"] for row in rows(spark, "versions") if row["_valid_to"] is None}
    other = [describe(entry) for entry in histories if open_rows.get(entry.key) != entry.name]
    assert not other, f"versions of {len(other)} keys, such as " + "\n".join(other[:8])
