"""`merge` over DDL: one run over a whole changelog, and runs before and after each statement, make the same table or
the same error: the rows that TiDB shows, or none.
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import ENGINES, rows
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import found, row, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ddl = list[tuple[int, str]]
Changes = list[dict[str, Any]]


def _write_ddl(ddl: Ddl, name: str) -> str:
    """DDL as it was typed; SHOW CREATE TABLE, which quotes names."""
    modes = ({"mode": "show"} if text.startswith("CREATE TABLE `") else {"typed": True} for _, text in ddl)
    lines = [{"commit_ts": ts, "db": "d", "query": text, **mode} for (ts, text), mode in zip(ddl, modes, strict=True)]
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def messages(ddl: Ddl, changes: Changes, format_: str = "open") -> list[Message]:
    """Changes of d.t; the DDL is in the file `ddl`."""
    lines = [row(offset=n, key=entry.pop("key", ["id"]), **entry) for n, entry in enumerate(map(dict, changes))]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", format_, "--in", "l", "--out", "m", "--ddl", _write_ddl(ddl, "ddl")]) == 0
    return found("m")


def merge(
    ddl: Ddl,
    changes: Changes,
    location: str,
    splits: tuple[int, ...],
    table: str = "d.t",
    engine: str = "delta-spark",
    types: str = "exact",
) -> int:
    """The exit code of the run that failed, else of the last one; each takes DDL and changes up to a commit_ts."""
    made, code, begun = messages(ddl, changes), 0, 0
    for until in (*splits, 1 << 60):
        count = sum(int(change["commit_ts"]) < until for change in changes)
        part, begun = made[begun:count], count
        reported = _write_ddl([entry for entry in ddl if entry[0] < until], "some")
        argv = ["merge", "--format", "open", "--table", table, "--time-zone", "UTC", "--out", f"delta:{location}"]
        argv += ["--engine", engine, "--types", types]
        code = main([*argv, "--ddl", reported, "--in", written(part, "part.jsonl")])
        if code:
            break
    return code


def both(default: str) -> pytest.MarkDecorator:
    """A test with the parameter `how`: in one run, by deltalake, and in two, in which delta-spark changes the table.

    The one that is not the default is slow. That deltalake does the same in two, test_merge_deltalake holds of some.
    """
    names = ("fresh", "stepwise")
    return pytest.mark.parametrize("how", [pytest.param(n, marks=[pytest.mark.slow] * (n != default)) for n in names])


def run(how: str, ddl: Ddl, changes: Changes, split: int, table: str = "d.t") -> int:
    """The exit code of one of `both`; the table's place has its name."""
    if how == "fresh":
        return merge(ddl, changes, how, (), table, "deltalake")
    return merge(ddl, changes, how, (split,), table)


@pytest.mark.slow  # test_conversions has them all, without Spark
@pytest.mark.parametrize("how", ["fresh", "stepwise"])
def test_rows_get_the_values_of_their_columns_new_types(spark: SparkSession, how: str) -> None:
    """What TiDB makes of them; a name in other letters is the same column."""
    kinds = {
        "Name": "varchar(9)", "dt": "datetime", "dc": "decimal(10,2)", "n": "decimal(10,2)", "x": "double",
        "v": "varchar(9)", "num": "varchar(9)", "day": "date", "bits": "bit(3)", "e": "enum('a','b')",
        "w": "decimal(40,2)", "r": "int", "tm": "time(2)",
    }  # fmt: skip
    now = {
        "NAME": "varchar(20)", "dt": "datetime(3)", "dc": "decimal(10,1)", "n": "int", "x": "int", "v": "varbinary(9)",
        "num": "int", "day": "datetime", "bits": "bit(12)", "e": "enum('a','b','c')", "w": "decimal(40,3)",
        "r": "decimal(5,1)", "tm": "time",
    }  # fmt: skip
    create = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    alter = ", ".join(f"MODIFY {name} {kind}" for name, kind in now.items())
    ddl = [(1, f"CREATE TABLE t (id int primary key, {create})"), (40, f"ALTER TABLE t {alter}")]
    before = {
        "id": "1", "Name": "x", "dt": "2024-01-01 00:00:00", "dc": "-1.25", "n": "1.50", "x": "2.4", "v": "é",
        "num": "7", "day": "2024-01-01", "bits": {"hex": "05"}, "e": "b", "w": "1.25", "r": "3", "tm": "00:00:01.50",
    }  # fmt: skip
    after = {
        "id": "2", "NAME": "y", "dt": "2024-01-01 00:00:00.500", "dc": "1.0", "n": "3", "x": "4", "v": {"hex": "ff"},
        "num": "8", "day": "2024-01-01 12:00:00", "bits": {"hex": "0fff"}, "e": "c", "w": "0.125", "r": "1.5",
        "tm": "-00:00:01",
    }  # fmt: skip
    expected = [
        {"id": 1, "NAME": "x", "dt": "2024-01-01 00:00:00.000", "dc": Decimal("-1.3"), "n": 2, "x": 2,
         "v": "é".encode(), "num": 7, "day": "2024-01-01 00:00:00", "bits": b"\0\5", "e": "b", "w": "1.250",
         "r": Decimal("3.0"), "tm": "00:00:02"},
        {"id": 2, "NAME": "y", "dt": "2024-01-01 00:00:00.500", "dc": Decimal("1.0"), "n": 3, "x": 4, "v": b"\xff",
         "num": 8, "day": "2024-01-01 12:00:00", "bits": b"\x0f\xff", "e": "c", "w": "0.125", "r": Decimal("1.5"),
         "tm": "-00:00:01"},
    ]  # fmt: skip
    assert run(how, ddl, [{"commit_ts": 10, "after": before}, {"commit_ts": 50, "after": after}], 30) == 0
    assert rows(spark, how, by_spark=True) == expected


_UNSURE = [(1, "CREATE TABLE t (id int primary key, v double)"), (40, "ALTER TABLE t MODIFY v decimal(5,1)")]
_FIRST: Changes = [{"commit_ts": 10, "after": {"id": "1", "v": "1.25"}}]


@both(default="fresh")
@pytest.mark.usefixtures("spark")
def test_values_of_which_nobody_knows_what_tidb_made_stop_the_job(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(how, _UNSURE, _FIRST, 30) == 2
    err = capsys.readouterr().err
    assert "STOPPED" in err
    assert "column v" in err
    assert "the conversion that TiDB" in err


@ENGINES
def test_such_values_do_not_matter_where_a_later_change_has_the_row(spark: SparkSession, engine: str) -> None:
    gone = {"commit_ts": 50, "op": "d", "before": {"id": "1", "v": None}, "after": None}
    assert merge(_UNSURE, [*_FIRST, gone], "later", (), engine=engine) == 0
    assert rows(spark, "later") == []


@pytest.mark.slow
@ENGINES
def test_deleted_keys_follow_the_key(spark: SparkSession, engine: str) -> None:
    """More digits, a wider type, a name with a blank: what comes late stays away, and the row that is there goes."""
    ddl = [
        (1, "CREATE TABLE t (a int, b datetime, v int, primary key (a, b))"),
        (40, "ALTER TABLE t MODIFY a bigint unsigned, CHANGE b `my c` datetime(3)"),
    ]
    old = [{"a": str(n), "b": "2024-01-01 00:00:00", "v": "1"} for n in (1, 2)]
    new = {"a": "2", "my c": "2024-01-01 00:00:00.000", "v": "1"}
    changes: Changes = [
        {"commit_ts": 10, "after": old[0], "key": ["a", "b"]}, {"commit_ts": 11, "after": old[1], "key": ["a", "b"]},
        {"commit_ts": 20, "op": "d", "before": old[0], "after": None, "key": ["a", "b"]},
        {"commit_ts": 50, "op": "d", "before": new, "after": None, "key": ["a", "my c"]},
    ]  # fmt: skip
    assert merge(ddl, changes, "t", (30,), engine=engine) == 0
    assert rows(spark, "t") == []
    late = found("m")[:1]
    argv = ["merge", "--format", "open", "--table", "d.t", "--time-zone", "UTC", "--out", "delta:t", "--ddl", "ddl",
            "--engine", engine]  # fmt: skip
    assert main([*argv, "--in", written(late, "late.jsonl")]) == 0
    assert rows(spark, "t") == []


_KEYED = (1, "CREATE TABLE t (id int not null, v int not null, primary key (id) nonclustered)")
_DELETED: Changes = [
    {"commit_ts": 10, "after": {"id": "1", "v": "1"}},
    {"commit_ts": 20, "op": "d", "before": {"id": "1", "v": "1"}, "after": None},
]


@pytest.mark.slow  # test_a_table_that_is_made_anew has deletes too
@ENGINES
def test_a_table_made_anew_forgets_deletes(spark: SparkSession, engine: str) -> None:
    anew = [_KEYED, (40, "DROP TABLE t"), (41, "CREATE TABLE t (id varchar(9) primary key)")]
    assert merge(anew, [*_DELETED, {"commit_ts": 50, "after": {"id": "x"}}], "anew", (30,), engine=engine) == 0
    assert rows(spark, "anew") == [{"id": "x"}]


@pytest.mark.slow  # the deletes of a table made anew are those of test_deleted_keys_follow_the_key
@ENGINES
def test_another_key_after_deletes(spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    """Where only the key is another, a row that comes late stops the job."""
    other = [_KEYED, (40, "ALTER TABLE t DROP PRIMARY KEY"), (41, "ALTER TABLE t ADD PRIMARY KEY (v)")]
    assert (
        merge(
            other,
            [*_DELETED, {"commit_ts": 50, "after": {"id": "7", "v": "8"}, "key": ["v"]}],
            "t",
            (30,),
            engine=engine,
        )
        == 0
    )
    assert rows(spark, "t") == [{"id": 7, "v": 8}]
    argv = ["merge", "--format", "open", "--table", "d.t", "--time-zone", "UTC", "--out", "delta:t", "--ddl", "ddl",
            "--engine", engine]  # fmt: skip
    assert main([*argv, "--in", written(found("m")[:1], "late.jsonl")]) == 2
    assert "comes late. Since then the table got another key" in capsys.readouterr().err


@pytest.mark.slow
@both(default="fresh")
def test_names_in_other_letters(spark: SparkSession, how: str) -> None:
    """TiDB takes databases, tables and columns in any letters; so does --table. A column shows its first default."""
    ddl = [
        (1, "CREATE TABLE t (id int primary key, v int)"), (20, "TRUNCATE TABLE D.T"), (40, "RENAME TABLE T TO U"),
        (45, "ALTER TABLE D.u RENAME COLUMN V TO w"), (46, "ALTER TABLE u ADD COLUMN k int NOT NULL DEFAULT 5"),
        (47, "ALTER TABLE u MODIFY k decimal(5,1) NOT NULL DEFAULT 7"),
    ]  # fmt: skip
    changes: Changes = [
        {"commit_ts": 10, "after": {"id": "1", "v": "1"}}, {"commit_ts": 30, "after": {"id": "2", "v": "2"}},
        {"commit_ts": 50, "table": "U", "after": {"id": "3", "w": "3", "k": "1.5"}},
    ]  # fmt: skip
    assert run(how, ddl, changes, 15, table="D.T") == 0
    assert rows(spark, how) == [{"id": 2, "w": 2, "k": Decimal("5.0")}, {"id": 3, "w": 3, "k": Decimal("1.5")}]


_CUT = [
    (1, "CREATE TABLE t (id int primary key, v int) PARTITION BY KEY (id) PARTITIONS 2"),
    (40, "ALTER TABLE t TRUNCATE PARTITION p0"),
]  # fmt: skip
_IN_PART: Changes = [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}]


@both(default="fresh")
@pytest.mark.usefixtures("spark")
def test_statements_that_do_not_tell_which_rows_went(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(how, _CUT, _IN_PART, 30) == 2
    assert "TRUNCATE PARTITION at commit_ts 40: which rows its partitions have is not known" in capsys.readouterr().err


_DAYS = [
    (1, "CREATE TABLE t (id int, day date, v int, primary key (id, day)) PARTITION BY RANGE COLUMNS (day) (PARTITION p0"
        " VALUES LESS THAN ('2026-01-02'), PARTITION p1 VALUES LESS THAN ('2026-01-03'), PARTITION p2 VALUES LESS THAN"
        " MAXVALUE)"), (20, "ALTER TABLE t TRUNCATE PARTITION p0"), (40, "ALTER TABLE t DROP PARTITION p0, p1"),
]  # fmt: skip
_OF_DAYS: Changes = [
    {"commit_ts": ts, "key": ["id", "day"], "after": {"id": id_, "day": f"2026-01-0{day}", "v": "1"}}
    for ts, id_, day in ((10, "1", 1), (11, "2", 2), (25, "3", 1), (30, "4", 3), (45, "5", 1))
]


@pytest.mark.slow
@both(default="fresh")
def test_rows_of_dropped_partitions_go(spark: SparkSession, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Newer ones stay."""
    assert run(how, _DAYS, _OF_DAYS, 30) == 0
    assert [row["id"] for row in rows(spark, how)] == [4, 5]
    if how == "fresh":
        assert "skipped in a dropped partition 3" in capsys.readouterr().err
    assert merge(_DAYS, _OF_DAYS, "typed", (24, 42), types="typed") == 0
    assert [row["id"] for row in rows(spark, "typed", by_spark=True)] == [4, 5]


@pytest.mark.slow
def test_an_archive_keeps_the_rows_of_dropped_partitions(spark: SparkSession) -> None:
    """Versions too; the changelog has a row for each statement all the same."""
    made = messages([*_DAYS[:-1], (40, "ALTER TABLE t TRUNCATE PARTITION ALL")], _OF_DAYS)
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--time-zone", "UTC"]
    argv += ["--in", written(made, "in.jsonl"), "--out", "delta:all", "--changelog", "delta:log"]
    argv += ["--versions", "delta:past", "--engine", "deltalake"]
    assert main([*argv, "--on-partition-drop", "keep"]) == 0
    assert [row["id"] for row in rows(spark, "all")] == [1, 2, 3, 4, 5]
    assert [row["_valid_to"] for row in rows(spark, "past")] == [None] * 5
    ops = [(row["_tidb_commit_ts"], row["_tidb_op"]) for row in rows(spark, "log") if row["_tidb_op"] != "I"]
    assert sorted(ops) == [(20, "TRUNCATE PARTITION"), (40, "TRUNCATE PARTITION")]


@pytest.mark.slow
@both(default="fresh")
def test_such_statements_do_not_matter_before_a_truncate(spark: SparkSession, how: str) -> None:
    later: Changes = [*_IN_PART, {"commit_ts": 60, "after": {"id": "2", "v": "2"}}]
    assert run(how, [*_CUT, (50, "TRUNCATE TABLE t")], later, 30) == 0
    assert rows(spark, how) == [{"id": 2, "v": 2}]


@pytest.mark.slow
def test_what_came_before_a_truncate_need_not_fit(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Such rows are counted and no more: a column of theirs may be another one by now, or hold a zero date."""
    ddl = [
        (1, "CREATE TABLE t (id int primary key, v int, w datetime)"), (20, "ALTER TABLE t DROP COLUMN v"),
        (30, "ALTER TABLE t ADD COLUMN v datetime"), (40, "TRUNCATE TABLE t"),
    ]  # fmt: skip
    old, new = {"id": "1", "v": "7", "w": "0000-00-00 00:00:00"}, {"id": "1", "w": None, "v": "2026-01-02 03:04:05"}
    changes: Changes = [{"commit_ts": 10, "after": old}, {"commit_ts": 50, "after": new}]
    assert merge(ddl, changes, "t", (), engine="deltalake", types="typed") == 0
    assert "skipped before TRUNCATE 1" in capsys.readouterr().err
    assert rows(spark, "t") == [{"id": 1, "w": None, "v": datetime(2026, 1, 2, 3, 4, 5)}]


@pytest.mark.slow
def test_null_values_and_what_came_before_a_truncate(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A null value of a delete that was read before does not bring back the rows that TRUNCATE took away."""
    ddl = [(1, "CREATE TABLE t (id int primary key, v int)"), (40, "TRUNCATE TABLE t")]
    entry, two, three = ({"id": str(n), "v": "7"} for n in (1, 2, 3))
    changes: Changes = [
        {"commit_ts": 10, "after": entry}, {"commit_ts": 20, "op": "d", "before": entry, "after": None},
        {"commit_ts": 30, "after": two}, {"commit_ts": 50, "after": three},
    ]  # fmt: skip
    made = messages(ddl, changes, "debezium-tidb")
    at = [m.value for m in made].index(None)
    argv = ["merge", "--format", "debezium-tidb", "--table", "d.t", "--out", "delta:t", "--engine", "deltalake"]
    for piece, statements in ((made[:at], ddl[:1]), (made[at:], ddl)):
        reported = _write_ddl(statements, "told")
        assert main([*argv, "--ddl", reported, "--in", written(piece, "part.jsonl")]) == 0
    assert "skipped before TRUNCATE 1" in capsys.readouterr().err
    assert rows(spark, "t") == [{"id": 3, "v": 7}]


@pytest.mark.slow
@both(default="fresh")
def test_a_table_that_is_dropped_and_brought_back(spark: SparkSession, how: str) -> None:
    ddl = [
        (1, "CREATE TABLE t (id int primary key, v int)"), (20, "DROP TABLE t"), (30, "RECOVER TABLE t"),
        (40, "ALTER TABLE t MODIFY v bigint"),
    ]  # fmt: skip
    changes: Changes = [
        {"commit_ts": 10, "after": {"id": "1", "v": "1"}}, {"commit_ts": 50, "after": {"id": "2", "v": "2"}},
    ]  # fmt: skip
    assert run(how, ddl, changes, 25) == 0
    assert rows(spark, how) == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]


@pytest.mark.slow
@ENGINES
def test_a_table_that_is_made_anew(spark: SparkSession, engine: str) -> None:
    """Columns of the same names are other columns, of types that have nothing to do with those before.

    So are the keys: those that were deleted before are nobody's.
    """
    ddl = [
        (1, "CREATE TABLE t (id int primary key, v datetime, w varchar(9), x int)"), (20, "DROP TABLE t"),
        (30, "CREATE TABLE t (id varchar(9) primary key, V varbinary(9), w int, x int)"),
    ]  # fmt: skip
    old = {"id": "1", "v": "2026-01-02 03:04:05", "w": "a", "x": "1"}
    new = {"id": "a", "V": {"hex": "00ff"}, "w": "7", "x": "2"}
    gone = {**old, "id": "2"}
    changes: Changes = [
        {"commit_ts": 10, "after": old}, {"commit_ts": 11, "after": gone},
        {"commit_ts": 12, "op": "d", "before": gone, "after": None}, {"commit_ts": 50, "after": new},
    ]  # fmt: skip
    assert merge(ddl, changes, "t", (25,), engine=engine, types="typed") == 0
    assert rows(spark, "t") == [{"id": "a", "V": b"\x00\xff", "w": 7, "x": 2}]


@pytest.mark.slow
@ENGINES
def test_tables_that_swap_names_are_not_mixed(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    ddl = [
        (1, "CREATE TABLE t (id int primary key)"), (2, "CREATE TABLE t_new (id int primary key)"),
        (40, "RENAME TABLE t TO t_old, t_new TO t"),
    ]  # fmt: skip
    changes: Changes = [
        {"commit_ts": 10, "after": {"id": "1"}}, {"commit_ts": 11, "table": "t_new", "after": {"id": "2"}},
        {"commit_ts": 50, "after": {"id": "3"}},
    ]  # fmt: skip
    assert merge(ddl, changes, "fresh", (), engine=engine) == 0
    assert rows(spark, "fresh") == [{"id": 2}, {"id": 3}]
    assert merge(ddl, changes, "stepwise", (30,), engine=engine) == 2
    assert "has the rows of the table that was called d.t at commit_ts" in capsys.readouterr().err


@pytest.mark.slow
def test_a_column_of_the_name_that_merge_needs(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    del spark
    changes: Changes = [{"commit_ts": 10, "after": {"id": "1", "_COMMIT_TS": "1"}}]
    assert merge([(1, "CREATE TABLE t (id int primary key, _COMMIT_TS int)")], changes, "t", ()) == 2
    assert "has a column _COMMIT_TS of its own" in capsys.readouterr().err


@pytest.mark.slow
@both(default="fresh")
def test_columns_by_show_create_table_alone(spark: SparkSession, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rename looks like a drop plus an add: no column of the table is dropped then."""
    first, *later = (f"CREATE TABLE `t` (`id` int primary key{more})" for more in (", `v` int", ", `w` int", ""))
    changes: Changes = [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}]
    assert run(how, [(1, first), (40, later[0])], changes, 30) == 2
    assert "SHOW CREATE TABLE at commit_ts 40: column v: it was renamed to w, or" in capsys.readouterr().err
    changes[0]["commit_ts"] = 45
    changes[0]["after"] = {"id": "1", "w": "1"}
    if how == "fresh":
        assert run("fresh", [(1, first), (40, later[0]), (50, later[1])], changes, 30) == 0
        assert rows(spark, "fresh") == [{"id": 1}]


@pytest.mark.slow
@ENGINES
def test_a_history_that_lacks_a_statement(spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    """One that was given before and is not now, or came late: columns would go with their values, or be filled."""
    ddl = [
        (1, "CREATE TABLE t (id int primary key, v int)"), (20, "ALTER TABLE t ADD COLUMN a int DEFAULT 7"),
        (30, "ALTER TABLE t RENAME COLUMN v TO w"),
    ]  # fmt: skip
    first: Changes = [{"commit_ts": 10, "after": {"id": "1", "v": "1"}}]
    assert merge(ddl, first, "t", (), engine=engine) == 0
    late: Ddl = [*ddl[:2], (25, "ALTER TABLE t ADD COLUMN b int DEFAULT 5"), *ddl[2:]]
    columns = {"id": "2", "a": "1", "b": "1", "w": "1"}
    for given, after, reported in ((ddl[:1], {"id": "2", "v": "1"}, "(a, w, no v)"), (late, columns, "(no b)")):
        assert merge(given, [{"commit_ts": 40, "after": after}], "t", (), engine=engine) == 2
        assert reported in capsys.readouterr().err
    assert merge([*ddl, (50, "ALTER TABLE t DROP COLUMN a")], first, "t", (), engine=engine) == 0
    assert rows(spark, "t") == [{"id": 1, "w": 1}]


_OLD: Ddl = [(1, "CREATE TABLE t (a int, b int, v int, primary key (a, b))")]
_OLD_ROWS: Changes = [{"commit_ts": n, "after": {"a": str(n), "b": "1", "v": "1"}, "key": ["a", "b"]} for n in (10, 20)]
_NEW: Ddl = [(40, "CREATE TABLE t (id int primary key, v int)")]
_NEW_ROWS: Changes = [{"commit_ts": 50, "after": {"id": "7", "v": "2"}}]


def _merge_into(ddl: Ddl, changes: Changes, engine: str, *options: str) -> int:
    made = messages(ddl, changes)
    argv = ["merge", "--format", "open", "--table", "d.t", "--time-zone", "UTC", "--engine", engine, "--ddl", "ddl"]
    return main([*argv, "--in", written(made, "given.jsonl"), *(options or ("--out", "delta:t"))])


@ENGINES
@pytest.mark.slow
def test_a_create_empties_the_place_of_another_table(spark: SparkSession, engine: str) -> None:
    """Its DROP is not given: it was filtered out, or is from before the history."""
    assert _merge_into(_OLD, _OLD_ROWS, engine) == 0
    assert _merge_into(_NEW, _NEW_ROWS, engine) == 0
    assert rows(spark, "t") == [{"id": 7, "v": 2}]
    assert _merge_into([(60, _OLD[0][1])], [], engine) == 0
    assert rows(spark, "t") == []


_MIXED: list[tuple[str, Ddl]] = [
    ("its CREATE came late", [(15, _NEW[0][1])]),
    ("another key of a snapshot", [(40, "CREATE TABLE `t` (`a` int primary key, `b` int, `v` int)")]),
    ("another table's snapshot", [(40, "CREATE TABLE `t` (`id` int primary key, `v` int)")]),
]


@ENGINES
def test_definitions_that_do_not_lead_to_a_places_key_stop(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """No key column of rows that are there is dropped, none is NULL."""
    assert _merge_into(_OLD, _OLD_ROWS, engine) == 0
    for why, ddl in _MIXED:
        keys = ["a"] if "`a`" in ddl[0][1] else ["id"]
        after = {"a": "9", "b": "1", "v": "1"} if keys == ["a"] else {"id": "9", "v": "1"}
        assert _merge_into(ddl, [{"commit_ts": 50, "after": after, "key": keys}], engine) == 2, why
        assert "STOPPED" in capsys.readouterr().err, why
        existing = sorted(rows(spark, "t"), key=lambda row: int(row["a"]))
        assert existing == [{"a": n, "b": 1, "v": 1} for n in (10, 20)], why


@pytest.mark.slow
def test_a_create_in_a_changelog_and_row_versions(spark: SparkSession) -> None:
    positions = ("--changelog", "delta:log", "--versions", "delta:versions")
    assert _merge_into(_OLD, _OLD_ROWS, "deltalake", *positions) == 0
    assert _merge_into([(40, "CREATE TABLE t (a int, b int, v int, w int, primary key (a, b))")], [], "deltalake",
                       *positions) == 0  # fmt: skip
    log = spark.read.format("delta").load(str(Path("log").absolute()))
    ops = log.orderBy("_tidb_commit_ts").select("_tidb_op", "_tidb_commit_ts").collect()
    assert [tuple(entry) for entry in ops] == [("I", 10), ("I", 20), ("DROP", 40)]
    versions = spark.read.format("delta").load(str(Path("versions").absolute()))
    assert {entry["_valid_to_ts"] for entry in versions.collect()} == {40}
    assert _merge_into([(60, _NEW[0][1])], [], "deltalake", *positions) == 2


_LETTERS: Ddl = [
    (1, "CREATE TABLE t (id int primary key, v varchar(9), w int)"),
    (30, "ALTER TABLE t RENAME COLUMN id TO ID, RENAME COLUMN v TO V, ADD COLUMN n int"),
    (40, "ALTER TABLE t CHANGE w W int"),
]
_LETTER_ROWS: Changes = [
    {"commit_ts": 10, "after": {"id": "1", "v": "a", "w": "1"}},
    {"commit_ts": 35, "after": {"id": "2", "v": "b", "w": "2", "n": "1"}},
    {"commit_ts": 50, "after": {"id": "3", "v": "c", "W": "3", "n": "2"}},
]


@ENGINES
@pytest.mark.slow
def test_columns_in_other_letters(spark: SparkSession, engine: str) -> None:
    """TiDB ignores a RENAME to other letters; CHANGE gives a column the letters that it writes."""
    assert merge(_LETTERS, _LETTER_ROWS, "t", (20, 38), engine=engine) == 0
    expected = [
        {"id": 1, "v": "a", "W": 1, "n": None}, {"id": 2, "v": "b", "W": 2, "n": 1}, {"id": 3, "v": "c", "W": 3, "n": 2}
    ]  # fmt: skip
    assert rows(spark, "t", by_spark=True) == expected


_KEYS = [
    # what, the key's column, the old row of the update was sent, the second key, keys in the table (None: STOPPED)
    ("other letters", "COLLATE utf8mb4_general_ci", False, "A", None),
    ("an accent and a space", "COLLATE utf8mb4_unicode_ci", False, "á ", None),
    ("the old row is sent", "COLLATE utf8mb4_general_ci", True, "A", ["A"]),
    ("another key", "COLLATE utf8mb4_general_ci", False, "ab", ["a", "ab"]),
    ("by bytes", "COLLATE utf8mb4_bin", False, "A", ["A", "a"]),
]


@pytest.mark.slow
@ENGINES
@pytest.mark.parametrize("together", [True, False])
def test_keys_that_are_one_to_tidb(
    spark: SparkSession, engine: str, together: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """An update that gives a key other letters takes the old one away, which nothing tells without the old row."""

    def check(case: tuple[str, str, bool, str, list[str] | None]) -> None:
        what, collate, is_sent, new, keys = case
        place = what.replace(" ", "_")
        old = {"id": "a", "v": "x"}
        changes: Changes = [
            {"commit_ts": 15, "after": old},
            {"commit_ts": 25, "op": "u", "before": old if is_sent else None, "after": {"id": new, "v": "y"}},
        ]
        code = merge([(1, f"CREATE TABLE t (id VARCHAR(9) {collate} PRIMARY KEY, v VARCHAR(9))")], changes, place,
                     () if together else (20,), engine=engine)  # fmt: skip
        if keys is None:
            assert code == 2
            assert "the key of the change at commit_ts 25 equals another row's" in capsys.readouterr().err
        else:
            assert (code, sorted(r["id"] for r in rows(spark, place))) == (0, keys)

    check_rows(_KEYS, check, lambda case: case[0])


@pytest.mark.slow
@ENGINES
def test_a_table_that_is_removed_is_missed(
    spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that had no deletes: the next changes alone do not make it."""
    ddl = [(1, "CREATE TABLE t (id int primary key, v varchar(9))")]
    changes: Changes = [{"commit_ts": n, "after": {"id": str(n), "v": "x"}} for n in (5, 15)]
    assert merge(ddl, changes[:1], "t", (), engine=engine) == 0
    place = next(path for path in (Path("t"), Path("warehouse/db/t")) if path.exists())
    shutil.rmtree(place)
    assert merge(ddl, changes[1:], "t", (), engine=engine) == 2
    assert "the table was removed" in capsys.readouterr().err
    shutil.rmtree(place.with_name("t__tombstones"))
    assert merge(ddl, changes[1:], "t", (), engine=engine) == 0
    assert [r["id"] for r in rows(spark, "t")] == [15]
