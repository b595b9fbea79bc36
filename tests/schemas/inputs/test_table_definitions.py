"""`--ddl META`: the version of a table that a row belongs to."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import FORMATS, GOLDEN, Golden, cases
from tests.support.mysql_server import PlayedTidb, serving
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.arguments import tables_of

ID = TableId("d", "t")


def version(commit_ts: int, *names: str, id_: TableId = ID, kind: str = "int") -> TableVersion:
    return TableVersion(commit_ts, Table(id_, tuple(Column(n, BY_NAME[kind]) for n in names)))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 60))
def test_a_row_has_the_newest_version_below_it(stamps: list[int], commit_ts: int) -> None:
    """A row whose commit_ts equals a DDL's belongs to the version before; of equal ones the last stands."""
    versions = [version(ts, f"c{i}") for i, ts in enumerate(stamps)]
    below = [v for v in sorted(versions, key=lambda v: v.commit_ts) if v.commit_ts < commit_ts]
    found = TableDefinitions(versions)
    assert found.at(ID, commit_ts) == (below[-1] if below else None)
    assert found.at(ID, None) == sorted(versions, key=lambda v: v.commit_ts)[-1]
    assert found.at(TableId("d", "other"), commit_ts) is None


def test_sanitised_names_find_the_table() -> None:
    made = version(5, "订单-no", "b", id_=TableId("名", "1 t"))
    found = TableDefinitions([made])
    avro = TableId("_", "_1_t")
    assert found.sanitised(avro, ("___no", "b"), 6) == made
    assert found.sanitised(avro, ("b",), None) == made  # a key-only delete
    assert found.sanitised(avro, ("b",), 5) is None
    assert found.sanitised(avro, ("x",), 6) is None
    assert found.sanitised(TableId("名", "1 t"), ("b",), 6) is None


def test_without_a_commit_ts_the_columns_tell_or_nothing_does() -> None:
    old, wide, other = version(1, "a", "b"), version(2, "a", "b", "c"), version(3, "a", "b", kind="bigint")
    assert TableDefinitions([old, wide]).sanitised(ID, ("a", "b"), None) == old
    assert TableDefinitions([old, wide]).sanitised(ID, ("a", "b", "c"), None) == wide
    assert TableDefinitions([old, other]).sanitised(ID, ("a", "b"), None) is None
    assert TableDefinitions([old, wide]).sanitised(ID, ("a",), None) is None


def test_columns_are_the_metas() -> None:
    check_rows([g for name in FORMATS for g in cases(name)], _columns_are_the_metas)


def _columns_are_the_metas(golden: Golden) -> None:
    tables = golden.definitions
    for step in golden.meta["steps"]:
        listed: list[dict[str, Any]] = step.get("columns") or []
        if not listed or not all(c["mysql_type"] for c in listed):
            continue
        found = tables.at(TableId(step["schema"], step["table"]), step["commit_ts"] + 1)
        assert found is not None
        if found.commit_ts != step["commit_ts"]:
            continue
        columns = found.table.columns
        assert [c.name for c in columns] == [c["name"] for c in listed]
        assert [c.type.code for c in columns] == [c["mysql_type"] for c in listed]
        assert [not c.nullable for c in columns] == [c["not_null"] for c in listed]
        assert [c.primary_key for c in columns] == [c["pri_key"] for c in listed]
        assert [c.handle_key for c in columns] == [c["handle_key"] for c in listed]
        assert [c.has_default for c in columns] == [c["default"] is not None for c in listed]
        assert [list(c.elements) for c in columns] == [c.get("elems") or [] for c in listed]
        assert found.table.handle_key == tuple(c["name"] for c in listed if c["handle_key"])
        assert len({sanitise_name(c.name) for c in columns}) <= len(columns)


_OTHER_FILES = (
    "", "x", "[]", "{}", "1", '{"steps":1}', '{"steps":[{"columns":[{}]}]}',
    '{"commit_ts":1,"db":"d","query":"CREATE TABLE t(a int"}',
    '{"commit_ts":1,"db":"d","query":"CREATE TABLE t(a int)"}\n{"commit_ts":2,"db":"d","query":"TRUNCATE u"}',
    '{"commit_ts":"1","db":"d","query":"CREATE TABLE t(a int)"}',
    '{"commit_ts":1,"db":"d","query":"CREATE TABLE t(a int)","mode":"guess"}',
    '{"commit_ts":1,"query":"CREATE TABLE t(a int)"}', "\ud800",
)  # fmt: skip


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ddl.jsonl"

    def check(content: str) -> None:
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        with pytest.raises(SetupError, match=r"--ddl .*ddl\.jsonl") as caught:
            TableDefinitions.read(path)
        assert caught.value.code == "USAGE"

    check_rows(_OTHER_FILES, check, ascii)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        TableDefinitions.read(tmp_path / "no.meta.json")


def test_type_that_is_not_known_is_refused(tmp_path: Path) -> None:
    meta = json.loads((GOLDEN / "avro" / "pk_int.ext1.meta.json").read_text())
    next(s for s in meta["steps"] if s.get("columns"))["columns"][0]["mysql_type"] = 255
    path = tmp_path / "x.meta.json"
    path.write_text(json.dumps(meta))
    with pytest.raises(SetupError, match=r"neither lines of DDL nor a golden's meta\.json"):
        TableDefinitions.read(path)


def test_ddl_lines_in_three_ways_of_writing(tmp_path: Path) -> None:
    lines = [
        {"commit_ts": 30, "db": "d", "query": "CREATE TABLE `t` (`z` INT)", "mode": "show"},
        {"commit_ts": 10, "db": "d", "query": r"CREATE TABLE `t` (`a` VARCHAR(9) DEFAULT 'x\\y')"},
        {"commit_ts": 20, "db": "d", "query": 'alter table t add "b" int', "typed": True, "sql_mode": "ANSI_QUOTES"},
        {"commit_ts": 40, "db": "d", "query": "CREATE TABLE `u` (`a` TIMESTAMP DEFAULT '2020-01-01 08:00:00')"},
    ]
    path = tmp_path / "ddl.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    found = TableDefinitions.read(path, "Asia/Shanghai")
    versions = [found.at(ID, ts) for ts in (10, 20, 30, 31)]
    assert versions[0] is None
    assert [[c.name for c in v.table.columns] for v in versions if v] == [["a"], ["a", "b"], ["z"]]
    assert [v.commit_ts for v in versions if v] == [10, 20, 30]
    assert versions[1] is not None
    assert versions[1].table.columns[0].default == r"x\y"
    other = found.at(TableId("d", "u"), None)
    assert other is not None
    assert other.table.columns[0].default == "2020-01-01 00:00:00"


def test_a_folder_and_a_live_tidb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `ddl=` and `--ddl`; the definitions hold for rows of any commit_ts."""
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`a` int);")
    with serving(PlayedTidb({("d", "t"): "CREATE TABLE `t` (`a` int)"}, "secret")) as tidb:
        url = f"mysql://root:secret@127.0.0.1:{tidb.port}/d"
        for source in (str(tmp_path), tmp_path, url):
            tables = tables_of(source, None)
            assert tables is not None
            found = tables.at(ID, 5)
            assert (found.commit_ts, [c.name for c in found.table.columns]) == (0, ["a"]) if found else False
        (tmp_path / "m.jsonl").write_text("")
        command = ["decode", "--format", "open", "--in", str(tmp_path / "m.jsonl"), "--out", "-", "--ddl"]
        assert main([*command, url]) == 0
    assert main([*command, url]) == 2
    assert "--ddl mysql://***@127.0.0.1" in capsys.readouterr().err
