"""Every statement that a real TiDB accepted gives the tables that it gave."""

from dataclasses import fields
from typing import Any

import pytest

from tests.support.ddl_histories import FILES, answer, lines, recorded
from tests.support.each import each
from tests.support.golden import Golden, cases
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, Database, new_catalog
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.inputs.table_definitions import _version
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.service.history.table_json import HistoryMode, replay

MODES: tuple[HistoryMode, ...] = ("wire", "typed")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FILES)
def test_tables_are_tidbs(name: str, mode: HistoryMode) -> None:
    """Names, order, types, nullability, character sets, defaults, keys: all of them, after each statement."""
    results = list(replay(lines(name), mode))
    assert len(results) == len(recorded(name))
    wrong = []
    for line, result in zip(recorded(name), results, strict=True):
        if not line["ok"] or (mode == "wire" and not line["wire"]):
            assert result["tables"] == []
            assert result["gone"] == []
            continue
        expected = {(t["db"], t["table"]): answer(t) for t in line["tables_after"] if t["kind"] == "table"}
        found = {(t["db"], t["table"]): t for t in result["tables"]}
        gone = sorted([g["db"], g["table"]] for g in line["tables_gone"])
        if not result["ok"] or found != expected or sorted(result["gone"]) != gone:
            wrong.append((line["seq"], line["ddl"], result["error"]))
    assert wrong == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FILES)
def test_show_create_table_gives_the_same_table(name: str, mode: HistoryMode) -> None:
    compared = 0
    for line, catalog in _catalogs(name, mode):
        for reported in line["tables_after"]:
            id_ = TableId(reported["db"], reported["table"])
            followed = catalog.table(id_)
            # FLASHBACK DATABASE never reaches the wire.
            if reported["kind"] == "table" and not (followed is None and mode == "wire" and not line["wire"]):
                assert _shown(reported["show_create"], id_) == followed, line["ddl"]
                compared += 1
    assert compared > {"own": 90, "ticdc": 1100}[name]


def _shown(text: str, id_: TableId) -> Table | None:
    empty = Catalog().with_database(Database(id_.db, DEFAULT))
    return apply(empty, parse(text, SHOW, id_.db), id_.db).table(id_)


def _catalogs(name: str, mode: HistoryMode) -> list[tuple[dict[str, Any], Catalog]]:
    out, script, catalog = [], None, new_catalog()
    for line in recorded(name):
        if line["script"] != script:
            catalog, script = new_catalog(), line["script"]
        if line["ok"]:
            typed = [(line["db"], line["ddl"], LexicalMode.of_sql_mode(line["sql_mode"]))]
            wire = [(entry["scm"], entry["q"], WIRE) for entry in line["wire"]]
            for db, text, lexical in typed if mode == "typed" else wire:
                catalog = apply(catalog, parse(text, lexical, db), db)
            out.append((line, catalog))
    return out


# ---- the tables behind the golden messages: TiDB listed their columns
_COMPARED = [
    f.name
    for f in fields(Column)
    if f.name not in ("id", "comment", "zerofill", "auto_increment", "on_update", "generated", "default_is_expr")
    and f.name not in ("unique_key", "multiple_key")
]


@each("golden", [g for g in cases("avro") if g.name.endswith(".ext1")], ids=str)
def test_columns_are_those_tidb_listed(golden: Golden) -> None:
    steps = [s for s in golden.meta["steps"] if s["kind"] == "ddl"]
    texts = [DdlText(s["commit_ts"], s["schema"], s["sql"], TYPED) for s in steps]
    made = {(v.commit_ts, v.table.id): v.table for v in versions(texts, golden.meta["session_tz"])}
    for step in steps:
        if not step.get("columns") or not all(c["mysql_type"] for c in step["columns"]):
            continue
        listed = _version(step).table
        mine = made[step["commit_ts"], listed.id]
        # With row checksums TiDB's list is in order of column ids.
        ordered = {c.name: c for c in mine.columns}
        for column in listed.columns:
            assert _facts(column, column) == _facts(ordered[column.name], column)
        assert len(ordered) == len(listed.columns)


def _facts(column: Column, listed: Column) -> dict[str, object]:
    found = {name: getattr(column, name) for name in _COMPARED}
    if listed.length is None:
        del found["length"]  # listed for DECIMAL and BIT only
    if listed.type.name == "double":
        del found["scale"]
    if isinstance(listed.default, bytes) and b"\xef\xbf\xbd" in listed.default:
        del found["default"]  # the list is JSON: bytes that are not UTF-8 are lost in it
    return found
