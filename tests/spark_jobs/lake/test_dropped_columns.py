"""The history of a table that keeps the past: its columns, which of them were dropped, and what cleared it."""

from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.column_history import schema_changes
from ticdc_bridge.spark_jobs.lake.dropped_columns import full_history

_CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))"
_Row = tuple[list[str], str, dict[str, int], list[tuple[int, str]]]
ROWS: list[_Row] = [  # statements (at 10, 20, …), columns, those dropped, what cleared it
    ([_CREATE], "id a b", {}, []),
    ([_CREATE, "ALTER TABLE t DROP COLUMN a"], "id b a", {"a": 20}, []),
    ([_CREATE, "ALTER TABLE t DROP a, ADD c INT FIRST"], "c id b a", {"a": 20}, []),
    (
        [_CREATE, "ALTER TABLE t DROP a", "ALTER TABLE t ADD A VARCHAR(5)"],
        "id b A a__dropped_20", {"a__dropped_20": 20}, [],
    ),
    (
        [_CREATE, "ALTER TABLE t DROP a", "ALTER TABLE t RENAME COLUMN b TO a", "ALTER TABLE t DROP a"],
        "id a a__dropped_20", {"a": 40, "a__dropped_20": 20}, [],
    ),
    (
        [_CREATE, *["ALTER TABLE t DROP a", "ALTER TABLE t ADD a INT"] * 2],
        "id b a a__dropped_40 a__dropped_20", {"a__dropped_20": 20, "a__dropped_40": 40}, [],
    ),
    ([_CREATE, "TRUNCATE TABLE t", "ALTER TABLE t DROP a"], "id b a", {"a": 30}, [(20, "TRUNCATE")]),
    ([_CREATE, "ALTER TABLE t RENAME COLUMN a TO x"], "id x b", {}, []),
    ([_CREATE, "DROP TABLE t"], "id a b", {}, []),
    ([_CREATE, "DROP TABLE t", _CREATE], "id a b", {}, [(20, "DROP")]),
    (
        [_CREATE, "DROP TABLE t", "CREATE TABLE t (ID INT PRIMARY KEY, a TEXT)"],
        "ID a a__dropped_30 b", {"a__dropped_30": 30, "b": 30}, [(20, "DROP")],
    ),
    (
        [_CREATE, "ALTER TABLE t DROP a", "DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, a INT)"],
        "id a b a__dropped_20", {"a__dropped_20": 20, "b": 40}, [(30, "DROP")],
    ),
    (
        [f"{_CREATE} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))", "ALTER TABLE t TRUNCATE PARTITION p"],
        "id a b", {}, [(20, "TRUNCATE PARTITION")],
    ),
]  # fmt: skip


def test_no_column_goes() -> None:
    def check(row: _Row) -> None:
        texts, columns, dropped, cleared = row
        statements = [DdlText(10 * n, "d", text, TYPED) for n, text in enumerate(texts, 1)]
        steps = schema_changes(statements, TableId("d", "t"))
        now = next(t for s in reversed(steps) for t in (s.after, s.before) if t is not None)
        history = full_history(now, steps)
        assert [c.name for c in history.table.columns] == columns.split()
        assert history.dropped == dropped
        assert [(entry.commit_ts, entry.word) for entry in history.clearing if not entry.is_first] == cleared
        assert not any(step.emptied or step.unsure for step in history.steps)
        if history.steps and not dropped:
            assert history.table == now
        # Each step goes on where the one before it ended.
        assert all(b.before == a.after for a, b in zip(history.steps, history.steps[1:], strict=False))

    check_rows(ROWS, check, lambda row: "; ".join(row[0]))
