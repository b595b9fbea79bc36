"""Tables that are set aside: none of their changes is lost, whatever is killed when; a load brings them back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.arrow.change_schema import CHANGES
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, TableOutput
from ticdc_bridge.spark_jobs.streaming import set_aside
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.many_tables import ManyTables, TableTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RULES = {"location": "delta:{schema}/{table}", "changelog": None, "versions": None}
_NAMES = ("d.a", "d.b", "d.c")


class _Killed(Exception):
    pass


@dataclass
class _World:
    """Tables that can't go on (`broken`), or can't once (`killed`), what was merged into each (commit_ts), the TSO that
    each was loaded at.
    """

    spark: SparkSession
    folder: Path
    broken: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)
    merged: dict[str, set[int]] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    when_written: Callable[[], object] = list

    def start(self, *patterns: str, outputs: Sequence[TableOutput] = ()) -> ManyTables:
        (self.folder / "spark" / "offsets").mkdir(parents=True, exist_ok=True)
        return ManyTables(TableChoice(patterns or ("d.*",)), _RULES, outputs, 2, True, Checkpoint(self.folder, {}))

    def write(
        self, job: ManyTables, number: int, rows: Iterable[tuple[str, int]], statements: Sequence[DdlText] = ()
    ) -> list[str]:  # fmt: skip
        """A micro-batch with a row for each (table, commit_ts); the tables that are set aside then."""
        made = [{"kind": "row", "op": "c", "commit_ts": ts, "position": ts, "db": "d", "table": name[2:]}
                for name, ts in rows]  # fmt: skip
        frame = self.spark.createDataFrame(made, CHANGES + ", position bigint").coalesce(1)
        self.summary = Summary()
        functions = self._merge, self._loaded_of, self.spark, self.when_written
        job.write(frame if made else None, number, statements, self.summary, *functions)
        (self.folder / "spark" / "offsets" / str(number)).touch()
        return sorted(self.summary.set_aside)

    def _merge(self, task: TableTask) -> int:
        if str(task.id) in self.killed:
            self.killed.discard(str(task.id))
            raise _Killed
        if str(task.id) in self.broken:
            raise SetupError("STOPPED", where=str(task.id), details="broken")
        changes = task.all_changes
        found = {row["commit_ts"] for row in changes.select("commit_ts").collect()} if changes is not None else set()
        self.merged.setdefault(str(task.id), set()).update(found)
        return len(found)

    def _loaded_of(self, task: TableTask) -> int:
        return self.loaded.get(str(task.id), -1)


def test_a_table_waits_and_comes_back(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others go on; it is tried after 1, 2 … batches, and at once when it was loaded. Kept changes are bounded."""
    world = _World(spark, tmp_path, broken={"d.a"})
    job = world.start()
    assert world.write(job, 0, [("d.a", 1), ("d.b", 2)]) == ["d.a"]
    assert "table d.a is set aside: its changes wait" in capsys.readouterr().err
    assert world.write(job, 1, [("d.a", 3), ("d.b", 4)]) == ["d.a"]
    assert world.merged == {"d.b": {2, 4}}
    assert world.summary.set_aside == {"d.a": (2, "stopped at d.a: broken")}
    assert (world.summary.exit_code, world.summary.lines()[-1]) == (
        2, "set aside d.a: 2 changes waiting: stopped at d.a: broken",
    )  # fmt: skip
    world.broken.clear()
    assert world.write(job, 2, [("d.b", 5)]) == ["d.a"]  # the next try is in batch 3
    world.loaded["d.a"] = 3
    assert world.write(job, 2, [("d.b", 5)]) == []
    assert "table d.a goes on, with 2 changes that waited" in capsys.readouterr().err
    assert world.merged["d.a"] == {1, 3}
    assert list((tmp_path / "set_aside").iterdir()) == []


@pytest.mark.slow
def test_what_waits_is_bounded(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older changes go, and are counted: only a snapshot that has them brings the table back."""
    monkeypatch.setattr(set_aside, "MOST_ROWS", 2)
    world = _World(spark, tmp_path, broken={"d.a"})
    job = world.start()
    for number, ts in enumerate((1, 5, 3, 7)):
        world.write(job, number, [("d.a", ts)])
    assert world.summary.skipped["waited too long"] == 1
    world.broken.clear()
    world.loaded["d.a"] = 4
    assert world.write(job, 4, [("d.b", 8)]) == ["d.a"]
    assert "a snapshot of commit_ts 5 or later has what is gone" in world.summary.set_aside["d.a"][1]
    world.loaded["d.a"] = 5
    assert world.write(job, 5, [("d.b", 9)]) == []
    assert world.merged["d.a"] == {3, 7}


@pytest.mark.slow
def test_another_place_needs_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """Which has what went to the one before; also of a table that is not set aside."""
    world, moved = _World(spark, tmp_path), TableOutput(TableChoice(("d.a",)), "delta:new/a")
    world.write(world.start(), 0, [("d.a", 1), ("d.b", 2)])
    for number in (1, 2):  # a start, and the next one
        assert world.write(world.start(outputs=[moved]), number, [("d.a", 3), ("d.b", 4)]) == ["d.a"]
    assert "had another place" in str(world.summary.set_aside)
    world.loaded["d.a"] = 2
    assert world.write(world.start(outputs=[moved]), 3, [("d.a", 5)]) == []
    assert world.write(world.start(outputs=[moved]), 4, [("d.a", 6)]) == []
    assert world.merged["d.a"] == {1, 3, 5, 6}


@pytest.mark.slow
def test_a_table_that_was_left_out_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    """With a snapshot that is newer than what was read without it, and at every later start; left out again, again."""
    world = _World(spark, tmp_path)
    world.write(world.start("d.*", "!d.a"), 0, [("d.a", 1), ("d.b", 2)])
    job = world.start()
    world.loaded["d.a"] = 1
    assert world.write(job, 1, [("d.a", 3)]) == ["d.a"]
    assert "took other --tables, or changes of it have waited too long: a snapshot of commit_ts 2 or later" in str(
        world.summary.set_aside
    )
    world.loaded["d.a"] = 2
    assert world.write(job, 2, [("d.a", 4)]) == []
    assert world.merged["d.a"] == {3, 4}
    assert world.write(world.start(), 3, [("d.a", 5)]) == []
    world.write(world.start("d.*", "!d.a"), 4, [("d.a", 6)])
    assert world.write(world.start(), 5, [("d.a", 7)]) == ["d.a"]


@pytest.mark.slow
def test_a_table_that_gets_the_name_of_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changes wait apart, and are none of the table's that had the name: that one goes on in its place, which
    follows its DDL also where the batch fails and comes again.
    """
    monkeypatch.chdir(tmp_path)
    Path("d/a/_delta_log").mkdir(parents=True)
    world = _World(spark, tmp_path / "cp")
    job, ddl = world.start(), [DdlText(1, "d", "CREATE TABLE a (id INT PRIMARY KEY)")]
    assert world.write(job, 0, [("d.a", 2)], ddl) == []
    ddl += [DdlText(10, "d", "RENAME TABLE a TO old"), DdlText(11, "d", "CREATE TABLE a (id INT PRIMARY KEY)")]
    world.broken, world.killed = {"d.a"}, {"d.old"}
    with pytest.raises(SetupError, match=r"would go to delta:d/a too"):
        world.write(job, 1, [("d.a", 20)], ddl)
    assert world.write(job, 1, [("d.a", 20)], ddl) == ["d.a"]
    assert "d.old" in world.merged
    assert world.write(job, 2, [("d.b", 21)], ddl) == ["d.a"]
    assert world.write(job, 3, [("d.old", 22), ("d.a", 23)], ddl) == ["d.a"]
    assert world.merged == {"d.a": {2}, "d.b": {21}, "d.old": {22}}
    assert world.summary.set_aside["d.a"][0] == 2
    world.broken.clear()
    world.when_written = lambda: 1 // 0  # a point in time is kept before its table counts as written
    with pytest.raises(ZeroDivisionError):
        world.write(job, 4, [("d.b", 24)], ddl)
    world.when_written, world.merged["d.a"] = list, {2}
    assert world.write(job, 4, [("d.b", 24)], ddl) == []
    assert world.merged["d.a"] == {2, 20, 23}


def test_a_table_that_is_newer_than_a_choice_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of it was read before: no snapshot is needed. Nor is it another's, whose CREATE TABLE names it."""
    world = _World(spark, tmp_path)
    world.write(world.start("d.b", "d.c"), 0, [("d.b", 5)])
    ddl = [DdlText(2, "d", "CREATE DATABASE d"), DdlText(6, "d", "CREATE TABLE a (id INT PRIMARY KEY)"),
           DdlText(7, "d", "CREATE TABLE c (id INT REFERENCES lone (id))")]  # fmt: skip
    assert world.write(world.start(), 1, [("d.a", 8), ("d.lone", 9)], ddl) == ["d.lone"]
    assert world.merged["d.a"] == {8}


def test_one_table_alone_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """But for one whose changes wait already; one that is left out is told of no more."""
    world = _World(spark, tmp_path, broken={"d.a"})
    with pytest.raises(SetupError, match="broken"):
        world.write(world.start("d.a"), 0, [("d.a", 1)])
    assert world.write(world.start(), 0, [("d.a", 1)]) == ["d.a"]
    assert world.start("d.*", "!d.a").set_aside == {}
    world.broken.clear()
    world.loaded["d.a"] = 1
    assert world.write(world.start("d.a"), 1, [("d.a", 2)]) == []
    assert world.merged["d.a"] == {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_change_is_lost(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Tables break and are mended; the job is killed before or after anything that it keeps, and starts again."""
    chance, world, sent = random.Random(f"{seed}"), _World(spark, tmp_path), dict[str, set[int]]()
    left = [0]
    for name in ("keep", "forget"):
        real = getattr(Checkpoint, name)

        def kill(*args: object, real: object = real) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise _Killed
            real(*args)  # type: ignore[operator]
            left[0] -= 1
            if left[0] == 0:
                raise _Killed

        monkeypatch.setattr(Checkpoint, name, kill)
    job, ts = world.start(), 0
    for number in range(14):
        world.broken = {name for name in _NAMES if chance.random() < 0.4} if chance.random() < 0.4 else world.broken
        if number == 13:
            world.broken = set()
        rows = [(chance.choice(_NAMES), ts := ts + 1) for _ in range(chance.randrange(5))]
        for name, commit_ts in rows:
            sent.setdefault(name, set()).add(commit_ts)
        left[0] = chance.randint(1, 12)
        try:
            aside = world.write(job, number, rows)
        except _Killed:
            left[0] = 0
            job = world.start()
            aside = world.write(job, number, rows)
        left[0] = 0
        if chance.random() < 0.2 or number == 12:
            job = world.start()
        assert all(world.merged.get(name, set()) == sent[name] for name in sent if name not in aside)
    assert not aside
