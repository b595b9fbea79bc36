"""Debezium's MySQL connector: its messages read in every setting, and written as consumers of Debezium take them.

Sources: Debezium's documentation of the MySQL connector; measured with Debezium 3.6.1.

JSON with schema, without, or Confluent Avro, told apart by the message itself. Rows have op c/u/d/r; a tombstone is no
event; a truncation (op t) and a schema change are DDL events. TIMESTAMP is UTC. There is no commit_ts, but in what the
bridge wrote itself. What the connector loses (zero dates, digits in connect mode) is flagged where it can be seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.codec import json_exact
from schemas.codec.bounded_cache import BoundedCache
from schemas.formats.base import Context
from schemas.formats.debezium.connect.document import ConnectSchema, document
from schemas.formats.debezium.connector import MYSQL
from schemas.formats.debezium.mysql_connector import values
from schemas.formats.debezium.row_reader import DebeziumRowReader, MessageParts, commit_ts_of_source
from schemas.formats.framing import MAX_MESSAGE, unframe
from schemas.model.errors import WireError
from schemas.model.event import DdlEvent, Event, Message, RowChange
from schemas.model.names import quote_name
from schemas.model.ports import SchemaId

_TRUNCATE = 11  # TiDB's ActionType
# What ExtractNewRecordState adds to a row (`add.fields`), and what of it the reader needs.
_FLAT = ("__op", "__deleted")


class DebeziumMysqlDecoder:
    """Reads rows, truncations and schema changes; column types come from the table version and the message's schema."""

    connector = MYSQL

    def __init__(self, context: Context) -> None:
        self._schemas = context.schemas
        self._rows = DebeziumRowReader(values.dialect(context.options, self.connector.format), context)
        self._documents: BoundedCache[SchemaId, ConnectSchema] = BoundedCache(100_000)
        self._recent = _RecentSchemas()

    def decode(self, message: Message) -> list[Event]:
        """One message → one event, none for a tombstone. WireError as the error table says."""
        if message.value is None:
            return []
        payload, token, schema = self._read(message.value, "value")
        if payload is None:
            return []
        keys: tuple[str, ...] = ()
        if message.key is not None:
            keys = tuple(self._read(message.key, "key")[0] or ())
        try:
            event = self._event(payload, token, schema, keys)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise _malformed_error("value", f"not an event of Debezium's MySQL connector: {reason}") from error
        if isinstance(event, RowChange) and isinstance(token, int):
            event.schema_id = token
        return [event]

    def _event(
        self, payload: dict[str, Any], token: Hashable, schema: Mapping[str, Any] | None, keys: tuple[str, ...]
    ) -> Event:
        if "op" in payload and "source" in payload:
            return self._row(payload, token, schema, keys)
        if "ddl" in payload and "source" in payload:
            return _ddl(self.connector.format, payload)
        if any(name in payload for name in _FLAT):
            return self._read_flattened(payload, token, schema, keys)
        if "status" in payload and "event_count" in payload:
            raise ValueError("a transaction marker (provide.transaction.metadata): read the topics of the tables only")
        if set(payload) == {"ts_ms"}:
            raise ValueError("a heartbeat: read the topics of the tables only")
        raise ValueError("neither an envelope nor a schema change; a flattened row needs __op (add.fields)")

    def _row(
        self, payload: dict[str, Any], token: Hashable, schema: Mapping[str, Any] | None, keys: tuple[str, ...]
    ) -> Event:
        source = payload["source"]
        commit_ts = commit_ts_of_source(source)
        extra: dict[str, Any] = {"source": json_exact.python(source)}
        for name in ("ts_ms", "ts_us", "ts_ns", "transaction"):
            if payload.get(name) is not None:
                extra[name] = json_exact.python(payload[name])
        if payload["op"] == "t":
            db, table = json_exact.utf8(source["db"], "db"), json_exact.utf8(source["table"], "table")
            query = f"TRUNCATE TABLE {quote_name(db)}.{quote_name(table)}"
            return DdlEvent(self.connector.format, db, table, commit_ts, _TRUNCATE, query, {"op": "t", **extra})
        return self._rows.read(MessageParts(payload, source, token, schema, keys), commit_ts, extra)

    def _read_flattened(
        self, payload: dict[str, Any], token: Hashable, schema: Mapping[str, Any] | None, keys: tuple[str, ...]
    ) -> RowChange:
        """A row as ExtractNewRecordState leaves it: op and names from the fields it added. ValueError without them."""
        op = payload.get("__op") or ("d" if payload.get("__deleted") == "true" else None)
        if op is None:
            raise ValueError("a flattened row without __op: insert and update look the same (add.fields=op,db,table)")
        if "__db" not in payload or "__table" not in payload:
            raise ValueError("a flattened row without __db and __table: whose it is can't be known (add.fields)")
        row = {k: v for k, v in payload.items() if not k.startswith("__")}
        if schema is not None:
            columns = [f for f in schema["fields"] if not f["field"].startswith("__")]
            schema = {"fields": [{"field": "after", "fields": columns}]}
        source = {"db": payload["__db"], "table": payload["__table"]}
        old, new = (row, None) if op == "d" else (None, row)
        flat: dict[str, Any] = {"op": op, "before": old, "after": new}
        extra = {"flattened": json_exact.python({k: v for k, v in payload.items() if k.startswith("__")})}
        return self._rows.read(MessageParts(flat, source, ("flat", token), schema, keys), None, extra)

    # ------------------------------------------------------------------------------ bytes → payload
    def _read(self, data: bytes, where: str) -> tuple[dict[str, Any] | None, Hashable, Mapping[str, Any] | None]:
        """(payload or None, what stands for the schema in caches, schema or None)."""
        if data[:1] in (b"\x00", b"\x03"):  # Confluent's header, or AWS Glue's: no JSON begins so
            schema_id, pos = unframe(data, where)
            doc = self._documents.get(schema_id)
            if doc is None:
                doc = self._documents[schema_id] = document(self._schemas.by_id(schema_id, where), where)
            return doc.read(data, pos, where), schema_id, doc.schema
        if len(data) > MAX_MESSAGE:
            raise WireError("TOO_LARGE", where=where, details=f"{len(data)} bytes, at most {MAX_MESSAGE}")
        try:
            return self._json(json_exact.document(data))
        except ValueError as error:
            raise _malformed_error(where, f"not a message of Debezium's MySQL connector: {error}") from error

    def _json(self, text: str) -> tuple[dict[str, Any] | None, Hashable, Mapping[str, Any] | None]:
        """`{"schema":…,"payload":…}`, the payload with our own wrapper, or the payload alone. ValueError.

        Kafka's JsonConverter writes the schema first: it is looked up by its text, and parsed once.
        """
        entry = self._recent.find(text)
        if entry is not None:
            payload, end = json_exact.decode_from(text, len(entry.head))
            if text[end:].strip(" \t\r\n") != "}":
                raise ValueError("the message goes on after its payload")
            return _object(payload), entry.head, entry.schema
        whole = json_exact.decode(text)
        if not isinstance(whole, dict):
            raise ValueError("it is no object")
        if set(whole) == {"schema", "payload"} and isinstance(whole["schema"], dict):
            token = json_exact.dump(whole["schema"])
            self._recent.add(text, whole["schema"])
            return _object(whole["payload"]), token, whole["schema"]
        if set(whole) in ({"payload"}, {"schema", "payload"}) and isinstance(whole["payload"], dict | None):
            return whole["payload"], None, None
        return whole, None, None


@dataclass(frozen=True, slots=True)
class _KnownSchema:
    """A schema, and the text of a message up to its payload."""

    head: str
    schema: dict[str, Any]


class _RecentSchemas:
    """The schemas of the last messages. Their texts are compared, not parsed; few and small ones are kept."""

    def __init__(self) -> None:
        self._found: list[_KnownSchema] = []

    def find(self, text: str) -> _KnownSchema | None:
        for place, entry in enumerate(self._found):
            if text.startswith(entry.head):
                if place > 8:
                    self._found.insert(0, self._found.pop(place))
                return entry
        return None

    def add(self, text: str, schema: dict[str, Any]) -> None:
        if not text.startswith(_SCHEMA):
            return
        end = json_exact.decode_from(text, len(_SCHEMA))[1]
        if end < _LARGEST and text.startswith(_PAYLOAD, end):
            self._found = [_KnownSchema(text[: end + len(_PAYLOAD)], schema), *self._found][:_MOST_RECENT]


_MOST_RECENT, _LARGEST = 64, 1 << 18
_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'


def _object(payload: Any) -> dict[str, Any] | None:
    if not isinstance(payload, dict | None):
        raise ValueError("the payload is no object")
    return payload


def _malformed_error(where: str, details: str) -> WireError:
    return WireError("MALFORMED", where=where, details=details[:300])


def _ddl(format_: str, payload: dict[str, Any]) -> DdlEvent:
    source, changes = payload["source"], json_exact.python(payload.get("tableChanges"))
    db = json_exact.utf8(payload.get("databaseName") or "", "databaseName")
    table = source.get("table") or _table_of(changes)
    extra = {"tableChanges": changes, "source": json_exact.python(source)}
    extra |= {k: json_exact.python(payload[k]) for k in ("ts_ms",) if k in payload}
    query = json_exact.utf8(payload["ddl"], "ddl")
    return DdlEvent(format_, db, json_exact.utf8(table, "table"), commit_ts_of_source(source), None, query, extra)


def _table_of(changes: Any) -> str:
    """The table's name of the only change's id, `"db"."table"`; "" where there are several or none."""
    ids = [change["id"] for change in changes or ()]
    parts = ids[0][1:-1].split('"."') if len(ids) == 1 else []
    return parts[-1] if len(parts) == 2 else ""
