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
from schemas.codec import json_exact
from schemas.errors import LossyError, WireError
from schemas.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from schemas.publish import debezium as publish
from schemas.table import Column, Table, TableId, TableVersion, Value
from schemas.types import BY_NAME, Kind
from schemas.wire import debezium_fields as fields
from schemas.wire.base import Context, commit_ts_of
from schemas.wire.framing import MAX_MESSAGE

_VERSION = "2.4.0.Final"
_PAYLOAD, _SCHEMA = '{"payload":', ',"schema":'


def _malformed(where: str, details: str) -> WireError:
    return WireError("MALFORMED", where=where, details=details)


def _parse(data: bytes, where: str) -> tuple[dict[str, Any], str]:
    """Message → (payload, text of what follows it: the schema). WireError MALFORMED, TOO_LARGE.

    TiCDC writes the payload first, so that the schema's text, the same in every message of a table version, can be
    looked up instead of parsed.
    """
    if len(data) > MAX_MESSAGE:
        raise WireError("TOO_LARGE", where=where, details=f"{len(data)} bytes, at most {MAX_MESSAGE}")
    text = data.decode("utf-8", "surrogateescape")
    try:
        if text.startswith(_PAYLOAD):
            payload, end = json_exact.decode_from(text, len(_PAYLOAD))
            rest = text[end:].strip()
            if rest != "}" and not rest.startswith(_SCHEMA):
                raise ValueError(f"unexpected text after the payload: {rest[:40]!r}")
        else:
            whole = json_exact.decode(text)
            payload, schema = whole["payload"], whole.get("schema")
            rest = "}" if schema is None else f"{_SCHEMA}{json_exact.dump(schema)}}}"
        if not isinstance(payload, dict):
            raise TypeError("the payload is not an object")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "no payload" if isinstance(error, KeyError) else str(error)
        raise _malformed(where, f"not a TiCDC Debezium message: {reason}"[:300]) from error
    return payload, rest


# ---------------------------------------------------------------------------------- decoder
@dataclass(frozen=True, slots=True)
class _Shape:
    """A compiled row schema: the columns it declares, and which values mean NULL or the default alike."""

    columns: dict[str, Column]
    defaults: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Layout:
    """A shape joined with a table version: the table of the events, and a reader per column."""

    table: Table
    readers: dict[str, fields.Read]
    ambiguous: dict[str, tuple[Any, ...]]


class DebeziumDecoder:
    """Reads rows, DDL and watermarks; column types come from the table version, else from the message's schema."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shapes: dict[str, _Shape | None] = {}
        self._layouts: dict[tuple[Any, ...], _Layout] = {}

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError MALFORMED, EMPTY_RECORD, TOO_LARGE."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, schema = _parse(message.value, "value")
        try:
            source = payload["source"]
            commit_ts = _commit_ts(source)
            if "ddl" in payload:
                return [_ddl(payload, source, commit_ts)]
            if payload["op"] == "m":
                if commit_ts is None:
                    raise _malformed("value", "a watermark without commit_ts")
                return [Watermark("debezium", commit_ts, _extra(payload, source))]
            return [self._row(message, payload, source, schema, commit_ts)]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise _malformed("value", f"not a TiCDC Debezium event: {reason}"[:300]) from error

    def _row(
        self, message: Message, payload: dict[str, Any], source: dict[str, Any], schema: str, commit_ts: int | None
    ) -> RowChange:
        op = payload["op"]
        if op not in ("c", "u", "d", "r"):
            raise _malformed("value", f"op {op!r} is not c, u, d or r")
        keys = tuple(_parse(message.key, "key")[0]) if message.key is not None else ()
        id_ = TableId(json_exact.string(source["db"], "db"), json_exact.string(source["table"], "table"))
        version = self._context.tables.at(id_, commit_ts) if self._context.tables else None
        before, after = payload.get("before"), payload.get("after")
        shown = before if after is None else after
        if not isinstance(shown, dict) or not isinstance(before, dict | None):
            raise _malformed("value", f"op {op!r} without its row")
        layout = self._layout(id_, schema, keys, version, shown)
        flags: list[str] = []
        sides = [None if side is None else _read_row(layout, side, flags) for side in (before, after)]
        if (sides[0] is None and op == "d") or (sides[1] is None and op != "d"):
            raise _malformed("value", f"op {op!r} without its row")
        return RowChange(
            "debezium", layout.table, op, commit_ts, sides[0], sides[1], keys, "UTC",
            None, version.commit_ts if version else None, list(dict.fromkeys(flags)), _extra(payload, source),
        )  # fmt: skip

    def _layout(
        self, id_: TableId, schema: str, keys: tuple[str, ...], version: TableVersion | None, row: Mapping[str, Any]
    ) -> _Layout:
        if schema not in self._shapes:
            self._shapes[schema] = _shape(schema)
        shape = self._shapes[schema]
        names = tuple(row) if shape is None and version is None else ()
        known = (id_, schema, keys, version.commit_ts if version else None, names)
        if known not in self._layouts:
            self._layouts[known] = _compile_layout(id_, shape, keys, version, names)
        return self._layouts[known]


def _shape(rest: str) -> _Shape | None:
    """Text after the payload → compiled schema of the row, None with debezium-disable-schema."""
    if rest == "}":
        return None
    schema, end = json_exact.decode_from(rest, len(_SCHEMA))
    if rest[end:].strip() != "}":
        raise ValueError("the message goes on after its schema")
    row = next(f for f in schema["fields"] if f["field"] in ("after", "before"))
    columns: dict[str, Column] = {}
    defaults: dict[str, Any] = {}
    for field in row["fields"]:
        column = fields.column_of_field(field)
        # TiCDC lists a virtual generated column twice and never sends its value.
        columns[column.name] = replace(column, virtual=column.name in columns)
        if "default" in field and column.nullable:
            defaults[column.name] = field["default"]
    return _Shape(columns, defaults)


def _compile_layout(
    id_: TableId, shape: _Shape | None, keys: tuple[str, ...], version: TableVersion | None, names: tuple[str, ...]
) -> _Layout:
    if version is not None:
        table = version.table
    else:
        columns = (
            tuple(shape.columns.values())
            if shape
            else tuple(Column(n, BY_NAME["text"], vague=fields.ANY_TYPE) for n in names)
        )
        columns = tuple(replace(c, handle_key=c.name in keys, primary_key=c.name in keys) for c in columns)
        table = Table(id_, columns)
    typed = version is not None or shape is not None
    readers = {c.name: fields.reader(c) if typed else _untyped for c in table.columns}
    ambiguous = {}
    for column in table.columns:
        if shape and column.name in shape.defaults:
            ambiguous[column.name] = fields.null_images(column, shape.defaults[column.name])
        elif version and column.nullable and column.has_default and column.default is not None:
            ambiguous[column.name] = fields.default_images(column)
    return _Layout(table, readers, ambiguous)


def _untyped(value: Any) -> tuple[Value, str]:
    """Without schema and definition: the value's JSON text, flagged; nothing is guessed."""
    if isinstance(value, bool):
        return "true" if value else "false", "untyped"
    if isinstance(value, str):
        return fields.utf8_or_bytes(str(value)), "untyped"
    raise ValueError("an object or a list is no column value")


def _read_row(layout: _Layout, side: Mapping[str, Any], flags: list[str]) -> Row:
    row: dict[str, Value] = {}
    for name, value in side.items():
        read = layout.readers.get(name)
        if read is None:
            raise ValueError(f"column {name!r} is not in the schema")
        if value is None:
            row[name] = None
            continue
        try:
            row[name], flag = read(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"column {name!r}: {error}") from error
        if flag:
            flags.append(f"{flag}:{name}")
        if name in layout.ambiguous and value in layout.ambiguous[name]:
            flags.append(f"null_or_default:{name}")
    return row


def _ddl(payload: dict[str, Any], source: dict[str, Any], commit_ts: int | None) -> DdlEvent:
    extra = {"tableChanges": payload.get("tableChanges"), **_extra(payload, source)}
    db, query = json_exact.string(payload["databaseName"], "databaseName"), json_exact.string(payload["ddl"], "ddl")
    return DdlEvent("debezium", db, json_exact.string(source["table"], "table"), commit_ts, None, query, extra)


def _extra(payload: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """What TiCDC says of itself: kept to write the same message again."""
    extra: dict[str, Any] = {}
    if "ts_ms" in payload:
        extra["ts_ms"] = json_exact.integer(payload["ts_ms"], "ts_ms")
    if "start_ts" in source:
        extra["start_ts"] = json_exact.integer(source["start_ts"], "start_ts")
    if source.get("cluster_id", "default") != "default":
        extra["cluster_id"] = json_exact.string(source["cluster_id"], "cluster_id")
    return extra


def _commit_ts(source: Mapping[str, Any]) -> int | None:
    if source.get("commit_ts") is None:
        return None
    commit_ts = json_exact.integer(source["commit_ts"], "commit_ts")
    if commit_ts < 0:
        raise ValueError("commit_ts is negative")
    return commit_ts


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
        self._plans: dict[tuple[Any, ...], tuple[Table, _Plan]] = {}

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → one message; a watermark too with the TiDB extension. DDL: nothing yet."""
        if isinstance(event, Watermark) and self._options.enable_tidb_extension:
            return [self._watermark(event, origin)]
        if not isinstance(event, RowChange):
            return []
        rows = [event.before, event.after]
        if event.op == "u" and self._options.no_old_value:
            rows[0] = None
        elif event.op == "u" and event.before is None:
            event.flags.append("no_before")
        extra = event.extra if event.format == "debezium" else {}
        partial_ = self._key_only(event)
        plan = self._plan(event, rows, partial_, extra)
        texts = [None if row is None else _row_text(plan.columns, row, event, partial_) for row in rows]
        key = _row_text(plan.key, (event.before if event.op == "d" else event.after) or {}, event, False)
        commit_ts = commit_ts_of(event, origin)
        parts = [f'"source":{self._source(event.table.id, commit_ts, extra)}']
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

    def _source(self, id_: TableId, commit_ts: int | None, extra: Mapping[str, Any]) -> str:
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        source: dict[str, Any] = {
            "version": _VERSION, "connector": "TiCDC", "name": cluster_id, "ts_ms": tso_physical_ms(commit_ts or 0),
            "snapshot": "false", "db": id_.db, "table": id_.table, "server_id": 0, "gtid": None, "file": "", "pos": 0,
            "row": 0, "thread": 0, "query": None, "commit_ts": commit_ts,
        }  # fmt: skip
        if self._options.debezium_include_start_ts and id_.table:
            source["start_ts"] = extra.get("start_ts")
        source["cluster_id"] = cluster_id
        return publish.compact(source)

    def _watermark(self, event: Watermark, origin: Message) -> Message:
        extra = event.extra if event.format == "debezium" else {}
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        options = replace(self._options, cluster_id=cluster_id, debezium_include_start_ts=False)
        source = self._source(TableId("", ""), event.commit_ts, extra)
        ts_ms = extra.get("ts_ms", tso_physical_ms(event.commit_ts))
        value = f'{{"source":{source},"ts_ms":{ts_ms},"transaction":null,"op":"m"}}'
        return self._message(origin, "{}", value, *publish.watermark_schemas(options))

    @staticmethod
    def _key_only(event: RowChange) -> bool:
        """A delete that carries only its key, of a table whose other columns are known (Avro; types.md §4 row 18)."""
        if event.op != "d" or event.before is None:
            return False
        missing = [c.name for c in event.table.columns if c.name not in event.before and not c.virtual]
        if missing:
            event.flags.append("key_only_delete")
        return bool(missing)

    def _plan(self, event: RowChange, rows: list[Row | None], key_only: bool, extra: Mapping[str, Any]) -> _Plan:
        table = event.table
        unknown = [c for c in table.columns if c.type.kind is Kind.DATETIME and c.scale is None]
        digits = tuple(
            len(_first_text(rows, c.name).partition(".")[2]) if _first_text(rows, c.name) else -1 for c in unknown
        )
        cluster_id = extra.get("cluster_id", self._options.cluster_id)
        known = (id(table), digits, key_only, cluster_id)
        if known in self._plans and self._plans[known][0] is table:
            return self._plans[known][1]
        scales = {c.name: d for c, d in zip(unknown, digits, strict=True) if d >= 0}
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
            if column.vague == fields.ANY_TYPE or (column.vague and options.enable_tidb_extension):
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
                    event.flags.append(f"timestamp_fold:{column.name}")
            out.append(name + write(value))
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
