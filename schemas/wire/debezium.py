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
from schemas.codec.bounded import Bounded
from schemas.errors import LossyError, WireError
from schemas.event import MAX_TSO, DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from schemas.publish import debezium as publish
from schemas.table import Column, Table, TableId, TableVersion, Value
from schemas.types import BY_NAME, Kind
from schemas.wire import debezium_fields as fields
from schemas.wire.base import Context, commit_ts_of
from schemas.wire.debezium_json import malformed, parse, schema_of

_VERSION = "2.4.0.Final"


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
        self._schemas: Bounded[str, dict[str, Any] | None] = Bounded()
        self._layouts: Bounded[tuple[Any, ...], _Layout] = Bounded()

    def decode(self, message: Message) -> list[Event]:
        """One message → one event. WireError MALFORMED, EMPTY_RECORD, TOO_LARGE."""
        if message.value is None:
            raise WireError("EMPTY_RECORD", details="a message without a value: TiCDC's Debezium has no tombstones")
        payload, schema = parse(message.value, "value")
        keys = self._key(message)
        try:
            self._schema_of(schema)
            source = payload["source"]
            commit_ts = _commit_ts(source)
            if "ddl" in payload:
                return [_ddl(payload, source, commit_ts)]
            if payload["op"] == "m":
                if commit_ts is None:
                    raise malformed("value", "a watermark without commit_ts")
                return [Watermark("debezium", commit_ts, _extra(payload, source))]
            return [self._row(keys, payload, source, schema, commit_ts)]
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise malformed("value", f"not a TiCDC Debezium event: {reason}"[:300]) from error

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

    def _row(
        self, keys: tuple[str, ...], payload: dict[str, Any], source: dict[str, Any], schema: str, commit_ts: int | None
    ) -> RowChange:
        op = payload["op"]
        if op not in ("c", "u", "d", "r"):
            raise malformed("value", f"op {op!r} is not c, u, d or r")
        id_ = TableId(json_exact.string(source["db"], "db"), json_exact.string(source["table"], "table"))
        version = self._context.tables.at(id_, commit_ts) if self._context.tables else None
        before, after = payload.get("before"), payload.get("after")
        shown = before if after is None else after
        if not isinstance(shown, dict) or not isinstance(before, dict | None):
            raise malformed("value", f"op {op!r} without its row")
        layout = self._layout(id_, schema, keys, version, shown)
        flags: list[str] = []
        sides = [None if side is None else _read_row(layout, side, flags) for side in (before, after)]
        if (sides[0] is None and op == "d") or (sides[1] is None and op != "d"):
            raise malformed("value", f"op {op!r} without its row")
        return RowChange(
            "debezium", layout.table, op, commit_ts, sides[0], sides[1], keys, "UTC",
            None, version.commit_ts if version else None, list(dict.fromkeys(flags)), _extra(payload, source),
        )  # fmt: skip

    def _layout(
        self, id_: TableId, schema: str, keys: tuple[str, ...], version: TableVersion | None, row: Mapping[str, Any]
    ) -> _Layout:
        names = tuple(row) if schema == "}" and version is None else ()
        known = (id_, schema, keys, version.commit_ts if version else None, names)
        if known not in self._layouts:
            parsed = self._schema_of(schema)
            shape = None if parsed is None else _shape(parsed)
            self._layouts[known] = _compile_layout(id_, shape, keys, version, names)
        return self._layouts[known]


def _shape(schema: Mapping[str, Any]) -> _Shape:
    """An envelope's schema → compiled schema of its row."""
    row = next((f for f in schema["fields"] if f["field"] in ("after", "before")), None)
    if row is None:
        raise ValueError("the schema has neither before nor after")
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
    strange = [name for name in keys if name not in table.by_name]
    if strange:
        raise ValueError(f"the key has column {strange[0]!r}, the row does not")
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
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"column {name!r}: {error}") from error
        if flag:
            flags.append(f"{flag}:{name}")
        if name in layout.ambiguous and value in layout.ambiguous[name]:
            flags.append(f"null_or_default:{name}")
    return row


def _ddl(payload: dict[str, Any], source: dict[str, Any], commit_ts: int | None) -> DdlEvent:
    extra = {"tableChanges": json_exact.python(payload.get("tableChanges")), **_extra(payload, source)}
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
    if not 0 <= commit_ts <= MAX_TSO:
        raise ValueError(f"commit_ts {commit_ts} is no TSO")
    return commit_ts or None  # 0 is what we write where it is not known


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
        self._plans: Bounded[tuple[Any, ...], tuple[Table, _Plan]] = Bounded()

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
            event.flag("no_before")
        extra = event.extra if event.format == "debezium" else {}
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
        source: dict[str, Any] = {
            "version": _VERSION, "connector": "TiCDC", "name": cluster_id, "ts_ms": tso_physical_ms(commit_ts),
            "snapshot": "false", "db": id_.db, "table": id_.table, "server_id": 0, "gtid": None, "file": "", "pos": 0,
            "row": 0, "thread": 0, "query": None, "commit_ts": commit_ts,
        }  # fmt: skip
        if self._options.debezium_include_start_ts and id_.table:
            source["start_ts"] = extra.get("start_ts", 0)  # 0: not known, only TiCDC's own Debezium tells it
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
            declared = options.enable_tidb_extension or column.type.kind in (Kind.BIT, Kind.ENUM, Kind.SET)
            if column.vague == fields.ANY_TYPE or (column.vague and declared):
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
