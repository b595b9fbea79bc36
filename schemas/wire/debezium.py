"""TiCDC Debezium JSON (protocol=debezium), read and written (upstream ticdc `codec/debezium`; ticdc-wire.md §2.1).

Key and value are `{"payload":…,"schema":…}`, or `{"payload":…}` with debezium-disable-schema. Row events have op
c/u/d/r, a DDL has `ddl`, a watermark (TiDB extension) op `m`. TIMESTAMP is UTC. TiCDC loses NULL where a column has a
default, DECIMAL digits past 15 and zero dates: what a reader can't know becomes a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schemas import values
from schemas.codec.bounded import Bounded
from schemas.errors import LossyError, WireError
from schemas.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from schemas.publish import debezium as publish
from schemas.publish import table_changes
from schemas.table import Table, TableId
from schemas.types import Kind
from schemas.wire import debezium_fields as fields
from schemas.wire import debezium_ticdc as ticdc
from schemas.wire.base import Context, commit_ts_of, refuse_changed
from schemas.wire.debezium_json import malformed, parse, schema_of
from schemas.wire.debezium_plan import (
    Cell,
    Layout,
    Plan,
    Slot,
    compile_plan,
    envelope,
    kind_of_row,
    layout,
    source_block,
    unsized,
)  # fmt: skip
from schemas.wire.debezium_reader import RowReader


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
class DebeziumEncoder:
    """Writes what TiCDC's encoder writes. `ts_ms` is the commit's time: the same input gives the same bytes."""

    def __init__(self, context: Context) -> None:
        self._options = context.options
        self._tables = context.tables
        self._plans: Bounded[tuple[Any, ...], tuple[Table, Plan]] = Bounded()

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
        key_only = self._key_only(event)
        plan = self._plan(event, rows, key_only, extra)
        key = event.before if event.op == "d" else event.after
        texts = {
            Slot.BEFORE: "null" if rows[0] is None else _row_text(plan.columns, rows[0], event, key_only),
            Slot.AFTER: "null" if rows[1] is None else _row_text(plan.columns, rows[1], event, key_only),
            Slot.KEY: _row_text(plan.key, key or {}, event, False),
        }
        commit_ts = commit_ts_of(event, origin)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        texts |= _times(commit_ts or 0, extra)
        value = plan.values[kind_of_row(event.op, rows[0] is not None)]
        return [_message(origin, plan.key_layout, value, texts)]

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        options = replace(self._options, cluster_id=cluster_id, debezium_include_start_ts=False)
        key_schema, value_schema = publish.watermark_schemas(options)
        payload = envelope("m", source_block(TableId("", ""), cluster_id, options), {})
        value = layout(payload, value_schema, options)
        texts = _times(event.commit_ts, extra)
        if "ts_ms" in extra:
            texts[Slot.TS_MS] = str(extra["ts_ms"])  # whatever it is, unlike a row's
        return _message(origin, layout({}, key_schema, options), value, texts)

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        cluster_id = ticdc.own_extra(event).get("cluster_id", self._options.cluster_id)
        changes = table_changes.of_event(event, self._tables, self._options.time_zone)
        key_schema, value_schema = publish.ddl_schemas(self._options)
        # What a message says in bytes that are not UTF-8 it says again (surrogateescape).
        key = layout({"databaseName": event.db}, key_schema, self._options)
        value = layout(ticdc.ddl_payload(event, changes, cluster_id), value_schema, self._options)
        return _message(origin, key, value, {})

    @staticmethod
    def _key_only(event: RowChange) -> bool:
        """A delete of which only the key is known (Avro; types.md §4 row 18)."""
        if event.key_only:
            event.flag("key_only_delete")
        return event.key_only

    def _plan(self, event: RowChange, rows: list[Row | None], key_only: bool, extra: Mapping[str, Any]) -> Plan:
        table = event.table
        # Two kinds are enough: milliseconds, and microseconds.
        scales = {c.name: 3 if values.fraction_digits(_first_text(rows, c.name)) <= 3 else 6 for c in unsized(table)}
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        known = frozenset(event.before or ()) if key_only else None
        of = (id(table), tuple(scales.values()), known, cluster_id)
        if of in self._plans and self._plans[of][0] is table:
            return self._plans[of][1]
        plan = compile_plan(table, scales, known, cluster_id, self._options)
        self._plans[of] = table, plan
        return plan


def _times(commit_ts: int, extra: Mapping[str, Any]) -> dict[Slot, str]:
    ms = tso_physical_ms(commit_ts)
    own = extra.get("ts_ms")
    return {
        Slot.SOURCE_MS: str(ms), Slot.COMMIT_TS: str(commit_ts), Slot.TS_MS: str(own or ms),
        Slot.START_TS: str(extra.get("start_ts", 0)),  # 0: not known, only TiCDC's own Debezium tells it
    }  # fmt: skip


def _message(origin: Message, key: Layout, value: Layout, texts: Mapping[Slot, str]) -> Message:
    made = ("".join(p if isinstance(p, str) else texts[p] for p in part) for part in (key, value))
    key_data, value_data = (text.encode("utf-8", "surrogateescape") for text in made)
    return replace(origin, key=key_data, value=value_data)


def _row_text(cells: tuple[Cell, ...], row: Row, event: RowChange, key_only: bool) -> str:
    out = []
    for cell in cells:
        column = cell.column
        value = row.get(column.name)
        if value is None:
            if not key_only and column.name not in row:
                raise WireError("INVALID_VALUE", column=column.name, details="the event does not carry it")
            out.append(cell.name + "null")
            continue
        try:
            if column.type.kind is Kind.TIMESTAMP and event.zone != "UTC":
                value, twice = values.shift_zone(str(value), event.zone, "UTC")
                if twice:
                    event.flag(f"timestamp_fold:{column.name}")
            out.append(cell.name + cell.write(value, event.flag))
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
