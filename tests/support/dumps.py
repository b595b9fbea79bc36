"""Dumpling's real dumps (tests/golden/dumpling) and the rows that TiDB held."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.golden import GOLDEN
from ticdc_bridge.schemas.model import values

DUMPS = GOLDEN / "dumpling"
BY_TIME = json.loads((DUMPS / "dumps.json").read_text())["tso"]
FOLDERS = sorted(path.name for path in DUMPS.iterdir() if path.is_dir())
WITHOUT_ROWS = ("csv-sql", "filter", "no-data", "csv-pipes")
"""Folders without definitions, without rows, and one whose NULLs and texts look alike."""
ZONE = "+08:00"
UTC = ("csv-utc", "parquet-zstd-utc")
"""The server's zone, and the folders that were dumped in UTC."""


@cache
def rows_of(table: str, zone: str = "UTC") -> list[dict[str, Any]]:
    """What TiDB held of a table: texts, bytes, None; TIMESTAMP in the zone."""
    lines = [json.loads(line) for line in (DUMPS / "rows.jsonl").read_text().splitlines()]
    rows = [{n: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for n, v in line["row"].items()}
            for line in lines if line["table"] == table]  # fmt: skip
    for row in rows:
        for name in (name for name in row if name.startswith("c_timestamp") and row[name] is not None):
            row[name] = values.shift_zone(row[name], "UTC", zone)[0]
        for name in (name for name in row if name.startswith("c_bit") and row[name] is not None):
            size = (int(name[5:]) + 7) // 8
            row[name] = bytes.fromhex(row[name])[-size:] if isinstance(row[name], str) else row[name][-size:]
    return rows


def folder(name: str) -> Path:
    return DUMPS / name
