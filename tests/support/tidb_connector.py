"""Messages as Debezium's connector for TiDB makes them of TiCDC's (first phase, of 2026): key and row as they are.

It takes TiCDC's Debezium JSON with schemas and puts its own source block and envelope around the rows; DDL, watermarks
and messages without schema are left out.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.support.golden import Golden
from ticdc_bridge.schemas.formats.debezium.connector import TIDB
from ticdc_bridge.schemas.formats.debezium.mysql_connector import schema as publish
from ticdc_bridge.schemas.model.event import Message

PREFIX = "tidb1"


def tidb_messages(golden: Golden, schema: bool = True) -> Iterator[Message]:
    """The rows of one of TiCDC's golden cases with schemas, and a tombstone after each delete."""
    for number, message in enumerate(golden.messages()):
        key, value = (
            json.loads((field or b"null").decode("utf-8", "replace")) for field in (message.key, message.value)
        )
        payload = value["payload"]
        if payload.get("op") not in ("c", "u", "d"):
            continue
        existing = replace(message, topic=_topic(payload), partition=0, offset=number)
        made = [_dump(key["payload"], _key_schema(key["schema"], payload), schema)]
        made.append(_dump(_payload(payload, value["schema"]), _envelope(value["schema"], payload), schema))
        yield replace(existing, key=made[0], value=made[1])
        if payload["op"] == "d":
            yield replace(existing, key=made[0], value=None)


def _topic(payload: dict[str, Any]) -> str:
    return f"{PREFIX}.{payload['source']['db']}.{payload['source']['table']}"


def _payload(payload: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    row = next(f["fields"] for f in schema["fields"] if f["field"] == "after")
    doubles = {f["field"] for f in row if f["type"] in ("double", "float")}
    ours = payload["source"]
    ms = ours["ts_ms"]
    source = {
        "version": "3.7.0-SNAPSHOT", "connector": "tidb", "name": PREFIX, "ts_ms": ms, "snapshot": "false",
        "db": ours["db"], "sequence": None, "ts_us": ms * 1000, "ts_ns": ms * 1_000_000, "table": ours["table"],
        "commit_ts": ours["commit_ts"], "cluster_id": ours["cluster_id"],
    }  # fmt: skip
    times = {"ts_ms": ms + 5, "ts_us": ms * 1000 + 5000, "ts_ns": ms * 1_000_000 + 5_000_000}
    images = {  # a double is written as one (1e+16), whatever TiCDC's text of it was
        image: payload.get(image)
        and {k: float(v) if k in doubles and v is not None else v for k, v in payload[image].items()}
        for image in ("before", "after")
    }
    return {**images, "source": source, "transaction": None, "op": payload["op"], **times}


def _key_schema(schema: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "name": _topic(payload) + ".Key"}


def _envelope(schema: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    rows = [{**f, "name": _topic(payload) + ".Value"} for f in schema["fields"] if f["field"] in ("before", "after")]
    return publish.envelope(_topic(payload) + ".Envelope", rows, TIDB)


def _dump(payload: Any, schema: dict[str, Any], with_schema: bool) -> bytes:
    return json.dumps(
        {"schema": schema, "payload": payload} if with_schema else payload, separators=(",", ":")
    ).encode()
