"""Messages as Debezium's connectors 3.6 write them, for Flink, Hudi, RisingWave and others that read them.

The envelope has all fields always; a delete is followed by a tombstone. An update that changes the key is the delete of
the old one and the insert of the new one, each with the other's key in a header (Debezium's documentation of the MySQL
connector, "Primary key updates"). `schemas.formats.debezium.connector` has the source block and what orders changes.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context, commit_ts_of, complete_before, refuse_changed, required_commit_ts
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.debezium.connect import ConnectForm, RowValues, plain_writer, row_values
from ticdc_bridge.schemas.formats.debezium.connector import MYSQL, TIDB, Connector
from ticdc_bridge.schemas.formats.debezium.mysql_connector import schema as publish
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.formats.other_fields import members_of
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import TRUNCATE_TABLE, DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import is_clock

_CARRIED = (MYSQL.format, TIDB.format, "debezium", "debezium-avro")  # whose ts_ms is the connector's own clock
_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"

Serialise = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled per table: the key's columns in order, values of a row, and key and value → bytes."""

    keys: tuple[str, ...]
    row: RowValues
    key: Serialise | None
    value: Serialise

    def key_of(self, row: dict[str, Any] | None) -> bytes | None:
        """The key of a row's values; None in a table without one. WireError INVALID_VALUE where the row lacks it."""
        if self.key is None or row is None:
            return None
        try:
            return self.key({name: row[name] for name in self.keys})
        except KeyError as error:
            details = "the row lacks it, and it is of the key"
            raise WireError("INVALID_VALUE", column=str(error.args[0]), details=details) from error


class ConnectorEncoder:
    """JSON with schema or without (debezium_disable_schema), or Confluent Avro (encoding_format=avro)."""

    connector: Connector

    def __init__(self, context: Context) -> None:
        self._context = context
        self._options = self.connector.chosen(context.options)
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, _Plan]] = BoundedCache()
        self._ddl_writers: tuple[Serialise, Serialise] | None = None

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → its messages: a tombstone follows a delete, and a changed key makes a delete and an insert.

        DDL → a schema change, of a connector that writes them; a truncation → op t where it is asked for. Watermarks:
        nothing, as no consumer takes them.
        """
        if isinstance(event, RowChange):
            return self._row(event, origin)
        if not isinstance(event, DdlEvent):
            return []
        out = [self._schema_change(event, origin)] if self.connector.schema_changes else []
        truncates = event.ddl_type == TRUNCATE_TABLE or event.extra.get("op") == "t"
        if truncates and self._options.skipped_operations == "none":
            out.append(self._truncate(event, origin))
        return out

    def topic_of(self, event: Event) -> str | None:
        """The topic of a table's messages where nobody names another; None: that of the message read."""
        if not self.connector.names_topics or not isinstance(event, RowChange | DdlEvent):
            return None
        return publish.topic(TableId(event.db, event.table_name), self._options)

    # ------------------------------------------------------------------------------ rows
    def _row(self, event: RowChange, origin: Message) -> list[Message]:
        refuse_changed(event, self._options)
        if event.key_only:
            event.flag("key_only_delete")
        if (event.before if event.op == "d" else event.after) is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        row_names = frozenset(event.before or ()) if event.key_only else None
        source = self._source(event, origin)
        plan = self._plan(event.table, event.key, row_names, origin.topic, source["commit_ts"] is not None)
        before, after = (None if row is None else plan.row(row, event) for row in (complete_before(event), event.after))
        if event.op == "d":
            return self._deleted(plan, event, source, before, origin)
        key = plan.key_of(after)
        if event.op == "u" and before is not None and (old := plan.key_of(before)) != key:
            deleted = self._deleted(plan, event, source, before, self._with_key(origin, _NEW_KEY, plan, after))
            payload = self._payload(event, source, "c", None, after)
            inserted = replace(self._with_key(origin, _OLD_KEY, plan, before), key=key, value=plan.value(payload))
            assert old is not None
            return [*deleted, inserted]
        op = event.op
        if op == "u" and before is None:
            op, before = self._without_before(event, plan, after or {})
        payload = self._payload(event, source, op, before if op == "u" else None, after)
        return [replace(origin, key=key, value=plan.value(payload))]

    def _without_before(
        self, event: RowChange, plan: _Plan, after: dict[str, Any]
    ) -> tuple[Any, dict[str, Any] | None]:
        """(op, old row) of an update whose old row is not known: Flink and others stop at op u without one."""
        event.flag("no_before")
        match self._options.update_without_before:
            case "null":
                return "u", None
            case "key-before" if plan.keys:
                return "u", {name: value if name in plan.keys else None for name, value in after.items()}
        return "c", None

    def _deleted(
        self, plan: _Plan, event: RowChange, source: dict[str, Any], before: dict[str, Any] | None, origin: Message
    ) -> list[Message]:
        key = plan.key_of(before)
        message = replace(origin, key=key, value=plan.value(self._payload(event, source, "d", before, None)))
        if key is not None and self._options.tombstones_on_delete:
            return [message, replace(message, value=None)]
        return [message]

    def _with_key(self, origin: Message, header: str, plan: _Plan, row: dict[str, Any] | None) -> Message:
        """The message with the other key of its row in a header: as its own key in JSON, in Avro as JSON alone."""
        avro = self._options.encoding_format == "avro"
        key = _json_bytes({name: (row or {})[name] for name in plan.keys}) if avro else plan.key_of(row)
        others = (h for h in origin.headers if h[0] not in (_NEW_KEY, _OLD_KEY))
        return replace(origin, headers=(*others, (header, key)))

    def _truncate(self, event: DdlEvent, origin: Message) -> Message:
        id_ = TableId(event.db, event.table)
        version = self._context.tables.at(id_, event.commit_ts) if self._context.tables else None
        if version is None and not self._options.debezium_disable_schema:
            details = f"the columns of {id_} are not known; give a table definition ({Hint.DDL})"
            raise WireError("TYPE_UNKNOWN", column="*", details=details)
        plan = self._plan(version.table if version else Table(id_, ()), (), None, origin.topic)
        payload = self._payload(event, self._source(event, origin), "t", None, None)
        return replace(origin, key=None, value=plan.value(payload))

    def _schema_change(self, event: DdlEvent, origin: Message) -> Message:
        """DDL as Debezium's `include.schema.changes` sends it, to the topic `<topic.prefix>`."""
        topic = publish.topic(None, self._options)
        if self._ddl_writers is None:
            key_schema, value_schema = publish.ddl_schemas(self.connector)
            serialise = self._avro if self._options.encoding_format == "avro" else self._json
            self._ddl_writers = serialise(key_schema, f"{topic}-key"), serialise(value_schema, f"{topic}-value")
        write_key, write_value = self._ddl_writers
        source = self._source(event, origin)
        change = {
            "source": source,
            "ts_ms": self._times(event, source)["ts_ms"],
            "databaseName": event.db,
            "schemaName": None,
            "ddl": schema_changes.statement(event),
            "tableChanges": schema_changes.of_event(event, self._context.tables, self._options.time_zone),
        }
        value = write_value(change)
        return replace(origin, topic=topic, key=write_key({"databaseName": event.db}), value=value)

    # ------------------------------------------------------------------------------ the blocks around the row
    def _source(self, event: RowChange | DdlEvent, origin: Message) -> dict[str, Any]:
        id_ = TableId(event.db, event.table_name)
        if (carried := self._carried_source(event, id_)) is not None:
            return carried
        if isinstance(event, DdlEvent):
            commit_ts: int | None = required_commit_ts(event, origin, self._options) or 0
        elif (commit_ts := commit_ts_of(event)) is None:
            event.flag("commit_ts_unknown")
        return self.connector.source(id_, event, commit_ts, origin, self._options)

    def _carried_source(self, event: RowChange | DdlEvent, id_: TableId) -> dict[str, Any] | None:
        """The source block of an event that was this connector's message; fields of ours that it lacks are null.

        WireError INVALID_VALUE for one of another table: a reader would take the row for that table's.
        """
        carried = event.extra.get("source") if event.format == self.connector.format else None
        if not isinstance(carried, dict) or "flattened" in event.extra:  # of a flattened row there are pieces
            return None
        if (carried.get("db"), carried.get("table")) != id_:
            origin = f"{carried.get('db')!r:.60}, table {carried.get('table')!r:.60}"
            raise WireError("INVALID_VALUE", column="source", details=f"it is of db {origin}, and the event of {id_}")
        return {**carried, "commit_ts": carried.get("commit_ts"), "cluster_id": carried.get("cluster_id")}

    def _payload(
        self, event: RowChange | DdlEvent, source: dict[str, Any], op: str, before: Any, after: Any
    ) -> dict[str, Any]:
        transaction = event.extra.get("transaction") if event.format in _CARRIED else None
        times = self._times(event, source)
        others = members_of(event.extra, "payload") if event.format == self.connector.format else {}
        images = {"before": before, "after": after}
        return {**images, "source": source, "transaction": transaction, "op": op, **times, **others}

    @staticmethod
    def _times(event: RowChange | DdlEvent, source: dict[str, Any]) -> dict[str, int]:
        extra = event.extra if event.format in _CARRIED else {}
        ms = next((t for t in (extra.get("ts_ms"), source.get("ts_ms")) if isinstance(t, int)), 0)
        return {"ts_ms": ms, "ts_us": extra.get("ts_us") or ms * 1000, "ts_ns": extra.get("ts_ns") or ms * 1_000_000}

    # ------------------------------------------------------------------------------ plans
    def _plan(
        self, table: Table, key: tuple[str, ...], row_names: frozenset[str] | None, topic: str | None,
        has_commit_ts: bool = True,
    ) -> _Plan:  # fmt: skip
        sent_to = topic if self._options.encoding_format == "avro" else None
        of = id(table), key, row_names, sent_to, has_commit_ts
        if (cached := self._plans.get(of)) is not None:
            return cached[1]
        options = self._options
        primary = next((i.columns for i in table.indexes if i.name == "PRIMARY"), ())
        keys = tuple(primary or key or table.handle_key)
        if options.update_without_before == "key-before" and keys:
            row_names = frozenset(keys)  # in all messages, or the schema would go to and fro
        columns = tuple(c for c in table.columns if not c.virtual)
        propagate = options.column_propagate_source_type
        settings = {
            "signed64": "marked" if propagate else "set bigint_unsigned_handling_mode to precise",
            "raw_text": False,
            "binary": options.binary_handling_mode,
        }
        row = row_values(columns, lambda c: publish.connect_type(c, options)[:2], options, required=True, **settings)
        defaults = {c.name: self._default(c, settings) for c in columns if not c.nullable and c.default is not None}
        serialise = self._avro if options.encoding_format == "avro" else self._json
        key_schema = publish.key_schema(table, keys, options) if keys else None
        value_schema = publish.value_schema(table, self.connector, options, defaults, row_names, has_commit_ts)
        write_key = None if key_schema is None else serialise(key_schema, f"{sent_to}-key")
        plan = _Plan(keys, row, write_key, serialise(value_schema, f"{sent_to}-value"))
        self._plans[of] = table, plan
        return plan

    def _default(self, column: Column, settings: dict[str, Any]) -> Any:
        """A NOT NULL column's default as JSON has it; None for an expression, or where the form can't hold it.

        A TIMESTAMP's is left out: the connector writes it for a zero date, and a reader would take the value for one.
        """
        if column.default_is_expr or is_clock(column.default) or column.type.kind is Kind.TIMESTAMP:
            return None
        form = ConnectForm(column, *publish.connect_type(column, self._options)[:2], lossy=False, **settings)
        try:
            value = plain_writer(form)(column.default)
        except (WireError, ValueError, TypeError, AttributeError):
            return None
        return values.base64_text(value) if isinstance(value, bytes) else value

    def _json(self, schema: dict[str, Any], _subject: str) -> Serialise:
        if self._options.debezium_disable_schema:
            return _json_bytes
        head = b'{"schema":' + _json_bytes(schema) + b',"payload":'
        return lambda payload: head + _json_bytes(payload) + b"}"

    def _avro(self, schema: dict[str, Any], subject: str) -> Serialise:
        if subject.startswith("None-"):
            details = f"Avro needs a topic for its subjects, and the message has none: give {Hint.TOPIC}"
            raise WireError("USAGE", details=details)
        text = publish.avro_text(schema)
        write, id_ = avro_schema.writer(avro_schema.parse_schema(text)), self._context.schemas.id_of(subject, text)

        def frame_payload(payload: Any) -> bytes:
            try:
                return frame(id_, write(payload))
            except ValueError as error:
                details = "no value of its Avro type"
                raise WireError("INVALID_VALUE", column=str(error)[:100], details=details) from error

        return frame_payload


class DebeziumMysqlEncoder(ConnectorEncoder):
    """Messages of the MySQL connector."""

    connector = MYSQL


class DebeziumTidbEncoder(ConnectorEncoder):
    """Messages of the TiDB connector."""

    connector = TIDB


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=values.base64_text).encode()
