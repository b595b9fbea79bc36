"""Which change events are one: by commit_ts, by their message, and in `verify` by their binlog position."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import ORIGIN, change, column, table
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.jobs.verify import BinlogPosition, binlog_position
from ticdc_bridge.spark_jobs.pipeline.event_order import change_id, split_key_change

MADE = table(column("v", "int"))


def _position(op: str = "u", **source: Any) -> BinlogPosition | None:
    event = change(MADE, {"v": "1"}, op=op, commit_ts=None, extra={"source": source})  # type: ignore[arg-type]
    return binlog_position(event)


@pytest.mark.parametrize(
    "source", [{}, {"file": "", "pos": 0}, {"file": "bin", "pos": 4}, {"file": "bin.1"}, {"file": "bin.1", "pos": True}]
)
def test_what_is_no_position(source: dict[str, Any]) -> None:
    assert _position(**source) is None


def test_which_changes_are_one() -> None:
    """Without a commit_ts: one message alone is the same change, whatever its source says."""
    source = {"file": "bin.000003", "pos": 200, "row": 0}
    event = change(MADE, {"v": "1"}, op="u", commit_ts=None, extra={"source": source})
    ids = {change_id(event, replace(ORIGIN, offset=offset), number) for offset in (1, 2) for number in (0, 0, 1)}
    assert len(ids) == 4
    timed = change(MADE, {"v": "1"}, op="u", commit_ts=7)
    assert len({change_id(timed, replace(ORIGIN, offset=offset), 0) for offset in (1, 2)}) == 1


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
