"""In whatever order events come, once or often, in one batch or in many: the history is the same."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.history_events import T0, everything, record, scripts
from tests.support.service import short_and_long
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.service.history.model import Batch, DdlRecord, State
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore

STEP = 1 << 18
STATEMENTS = [
    [("", "CREATE DATABASE `d` CHARACTER SET latin1")],
    [("a", "CREATE TABLE `a` (`id` INT PRIMARY KEY,`v` VARCHAR(10))")],
    [("b", "CREATE TABLE `b` LIKE `a`")],
    [("a", "ALTER TABLE `a` ADD COLUMN `x` DECIMAL(10,2) NOT NULL DEFAULT 1")],
    # a swap: three events at one commit_ts
    [("tmp", "RENAME TABLE `a` TO `tmp`"), ("a", "RENAME TABLE `b` TO `a`"), ("b", "RENAME TABLE `tmp` TO `b`")],
    [("b", "ALTER TABLE `b` DROP COLUMN `v`")],
    [("c", "CREATE TABLE `c` LIKE `b`")],
    [("", "ALTER DATABASE `d` CHARACTER SET utf8mb4")],
    [("e", "CREATE TABLE `e` (`t` TEXT,`z` ENUM('x','y'))")],
    [("a", "TRUNCATE TABLE `a`")],
    [("a", "DROP TABLE `a`")],
    [("b", "ALTER TABLE `b` RENAME TO `a`")],
    [("c", "ALTER TABLE `c` CHANGE COLUMN `x` `y` BIGINT")],
    [("c", "THIS IS NOT UNDERSTOOD")],
    [("c", "ALTER TABLE `c` ADD COLUMN `later` INT")],
    [("", "DROP DATABASE `d`")],
    [("", "CREATE DATABASE `d`")],
    [("a", "CREATE TABLE `a` (`id` INT)")],
    [("a", "DROP TABLE `a`")],
    [("a", "FLASHBACK TABLE `a` TO `back`")],
    [("nope", "ALTER TABLE `nope` ADD COLUMN `q` INT")],
]  # fmt: skip
GROUPS = [
    [record(T0 + n * STEP, "d", table, query, format="open", topic="t", partition=0) for table, query in group]
    for n, group in enumerate(STATEMENTS)
]


@contextmanager
def empty() -> Iterator[HistoryStore]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'x.db'}")
        try:
            yield HistoryStore(store)
        finally:
            store.close()


def in_order() -> dict[str, list[object]]:
    with empty() as history:
        history.track("c", Batch(records=[r for group in GROUPS for r in group], watermarks={("t", 0): T0 << 1}))
        return everything(history, "c")


TRUTH = in_order()


def test_the_history_itself() -> None:
    assert {name: versions[-1][2] for name, versions in TRUTH.items()} == {  # type: ignore[index]
        "d.a": "GONE", "d.b": "GONE", "d.back": "KNOWN", "d.c": "GONE", "d.e": "GONE", "d.nope": "PARTIAL",
        "d.tmp": "GONE",
    }  # fmt: skip
    ids = [(v[3], v[2]) for v in TRUTH["d.a"]]  # type: ignore[index]
    others = [v[3] for v in TRUTH["d.b"]]  # type: ignore[index]
    assert ids[0][0] == others[-1]  # the swap: what was a is b, until it is renamed back
    assert TRUTH["d.back"][0][3] == ids[-1][0]  # type: ignore[index]


@short_and_long(4, 20)
def test_any_order_gives_the_same(examples: int) -> None:
    """Groups of one commit_ts come in any order, some of them twice; sealed on arrival, so that most are late."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False), st.integers(1, 12))
    def holds(chance: random.Random, batches: int) -> None:
        groups = list(GROUPS)
        chance.shuffle(groups)
        groups += chance.sample(GROUPS, 4)
        cuts = sorted(chance.randrange(len(groups) + 1) for _ in range(batches))
        with empty() as history:
            for start, end in zip([0, *cuts], [*cuts, len(groups)], strict=True):
                records = [replace(r, unsealed_source=True) for group in groups[start:end] for r in group]
                history.track("c", Batch(records=records))
            assert everything(history, "c") == TRUTH
            assert all(entry.copies in (1, 2) for entry in history.ddl("c"))

    holds()


@short_and_long(3, 12)
def test_partitions_in_any_interleaving(examples: int) -> None:
    """Each partition brings all events in order, with watermarks in between; the partitions take turns as they like."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        streams: list[list[DdlRecord | int]] = []
        for partition in range(3):
            stream: list[DdlRecord | int] = []
            for group in GROUPS:
                stream += [replace(r, partition=partition) for r in group]
                if data.draw(st.booleans()):
                    stream.append(group[0].commit_ts)
            streams.append([*stream, T0 << 1])
        with empty() as history:
            while any(streams):
                partition = data.draw(st.sampled_from([p for p in range(3) if streams[p]]))
                take = data.draw(st.integers(1, 9))
                part, streams[partition] = streams[partition][:take], streams[partition][take:]
                batch = Batch(partitions={("t", p) for p in range(3)})
                batch.records = [entry for entry in part if isinstance(entry, DdlRecord)]
                marks = [entry for entry in part if isinstance(entry, int)]
                if marks:
                    batch.watermarks[("t", partition)] = marks[-1]
                taken = history.track("c", batch)
                assert taken.late == 0
                assert all(entry.commit_ts <= taken.sealed_ts for entry in history.ddl("c") if entry.state != "pending")
            assert everything(history, "c") == TRUTH
            assert {entry.copies for entry in history.ddl("c")} == {3}

    holds()


def test_everything_made_anew_is_the_same() -> None:
    with empty() as history:
        history.track("c", Batch(records=[r for group in GROUPS for r in group], watermarks={("t", 0): T0 << 1}))
        history.rebuild("c", everything=True)
        assert everything(history, "c") == TRUTH
        done = history.rebuild("c")
        assert (done.healed, done.failed) == (0, 3)
        assert everything(history, "c") == TRUTH


@pytest.mark.parametrize(
    "share", [pytest.param(0.25, marks=pytest.mark.slow), 0.5, pytest.param(0.75, marks=pytest.mark.slow)]
)
def test_from_a_snapshot_on_the_tail_is_the_same(share: float) -> None:
    """Started in the middle with what SHOW CREATE TABLE says of every table, later versions are those of the whole."""
    name, lines = max(scripts("own").items(), key=lambda item: len(item[1]))
    records = [
        record(w["ts"], w["scm"], w["tbl"], w["q"], format="open", topic="t", partition=0, unsealed_source=True)
        for line in lines
        for w in line["wire"]
    ]
    at = int(len(records) * share)
    with empty() as whole, empty() as tail:
        whole.track("c", Batch(records=records))
        split = records[at - 1].commit_ts
        dbs = {row.id.db for row in whole.tables("c", limit=10_000)}
        described = [record(split, db, "", f"CREATE DATABASE IF NOT EXISTS `{db}`") for db in sorted(dbs)]
        for row in whole.tables("c", limit=10_000):
            version = whole.version_at("c", *row.id, split, inclusive=True)
            if version is not None and version.state is State.KNOWN and version.table is not None:
                sql = show_create(version.table)
                described.append(record(split, row.id.db, row.id.table, sql, kind="snapshot", mode="show"))
        assert len(described) > len(dbs), name
        tail.track("c", Batch(records=described))
        tail.track("c", Batch(records=records[at:]))
        for row in tail.tables("c", limit=10_000):
            later = [v for v in tail.versions("c", *row.id)[0] if v.from_ts > split]
            wanted = [v for v in whole.versions("c", *row.id)[0] if v.from_ts > split]
            assert [(v.from_ts, v.state) for v in later] == [(v.from_ts, v.state) for v in wanted]
            for mine, theirs in zip(later, wanted, strict=True):
                if mine.is_live and theirs.table is not None and mine.table is not None:
                    assert [c.name for c in mine.table.columns] == [c.name for c in theirs.table.columns]
                    assert [replace(c, multiple_key=False) for c in mine.table.columns] == [
                        replace(c, multiple_key=False) for c in theirs.table.columns
                    ]
