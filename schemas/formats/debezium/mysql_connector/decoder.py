"""Debezium's MySQL connector: its messages read in every setting, and written as consumers of Debezium take them.

Sources: Debezium's documentation of the MySQL connector; measured with Debezium 3.6.1.

JSON with schema, without, or Confluent Avro, detected by the message itself. Rows have op c/u/d/r; a truncation (op t)
and a schema change are DDL events. A null value after a delete is no event; where it is all that is left of a delete
(a flattened or compacted topic), it is that delete. TIMESTAMP is UTC. There is no commit_ts, but in what the bridge
wrote itself. What the connector loses (zero dates, digits in connect mode) is flagged where it can be seen.

Debezium's connector for TiDB (its first phase, of 2026) has TiCDC's rows in the same envelope; its source block says
commit_ts and cluster_id. Its own messages have DECIMAL as doubles; the bridge writes it exactly
(`decimal_handling_mode`), the old rows it knows, and DDL as schema changes.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import with_body_name
from ticdc_bridge.schemas.codec.json_exact import name_other_form
from ticdc_bridge.schemas.formats.base import Context, table_of_name
from ticdc_bridge.schemas.formats.debezium import auxiliary_messages
from ticdc_bridge.schemas.formats.debezium.connect import ConnectSchema, document
from ticdc_bridge.schemas.formats.debezium.connector import MYSQL, TIDB
from ticdc_bridge.schemas.formats.debezium.mysql_connector import values
from ticdc_bridge.schemas.formats.debezium.row_reader import DebeziumRowReader, MessageContent, commit_ts_of_source
from ticdc_bridge.schemas.formats.framing import check_size, json_body, malformed_error, names_schema, unframe_field
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import TRUNCATE_TABLE, DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.names import quote_name, topic_subject
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Table, TableId

# ---- What a message's key says of a connector's row, whoever made the key.
#
# The connector's own key is an object of the key's columns. Another converter or transform makes a number, a text or a
# list of it, and a topic router adds the table's name: the row is in the value, so none of these is an error.
# Source: Debezium's `ByLogicalTableRouter` (key.field.name).

ROUTER_FIELD = "__dbz__physicalTableIdentifier"


class MessageKey(NamedTuple):
    """A key. is_present: the message has one. values: by column, {} where it names none; columns: their names.

    single: a bare number or text.

    schema: the key's Connect schema, None without one, and what stands for it in caches. router_table: the table's name
    that a topic router added, "".
    """

    is_present: bool
    values: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    single: Any = None
    token: Hashable = None
    schema: Mapping[str, Any] | None = None
    router_table: str = ""

    def table(self) -> TableId | None:
        """The table that the key names: by its router, or in its schema's name (`prefix.db.table.Key`)."""
        if self.router_table:
            return table_of_name(self.router_table)
        name = self.schema.get("name") if self.schema is not None else None
        return table_of_name(name.removesuffix(".Key")) if isinstance(name, str) and name.endswith(".Key") else None


OPAQUE_KEY = MessageKey(True, {})


def message_key(payload: Any, token: Hashable, schema: Mapping[str, Any] | None) -> MessageKey:
    """A key that was read."""
    if not isinstance(payload, dict):
        return OPAQUE_KEY if payload is None or isinstance(payload, list | bool) else MessageKey(True, {}, (), payload)
    router = ""
    if ROUTER_FIELD in payload:
        payload, named = dict(payload), payload[ROUTER_FIELD]
        del payload[ROUTER_FIELD]
        router = named if isinstance(named, str) else ""
    return MessageKey(True, payload, tuple(payload), None, token, schema, router)


# ---- What was read of each topic before: what a null value means there.
#
# After a delete, the connector sends the key once more with a null value, so that Kafka's compaction drops the row.
# Where a transform flattened the topic, or compaction dropped the delete, that null value is all that is left of it.

_MOST_KEYS, _MOST_BYTES, _LONGEST = 50_000, 16 << 20, 1 << 16

_Key = tuple[str | None, bytes | None]


@dataclass(slots=True)
class TopicRows:
    """What the rows of a topic were. tables: of the rows, two at most.

    null_deletes: they are flattened, so that a null value is the only sign of a delete. untimed: they say nothing of
    when they were committed.
    """

    tables: set[TableId]
    null_deletes: bool = False
    untimed: bool = False


class TopicMemory:
    """Rows of the topics that one decoder reads. A forgotten key makes its delete repeat, which changes nothing."""

    def __init__(self) -> None:
        self._deleted: BoundedCache[_Key, bool] = BoundedCache(_MOST_KEYS, _MOST_BYTES, lambda k, _: len(k[1] or b""))
        self._topics: BoundedCache[str | None, TopicRows] = BoundedCache(4096)

    def add(self, message: Message, event: RowChange, null_deletes: bool) -> None:
        """A row that was read. null_deletes: it was flattened, and nothing says that deletes have rows of their own."""
        topic = message.topic
        if event.op == "d" and len(message.key or b"") <= _LONGEST:
            self._deleted[topic, message.key] = True
        elif self._deleted:
            self._deleted.pop((topic, message.key), None)
        rows = self._topics.find(topic, lambda: TopicRows(set()))
        if len(rows.tables) < 2:
            rows.tables.add(event.table.id)
        rows.null_deletes, rows.untimed = null_deletes, event.untimed

    def was_deleted(self, message: Message) -> bool:
        """True if the last row of the message's key was a delete."""
        return (message.topic, message.key) in self._deleted

    def rows_of(self, topic: str | None) -> TopicRows:
        return self._topics.get(topic) or TopicRows(set())


# ---- Rows that ExtractNewRecordState flattened: which fields it added, and what headers say.
#
# Source: Debezium's documentation of "New Record State Extraction" and its `AbstractExtractNewRecordState`: a field of
# add.fields is called prefix + field, or prefix + struct + `_` + field; `__deleted` always so.

DELETED = "__deleted"
_ENVELOPE_FIELDS = ("op", "ts_ms", "ts_us", "ts_ns", "deleted")
_SOURCE = (
    "version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence", "schema", "table",
    "server_id", "gtid", "file", "pos", "row", "thread", "query", "commit_ts", "cluster_id",
)  # fmt: skip
_OTHERS = ("lsn", "txId", "xmin", "scn", "commit_scn", "change_lsn", "commit_lsn", "collection", "ord")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_QUALIFIED = (*(f"source_{f}" for f in (*_SOURCE, *_OTHERS)), *(f"transaction_{f}" for f in _TRANSACTION))
_UNQUALIFIED = (*_ENVELOPE_FIELDS, *_SOURCE, *_OTHERS, "total_order", "data_collection_order")
_OF_WRITER = frozenset(p + f for f in (*_OTHERS, "connector") for p in ("", "source_"))
# Without a prefix these alone are taken for the transform's: a table has its own `name` and `version`.
_WITHOUT_PREFIX = ("op", "ts_ms", "db", "table", *_QUALIFIED)


class FlattenedRow(NamedTuple):
    """A flattened row's parts. table: whose it is, None where nothing says; op: None where nothing says.

    columns: names of the table's own columns, in order; added: what the transform added, by its names; source: what of
    it the envelope's source block had.
    """

    table: TableId | None
    op: str | None
    columns: tuple[str, ...]
    added: dict[str, Any]
    source: dict[str, Any]


class _Plan(NamedTuple):
    """What rows with the same fields have in common. added: (name, field) of what the transform added; columns: the
    others. of_source: (field, its name in the source block). of_writer: the fields that tell the connector.
    """

    added: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    of_source: tuple[tuple[str, str], ...]
    of_writer: tuple[str, ...]


class FlattenedRows:
    """Takes flattened rows apart, by the options and by the definitions of tables that are known."""

    def __init__(self, context: Context, format_: str) -> None:
        self._format = format_
        self._options, self._tables, self._asked = context.options, context.tables, context.table
        self._by_option = context.table_by_option
        prefix = context.options.add_fields_prefix
        self._names = {prefix + f: f for f in (_UNQUALIFIED + _QUALIFIED if prefix else _WITHOUT_PREFIX)}
        self._names[DELETED] = "deleted"
        self._plans: BoundedCache[tuple[tuple[str, ...], frozenset[str]], _Plan] = BoundedCache(
            1024, 1 << 20, lambda key, _: sum(map(len, key[0]))
        )
        self._known_names: BoundedCache[int, tuple[Table, frozenset[str]]] = BoundedCache(4096)

    def read(self, payload: Mapping[str, Any], headers: Mapping[str, str], topic: str | None) -> FlattenedRow | None:
        """A payload's parts. None where neither a field nor a header is of the transform, and no table is named.

        ValueError for a field of another database's connector, and for an op that is none.
        """
        names = tuple(payload)
        plan = self._plan(names, frozenset())
        fields = {field: payload[name] for name, field in plan.added}
        table = self.table(fields, headers, topic) or self._asked
        if not fields and not headers and table is None:
            return None
        version = self._tables.at(table, None) if self._tables is not None and table is not None and fields else None
        columns = self._known_columns(version.table) if version is not None else None
        if columns:  # the table's own columns stay in the row, whatever they are called
            plan = self._plan(names, columns)
            fields = {field: payload[name] for name, field in plan.added}
        for field in plan.of_writer:
            name, value = field.removeprefix("source_"), fields[field]
            if database := auxiliary_messages.OF_OTHERS.get(name):
                raise ValueError(
                    f"its field {name} is of the connector for {database}; {auxiliary_messages.MYSQL_ONLY}"
                )
            if name == "connector":
                auxiliary_messages.check_connector({name: value}, self._format)
        op = "d" if fields.get("deleted") in ("true", True) else fields.get("op") or headers.get("op")
        if op is not None and op not in ("c", "u", "d", "r"):
            raise ValueError(f"the operation {json_exact.dump(op)[:20]} of a flattened row is not c, u, d or r")
        added = {name: payload[name] for name, _ in plan.added}
        return FlattenedRow(table, op, plan.columns, added, {name: fields[field] for field, name in plan.of_source})

    def _plan(self, names: tuple[str, ...], known_names: frozenset[str]) -> _Plan:
        plan = self._plans.get((names, known_names))
        if plan is None:
            added = tuple((n, self._names[n]) for n in names if n in self._names and n not in known_names)
            plan = self._plans[names, known_names] = _Plan(
                added,
                tuple(name for name in names if name not in self._names or name in known_names),
                tuple((field, _OF_SOURCE[field]) for _, field in added if field in _OF_SOURCE),
                tuple(field for _, field in added if field in _OF_WRITER),
            )
        return plan

    def _known_columns(self, table: Table) -> frozenset[str]:
        """The names of what transforms add that are a table's own columns, in any letters."""
        entry = self._known_names.get(id(table))
        if entry is None:
            columns = {column.name.lower() for column in table.columns}
            entry = self._known_names[id(table)] = table, frozenset(n for n in self._names if n.lower() in columns)
        return entry[1]

    def headers(self, message: Message) -> dict[str, str]:
        """What the transform said in record headers (add.headers), by the field's name without prefix."""
        prefix, out = self._options.add_headers_prefix, {}
        for name, value in message.headers:
            field = name.removeprefix(prefix)
            if value is not None and name.startswith(prefix) and field in _HEADERS:
                out[field] = _header_text(value)
        return out

    def table(self, fields: Mapping[str, Any], headers: Mapping[str, str], topic: str | None) -> TableId | None:
        """Whose a row is: by what the transform added, else by the options; None where nothing says."""
        db, table = _text_of("db", fields, headers), _text_of("table", fields, headers)
        if db and table:
            return TableId(db, table)
        default = self._by_option(topic)
        return TableId(default.db, table) if table and default else default


_OF_SOURCE = {f"source_{name}": name for name in _SOURCE} | {n: n for n in _SOURCE if n not in _ENVELOPE_FIELDS}
"""A field that was added → that of the source block: a time alone is the envelope's, `source_ts_ms` the commit's."""
_HEADERS = ("op", "db", "table", "source_db", "source_table")


def _text_of(name: str, *positions: Mapping[str, Any]) -> str:
    for position in positions:
        value = position.get(name) or position.get("source_" + name)
        if isinstance(value, str):
            return json_exact.utf8(value, name)
    return ""


def _header_text(value: bytes) -> str:
    """A header of Connect's simple converter, or of its JSON converter with schema or without."""
    text = value.decode("utf-8", "replace")
    if text[:1] not in ('"', "{"):
        return text
    try:
        content = json_exact.decode(text)
    except ValueError:
        return text
    content = content.get("payload") if isinstance(content, dict) else content
    return content if isinstance(content, str) else text


_Payload = tuple[Any, Hashable, Mapping[str, Any] | None]
"""Payload, what stands for the schema in caches (of Avro: its id, the part, the topic), schema or None."""


class _Content(NamedTuple):
    """A message that was taken apart. token: what stands for its schema in caches; schema: None without one."""

    message: Message
    payload: dict[str, Any]
    token: Hashable
    schema: Mapping[str, Any] | None
    key: MessageKey

    def message_content(self, source: dict[str, Any]) -> MessageContent:
        return MessageContent(self.payload, source, self.token, self.schema, self.key.columns)


class DebeziumMysqlDecoder:
    """Reads rows, truncations and schema changes; column types come from the table version and the message's schema."""

    connector = MYSQL

    def __init__(self, context: Context) -> None:
        self._schemas, self._tables = context.schemas, context.tables
        self._rows = DebeziumRowReader(values.dialect(context.options, self.connector.format), context)
        self._flattened = FlattenedRows(context, self.connector.format)
        self._documents: BoundedCache[tuple[SchemaId, str, str | None], ConnectSchema] = BoundedCache(100_000)
        self._recent = _RecentSchemas()
        self._memory = TopicMemory()

    def decode(self, message: Message) -> list[Event]:
        """One message → one event, none for a null value after its delete. WireError as the error table says."""
        if message.value is None:
            return self._tombstone(message)
        payload, token, schema = self._read(message, "value", message.value)
        if payload is None:
            return self._tombstone(message)
        if not isinstance(payload, dict):
            reason = with_body_name("it is no object", message.value)
            raise malformed_error("value", f"not a message of Debezium's {self.connector.title} connector: {reason}")
        key = self._key(message)
        try:
            event = self._event(_Content(message, payload, token, schema, key))
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            details = f"not an event of Debezium's {self.connector.title} connector: {reason_of(error)}"
            raise malformed_error("value", details) from error
        if isinstance(event, RowChange):
            if isinstance(token, tuple) and isinstance(token[0], int):
                event.schema_id = token[0]
            if key.is_present and event.table_version is None and (not event.key or len(event.key) < len(key.columns)):
                event.flag("key_unknown")
        return [event]

    def _event(self, content: _Content) -> Event:
        payload, message = content.payload, content.message
        source = payload.get("source")
        if isinstance(source, dict) and "op" in payload:
            return self._row(content, source)
        if isinstance(source, dict) and "ddl" in payload and "position" not in payload:
            auxiliary_messages.check_connector(source, self.connector.format)
            return _ddl(self.connector.format, payload)
        headers = self._flattened.headers(message) if message.headers else {}
        only_images = payload.keys() == {"before", "after"}  # as Materialize writes an envelope
        # A table may have such columns, but none holds an object.
        has_image = any(isinstance(payload.get(name), dict) for name in ("before", "after"))
        if source is None and has_image and (only_images or "op" in payload):
            # as stream processors write it: whose row it is, the options have to say
            table = self._flattened.table({}, headers, content.message.topic)
            if table is None:
                raise ValueError(f"the envelope has no source, so nothing says of which table it is; {_name_it()}")
            if only_images:
                op = "d" if not payload["after"] else "u" if payload["before"] else "c"
                content = content._replace(payload={**payload, "op": op})
            event = self._rows.read(content.message_content(table._asdict()), None, _times(content.payload))
            event.untimed = True
            self._memory.add(content.message, event, null_deletes=False)
            return event
        row = self._flattened.read(payload, headers, message.topic)
        beside = "" if row and (row.added or headers) else auxiliary_messages.auxiliary_message(payload)
        if row is None or beside:
            no_event = (
                "neither an envelope nor a schema change of Debezium; for a flattened row, add op, db and table"
                f" (add.fields), or set table or table_from_topic ({Hint.READ_OPTIONS})"
            )
            raise ValueError(beside or name_other_form(payload, "debezium") or no_event)
        return self._flattened_row(content, row)

    def _row(self, content: _Content, source: dict[str, Any]) -> Event:
        payload = content.payload
        auxiliary_messages.check_connector(source, self.connector.format)
        if not (source.get("db") and source.get("table")):  # a stream processor's, of a table without database
            named = self._flattened.table(source, self._flattened.headers(content.message), content.message.topic)
            if named is None:
                details = "its source has no db or no table, so nothing says of which table it is"
                raise ValueError(f"{details}; set the option table or table_from_topic ({Hint.READ_OPTIONS})")
            source = {**source, **named._asdict()}
        commit_ts = commit_ts_of_source(source)
        extra: dict[str, Any] = {"source": json_exact.python(source), **_times(payload)}
        extra |= other_fields(payload=(payload, _ENVELOPE))
        if payload["op"] == "t":
            db, table = json_exact.utf8(source["db"], "db"), json_exact.utf8(source["table"], "table")
            query = f"TRUNCATE TABLE {quote_name(db)}.{quote_name(table)}"
            return DdlEvent(self.connector.format, db, table, commit_ts, TRUNCATE_TABLE, query, {"op": "t", **extra})
        event = self._rows.read(content.message_content(source), commit_ts, extra)
        self._memory.add(content.message, event, null_deletes=False)
        return event

    def _flattened_row(self, content: _Content, row: FlattenedRow) -> RowChange:
        """A row as ExtractNewRecordState leaves it. Without its operation it is an upsert, flag `op_unknown`."""
        if row.table is None:
            raise ValueError(f"a flattened row, and nothing says of which table; {_name_it()}")
        image = {name: content.payload[name] for name in row.columns}
        schema = content.schema
        if schema is not None:
            fields = [f for f in schema["fields"] if f["field"] not in row.added]
            schema = {"fields": [{"field": "after", "fields": fields}]}
        old, new = (image, None) if row.op == "d" else (None, image)
        flat: dict[str, Any] = {"op": row.op or "c", "before": old, "after": new}
        token = ("flat", content.token, tuple(row.added))
        pieces = MessageContent(flat, row.table._asdict(), token, schema, content.key.columns)
        extra = {"flattened": json_exact.python(row.added)}
        if "ts_ms" in row.source or "file" in row.source:  # what places it in time
            extra["source"] = json_exact.python(row.source)
        event = self._rows.read(pieces, None, extra)
        event.untimed = "ts_ms" not in row.source  # a transform adds it to all rows, or to none
        if row.op is None:
            event.flag("op_unknown")
        # Where deletes are rows of their own (delete mode rewrite), all rows have `__deleted`.
        self._memory.add(content.message, event, null_deletes=DELETED not in row.added)
        return event

    # ------------------------------------------------------------------------------ null values
    def _tombstone(self, message: Message) -> list[Event]:
        """Nothing where the key's delete was read; else the delete itself, with the key's columns as `before`.

        WireError EMPTY_RECORD where the table or the columns of the key are not known.
        """
        if self._memory.was_deleted(message):
            return []
        topic_rows = self._memory.rows_of(message.topic)
        if message.key is None:
            if topic_rows.null_deletes:
                details = "a null value without a key: a row of this topic was deleted, and nothing says which"
                raise WireError("EMPTY_RECORD", details=details)
            return []
        key = self._key(message)
        table, by_topic = self._table_of_tombstone(key, message), False
        if table is None:
            by_topic = True
            table = next(iter(topic_rows.tables)) if len(topic_rows.tables) == 1 else None
        if table is None:
            details = f"a null value says that a row was deleted, and nothing says of which table: {_name_it()}"
            raise WireError("EMPTY_RECORD", details=details)
        try:
            event = self._deleted_row(table, key)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise malformed_error("key", f"not the key of a row of {table}: {reason_of(error)}") from error
        event.untimed = topic_rows.untimed
        if by_topic:
            event.flag("table_by_topic")
        self._memory.add(message, event, topic_rows.null_deletes)
        return [event]

    def _table_of_tombstone(self, key: MessageKey, message: Message) -> TableId | None:
        """By headers, the key, or the options. Names in a key's schema may be sanitised: definitions tell."""
        headers = self._flattened.headers(message)
        table = self._flattened.table({}, headers, message.topic) if headers.get("table") else None
        table = table or key.table() or self._flattened.table({}, {}, message.topic)
        if table is None or self._tables is None or self._tables.at(table, None) is not None:
            return table
        version = self._tables.sanitised(table, key.columns, None)
        return version.table.id if version else table

    def _deleted_row(self, table: TableId, key: MessageKey) -> RowChange:
        columns, schema = dict(key.values), None
        version = self._tables.at(table, None) if self._tables is not None else None
        handle_key = version.table.handle_key if version is not None else ()
        if not columns and key.single is not None and len(handle_key) == 1:
            columns = {handle_key[0]: key.single}
        elif handle_key and columns.keys() > set(handle_key):  # a router or a transform added to the key
            columns = {name: value for name, value in columns.items() if name in handle_key}
        if not columns:
            advice = f", nor can it be read as {', '.join(handle_key)}" if handle_key else f"; give {Hint.DDL}"
            details = f"a null value says that a row of {table} was deleted, and its key names no columns{advice}"
            raise WireError("EMPTY_RECORD", details=details)
        if key.schema is not None:
            fields = [f for f in key.schema["fields"] if f["field"] in columns]
            schema = {"fields": [{"field": "before", "fields": fields}]}
        flat: dict[str, Any] = {"op": "d", "before": columns, "after": None}
        pieces = MessageContent(flat, table._asdict(), ("key", key.token), schema, tuple(columns))
        event = self._rows.read(pieces, None, {"tombstone": True})
        event.key_only = True
        return event

    def _key(self, message: Message) -> MessageKey:
        """A message's key; one of another converter says nothing. WireError for one that is damaged."""
        data = message.key
        if data is None:
            return MessageKey(False, {})
        if data[:1] in _FRAMES or (message.headers and names_schema(message.headers, "key")):
            try:
                return message_key(*self._read(message, "key", data))
            except WireError as error:
                if error.code in ("UNKNOWN_SCHEMA_ID", "UNSUPPORTED_SCHEMA") or len(data) in _INTEGER_SIZES:
                    return OPAQUE_KEY
                raise
        if _OBJECT.match(data):
            return message_key(*self._read(message, "key", data))
        try:
            text = json_exact.document(data)
        except ValueError:
            return OPAQUE_KEY
        try:
            return message_key(json_exact.decode(text), None, None)
        except ValueError:
            return message_key(text, None, None)

    # ------------------------------------------------------------------------------ bytes → payload
    def _read(self, message: Message, where: str, data: bytes) -> _Payload:
        if data[:1] in _FRAMES or (message.headers and names_schema(message.headers, where)):
            if (avro := self._read_framed(message, where, data)) is not None:
                return avro
            data = json_body(data)
        check_size(data, where)
        try:
            return self._json(json_exact.document(data))
        except ValueError as error:
            details = auxiliary_messages.java_text(data) or with_body_name(reason_of(error), data)
            details = f"not a message of Debezium's {self.connector.title} connector: {details}"
            raise malformed_error(where, details) from error

    def _read_framed(self, message: Message, where: str, data: bytes) -> _Payload | None:
        """None for JSON behind the id of a JSON Schema, or of a schema that is not known. WireError."""
        is_json = json_body(data)[:1] == b"{"
        try:
            schema_id, data, pos, framed = unframe_field(data, where, message.headers)
        except WireError as error:
            if is_json and error.code == "NOT_FRAMED":
                return None
            raise
        asked = (schema_id, where, message.topic)
        doc = self._documents.get(asked)
        if doc is None:
            try:
                text = self._schemas.by_id(schema_id, framed, topic_subject(message.topic, where))
                doc = self._documents[asked] = document(text, framed)
            except WireError:
                if is_json:
                    return None
                raise
        return doc.read(data, pos, framed), asked, doc.schema

    def _json(self, text: str) -> _Payload:
        """`{"schema":…,"payload":…}`, the payload with our own wrapper, or the payload alone. ValueError.

        Kafka's JsonConverter writes the schema first: it is looked up by its text, and parsed once.
        """
        if (entry := self._recent.find(text)) is not None:
            head, schema = entry
            payload, end = json_exact.decode_from(text, len(head))
            if text[end:].strip(" \t\r\n") != "}":
                raise ValueError("the message goes on after its payload")
            return payload, head, schema
        document = json_exact.decode(text)
        if not isinstance(document, dict):
            return document, None, None
        if set(document) == {"schema", "payload"} and isinstance(document["schema"], dict):
            token = json_exact.dump(document["schema"])
            self._recent.add(text, document["schema"])
            return document["payload"], token, document["schema"]
        if set(document) in _WRAPPERS and isinstance(document["payload"], dict | None):
            return document["payload"], None, None
        return document, None, None


class DebeziumTidbDecoder(DebeziumMysqlDecoder):
    """Reads what the TiDB connector and the bridge write: binary columns are base64 where no schema says otherwise."""

    connector = TIDB

    def __init__(self, context: Context) -> None:
        super().__init__(replace(context, options=TIDB.chosen(context.options)))


def _times(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What an envelope says beside its row and source."""
    names = ("ts_ms", "ts_us", "ts_ns", "transaction")
    return {name: json_exact.python(payload[name]) for name in names if payload.get(name) is not None}


_ENVELOPE = frozenset(("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"))
_FRAMES = (b"\x00", b"\x03")  # Confluent's header, AWS Glue's: no JSON begins so
_INTEGER_SIZES = (2, 4)  # of Connect's ShortConverter and IntegerConverter: shorter than a header
_OBJECT = re.compile(rb"\s*\{\s*(?:[\"}]|\Z)")


def _name_it() -> str:
    return (
        "add table and db to the rows or headers (add.fields, add.headers), or set table or table_from_topic "
        f"({Hint.READ_OPTIONS})"
    )


class _RecentSchemas:
    """The schemas of the last messages. Their texts are compared, not parsed; few and small ones are kept."""

    def __init__(self) -> None:
        self._found: list[tuple[str, dict[str, Any]]] = []

    def find(self, text: str) -> tuple[str, dict[str, Any]] | None:
        """The text of a message up to its payload, and the schema in it; None for a schema that is not known."""
        for index, entry in enumerate(self._found):
            if text.startswith(entry[0]):
                if index > 8:
                    self._found.insert(0, self._found.pop(index))
                return entry
        return None

    def add(self, text: str, schema: dict[str, Any]) -> None:
        if not text.startswith(_SCHEMA + "{"):
            return
        end = json_exact.decode_from(text, len(_SCHEMA))[1]
        if end < _LARGEST and text.startswith(_PAYLOAD, end):
            self._found = [(text[: end + len(_PAYLOAD)], schema), *self._found][:_MOST_RECENT]


_WRAPPERS = ({"payload"}, {"schema", "payload"}, {"schemaId", "payload"})  # the last is Apicurio's ExtJsonConverter
_MOST_RECENT, _LARGEST = 64, 1 << 18
_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'


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
    words = ids[0][1:-1].split('"."') if len(ids) == 1 else []
    return words[-1] if len(words) == 2 else ""
