"""`--json`: the last line on stderr is the summary, for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import shop
from tests.support.table import check_rows
from ticdc_bridge.cli import main

_AVRO = ["--schemas", str(shop.SCHEMAS_FILE), "--time-zone", shop.ZONE, "--in", str(shop.MESSAGES_FILE)]
_STORE = "sqlite:///a.db"
_ROWS = {"c": 200, "u": 43, "d": 30}


def test_the_last_line_is_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands: list[tuple[list[str], dict[str, Any]]] = [
        (["decode", "--format", "avro", *_AVRO, "--out", "rows.jsonl"],
         {"messages": 273, "rows": _ROWS, "out": 273, "errors": {}, "exit_code": 0}),
        (["decode", "--format", "avro", *_AVRO, "--tables", "shop.orders", "--out", "orders.jsonl"],
         {"out": 208, "skipped": {"other table": 65}}),
        (["transcode", "--from", "avro", "--to", "debezium", *_AVRO, "--out", "out.jsonl"],
         {"messages": 273, "out": 270, "errors": {"LOSSY_VALUE": 3}, "exit_code": 1}),
        (["replay", "--in", "out.jsonl.dead.jsonl", "--out", "again.jsonl"],
         {"read": 3, "sent": 3, "left_out": {}, "exit_code": 0}),
        (["track", "--in", str(shop.SCHEMAS_FILE.parent / "shop.invoices.open.jsonl"), "--store", _STORE],
         {"changefeed": "default", "messages": 7, "new": 2, "sealed": 2, "sealed_ts": 470728939929600000}),
        (["import", str(shop.SCHEMAS_FILE), "--store", _STORE],
         {"versions": 6, "broken": 0, "changes": {"versions": 6, "id marks": 1}, "written": True, "conflicts": 0}),
        (["import", str(shop.SCHEMAS_FILE), "--store", _STORE, "--verify"], {"different": 0, "exit_code": 0}),
        (["export", "dump.jsonl", "--store", _STORE, "--dry-run"], {"versions": 6, "written": False}),
        (["backup", "--store", _STORE, "--out", "a.backup"], {"versions": 6}),
        (["restore", "--store", "sqlite:///b.db", "--in", "a.backup"], {"versions": 6, "written": True}),
    ]  # fmt: skip

    def check(row: tuple[list[str], dict[str, Any]]) -> None:
        words, expected = row
        code = main([*words, "--json"])
        summary = json.loads(capsys.readouterr().err.splitlines()[-1])
        assert summary | expected == summary
        assert (summary["command"], summary["exit_code"]) == (words[0], code)

    check_rows(commands, check, lambda row: row[0][0])
