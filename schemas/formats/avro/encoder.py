"""TiCDC Avro (protocol=avro), written; `decoder` says what the messages are like."""

from __future__ import annotations

from dataclasses import replace

from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.codec import go_text
from ticdc_bridge.schemas.ddl.parser.action_types import ddl_type_of
from ticdc_bridge.schemas.formats.avro.decoder import DDL, DELETE, WATERMARK, checksum_fields, tso
from ticdc_bridge.schemas.formats.avro.record import RowWriter
from ticdc_bridge.schemas.formats.avro.schema_ids import SchemaIds
from ticdc_bridge.schemas.formats.base import Context, refuse_changed, required_commit_ts, whole_before
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.model.errors import LossyError, SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms

OVERHEAD = 36  # what TiCDC counts for a Kafka record beside key and value (upstream `common/message.go`)


# ---------------------------------------------------------------------------------------------- encoder
class AvroEncoder:
    """Writes what TiCDC's encoder writes; schemas are registered (or looked up) once per table and topic."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._options = context.options
        self._plans = SchemaIds(context.schemas, context.options)
        options = self._options
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
            raise WireError(
                "USAGE", details="Avro needs a topic for its subjects, and the message has none: give --topic"
            )
        if event.format != "avro":
            refuse_changed(event, self._options)
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
            return [self._message(event, origin, key, bytes([DELETE]) + tso(event.commit_ts))]
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
            return [replace(origin, key=None, value=bytes([WATERMARK]) + tso(event.commit_ts))]
        ddl_type, commit_ts = ddl_type_of(event), required_commit_ts(event, origin, self._options)
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
            before = whole_before(event)
            out.append(b"\x00" if before is None else b"\x02" + write(before, event))
        if options.enable_tidb_extension or options.avro_include_before_value:
            out.append(binary.write_bytes(b"c" if event.op == "r" else event.op.encode()))
        if options.enable_tidb_extension:
            commit_ts = required_commit_ts(event, origin, options)
            if commit_ts is None:
                details = "the event has no commit_ts and the message no timestamp to make one from"
                raise LossyError("LOSSY_VALUE", column="_tidb_commit_ts", details=details)
            out.append(binary.write_long(commit_ts) + binary.write_long(tso_physical_ms(commit_ts)))
        if options.enable_row_checksum:
            out.append(checksum_fields(event.extra.get("checksum")))
        return b"".join(out)
