"""Exports of histories: our own readers get the same tables from them, at every commit_ts; what is left out is said."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.each import each
from tests.support.history_events import scripts
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.show_create import unwritable_keys
from ticdc_bridge.schemas.ddl.executor.versions import in_utc, versions
from ticdc_bridge.schemas.inputs.definition_files import statements
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.export import Form, HistoryExport
from ticdc_bridge.service.history.model import Batch, DdlRecord, Drift, State
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.tracker import tracker_of

STEP = 1 << 18
ZONE = "Asia/Shanghai"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('export') / 'r.db'}")
    yield store
    store.close()


@pytest.fixture(scope="module")
def history(opened: SqlStore) -> HistoryStore:
    return HistoryStore(opened)


def export(history: HistoryStore, feed: str, form: Form, at: int | None = None, zone: str | None = None) -> Any:
    """(text, what is left out)."""
    made = HistoryExport(form, at, zone=zone)
    text = "".join(line + "\n" for line in made.lines(feed, history.histories(feed)))
    return text, made.left_out


def plain(table: Table | None) -> Table:
    """With defaults in UTC."""
    assert table is not None
    return in_utc(table, ZONE)


def test_tidbs_histories_come_back(history: HistoryStore, opened: SqlStore, tmp_path: Path) -> None:
    """All versions from JSON lines, read by jobs and by a tracker; the newest tables from SQL."""

    def check(row: tuple[str, list[dict[str, Any]]]) -> None:
        script, lines = row
        wire = [w for line in lines for w in line["wire"]]
        records = [DdlRecord(script, w["ts"], w["scm"], w["tbl"], w["q"]) for w in wire]
        history.track(script, Batch(records=records))
        text, left_out = export(history, script, "jsonl", zone=ZONE)
        exact = [
            item
            for some in history.histories(script)
            for item, _ in some
            if not any(line.startswith(f"{item.id}: ") for line in left_out)
        ]
        read = {(v.commit_ts, v.table.id.folded): v.table for v in versions(statements(text))}
        for entry in exact:
            if entry.is_live:
                assert plain(read[entry.from_ts, entry.id.folded]) == plain(entry.table), entry.id
        (file := tmp_path / "export.jsonl").write_text(text)
        tracker_of(TrackedChangefeed(f"{script} again", (), file), history, opened, most=1000).run()
        for entry in exact:
            again = history.version_at(f"{script} again", *entry.id, entry.from_ts, inclusive=True)
            assert again is not None
            assert (again.is_live, again.from_ts) == (entry.is_live, entry.from_ts)
            assert not entry.is_live or plain(again.table) == plain(entry.table), entry.id
        sql, refused = export(history, script, "sql", zone=ZONE)
        newest = {v.table.id.folded: v.table for v in versions(statements(sql) if "CREATE TABLE" in sql else [])}
        for id_ in (row.id for row in history.tables(script, limit=10_000) if row.state is State.KNOWN):
            table = plain(history.version_at(script, *id_).table)  # type: ignore[union-attr]
            if unwritable_keys(table):
                assert any(line.startswith(f"{id_}: ") for line in refused)
            else:
                assert plain(newest[id_.folded]) == table, sql

    chosen = [(name, lines) for name, lines in scripts("own").items()]
    check_rows(chosen + list(scripts("ticdc").items())[:1], check, name=lambda row: row[0])


@dataclass(frozen=True)
class Row:
    """Statements in database d → what of the SQL, of the JSON lines and of what is left out."""

    name: str
    statements: list[str]
    sql: list[str] = field(default_factory=list)
    lines: int = 0
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name


@each("row", [
    Row("a table", ["CREATE TABLE t (a INT)"], ["CREATE DATABASE IF NOT EXISTS `d`;", "CREATE TABLE `t` ("], 1),
    Row("dropped", ["CREATE TABLE t (a INT)", "DROP TABLE t"], [], 2),
    Row("a backslash in an element", [r"CREATE TABLE t (a ENUM('x\\y','z') DEFAULT 'x\\y')"], [
        r"enum(x'785c79','z')", r"DEFAULT 'x\\y'"], 1),
    Row("keys over prefixes", ["CREATE TABLE t (a TEXT, b VARCHAR(30), c INT, UNIQUE k (a(5), c), PRIMARY KEY (b(9)))",
        "ALTER TABLE t RENAME INDEX k TO m, RENAME COLUMN a TO x, ADD KEY n (b(30)), ADD KEY o (c, b(2)), DROP c"], [
        "UNIQUE KEY `m` (`x`(5))", "PRIMARY KEY (`b`(9))", "KEY `n` (`b`)", "KEY `o` (`b`(2))"], 2),
    Row("prefixes of columns of other types", [
        "CREATE TABLE t (a VARCHAR(30), b TEXT, c BINARY(9), d TEXT, KEY k (a(5), c(4)), KEY m (b(5)), KEY n (d(5)))",
        "ALTER TABLE t MODIFY a VARCHAR(5), CHANGE b e INT, MODIFY c BINARY(5), MODIFY d VARCHAR(6)"], [
        "KEY `k` (`a`,`c`(4))", "KEY `m` (`e`)", "KEY `n` (`d`(5))"], 2),
    Row("partial keys", ["CREATE TABLE t (a INT NOT NULL, b INT, UNIQUE k (a) WHERE b > 1, UNIQUE m (a))",
        "CREATE INDEX n ON t (b) WHERE a IS NULL", "ALTER TABLE t ADD KEY p (a) WHERE b > x(y WITHIN z)"], [
        "UNIQUE KEY `k` (`a`) WHERE `b` > 1", "KEY `n` (`b`) WHERE `a` is null",
        "-- left out: KEY `p`: its condition is not kept"], 3, ["d.t: KEY `p`: its condition is not kept"]),
    Row("a view", ["CREATE VIEW v AS SELECT 1"], ["-- left out: d.v: it is a view"], 0,
        ["d.v: it is a view, whose definition is not kept"]),
    Row("not understood", ["CREATE TABLE t (a INT)", "ALTER TABLE t DROP COLUMN b",
        "CREATE TABLE u (a INT)"], [
        "-- left out: d.t: it is ERROR", "CREATE TABLE `u`"], 1, [f"d.t: it is ERROR since commit_ts {2 * STEP}: "]),
    Row("known again", ["CREATE TABLE t (a INT)", "ALTER TABLE t DROP COLUMN b", "DROP TABLE t",
        "CREATE TABLE t (c INT)"], [
        "`c` int"], 0, [f"d.t: it is ERROR since commit_ts {2 * STEP}: "]),
    Row("a default in a zone", ["CREATE TABLE t (a TIMESTAMP DEFAULT '2026-01-01 00:00:00')"], [
        "-- left out: d.t: its"], 0,
        ["d.t: its default of a is a TIMESTAMP in a time zone that is not known: give it (--ddl-time-zone"]),
    Row("names", ["CREATE DATABASE `a-b`", "CREATE TABLE `a-b`.`x``y` (`select` INT COMMENT 'it''s')"], [
        "USE `a-b`;", "CREATE TABLE `x``y` (", "`select` int DEFAULT NULL COMMENT 'it''s'"], 1),
])  # fmt: skip
def test_what_is_written_and_left_out(history: HistoryStore, row: Row) -> None:
    records = [DdlRecord(row.name, n * STEP, "d", "", query, mode="typed") for n, query in enumerate(row.statements, 1)]
    history.track(row.name, Batch(records=records))
    sql, _ = export(history, row.name, "sql")
    assert [piece for piece in row.sql if piece not in sql] == [], sql
    assert row.sql or "CREATE" not in sql
    lines, left_out = export(history, row.name, "jsonl")
    assert lines.count('"query"') == row.lines
    _, in_sql = export(history, row.name, "sql")
    said = left_out or in_sql
    assert [entry for entry in row.left_out if not any(text.startswith(entry) for text in said)] == [], said
    assert len(said) == len(row.left_out)


def test_a_time(history: HistoryStore) -> None:
    queries = ["CREATE TABLE t (a TIMESTAMP DEFAULT '2026-01-01 00:00:00')", "ALTER TABLE t ADD b INT", "DROP TABLE t"]
    records = [DdlRecord("times", n * STEP, "d", "t", query, mode="typed") for n, query in enumerate(queries, 1)]
    history.track("times", Batch(records=records))
    tables = {
        at: [c.name for v in versions(statements(sql)) for c in v.table.columns] if "CREATE T" in sql else None
        for at in (STEP, STEP + 1, 2 * STEP + 1, 3 * STEP + 1)
        for sql in [export(history, "times", "sql", at, ZONE)[0]]
    }
    assert tables == {STEP: None, STEP + 1: ["a"], 2 * STEP + 1: ["a", "b"], 3 * STEP + 1: None}
    sql, _ = export(history, "times", "sql", STEP + 1, ZONE)
    [version] = versions(statements(sql))
    assert (version.table.columns[0].default, version.table.columns[0].default_unzoned) == (
        "2025-12-31 16:00:00",
        False,
    )
    drift = Drift("times", "columns", "d", "t", STEP + 5, "column c is not in the history", STEP)
    history.track("times", Batch(drift=[drift]))
    text, [reason] = export(history, "times", "jsonl", zone=ZONE)
    assert ('"query"' in text, "contradict it: column c is not" in reason) == (False, True)
    with pytest.raises(RegistryError, match="no time zone"):
        export(history, "times", "sql", 2 * STEP + 1, "Mars/Phobos")
