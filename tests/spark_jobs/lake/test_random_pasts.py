"""Changelogs and row versions of random histories: messages come again, are read in pieces, jobs are killed; then the
changelog replays to TiDB's table, and the versions of any commit_ts are the rows of then. BRIDGE_SOAK=N: N rounds.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_random_histories import (
    _iceberg_name,
    _Killed,
    _Kills,
    _location,
    _write_ddl,
    _write_schemas,
    kills,
    take_as_many,
)
from tests.support.lake_histories import Delivery, History, comparable
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kills"]  # a fixture
ROUNDS = int(os.environ.get("BRIDGE_SOAK", "3"))
SEED = os.environ.get("BRIDGE_SEED", "1")
CASES = (
    ("open", "deltalake"), ("debezium", "delta-spark"), ("canal-json", "deltalake"), ("debezium-mysql", "delta-spark"),
    ("craft", "deltalake"), ("debezium-avro", "delta-spark"), ("open-tiflow", "deltalake"), ("avro", "iceberg-spark"),
    ("debezium", "iceberg-spark"), ("avro", "deltalake"), ("craft", "iceberg-spark"), ("debezium-tidb", "delta-spark"),
    ("canal-json", "iceberg-spark"), ("avro", "delta-spark"),
)  # fmt: skip
_BATCHES = 3
Rows = dict[str, dict[str, Any]]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_past_is_tidbs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kills: _Kills, number: int) -> None:
    format_, engine = CASES[number % len(CASES)]
    is_avro, with_ddl = format_ == "avro", number % 4 != 2
    seed = f"{SEED}/past/{number}"
    take_as_many(monkeypatch, seed)
    history = History(
        seed, is_avro or number % 2 == 0, schema=with_ddl, swaps=True, keys=12, steps=60, partitions=number % 3 == 1
    )
    positions = {name: _location(spark, engine, name) for name in ("log", "versions")}
    assert not _merge(history, format_, engine, kills, positions)
    log, versions = (rows_of_any(spark, name, engine) for name in positions)
    assert not log_difference(history, log, is_avro)
    assert not versions_difference(history, versions, is_avro, with_ddl)
    print("kills", kills.count, kills.of)


def _merge(history: History, format_: str, engine: str, kills: _Kills, positions: dict[str, str]) -> str:
    """Merges the history in pieces; what went wrong."""
    encoded, argv = _write_schemas(format_, history)
    argv += ["--changelog", positions["log"], "--versions", positions["versions"], "--engine", engine]
    chance = random.Random(f"{history.seed} kills")
    for number, (batch, newest) in enumerate(
        Delivery(history, encoded, format_ == "avro", past=True).batches(_BATCHES)
    ):
        ddl = _write_ddl([s for s in history.statements if s[0] <= newest or number >= _BATCHES - 1], "ddl.jsonl")
        run = [*argv, "--in", written(batch, f"{number}.jsonl"), "--ddl", ddl]
        kills.left = chance.randint(1, 14)
        try:
            code = main(run)
        except _Killed:
            kills.left = -1
            code = main(run)
        kills.left = -1
        if code:
            return f"exit code {code}"
    return ""


def rows_of_any(spark: SparkSession, name: str, engine: str) -> list[dict[str, Any]]:
    if engine != "iceberg-spark":
        return rows(spark, name)
    return [entry.asDict() for entry in spark.table(_iceberg_name(name)).collect()]


def log_difference(history: History, log: list[dict[str, Any]], is_avro: bool, since: int = 0) -> str:
    """How the table that a changelog replays to is not TiDB's. since: the commit_ts from which on it has all rows."""
    columns, expected = ["id", *history.columns], history.table()
    changes = [entry["_change"] for entry in log]
    if len(changes) != len(set(changes)):
        return "a change is in the changelog twice"
    if is_avro:  # a delete that comes again is there twice
        return ""
    if (existing := _replay(log, history, columns, since)) != expected:
        return f"the changelog replays to another table: {_first(existing, expected)}"
    return ""


def versions_difference(
    history: History, versions: list[dict[str, Any]], is_avro: bool, with_ddl: bool, since: int = 0
) -> str:
    """since: the commit_ts from which on the versions are known."""
    columns, expected = ["id", *history.columns], history.table()
    current = {str(entry["id"]): _row(entry, columns) for entry in versions if entry["_valid_to"] is None}
    if current != expected:
        return f"the open versions are another table: {_first(current, expected)}"
    bare = {(entry["id"], entry["_valid_from_ts"]) for entry in versions if entry["_valid_to_message"] is not None}
    for at, existing in ((at, state) for at, state in _states(history).items() if at >= since):
        # Where a reader is behind in the old partition of a key, versions of Avro's rows may end too late.
        then = {id_: row for id_, row in existing.items() if not (is_avro and Delivery.moves(id_))}
        newest = dict[str, dict[str, Any]]()
        for version in sorted(versions, key=lambda entry: int(entry["_valid_from_ts"])):
            if version["_valid_from_ts"] <= at and (version["_valid_to_ts"] is None or version["_valid_to_ts"] > at):
                newest[str(version["id"])] = version
        # Of a version that a delete without a commit_ts ended, TiDB had the row up to some time.
        gone = {
            id_ for id_, value in newest.items() if (value["id"], value["_valid_from_ts"]) in bare and id_ not in then
        }
        live = {
            id_: value for id_, value in newest.items() if id_ not in gone and not (is_avro and Delivery.moves(id_))
        }
        if live.keys() != then.keys():
            return f"keys at {at}: {sorted(live)}, TiDB had {sorted(then)}"
        if not with_ddl and (made := {id_: _row(value, columns) for id_, value in live.items()}) != then:
            return f"rows at {at}: {_first(made, then)}"
    return ""


def _replay(log: list[dict[str, Any]], history: History, columns: list[str], since: int) -> Rows:
    table, order = Rows(), "_tidb_commit_ts"
    by_time = sorted((entry for entry in log if entry[order] is not None), key=lambda entry: int(entry[order]))
    for commit_ts, together in groupby(by_time, key=lambda entry: int(entry[order])):
        changes = list(together)
        if any(entry["_tidb_op"].startswith(("TRUNCATE", "DROP")) for entry in changes):
            for id_ in history.gone[commit_ts]:
                assert id_ in table or commit_ts <= since, f"{id_}, deleted at {commit_ts}, is not in the changelog"
                table.pop(id_, None)
        for change in changes:
            old = change["_tidb_old_row_identity"]
            if old is not None:
                table.pop(json.loads(old)[0], None)
        for change in changes:
            if change["_tidb_op"] in ("I", "U", "R"):
                table[json.loads(change["_tidb_row_identity"])[0]] = _row(change, columns)
    return table


def _states(history: History) -> dict[int, Rows]:
    """The table after each commit."""
    states, table = dict[int, Rows](), Rows()
    steps = defaultdict[int, list[Any]](list)
    for change in history.changes:
        steps[change.commit_ts].append(change)
    for commit_ts in history.gone:
        steps[commit_ts] = []
    for commit_ts, changes in sorted(steps.items()):
        for id_ in history.gone.get(commit_ts, ()):
            del table[id_]
        for change in changes:
            if change.before is not None:
                table.pop(str(change.before["id"]), None)
        for change in changes:
            if change.after is not None:
                table[str(change.after["id"])] = {n: comparable(v) for n, v in change.after.items()}
        states[commit_ts] = dict(table)
    return states


def _row(entry: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    return {name: comparable(entry[name]) for name in columns}


def _first(existing: Rows, expected: Rows) -> str:
    keys = sorted(k for k in {*existing, *expected} if existing.get(k) != expected.get(k))
    return f"{len(keys)} keys differ, such as {keys[0]}: {existing.get(keys[0])}, TiDB has {expected.get(keys[0])}"
