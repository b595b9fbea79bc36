"""TiCDC Debezium JSON (protocol=debezium), read and written (upstream ticdc `codec/debezium`; ticdc-wire.md §2.1).

Key and value are `{"payload":…,"schema":…}`, or `{"payload":…}` with debezium-disable-schema. Row events have op
c/u/d/r, a DDL has `ddl`, a watermark (TiDB extension) op `m`. TIMESTAMP is UTC. TiCDC loses NULL where a column has a
default, DECIMAL digits past 15 and zero dates: what a reader can't know becomes a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas import values
from schemas.codec.bounded import Bounded
from schemas.errors import LossyError, WireError
from schemas.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from schemas.publish import debezium as publish
from schemas.publish import table_changes
from schemas.table import Column, Table, TableId
from schemas.types import Kind
from schemas.wire import debezium_fields as fields
from schemas.wire import debezium_ticdc as ticdc
from schemas.wire.base import Context, commit_ts_of, refuse_changed
from schemas.wire.debezium_json import malformed, parse, schema_of
from schemas.wire.debezium_reader import ANY_TYPE, RowReader


# ---------------------------------------------------------------------------------- decoder
class DebeziumDecoder:
    """Reads rows, DDL and watermarks; column types come from the table version, else from the message's schema."""

    def __init__(self, context: Context) -> None:
        self._rows = RowReader(fields.ticdc("debezium"), context)
        self._schemas: Bounded[str, dict[str, Any] | None] = Bounded(1024, 8 << 20, lambda text, _: len(text))

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError MALFORMED, EMPTY_RECORD, TOO_LARGE."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, schema = parse(message.value, "value")
        keys = self._key(message)
        return [ticdc.event("debezium", self._rows, payload, keys, schema, lambda: self._schema_of(schema))]

    def _key(self, message: Message) -> tuple[str, ...]:
        if message.key is None:
            return ()
        payload, schema = parse(message.key, "key")
        try:
            self._schema_of(schema)
        except ValueError as error:
            raise malformed("key", str(error)[:300]) from error
        return tuple(payload)

    def _schema_of(self, rest: str) -> dict[str, Any] | None:
        if rest not in self._schemas:
            self._schemas[rest] = schema_of(rest)
        return self._schemas[rest]


# ---------------------------------------------------------------------------------- encoder
_Cell = tuple[str, Column, fields.Write]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled per table: (`"name":`, column, writer) of all columns and of the key's, and the schema texts."""

    columns: tuple[_Cell, ...]
    key: tuple[_Cell, ...]
    key_schema: str
    value_schema: str


class DebeziumEncoder:
    """Writes what TiCDC's encoder writes. `ts_ms` is the commit's time: the same input gives the same bytes."""

    def __init__(self, context: Context) -> None:
        self._options = context.options
        self._tables = context.tables
        self._plans: Bounded[tuple[Any, ...], tuple[Table, _Plan]] = Bounded()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row or a DDL statement → one message; a watermark too with the TiDB extension."""
        if isinstance(event, DdlEvent):
            return [self._ddl(event, origin)]
        if isinstance(event, Watermark):
            return [self._watermark(event, origin)] if self._options.enable_tidb_extension else []
        refuse_changed(event, self._options, keeps="lossy_decimal")  # it is a double here too
        rows = [event.before, event.after]
        if event.op == "u" and self._options.no_old_value:
            rows[0] = None
        elif event.op == "u" and event.before is None:
            event.flag("no_before")
        extra = ticdc.own_extra(event)
        partial_ = self._key_only(event)
        plan = self._plan(event, rows, partial_, extra)
        texts = [None if row is None else _row_text(plan.columns, row, event, partial_) for row in rows]
        key = _row_text(plan.key, (event.before if event.op == "d" else event.after) or {}, event, False)
        commit_ts = commit_ts_of(event, origin)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        parts = [f'"source":{self._source(event.table.id, commit_ts or 0, extra)}']
        parts.append(f'"ts_ms":{extra.get("ts_ms") or tso_physical_ms(commit_ts or 0)},"transaction":null')
        parts.append(f'"op":"{event.op}"')
        if event.op == "d":
            parts.append(f'"after":null,"before":{texts[0]}')
        elif event.op == "u":
            parts.append((f'"before":{texts[0]},' if texts[0] is not None else "") + f'"after":{texts[1]}')
        else:
            parts.append(f'"before":null,"after":{texts[1]}')
        return [self._message(origin, key, "{" + ",".join(parts) + "}", plan.key_schema, plan.value_schema)]

    def _message(self, origin: Message, key: str, value: str, key_schema: str, value_schema: str) -> Message:
        if self._options.debezium_disable_schema:
            key, value = f'{{"payload":{key}}}', f'{{"payload":{value}}}'
        else:
            key = f'{{"payload":{key},"schema":{key_schema}}}'
            value = f'{{"payload":{value},"schema":{value_schema}}}'
        return replace(
            origin, key=key.encode("utf-8", "surrogateescape"), value=value.encode("utf-8", "surrogateescape")
        )

    def _source(self, id_: TableId, commit_ts: int, extra: Mapping[str, Any]) -> str:
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        source = ticdc.source_block(id_, commit_ts, cluster_id)
        if self._options.debezium_include_start_ts and id_.table:
            source["start_ts"] = extra.get("start_ts", 0)  # 0: not known, only TiCDC's own Debezium tells it
        source["cluster_id"] = cluster_id
        return publish.compact(source)

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        options = replace(self._options, cluster_id=cluster_id, debezium_include_start_ts=False)
        source = self._source(TableId("", ""), event.commit_ts, extra)
        ts_ms = extra.get("ts_ms", tso_physical_ms(event.commit_ts))
        value = f'{{"source":{source},"ts_ms":{ts_ms},"transaction":null,"op":"m"}}'
        return self._message(origin, "{}", value, *publish.watermark_schemas(options))

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        cluster_id = ticdc.own_extra(event).get("cluster_id", self._options.cluster_id)
        changes = table_changes.of_event(event, self._tables, self._options.time_zone)
        payload = ticdc.ddl_payload(event, changes, cluster_id)
        # What a message says in bytes that are not UTF-8 it says again (surrogateescape).
        key, value = publish.compact({"databaseName": event.db}), publish.compact(payload)
        return self._message(origin, key, value, *publish.ddl_schemas(self._options))

    @staticmethod
    def _key_only(event: RowChange) -> bool:
        """A delete of which only the key is known (Avro; types.md §4 row 18)."""
        if event.key_only:
            event.flag("key_only_delete")
        return event.key_only

    def _plan(self, event: RowChange, rows: list[Row | None], key_only: bool, extra: Mapping[str, Any]) -> _Plan:
        table = event.table
        # An fsp that is not known is that of the row's value: TiCDC writes all its digits. Two kinds are enough.
        unknown = [c for c in table.columns if c.type.kind is Kind.DATETIME and c.scale is None]
        scales = {c.name: 3 if values.fraction_digits(_first_text(rows, c.name)) <= 3 else 6 for c in unknown}
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        known = (id(table), tuple(scales.values()), key_only, cluster_id)
        if known in self._plans and self._plans[known][0] is table:
            return self._plans[known][1]
        shaped = Table(
            table.id, tuple(replace(c, scale=scales[c.name]) if c.name in scales else c for c in table.columns)
        )
        plan = self._compile(shaped, frozenset(event.before or ()) if key_only else None, cluster_id)
        self._plans[known] = table, plan
        return plan

    def _compile(self, table: Table, known: frozenset[str] | None, cluster_id: str) -> _Plan:
        options = self._options
        lossy = options.on_lossy == "flag"
        columns = []
        for column in table.columns:
            unsure = column.vague == ANY_TYPE or column.type.kind in (Kind.ENUM, Kind.SET, Kind.BIT)
            if column.vague and (unsure or options.enable_tidb_extension):
                details = f"the message does not tell whether it is {column.vague}; give a table definition (--ddl)"
                raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
            if not column.virtual:
                writer = fields.writer(column, options.enable_tidb_extension, lossy)
                columns.append((publish.compact(column.name) + ":", column, writer))
        return _Plan(
            tuple(columns),
            tuple(c for c in columns if c[1].handle_key),
            publish.key_schema(table, options, cluster_id),
            publish.value_schema(table, options, cluster_id, known),
        )


def _row_text(cells: tuple[_Cell, ...], row: Row, event: RowChange, key_only: bool) -> str:
    out = []
    for name, column, write in cells:
        value = row.get(column.name)
        if value is None:
            if not key_only and column.name not in row:
                raise WireError("INVALID_VALUE", column=column.name, details="the event does not carry it")
            out.append(name + "null")
            continue
        try:
            if column.type.kind is Kind.TIMESTAMP and event.zone != "UTC":
                value, twice = values.shift_zone(str(value), event.zone, "UTC")
                if twice:
                    event.flag(f"timestamp_fold:{column.name}")
            out.append(name + write(value, event.flag))
        except LossyError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error
    return "{" + ",".join(out) + "}"


def _first_text(rows: list[Row | None], name: str) -> str:
    for row in rows:
        value = row.get(name) if row else None
        if isinstance(value, str):
            return value
    return ""
