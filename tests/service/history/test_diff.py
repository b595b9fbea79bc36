"""What changed between two times: tables, columns followed through renames, keys, options, databases."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.each import each
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.diff import Period, diff, text
from ticdc_bridge.service.history.model import Batch, DdlRecord, Drift
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore

STEP = 1 << 18
BASE = "CREATE TABLE t (id INT PRIMARY KEY, a INT COMMENT 'x', b VARCHAR(10) DEFAULT 'q', UNIQUE KEY u (b))"


@dataclass(frozen=True)
class Row:
    """Statements in database d, those before the first time and those in between → lines of the text."""

    name: str
    before: list[str]
    between: list[str]
    lines: list[str]

    def __str__(self) -> str:
        return self.name


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryStore]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('diff') / 'r.db'}")
    yield HistoryStore(store)
    store.close()


def lines(history: HistoryStore, row: Row, **more: str | None) -> list[str]:
    """Without the head, the statements and the number of tables."""
    records = []
    for number, query in enumerate([*row.before, *row.between], 1):
        kind, _, rest = query.partition(":")
        snapshot = kind == "SHOW"
        mode = "show" if snapshot else "typed"
        of = ("d", "t" if snapshot else "", rest if snapshot else query)
        records.append(DdlRecord(row.name, number * STEP, *of, "snapshot" if snapshot else "ddl", mode=mode))
    history.track(row.name, Batch(records=records))
    period = Period(len(row.before) * STEP + 1, len(records) * STEP + 1)
    every = list(text(diff(history.span(row.name, period, **more)).form()))
    return [line for line in every[1:-1] if not line.startswith(("    by ", "not resolved"))]


@each("row", [
    Row("nothing", [BASE], [], []),
    Row("a column", [BASE], ["ALTER TABLE t ADD COLUMN n DECIMAL(10,2) NOT NULL DEFAULT 1 AFTER id"], [
        "~ table d.t changed", "    + column n decimal(10,2) NOT NULL DEFAULT '1'"]),
    Row("a dropped column", [BASE], ["ALTER TABLE t DROP COLUMN a"], [
        "~ table d.t changed", "    - column a int NULL COMMENT 'x'"]),
    Row("a renamed column", [BASE], ["ALTER TABLE t RENAME COLUMN a TO z"], [
        "~ table d.t changed", "    ~ column a is renamed to z"]),
    Row("renamed twice and changed", [BASE],
        ["ALTER TABLE t CHANGE a y BIGINT", "ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t RENAME COLUMN y TO z"], [
        "~ table d.t changed", "    ~ column a is renamed to z",
        "    ~ column z: int NULL COMMENT 'x' → bigint NULL", "    + column a int NULL"]),
    Row("two columns change names", [BASE], ["ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"], [
        "~ table d.t changed", "    ~ column a is renamed to b", "    ~ column b is renamed to a"]),
    Row("a lookalike is no rename", [BASE],
        ["ALTER TABLE t DROP COLUMN a, ADD COLUMN z INT COMMENT 'x' AFTER id"], [
        "~ table d.t changed", "    - column a int NULL COMMENT 'x'", "    + column z int NULL COMMENT 'x'"]),
    Row("dropped and added again", [BASE],
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a INT COMMENT 'x' AFTER id"], [
        "~ table d.t changed",
        "    ~ column a was dropped and added again: int NULL COMMENT 'x' → int NULL COMMENT 'x'"]),
    Row("its name taken by another", [BASE],
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t CHANGE b a VARCHAR(10) DEFAULT 'q'"], [
        "~ table d.t changed", "    - column a int NULL COMMENT 'x'", "    ~ column b is renamed to a"]),
    Row("order", [BASE], ["ALTER TABLE t MODIFY COLUMN b VARCHAR(10) DEFAULT 'q' FIRST"], [
        "~ table d.t changed", "    ~ the order of the columns: b, id, a"]),
    Row("ON UPDATE", ["CREATE TABLE t (id INT PRIMARY KEY, c DATETIME)"],
        ["ALTER TABLE t MODIFY c DATETIME ON UPDATE CURRENT_TIMESTAMP"], [
        "~ table d.t changed", "    ~ column c: datetime NULL → datetime NULL ON UPDATE CURRENT_TIMESTAMP"]),
    Row("keys", [BASE],
        ["ALTER TABLE t RENAME INDEX u TO v", "ALTER TABLE t ADD INDEX i (a, b)",
         "ALTER TABLE t ADD INDEX e ((a + 1))"], [
        "~ table d.t changed", "    ~ key u is renamed to v", "    + KEY `i` (`a`,`b`)",
        "    + KEY `e` ((expression))"]),
    Row("a changed key", [BASE], ["ALTER TABLE t DROP INDEX u, ADD INDEX u (b, a)"], [
        "~ table d.t changed", "    ~ UNIQUE KEY `u` (`b`) → KEY `u` (`b`,`a`)"]),
    Row("a key whose column is renamed", [BASE], ["ALTER TABLE t RENAME COLUMN b TO c"], [
        "~ table d.t changed", "    ~ column b is renamed to c"]),
    Row("options", [BASE], ["ALTER TABLE t COMMENT 'it''s', DEFAULT CHARSET latin1"], [
        "~ table d.t changed", "    ~ character set unknown → latin1", "    ~ collation unknown → latin1_bin",
        "    ~ comment none → 'it''s'"]),
    Row("a renamed table", [BASE], ["RENAME TABLE t TO s", "ALTER TABLE s DROP COLUMN b"], [
        "~ table d.t is renamed to d.s", "    - column b varchar(10) NULL DEFAULT 'q'",
        "    - UNIQUE KEY `u` (`b`)"]),
    Row("tables change names", [BASE, "CREATE TABLE s (k INT)"],
        ["RENAME TABLE t TO x, s TO t, x TO s"], [
        "~ table d.t is renamed to d.s", "~ table d.s is renamed to d.t"]),
    Row("created", [], ["CREATE TABLE n (k INT, KEY (k))"], [
        "+ table d.n created", "    + column k int NULL", "    + KEY `k` (`k`)"]),
    Row("dropped", [BASE], ["DROP TABLE t"], [
        "- table d.t dropped", "    - column id int NOT NULL", "    - column a int NULL COMMENT 'x'",
        "    - column b varchar(10) NULL DEFAULT 'q'", "    - PRIMARY KEY (`id`)",
        "    - UNIQUE KEY `u` (`b`)"]),
    Row("dropped and created again", ["CREATE TABLE t (k INT)"],
        ["DROP TABLE t", "CREATE TABLE t (k BIGINT)"], [
        "~ table d.t was dropped and created again", "    ~ column k: int NULL → bigint NULL"]),
    Row("dropped and recovered", ["CREATE TABLE t (k INT)"], ["DROP TABLE t", "FLASHBACK TABLE t"], [
        "Statements that left no difference:",
        f"  d.t: commit_ts {2 * STEP}: DROP TABLE t", f"  d.t: commit_ts {3 * STEP}: FLASHBACK TABLE t"]),
    Row("created and dropped in between", [BASE],
        ["CREATE TABLE tmp (k INT)", "DROP TABLE tmp"], [
        "Statements that left no difference:",
        f"  d.tmp: commit_ts {2 * STEP}: CREATE TABLE tmp (k INT)", f"  d.tmp: commit_ts {3 * STEP}: DROP TABLE tmp"]),
    Row("truncated", [BASE], ["TRUNCATE TABLE t"], [
        "Statements that left no difference:",
        f"  d.t: commit_ts {2 * STEP}: TRUNCATE TABLE t"]),
    Row("truncated, and brought back beside it", ["CREATE TABLE t (k INT)"],
        ["TRUNCATE TABLE t", "FLASHBACK TABLE t TO s", "ALTER TABLE s ADD l INT"], [
        "+ table d.s created", "    + column k int NULL", "    + column l int NULL",
        "Statements that left no difference:", f"  d.t: commit_ts {2 * STEP}: TRUNCATE TABLE t",
        f"  d.t: commit_ts {3 * STEP}: FLASHBACK TABLE t TO s"]),
    Row("dropped before its database, which is back",
        ["CREATE DATABASE e", "CREATE TABLE e.t (k INT)", "DROP TABLE e.t"],
        ["DROP DATABASE e", "FLASHBACK DATABASE e", "FLASHBACK TABLE e.t"],
        ["+ table e.t created", "    + column k int NULL"]),
    Row("truncated before its database, which is back", ["CREATE DATABASE e", "CREATE TABLE e.t (k INT)"],
        ["TRUNCATE TABLE e.t", "DROP DATABASE e", "FLASHBACK DATABASE e TO f", "FLASHBACK TABLE f.t TO s"], [
        "- database e dropped: utf8mb4 utf8mb4_bin", "+ database f created: utf8mb4 utf8mb4_bin",
        "+ table f.s created",
        "    + column k int NULL", "~ table e.t is renamed to f.t"]),
    Row("renamed and renamed back between TRUNCATE and FLASHBACK", ["CREATE TABLE t (k INT)", "TRUNCATE TABLE t"],
        ["RENAME TABLE t TO s, s TO t", "FLASHBACK TABLE t TO c"], [
        "+ table d.c created", "    + column k int NULL", "Statements that left no difference:",
        f"  d.t: commit_ts {3 * STEP}: RENAME TABLE t TO s, s TO t",
        f"  d.t: commit_ts {4 * STEP}: FLASHBACK TABLE t TO c"]),
    Row("described", [], ["SHOW:CREATE TABLE `t` (`k` int)"], [
        "+ table d.t is known now", "    + column k int NULL",
        "    note: it was described in between, not created: what it was before is not known"]),
    Row("a snapshot that differs", ["CREATE TABLE t (k INT)"], ["SHOW:CREATE TABLE `t` (`k` int, `l` int)"], [
        "~ table d.t changed", "    + column l int NULL"]),
    Row("a view", [BASE], ["CREATE VIEW v AS SELECT 1"], ["+ view d.v created"]),
    Row("a view in a table's place", ["CREATE TABLE v (k INT)"], ["DROP TABLE v", "CREATE VIEW v AS SELECT 1"], [
        "- table d.v dropped", "    - column k int NULL", "+ view d.v created"]),
    Row("not understood", ["CREATE TABLE t (k INT)"], ["ALTER TABLE t DROP COLUMN nope"], [
        "? table d.t can't be compared",
        "    note: afterwards, it is ERROR: a DDL statement can't be applied: table d.t has no column nope"]),
    Row("described after it was not understood", ["CREATE TABLE t (k INT)"],
        ["ALTER TABLE t DROP COLUMN nope", "SHOW:CREATE TABLE `t` (`l` int)"], [
        "~ table d.t changed", "    - column k int NULL", "    + column l int NULL",
        "    note: a DDL in between was not understood: columns of the same name count as the same"]),
    Row("databases", ["CREATE DATABASE e CHARACTER SET latin1", "CREATE DATABASE g"],
        ["CREATE DATABASE f CHARACTER SET utf8", "ALTER DATABASE e CHARACTER SET utf8mb4", "DROP DATABASE g"], [
        "~ database e changed: latin1 latin1_bin → utf8mb4 utf8mb4_bin",
        "+ database f created: utf8 utf8_bin", "- database g dropped: utf8mb4 utf8mb4_bin"]),
])  # fmt: skip
def test_what_changed(history: HistoryStore, row: Row) -> None:
    assert lines(history, row) == row.lines


def test_one_table_by_each_of_its_names(history: HistoryStore) -> None:
    row = Row("by name", [BASE, "CREATE TABLE other (k INT)"], ["RENAME TABLE t TO s", "DROP TABLE other"], [])
    for name in ("t", "T", "s"):
        assert lines(history, row, db="d", table=name) == ["~ table d.t is renamed to d.s"], name
    assert lines(history, row, db="d", table="other")[0] == "- table d.other dropped"
    assert len([line for line in lines(history, row, db="D") if not line.startswith(" ")]) == 2
    for more in ({"db": "d", "table": "nope"}, {"db": "nope"}, {"table": "t"}):
        with pytest.raises(RegistryError):
            lines(history, row, **more)


def test_the_ends_follow_the_rule_of_rows(history: HistoryStore) -> None:
    """A row at the very commit_ts of a DDL has the table from before it."""
    lines(history, Row("ends", ["CREATE TABLE t (k INT)"], ["ALTER TABLE t ADD COLUMN l INT"], []))
    counts = {
        (period, inclusive): diff(history.span("ends", Period(*period, inclusive))).form()["counts"]
        for period in ((STEP, 2 * STEP), (STEP + 1, 2 * STEP + 1), (0, STEP))
        for inclusive in (False, True)
    }
    assert counts == {
        ((STEP, 2 * STEP), False): {"created": 1}, ((STEP, 2 * STEP), True): {"changed": 1},
        ((STEP + 1, 2 * STEP + 1), False): {"changed": 1}, ((STEP + 1, 2 * STEP + 1), True): {"changed": 1},
        ((0, STEP), False): {}, ((0, STEP), True): {"created": 1},
    }  # fmt: skip
    with pytest.raises(RegistryError, match="give the earlier time first"):
        history.span("ends", Period(2, 1))


def test_rows_that_contradict_a_version(history: HistoryStore) -> None:
    """A DDL was lost: that nothing differs is not known."""
    row = Row("drift", ["CREATE TABLE t (k INT)", "CREATE TABLE u (k INT)"], ["ALTER TABLE u ADD l INT"], [])
    lines(history, row)
    detail = "column m is not in the history"
    drifts = [
        Drift("drift", "columns", "d", table, 5 * STEP, detail, version)
        for table, version in (("t", STEP), ("u", 3 * STEP))
    ]
    history.track("drift", Batch(drift=drifts))
    made = diff(history.span("drift", Period(2 * STEP + 1, 6 * STEP))).form()
    note = f"afterwards, 1 rows or messages since commit_ts {5 * STEP} contradict it: {detail}"
    assert [(table["table"], table["kind"], table["notes"]) for table in made["tables"]] == [
        ("t", "unknown", [note]), ("u", "changed", [note])]  # fmt: skip
    for period in (Period(0, 4 * STEP), Period(5 * STEP, 6 * STEP)):
        assert "unknown" not in diff(history.span("drift", period)).form()["counts"]
