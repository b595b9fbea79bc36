"""Events of TiCDC's Debezium, JSON and Avro: which kind of event a payload is, and the blocks around the row.

Source: upstream ticdc `codec/debezium/codec.go` and `avro.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.formats.base import required_commit_ts, whole_before
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumRowReader, MessageParts, commit_ts_of_source
from ticdc_bridge.schemas.formats.debezium.side_messages import check_connector, of_somebody_else
from ticdc_bridge.schemas.formats.other_fields import members_of, other_fields
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import TableId

VERSION = "2.4.0.Final"
FORMATS = ("debezium", "debezium-avro")


def with_wrapper(body: Any, where: str) -> Any:
    """A JSON value or key in the wrapper `{"payload":…}` that it loses where Kafka Connect's JSON converter passes it
    on without schemas; anything else as it is.
    """
    if not isinstance(body, dict) or "payload" in body:
        return body
    source = body.get("source")
    is_ours = isinstance(source, dict) and source.get("connector") == "TiCDC"
    return {"payload": body} if where == "key" or is_ours else body


def event(
    format_: str,
    rows: DebeziumRowReader,
    payload: dict[str, Any],
    keys: tuple[str, ...],
    token: Hashable,
    schema: Callable[[], Mapping[str, Any] | None],
) -> Event:
    """A payload → its event. `schema` is asked once, for rows. WireError MALFORMED."""
    try:
        described = schema()
        source = _source_of(payload, format_)
        commit_ts = commit_ts_of_source(source)
        extra = _extra(payload, source) | other_fields(payload=(payload, _PAYLOAD), source=(source, _SOURCE))
        if "ddl" in payload:
            return _ddl(format_, payload, source, commit_ts, extra)
        if payload["op"] == "m":
            if commit_ts is None:
                raise ValueError("a watermark without commit_ts")
            return Watermark(format_, commit_ts, extra)
        return rows.read(MessageParts(payload, source, token, described, keys), commit_ts, extra)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        details = f"not a TiCDC Debezium event: {reason_of(error)}"[:300]
        raise WireError("MALFORMED", where="value", details=details) from error


def _source_of(payload: dict[str, Any], format_: str) -> dict[str, Any]:
    """The source block of a message of TiCDC's. ValueError for what is of somebody else, or of no table."""
    source = payload.get("source")
    if not isinstance(source, dict) or "position" in payload or not ("op" in payload or "ddl" in payload):
        raise ValueError(of_somebody_else(payload) or "it has neither op nor ddl, or no source")
    check_connector(source, format_)
    return source


def _ddl(
    format_: str, payload: dict[str, Any], source: dict[str, Any], commit_ts: int | None, extra: dict[str, Any]
) -> DdlEvent:
    extra = {"tableChanges": json_exact.python(payload.get("tableChanges")), **extra}
    db, query = json_exact.utf8(payload["databaseName"], "databaseName"), json_exact.utf8(payload["ddl"], "ddl")
    return DdlEvent(format_, db, json_exact.utf8(source["table"], "table"), commit_ts, None, query, extra)


_PAYLOAD = frozenset(
    ("source", "ts_ms", "transaction", "op", "before", "after", "databaseName", "schemaName", "ddl", "tableChanges")
)
_SOURCE = frozenset(
    ("version", "connector", "name", "ts_ms", "snapshot", "db", "table", "server_id", "gtid", "file", "pos", "row",
     "thread", "query", "commit_ts", "start_ts", "cluster_id")
)  # fmt: skip


def _extra(payload: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """What TiCDC says of itself: kept to write the same message again."""
    extra: dict[str, Any] = {}
    if "ts_ms" in payload and payload["ts_ms"] is not None:
        extra["ts_ms"] = json_exact.integer(payload["ts_ms"], "ts_ms")
    if "start_ts" in source:
        extra["start_ts"] = json_exact.integer(source["start_ts"], "start_ts")
    if source.get("cluster_id", "default") != "default":
        extra["cluster_id"] = json_exact.utf8(source["cluster_id"], "cluster_id")
    return extra


def source_block(id_: TableId, commit_ts: int, cluster_id: str) -> dict[str, Any]:
    """The source block that TiCDC writes, up to commit_ts; start_ts and cluster_id follow it."""
    return {
        "version": VERSION, "connector": "TiCDC", "name": cluster_id, "ts_ms": tso_physical_ms(commit_ts),
        "snapshot": "false", "db": id_.db, "table": id_.table, "server_id": 0, "gtid": None, "file": "", "pos": 0,
        "row": 0, "thread": 0, "query": None, "commit_ts": commit_ts,
    }  # fmt: skip


def own_extra(event: Event) -> dict[str, Any]:
    """What the event carries of TiCDC's Debezium; nothing, where it comes from another format."""
    return event.extra if event.format in FORMATS else {}


def change_written(event: RowChange, options: Options) -> tuple[str, Row | None, bool]:
    """(op, old row, whether that is the key alone) as a row is written; flags an update whose old row is not known."""
    before = whole_before(event)
    if event.op != "u":
        return event.op, before, event.key_only
    if options.no_old_value:
        return "u", None, event.key_only
    if before is not None:
        return "u", before, event.key_only
    event.flag("no_before")
    handle_key, after = event.table.handle_key, event.after or {}
    match options.update_without_before:
        case "upsert":
            return "c", None, event.key_only
        case "key-before" if handle_key and all(name in after for name in handle_key):
            return "u", {name: after[name] for name in handle_key}, True
    return "u", None, event.key_only


def ddl_payload(
    event: DdlEvent, changes: list[dict[str, Any]], cluster_id: str, origin: Message, options: Options
) -> dict[str, Any]:
    """The payload of a DDL message, in TiCDC's key order. WireError INVALID_VALUE for a commit_ts that is none."""
    commit_ts, extra = required_commit_ts(event, origin, options) or 0, own_extra(event)
    return {
        "source": {
            **source_block(TableId(event.db, event.table), commit_ts, cluster_id), "cluster_id": cluster_id,
            **members_of(extra, "source"),
        },
        "ts_ms": own_extra(event).get("ts_ms", tso_physical_ms(commit_ts)),
        "databaseName": event.db,
        "schemaName": None,
        "ddl": schema_changes.statement(event),
        "tableChanges": changes,
        **members_of(extra, "payload"),
    }  # fmt: skip
