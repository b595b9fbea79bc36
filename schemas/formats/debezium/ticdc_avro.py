"""TiCDC Debezium Avro (protocol=debezium-avro), read and written (upstream ticdc `codec/debezium/avro.go`).

Key and value are Confluent-framed records. With avro-enable-watermark and the TiDB extension, DDL and watermarks are
records too. TIMESTAMP is UTC. NULL is lost where a column has a default, as in the JSON form; DECIMAL and binary values
are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.base import Context, refuse_changed, required_commit_ts
from ticdc_bridge.schemas.formats.debezium import avro_schema as publish
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.debezium import ticdc_events as ticdc
from ticdc_bridge.schemas.formats.debezium import values as fields
from ticdc_bridge.schemas.formats.debezium.connect.document import ConnectSchema, document
from ticdc_bridge.schemas.formats.debezium.connect.value_writers import RowValues, row_values
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumRowReader
from ticdc_bridge.schemas.formats.framing import frame, unframe_part
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name, topic_subject
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Table, TableId

_Asked = tuple[SchemaId, str, str | None]
"""A schema's id, the part of the message that has it, and the topic: ids are counted in each context of a registry."""


# ---------------------------------------------------------------------------------------------- decoder
class DebeziumAvroDecoder:
    """Decodes with the writer schema of each record, looked up by id and compiled once."""

    def __init__(self, context: Context) -> None:
        self._source = context.schemas
        self._rows = DebeziumRowReader(fields.ticdc_dialect("debezium-avro"), context)
        self._documents: BoundedCache[_Asked, ConnectSchema] = BoundedCache(100_000)

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError as the error table says."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, asked, schema = self._read(message, "value", message.value)
        keys = () if message.key is None else tuple(self._read(message, "key", message.key)[0])
        event = ticdc.event("debezium-avro", self._rows, payload, keys, asked, lambda: schema)
        if isinstance(event, RowChange) and isinstance(asked[0], int):
            event.schema_id = asked[0]
        return [event]

    def _read(self, message: Message, part: str, data: bytes) -> tuple[dict[str, Any], _Asked, dict[str, Any]]:
        """(payload, what stands for the schema in caches, schema)."""
        schema_id, data, pos, where = unframe_part(data, part, message.headers)
        asked = (schema_id, part, message.topic)
        doc = self._documents.get(asked)
        if doc is None:
            text = self._source.by_id(schema_id, where, topic_subject(message.topic, part))
            doc = self._documents[asked] = document(text, where)
        return doc.read(data, pos, where), asked, doc.schema


# ---------------------------------------------------------------------------------------------- encoder
@dataclass(frozen=True, slots=True)
class _Record:
    """A registered schema with its writer."""

    id: SchemaId
    write: avro_schema.Writer

    def frame_value(self, value: Mapping[str, Any]) -> bytes:
        """WireError INVALID_VALUE for a value that the schema does not take."""
        try:
            return frame(self.id, self.write(value))
        except ValueError as error:
            raise WireError("INVALID_VALUE", column="*", details=f"no value of its Avro type: {error}") from error


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is compiled per table and topic. `row`: a row → values by column; the key has some of them."""

    key: _Record
    value: _Record
    keys: tuple[str, ...]
    row: RowValues


class DebeziumAvroEncoder:
    """Writes what TiCDC's encoder writes. `ts_ms` is the commit's time where the event does not carry it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._options = context.options
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, _Plan]] = BoundedCache()
        self._outer: BoundedCache[tuple[str, ...], tuple[_Record, _Record]] = BoundedCache()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → one message; DDL and watermarks too with avro-enable-watermark and the TiDB extension."""
        if isinstance(event, RowChange):
            return [self._row(event, origin)]
        if not (self._options.enable_tidb_extension and self._options.avro_enable_watermark):
            return []
        return [self._ddl(event, origin) if isinstance(event, DdlEvent) else self._watermark(event, origin)]

    def _row(self, event: RowChange, origin: Message) -> Message:
        if origin.topic is None:
            details = "Debezium Avro needs a topic for its subjects, and the message has none: give --topic"
            raise WireError("USAGE", details=details)
        refuse_changed(event, self._options)
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        plan = self._plan(event.table, origin.topic, cluster_id)
        if event.key_only:
            event.flag("key_only_delete")
        op, before, key_only = ticdc.change_written(event, self._options)
        if key_only and before is not None:
            before = {**dict.fromkeys(c.name for c in event.table.columns), **before}
        sides = [None if row is None else plan.row(row, event) for row in (before, event.after)]
        image = sides[0] if event.op == "d" else sides[1]
        if image is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        commit_ts = required_commit_ts(event, origin, self._options)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        source = {**ticdc.source_block(event.table.id, commit_ts or 0, cluster_id), "snapshot": None, "thread": None}
        value = {
            "before": sides[0],
            "after": None if event.op == "d" else sides[1],
            "source": {**source, "cluster_id": cluster_id},
            "op": op,
            "ts_ms": extra.get("ts_ms") or tso_physical_ms(commit_ts or 0),
        }
        key = plan.key.frame_value({name: image[name] for name in plan.keys})
        return replace(origin, key=key, value=plan.value.frame_value(value))

    def _plan(self, table: Table, topic: str, cluster_id: str) -> _Plan:
        entry = self._plans.get((topic, id(table), cluster_id))
        if entry is not None and entry[0] is table:
            return entry[1]
        texts = publish.row_schemas(table, self._options, cluster_id)
        columns = tuple(c for c in table.columns if not c.virtual)
        plan = _Plan(
            self._record(f"{topic}-key", texts.key),
            self._record(f"{topic}-value", texts.value),
            tuple(c.name for c in columns if c.handle_key),
            row_values(columns, lambda c: publish.connect_type(c, self._options)[:2], self._options),
        )
        self._plans[topic, id(table), cluster_id] = table, plan
        return plan

    def _record(self, subject: str, text: str) -> _Record:
        return _Record(self._context.schemas.id_of(subject, text), avro_schema.writer(avro_schema.parse_schema(text)))

    def _outer_records(
        self, name: tuple[str, ...], texts: Callable[[], publish.RecordSchemas]
    ) -> tuple[_Record, _Record]:
        """Records of DDL and watermark messages; TiCDC registers them under their names, not the topic's."""
        if name not in self._outer:
            outer = texts()
            self._outer[name] = self._record(outer.key_name, outer.key), self._record(outer.value_name, outer.value)
        return self._outer[name]

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        key, value = self._outer_records(("watermark", cluster_id), lambda: publish.watermark_schemas(cluster_id))
        source = {**ticdc.source_block(TableId("", ""), event.commit_ts, cluster_id), "cluster_id": cluster_id}
        ts_ms = extra.get("ts_ms", tso_physical_ms(event.commit_ts))
        payload = {"source": source, "op": "m", "ts_ms": ts_ms, "transaction": None}
        return replace(origin, key=key.frame_value({}), value=value.frame_value(payload))

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        name = ("ddl", sanitise_name(event.db), cluster_id)
        key, value = self._outer_records(name, lambda: publish.ddl_schemas(event.db, cluster_id))
        changes = schema_changes.of_event(event, self._context.tables, self._options.time_zone)
        payload = ticdc.ddl_payload(event, changes, cluster_id, origin, self._options)
        return replace(origin, key=key.frame_value({"databaseName": event.db}), value=value.frame_value(payload))
