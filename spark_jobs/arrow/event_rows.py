"""Change events as rows of the DataFrame form."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ticdc_bridge.schemas.model.event import Event, Message, Row, RowChange, tso_physical_ms
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, kind_of
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PYTHONS = range(-62_135_596_800_000, 253_402_300_800_000)  # ms, of the years 1 to 9999
Batches = Iterable[pa.RecordBatch]


def timestamp_of(milliseconds: int | None) -> datetime | int | None:
    """What Arrow takes for a timestamp: microseconds where Python has no such time."""
    if milliseconds is None or milliseconds in _PYTHONS:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    return milliseconds * 1000


def message_row(message: Message) -> dict[str, Any]:
    """A message as a row with Kafka's columns, but for its offset."""
    return {
        "topic": message.topic, "partition": message.partition, "key": message.key, "value": message.value,
        "timestamp": timestamp_of(message.timestamp),
        "headers": [{"key": name, "value": value} for name, value in message.headers],
    }  # fmt: skip


def message_rows(result: MessageResult, origin: Message) -> Iterator[dict[str, Any]]:
    """What a message became, as rows of MESSAGES; one that failed is itself with its error; for what is not written
    see UNWRITTEN (spark_jobs.arrow.change_schema)."""
    error = None if result.error is None else {"code": result.error.code, "detail": result.error.detail}
    for message in result.out if error is None else (origin,):
        yield {**message_row(message), "error": error}
    for kind in result.skipped:
        yield {"headers": [], "error": {"code": None, "detail": kind}}


def change_rows(result: MessageResult, origin: Message, view: TableView | None = None) -> Iterator[dict[str, Any]]:
    """What a message became, as rows of a change event (spark_jobs.arrow.change_schema).

    view: its table's rows have structs in its types; those of other tables are of the kind `other`, without values.
    """
    position = position_of(origin)
    if result.error is not None:
        error = {"code": result.error.code, "detail": result.error.detail, "key": origin.key, "value": origin.value}
        yield {"kind": "error", "row": 0, **position, "error": error}
    for number, event in enumerate(result.events):
        row = {**change_row(event), "row": number, **position}
        if view is not None and isinstance(event, RowChange):
            if view.has(event.table.id):
                row |= {"before": view.row(event.before, event.zone), "after": view.row(event.after, event.zone)}
            else:
                row |= {"kind": "other", "before": None, "after": None}
        yield row


def all_rows(result: MessageResult, origin: Message, view: TableView | None = None) -> Iterator[dict[str, Any]]:
    """`change_rows`, and one of kind `tombstone` or `empty` for a message without an event."""
    yield from change_rows(result, origin, view)
    for kind in result.skipped:
        yield {"kind": kind, "row": 0, **position_of(origin)}


def position_of(origin: Message) -> dict[str, Any]:
    """Where a message came from and its record headers, as the columns `source` and `headers`."""
    source = {
        "topic": origin.topic, "partition": origin.partition, "offset": origin.offset,
        "timestamp": timestamp_of(origin.timestamp),
    }  # fmt: skip
    return {"source": source, "headers": [{"key": name, "value": v} for name, v in origin.headers] or None}


def change_row(event: Event) -> dict[str, Any]:
    """An event as a row of CHANGES, but for its place in the input."""
    time = timestamp_of(tso_physical_ms(event.commit_ts)) if event.commit_ts is not None else None
    head = {"kind": kind_of(event), "commit_ts": event.commit_ts, "commit_time": time}
    if not isinstance(event, RowChange):
        return {**head, **{name: getattr(event, name, None) for name in ("db", "table", "ddl_type", "query")}}
    return {
        **head, "op": event.op, "db": event.table.id.db, "table": event.table.id.table, "schema_id": event.schema_id,
        "table_version": event.table_version, "key": list(event.key), "before": _texts(event.before),
        "after": _texts(event.after), "flags": event.flags,
    }  # fmt: skip


def _texts(row: Row | None) -> list[tuple[str, str | None]] | None:
    """A row as map entries; bytes as the plain form writes them, `{"hex":"…"}`."""
    if row is None:
        return None
    return [(name, f'{{"hex":"{v.hex()}"}}' if isinstance(v, bytes) else v) for name, v in row.items()]
