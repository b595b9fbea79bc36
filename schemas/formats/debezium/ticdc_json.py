"""TiCDC Debezium JSON (protocol=debezium), read and written (upstream ticdc `codec/debezium`).

Key and value are `{"payload":…,"schema":…}`, or `{"payload":…}` with debezium-disable-schema. Row events have op
c/u/d/r, a DDL has `ddl`, a watermark (TiDB extension) op `m`. TIMESTAMP is UTC. TiCDC loses NULL where a column has a
default, DECIMAL digits past 15 and zero dates: what a reader can't know becomes a flag.
The encoder of single events and the compiled writer of batches both write from a `RowTexts`, made once per table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from ticdc_bridge.schemas.codec import compression, json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.formats.base import Context, commit_ts_of, record_time, refuse_changed
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.debezium import ticdc_events as ticdc
from ticdc_bridge.schemas.formats.debezium import values as fields
from ticdc_bridge.schemas.formats.debezium.row_reader import ANY_TYPE, DebeziumRowReader
from ticdc_bridge.schemas.formats.debezium.side_messages import java_text, of_somebody_else
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE, check_size, json_body
from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.formats.other_fields import members_of, members_text
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind

_PAYLOAD, _SCHEMA = '{"payload":', ',"schema":'


def malformed_error(where: str, details: str) -> WireError:
    """The error of a message that is not what TiCDC writes."""
    return WireError("MALFORMED", where=where, details=details)


def parse(data: bytes, where: str) -> tuple[dict[str, Any], str]:
    """Message → (payload, text of what follows it). WireError MALFORMED, TOO_LARGE.

    TiCDC writes the payload first, so that the schema's text, the same in every message of a table version, can be
    looked up instead of parsed. A document in another order or with spaces is parsed as a whole.
    """
    check_size(data, where)
    try:
        text = json_exact.document(compression.decompress(json_body(data), MAX_MESSAGE))
        payload, rest = None, ""
        if text.startswith(_PAYLOAD + "{"):
            payload, end = json_exact.decode_from(text, len(_PAYLOAD))
            rest = text[end:]
        if rest != "}" and not (rest.startswith(_SCHEMA + "{") and rest.endswith("}}")):
            payload = None  # it may be large
            whole = ticdc.with_wrapper(json_exact.decode(text), where)
            if not isinstance(whole, dict) or "payload" not in whole:
                raise ValueError(of_somebody_else(whole) or "it has no payload")
            payload, schema = whole["payload"], whole.get("schema")
            rest = "}" if schema is None else f"{_SCHEMA}{json_exact.dump(schema)}}}"
        if not isinstance(payload, dict):
            raise ValueError("its payload is no object")
    except ValueError as error:
        reason = java_text(data) or with_body_name(reason_of(error), data)
        raise malformed_error(where, f"not a TiCDC Debezium message: {reason}"[:300]) from error
    return payload, rest


def schema_of(rest: str) -> dict[str, Any] | None:
    """What follows the payload → the schema, None with debezium-disable-schema. ValueError."""
    if rest == "}":
        return None
    schema, end = json_exact.decode_from(rest, len(_SCHEMA))
    if rest[end:] != "}" or not isinstance(schema, dict):
        raise ValueError("the message goes on after its schema")
    return schema


class Slot(Enum):
    """Where a row's own text goes. SOURCE_MS: physical ms of its commit_ts; TS_MS: the same, if nothing else is known.

    KEY, BEFORE, AFTER: objects of columns. MORE, SOURCE_MORE: members that a newer TiCDC wrote, each after a comma.
    """

    KEY = "key"
    BEFORE = "before"
    AFTER = "after"
    SOURCE_MS = "source.ts_ms"
    COMMIT_TS = "source.commit_ts"
    START_TS = "source.start_ts"
    SOURCE_MORE = "source, more members"
    MORE = "more members"
    TS_MS = "ts_ms"


Layout = tuple[str | Slot, ...]
"""A message's key or value: literals, and between them what a row puts there."""


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """A column in a row's object: `"name":`, and the writer of its values."""

    name: str
    column: Column
    write: fields.Write


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Compiled per table. columns: of rows, in order; key: of the key. key_layout: of a message's key.

    values: by what a row event is (`kind_of_row`), the layout of a message's value.
    """

    columns: tuple[ColumnTexts, ...]
    key: tuple[ColumnTexts, ...]
    key_layout: Layout
    values: Mapping[str, Layout]


KINDS = ("c", "u", "u-", "d")
"""The kinds of row that cells can say."""


def kind_of_row(op: str, before: bool) -> str:
    """The name of a row event's layout: its op, or "u-" for an update without its old row."""
    return "u-" if op == "u" and not before else op


_SIDES: dict[str, dict[str, Any]] = {
    "c": {"before": None, "after": Slot.AFTER},
    "r": {"before": None, "after": Slot.AFTER},
    "u": {"before": Slot.BEFORE, "after": Slot.AFTER},
    "u-": {"after": Slot.AFTER},
    "d": {"after": None, "before": Slot.BEFORE},
}


def unsized_columns(table: Table) -> list[Column]:
    """DATETIME columns whose fsp is not known: it is that of a row's value, as TiCDC writes all its digits."""
    return [c for c in table.columns if c.type.kind is Kind.DATETIME and c.scale is None]


def compile_plan(
    table: Table,
    scales: Mapping[str, int],
    row_names: frozenset[str] | None,
    cluster_id: str,
    options: Options,
    own: bool = False,
    more: bool = False,
    has_commit_ts: bool = True,
) -> RowTexts:
    """scales: fsp of the columns that lack one. row_names: columns of a row that has its key alone, None for a whole
    row. own: as `values.writer` has it. more: with slots for members that are carried. has_commit_ts: False for rows of
    which it is null.

    WireError TYPE_UNKNOWN for a column that can't be written or described for certain.
    """
    sized = (replace(c, scale=scales[c.name]) if c.name in scales else c for c in table.columns)
    table = Table(table.id, tuple(sized))
    columns = tuple(_cells(table, options, own))
    source = source_block(table.id, cluster_id, options)
    ends: dict[Any, Any] = {Slot.MORE: None} if more else {}
    source |= {Slot.SOURCE_MORE: None} if more else {}  # type: ignore[dict-item]
    key_schema = publish.key_schema(table, options, cluster_id)
    value_schema = publish.value_schema(table, options, cluster_id, row_names, has_commit_ts)
    values = {
        name: layout({**envelope(name.removesuffix("-"), source, sides), **ends}, value_schema, options)
        for name, sides in _SIDES.items()
    }
    return RowTexts(
        columns, tuple(c for c in columns if c.column.handle_key), layout(Slot.KEY, key_schema, options), values
    )


def _cells(table: Table, options: Options, own: bool) -> Iterator[ColumnTexts]:
    for column in table.columns:
        unsure = column.vague == ANY_TYPE or column.type.kind in (Kind.ENUM, Kind.SET, Kind.BIT)
        if column.vague and (unsure or options.enable_tidb_extension):
            details = f"the message does not tell whether it is {column.vague}; give a table definition (--ddl)"
            raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
        if not column.virtual:
            writer = fields.writer(column, options.enable_tidb_extension, options.on_lossy == "flag", own)
            yield ColumnTexts(publish.compact_json(column.name) + ":", column, writer)


def source_block(id_: TableId, cluster_id: str, options: Options) -> dict[str, Any]:
    """The source block, with slots; that of a watermark names no table."""
    source = ticdc.source_block(id_, 0, cluster_id)
    source.update(ts_ms=Slot.SOURCE_MS, commit_ts=Slot.COMMIT_TS)
    if options.debezium_include_start_ts and id_.table:
        source["start_ts"] = Slot.START_TS
    source["cluster_id"] = cluster_id
    return source


def envelope(op: str, source: Mapping[str, Any], sides: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of an event, in TiCDC's order."""
    return {"source": source, "ts_ms": Slot.TS_MS, "transaction": None, "op": op, **sides}


def layout(payload: Any, schema: str, options: Options) -> Layout:
    """A key or value with its payload, slots in it, and its schema where that is written."""
    pieces: list[str | Slot] = ['{"payload":', *_pieces(payload)]
    pieces.append("}" if options.debezium_disable_schema else f',"schema":{schema}}}')
    return tuple(_merge_pieces(pieces))


def _pieces(value: Any) -> Iterator[str | Slot]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, Mapping):
        lead = "{"
        for name, inner in value.items():
            if isinstance(name, Slot):
                yield name
                continue
            yield f"{lead}{_text(name)}:"
            yield from _pieces(inner)
            lead = ","
        yield "}" if value else "{}"
    else:
        yield _text(value) if isinstance(value, str) else publish.compact_json(value)


@lru_cache(4096)
def _text(text: str) -> str:
    return publish.compact_json(text)


def _merge_pieces(pieces: Iterable[str | Slot]) -> Iterator[str | Slot]:
    literal = ""
    for piece in pieces:
        if isinstance(piece, Slot):
            yield literal
            yield piece
            literal = ""
        else:
            literal += piece
    yield literal


# ---------------------------------------------------------------------------------- decoder
class DebeziumDecoder:
    """Reads rows, DDL and watermarks; column types come from the table version, else from the message's schema."""

    def __init__(self, context: Context) -> None:
        self._rows = DebeziumRowReader(fields.ticdc_dialect("debezium"), context)
        self._schemas: BoundedCache[str, dict[str, Any] | None] = BoundedCache(1024, 8 << 20, lambda text, _: len(text))

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
            raise malformed_error("key", reason_of(error)[:300]) from error
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
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, RowTexts]] = BoundedCache()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row or a DDL statement → one message; a watermark too with the TiDB extension."""
        if isinstance(event, DdlEvent):
            return [self._ddl(event, origin)]
        if isinstance(event, Watermark):
            return [self._watermark(event, origin)] if self._options.enable_tidb_extension else []
        refuse_changed(event, self._options, keeps="lossy_decimal")  # it is a double here too
        if event.key_only:
            event.flag("key_only_delete")
        op, before, key_only = ticdc.change_written(event, self._options)
        rows = [before, event.after]
        extra = ticdc.own_extra(event)
        commit_ts = commit_ts_of(event)
        plan = self._plan(event, rows, key_only, extra, commit_ts is not None)
        key = event.before if event.op == "d" else event.after
        texts = {
            Slot.BEFORE: "null" if rows[0] is None else _row_text(plan.columns, rows[0], event, key_only),
            Slot.AFTER: "null" if rows[1] is None else _row_text(plan.columns, rows[1], event, key_only),
            Slot.KEY: _row_text(plan.key, key or {}, event, False),
        }
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        texts |= _times(commit_ts, extra, record_time(origin))
        if OTHER_FIELDS in extra:
            texts |= {Slot.SOURCE_MORE: members_text(extra, "source"), Slot.MORE: members_text(extra, "payload")}
        value = plan.values[kind_of_row(op, rows[0] is not None)]
        return [_message(origin, plan.key_layout, value, texts)]

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc.own_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        options = replace(self._options, cluster_id=cluster_id, debezium_include_start_ts=False)
        key_schema, value_schema = publish.watermark_schemas(options)
        source = {**source_block(TableId("", ""), cluster_id, options), **members_of(extra, "source")}
        payload = {**envelope("m", source, {}), **members_of(extra, "payload")}
        value = layout(payload, value_schema, options)
        texts = _times(event.commit_ts, extra, None)
        if "ts_ms" in extra:
            texts[Slot.TS_MS] = str(extra["ts_ms"])  # whatever it is, unlike a row's
        return _message(origin, layout({}, key_schema, options), value, texts)

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        cluster_id = ticdc.own_extra(event).get("cluster_id", self._options.cluster_id)
        changes = schema_changes.of_event(event, self._tables, self._options.time_zone)
        key_schema, value_schema = publish.ddl_schemas(self._options)
        # What a message says in bytes that are not UTF-8 it says again (surrogateescape).
        key = layout({"databaseName": event.db}, key_schema, self._options)
        payload = ticdc.ddl_payload(event, changes, cluster_id, origin, self._options)
        value = layout(payload, value_schema, self._options)
        return _message(origin, key, value, {})

    def _plan(
        self, event: RowChange, rows: list[Row | None], key_only: bool, extra: Mapping[str, Any], has_commit_ts: bool
    ) -> RowTexts:
        table, cluster_id = event.table, extra.get("cluster_id", self._options.cluster_id)
        # Two kinds are enough: milliseconds, and microseconds.
        scales = {
            c.name: 3 if values.fraction_digits(_first_text(rows, c.name)) <= 3 else 6 for c in unsized_columns(table)
        }
        row_names = frozenset(rows[0] or ()) if key_only else None
        own, more = event.format == "debezium", OTHER_FIELDS in extra
        of = (id(table), tuple(scales.values()), row_names, cluster_id, own, more, has_commit_ts)
        if of in self._plans and self._plans[of][0] is table:
            return self._plans[of][1]
        plan = compile_plan(table, scales, row_names, cluster_id, self._options, own, more, has_commit_ts)
        self._plans[of] = table, plan
        return plan


def _times(commit_ts: int | None, extra: Mapping[str, Any], otherwise: int | None) -> dict[Slot, str]:
    """otherwise: ms that stand for the time of an unknown commit_ts."""
    ms = (otherwise or 0) if commit_ts is None else tso_physical_ms(commit_ts)
    own = extra.get("ts_ms")
    return {
        Slot.SOURCE_MS: str(ms), Slot.COMMIT_TS: "null" if commit_ts is None else str(commit_ts),
        Slot.TS_MS: str(own or ms),
        Slot.START_TS: str(extra.get("start_ts", 0)),  # 0: not known, only TiCDC's own Debezium tells it
    }  # fmt: skip


def _message(origin: Message, key: Layout, value: Layout, texts: Mapping[Slot, str]) -> Message:
    parts = ("".join(p if isinstance(p, str) else texts[p] for p in part) for part in (key, value))
    key_data, value_data = (text.encode("utf-8", "surrogateescape") for text in parts)
    return replace(origin, key=key_data, value=value_data)


def _row_text(cells: tuple[ColumnTexts, ...], row: Row, event: RowChange, key_only: bool) -> str:
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
            if column.type.kind is Kind.TIMESTAMP:
                value = event.in_zone(column.name, value, "UTC")
            out.append(cell.name + cell.write(value, event.flag))
        except LossyError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error
    return "{" + ",".join(out) + "}"


def _first_text(rows: list[Row | None], name: str) -> str:
    return next((value for row in rows if row and isinstance(value := row.get(name), str)), "")
