"""Batches that go into Delta tables with deletion vectors without Spark's MERGE: the same tables as by Spark's way, for
every reader, also after kills and beside other writers.

BRIDGE_SOAK=N: N rounds of histories; BRIDGE_SEED: of other ones.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.spark_jobs.lake.test_merge_order import write_avro_schemas
from tests.spark_jobs.lake.test_random_deletes import KeyHistory, describe
from tests.spark_jobs.lake.test_random_histories import _Killed, _Kills, _write_ddl, _write_schemas, kills, take_as_many
from tests.support.lake_histories import Delivery, History, comparable
from tests.support.lake_readers import delta_by_duckdb
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions, statements_of
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.arrow.typed_changes import ColumnShape, TableShape, UnusualChanges, typed_changes
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.lake import direct_merge
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import TransactionLog, log_of
from ticdc_bridge.spark_jobs.lake.direct_merge import DirectTable
from ticdc_bridge.spark_jobs.lake.engines.delta_features import FULL
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.table_view import ANY_TABLE, TableView
from ticdc_bridge.spark_jobs.spark.frames import input_of_job
from ticdc_bridge.spark_jobs.streaming.micro_batch import MicroBatchRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kills"]  # a fixture
ROUNDS = int(os.environ.get("BRIDGE_SOAK", "3"))
SEED = os.environ.get("BRIDGE_SEED", "1")
_FORMATS = ("open", "avro", "craft", "canal-json", "open-tiflow", "debezium", "debezium-avro")
_BATCHES = 6
_VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
_COLUMNS = "a INT, b DECIMAL(12,2) UNSIGNED, c VARBINARY(9), d DATETIME, e BIGINT UNSIGNED, f FLOAT, `g h` TEXT"


@pytest.fixture(params=[FULL, pytest.param({_VECTORS: "true"}, marks=pytest.mark.slow)], ids=["full", "vectors"])
def vectors(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """New tables have deletion vectors, with Delta's other features or without. Checkpoints are written, and small
    files joined, after few commits.
    """
    monkeypatch.setattr(direct_merge, "_CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(direct_merge, "_MANY_FILES", 3)
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield
    for name in request.param:
        spark.conf.unset(name)


class _Batches:
    """Changes of a table with a key of two columns, and its rows after them."""

    def __init__(self, number: int = 0) -> None:
        self._random, self._ts = random.Random(f"{SEED}/batches/{number}"), 463_299_738_777_157_634
        Path("ddl.jsonl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": self._create}) + "\n")
        self._encoder = Encoder("open", ddl="ddl.jsonl")
        self.rows = dict[tuple[str, str], dict[str, Any]]()
        self._sent = list[list[Message]]()

    _create = f"CREATE TABLE t (id BIGINT, k VARCHAR(9), {_COLUMNS}, PRIMARY KEY (id, k))"

    def next(self, count: int, again: int = 0) -> str:
        """A file of changes, and `again` messages of earlier ones among them."""
        messages = [self._messages(self._change()) for _ in range(count)]
        repeated = self._random.sample(self._sent, min(again, len(self._sent)))
        self._sent += messages
        together = [*messages, *repeated]
        if again:
            self._random.shuffle(together)
        return written([m for of_change in together for m in of_change], f"{len(self._sent)}.jsonl")

    def _row(self, key: tuple[str, str]) -> dict[str, Any]:
        number = self._random.randrange(1000)
        row = {
            "id": key[0], "k": key[1], "a": str(-number), "b": f"{number}.{number % 100:02}",
            "c": {"hex": f"{number:04x}" * (number % 3)}, "d": f"2026-01-01 00:00:{number % 60:02}",
            "e": str((1 << 63) + number), "f": "1.5", "g h": f"é{number} " + "x" * (number % 50),
        }  # fmt: skip
        return row | ({"a": None, "b": None, "c": None, "d": None, "g h": None} if number % 7 == 0 else {})

    def _change(self) -> dict[str, Any]:
        self._ts += 1 << 18
        key = str(self._random.randrange(60)), self._random.choice("aB é")
        old, op = self.rows.get(key), "c"
        new: dict[str, Any] | None = self._row(key)
        if old is not None:
            op = self._random.choice("uuud")
            other = str(self._random.randrange(60)), "moved"
            if op == "d":
                new = None
            elif self._random.random() < 0.2 and other not in self.rows:
                new = self._row(other)
            del self.rows[key]
        if new is not None:
            self.rows[new["id"], new["k"]] = new
        return {
            "kind": "row", "format": "open", "db": "d", "table": "t", "op": op, "commit_ts": self._ts,
            "key": ["id", "k"], "schema_id": None, "table_version": None, "before": old, "after": new,
            "flags": [], "topic": "t",
        }  # fmt: skip

    def _messages(self, change: dict[str, Any]) -> list[Message]:
        return self._encoder.encode(change)


def _merge(file: str, *more: str) -> int:
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--table", "d.t", "--in", file]
    return main([*argv, "--engine", "delta-spark", *(more or ("--out", "delta:lake"))])


def _comparable(rows: list[dict[str, Any]], only: int | None = None) -> list[dict[str, Any]]:
    made = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
    return sorted(made, key=lambda row: (row["id"], row["k"]))[:only]


def _by_spark(spark: SparkSession, name: str = "lake") -> list[dict[str, Any]]:
    frame = spark.read.format("delta").load(str(Path(name).absolute()))
    return [row.asDict() for row in frame.collect()]


def _others() -> Iterator[list[dict[str, Any]]]:
    yield delta_by_duckdb(Path("lake").absolute())
    table = DeltaTable("lake")
    if "typeWidening" not in (table.protocol().reader_features or ()):
        yield pyarrow.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()).to_pylist()


def test_steady_batches_go_directly(spark: SparkSession, vectors: None, capsys: pytest.CaptureFixture[str]) -> None:
    batches = _Batches()
    assert _merge(batches.next(150)) == 0
    for _ in range(2):
        assert _merge(batches.next(60, again=20)) == 0
        assert "d.t merged directly 1" in capsys.readouterr().err
    rows = _comparable(_by_spark(spark))
    assert [(str(row["id"]), row["k"], row["g h"]) for row in rows] == sorted(
        ((r["id"], r["k"], r["g h"]) for r in batches.rows.values()), key=lambda r: (int(r[0]), r[1])
    )
    for others in _others():
        assert _comparable(others) == rows


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_both_ways_make_the_same_table(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Late and repeated changes, updates of keys; and Spark's OPTIMIZE and DELETE between the batches."""
    batches, chance = _Batches(number), random.Random(f"{SEED}/{number}")
    files = [batches.next(chance.randint(50, 300), again=chance.randint(0, 60)) for _ in range(5)]
    for n, file in enumerate(files):
        assert _merge(file) == 0
        with monkeypatch.context() as patch:
            patch.setattr(direct_merge, "find_spec", lambda _: None)
            assert _merge(file, "--out", "delta:other") == 0
        log_of.cache_clear()  # the log is read again from its last checkpoint
        if n % 2:
            spark.sql(f"OPTIMIZE delta.`{Path('lake').absolute()}`")
        for name in ("lake", "other"):
            spark.sql(f"DELETE FROM delta.`{Path(name).absolute()}` WHERE id = {n}")
    for name in ("", "__tombstones"):
        ours, theirs = (spark.read.format("delta").load(str(Path(n + name).absolute())) for n in ("lake", "other"))
        columns = [f"`{column}`" for column in ours.columns]
        assert ours.select(*columns).distinct().exceptAll(theirs.select(*columns).distinct()).isEmpty()
        assert theirs.select(*columns).distinct().exceptAll(ours.select(*columns).distinct()).isEmpty()
    rows = _comparable(_by_spark(spark))
    for others in _others():
        assert _comparable(others) == rows


def _kill_commits(monkeypatch: pytest.MonkeyPatch, kills: _Kills) -> None:
    """Each file of a commit, and the commit, is a step: before it and after it."""
    for owner, name in ((direct_merge, "write_rows"), (direct_merge, "write_vectors"), (TransactionLog, "commit")):
        real = getattr(owner, name)

        def call(*arguments: Any, _real: Any = real, _name: str = name) -> Any:
            kills.step(_name)
            result = _real(*arguments)
            kills.step(_name)
            return result

        monkeypatch.setattr(owner, name, call)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_histories_in_both_ways(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, kills: _Kills, number: int
) -> None:
    """DDL, TRUNCATE and repeats go Spark's way and others directly, with a kill in each batch."""
    seed, format_ = f"{SEED}/direct/{number}", _FORMATS[number % len(_FORMATS)]
    take_as_many(monkeypatch, seed)
    _kill_commits(monkeypatch, kills)
    is_avro = format_ == "avro"
    history = History(seed, is_avro or number % 2 == 0, schema=number % 3 == 0, swaps=True)
    encoded, argv = _write_schemas(format_, history)
    argv += ["--out", "delta:lake", "--engine", "delta-spark"]
    chance = random.Random(f"{seed} kills")
    for n, (batch, newest) in enumerate(Delivery(history, encoded, is_avro).batches(_BATCHES)):
        statements = [s for s in history.statements if s[0] <= newest or n >= _BATCHES - 1]
        run = [*argv, "--in", written(batch, f"{n}.jsonl"), "--ddl", _write_ddl(statements, "ddl.jsonl")]
        kills.left = chance.randint(1, 14)
        try:
            code = main(run)
        except _Killed:
            kills.left = -1
            code = main(run)
        kills.left = -1
        assert code == 0, f"{seed} {format_}: after {kills.of}"
    expected = history.table()
    known = {
        str(row["id"]): {name: comparable(value) for name, value in row.items() if name != "_commit_ts"}
        for row in _by_spark(spark)
    }
    assert known == expected, f"{seed} {format_}: after {kills.of}"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_deletes_without_a_commit_ts(
    spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch, kills: _Kills, number: int
) -> None:
    """Any delivery of Avro's deletes, with a kill in each batch: only the first ones go by Spark."""
    seed, runs, are_direct = f"{SEED}/untimed/{number}", defaultdict[int, list[Message]](list), list[bool]()
    _kill_commits(monkeypatch, kills)
    histories, chance, real = [KeyHistory(key, seed) for key in range(400)], random.Random(seed), DirectTable.merge

    def merge(table: DirectTable, changes: Any) -> None:
        real(table, changes)
        are_direct.append(changes.remembered is not None)

    monkeypatch.setattr(DirectTable, "merge", merge)
    for history in histories:
        for run, messages in enumerate(history.runs()):
            runs[run] += messages
    argv = ["merge", "--table", "shop.orders", "--out", "delta:lake", "--engine", "delta-spark", "--format", "avro"]
    argv += ["--schemas", write_avro_schemas()]
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))  # as Kafka gives them
        kills.left = chance.randint(1, 8)
        try:
            code = main([*argv, "--in", written(messages, f"{run}.jsonl")])
        except _Killed:
            kills.left = -1
            code = main([*argv, "--in", f"{run}.jsonl"])
        kills.left = -1
        assert code == 0
    known = {row["id"]: row["name"] for row in _by_spark(spark)}
    wrong = [describe(entry) for entry in histories if known.get(entry.key) != entry.name]
    assert not wrong, f"{seed}: {len(wrong)} keys, such as " + "\n".join(wrong[:8])
    assert len(runs) - 2 <= are_direct.count(True) <= len(are_direct)


@pytest.mark.slow
def test_two_writers(spark: SparkSession, vectors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer's commit comes between the reading and the commit; the rows are looked for again."""
    batches = _Batches()
    assert _merge(batches.next(150)) == 0
    real, others = TransactionLog.commit, [1]

    def commit(log: TransactionLog, version: int, actions: Any, files: Any) -> bool:
        if others and log.table.name == "lake":
            others.pop()
            spark.sql(f"OPTIMIZE delta.`{log.table}`")
            spark.sql(f"DELETE FROM delta.`{log.table}` WHERE id = 999999")
            spark.sql(f"INSERT INTO delta.`{log.table}` (id, k, _commit_ts) VALUES (999999, 'other', 1)")
        return real(log, version, actions, files)

    monkeypatch.setattr(TransactionLog, "commit", commit)
    assert _merge(batches.next(60)) == 0
    assert not others
    rows = _comparable(_by_spark(spark))
    assert [(str(row["id"]), row["k"]) for row in rows[:-1]] == sorted(batches.rows, key=lambda k: (int(k[0]), k[1]))
    assert rows[-1]["k"] == "other"
    commits = "".join(path.read_text() for path in Path("lake/_delta_log").glob("*.json"))
    assert not [file.name for file in Path("lake").glob("*.parquet") if file.name not in commits]


@pytest.mark.slow
def test_many_tables_in_one_job(spark: SparkSession, vectors: None) -> None:
    """After the first batch, whose deletes make the tables of deleted keys; rows of a table that is not taken too."""
    query = "CREATE TABLE {} (id INT PRIMARY KEY, a VARCHAR(9))"
    names = [f"t{n}" for n in range(4)]
    lines = [{"commit_ts": n + 1, "db": "d", "query": query.format(name)} for n, name in enumerate(names)]
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    encoder, taken = Encoder("open", ddl="ddl.jsonl"), TableChoice.of(["d.*", "!d.t3"])
    read = CodecConfig("open", FileSchemas([]), Options(), TableDefinitions.read(Path("ddl.jsonl")), chosen=taken)
    job = Job(replace(read, view=TableView(Table(ANY_TABLE, ()))), merge="delta-spark")
    place = f"delta:{Path('lake').absolute()}/{{schema}}/{{table}}"
    runner = MicroBatchRunner(spark, job, place, None, KafkaClient(), None, None, statements_of(Path("ddl.jsonl")))
    ways = list[dict[tuple[str, str], int]]()
    for number in range(3):
        messages = list[Message]()
        for table in names:
            for id_ in range(number, 40 + number):
                row = {"id": str(id_), "a": f"{number}"}
                op, before, after = ("d", row, None) if id_ % 7 == number else ("u", row, row)
                change: dict[str, Any] = {
                    "kind": "row", "format": "open", "db": "d", "table": table, "op": op, "key": ["id"], "flags": [],
                }  # fmt: skip
                ts = 1000 + 100 * number + id_
                change |= {"commit_ts": ts, "schema_id": None, "table_version": None, "before": before, "after": after}
                messages += encoder.encode({**change, "topic": "t"})
        frame = input_of_job(spark, written(messages, f"{number}.jsonl"), None, None, 0, job.read)
        summary = runner.process(frame, number).summary
        ways.append(dict(summary.ways))
        assert (summary.out, summary.skipped["other table"]) == (120, 40)
    assert ways[1] == ways[2] == {(f"d.{name}", ""): 1 for name in names[:3]}
    for name in names[:3]:
        rows = {row["id"]: row["a"] for row in _by_spark(spark, f"lake/d/{name}")}
        assert rows == {id_: "2" for id_ in range(2, 42) if id_ % 7 != 2}


@pytest.mark.parametrize(("day", "is_left"), [("02", True), ("03", False)])
def test_a_key_of_a_day_on_which_clocks_are_set(day: str, is_left: bool) -> None:
    """It is left to Spark, which stops at the hour that is there twice."""
    rows, kind = [("k", f"2025-11-{day} 01:30:00")], pyarrow.map_(pyarrow.string(), pyarrow.string())
    for op, images in (("c", ([None], [rows])), ("d", ([rows], [None]))):
        before, after = (pyarrow.array(image, kind) for image in images)
        flags = pyarrow.array([[]], pyarrow.list_(pyarrow.string()))
        order = {"commit_ts": [5], "position": [1], "row": [0]}
        changes = pyarrow.table({"op": [op], "before": before, "after": after, "flags": flags, **order})
        columns = {"k": ColumnShape(pyarrow.string(), is_bytes=False, zone="America/New_York")}
        shape = TableShape(columns, ["k"], 1, (), {"k": ["2025-11-02"]})
        with pytest.raises(UnusualChanges, match="clocks were set") if is_left else nullcontext():
            typed_changes(changes, shape)
