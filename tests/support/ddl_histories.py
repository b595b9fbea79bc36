"""The recorded histories of a real TiDB (tests/golden/ddl), and its answers in the form that a replay prints."""

import base64
import json
from functools import cache
from typing import Any

from tests.support.golden import GOLDEN

FILES = ("own", "ticdc")
_AUTO_INCREMENT = 512


@cache
def lines(name: str) -> tuple[str, ...]:
    return tuple((GOLDEN / "ddl" / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1])


@cache
def recorded(name: str) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in lines(name))


def texts() -> list[str]:
    """Every different DDL text of the histories: typed, on the wire and as SHOW CREATE TABLE."""
    found = dict.fromkeys(
        text
        for name in FILES
        for line in recorded(name)
        for text in (
            line["ddl"],
            *(w["q"] for w in line["wire"]),
            *(t["show_create"] for t in line["tables_after"] if t["kind"] == "table"),
        )
    )
    return list(found)


def answer(table: dict[str, Any]) -> dict[str, Any]:
    """TiDB's table as the replay prints one."""
    shown = {line.strip().split("`")[1]: line for line in table["show_create"].splitlines() if line.startswith("  `")}
    return {
        "db": table["db"],
        "table": table["table"],
        "columns": [
            _column(c, shown[c["name"].replace("`", "``").split("`")[0]]) for c in table["columns"] if not c["hidden"]
        ],
        "primary_key": table["pk"],
        "unique_keys": {u["name"]: u["cols"] for u in table["unique"]},
    }


def _column(column: dict[str, Any], shown: str) -> dict[str, Any]:
    default = column["default"]
    if column["default_bit"] is not None:
        default = f"b'{int.from_bytes(base64.b64decode(column['default_bit']), 'big'):b}'"
    return {
        "name": column["name"],
        "type": column["column_type"],
        "zerofill": " zerofill " in shown,
        "nullable": column["nullable"],
        "charset": column["charset"],
        "collate": column["collate"],
        "default": default,
        "default_is_expr": column["default_is_expr"],
        "auto_increment": bool(column["flag"] & _AUTO_INCREMENT),
        "generated": column["generated"],
        "stored": column["stored"],
        "comment": column["comment"],
    }
