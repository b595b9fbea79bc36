"""Tables learned from the DDL of a stream."""

import random

import pytest

from tests.support.ddl_histories import recorded
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.event import DdlEvent, ms_to_tso
from ticdc_bridge.schemas.model.table import TableId, TableVersion
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import StreamDefinitions

T = TableId("d", "t")


def ddl(commit_ts: int, query: str, db: str = "d", table: str = "t") -> DdlEvent:
    return DdlEvent("open", db, table, commit_ts, None, query)


def columns(version: TableVersion | None) -> list[str] | None:
    return None if version is None else [c.name for c in version.table.columns]


def test_a_row_has_the_version_below_it() -> None:
    found = StreamDefinitions()
    for event in (ddl(10, "CREATE TABLE `t` (`a` INT)"), ddl(20, "ALTER TABLE `t` ADD COLUMN `b` INT")):
        found.learn(event)
    assert columns(found.at(T, 10)) is None
    assert columns(found.at(T, 20)) == ["a"]
    assert columns(found.at(T, 21)) == columns(found.at(T, None)) == ["a", "b"]
    version = found.at(T, 21)
    assert version is not None
    assert version.commit_ts == 20


def test_what_is_not_understood_makes_the_table_unknown() -> None:
    found = StreamDefinitions()
    found.learn(ddl(10, "CREATE TABLE `t` (`a` INT)"))
    found.learn(ddl(20, "ALTER TABLE `t` FROBNICATE"))
    found.learn(ddl(30, "ALTER TABLE `t` ADD COLUMN `b` INT"))
    found.learn(ddl(40, "CREATE TABLE `t` (`c` INT)"))
    assert [columns(found.at(T, ts)) for ts in (15, 25, 35, 45)] == [["a"], None, None, ["c"]]


def test_what_is_given_comes_first() -> None:
    given = TableDefinitions(versions([DdlText(10, "d", "CREATE TABLE t (x INT)")]))
    found = StreamDefinitions(given)
    found.learn(ddl(10, "CREATE TABLE `t` (`a` INT)"))
    assert columns(found.at(T, 20)) == ["x"]
    assert columns(found.sanitised(T, ("x",), 20)) == ["x"]


def test_repeated_and_late_events_give_the_same_history() -> None:
    """DDL is sent to every partition and again after a restart, in any interleaving of partitions."""
    script = recorded("own")[0]["script"]
    events = [
        ddl(entry["ts"], entry["q"], entry["scm"], entry["tbl"])
        for line in recorded("own")
        if line["script"] == script and line["ok"]
        for entry in line["wire"]
    ]
    in_order = StreamDefinitions()
    for event in events:
        in_order.learn(event)
    shuffled, chance = StreamDefinitions(), random.Random(5)
    # Statements of one commit_ts keep their order, as they do on one partition.
    for event in sorted(events + events, key=lambda e: (e.commit_ts or 0) // (1 << 28) + chance.random() * 40):
        if event.commit_ts and sum(e.commit_ts == event.commit_ts for e in events) == 1:
            shuffled.learn(event)
    for event in events:
        shuffled.learn(event)
    for event in events:
        for id_ in (TableId(event.db, event.table), TableId(event.db.upper(), event.table)):
            for ts in (event.commit_ts, (event.commit_ts or 0) + 1, None):
                assert in_order.at(id_, ts) == shuffled.at(id_, ts)


def test_ddl_without_a_commit_ts(capsys: pytest.CaptureFixture[str]) -> None:
    """Canal's es counts, the commit's millisecond; what has no time is not used, which is said once."""
    queries = "CREATE TABLE t (a INT)", "ALTER TABLE t ADD COLUMN b INT"
    found = StreamDefinitions()
    for query, ms in zip(queries, (5, 9), strict=True):
        found.learn(DdlEvent("canal-json", "d", "t", None, None, query, {"es": ms}))
    assert columns(found.at(T, ms_to_tso(5) + 1)) == ["a"]
    assert columns(found.at(T, ms_to_tso(9) + 1)) == columns(found.at(T, None)) == ["a", "b"]
    found = StreamDefinitions()
    for query in queries:
        found.learn(DdlEvent("debezium-mysql", "d", "t", None, None, query, {"source": {"ts_ms": 5}}))
        assert found.at(T, None) is None
    assert capsys.readouterr().err.count("without a commit_ts is not used") == 1


def test_wire_mode_is_for_ticdc_only() -> None:
    found = StreamDefinitions()
    query = r"CREATE TABLE t (a ENUM('x\\y'))"
    found.learn(DdlEvent("debezium-mysql", "d", "t", 1, None, query))
    version = found.at(T, 2)
    assert version is not None
    assert version.table.columns[0].elements == ("x\\y",)
    assert versions([DdlText(1, "d", query, WIRE)])[0].table.columns[0].elements == (r"x\\y",)
