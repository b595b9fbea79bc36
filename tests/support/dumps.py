"""Dumpling's real dumps (tests/golden/dumpling) and the rows that TiDB held; dumps of other tables in its form."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.golden import GOLDEN
from ticdc_bridge.schemas.model import values

DUMPS = GOLDEN / "dumpling"
BY_TIME = json.loads((DUMPS / "dumps.json").read_text())["tso"]
FOLDERS = sorted(path.name for path in DUMPS.iterdir() if path.is_dir())
WITHOUT_ROWS = ("filter", "no-data", "csv-pipes")
"""Folders without definitions, without rows, and one whose NULLs and texts look alike."""
ZONE = "+08:00"
UTC = ("csv-utc", "parquet-zstd-utc")
"""The server's zone, and the folders that were dumped in UTC."""


@cache
def rows_of(table: str, zone: str = "UTC") -> list[dict[str, Any]]:
    """What TiDB held of a table: texts, bytes, None; TIMESTAMP in the zone."""
    rows = list[dict[str, Any]]()
    for line in map(json.loads, (DUMPS / "rows.jsonl").read_text().splitlines()):
        if line["table"] == table:
            rows.append({name: _value(name, value, zone) for name, value in line["row"].items()})
    return rows


def _value(name: str, value: Any, zone: str) -> Any:
    if name.startswith("c_timestamp") and value is not None:
        return values.shift_zone(value, "UTC", zone)[0]
    data = bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
    if name.startswith("c_bit") and data is not None:
        data = bytes.fromhex(data) if isinstance(data, str) else data
        return data[-((int(name[5:]) + 7) // 8) :]
    return data


def write_dump(
    folder: Path, tso: int, create: str, *files: Iterable[Iterable[str | None]], db: str = "d", table: str = "t"
) -> str:
    """A table in a folder as Dumpling writes it, which may have others already; what `load --source` takes.

    create: SHOW CREATE TABLE. files: of each the rows: texts, in the order of `create`'s columns.
    """
    folder.mkdir(exist_ok=True)
    (folder / "metadata").write_text(
        f"Started dump at: 2026-11-28 10:00:00\nSHOW BINARY LOG STATUS:\n\tLog: tidb-binlog\n\tPos: {tso}\n\tGTID:\n\n"
        "Finished dump at: 2026-11-28 10:00:01\n"
    )
    head = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
    (folder / f"{db}-schema-create.sql").write_text(f"{head}CREATE DATABASE `{db}`;\n")
    (folder / f"{db}.{table}-schema.sql").write_text(f"{head}{create};\n")
    for number, rows in enumerate(files):
        texts = ["(" + ",".join("NULL" if v is None else f"'{v}'" for v in row) + ")" for row in rows]
        if texts:
            content = f"{head}INSERT INTO `{table}` VALUES\n" + ",\n".join(texts) + ";\n"
            (folder / f"{db}.{table}.{number:09}.sql").write_text(content)
    return f"dumpling:{folder}"
