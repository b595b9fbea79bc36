"""Change events in a DataFrame (spark_jobs.arrow.change_schema.CHANGES) → messages, in Spark's Python workers.

Columns come from table definitions, else from the Avro schema that the event's schema_id names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.formats.base import Encoder
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.names import topic_subject
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BYTES, Kind
from ticdc_bridge.schemas.plain.column_check import ColumnCheck
from ticdc_bridge.schemas.plain.reader import ChosenKeys, name_elements, with_row_key
from ticdc_bridge.spark_jobs.arrow.event_rows import Batches, message_rows
from ticdc_bridge.spark_jobs.io.message_files import rows_of
from ticdc_bridge.spark_jobs.pipeline.arguments import rows_with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import encode_event
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult
from ticdc_bridge.spark_jobs.pipeline.table_view import NOT_TYPED

_HEX, _END = '{"hex":"', '"}'
_OPS = ("c", "u", "d", "r")


@dataclass(frozen=True)
class EncodeBatches:
    """Change events → spark_jobs.arrow.change_schema.MESSAGES. read: where columns are known; write: the format.

    An event that can't be written, or came as an error, gives a row with `error` and no key or value.
    """

    read: CodecConfig
    write: CodecConfig
    topic: str | None
    schema: Any

    def __call__(self, batches: Batches) -> Iterator[Any]:
        return rows_with_parameter_names("encode", self._encode_batches(batches))

    def _encode_batches(self, batches: Batches) -> Iterator[Any]:
        encoder, tables = self.write.encoder(), _Tables(self.read)
        for batch in batches:
            rows = [row for event_row in rows_of(batch) for row in self._encode_row(encoder, tables, event_row)]
            yield pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _encode_row(self, encoder: Encoder, tables: _Tables, event_row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        source = event_row.get("source") or {}
        origin = Message(
            None, None, source.get("topic"), source.get("partition"), source.get("offset"),
            source.get("timestamp"), tuple((h["key"], h["value"]) for h in event_row.get("headers") or ()),
        )  # fmt: skip
        if event_row["kind"] == "error":
            error = event_row.get("error") or {}
            message = replace(origin, key=error.get("key"), value=error.get("value"))
            details = f"{error.get('code')}: {error.get('detail')}"
            refused = MessageResult(error=WireError("MALFORMED", where="event", details=details))
            yield from message_rows(refused, message)
            return
        if event_row["kind"] == "bootstrap":  # as transcode does: nobody has a form for it
            yield from message_rows(MessageResult(skipped=["bootstrap"]), origin)
            return
        try:
            event = _event(event_row, tables, self.read.options.time_zone)
            yield from message_rows(encode_event(encoder, event, origin, self.topic), origin)
        except WireError as broken:
            yield from message_rows(MessageResult(error=broken), origin)


class _Tables:
    """Definitions of the events' tables, each made once."""

    def __init__(self, config: CodecConfig) -> None:
        self._config = config
        self._made: dict[tuple[Any, ...], Table] = {}
        self._chosen = ChosenKeys(100_000)
        self.held = ColumnCheck()

    def of(
        self, id_: TableId, commit_ts: int | None, schema_id: Any, key: tuple[str, ...], subject: str | None
    ) -> tuple[Table, int | None]:
        """The table and its version. WireError TYPE_UNKNOWN. subject: of the topic that the event came from."""
        version = self._config.tables.at(id_, commit_ts) if self._config.tables is not None else None
        if version is not None:
            return with_row_key(version.table, key, self._chosen), version.commit_ts
        if schema_id is None:
            details = f"table {id_} at commit_ts {commit_ts} has no definition, and the event no schema_id: give ddl="
            raise WireError("TYPE_UNKNOWN", column="*", details=details)
        table = self._made.get((id_, schema_id, key, subject))
        if table is None:
            text = self._config.schemas.by_id(schema_id, "event", subject)
            record = compile_record(text, f"schema id {schema_id}")
            table = self._made[id_, schema_id, key, subject] = Table.keyed(id_, record.columns, key)
        return table, None


def _event(row: Mapping[str, Any], tables: _Tables, zone: str) -> Event:
    kind, commit_ts = row["kind"], row.get("commit_ts")
    if kind == "watermark" and commit_ts is not None:
        return Watermark("made", commit_ts)
    db, name = row.get("db") or "", row.get("table") or ""
    if kind == "ddl":
        return DdlEvent("made", db, name, commit_ts, row.get("ddl_type"), row.get("query") or "")
    if kind != "row" or row.get("op") not in _OPS:
        raise WireError("INVALID_VALUE", column="op", details=f"kind {kind!r}, op {row.get('op')!r}: no change event")
    flags = list(row.get("flags") or ())
    for flag in flags:
        if flag.startswith(f"{NOT_TYPED}:"):
            details = "the value did not fit its Spark type, and NULL stands for it: decode with types='exact'"
            raise WireError("INVALID_VALUE", column=flag.partition(":")[2], details=details)
    key = tuple(row.get("key") or ())
    topic = (row.get("source") or {}).get("topic")
    subject = topic_subject(topic, "key" if row["op"] == "d" else "value")
    table, version = tables.of(TableId(db, name), commit_ts, row.get("schema_id"), key, subject)
    before, after = (_row(table, row.get(image), zone) for image in ("before", "after"))
    flags = name_elements(table, flags, before, after)
    # A frame does not say whether BIT's length was known where it was made.
    tables.held.check(table, (before, after), flags, listed=version is None, fewest=True)
    key_only = False
    if row["op"] == "d" and before is not None:
        others = [n for n in before if n not in key]
        key_only = bool(key) and all(before[n] is None for n in others) and len(key) < len(table.columns)
        before = {n: before[n] for n in key if n in before} if key_only else before
    return RowChange(
        "made", table, row["op"], commit_ts, before, after, key or table.handle_key, zone, row.get("schema_id"),
        version, flags, {}, key_only, number=row.get("row") or 0,
    )  # fmt: skip


def _row(table: Table, entries: Any, zone: str) -> dict[str, Value] | None:
    """A map's entries or a struct's fields → the plain row."""
    if entries is None:
        return None
    pairs = entries.items() if isinstance(entries, dict) else entries
    by_name = table.by_name
    row: dict[str, Value] = {}
    for name, value in pairs:
        column = by_name.get(name)
        if column is not None:
            row[name] = _plain(column, value, zone)
        elif value is not None:
            raise WireError("INVALID_VALUE", column=name, details=f"table {table.id} has no such column then")
    return row


def _plain(column: Column, value: Any, zone: str) -> Value:
    """A typed value, or a map's text, in plain form. WireError INVALID_VALUE, TYPE_UNKNOWN."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        if not (value.startswith(_HEX) and value.endswith(_END)):
            return value
        if column.type.kind not in BYTES:
            details = "text that looks like bytes in plain form: which it is can't be known here"
            raise WireError("INVALID_VALUE", column=column.name, details=details)
        try:
            digits = value[len(_HEX) : -len(_END)]
            if len(data := bytes.fromhex(digits)) * 2 < len(digits):  # Python takes blanks between bytes
                raise ValueError(f"{value[:60]} has more than digits")
            return data
        except ValueError as error:
            raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return values.float_text(value) if column.type.kind is Kind.FLOAT else values.double_text(value)
    if isinstance(value, date | timedelta):
        return _temporal(column, value, zone)
    return str(value)


def _temporal(column: Column, value: date | timedelta, zone: str) -> str:
    """A value of `decode`'s types="typed" → text with the column's fraction digits; an instant in the zone."""
    try:
        if isinstance(value, timedelta):
            return values.time_of_micros(value // _MICROSECOND, _digits(column))
        if not isinstance(value, datetime):
            return value.isoformat()
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        text = values.datetime_of_micros((moment - _EPOCH) // _MICROSECOND, _digits(column))
        if value.tzinfo is None:
            return text
        text, twice = values.shift_zone(text, "UTC", zone)
    except (ValueError, OverflowError) as error:
        raise WireError("INVALID_VALUE", column=column.name, details=str(error)) from error
    if twice:
        details = f"{value} has no text of its own in {zone}, where clocks were set back: say time_zone='UTC'"
        raise WireError("INVALID_VALUE", column=column.name, details=details)
    return text


def _digits(column: Column) -> int:
    if column.scale is None:
        details = "how many fraction digits it has is not known: give table definitions (ddl=)"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return column.scale


_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
