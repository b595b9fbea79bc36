"""`load` while a stream of `merge` writes the same table: the changefeed began before the snapshot, and goes on."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge_schema_changes import Changes, Ddl, messages
from tests.spark_jobs.lake.test_random_histories import _difference, _iceberg_name, _location, _write_schemas
from tests.spark_jobs.lake.test_random_pasts import rows_of_any
from tests.support.dumps import write_dump
from tests.support.lake_histories import History
from tests.support.processes import Job
from tests.support.streams import send
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.lake import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

STEPS, BEGAN, SNAPSHOTS = 400, 40, (200, 300)
"""Of a history: when the changefeed begins, and when it is dumped."""
CASES = [("delta-spark", "exact"), ("delta-spark", "typed"), ("deltalake", "exact"), ("iceberg-spark", "exact")]


def _dump(history: History, steps: int) -> tuple[int, str]:
    """The TSO of its last commit after so many steps, and a dump of then."""
    h = history
    then = History(h.seed, h.split, h.schema, h.swaps, h.keys, steps)
    tso = max([ts for ts, _ in then.statements] + [c.commit_ts for c in then.changes])
    shown = show_create(versions([DdlText(ts, "d", text) for ts, text in then.statements])[-1].table)
    rows = ({"id": id_, **row}.values() for id_, row in then.rows.items())
    return tso, write_dump(Path(f"dump{steps}"), tso, shown, rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_stream_that_runs(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, case: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Loaded while the stream runs, and again with --replace; one that begins after the snapshot is refused."""
    engine, types = case
    history = History(f"beside {case}", schema=False, keys=60, steps=STEPS)
    encoded, merge = _write_schemas("open", history)
    began, _ = _dump(history, BEGAN)
    sent = [m for c, some in zip(history.changes, encoded, strict=True) if c.commit_ts > began for m in some]
    sent = [Message(m.key, m.value, "t", sum(m.key or b"") % 2) for m in sent]  # a key stays in a partition
    topic, out = kafka.create_topic(partitions=2), _location(spark, engine)
    read = ["--in", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers]
    to = ["--engine", engine, "--types", types, "--out", out, "--ddl", "all.jsonl"]
    load_words = ["load", "--table", "d.t", *to, *read, "--format", "open", "--source"]
    conf = list[str]()
    if engine == "iceberg-spark":
        name = f"spark.sql.catalog.{Path('catalog').read_text()}"
        conf = [w for n in ("", ".type", ".warehouse") for w in ("--conf", f"{name}{n}={spark.conf.get(name + n)}")]
    stream = [*merge, *to, *read, *conf, "--stream", "--checkpoint", "checkpoint", "--max-per-batch", "40"]
    with Job([*stream, "--trigger", "300ms", "--master", "local[1]"], tmp_path) as job:
        send(kafka, topic, sent[:20])
        commits = tmp_path / "checkpoint" / "spark" / "commits"
        job.until(lambda: (commits / "0").exists(), "a batch")

        def send_all() -> None:
            for n in range(20, len(sent), 4):
                send(kafka, topic, sent[n : n + 4])

        sender = Thread(target=send_all)
        sender.start()
        for steps, more in zip(SNAPSHOTS, ([], ["--replace"]), strict=True):
            assert main([*load_words, _dump(history, steps)[1], *more]) == 0, capsys.readouterr().err[-3000:]
        sender.join()
        job.until(lambda: not _difference(spark, history, engine), "the table is TiDB's", 900)
        capsys.readouterr()
        assert main([*load_words, _dump(history, BEGAN // 2)[1]]) == 2
        said = capsys.readouterr().err
        assert "Load a newer snapshot: --at " in said
        assert "cdc cli changefeed create --start-ts=" in said
        assert not _difference(spark, history, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["delta-spark", "iceberg-spark"])
def test_a_snapshot_of_after_a_statement_that_is_not_read_yet(
    spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has its column then, and the changes from before it: they are none of the table's."""
    added, out = (70, "ALTER TABLE t ADD w int"), _location(spark, engine)
    changes: Changes = [
        {"commit_ts": 50, "after": {"id": "1", "v": "1"}},
        {"commit_ts": 120, "after": {"id": "2", "v": "2", "w": "3"}},
    ]
    ddl: Ddl = [(1, "CREATE TABLE t (id int primary key, v int)"), added]
    sent = messages(ddl, changes)
    create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int,\n  `w` int,\n  PRIMARY KEY (`id`)\n)"
    to = ["--table", "d.t", "--engine", engine, "--out", out]
    assert main(["load", "--source", write_dump(Path("dump"), 100, create, [("1", "1", None)]), *to]) == 0
    merge = ["merge", "--format", "open", "--time-zone", "UTC", "--ddl", "ddl", *to, "--in"]
    all_ddl = Path("ddl").read_text()
    Path("ddl").write_text(all_ddl.splitlines()[0] + "\n")
    assert main([*merge, written(sent[:1], "first.jsonl")]) == 0
    assert "skipped before the snapshot 1" in capsys.readouterr().err
    # A changelog takes these changes too, and what the column was for them is not known.
    past = ["--out", _location(spark, engine, "other"), "--changelog", _location(spark, engine, "log")]
    assert main(["load", "--source", "dumpling:dump", *to[:4], *past]) == 0
    assert main([*merge[:7], *to[:4], *past, "--in", "first.jsonl"]) == 2
    assert "follows the table's history up to commit_ts" in capsys.readouterr().err
    Path("ddl").write_text(all_ddl)
    assert main([*merge, written(sent[1:], "second.jsonl")]) == 0
    name = _iceberg_name("lake") if engine == "iceberg-spark" else f"delta.`{Path('lake').absolute()}`"
    assert sorted(tuple(row) for row in spark.table(name).collect()) == [(1, 1, None, 100), (2, 2, 3, 120)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["delta-spark", "deltalake", "iceberg-spark"])
def test_a_column_that_was_dropped_before_the_snapshot(spark: SparkSession, engine: str) -> None:
    """A changelog and row versions get it from the history that merge knows, for changes from before the DROP."""
    ddl: Ddl = [(1, "CREATE TABLE t (id int primary key, v int)"), (70, "ALTER TABLE t DROP v")]
    changes: Changes = [
        {"commit_ts": 50, "after": {"id": "1", "v": "4"}},
        {"commit_ts": 120, "after": {"id": "2"}},
    ]
    sent = messages(ddl, changes)
    past = ["--changelog", _location(spark, engine, "log"), "--versions", _location(spark, engine, "versions")]
    to = ["--table", "d.t", "--engine", engine, "--out", _location(spark, engine), *past]
    create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"
    assert main(["load", "--source", write_dump(Path("dump"), 100, create, [("1",)]), *to]) == 0
    assert main(["merge", "--format", "open", "--ddl", "ddl", *to, "--in", written(sent, "sent.jsonl")]) == 0
    rows = [(r["_tidb_commit_ts"], r["id"], r["v"]) for r in rows_of_any(spark, "log", engine)]
    assert sorted(rows) == [(50, 1, 4), (100, 1, None), (120, 2, None)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["delta-spark", "deltalake", "iceberg-spark"])
@pytest.mark.parametrize("replace", [[], ["--replace"]], ids=["added", "replaced"])
def test_a_snapshot_with_other_names_of_columns(spark: SparkSession, engine: str, replace: list[str]) -> None:
    """Of the key and of others, which the tables that are there do not follow yet."""
    ddl: Ddl = [
        (1, "CREATE TABLE t (id int primary key, v int)"),
        (150, "ALTER TABLE t RENAME COLUMN id TO k"),
        (160, "ALTER TABLE t RENAME COLUMN v TO w, ADD x int DEFAULT 5"),
    ]
    messages(ddl, [])
    out, versions_at = _location(spark, engine), _location(spark, engine, "versions")
    words = ["--table", "d.t", "--engine", engine, "--out", out, "--versions", versions_at]
    create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int,\n  PRIMARY KEY (`id`)\n)"
    assert main(["load", *words, "--source", write_dump(Path("first"), 100, create, [("1", "1"), ("2", "2")])]) == 0
    create = "CREATE TABLE `t` (\n  `k` int NOT NULL,\n  `w` int,\n  `x` int DEFAULT '5',\n  PRIMARY KEY (`k`)\n)"
    dump = write_dump(Path("second"), 200, create, [("1", "1", "5"), ("3", "3", "7")])
    assert main(["load", *words, "--source", dump, "--ddl", "ddl", *replace]) == 0
    name = _iceberg_name("lake") if engine == "iceberg-spark" else f"delta.`{Path('lake').absolute()}`"
    kept = [] if replace else [(2, 2, 5)]
    rows = sorted(tuple(row) for row in spark.table(name).select("k", "w", "x").collect())
    assert rows == sorted([(1, 1, 5), (3, 3, 7), *kept])
    current = [r for r in rows_of_any(spark, "versions", engine) if r["_valid_to_ts"] is None]
    assert sorted((r["k"], r["w"], r["x"]) for r in current) == rows


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["delta-spark", "deltalake", "iceberg-spark"])
def test_changes_of_before_the_snapshot_between_two_commits_of_load(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """A stream inserts a row when the snapshot's are there; its delete, before the TSO too, comes after the load."""
    changes: Changes = [
        {"commit_ts": 50, "after": {"id": "1", "v": "1"}},
        {"commit_ts": 60, "op": "d", "before": {"id": "1", "v": "1"}, "after": None},
    ]
    ddl: Ddl = [(1, "CREATE TABLE t (id int primary key, v int)")]
    sent, real, out = messages(ddl, changes), load.delete_revived, _location(spark, engine)
    merge = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--engine", engine, "--out", out, "--in"]

    def merges_then(*of: Any) -> int:
        assert main([*merge, written(sent[:1], "first.jsonl")]) == 0
        return real(*of)

    monkeypatch.setattr(load, "delete_revived", merges_then)
    create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int DEFAULT NULL,\n  PRIMARY KEY (`id`)\n)"
    words = ["load", "--source", write_dump(Path("dump"), 100, create, [("2", "2")]), "--table", "d.t"]
    assert main([*words, "--engine", engine, "--out", out]) == 0
    assert main([*merge, written(sent[1:], "second.jsonl")]) == 0
    name = _iceberg_name("lake") if engine == "iceberg-spark" else f"delta.`{Path('lake').absolute()}`"
    assert [tuple(row) for row in spark.table(name).collect()] == [(2, 2, 100)]


@pytest.mark.slow
def test_rows_of_other_types_are_no_blind_append(spark: SparkSession) -> None:
    """A merge that began before them has a conflict: it would insert their keys a second time."""
    create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `d` date DEFAULT NULL,\n  PRIMARY KEY (`id`)\n)"
    words = ["load", "--source", write_dump(Path("dump"), 1 << 60, create, [("1", "2026-01-01")]), "--table", "d.t"]
    assert main([*words, "--types", "typed", "--out", "delta:lake"]) == 0
    commits = [path.read_text().splitlines() for path in sorted(Path("lake", "_delta_log").glob("*.json"))]
    actions = [[json.loads(line) for line in lines] for lines in commits if any('"add"' in line for line in lines)]
    assert [a["commitInfo"]["isBlindAppend"] for some in actions for a in some if "commitInfo" in a] == [False]
