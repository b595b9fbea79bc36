"""Which format is this message? Detected by its bytes, and by the registered schema where they name one. Never guessed.

`open` stands for both Open Protocol encoders (`open` and `open-tiflow`): they are read by one reader, and most of their
messages are the same bytes. A Confluent or Glue header says only "Avro": which of the three Avro formats it is, the
schema tells.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.codec import compression, json_exact
from ticdc_bridge.schemas.codec.byte_signatures import craft_problem, with_body_name
from ticdc_bridge.schemas.codec.json_exact import json_form
from ticdc_bridge.schemas.formats.debezium.auxiliary_messages import READ_BY, java_text, of_somebody_else
from ticdc_bridge.schemas.formats.debezium.connector import TIDB
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE, Headers, json_body, names_schema, unframe_field
from ticdc_bridge.schemas.formats.open_protocol.frame import begins, split_key, split_value
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, is_likely_tso
from ticdc_bridge.schemas.model.names import topic_subject
from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource
from ticdc_bridge.schemas.model.reasons import reason_of

SchemaOf = Callable[[SchemaId], str]

_AVROS = "avro, debezium-avro, debezium-mysql or debezium-tidb"
_UNWRAPPED = {"__deleted", "__op", "__source_ts_ms"}  # ExtractNewRecordState's extra fields


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """The format's name, or None and why it is not certain; with a format, `reason` says what it was detected by."""

    format: str | None
    reason: str


def detect_message(message: Message, schemas: SchemaSource) -> DetectedFormat:
    """As `detect_format`, with the schemas of a registry: its errors are passed on."""
    field = "key" if message.value is None else "value"
    subject = topic_subject(message.topic, field)
    return detect_format(message.key, message.value, lambda i: schemas.by_id(i, field, subject), message.headers)


def detect_format(
    key: bytes | None, value: bytes | None, schema_of: SchemaOf | None = None, headers: Headers = ()
) -> DetectedFormat:
    """The format of a message. schema_of: id → schema text; its errors are passed on. Nothing else is raised."""
    if len(key or b"") > MAX_MESSAGE or len(value or b"") > MAX_MESSAGE:
        return DetectedFormat(None, f"more than {MAX_MESSAGE} bytes")
    field, data = ("key", key) if value is None else ("value", value)
    if headers and data is not None and names_schema(headers, field) and data[:1] != b"{":
        return _detect_framed(data, field, schema_of, headers)
    if value is None:
        if key is None:
            return DetectedFormat(None, "key and value are null: nothing is there to tell")
        if key[:1] in (b"\x00", b"\x03"):
            return _detect_framed(key, "key", schema_of)
        if key[:1] == b"{" and isinstance(_object(key), dict):
            return DetectedFormat("debezium-mysql", "a tombstone with a JSON key: TiCDC sends none")
        return DetectedFormat(None, "a null value, and the key is neither framed Avro nor JSON")
    if not value:
        return DetectedFormat(None, with_body_name("", value))
    if key is not None and begins(key):
        return _detect_open(key, value)
    is_timed = len(value) == 9 and is_likely_tso(int.from_bytes(value[1:], "big"))
    match value[0]:
        case 0x01:
            return _detect_craft_or_avro_ddl(key, value)
        case 0x02 if key is None and is_timed:
            return DetectedFormat("avro", "a watermark of avro-enable-watermark: 0x02 and a TSO")
        case 0x02:
            return DetectedFormat(None, "it begins with 0x02, but is no watermark of TiCDC's Avro")
        case 0x03 if key is not None and is_timed:
            return DetectedFormat("avro", "a delete of avro-enable-watermark: 0x03 and a commit_ts")
        case 0x00 | 0x03:
            return _detect_framed(value, "value", schema_of)
        case 0x16 if len(value) > 4 and value[1] == value[2] and value[1] in (0, 2, 4, 6) and value[3] == 2:
            return DetectedFormat("simple", "branch 11 of Simple's Avro schema, and its type twice")
        case 0x16:
            return DetectedFormat(None, "it begins with 0x16 like Simple's Avro, but is not")
    return _detect_json(value) if value[:1] in b"{ \t\r\n" else _detect_compressed(key, value, schema_of)


def _detect_compressed(key: bytes | None, value: bytes, schema_of: SchemaOf | None) -> DetectedFormat:
    """A whole message as Snappy block or LZ4 frame: TiCDC's large-message-handle-compression."""
    try:
        plain = compression.decompress(value, MAX_MESSAGE)
    except ValueError:
        plain = b""
    if plain[:1] not in (b"{", b"\x16"):  # empty, or of a format that TiCDC does not compress as a whole
        reason = java_text(value) or with_body_name(f"no format's messages begin with 0x{value[0]:02x}", plain or value)
        return DetectedFormat(None, reason)
    detection = detect_format(key, plain, schema_of)
    kind = "an LZ4 frame" if value[:4] == compression.LZ4_MAGIC else "a Snappy block"
    return DetectedFormat(detection.format, f"{kind}; in it {detection.reason}")


# ---- Avro
def _detect_framed(data: bytes, where: str, schema_of: SchemaOf | None, headers: Headers = ()) -> DetectedFormat:
    by_header = bool(headers) and names_schema(headers, where)
    if not by_header and (len(data) < 5 or (data[0] == 3 and (len(data) < 18 or data[1] not in (0, 5)))):
        return DetectedFormat(None, f"the {where} begins like framed Avro, and its header is cut or of no known form")
    glue = data[:1] == b"\x03" and not by_header  # its body may be compressed, which is of no account to the id
    try:
        schema_id = unframe_field(data[:1] + b"\x00" + data[2:] if glue else data, where, headers)[0]
    except WireError as error:
        return DetectedFormat(None, error.detail)
    body = json_body(data)
    if body[:1] == b"{" and (schema_of is None or not _is_avro(schema_of, schema_id)):
        detection = detect_format(None, body)
        return DetectedFormat(detection.format, f"JSON behind schema id {schema_id}; in it {detection.reason}")
    if schema_of is None:
        reason = f"framed Avro of schema id {schema_id}: {_AVROS}, the schema tells; give a registry"
        return DetectedFormat(None, reason)
    return _of_schema(schema_of(schema_id), schema_id)


_NO_WRITER = "its fields have no tidb_type, so it is not TiCDC's, and it has no connect.name, so it is not Debezium's"


def _is_avro(schema_of: SchemaOf, schema_id: SchemaId) -> bool:
    try:
        schema_of(schema_id)
    except WireError:  # a JSON Schema, or none that is known
        return False
    return True


def _of_schema(text: str, schema_id: SchemaId) -> DetectedFormat:
    try:
        schema = json.loads(text)
        fields = [f for f in schema["fields"] if isinstance(f, dict)] if schema["type"] == "record" else []
        connect, name = schema.get("connect.name"), str(schema.get("name"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return DetectedFormat(None, f"schema id {schema_id} is no Avro record: neither TiCDC nor Debezium registers it")
    if any("connect.field" in f for f in fields) or (connect and not fields and name == "Key"):
        return DetectedFormat("debezium-avro", f"schema id {schema_id} has connect.field, as TiCDC's Debezium Avro")
    if any(_has_tidb_type(f.get("type")) for f in fields):
        return DetectedFormat("avro", f"schema id {schema_id} has tidb_type in its fields")
    if isinstance(connect, str) and connect.endswith("Envelope") and not connect.endswith(".Envelope"):
        return DetectedFormat("debezium-avro", f"schema id {schema_id} is called {connect[:100]}, as TiCDC calls it")
    if isinstance(connect, str):
        return DetectedFormat(_by_package(text), f"schema id {schema_id} is a Connect schema, {connect[:100]}")
    names = {f.get("name") for f in fields}
    if any(names >= form for form in _WITHOUT_META):
        return DetectedFormat(_by_package(text), f"schema id {schema_id} has the fields of Debezium's messages")
    return DetectedFormat(None, f"schema id {schema_id} ({name[:100]}): {_NO_WRITER}")


_WITHOUT_META = ({"before", "after", "source", "op"}, {"databaseName", "ddl", "source"})
"""Rows and schema changes of Debezium where Connect's converter writes no names (connect.meta.data=false)."""


def _by_package(text: str) -> str:
    """The format of a connector's schema, by the package of its source block."""
    return "debezium-tidb" if f'"{TIDB.package}' in text else "debezium-mysql"


def _has_tidb_type(kind: Any) -> bool:
    branches = kind if isinstance(kind, list) else [kind]
    parameters = (b.get("connect.parameters") for b in branches if isinstance(b, dict))
    return any(isinstance(p, dict) and "tidb_type" in p for p in parameters)


# ---- Craft, and DDL of Avro: both begin with 0x01
def _detect_craft_or_avro_ddl(key: bytes | None, value: bytes) -> DetectedFormat:
    if key is not None:
        return DetectedFormat(None, "it begins with 0x01 like Craft, whose messages have no key")
    if value[1:2] == b"{":
        body = _object(value[1:])
        if isinstance(body, dict) and {"query", "commitTs"} <= body.keys():
            return DetectedFormat("avro", "a DDL message of avro-enable-watermark: 0x01 and JSON")
        return DetectedFormat(None, "it begins with 0x01 and {, but is no DDL message of TiCDC's Avro")
    if reason := craft_problem(value):
        return DetectedFormat(None, reason)
    return DetectedFormat("craft", "version 1, and the size tables fit the message")


# ---- Open
def _detect_open(key: bytes, value: bytes) -> DetectedFormat:
    """Version 1, then length and body of each part; as many values as keys."""
    try:
        split_value(value, len(split_key(key)))
    except WireError as error:
        if error.code != "TOO_LARGE":  # so says the decoder
            details = "the key begins like Open Protocol's, but the lengths in key and value do not fit"
            return DetectedFormat(None, details)
    return DetectedFormat("open", "version 1 and lengths of Open Protocol (open and open-tiflow are read alike)")


# ---- JSON
def _object(data: bytes) -> Any:
    try:
        return json_exact.decode(json_exact.document(data))
    except ValueError as error:
        return reason_of(error)


def _detect_json(value: bytes) -> DetectedFormat:
    body = _object(value)
    if not isinstance(body, dict):
        reason = java_text(value) or with_body_name(f"it begins like JSON, but is not: {body}", value)
        return DetectedFormat(None, reason[:300])
    payload = body.get("payload", body)
    if any(isinstance(part, Mapping) and _UNWRAPPED & part.keys() for part in (body, payload)):
        return DetectedFormat("debezium-mysql", "a row unwrapped by ExtractNewRecordState (__op, __deleted)")
    form = json_form(body)
    if form is not None and not form.payload:
        title = f"{form.title}, by the fields of the object"
        return DetectedFormat(form.format, title) if form.format else DetectedFormat(None, f"{title}; it is not read")
    if not isinstance(payload, Mapping):
        return DetectedFormat(None, "JSON with a payload that is no object")
    source = payload.get("source")
    connector = source.get("connector") if isinstance(source, Mapping) else None
    if isinstance(connector, str) and connector in READ_BY:
        return DetectedFormat(READ_BY[connector][0], f"source.connector is {connector}")
    is_envelope = isinstance(source, Mapping) and {"op", "before", "after"} & payload.keys() > {"op"}
    if is_envelope and not isinstance(connector, str):
        return DetectedFormat("debezium-mysql", "an envelope of Debezium, as stream processors write it: no connector")
    return DetectedFormat(None, of_somebody_else(payload) or "a JSON object of no format that is known")
