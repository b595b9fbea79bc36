"""One message as a person wants to see it: framing, schema, table version, and each field from its bytes to its value.

`explain` gives one JSON object (keys are stable, new ones may be added); `spark_jobs.jobs.explain` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ticdc_bridge.schemas.formats.base import Context, Decoder, FieldPosition
from ticdc_bridge.schemas.formats.definitions import name_mismatch
from ticdc_bridge.schemas.formats.format_table import FORMATS, WITH_SCHEMA_IDS
from ticdc_bridge.schemas.formats.framing import names_schema, unframe_part
from ticdc_bridge.schemas.inspect.field_positions import traces
from ticdc_bridge.schemas.inspect.format_detection import sniff
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError, WireError
from ticdc_bridge.schemas.model.event import Bootstrap, Event, Message, RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name, topic_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, TableSource
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.plain.writer import plain_event, plain_value

_OUT_OF_BAND = {1: "0x01, then a DDL event as JSON", 2: "0x02, then a watermark as uint64 big-endian"}
_FIRST_BYTE = {
    "craft": "version 1; the last bytes say where the size tables begin",
    "simple": "none: plain Avro, whose first byte is the branch of a union",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Registered = Callable[[SchemaId, str | None], list[tuple[str, int]]]
"""Schema id, and the subject of the message's topic → the subjects and versions it is registered as."""


class SchemasInMemory:
    """A registry in memory, for what a message would be in another format: nothing is registered anywhere."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        if not isinstance(schema_id, int) or not 0 < schema_id <= len(self._texts):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="explain")
        return self._texts[schema_id - 1]

    def newest(self, subject: str) -> str | None:
        return None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        self._texts.append(schema)
        return len(self._texts)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What is asked. format: its name or auto. earlier: messages before it, for formats that are read in order.

    options: of the formats that it is written in. sample: where the schemas of framed messages are registered.
    """

    message: Message
    format: str
    context: Context
    options: Options
    registered: Registered | None = None
    earlier: Iterable[Message] = ()


def explain(question: ExplainRequest) -> dict[str, Any]:
    """The answer, with `error` where the message can't be read. SetupError when the registry can't be reached."""
    message = question.message
    answer: dict[str, Any] = {"message": _message_position(message), "format": question.format, "told_by": None}
    if question.format == "auto":
        try:
            by_id, subject = question.context.schemas.by_id, topic_subject(message.topic, _first_part(message))
            detection = sniff(
                message.key, message.value, lambda i: by_id(i, _first_part(message), subject), message.headers
            )
        except WireError as error:  # it is framed Avro of a schema that can't be had
            framing = list(_framing("avro", message))
            return {**answer, "format": None, "framing": framing, "error": _error(error), "raw": _first_bytes(message)}
        answer |= {"format": detection.format, "told_by": detection.reason}
        if detection.format not in FORMATS:
            details = detection.reason if detection.format is None else f"it is {detection.format}, which is not read"
            unknown = WireError("UNKNOWN_FORMAT", details=details)
            return {**answer, "error": _error(unknown), "raw": _first_bytes(message)}
    name = str(answer["format"])
    answer["framing"] = list(_framing(name, message))
    answer["schemas"] = list(_schemas(name, question))
    decoder = format_named(name).decoder(question.context)
    for earlier in question.earlier if format_named(name).in_order else ():
        _try(decoder, earlier)
    try:
        events = decoder.decode(message)
    except WireError as error:
        return {**answer, "error": _error(error), "raw": _first_bytes(message)}
    fields = traces(name, decoder, message, events)
    answer["events"] = [
        _event(event, question, name, [f for f in fields if f.row == row]) for row, event in enumerate(events)
    ]
    return answer


def _try(decoder: Decoder, message: Message) -> None:
    try:
        decoder.decode(message)
    except WireError:
        return  # it is not asked about


def _message_position(message: Message) -> dict[str, Any]:
    time = None if message.timestamp is None else _time(message.timestamp)
    return {
        "topic": message.topic, "partition": message.partition, "offset": message.offset, "time": time,
        "key_bytes": None if message.key is None else len(message.key),
        "value_bytes": None if message.value is None else len(message.value),
        "headers": [name for name, _ in message.headers],
    }  # fmt: skip


def _time(milliseconds: int) -> str | None:
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    except OverflowError:
        return None


def _error(error: BridgeError) -> dict[str, str]:
    return {"code": error.code, "detail": error.detail}


def _first_bytes(message: Message) -> dict[str, str | None]:
    """The first bytes of a message that can't be read."""
    return {
        part: None if data is None else data[:256].hex()
        for part, data in (("key", message.key), ("value", message.value))
    }


# ---- framing and schemas
def _framing(name: str, message: Message) -> Iterable[dict[str, Any]]:
    for part, data in (("key", message.key), ("value", message.value)):
        if data is None:
            yield {"part": part, "hex": "", "says": "null"}
        elif name in ("open", "open-tiflow"):
            head = data[: 16 if part == "key" else 8]
            says = "version 1, then length and body of each event" if part == "key" else "length and body of each event"
            yield {"part": part, "hex": head.hex(), "says": says}
        elif name in WITH_SCHEMA_IDS and _has_schema_id(part, data, message):
            yield _header(part, data, message)
        elif name == "avro" and data[:1] == b"\x03":
            yield {"part": part, "hex": data[:1].hex(), "says": "0x03, then the delete's commit_ts, uint64 big-endian"}
        elif name == "avro" and data[:1] and data[0] in _OUT_OF_BAND:
            yield {"part": part, "hex": data[:1].hex(), "says": _OUT_OF_BAND[data[0]]}
        elif data[:1] == b"{":
            yield {"part": part, "hex": "", "says": "none: a JSON document"}
        else:
            yield {"part": part, "hex": data[:1].hex(), "says": _FIRST_BYTE.get(name, "")}


def _first_part(message: Message) -> str:
    return "key" if message.value is None else "value"


def _has_schema_id(part: str, data: bytes, message: Message) -> bool:
    """Whether a part of a message in Avro says a schema's id; a delete of avro-enable-watermark says none."""
    if names_schema(message.headers, part):
        return True
    return data[:1] == b"\x00" or (data[:1] == b"\x03" and len(data) != 9)


def _header(part: str, data: bytes, message: Message) -> dict[str, Any]:
    try:
        schema_id, _, _, where = unframe_part(data, part, message.headers)
    except WireError as error:
        return {"part": part, "hex": data[:5].hex(), "says": error.detail}
    if names_schema(message.headers, part) and where != part:
        return {"part": part, "hex": "", "says": f"none: schema {schema_id} by {where.partition('(')[2][:-1]}"}
    if data[:1] == b"\x00" and not isinstance(schema_id, int):
        return {"part": part, "hex": data[:9].hex(), "says": f"0x00, schema id {schema_id}"}
    if isinstance(schema_id, int):
        return {"part": part, "hex": data[:5].hex(), "says": f"Confluent: 0x00, schema id {schema_id}"}
    suffix = ", body in zlib" if data[1] else ""
    return {"part": part, "hex": data[:18].hex(), "says": f"AWS Glue: 0x03{suffix}, schema {schema_id}"}


def _schemas(name: str, question: ExplainRequest) -> Iterable[dict[str, Any]]:
    message = question.message
    for part, data in (("key", message.key), ("value", message.value)):
        if name not in WITH_SCHEMA_IDS or data is None or not _has_schema_id(part, data, message):
            continue
        try:
            schema_id = unframe_part(data, part, message.headers)[0]
        except WireError:
            continue
        entry: dict[str, Any] = {"part": part, "id": schema_id, "registered": None}
        if question.registered is not None:
            try:
                registered = question.registered(schema_id, topic_subject(message.topic, part))
                entry["registered"] = [{"subject": s, "version": v} for s, v in registered]
            except BridgeError as error:
                entry["error"] = _error(error)
        yield entry


# ---- events
def _event(event: Event, question: ExplainRequest, name: str, fields: list[FieldPosition]) -> dict[str, Any]:
    plain = plain_event(event, question.message)
    report = {k: v for k, v in plain.items() if k not in ("topic", "partition", "offset", "before", "after", "format")}
    commit_ts = event.commit_ts
    report["commit_time"] = None if commit_ts is None else _time(tso_physical_ms(commit_ts))
    others = {other: _write_elsewhere(event, question, other) for other in FORMATS if other != name}
    report["elsewhere"] = {other: outcome.summary for other, outcome in others.items()}
    if not isinstance(event, RowChange):
        return report
    report["types_from"] = _types_from(event, question.context.tables)
    report["fields"] = list(_fields(event, fields, others))
    report["beside"] = [
        {
            "part": f.part,
            "offset": f.offset,
            "bytes": len(f.raw),
            "hex": _hex(f.raw),
            "wire": f.wire,
            "name": f.name,
            "value": f.value,
        }
        for f in fields
        if not f.side
    ]
    return report


def _types_from(event: RowChange, tables: TableSource | None) -> str:
    if event.table_version is not None:
        return f"the table's version of commit_ts {event.table_version}"
    if event.mismatch is not None:
        return f"the message; the definition is not used: {event.mismatch}"
    if any(c.vague for c in event.table.columns):
        return "the message, which does not tell all of them: give table definitions (--ddl)"
    note = "" if tables is None else "; no definition that was given or read before it fits"
    return f"the message or its schema{note}"


def _fields(event: RowChange, fields: list[FieldPosition], others: dict[str, _OtherFormat]) -> Iterable[dict[str, Any]]:
    by_place = {(f.side, f.name): f for f in fields}
    for side, row in (("before", event.before), ("after", event.after)):
        for name, value in (row or {}).items():
            column = event.table.by_name.get(name)
            position = by_place.get((side, name)) or by_place.get((side, sanitise_name(name)))
            if position is None and event.key_only:
                position = by_place.get(("key", name))
            yield {
                "side": side,
                "column": name,
                "type": "" if column is None else declared_type(column),
                "key": name in event.key,
                "part": position and position.part,
                "offset": position and position.offset,
                "bytes": position and len(position.raw),
                "hex": None if position is None else _hex(position.raw),
                "wire": None if position is None else position.wire,
                "value": plain_value(value),
                "elsewhere": {o: e.fields[side, name] for o, e in others.items() if (side, name) in e.fields},
            }


_MOST_HEX = 64


def _hex(raw: bytes) -> str:
    """The bytes; of a long field only the first."""
    return raw.hex() if len(raw) <= _MOST_HEX else raw[:_MOST_HEX].hex() + "…"


def declared_type(column: Column) -> str:
    """A column's type as SHOW CREATE TABLE writes it, as far as it is known; what it could be where it is not."""
    if column.vague:
        return f"not certain: {column.vague}"
    return type_text(column) + " NOT NULL" * (not column.nullable)


# ---- the same event in another format
@dataclass(frozen=True, slots=True)
class _OtherFormat:
    """The event in another format: how large, or why not; and what stands there for each column."""

    summary: dict[str, Any]
    fields: dict[tuple[str, str], str]


def _write_elsewhere(event: Event, question: ExplainRequest, name: str) -> _OtherFormat:
    """Written strictly; where that fails, also as --on-lossy flag would."""
    if not FORMATS[name].writes:
        return _OtherFormat({"skipped": "it is read, not written"}, {})
    try:
        return _write_event(event, question, name, question.options)
    except SetupError as error:
        return _OtherFormat({"error": _error(error)}, {})
    except WireError as error:
        refused = name_mismatch(error, event.mismatch if isinstance(event, RowChange) else None)
    try:
        loosely = _write_event(event, question, name, replace(question.options, on_lossy="flag"))
    except BridgeError:
        return _OtherFormat({"error": _error(refused)}, {})
    return _OtherFormat({"error": _error(refused), "with_on_lossy_flag": loosely.summary}, loosely.fields)


def _write_event(event: Event, question: ExplainRequest, name: str, options: Options) -> _OtherFormat:
    context = Context(SchemasInMemory(), None, options)
    encoder = FORMATS[name].encoder(context)
    own_event = event
    if isinstance(event, RowChange):  # an encoder may add flags: not to the event that is explained
        own_event = replace(event, flags=list(event.flags))
    elif isinstance(event, Bootstrap):
        return _OtherFormat({"skipped": "it has nothing like it"}, {})
    messages = encoder.encode(own_event, replace(question.message, topic=question.message.topic or "topic"))
    if not messages:
        return _OtherFormat({"skipped": "it has nothing like it, with these options"}, {})
    flags = [f for f in getattr(own_event, "flags", []) if f not in getattr(event, "flags", [])]
    summary: dict[str, Any] = {
        "messages": len(messages),
        "key_bytes": sum(len(m.key or b"") for m in messages),
        "value_bytes": sum(len(m.value or b"") for m in messages),
    }
    if flags:
        summary["flags"] = flags
    return _OtherFormat(summary, _columns_in(name, FORMATS[name].decoder(context), messages, event))


def _columns_in(name: str, decoder: Decoder, messages: list[Message], event: Event) -> dict[tuple[str, str], str]:
    """(side, column) → what stands in the messages for it."""
    texts: dict[tuple[str, str], str] = {}
    if not isinstance(event, RowChange):
        return texts
    for message in messages:
        for field in traces(name, decoder, message, [event]):
            if field.side == "key" and message.value is not None:
                continue
            side = field.side if field.side != "key" else "before"
            if (event.before if side == "before" else event.after) is not None:
                texts[side, field.name] = _show_field(field)
    return texts or dict(_read_back(decoder, messages))


def _read_back(decoder: Decoder, messages: list[Message]) -> Iterable[tuple[tuple[str, str], str]]:
    """For a format of which it is not known where its columns stand: what its decoder makes of them."""
    for message in messages:
        for event in decoder.decode(message):
            if isinstance(event, RowChange):
                for side, row in (("before", event.before), ("after", event.after)):
                    for name, value in (row or {}).items():
                        yield (side, name), f"read back as {_shorten(plain_value(value))}"


def _shorten(value: Any) -> str:
    text = "NULL" if value is None else f"0x{value['hex']}" if isinstance(value, dict) else str(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _show_field(field: FieldPosition) -> str:
    """What stands in the message: JSON as text, else the bytes."""
    if field.wire.startswith("JSON"):
        return _shorten(field.raw.decode("utf-8", "replace"))
    return "0x" + _hex(field.raw)
