"""`merge` of two tables of which one gets the name that the other had, from Avro: its deletes tell a name alone.

Topics are read to any place, the rest then, and parts again. BRIDGE_SOAK=N: N rounds; BRIDGE_SEED: of other histories.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import BASE, Place, avro_message, write_avro_schemas
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROUNDS, SEED = int(os.environ.get("BRIDGE_SOAK", "2")), os.environ.get("BRIDGE_SEED", "1")
_SECOND = 1000 << 18
_RENAME_TS = BASE + 100 * _SECOND
_NAMES = ("orders", "sales", "fresh")
_BEFORE, _AFTER = ("", "A", "AB", "A-", "A-B"), ("", "N", "-", "N-", "N-P", "-N")
"""Steps of one row: it is there from a time on, or is deleted."""
_PLACES = {"shop.sales": "orders", "shop.orders": "fresh"}
"""What the tables are called in the end, and at first, as their places are."""
_ALONE = [["--table", table] for table in _PLACES]
_DDL = {
    "two names": ["CREATE TABLE fresh LIKE orders", "RENAME TABLE orders TO sales, fresh TO orders"],
    "a new table": ["RENAME TABLE orders TO sales", "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)"],
}


class _Case(NamedTuple):
    """Steps of a key in the table `orders`, which is `sales` then, and in `fresh`, which is `orders` then."""

    sales_before: str
    sales: str
    orders_before: str
    orders: str

    @property
    def by_topic(self) -> Iterator[tuple[str, int, str]]:
        """(table's name, the second after which its steps come, steps)"""
        yield from (("orders", 0, self.sales_before), ("sales", 101, self.sales))
        yield from (("fresh", 0, self.orders_before), ("orders", 101, self.orders))

    def is_one(self, names: str) -> bool:
        """True if only rows that are there are deleted, and a new table has none before it is made."""
        pairs = ((self.sales_before, self.sales), (self.orders_before, self.orders))
        return all(_last(old) or new[:1] != "-" for old, new in pairs) and not (names != "two names" and pairs[1][0])


def _last(steps: str) -> str | None:
    """The row's name after them."""
    return None if steps[-1:] in ("", "-") else steps[-1]


def _write_files(names: str) -> None:
    lines = [json.loads(line) for line in Path(write_avro_schemas()).read_text().splitlines()]
    schemas = [
        {**one, "id": one["id"] + 2 * n, **{part: one[part].replace("orders", name) for part in ("subject", "schema")}}
        for n, name in enumerate(_NAMES) for one in lines
    ]  # fmt: skip
    Path("schemas.jsonl").write_text("".join(json.dumps(one) + "\n" for one in schemas))
    first, last = _DDL[names]
    texts = [(1, "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)"), (_RENAME_TS - 1, first), (_RENAME_TS, last)]
    if names == "two names":
        texts[1] = (2, first)
    ddl = [json.dumps({"commit_ts": ts, "db": "shop", "query": text}) + "\n" for ts, text in texts]
    Path("ddl.jsonl").write_text("".join(ddl))


def _logs(cases: list[_Case], lag: int, chance: random.Random) -> list[list[Message]]:
    """By topic and partition, in the order of the commits; a key is in one partition. lag: of all, in ms."""
    sent = list[tuple[int, Message]]()
    for key, case in enumerate(cases):
        for name, at, steps in case.by_topic:
            for step in steps:
                at += chance.randint(1, 20)
                ts = BASE + at * _SECOND + (key << 18)
                made = avro_message(key, None if step == "-" else ts, step, Place(key % 2, 0, (ts >> 18) + lag))
                sent.append((ts, _of_table(made, name)))
    logs = defaultdict[tuple[str, int | None], list[Message]](list)
    for _, message in sorted(sent, key=lambda entry: entry[0]):
        log = logs[str(message.topic), message.partition]
        log.append(replace(message, offset=len(log)))
    return list(logs.values())


def _of_table(message: Message, name: str) -> Message:
    """With the ids of the table's schemas."""
    id_, key, value = 1 + 2 * _NAMES.index(name), message.key or b"", message.value
    value = value and value[:4] + bytes([id_ + 1]) + value[5:]
    return replace(message, topic=name, key=key[:4] + bytes([id_]) + key[5:], value=value)


@pytest.mark.slow
@pytest.mark.parametrize("names", _DDL)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_deletes_of_a_name_that_two_tables_had(spark: SparkSession, names: str, number: int) -> None:
    _write_files(names)
    chance = random.Random(f"{SEED}/{names}/{number}")
    every = [case for case in map(_Case._make, product(_BEFORE, _AFTER, _BEFORE, _AFTER)) if case.is_one(names)]
    cases = chance.sample(every, min(200, len(every)))
    lag = chance.choice([5, 5_000, 500_000])
    logs = _logs(cases, lag, chance)
    ends = [chance.randint(0, len(log)) for log in logs]
    if lag == 500_000:  # a table's deletes are in Kafka after its rows of the next topic: none may be behind
        time = chance.choice([int(m.timestamp or 0) for log in logs for m in log])
        ends = [sum(int(m.timestamp or 0) < time for m in log) for log in logs]
    some = [chance.randint(0, len(log)) for log in logs]
    again = [(first, min(len(log), first + chance.randint(9, 200))) for first, log in zip(some, logs, strict=True)]
    rest = [(end, len(log)) for end, log in zip(ends, logs, strict=True)]
    for run in ([(0, end) for end in ends], rest, again):
        messages = [m for log, (first, end) in zip(logs, run, strict=True) for m in log[first:end]]
        for choice in (["--tables", "shop.*"],) if number % 2 and names == "two names" else _ALONE:
            location = "{table}" if choice[0] == "--tables" else _PLACES[choice[1]]
            positions = [f"--{kind}=delta:{location}_{kind}" for kind in ("out", "versions", "changelog")]
            argv = ["merge", *choice, "--format", "avro", "--schemas", "schemas.jsonl", "--ddl", "ddl.jsonl"]
            assert main([*argv, "--engine", "deltalake", *positions, "--in", written(messages)]) == 0
    for table in _PLACES:
        wrong = _differences(spark, table, cases)
        assert not wrong, f"{len(wrong)}, such as " + "\n".join(wrong[:9])


def _differences(spark: SparkSession, table: str, cases: list[_Case]) -> list[str]:
    steps = [
        case.sales_before + case.sales if table == "shop.sales" else case.orders_before + case.orders for case in cases
    ]
    expected = {key: _last(step) for key, step in enumerate(steps)}
    versions = [row for row in rows(spark, f"{_PLACES[table]}_versions") if row["_valid_to"] is None]
    wrong = list[str]()
    for kind, known in (("out", rows(spark, f"{_PLACES[table]}_out")), ("versions", versions)):
        made: dict[int, Any] = {row["id"]: row["name"] for row in known}
        wrong += [
            f"{table}, {kind}: {cases[k]}: {made.get(k)}, not {name}"
            for k, name in expected.items()
            if made.get(k) != name
        ]
    log = defaultdict[int, str](str)
    for row in sorted(rows(spark, f"{_PLACES[table]}_changelog"), key=lambda row: row["_kafka_timestamp"]):
        log[row["id"]] += "-" if row["_tidb_op"] == "D" else row["name"]
    return wrong + [f"{table}, changelog: {cases[k]}: {log[k]}" for k, step in enumerate(steps) if log[k] != step]


@pytest.mark.slow
def test_an_estimate_is_counted(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A delete that was in Kafka after the RENAME, and no row after it: it may be of either table."""
    _write_files("a new table")
    at = [BASE + seconds * _SECOND for seconds in (10, 150)]
    row = avro_message(1, at[0], "A", Place(0, 0, (at[0] >> 18) + 5))
    path = written([row, avro_message(1, None, "-", Place(0, 1, (at[1] >> 18) + 5))])
    argv = ["merge", "--format", "avro", "--schemas", "schemas.jsonl", "--ddl", "ddl.jsonl", "--in", path, "--engine"]
    argv.append("deltalake")
    for chosen in (
        ["--table", "shop.sales", "--out", "delta:sales"],
        ["--tables", "shop.sales", "--out", "delta:{table}"],
    ):
        assert main([*argv, *chosen]) == 0
        assert "merge: flags 1 (table_estimated 1)" in capsys.readouterr().err
    assert rows(spark, "sales") == [{"id": 1, "name": "A"}]
