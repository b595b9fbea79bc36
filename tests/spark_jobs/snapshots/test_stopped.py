"""Each STOPPED of merge that a copy of the table gets past names `load`: that load is run, and merge goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_schema_changes import Changes, Ddl, _write_ddl, messages
from tests.support.dumps import write_dump
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TSO = 100
LOAD = "ticdc-bridge load --source mysql://… --table d.t --out PLACE"


@dataclass
class Case:
    """Runs of merge, of which the last one stops with `text`; the table as it is at the TSO; what follows.

    runs: (the statements given, up to which commit_ts changes are read, and from which one on). ddl: what is given in
    the end, if not what was given last. output: the option of the place. from_start: merge reads all changes again,
    else those that come after.
    """

    text: str
    runs: list[tuple[Ddl, int] | tuple[Ddl, int, int]]
    changes: Changes
    create: str
    existing: list[dict[str, str | None]]
    later: dict[str, Any]
    expected: list[dict[str, Any]]
    replace: bool = False
    ddl: Ddl | None = None
    output: str = "--out"
    from_start: bool = True


PARTS = "PARTITION BY KEY (id) PARTITIONS 2"  # which rows a partition has is known to TiDB alone
DOUBLE: Ddl = [(1, "CREATE TABLE t (id int primary key, v double)"), (40, "ALTER TABLE t MODIFY v decimal(5,1)")]
CUT: Ddl = [(1, f"CREATE TABLE t (id int primary key, v int) {PARTS}"), (40, "ALTER TABLE t TRUNCATE PARTITION p0")]
CUT_ROWS: Changes = [
    {"commit_ts": 10, "after": {"id": "1", "v": "1"}},
    {"commit_ts": 20, "after": {"id": "7", "v": "7"}},
]
REKEYED: Ddl = [
    (1, "CREATE TABLE t (id int primary key, v int)"), (40, "ALTER TABLE t DROP PRIMARY KEY"),
    (41, "ALTER TABLE t ADD PRIMARY KEY (v)"),
]  # fmt: skip
LACKS: Ddl = [
    (1, "CREATE TABLE t (id int primary key, v int)"), (20, "ALTER TABLE t ADD COLUMN a int DEFAULT 7"),
    (30, "ALTER TABLE t RENAME COLUMN v TO w"),
]  # fmt: skip
SWAP: Ddl = [
    (1, "CREATE TABLE t (id int primary key, v int)"), (2, "CREATE TABLE t_new (id int primary key, v int)"),
    (40, "RENAME TABLE t TO t_old, t_new TO t"),
]  # fmt: skip
ZONED: Ddl = [SWAP[0], (40, "ALTER TABLE t ADD COLUMN a timestamp NULL DEFAULT '2020-01-01'")]
SHOWN = [f"CREATE TABLE `t` (`id` int primary key, `{name}` int)" for name in "vw"]
INT = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int DEFAULT NULL,\n  PRIMARY KEY (`id`)\n)"
WIDE = INT.replace("`v` int DEFAULT NULL,", "`w` int DEFAULT NULL,\n  `a` int DEFAULT '7',")
DECIMAL = INT.replace("`v` int", "`v` decimal(5,1)")
NEXT = {"commit_ts": 150, "after": {"id": "8", "v": "8"}}
CASES = {
    "a value of which nobody knows what it became": Case(
        "the conversion that TiDB made is not known", [(DOUBLE, 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1.25"}}],
        DECIMAL, [{"id": "1", "v": "1.3"}], NEXT, [{"id": 1, "v": "1.3"}, {"id": 8, "v": "8.0"}], replace=True,
    ),
    "rows of which nobody knows what they became": Case(
        "got another type at commit_ts 40, and the conversion", [(DOUBLE[:1], 30), (DOUBLE, 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1.25"}}],
        DECIMAL, [{"id": "1", "v": "1.3"}], NEXT, [{"id": 1, "v": "1.3"}, {"id": 8, "v": "8.0"}],
    ),
    "a partition's rows among the changes": Case(
        "TRUNCATE PARTITION at commit_ts 40", [(CUT, 200)], CUT_ROWS, INT, [{"id": "7", "v": "7"}], NEXT,
        [{"id": 7, "v": 7}, {"id": 8, "v": 8}], replace=True,
    ),
    "a partition's rows in the place": Case(
        "TRUNCATE PARTITION at commit_ts 40", [(CUT[:1], 30), (CUT, 200)], CUT_ROWS, INT, [{"id": "7", "v": "7"}],
        NEXT, [{"id": 7, "v": 7}, {"id": 8, "v": 8}], replace=True,
    ),
    "a partition's rows in versions": Case(
        "TRUNCATE PARTITION at commit_ts 40", [(CUT[:1], 30), (CUT, 200)], CUT_ROWS, INT, [{"id": "7", "v": "7"}],
        NEXT, [{"id": 7, "v": 7}, {"id": 8, "v": 8}], replace=True, output="--versions",
    ),
    "a row that comes late after another key": Case(
        "comes late. Since then the table got another key", [(REKEYED[:1], 12), (REKEYED, 200, 12), (REKEYED, 11)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1"}},
         {"commit_ts": 11, "op": "d", "before": {"id": "1", "v": "1"}, "after": None},
         {"commit_ts": 50, "after": {"id": "7", "v": "8"}, "key": ["v"]}],
        INT.replace("(`id`)", "(`v`)").replace("`v` int DEFAULT NULL", "`v` int NOT NULL"), [{"id": "7", "v": "8"}],
        {"commit_ts": 150, "after": {"id": "9", "v": "9"}, "key": ["v"]}, [{"id": 7, "v": 8}, {"id": 9, "v": 9}],
        replace=True,
    ),
    "definitions of which one is missing": Case(
        "or a statement is missing, came late", [(LACKS, 200), (LACKS[:1], 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}],
        WIDE, [{"id": "1", "w": "1", "a": "7"}], {"commit_ts": 150, "after": {"id": "8", "w": "8", "a": "8"}},
        [{"id": 1, "w": 1, "a": 7}, {"id": 8, "w": 8, "a": 8}], ddl=[(90, WIDE)], from_start=False,
    ),
    "tables that swapped names": Case(
        "has the rows of the table that was called d.t at commit_ts", [(SWAP[:2], 30), (SWAP, 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1"}},
         {"commit_ts": 11, "table": "t_new", "after": {"id": "2", "v": "2"}},
         {"commit_ts": 50, "after": {"id": "3", "v": "3"}}],
        INT, [{"id": "2", "v": "2"}, {"id": "3", "v": "3"}], NEXT,
        [{"id": 2, "v": 2}, {"id": 3, "v": 3}, {"id": 8, "v": 8}],
    ),
    "a column that was renamed or dropped": Case(
        "SHOW CREATE TABLE at commit_ts 40", [([(1, SHOWN[0])], 30), ([(1, SHOWN[0]), (40, SHOWN[1])], 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}],
        INT.replace("`v`", "`w`"), [{"id": "1", "w": "1"}], {"commit_ts": 150, "after": {"id": "8", "w": "8"}},
        [{"id": 1, "w": 1}, {"id": 8, "w": 8}],
    ),
    "a type that the rows don't fit": Case(
        "its rows don't fit from bigint to int", [([(1, INT.replace("`v` int", "`v` bigint"))], 30), ([(1, INT)], 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "5000000000"}}, {"commit_ts": 50, "after": {"id": "1", "v": "5"}}],
        INT, [{"id": "1", "v": "5"}], NEXT, [{"id": 1, "v": 5}, {"id": 8, "v": 8}], ddl=[(90, INT)], from_start=False,
    ),
    "a default of an unknown zone": Case(
        "ADD COLUMN at commit_ts 40: DEFAULT '2020-01-01 00:00:00' of column a is in", [(ZONED[:1], 30), (ZONED, 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}], INT.replace("PRIMARY", "`a` timestamp NULL,\n  PRIMARY"),
        [{"id": "1", "v": "1", "a": "2020-01-01 00:00:00"}],
        {"commit_ts": 150, "after": {"id": "8", "v": "8", "a": None}},
        [{"id": 1, "v": 1, "a": "2020-01-01 00:00:00"}, {"id": 8, "v": 8, "a": "None"}], replace=True,
    ),
    "a value in a changelog": Case(
        "the value in the change at commit_ts 10 does not fit", [(DOUBLE, 200)],
        [{"commit_ts": 10, "after": {"id": "1", "v": "1.25"}}],
        DECIMAL, [{"id": "1", "v": "1.3"}], NEXT, [{"id": 1, "v": "1.3"}, {"id": 8, "v": "8.0"}],
        output="--changelog", from_start=False,
    ),
}  # fmt: skip


def _merge(case: Case, ddl: Ddl, changes: Changes, path: str, until: int, since: int = 0) -> int:
    begun = [change for change in changes if since <= change["commit_ts"] < until]
    encoded = messages(max((given for given, *_ in case.runs), key=len), begun)
    argv = ["merge", "--format", "open", "--table", "d.t", "--time-zone", "UTC", "--engine", "deltalake"]
    return main(
        [*argv, "--ddl", _write_ddl(ddl, "some"), case.output, f"delta:{path}", "--in", written(encoded, "part.jsonl")]
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_load_that_gets_past_it(spark: SparkSession, capsys: pytest.CaptureFixture[str], case: Case) -> None:
    for number, (ddl, *span) in enumerate(case.runs, 1):
        assert _merge(case, ddl, case.changes, "t", *span) == (2 if number == len(case.runs) else 0)
    said = capsys.readouterr().err
    assert case.text in said
    assert LOAD + " --replace" * case.replace in said
    assert (LOAD + " --replace" in said) is case.replace
    path = "t" if case.replace else "new"
    source = write_dump(Path("dump"), TSO, case.create, (row.values() for row in case.existing))
    words = ["load", "--source", source, "--table", "d.t", case.output, f"delta:{path}", "--engine", "deltalake"]
    assert main([*words, *["--replace"] * case.replace]) == 0
    ddl, changes = case.ddl or case.runs[-1][0], [*(case.changes if case.from_start else []), case.later]
    for _ in range(2):  # the second time changes nothing
        assert _merge(case, ddl, changes, path, 1 << 60) == 0, capsys.readouterr().err
        assert [_plain(row) for row in _existing(spark, case, path)] == case.expected


def _existing(spark: SparkSession, case: Case, path: str) -> list[dict[str, Any]]:
    everything = rows(spark, path)
    return [row for row in everything if row.get("_valid_to") is None]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    named = {name: value for name, value in row.items() if not name.startswith("_")}
    return {name: value if isinstance(value, int) else str(value) for name, value in named.items()}
