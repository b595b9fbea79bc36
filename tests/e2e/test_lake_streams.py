"""A stream of several tables into current tables, changelogs and row versions, killed (SIGKILL) at random moments: then
each of the three is what the changes say. A table comes in mid-stream, in a topic of its own.

BRIDGE_KILLS=N: N kills. BRIDGE_KILLS_SEED: at other moments.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.support.changes import Changes
from tests.support.lake_readers import hadoop_metadata, iceberg_by_pyiceberg
from tests.support.processes import Job
from tests.support.streams import send
from ticdc_bridge.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

KILLS = int(os.environ.get("BRIDGE_KILLS", "2"))
LOT = 24
KINDS = {"--out": "now", "--changelog": "changes", "--versions": "past"}
_CATALOG = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}


@pytest.mark.slow
@pytest.mark.timeout(0 if "BRIDGE_KILLS" in os.environ else 1500)
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_three_tables_of_each_table_after_kills(
    table_format: str, spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance, prefix = random.Random(os.environ.get("BRIDGE_KILLS_SEED", "1")), kafka.topic_name("lake")
    tables = {name: Changes(again=4, seed=name, name=name) for name in ("orders", "items", "later")}
    topics = {"orders": f"{prefix}_a", "items": f"{prefix}_a", "later": f"{prefix}_b"}
    Path("ddl.jsonl").write_text("".join(made.ddl(tmp_path / "one").read_text() for made in tables.values()))
    kafka.create_topic(topics["orders"], 2)
    argv = _argv(table_format, kafka.bootstrap_servers, prefix)
    conf = list[str]()
    if table_format == "iceberg":
        for name, value in {**_CATALOG, ".warehouse": str(tmp_path / "warehouse")}.items():
            spark.conf.set(f"spark.sql.catalog.killed{name}", value)
            conf += ["--conf", f"spark.sql.catalog.killed{name}={value}"]
    for number in range(KILLS + 1):
        if number == 1 or not KILLS:
            kafka.create_topic(topics["later"], 2)
        for name, changes in tables.items():
            if name != "later" or number or not KILLS:
                send(kafka, topics[name], changes.lot(LOT if table_format == "delta" else LOT // 2))
        if number < KILLS:
            with Job([*argv, "--trigger", "1s", *conf], tmp_path) as job:
                before = _batches("offsets")
                job.until(partial(_have_begun, before), "a micro-batch begins", 300)
                time.sleep(chance.uniform(0, 12))
                assert not job.ended, job.log[-3000:]
            print(f"kill {number}: batches {sorted(_batches('offsets') - _batches('commits'))} were at work")
    assert main([*argv, "--trigger", "now"]) == 0
    for name, changes in tables.items():
        _check(name, changes, table_format)


def _argv(table_format: str, servers: str, prefix: str) -> list[str]:
    rule = {"delta": "delta:{}/{{schema}}/{{table}}", "iceberg": "iceberg:killed.{}.{{schema}}.{{table}}"}[table_format]
    return [
        "merge", "--format", "open", "--ddl", "ddl.jsonl", "--bootstrap-servers", servers, "--topics", f"{prefix}_.*",
        "--tables", "shop.*", "--stream", "--checkpoint", "checkpoint", "--max-per-batch", str(LOT),
        *(word for option, kind in KINDS.items() for word in (option, rule.format(kind))),
        *(["--engine", "deltalake"] if table_format == "delta" else []),
    ]  # fmt: skip


def _batches(what: str) -> set[int]:
    return {int(p.name) for p in Path("checkpoint", "spark", what).glob("*") if p.name.isdigit()}


def _have_begun(before: set[int]) -> bool:
    return bool(_batches("offsets") - before)


def _rows(kind: str, name: str, table_format: str) -> list[dict[str, Any]]:
    if table_format == "delta":
        return DeltaTable(f"{kind}/shop/{name}").to_pyarrow_table().to_pylist()
    return list(iceberg_by_pyiceberg(hadoop_metadata(Path("warehouse", kind, "shop", name))))


def _check(name: str, changes: Changes, table_format: str) -> None:
    current = [(row["id"], _text(row["total"])) for row in _rows("now", name, table_format)]
    assert sorted(current) == sorted(changes.table.items())
    log = Counter(
        (row["_tidb_commit_ts"], row["_tidb_op"], row["id"], None if row["_tidb_op"] == "D" else _text(row["total"]))
        for row in _rows("changes", name, table_format)
    )
    assert log == Counter((ts, {"c": "I", "u": "U", "d": "D"}[op], id_, total) for ts, op, id_, total in changes.made)
    past = [
        (row["id"], row["_valid_from_ts"], row["_valid_to_ts"], _text(row["total"]))
        for row in _rows("past", name, table_format)
    ]
    assert sorted(past, key=str) == sorted(_versions(changes), key=str)


def _versions(changes: Changes) -> Iterator[tuple[int, int, int | None, str | None]]:
    by_id = defaultdict[int, list[tuple[int, str | None]]](list)
    for ts, _, id_, total in changes.made:
        by_id[id_].append((ts, total))
    for id_, some in by_id.items():
        for (ts, total), (to_ts, _) in zip(some, [*some[1:], (None, None)], strict=True):
            if total is not None:
                yield id_, ts, to_ts, total


def _text(value: object) -> str | None:
    return None if value is None else str(value)
