"""TiCDC's Debezium, in JSON (protocol=debezium) and Avro (debezium-avro), read and written.

Source: upstream ticdc `codec/debezium`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from ticdc_bridge.schemas.codec import avro_schema, compression, json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.codec.json_exact import compact_json
from ticdc_bridge.schemas.formats import base, framing
from ticdc_bridge.schemas.formats.debezium import avro_schema as avro_publish
from ticdc_bridge.schemas.formats.debezium import json_schema as publish
from ticdc_bridge.schemas.formats.debezium import row_reader, schema_changes
from ticdc_bridge.schemas.formats.debezium import values as fields
from ticdc_bridge.schemas.formats.debezium.auxiliary_messages import check_connector, java_text, of_somebody_else
from ticdc_bridge.schemas.formats.debezium.connect import ConnectSchema, RowValues, document, row_values
from ticdc_bridge.schemas.formats.definitions import unknown_type_error
from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.formats.other_fields import members_of, members_text, other_fields
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import Hint, LossyError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name, topic_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind

# ---- Events of TiCDC's Debezium, JSON and Avro: which kind of event a payload is, and the blocks around the row.
#
# Source: upstream ticdc `codec/debezium/codec.go` and `avro.go`.

VERSION = "2.4.0.Final"
FORMATS = ("debezium", "debezium-avro")


def read_event(
    format_: str, rows: row_reader.DebeziumRowReader, payload: dict[str, Any], keys: tuple[str, ...], token: Hashable,
    schema: Callable[[], Mapping[str, Any] | None],
) -> Event:  # fmt: skip
    """A payload → its event. `schema` is asked once, for rows. WireError MALFORMED."""
    try:
        described = schema()
        source = payload.get("source")
        if not isinstance(source, dict) or "position" in payload or not ("op" in payload or "ddl" in payload):
            raise ValueError(of_somebody_else(payload) or "it has neither op nor ddl, or no source")
        check_connector(source, format_)
        commit_ts = row_reader.commit_ts_of_source(source)
        extra = _extra(payload, source) | other_fields(payload=(payload, _PAYLOAD), source=(source, _SOURCE))
        if "ddl" in payload:
            extra = {"tableChanges": json_exact.python(payload.get("tableChanges")), **extra}
            names = ((payload, "databaseName"), (payload, "ddl"), (source, "table"))
            db, query, table = (json_exact.utf8(members[name], name) for members, name in names)
            return DdlEvent(format_, db, table, commit_ts, None, query, extra)
        if payload["op"] == "m":
            if commit_ts is None:
                raise ValueError("a watermark without commit_ts")
            return Watermark(format_, commit_ts, extra)
        return rows.read(row_reader.MessageContent(payload, source, token, described, keys), commit_ts, extra)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise framing.malformed_error("value", f"not a TiCDC Debezium event: {reason_of(error)}") from error


_PAYLOAD = frozenset(
    ("source", "ts_ms", "transaction", "op", "before", "after", "databaseName", "schemaName", "ddl", "tableChanges")
)
_SOURCE = frozenset((*(name for _, _, name in avro_publish.SOURCE), "start_ts"))


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


def source_fields(id_: TableId, commit_ts: int, cluster_id: str) -> dict[str, Any]:
    """The source block that TiCDC writes, up to commit_ts; start_ts and cluster_id follow it."""
    return {
        "version": VERSION, "connector": "TiCDC", "name": cluster_id, "ts_ms": tso_physical_ms(commit_ts),
        "snapshot": "false", "db": id_.db, "table": id_.table, "server_id": 0, "gtid": None, "file": "", "pos": 0,
        "row": 0, "thread": 0, "query": None, "commit_ts": commit_ts,
    }  # fmt: skip


def ticdc_extra(event: Event) -> dict[str, Any]:
    """What the event carries of TiCDC's Debezium; nothing, where it comes from another format."""
    return event.extra if event.format in FORMATS else {}


def change_written(event: RowChange, options: Options) -> tuple[str, Row | None, bool]:
    """(op, old row, whether that is the key alone) as a row is written; flags an update whose old row is not known."""
    before = base.complete_before(event)
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
    commit_ts, extra = base.required_commit_ts(event, origin, options) or 0, ticdc_extra(event)
    return {
        "source": {
            **source_fields(TableId(event.db, event.table), commit_ts, cluster_id), "cluster_id": cluster_id,
            **members_of(extra, "source"),
        },
        "ts_ms": extra.get("ts_ms", tso_physical_ms(commit_ts)),
        "databaseName": event.db,
        "schemaName": None,
        "ddl": schema_changes.statement(event),
        "tableChanges": changes,
        **members_of(extra, "payload"),
    }  # fmt: skip


# ---- TiCDC Debezium JSON (protocol=debezium), read and written (upstream ticdc `codec/debezium`).
#
# Key and value are `{"payload":…,"schema":…}`, or `{"payload":…}` with debezium-disable-schema. Row events have op
# c/u/d/r, a DDL has `ddl`, a watermark (TiDB extension) op `m`. TIMESTAMP is UTC. TiCDC loses NULL where a column has a
# default, DECIMAL digits past 15 and zero dates: what a reader can't know becomes a flag.
# The encoder of single events and the compiled writer of batches both write from a `RowTexts`, made once per table.

_PAYLOAD_START, _SCHEMA = '{"payload":', ',"schema":'


def parse(data: bytes, where: str) -> tuple[dict[str, Any], str]:
    """Message → (payload, text of what follows it). WireError MALFORMED, TOO_LARGE.

    TiCDC writes the payload first, so that the schema's text, the same in every message of a table version, can be
    looked up instead of parsed. A document in another order or with spaces is parsed as a whole.
    """
    framing.check_size(data, where)
    try:
        text = json_exact.document(compression.decompress(framing.json_body(data), framing.MAX_MESSAGE))
        payload, rest = None, ""
        if text.startswith(_PAYLOAD_START + "{"):
            payload, end = json_exact.decode_from(text, len(_PAYLOAD_START))
            rest = text[end:]
        if rest != "}" and not (rest.startswith(_SCHEMA + "{") and rest.endswith("}}")):
            payload = None  # it may be large
            document = json_exact.decode(text)
            if isinstance(document, dict) and "payload" not in document:  # as Connect's JSON converter passes it on
                source = document.get("source")
                if where == "key" or (isinstance(source, dict) and source.get("connector") == "TiCDC"):
                    document = {"payload": document}
            if not isinstance(document, dict) or "payload" not in document:
                raise ValueError(of_somebody_else(document) or "it has no payload")
            payload, schema = document["payload"], document.get("schema")
            rest = "}" if schema is None else f"{_SCHEMA}{json_exact.dump(schema)}}}"
        if not isinstance(payload, dict):
            raise ValueError("its payload is no object")
    except ValueError as error:
        reason = java_text(data) or with_body_name(reason_of(error), data)
        raise framing.malformed_error(where, f"not a TiCDC Debezium message: {reason}") from error
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

    values: by the op of a row event ("u-": an update without its old row), the layout of a message's value.
    """

    columns: tuple[ColumnTexts, ...]
    key: tuple[ColumnTexts, ...]
    key_layout: Layout
    values: Mapping[str, Layout]


KINDS = ("c", "u", "u-", "d")
"""The kinds of row that cells can say."""


_IMAGES: dict[str, dict[str, Any]] = {
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
    table: Table, scales: Mapping[str, int], row_names: frozenset[str] | None, cluster_id: str, options: Options,
    same_format: bool = False, more: bool = False, has_commit_ts: bool = True,
) -> RowTexts:  # fmt: skip
    """scales: fsp of the columns that lack one. row_names: columns of a row that has its key alone, None for a whole
    row. same_format: as `values.writer` has it. more: with slots for members that are carried. has_commit_ts: False
    for rows of which it is null.

    WireError TYPE_UNKNOWN for a column that can't be written or described for certain.
    """
    table = Table(table.id, tuple(replace(c, scale=scales.get(c.name, c.scale)) for c in table.columns))
    columns = tuple(_cells(table, options, same_format))
    source = source_block(table.id, cluster_id, options)
    ends: dict[Any, Any] = {Slot.MORE: None} if more else {}
    source |= {Slot.SOURCE_MORE: None} if more else {}  # type: ignore[dict-item]
    key_schema = publish.key_schema(table, options, cluster_id)
    value_schema = publish.value_schema(table, options, cluster_id, row_names, has_commit_ts)
    values = {
        name: layout({**envelope(name.removesuffix("-"), source, images), **ends}, value_schema, options)
        for name, images in _IMAGES.items()
    }
    keys = tuple(c for c in columns if c.column.handle_key)
    return RowTexts(columns, keys, layout(Slot.KEY, key_schema, options), values)


def _cells(table: Table, options: Options, same_format: bool) -> Iterator[ColumnTexts]:
    for column in table.columns:
        unsure = column.vague == row_reader.ANY_TYPE or column.type.kind in (Kind.ENUM, Kind.SET, Kind.BIT)
        if column.vague and (unsure or options.enable_tidb_extension):
            raise unknown_type_error(column)
        if not column.virtual:
            writer = fields.writer(column, options.enable_tidb_extension, options.on_lossy == "flag", same_format)
            yield ColumnTexts(compact_json(column.name) + ":", column, writer)


def source_block(id_: TableId, cluster_id: str, options: Options) -> dict[str, Any]:
    """The source block, with slots; that of a watermark names no table."""
    source = source_fields(id_, 0, cluster_id)
    source.update(ts_ms=Slot.SOURCE_MS, commit_ts=Slot.COMMIT_TS)
    if options.debezium_include_start_ts and id_.table:
        source["start_ts"] = Slot.START_TS
    source["cluster_id"] = cluster_id
    return source


def envelope(op: str, source: Mapping[str, Any], images: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of an event, in TiCDC's order."""
    return {"source": source, "ts_ms": Slot.TS_MS, "transaction": None, "op": op, **images}


def layout(payload: Any, schema: str, options: Options) -> Layout:
    """A key or value with its payload, slots in it, and its schema where that is written."""
    end = "}" if options.debezium_disable_schema else f',"schema":{schema}}}'
    merged: list[str | Slot] = ['{"payload":']
    for piece in (*_pieces(payload), end):
        if isinstance(piece, Slot):
            merged += [piece, ""]
        else:
            merged[-1] = f"{merged[-1]}{piece}"
    return tuple(merged)


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
        yield _text(value) if isinstance(value, str) else compact_json(value)


@lru_cache(4096)
def _text(text: str) -> str:
    return compact_json(text)


# ---------------------------------------------------------------------------------- decoder
class DebeziumDecoder:
    """Reads rows, DDL and watermarks; column types come from the table version, else from the message's schema."""

    def __init__(self, context: base.Context) -> None:
        self._rows = row_reader.DebeziumRowReader(fields.ticdc_dialect("debezium"), context)
        self._schemas: BoundedCache[str, dict[str, Any] | None] = BoundedCache(1024, 8 << 20, lambda text, _: len(text))

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError MALFORMED, EMPTY_RECORD, TOO_LARGE."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, schema = parse(message.value, "value")
        keys = self._key(message)
        return [read_event("debezium", self._rows, payload, keys, schema, lambda: self._schema_of(schema))]

    def _key(self, message: Message) -> tuple[str, ...]:
        if message.key is None:
            return ()
        payload, schema = parse(message.key, "key")
        try:
            self._schema_of(schema)
        except ValueError as error:
            raise framing.malformed_error("key", reason_of(error)) from error
        return tuple(payload)

    def _schema_of(self, rest: str) -> dict[str, Any] | None:
        return self._schemas.find(rest, lambda: schema_of(rest))


# ---------------------------------------------------------------------------------- encoder
class DebeziumEncoder:
    """Writes what TiCDC's encoder writes. `ts_ms` is the commit's time: the same input gives the same bytes."""

    def __init__(self, context: base.Context) -> None:
        self._options = context.options
        self._tables = context.tables
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, RowTexts]] = BoundedCache()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row or a DDL statement → one message; a watermark too with the TiDB extension."""
        if isinstance(event, DdlEvent):
            return [self._ddl(event, origin)]
        if isinstance(event, Watermark):
            return [self._watermark(event, origin)] if self._options.enable_tidb_extension else []
        base.refuse_changed(event, self._options, keeps="lossy_decimal")  # it is a double here too
        if event.key_only:
            event.flag("key_only_delete")
        op, before, key_only = change_written(event, self._options)
        rows = [before, event.after]
        extra = ticdc_extra(event)
        commit_ts = base.commit_ts_of(event)
        plan = self._plan(event, rows, key_only, extra, commit_ts is not None)
        key = event.before if event.op == "d" else event.after
        texts = {
            Slot.BEFORE: "null" if rows[0] is None else _row_text(plan.columns, rows[0], event, key_only),
            Slot.AFTER: "null" if rows[1] is None else _row_text(plan.columns, rows[1], event, key_only),
            Slot.KEY: _row_text(plan.key, key or {}, event, False),
        }
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        texts |= _times(commit_ts, extra, base.record_time(origin))
        if OTHER_FIELDS in extra:
            texts |= {Slot.SOURCE_MORE: members_text(extra, "source"), Slot.MORE: members_text(extra, "payload")}
        return [_message(origin, plan.key_layout, plan.values["u-" if op == "u" and before is None else op], texts)]

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        options = replace(self._options, cluster_id=cluster_id, debezium_include_start_ts=False)
        key_schema, value_schema = publish.watermark_schemas(options)
        source = {**source_block(TableId("", ""), cluster_id, options), **members_of(extra, "source")}
        value = layout({**envelope("m", source, {}), **members_of(extra, "payload")}, value_schema, options)
        texts = _times(event.commit_ts, extra, None)
        if "ts_ms" in extra:
            texts[Slot.TS_MS] = str(extra["ts_ms"])  # whatever it is, unlike a row's
        return _message(origin, layout({}, key_schema, options), value, texts)

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        cluster_id = ticdc_extra(event).get("cluster_id", self._options.cluster_id)
        changes = schema_changes.of_event(event, self._tables, self._options.time_zone)
        key_schema, value_schema = publish.ddl_schemas(self._options)
        # What a message says in bytes that are not UTF-8 it says again (surrogateescape).
        key = layout({"databaseName": event.db}, key_schema, self._options)
        value = layout(ddl_payload(event, changes, cluster_id, origin, self._options), value_schema, self._options)
        return _message(origin, key, value, {})

    def _plan(
        self, event: RowChange, rows: list[Row | None], key_only: bool, extra: Mapping[str, Any], has_commit_ts: bool
    ) -> RowTexts:
        table, cluster_id = event.table, extra.get("cluster_id", self._options.cluster_id)
        scales = {}
        for column in unsized_columns(table):  # two kinds are enough: milliseconds, and microseconds
            text = next((value for row in rows if row and isinstance(value := row.get(column.name), str)), "")
            scales[column.name] = 3 if values.fraction_digits(text) <= 3 else 6
        row_names = frozenset(rows[0] or ()) if key_only else None
        same_format, more = event.format == "debezium", OTHER_FIELDS in extra
        of = (id(table), tuple(scales.values()), row_names, cluster_id, same_format, more, has_commit_ts)
        if of in self._plans:
            return self._plans[of][1]
        plan = compile_plan(table, scales, row_names, cluster_id, self._options, same_format, more, has_commit_ts)
        self._plans[of] = table, plan
        return plan


def _times(commit_ts: int | None, extra: Mapping[str, Any], otherwise: int | None) -> dict[Slot, str]:
    """otherwise: ms that stand for the time of an unknown commit_ts."""
    ms = (otherwise or 0) if commit_ts is None else tso_physical_ms(commit_ts)
    written_at = extra.get("ts_ms")
    return {
        Slot.SOURCE_MS: str(ms), Slot.COMMIT_TS: "null" if commit_ts is None else str(commit_ts),
        Slot.TS_MS: str(written_at or ms),
        Slot.START_TS: str(extra.get("start_ts", 0)),  # 0: not known, only TiCDC's own Debezium tells it
    }  # fmt: skip


def _message(origin: Message, key: Layout, value: Layout, texts: Mapping[Slot, str]) -> Message:
    pieces = ("".join(p if isinstance(p, str) else texts[p] for p in field) for field in (key, value))
    key_data, value_data = (text.encode("utf-8", "surrogateescape") for text in pieces)
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


_Asked = tuple[SchemaId, str, str | None]
"""A schema's id, the part of the message that has it, and the topic: ids are counted in each context of a registry."""


# ---- TiCDC Debezium Avro (protocol=debezium-avro), read and written (upstream ticdc `codec/debezium/avro.go`).
#
# Key and value are Confluent-framed records. With avro-enable-watermark and the TiDB extension, DDL and watermarks are
# records too. TIMESTAMP is UTC. NULL is lost where a column has a default, as in the JSON form; DECIMAL and binary
# values are not.


class DebeziumAvroDecoder:
    """Decodes with the writer schema of each record, looked up by id and compiled once."""

    def __init__(self, context: base.Context) -> None:
        self._source = context.schemas
        self._rows = row_reader.DebeziumRowReader(fields.ticdc_dialect("debezium-avro"), context)
        self._documents: BoundedCache[_Asked, ConnectSchema] = BoundedCache(100_000)

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError as the error table says."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, asked, schema = self._read(message, "value", message.value)
        keys = () if message.key is None else tuple(self._read(message, "key", message.key)[0])
        event = read_event("debezium-avro", self._rows, payload, keys, asked, lambda: schema)
        if isinstance(event, RowChange) and isinstance(asked[0], int):
            event.schema_id = asked[0]
        return [event]

    def _read(self, message: Message, field: str, data: bytes) -> tuple[dict[str, Any], _Asked, dict[str, Any]]:
        """(payload, what stands for the schema in caches, schema)."""
        schema_id, data, pos, where = framing.unframe_field(data, field, message.headers)
        asked = (schema_id, field, message.topic)
        doc = self._documents.get(asked)
        if doc is None:
            text = self._source.by_id(schema_id, where, topic_subject(message.topic, field))
            doc = self._documents[asked] = document(text, where)
        return doc.read(data, pos, where), asked, doc.schema


# ---------------------------------------------------------------------------------------------- encoder
@dataclass(frozen=True, slots=True)
class _Record:
    id: SchemaId
    write: avro_schema.Writer

    def frame_value(self, value: Mapping[str, Any]) -> bytes:
        """WireError INVALID_VALUE for a value that the schema does not take."""
        try:
            return framing.frame(self.id, self.write(value))
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

    def __init__(self, context: base.Context) -> None:
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
            details = f"Debezium Avro needs a topic for its subjects, and the message has none: give {Hint.TOPIC}"
            raise WireError("USAGE", details=details)
        base.refuse_changed(event, self._options)
        extra = ticdc_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        plan = self._plan(event.table, origin.topic, cluster_id)
        if event.key_only:
            event.flag("key_only_delete")
        op, before, key_only = change_written(event, self._options)
        if key_only and before is not None:
            before = {**dict.fromkeys(c.name for c in event.table.columns), **before}
        images = [None if row is None else plan.row(row, event) for row in (before, event.after)]
        image = images[0] if event.op == "d" else images[1]
        if image is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        commit_ts = base.required_commit_ts(event, origin, self._options)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        source = {**source_fields(event.table.id, commit_ts or 0, cluster_id), "snapshot": None, "thread": None}
        value = {
            "before": images[0],
            "after": None if event.op == "d" else images[1],
            "source": {**source, "cluster_id": cluster_id},
            "op": op,
            "ts_ms": extra.get("ts_ms") or tso_physical_ms(commit_ts or 0),
        }
        key = plan.key.frame_value({name: image[name] for name in plan.keys})
        return replace(origin, key=key, value=plan.value.frame_value(value))

    def _plan(self, table: Table, topic: str, cluster_id: str) -> _Plan:
        if (entry := self._plans.get((topic, id(table), cluster_id))) is not None:
            return entry[1]
        texts = avro_publish.row_schemas(table, self._options, cluster_id)
        columns = tuple(c for c in table.columns if not c.virtual)
        plan = _Plan(
            self._record(f"{topic}-key", texts.key),
            self._record(f"{topic}-value", texts.value),
            tuple(c.name for c in columns if c.handle_key),
            row_values(columns, lambda c: avro_publish.connect_type(c, self._options)[:2], self._options),
        )
        self._plans[topic, id(table), cluster_id] = table, plan
        return plan

    def _record(self, subject: str, text: str) -> _Record:
        return _Record(self._context.schemas.id_of(subject, text), avro_schema.writer(avro_schema.parse_schema(text)))

    def _outer_records(
        self, name: tuple[str, ...], texts: Callable[[], avro_publish.RecordSchemas]
    ) -> tuple[_Record, _Record]:
        """Records of DDL and watermark messages; TiCDC registers them under their names, not the topic's."""
        if name not in self._outer:
            outer = texts()
            self._outer[name] = self._record(outer.key_name, outer.key), self._record(outer.value_name, outer.value)
        return self._outer[name]

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = ticdc_extra(event)
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        key, value = self._outer_records(("watermark", cluster_id), lambda: avro_publish.watermark_schemas(cluster_id))
        source = {**source_fields(TableId("", ""), event.commit_ts, cluster_id), "cluster_id": cluster_id}
        ts_ms = extra.get("ts_ms", tso_physical_ms(event.commit_ts))
        payload = {"source": source, "op": "m", "ts_ms": ts_ms, "transaction": None}
        return replace(origin, key=key.frame_value({}), value=value.frame_value(payload))

    def _ddl(self, event: DdlEvent, origin: Message) -> Message:
        cluster_id = ticdc_extra(event).get("cluster_id", self._options.cluster_id)
        name = ("ddl", sanitise_name(event.db), cluster_id)
        key, value = self._outer_records(name, lambda: avro_publish.ddl_schemas(event.db, cluster_id))
        changes = schema_changes.of_event(event, self._context.tables, self._options.time_zone)
        payload = ddl_payload(event, changes, cluster_id, origin, self._options)
        return replace(origin, key=key.frame_value({"databaseName": event.db}), value=value.frame_value(payload))
