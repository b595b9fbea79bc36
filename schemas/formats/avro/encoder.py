"""TiCDC Avro (protocol=avro), written; `decoder` says what the messages are like."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import go_text
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.ddl.parser.action_types import ddl_type_of
from ticdc_bridge.schemas.formats import base
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.decoder import DDL, DELETE, WATERMARK
from ticdc_bridge.schemas.formats.avro.schema import BEFORE, CHECKSUM, EXTENSION
from ticdc_bridge.schemas.formats.avro.values import RecordReader, RowWriter, field_writer, row_writer
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.model.errors import Hint, LossyError, SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from ticdc_bridge.schemas.model.names import avro_subject, sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource
from ticdc_bridge.schemas.model.table import Column, Table, Value

# ---- What TiCDC Avro writes a table with: schema ids of key and value, registered (or looked up) once per table and
# topic.
#
# `AvroEncoder` and the compiled writer (`avro_writer`) have their ids from here, so that both write the same.


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A key or value record: its schema's id, its columns in the record's order, and what writes them."""

    id: SchemaId
    columns: tuple[Column, ...]
    write: RowWriter


@dataclass(frozen=True, slots=True)
class KeyValueSchemas:
    """Key and value record of a table on a topic.

    No key: the table has no primary key. No value: for deletes that have none, whose schema TiCDC does not register.
    """

    key: RecordSchema | None
    value: RecordSchema | None


class SchemaIds:
    """Plans by table and topic. options: with the keyspace of this side; an event may come with its own."""

    def __init__(self, schemas: SchemaSource, options: Options) -> None:
        self._schemas, self._options = schemas, options
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, KeyValueSchemas]] = BoundedCache()

    def of(self, table: Table, topic: str, keyspace: str | None, valued: bool) -> KeyValueSchemas:
        """The plan; the key's schema is registered before the value's.

        WireError as `publish.value_schema` and `SchemaSource.id_of`, SetupError as the latter.
        """
        if (entry := self._plans.get((topic, id(table), keyspace, valued))) is not None:
            return entry[1]
        options = self._options if keyspace is None else replace(self._options, keyspace=keyspace)
        text, key, value = publish.key_schema(table, options), None, None
        if text is not None:
            key = self._record(topic, "key", text, tuple(c for c in table.columns if c.primary_key), options)
        if valued:
            text = publish.value_schema(table, options)
            value = self._record(topic, "value", text, publish.value_columns(table, options), options)
        plan = KeyValueSchemas(key, value)
        self._plans[topic, id(table), keyspace, valued] = table, plan
        return plan

    def _record(self, topic: str, field: str, text: str, columns: tuple[Column, ...], options: Options) -> RecordSchema:
        id_ = self._schemas.id_of(avro_subject(topic, field), text)
        return RecordSchema(id_, columns, row_writer(columns, options))


OVERHEAD = 36  # what TiCDC counts for a Kafka record beside key and value (upstream `common/message.go`)


# ---------------------------------------------------------------------------------------------- encoder
class AvroEncoder:
    """Writes what TiCDC's encoder writes; schemas are registered (or looked up) once per table and topic."""

    def __init__(self, context: base.Context) -> None:
        options = self._options = context.options
        self._plans = SchemaIds(context.schemas, options)
        strings = {options.avro_decimal_handling_mode, options.avro_bigint_unsigned_handling_mode} == {"string"}
        if options.enable_row_checksum and not (options.enable_tidb_extension and strings):
            details = (
                "enable_row_checksum needs enable_tidb_extension, and string as avro_decimal_handling_mode and "
                "avro_bigint_unsigned_handling_mode, as in TiCDC"
            )
            raise SetupError("USAGE", details=details)

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → its key and value record. DDL and watermarks: nothing but with avro_enable_watermark."""
        if not isinstance(event, RowChange):
            return self._out_of_band(event, origin)
        if origin.topic is None:
            details = f"Avro needs a topic for its subjects, and the message has none: give {Hint.TOPIC}"
            raise WireError("USAGE", details=details)
        if event.format != "avro":
            base.refuse_changed(event, self._options)
        keyspace = event.extra.get("keyspace") if event.format == "avro" else None
        valued = event.op != "d" or self._options.avro_include_before_value
        plan = self._plans.of(event.table, origin.topic, keyspace, valued)
        row = event.before if event.op == "d" else event.after
        if row is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        key = None if plan.key is None else frame(plan.key.id, plan.key.write(row, event))
        if plan.value is not None:
            value = frame(plan.value.id, self._value(plan.value.write, event, row, origin))
            return [self._message(event, origin, key, value)]
        if self._watermarks and event.commit_ts is not None:
            return [self._message(event, origin, key, bytes([DELETE]) + _tso(event.commit_ts))]
        if key is None and self._options.on_lossy == "error":
            details = "a delete of a table without primary key has neither key nor value in Avro: the row would be lost"
            raise LossyError("LOSSY_VALUE", column="*", details=details)
        if key is None:
            event.flag("empty_record")
        return [self._message(event, origin, key, None)]

    @property
    def _watermarks(self) -> bool:
        return self._options.avro_enable_watermark and self._options.enable_tidb_extension

    def _message(self, event: RowChange, origin: Message, key: bytes | None, value: bytes | None) -> Message:
        length, most = len(key or b"") + len(value or b"") + OVERHEAD, self._options.max_message_bytes
        if length > most:
            details = f"{length} bytes with its key and Kafka's overhead, max_message_bytes is {most}"
            raise WireError("TOO_LARGE", where=f"a row of {event.table.id}", details=details)
        return replace(origin, key=key, value=value)

    def _out_of_band(self, event: DdlEvent | Watermark, origin: Message) -> list[Message]:
        if not self._watermarks:
            return []
        if isinstance(event, Watermark):
            return [replace(origin, key=None, value=bytes([WATERMARK]) + _tso(event.commit_ts))]
        ddl_type, commit_ts = ddl_type_of(event), base.required_commit_ts(event, origin, self._options)
        if commit_ts is None or ddl_type is None:
            return []
        body = {"query": event.query, "type": ddl_type, "schema": event.db, "table": event.table,
                "commitTs": commit_ts}  # fmt: skip
        text = go_text.go_json(body).encode("utf-8", "surrogateescape")  # a statement may hold bytes that are no text
        return [replace(origin, key=None, value=bytes([DDL]) + text)]

    def _value(self, write: RowWriter, event: RowChange, row: Row, origin: Message) -> bytes:
        options = self._options
        out = [write(row, event)]
        if options.avro_include_before_value:
            before = base.complete_before(event)
            out.append(b"\x00" if before is None else b"\x02" + write(before, event))
        if options.enable_tidb_extension or options.avro_include_before_value:
            out.append(_write_op(event))
        if options.enable_tidb_extension:
            commit_ts = _commit_ts(event, origin, options)
            out.append(binary.write_long(commit_ts) + binary.write_long(tso_physical_ms(commit_ts)))
        if options.enable_row_checksum:
            out.append(_checksum_fields(event))
        return b"".join(out)


# ---- One table's changes as records of one Avro schema of TiCDC's, whatever version each row is of: no key, no header.

_OP, _COMMIT_TS, _TIME = (str(f["name"]) for f in EXTENSION)
_KINDS = {f["name"]: f["type"] for f in EXTENSION + CHECKSUM}

FieldWriter = Callable[[RowChange, Row, Message], bytes]


class RecordEncoder:
    """Writes rows of a table; other events and other tables' rows give nothing.

    record: the schema, compiled; newest: the table; options: time_zone and on_lossy count. SetupError USAGE for a
    schema that TiCDC does not write.
    """

    def __init__(self, record: RecordReader, newest: Table, options: Options) -> None:
        self._record, self._table, self._options = record, newest.id, options
        names = {c.name for c in record.columns}
        self._lacking = {c.name for c in newest.columns if not c.virtual and sanitise_name(c.name) not in names}
        self._texts = [f.name for f in record.fields if "string" in f.branches]
        self._fields = self._writers(record)
        self._before = None if record.before is None else self._writers(record.before)

    def encode(self, event: Event, origin: Message) -> list[Message]:
        """A row → one message without key, whose value is its record.

        WireError INVALID_VALUE for a row that the record has no place for; LossyError where it would become another.
        """
        if not isinstance(event, RowChange) or event.table.id != self._table:
            return []
        base.refuse_changed(event, self._options)
        if event.op == "d" and _OP not in self._record.extension:
            details = f"the schema has no {_OP}: a delete would be taken for an insert"
            raise LossyError("LOSSY_VALUE", column=_OP, details=details)
        row = event.before if event.op == "d" else event.after
        if row is None:
            raise WireError("INVALID_VALUE", column="*", details=f"a change of op {event.op!r} without its row")
        record = self._of_record(row, event)
        return [replace(origin, key=None, value=b"".join(write(event, record, origin) for write in self._fields))]

    def _of_record(self, row: Row, event: RowChange) -> dict[str, Value]:
        """The row under the record's names, NULL for a column that its version of the table does not have."""
        if lost := next((name for name in row if name in self._lacking), None):
            details = "the schema, the newest registered, has no such column"
            raise WireError("INVALID_VALUE", column=lost, details=details)
        stored = {sanitise_name(c.name) for c in event.table.columns if not c.virtual}
        cells: dict[str, Value] = {c.name: None for c in self._record.columns if c.name not in stored}
        cells |= {sanitise_name(name): value for name, value in row.items()}
        if broken := next((name for name in self._texts if isinstance(cells.get(name), bytes)), None):
            raise WireError("INVALID_VALUE", column=broken, details="bytes that are no UTF-8 are no string of Avro")
        return cells

    def _writers(self, record: RecordReader) -> list[FieldWriter]:
        columns = {c.name: c for c in record.columns}
        writers: list[FieldWriter] = []
        for field in record.fields:
            if field.name in columns:
                write = field_writer(columns[field.name], field.branches, self._options.time_zone)
                writers.append(partial(_write_column, write))
            elif field.name == BEFORE:
                writers.append(self._write_before)
            elif field.branches == (_KINDS[field.name],):
                writers.append(partial(_EXTENSION_WRITERS[field.name], self._options))
            else:
                details = f"the schema's field {field.name} is {' | '.join(field.branches)}, which TiCDC does not write"
                raise SetupError("USAGE", details=details)
        return writers

    def _write_before(self, event: RowChange, _record: Row, origin: Message) -> bytes:
        before = base.complete_before(event)
        if before is None or self._before is None:
            return b"\x00"
        cells = self._of_record(before, event)
        return b"\x02" + b"".join(write(event, cells, origin) for write in self._before)


def _write_column(write: RowWriter, event: RowChange, record: Row, _origin: Message) -> bytes:
    return write(record, event)


def _write_op(event: RowChange) -> bytes:
    return binary.write_bytes(b"c" if event.op == "r" else event.op.encode())


def _commit_ts(event: RowChange, origin: Message, options: Options) -> int:
    commit_ts = base.required_commit_ts(event, origin, options)
    if commit_ts is None:
        details = "the event has no commit_ts and the message no timestamp to make one from"
        raise LossyError("LOSSY_VALUE", column=_COMMIT_TS, details=details)
    return commit_ts


def _tso(commit_ts: int) -> bytes:
    return base.checked_commit_ts(commit_ts).to_bytes(8, "big")


def _checksum_fields(event: RowChange) -> bytes:
    """The row checksum that came with the event; without one TiCDC writes the schema's defaults ("", false, 0)."""
    raw_checksum = event.extra.get("checksum")
    checksum = raw_checksum if isinstance(raw_checksum, dict) else {}
    current, corrupted = checksum.get("current"), checksum.get("corrupted", False)
    version = checksum.get("version", 0)
    is_read = type(corrupted) is bool and type(version) is int and not version >> 31
    if not is_read or type(current) not in (int, str, type(None)):
        raise WireError("INVALID_VALUE", column="checksum", details=f"{checksum!r:.80} is no row checksum")
    text = b"" if current is None else str(current).encode()
    return binary.write_bytes(text) + (b"\x01" if corrupted else b"\x00") + binary.write_long(version)


_EXTENSION_WRITERS: dict[str, Callable[[Options, RowChange, Row, Message], bytes]] = {
    _OP: lambda _options, event, *_: _write_op(event),
    _COMMIT_TS: lambda options, event, _, origin: binary.write_long(_commit_ts(event, origin, options)),
    _TIME: lambda options, event, _, origin: binary.write_long(tso_physical_ms(_commit_ts(event, origin, options))),
    # TiCDC has the three fields of a checksum together.
    **dict.fromkeys((str(f["name"]) for f in CHECKSUM), lambda *_: b""),
    str(CHECKSUM[0]["name"]): lambda _options, event, *_: _checksum_fields(event),
}
