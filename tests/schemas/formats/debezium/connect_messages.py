"""Messages as Kafka Connect sends them, made by hand, and how they are read."""

import json
from typing import Any

from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.formats.base import Context, Decoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult

DECIMAL = "org.apache.kafka.connect.data.Decimal"
SOURCE = {"connector": "mysql", "name": "srv", "ts_ms": 1764000000000, "db": "shop", "table": "orders"}


def json_bytes(value: Any) -> bytes | None:
    """JSON of a value; text that is JSON already (numbers of any length) as it is; None for None."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def message(value: Any, key: Any = None, topic: str | None = "orders", **headers: str) -> Message:
    pairs = tuple((name, text.encode()) for name, text in headers.items())
    return Message(json_bytes(key), json_bytes(value), topic, 0, 0, 1764000000000, pairs)


def envelope(after: Any, before: Any = None, op: str = "c", **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {**SOURCE, **source}, "op": op, "ts_ms": 1764000000100}


def field(name: str, kind: str, semantic: str = "", **parameters: str) -> dict[str, Any]:
    """A field of a Connect schema."""
    more: dict[str, Any] = {"name": semantic} if semantic else {}
    return {"type": kind, "optional": True, "field": name, **more, **({"parameters": parameters} if parameters else {})}


def with_schema(payload: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
    """An envelope as the JSON converter writes it with schemas.enable: id, and these columns."""
    columns = [{"type": "int32", "optional": False, "field": "id"}, *fields]
    images = [{"type": "struct", "fields": columns, "optional": True, "field": image} for image in ("before", "after")]
    return {"schema": {"type": "struct", "fields": images, "name": "srv.shop.orders.Envelope"}, "payload": payload}


def keyed(payload: dict[str, Any], name: str = "srv.shop.orders.Key", kind: str = "int32") -> dict[str, Any]:
    """A key as the JSON converter writes it with schemas.enable."""
    fields = [{"type": kind, "optional": False, "field": column} for column in payload]
    return {"schema": {"type": "struct", "fields": fields, "name": name}, "payload": payload}


def definitions(*statements: str) -> TableDefinitions:
    return TableDefinitions(versions([DdlText(n, "shop", sql) for n, sql in enumerate(statements, 1)]))


def decoder(ddl: str | tuple[str, ...] = (), format_: str = "debezium-mysql", **options: Any) -> Decoder:
    statements = (ddl,) if isinstance(ddl, str) else ddl
    tables = definitions(*statements) if statements else None
    return format_named(format_).decoder(Context(FileSchemas([]), tables, Options.of(options)))


def read(messages: list[Message], ddl: str | tuple[str, ...] = (), **options: Any) -> list[MessageResult]:
    reader = decoder(ddl, **options)
    return [decode_message(reader, entry) for entry in messages]


def shown(result: MessageResult) -> Any:
    """A result as tests compare it: (op, table, key, before, after), the error's text, or what was skipped."""
    if result.error is not None:
        return f"{result.error.code}: {result.error.detail}"
    if not result.events:
        return result.skipped
    [event] = result.events
    if isinstance(event, RowChange):
        return event.op, f"{event.db}.{event.table_name}", list(event.key), event.before, event.after
    return event


def flags(result: MessageResult) -> list[str]:
    return [flag for event in result.events if isinstance(event, RowChange) for flag in event.flags]
