"""Changes without commit_ts are told apart, ordered and compared by their binlog position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.rows import ORIGIN, change, column, table
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.pipeline.event_order import (
    BinlogPosition,
    binlog_position,
    binlog_server,
    change_id,
    split_key_change,
)

MADE = table(column("v", "int"))


def _position(op: str = "u", **source: Any) -> BinlogPosition | None:
    event = change(MADE, {"v": "1"}, op=op, commit_ts=None, extra={"source": source})  # type: ignore[arg-type]
    return binlog_position(event)


ASCENDING = [
    _position("r", file="bin.000123", pos=900),
    _position(file="mysql-bin.000009", pos=900, row=7),
    _position(file="mysql-bin.000009", pos=1000),
    _position(file="mysql-bin.000123", pos=4),
    _position(file="mysql-bin.000123", pos=4, row=1),
    _position(file="mysql-bin.000123", pos=4, row=2047),
    _position(file="mysql-bin.000123", pos=5000),
    _position(file="mysql-bin.999999", pos=(1 << 32) - 1),
    _position(file="mysql-bin.1000000", pos=4),
]


def test_positions_ascend() -> None:
    places = [place for place in ASCENDING if place is not None]
    assert len(places) == len(ASCENDING)
    assert places == sorted(places)
    numbers = [place.number for place in places]
    assert numbers == sorted(set(numbers))
    assert 0 == numbers[0] <= numbers[-1] < 1 << 63
    with pytest.raises(WireError, match="file number 1048576"):
        _ = BinlogPosition(True, 1 << 20, 4, 0).number


@pytest.mark.parametrize(
    "source", [{}, {"file": "", "pos": 0}, {"file": "bin", "pos": 4}, {"file": "bin.1"}, {"file": "bin.1", "pos": True}]
)
def test_what_is_no_position(source: dict[str, Any]) -> None:
    assert _position(**source) is None


UUID = "123e4567-e89b-12d3-a456-426655440000"
SOURCES: list[tuple[dict[str, Any], tuple[str, int] | None]] = [
    ({"gtid": f"{UUID}:57", "server_id": 1}, (UUID, 57)),
    ({"gtid": f"{UUID.upper()}:57"}, (UUID, 57)),
    ({"gtid": f"{UUID}:tag:57"}, (f"{UUID}:tag", 57)),
    ({"gtid": "0-1-5"}, ("0", 5)),
    ({"gtid": None, "server_id": 223344}, ("server_id 223344", 0)),
    ({"gtid": "odd", "server_id": 2}, ("server_id 2", 0)),
    ({"gtid": None, "server_id": 0}, None),
    ({"server_id": True}, None),
    ({}, None),
]


def test_whose_transaction_a_change_is() -> None:
    def check(row: tuple[dict[str, Any], tuple[str, int] | None]) -> None:
        event = change(MADE, {"v": "1"}, op="u", commit_ts=None, extra={"source": row[0]})
        assert binlog_server(event) == row[1]

    check_rows(SOURCES, check)
    assert binlog_server(change(MADE, {"v": "1"}, op="r", extra={"source": {"gtid": "0-1-5"}})) is None


class _Pair(NamedTuple):
    """Two changes of one key, and whether they are the same one."""

    first: dict[str, Any]
    second: dict[str, Any]
    same: bool
    ops: str = "uu"


HERE = {"file": "bin.000003", "pos": 200, "row": 0}
PAIRS = [
    _Pair(HERE, HERE, True),
    _Pair(HERE, {**HERE, "file": "other-bin.3"}, True),
    _Pair(HERE, {**HERE, "row": 1}, False),
    _Pair(HERE, {**HERE, "pos": 201}, False),
    _Pair(HERE, {**HERE, "file": "bin.000004"}, False),
    _Pair(HERE, HERE, False, "uc"),
    _Pair({**HERE, "gtid": "a:1"}, {**HERE, "gtid": "a:1"}, True),
    _Pair({**HERE, "gtid": "a:1"}, {**HERE, "gtid": "b:1"}, False),
    _Pair(HERE, {**HERE, "ts_ms": 5}, True),
    _Pair(HERE, HERE, True, "rr"),
    _Pair(HERE, {**HERE, "file": ""}, False),
]


def test_which_changes_are_one() -> None:
    def check(row: _Pair) -> None:
        ids = [
            change_id(change(MADE, {"v": "1"}, op=op, commit_ts=None, extra={"source": source}), ORIGIN, number)  # type: ignore[arg-type]
            for number, (op, source) in enumerate(zip(row.ops, (row.first, row.second), strict=True))
        ]
        assert (ids[0] == ids[1]) == row.same

    check_rows(PAIRS, check)


def test_an_update_of_the_key_is_of_two_keys() -> None:
    event = change(MADE, {"id": "2", "v": "1"}, {"id": "1"})
    split = [(e.op, e.before, e.after) for e in split_key_change(event)]
    assert split == [("d", {"id": "1", "v": "1"}, None), ("c", None, {"id": "2", "v": "1"})]
    same = change(MADE, {"v": "1"}, {"v": "2"})
    assert list(split_key_change(same)) == [same]


def test_verify_of_an_update_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Canal-JSON says in one change is the delete and the insert that debezium-mysql has for it."""
    monkeypatch.chdir(tmp_path)
    types = {"id": "int", "name": "varchar"}
    body = {
        "id": 0, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "UPDATE",
        "es": 1764000000000, "ts": 1764000000001, "sql": "", "sqlType": {"id": 4, "name": 12}, "mysqlType": types,
        "old": [{"id": "1", "name": "a"}], "data": [{"id": "2", "name": "a"}],
        "_tidb": {"commitTs": 462422016000000001},
    }  # fmt: skip
    written([Message(None, json.dumps(body).encode(), "orders", 0, 0)], "canal.jsonl")
    ddl = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"}
    Path("ddl.jsonl").write_text(json.dumps(ddl))
    common = ["--ddl", "ddl.jsonl", "--time-zone", "UTC"]
    formats = ["--from", "canal-json", "--to", "debezium-mysql"]
    assert main(["transcode", *formats, *common, "--in", "canal.jsonl", "--out", "out.jsonl"]) == 0
    assert main(["verify", *formats, *common, "--in", "canal.jsonl", "--against", "out.jsonl"]) == 0
