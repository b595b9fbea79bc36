"""Messages as Debezium's MySQL connector 3.6 writes them, for Flink, Hudi, RisingWave and others that read them.

The envelope has all fields always (Flink needs `before`); a delete is followed by a tombstone. `source.file` and `pos`
order a table's changes as Hudi's MysqlDebeziumSource needs it: `tidb.<ms of the commit>`, then the TSO's logical part
and the message's offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from schemas.codec import avro_schema
from schemas.codec.bounded_cache import BoundedCache
from schemas.formats.base import Context, commit_ts_of, refuse_changed
from schemas.formats.debezium.connect import avro_schema as connect_avro_schema
from schemas.formats.debezium.connect.value_writers import ConnectForm, RowValues, plain_writer, row_values
from schemas.formats.debezium.mysql_connector import schema as publish
from schemas.formats.framing import frame
from schemas.model import values
from schemas.model.errors import WireError
from schemas.model.event import DdlEvent, Event, Message, RowChange, tso_physical_ms
from schemas.model.table import Column, Table, TableId
from schemas.model.types import Kind
from schemas.model.values import is_clock

NAME = "debezium-mysql"
_VERSION = "3.6.1.Final"
_TRUNCATE = 11  # TiDB's ActionType
_OFFSETS = 24  # bits of pos that the message's offset takes
_CARRIED = (NAME, "debezium", "debezium-avro")  # whose ts_ms is the connector's own clock

Serialise = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled per table: the key's columns in order, values of a row, and key and value → bytes."""

    keys: tuple[str, ...]
    row: RowValues
    key: Serialise | None
    value: Serialise


class MysqlEncoder:
    """JSON with schema or without (debezium_disable_schema), or Confluent Avro (encoding_format=avro)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._options = context.options
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, _Plan]] = BoundedCache()

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → its message, and a tombstone after a delete. A truncation → op t where it is asked for.

        Other DDL and watermarks: nothing, as no consumer takes them among rows.
        """
        if isinstance(event, RowChange):
            return self._row(event, origin)
        truncates = isinstance(event, DdlEvent) and (event.ddl_type == _TRUNCATE or event.extra.get("op") == "t")
        if isinstance(event, DdlEvent) and truncates and self._options.skipped_operations == "none":
            return [self._truncate(event, origin)]
        return []

    def _row(self, event: RowChange, origin: Message) -> list[Message]:
        refuse_changed(event, self._options)
        if event.key_only:
            event.flag("key_only_delete")
        if event.op == "u" and event.before is None:
            event.flag("no_before")
        image = event.before if event.op == "d" else event.after
        if image is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        row_names = frozenset(event.before or ()) if event.key_only else None
        plan = self._plan(event.table, event.key, row_names, origin.topic)
        before, after = (None if row is None else plan.row(row, event) for row in (event.before, event.after))
        source = self._row_source(event, origin)
        payload = {
            "before": None if event.op in ("c", "r") else before,
            "after": None if event.op == "d" else after,
            **self._tail(event, source, event.op),
        }
        row = (before if event.op == "d" else after) or {}
        key = None if plan.key is None else plan.key({name: row[name] for name in plan.keys})
        message = replace(origin, key=key, value=plan.value(payload))
        if event.op == "d" and key is not None and self._options.tombstones_on_delete:
            return [message, replace(origin, key=key, value=None)]
        return [message]

    def _truncate(self, event: DdlEvent, origin: Message) -> Message:
        id_ = TableId(event.db, event.table)
        version = self._context.tables.at(id_, event.commit_ts) if self._context.tables else None
        if version is None and not self._options.debezium_disable_schema:
            details = f"the columns of {id_} are not known; give a table definition (--ddl)"
            raise WireError("TYPE_UNKNOWN", column="*", details=details)
        plan = self._plan(version.table if version else Table(id_, ()), (), None, origin.topic)
        source = _carried_source(event, id_) or self._source(id_, event, event.commit_ts, origin, "false")
        payload = {"before": None, "after": None, **self._tail(event, source, "t")}
        return replace(origin, key=None, value=plan.value(payload))

    # ------------------------------------------------------------------------------ the blocks around the row
    def _row_source(self, event: RowChange, origin: Message) -> dict[str, Any]:
        carried = _carried_source(event, event.table.id)
        if carried is not None:
            return carried
        commit_ts = commit_ts_of(event, origin)
        if commit_ts is None:
            event.flag("commit_ts_unknown")
        return self._source(event.table.id, event, commit_ts, origin, "true" if event.op == "r" else "false")

    def _source(
        self, id_: TableId, event: RowChange | DdlEvent, commit_ts: int | None, origin: Message, snapshot: str
    ) -> dict[str, Any]:
        options = self._options
        ms = tso_physical_ms(commit_ts or 0)
        order = ((commit_ts or 0) & ((1 << 18) - 1)) << _OFFSETS | (origin.offset or 0) & ((1 << _OFFSETS) - 1)
        return {
            "version": _VERSION, "connector": options.source_connector,
            "name": options.topic_prefix or options.cluster_id, "ts_ms": ms, "snapshot": snapshot, "db": id_.db,
            "sequence": None, "ts_us": ms * 1000, "ts_ns": ms * 1_000_000, "table": id_.table, "server_id": 0,
            "gtid": None, "file": f"tidb.{ms}", "pos": order, "row": 0, "thread": None, "query": None,
            "commit_ts": commit_ts, "cluster_id": event.extra.get("cluster_id", options.cluster_id),
        }  # fmt: skip

    @staticmethod
    def _tail(event: RowChange | DdlEvent, source: dict[str, Any], op: str) -> dict[str, Any]:
        extra = event.extra if event.format in _CARRIED else {}
        ms = next((t for t in (extra.get("ts_ms"), source.get("ts_ms")) if isinstance(t, int)), 0)
        return {
            "source": source, "transaction": extra.get("transaction"), "op": op, "ts_ms": ms,
            "ts_us": extra.get("ts_us") or ms * 1000, "ts_ns": extra.get("ts_ns") or ms * 1_000_000,
        }  # fmt: skip

    # ------------------------------------------------------------------------------ plans
    def _plan(self, table: Table, key: tuple[str, ...], row_names: frozenset[str] | None, topic: str | None) -> _Plan:
        place = topic if self._options.encoding_format == "avro" else None
        cached = self._plans.get((id(table), key, row_names, place))
        if cached is not None and cached[0] is table:
            return cached[1]
        plan = self._compile(table, key, row_names, place)
        self._plans[id(table), key, row_names, place] = table, plan
        return plan

    def _compile(
        self, table: Table, key: tuple[str, ...], row_names: frozenset[str] | None, topic: str | None
    ) -> _Plan:
        options = self._options
        primary = next((i.columns for i in table.indexes if i.name == "PRIMARY"), ())
        keys = tuple(primary or key or table.handle_key)
        columns = tuple(c for c in table.columns if not c.virtual)
        propagate = options.column_propagate_source_type
        avro = options.encoding_format == "avro"
        settings = {
            "signed64": "told" if propagate else "set bigint_unsigned_handling_mode to precise",
            "raw_text": False,
            "binary": options.binary_handling_mode,
        }
        row = row_values(columns, lambda c: publish.connect_type(c, options)[:2], options, required=True, **settings)
        defaults = {c.name: self._default(c, settings) for c in columns if not c.nullable and c.default is not None}
        serialise = self._avro if avro else self._json
        key_schema = publish.key_schema(table, keys, options) if keys else None
        return _Plan(
            keys,
            row,
            None if key_schema is None else serialise(key_schema, f"{topic}-key"),
            serialise(publish.value_schema(table, options, defaults, row_names), f"{topic}-value"),
        )

    def _default(self, column: Column, settings: dict[str, Any]) -> Any:
        """A NOT NULL column's default as JSON has it; None for an expression, or where the form can't hold it.

        A TIMESTAMP's is left out: the connector writes it for a zero date, and a reader would take the value for one.
        """
        if column.default_is_expr or is_clock(column.default) or column.type.kind is Kind.TIMESTAMP:
            return None
        connect = publish.connect_type(column, self._options)[:2]
        form = ConnectForm(column, *connect, lossy=False, **settings)
        try:
            value = plain_writer(form)(column.default)
        except (WireError, ValueError, TypeError, AttributeError):
            return None
        return values.base64_text(value) if isinstance(value, bytes) else value

    def _json(self, schema: dict[str, Any], _subject: str) -> Serialise:
        if self._options.debezium_disable_schema:
            return _json_bytes
        head = f'{{"schema":{_compact_json(schema)},"payload":'.encode()
        return lambda payload: head + _json_bytes(payload) + b"}"

    def _avro(self, schema: dict[str, Any], subject: str) -> Serialise:
        if subject.startswith("None-"):
            details = "Avro needs a topic for its subjects, and the message has none: give --topic"
            raise WireError("USAGE", details=details)
        text = connect_avro_schema.text(schema)
        write, id_ = avro_schema.writer(avro_schema.parse_schema(text)), self._context.schemas.id_of(subject, text)

        def frame_payload(payload: Any) -> bytes:
            try:
                return frame(id_, write(payload))
            except ValueError as error:
                raise WireError(
                    "INVALID_VALUE", column=str(error)[:100], details="no value of its Avro type"
                ) from error

        return frame_payload


def _carried_source(event: RowChange | DdlEvent, id_: TableId) -> dict[str, Any] | None:
    """The source block of an event that was a connector's message; ours follows it with two fields.

    WireError INVALID_VALUE for one of another table: a reader would take the row for that table's.
    """
    carried = event.extra.get("source") if event.format == NAME else None
    if not isinstance(carried, dict):
        return None
    if (carried.get("db"), carried.get("table")) != id_:
        origin = f"{carried.get('db')!r:.60}, table {carried.get('table')!r:.60}"
        raise WireError("INVALID_VALUE", column="source", details=f"it is of db {origin}, and the event of {id_}")
    return {**carried, "commit_ts": carried.get("commit_ts"), "cluster_id": carried.get("cluster_id")}


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=values.base64_text)


def _json_bytes(payload: Any) -> bytes:
    return _compact_json(payload).encode("utf-8", "surrogateescape")
