"""`merge` of Debezium's null values around a TRUNCATE: any part of a key's messages is read again, in any batches.

One table has a key for each way to read one, so that Spark plans few jobs.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import BASE, T0
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_SECOND = 1000 << 18
_LOGS = ("Ab.N", "Ab.No.P", "Ab.Cd.N", "AbN", "Ab.No.")
"""A large letter inserts a row, a small one deletes it, "." is the null value after that. TRUNCATE comes before N."""
_TRUNCATE_TS = BASE + (ord("N") - 64) * _SECOND - 1
_DDL = ((1, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"), (_TRUNCATE_TS, "TRUNCATE TABLE orders"))


class _Reading(NamedTuple):
    """How one key's messages are read: the first run ends at `end`, the second one has the rest, and the third reads
    a part again. lag: seconds from a commit to its message.
    """

    log: str
    end: int
    first: int
    last: int
    lag: int

    @property
    def name(self) -> str | None:
        step = self.log.rstrip(".")[-1]
        return None if step.islower() else step

    def runs(self, key: int) -> tuple[list[Message], list[Message], list[Message]]:
        made = [self._message(key, step, n) for n, step in enumerate(self.log)]
        return made[: self.end], made[self.end :], made[self.first : self.last]

    def _message(self, key: int, step: str, number: int) -> Message:
        """As Debezium's connector for TiDB has it, which knows a commit_ts."""
        at = ord((step if step != "." else self.log[number - 1]).upper()) - 64
        row, value = {"id": key, "name": step}, None
        if step != ".":
            source = {
                "connector": "tidb", "ts_ms": T0, "db": "shop", "table": "orders", "commit_ts": BASE + at * _SECOND,
            }  # fmt: skip
            images = (row, None, "d") if step.islower() else (None, row, "c")
            value = json.dumps({**dict(zip(("before", "after", "op"), images, strict=True)), "source": source}).encode()
        fields = [{"field": "id", "type": "int32", "optional": False}]
        schema = {"type": "struct", "name": "s.shop.orders.Key", "optional": False, "fields": fields}
        data = json.dumps({"schema": schema, "payload": {"id": key}}).encode()
        time = T0 + 1000 * (at + self.lag) + number
        return Message(data, value, "s.shop.orders", 0, 100 * key + number, time)


def _readings() -> Iterator[_Reading]:
    for log in _LOGS:
        for end in range(len(log) + 1):
            for first, last in combinations(range(len(log) + 1), 2):
                yield _Reading(log, end, first, last, 1 if (end + first + last) % 2 else 100)


@pytest.mark.slow
@pytest.mark.parametrize("known", [0, 1], ids=["at first", "later"])
def test_null_values_around_a_truncate(spark: SparkSession, known: int) -> None:
    """A null value of a delete from before it takes no row of after it. known: the run from which the DDL has it."""
    readings = list(_readings())
    by_key = [reading.runs(key) for key, reading in enumerate(readings)]
    argv = ["merge", "--table", "shop.orders", "--format", "debezium-tidb", "--ddl", "ddl.jsonl", "--out", "delta:lake"]
    argv += ["--versions", "delta:v", "--engine", "deltalake", "--on-error", "fail"]
    for run in range(3):
        statements = [{"commit_ts": ts, "db": "shop", "query": text} for ts, text in _DDL[: 1 + (run >= known)]]
        Path("ddl.jsonl").write_text("".join(json.dumps(statement) + "\n" for statement in statements))
        messages = [message for runs in by_key for message in runs[run]]
        assert main([*argv, "--in", written(messages, f"{run}.jsonl")]) == 0
    expected = {key: reading.name for key, reading in enumerate(readings) if reading.name is not None}
    for path in ("lake", "v"):
        existing = {row["id"]: row["name"] for row in rows(spark, path) if path == "lake" or row["_valid_to"] is None}
        wrong = [reading for key, reading in enumerate(readings) if existing.get(key) != expected.get(key)]
        assert not wrong, f"{path}: {len(wrong)} of {len(readings)} keys, such as {wrong[:5]}"
