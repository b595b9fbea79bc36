"""Values of a source in the exact types of the lake: what none of them can be."""

from datetime import datetime
from typing import Any

import pytest

from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.snapshots.reconcile_job import _literal
from ticdc_bridge.spark_jobs.snapshots.row_types import RowTypes

CREATE = "CREATE TABLE `t` (`d` datetime(3) NOT NULL, `at` timestamp NULL, `e` date, PRIMARY KEY (`d`))"
COLUMNS = versions([DdlText(1, "d", CREATE, SHOW)])[-1].table.columns
NEW_YORK = "America/New_York"


def test_a_key_is_never_null() -> None:
    """A zero date that the source, or the table, can't hold: rows whose key is NULL could not be told apart."""
    texts = pa.array(["0000-00-00 00:00:00.000", "2024-01-01 00:00:00.000"])
    nothing, zeros = pa.nulls(2, pa.string()), pa.array(["0000-00-00", "0000-00-00"])
    values, unfit, lost = RowTypes(COLUMNS, SparkTypes("typed"), ("UTC", "UTC"), True).fit([texts, nothing, zeros])
    assert unfit == {0: 0}
    assert values[2].to_pylist() == [None, None]
    assert +lost == {"column e: dates that its type can't hold are NULL": 1}
    of_parquet = pa.array([None, datetime(2024, 1, 1)], pa.timestamp("us"))
    values, unfit, _ = RowTypes(COLUMNS, SparkTypes(), ("UTC", "UTC"), True).fit([of_parquet, nothing, zeros])
    assert (values[0].to_pylist(), unfit) == ([None, "2024-01-01 00:00:00.000"], {0: 0})


def test_a_text_that_stands_for_two_times() -> None:
    """As clocks are put back: no source of one zone tells which, where the table has another one."""
    texts = ["2024-11-03 01:30:00", "2024-11-03 03:30:00", "0000-00-00 00:00:00", None, "2024-03-10 02:30:00"]
    days = pa.array([f"2024-01-0{n} 00:00:00.000" for n in range(1, 6)])
    arrays = [days, pa.array(texts), pa.nulls(5, pa.string())]
    shifted = ["2024-11-03 05:30:00", "2024-11-03 08:30:00", "0000-00-00 00:00:00", None, None]
    for is_lossy, unfit, count in ((False, {0: 1, 4: 1}, 0), (True, {4: 1}, 1)):
        values, found, lost = RowTypes(COLUMNS, SparkTypes(), (NEW_YORK, "UTC"), is_lossy).fit(arrays)
        assert (values[1].to_pylist(), found) == (shifted, unfit)
        assert sum(lost.values()) == count
        assert not count or +lost == {f"column at: times that {NEW_YORK} had twice are the first": 1}
    assert not RowTypes(COLUMNS, SparkTypes(), (NEW_YORK, NEW_YORK), False).fit(arrays)[1], "the text is the table's"


def test_a_time_that_the_zone_of_the_table_had_twice() -> None:
    """In a key two rows could become one, as merge says; Spark's type has the first of them, with a flag."""
    keyed = versions([DdlText(1, "d", CREATE.replace("(`d`)", "(`d`,`at`)"), SHOW)])[-1].table.columns
    days, nothing = pa.array([f"2024-01-0{n} 00:00:00.000" for n in range(1, 3)]), pa.nulls(2, pa.string())
    local, utc = (pa.array([text, "2024-07-01 00:00:00"]) for text in ("2024-11-03 01:30:00", "2024-11-03 06:30:00"))
    counted = {f"column at: times that {NEW_YORK} had twice are the first": 1}
    for zone, texts in ((NEW_YORK, local), ("UTC", utc)):
        arrays, zones = [days, texts, nothing], (zone, NEW_YORK)
        for is_lossy in (False, True):
            _, unfit, lost = RowTypes(keyed, SparkTypes(), zones, is_lossy).fit(arrays)
            assert (unfit, +lost) == (({}, counted) if is_lossy else ({0: 1}, {}))
        _, unfit, lost = RowTypes(COLUMNS, SparkTypes("typed"), zones, False).fit(arrays)
        assert (unfit, +lost) == ({}, counted)
        assert not +RowTypes(COLUMNS, SparkTypes(), zones, False).fit(arrays)[2]


def test_a_key_that_is_no_number() -> None:
    """Of the lake: it is no SQL, and TiDB has no such row."""
    create = "CREATE TABLE `t` (`a` double NOT NULL, `b` decimal(65,30) NOT NULL, `c` float, PRIMARY KEY (`a`))"
    double, decimal, single = versions([DdlText(1, "d", create, SHOW)])[-1].table.columns
    for text in ("NaN", "Infinity", "1) OR (1", ""):
        assert [_literal(text, column) for column in (double, decimal, single)] == ["NULL"] * 3, text
    assert [_literal("1.5E22", double), _literal("1.50", decimal), _literal("0.1", single)] == [
        "1.5e+22", "1.5", "0.10000000149011612",
    ]  # fmt: skip
    numbers = pa.array(["1.23457e20", "3.4028235e38", "0.1", None])
    assert +RowTypes([single], SparkTypes(), ("UTC", "UTC"), False).fit([numbers])[2] == {
        "column c: numbers of which the dump has six digits": 2
    }


def test_values_of_another_column() -> None:
    """Of a file of another table, or of bytes that another dialect wrote: no row of this one has them."""
    kinds = "`e` enum('x','y'), `s` set('a','b','c'), `b` bit(9), `f` binary(3), `v` varbinary(4), `bl` blob"
    columns = versions([DdlText(1, "d", f"CREATE TABLE `t` ({kinds})", SHOW)])[-1].table.columns
    held: list[list[Any]] = [["y", "", None], ["c,a", "", None]]
    held += [[b"\1\0", bytes(2), None], [b"abc", b"", None], [b"abcd", b"", None]]
    foreign: list[Any] = ["z", "a,d", b"\1", b"616263", b"YWJj=", b"any"]
    for number, value in enumerate(foreign):
        rows = [*held, [b"x", b"", None]]
        arrays = [pa.array([*row, value if n == number else row[0]]) for n, row in enumerate(rows)]
        _, unfit, _ = RowTypes(columns, SparkTypes(), ("UTC", "UTC"), True).fit(arrays)
        assert unfit == ({3: number} if value != b"any" else {}), value
    numbers = versions([DdlText(1, "d", "CREATE TABLE `t` (`n` int)", SHOW)])[-1].table.columns
    for array, wanted in ((pa.array([1], pa.date32()), numbers), (pa.array([1]), columns[:1])):
        with pytest.raises(SourceError, match="another table"):
            RowTypes(wanted, SparkTypes(), ("UTC", "UTC"), True).fit([array])
