"""One message as a person wants to see it: framing, schema, table version, and each field from its bytes to its value.

`explain` gives one JSON object (keys are stable, new ones may be added); `spark_jobs.jobs.explain` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.avro import TruncatedValue
from ticdc_bridge.schemas.formats.base import Context, Decoder, FieldLocator, FieldPosition, SchemasInMemory
from ticdc_bridge.schemas.formats.definitions import name_definition
from ticdc_bridge.schemas.formats.format_table import FORMATS, WITH_SCHEMA_IDS
from ticdc_bridge.schemas.formats.framing import names_schema, unframe_field
from ticdc_bridge.schemas.formats.simple import avro
from ticdc_bridge.schemas.inspect.format_detection import detect_message
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError, WireError
from ticdc_bridge.schemas.model.event import Bootstrap, Event, Message, RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.names import sanitise_name, topic_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, TableSource
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.plain.writer import plain_event, plain_value

# ---- Where the columns of a message stand in its bytes, for every format that can say it (`explain`).
#
# A decoder with a `trace` says it itself. The JSON formats are rows of a table: where in the document their rows are.
# For a format with neither nothing is known of the bytes.

Path = tuple[str | int, ...]

# Format → (part, side, path of an object whose members are columns). "shown" is the row that a delete had.
_ROWS: dict[str, tuple[tuple[str, str, Path], ...]] = {
    "debezium": (
        ("key", "key", ("payload",)), ("key", "key", ()), ("value", "before", ("payload", "before")),
        ("value", "after", ("payload", "after")), ("value", "before", ("before",)), ("value", "after", ("after",)),
    ),
    "simple": (("value", "before", ("old",)), ("value", "after", ("data",))),
    "canal-json": (("value", "before", ("old", 0)), ("value", "shown", ("data", 0))),
}  # fmt: skip
# Of a row that a transform flattened.
_FLATTENED: tuple[tuple[str, str, Path], ...] = (
    ("key", "key", ("payload",)), ("key", "key", ()), ("value", "shown", ("payload",)), ("value", "shown", ()),
)  # fmt: skip
_ROWS |= dict.fromkeys(("debezium-mysql", "debezium-tidb"), _ROWS["debezium"])
_OPEN = ("open", "open-tiflow")
_SIMPLE_IMAGES = {"data": "after", "old": "before"}
_OPEN_IMAGES = {"u": "after", "p": "before", "d": "before"}


def traces(format_: str, decoder: Decoder, message: Message, events: Sequence[Event]) -> list[FieldPosition]:
    """The fields of a message that was decoded to these events; none where that is not known."""
    try:
        if isinstance(decoder, FieldLocator):
            return decoder.trace(message)
        if format_ == "simple" and message.value and message.value[0] == avro.FIRST_BYTE:
            value, cells = message.value, avro.cells(message.value)
            return [FieldPosition("value", a, value[a:b], t, _SIMPLE_IMAGES[row], name) for row, name, a, b, t in cells]
        if format_ in _OPEN:
            return list(_open(message))
        is_flat = any(isinstance(event, RowChange) and "flattened" in event.extra for event in events)
        return list(_json(_FLATTENED if is_flat else _ROWS.get(format_, ()), message, events))
    except (WireError, ValueError, LookupError, TypeError, AttributeError, TruncatedValue):
        return []  # compressed, fetched from elsewhere, or of another form: the values are still told


def _json(rows: Sequence[tuple[str, str, Path]], message: Message, events: Sequence[Event]) -> Iterator[FieldPosition]:
    is_delete = bool(events) and isinstance(events[0], RowChange) and events[0].op == "d"
    seen = set[tuple[str, str]]()
    for piece, image, path in rows:
        data = message.key if piece == "key" else message.value
        if (piece, image) in seen or not data or not data.lstrip().startswith(b"{"):
            continue
        row_image = ("before" if is_delete else "after") if image == "shown" else image
        text = json_exact.document(data)
        start = json_exact.find(text, path)
        if start is not None and json_exact.kind_of(text, start) == "object":
            seen.add((piece, image))
            yield from _members(text, start, piece, row_image, 0, 0)


def _members(text: str, start: int, field: str, image: str, base: int, row: int) -> Iterator[FieldPosition]:
    """The members of the object at character `start`, as columns; `base`: bytes before the text."""
    done, offset = 0, base
    for name, begin, end in json_exact.members(text, start):
        offset += len(_bytes(text[done:begin]))
        raw = _bytes(text[begin:end])
        yield FieldPosition(field, offset, raw, f"JSON {json_exact.kind_of(text, begin)}", image, str(name), row)
        done, offset = end, offset + len(raw)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _open(message: Message) -> Iterator[FieldPosition]:
    """Open Protocol: length-prefixed JSON, {"u": {column: {"t","f","v"}}, "p": …}."""
    data, pos, row = message.value or b"", 0, 0
    while pos + 8 <= len(data):
        size = int.from_bytes(data[pos : pos + 8], "big")
        pos += 8
        text = json_exact.document(data[pos : pos + size])
        for kind, start, _ in json_exact.members(text, 0) if text else ():
            image = _OPEN_IMAGES.get(str(kind))
            if image is None:
                continue
            for cell in _members(text, start, "value", image, pos, row):
                cell_text = json_exact.document(cell.raw)
                code = json_exact.find(cell_text, ("t",))
                pieces = (t for t in _members(cell_text, 0, "value", image, cell.offset, row) if t.name == "v")
                value = next(pieces, None)
                if value is None:
                    continue
                _, end = json_exact.decode_from(cell_text, code or 0)
                wire = f"{value.wire}, type code {cell_text[code:end]}" if code else value.wire
                yield FieldPosition("value", value.offset, value.raw, wire, image, cell.name, row)
        pos, row = pos + size, row + 1


_OUT_OF_BAND = {1: "0x01, then a DDL event as JSON", 2: "0x02, then a watermark as uint64 big-endian"}
_FIRST_BYTE = {
    "craft": "version 1; the last bytes say where the size tables begin",
    "simple": "none: plain Avro, whose first byte is the branch of a union",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Registered = Callable[[SchemaId, str | None], list[tuple[str, int]]]
"""Schema id, and the subject of the message's topic → the subjects and versions it is registered as."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A question about one message. format: its name or auto. options: of the formats that it is written in.

    registered: where the schemas of framed messages are registered. earlier: messages before it, for formats that are
    read in order.
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
    answer: dict[str, Any] = {"message": _message_position(message), "format": question.format, "detected_by": None}
    if question.format == "auto":
        try:
            detection = detect_message(message, question.context.schemas)
        except WireError as error:  # it is framed Avro of a schema that can't be had
            framing = list(_framing("avro", message))
            return {**answer, "format": None, "framing": framing, "error": _error(error), "raw": _first_bytes(message)}
        answer |= {"format": detection.format, "detected_by": detection.reason}
        if detection.format not in FORMATS:
            details = detection.reason if detection.format is None else f"it is {detection.format}, which is not read"
            unknown = WireError("UNKNOWN_FORMAT", details=details)
            return {**answer, "error": _error(unknown), "raw": _first_bytes(message)}
    name = str(answer["format"])
    answer["framing"] = list(_framing(name, message))
    answer["schemas"] = list(_schemas(name, question))
    decoder = format_named(name).decoder(question.context)
    for earlier in question.earlier if format_named(name).in_order else ():
        with suppress(WireError):  # it is not asked about
            decoder.decode(earlier)
    try:
        events = decoder.decode(message)
    except WireError as error:
        return {**answer, "error": _error(error), "raw": _first_bytes(message)}
    fields = traces(name, decoder, message, events)
    answer["events"] = [
        _event(event, question, name, [f for f in fields if f.row == row]) for row, event in enumerate(events)
    ]
    return answer


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
    return {
        field: None if data is None else data[:256].hex()
        for field, data in (("key", message.key), ("value", message.value))
    }


# ---- framing and schemas
def _framing(name: str, message: Message) -> Iterable[dict[str, Any]]:
    for field, data in (("key", message.key), ("value", message.value)):
        if data is None:
            yield {"part": field, "hex": "", "says": "null"}
        elif name in _OPEN:
            head = data[: 16 if field == "key" else 8]
            version = "version 1, then " if field == "key" else ""
            yield {"part": field, "hex": head.hex(), "says": f"{version}length and body of each event"}
        elif name in WITH_SCHEMA_IDS and _has_schema_id(field, data, message):
            yield _header(field, data, message)
        elif name == "avro" and data[:1] == b"\x03":
            yield {"part": field, "hex": data[:1].hex(), "says": "0x03, then the delete's commit_ts, uint64 big-endian"}
        elif name == "avro" and data[:1] and data[0] in _OUT_OF_BAND:
            yield {"part": field, "hex": data[:1].hex(), "says": _OUT_OF_BAND[data[0]]}
        elif data[:1] == b"{":
            yield {"part": field, "hex": "", "says": "none: a JSON document"}
        else:
            yield {"part": field, "hex": data[:1].hex(), "says": _FIRST_BYTE.get(name, "")}


def _has_schema_id(field: str, data: bytes, message: Message) -> bool:
    """True if a part of a message in Avro says a schema's id; a delete of avro-enable-watermark says none."""
    if names_schema(message.headers, field):
        return True
    return data[:1] == b"\x00" or (data[:1] == b"\x03" and len(data) != 9)


def _header(field: str, data: bytes, message: Message) -> dict[str, Any]:
    try:
        schema_id, _, _, where = unframe_field(data, field, message.headers)
    except WireError as error:
        return {"part": field, "hex": data[:5].hex(), "says": error.detail}
    if names_schema(message.headers, field) and where != field:
        return {"part": field, "hex": "", "says": f"none: schema {schema_id} by {where.partition('(')[2][:-1]}"}
    if data[:1] == b"\x00" and not isinstance(schema_id, int):
        return {"part": field, "hex": data[:9].hex(), "says": f"0x00, schema id {schema_id}"}
    if isinstance(schema_id, int):
        return {"part": field, "hex": data[:5].hex(), "says": f"Confluent: 0x00, schema id {schema_id}"}
    suffix = ", body in zlib" if data[1] else ""
    return {"part": field, "hex": data[:18].hex(), "says": f"AWS Glue: 0x03{suffix}, schema {schema_id}"}


def _schemas(name: str, question: ExplainRequest) -> Iterable[dict[str, Any]]:
    message = question.message
    for field, data in (("key", message.key), ("value", message.value)):
        if name not in WITH_SCHEMA_IDS or data is None or not _has_schema_id(field, data, message):
            continue
        try:
            schema_id = unframe_field(data, field, message.headers)[0]
        except WireError:
            continue
        entry: dict[str, Any] = {"part": field, "id": schema_id, "registered": None}
        if question.registered is not None:
            try:
                registered = question.registered(schema_id, topic_subject(message.topic, field))
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
    report["beside"] = [{**_position(f), "name": f.name, "value": f.value} for f in fields if not f.image]
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
    by_column = {(f.image, f.name): f for f in fields}
    for image, row in (("before", event.before), ("after", event.after)):
        for name, value in (row or {}).items():
            column = event.table.by_name.get(name)
            position = by_column.get((image, name)) or by_column.get((image, sanitise_name(name)))
            if position is None and event.key_only:
                position = by_column.get(("key", name))
            yield {
                "side": image,
                "column": name,
                "type": "" if column is None else declared_type(column),
                "key": name in event.key,
                **_position(position),
                "value": plain_value(value),
                "elsewhere": {o: e.fields[image, name] for o, e in others.items() if (image, name) in e.fields},
            }


def _position(field: FieldPosition | None) -> dict[str, Any]:
    """Where a field stands; all null where that is not known."""
    if field is None:
        return dict.fromkeys(("part", "offset", "bytes", "hex", "wire"))
    return {
        "part": field.part, "offset": field.offset, "bytes": len(field.raw), "hex": _hex(field.raw), "wire": field.wire,
    }  # fmt: skip


_MOST_HEX = 64


def _hex(raw: bytes) -> str:
    return raw.hex() if len(raw) <= _MOST_HEX else raw[:_MOST_HEX].hex() + "…"


def declared_type(column: Column) -> str:
    """A column's type as SHOW CREATE TABLE writes it, as far as it is known; what it could be where it is not."""
    return f"not certain: {column.vague}" if column.vague else type_text(column) + " NOT NULL" * (not column.nullable)


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
        refused = name_definition(error, event if isinstance(event, RowChange) else None)
    try:
        loosely = _write_event(event, question, name, replace(question.options, on_lossy="flag"))
    except BridgeError:
        return _OtherFormat({"error": _error(refused)}, {})
    return _OtherFormat({"error": _error(refused), "with_on_lossy_flag": loosely.summary}, loosely.fields)


def _write_event(event: Event, question: ExplainRequest, name: str, options: Options) -> _OtherFormat:
    context = Context(SchemasInMemory(), None, options)
    encoder = FORMATS[name].encoder(context)
    event_copy = event
    if isinstance(event, RowChange):  # an encoder may add flags: not to the event that is explained
        event_copy = replace(event, flags=list(event.flags))
    elif isinstance(event, Bootstrap):
        return _OtherFormat({"skipped": "it has nothing like it"}, {})
    messages = encoder.encode(event_copy, replace(question.message, topic=question.message.topic or "topic"))
    if not messages:
        return _OtherFormat({"skipped": "it has nothing like it, with these options"}, {})
    flags = [f for f in getattr(event_copy, "flags", []) if f not in getattr(event, "flags", [])]
    summary: dict[str, Any] = {
        "messages": len(messages),
        "key_bytes": sum(len(m.key or b"") for m in messages),
        "value_bytes": sum(len(m.value or b"") for m in messages),
    }
    if flags:
        summary["flags"] = flags
    return _OtherFormat(summary, _columns_in(name, FORMATS[name].decoder(context), messages, event))


def _columns_in(name: str, decoder: Decoder, messages: list[Message], event: Event) -> dict[tuple[str, str], str]:
    """(image, column) → what stands in the messages for it."""
    texts: dict[tuple[str, str], str] = {}
    if not isinstance(event, RowChange):
        return texts
    for message in messages:
        for field in traces(name, decoder, message, [event]):
            if field.image == "key" and message.value is not None:
                continue
            image = field.image if field.image != "key" else "before"
            if (event.before if image == "before" else event.after) is not None:
                is_json = field.wire.startswith("JSON")
                shown = _shorten(field.raw.decode("utf-8", "replace")) if is_json else "0x" + _hex(field.raw)
                texts[image, field.name] = shown
    if texts:
        return texts
    # It is not known where the columns stand: what the decoder makes of them.
    for back in (back for message in messages for back in decoder.decode(message) if isinstance(back, RowChange)):
        for image, row in (("before", back.before), ("after", back.after)):
            for column, value in (row or {}).items():
                texts[image, column] = f"read back as {_shorten(plain_value(value))}"
    return texts


def _shorten(value: Any) -> str:
    text = "NULL" if value is None else f"0x{value['hex']}" if isinstance(value, dict) else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
