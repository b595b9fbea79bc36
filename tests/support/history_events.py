"""DDL events as TiCDC's Open Protocol sends them, and the whole of a history to compare."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.ddl_histories import recorded
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.history.model import DdlRecord
from ticdc_bridge.service.store.history_store import HistoryStore

T0 = 463_293_132_486_213_632


def framed(key: dict[str, Any], value: bytes) -> tuple[bytes, bytes]:
    text = json.dumps(key).encode()
    return (1).to_bytes(8, "big") + len(text).to_bytes(8, "big") + text, len(value).to_bytes(8, "big") + value


def ddl(ts: int, db: str, table: str, query: str, kind: int = 3, **where: Any) -> Message:
    """where: topic, partition, offset."""
    value = json.dumps({"q": query, "t": kind}).encode()
    return Message(*framed({"ts": ts, "scm": db, "tbl": table, "t": 2}, value), **where)


def resolved(ts: int, **where: Any) -> Message:
    return Message(*framed({"ts": ts, "t": 3}, b""), **where)


def line(message: Message) -> str:
    key, value = (None if field is None else base64.b64encode(field).decode() for field in (message.key, message.value))
    where = {"topic": message.topic, "partition": message.partition, "offset": message.offset}
    return json.dumps({**where, "key_b64": key, "value_b64": value}) + "\n"


def write(path: Path, messages: Iterable[Message]) -> Path:
    path.write_text("".join(map(line, messages)), encoding="utf-8")
    return path


def scripts(name: str) -> dict[str, list[dict[str, Any]]]:
    """The recorded histories of a file, by script, without what TiDB refused."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in recorded(name):
        if entry["ok"] and entry["wire"]:
            found.setdefault(entry["script"], []).append(entry)
    return found


def record(ts: int, db: str, table: str, query: str, **more: Any) -> DdlRecord:
    return DdlRecord("c", ts, db, table, query, **more)


def everything(history: HistoryStore, changefeed: str) -> dict[str, list[Any]]:
    """All versions of all names: positions, states, logical tables, columns."""
    found = {}
    for row in history.tables(changefeed, limit=10_000):
        found[str(row.id).lower()] = [
            (v.from_ts, v.to_ts, str(v.state), v.table_id, v.since, v.reason, v.table)
            for v in history.versions(changefeed, *row.id)[0]
        ]
    return found
