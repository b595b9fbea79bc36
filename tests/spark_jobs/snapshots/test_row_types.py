"""Values of a source in the exact types of the lake: what none of them can be."""

from datetime import datetime

from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.arrow.library import pa
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
