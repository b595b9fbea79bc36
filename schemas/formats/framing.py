"""How a message says which schema it was written with.

Confluent: 0x00, then the schema id as 4 bytes big-endian (Confluent docs, "Wire format"); or the record headers
`__key_schema_id` and `__value_schema_id`, each 0x00 and the id or 0x01 and a GUID (upstream schema-registry
`schema/id/SchemaId.java`, `DualSchemaIdDeserializer.java`), and then the body is bare.
Apicurio: 0x00 and 8 bytes, or the headers `apicurio.value.globalId` or `.contentId` of 8 bytes, and those of the key
(upstream apicurio-registry `KafkaSerdeHeaders`).
AWS Glue: 0x03, a compression byte (0 none, 5 zlib), then a 16-byte UUID (upstream ticdc `avro/decoder.go`, which
knows the first only; awslabs/aws-glue-schema-registry `AWSSchemaRegistryConstants`).
"""

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from ticdc_bridge.schemas.codec import compression, json_exact
from ticdc_bridge.schemas.codec.byte_signatures import is_open_value, with_body_name
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.ports import EITHER, ApicurioId, SchemaId
from ticdc_bridge.schemas.model.reasons import reason_of

_CONFLUENT, _GLUE, _ZLIB = 0, 3, 5
MAX_MESSAGE = 64 * 1024 * 1024

Headers = tuple[tuple[str, bytes | None], ...]
"""A message's record headers (`Message.headers`)."""


FramedBody = tuple[SchemaId, bytes, int, str]
"""Of a key or value: the schema's id; the buffer that its body is in, and where that begins; for errors, "key" or
"value", and how the id is said where that is not in Confluent's 5 bytes.
"""


# ---------------------------------------------------------------------------------------------- record headers
def _id_of_confluent(value: bytes) -> SchemaId:
    if value[:1] == b"\x00" and len(value) == 5:
        return int.from_bytes(value[1:], "big", signed=True)
    if value[:1] == b"\x01" and len(value) == 17:
        return str(UUID(bytes=value[1:]))
    if (value[:1] == b"\x00" and len(value) > 5) or (value[:1] == b"\x01" and len(value) > 17):
        raise ValueError("has bytes after the id, as Protobuf's has, and Protobuf is not read")
    raise ValueError("is neither 0x00 with an id of 4 bytes nor 0x01 with a GUID of 16")


def _id_of_apicurio(space: str, value: bytes) -> SchemaId:
    if len(value) != 8:
        raise ValueError(f"has {len(value)} bytes, where an id has 8")
    return ApicurioId(space, int.from_bytes(value, "big", signed=True)).schema_id


_APICURIO = "apicurio."
_ID_HEADERS: Mapping[str, tuple[tuple[str, Callable[[bytes], SchemaId]], ...]] = {
    field: (
        (f"__{field}_schema_id", _id_of_confluent),
        (f"{_APICURIO}{field}.globalId", partial(_id_of_apicurio, "globalId")),
        (f"{_APICURIO}{field}.contentId", partial(_id_of_apicurio, "contentId")),
    )
    for field in ("key", "value")
}
"""The headers that say a schema's id, in the order in which they are looked for, and what reads their values."""
_UNREAD_HEADERS = ("artifactId", "contentHash")
"""What Apicurio's serialisers may name a schema by beside its ids."""
SCHEMA_HEADERS: Mapping[str, tuple[str, ...]] = {
    field: (*(name for name, _ in ids), *(f"{_APICURIO}{field}.{name}" for name in (*_UNREAD_HEADERS, "encoding")))
    for field, ids in _ID_HEADERS.items()
}
"""By part of the message, the headers that say which schema it has, or how its bare body is written."""


def names_schema(headers: Headers, field: str | None = None) -> bool:
    """True if headers say which schema a part has (None: either): its body is bare then."""
    pieces = ("key", "value") if field is None else (field,)
    return any(name in SCHEMA_HEADERS[piece] for name, value in headers if value is not None for piece in pieces)


_OF_THE_MESSAGE = frozenset((
    *(name for names in SCHEMA_HEADERS.values() for name in names),
    "content-type", "contenttype", "content-encoding",
    "__typeid__", "__keytypeid__", "__contenttypeid__", "__key_contenttypeid__",
    "__debezium.newkey", "__debezium.oldkey",
    "__op", "__db", "__table", "__source_db", "__source_table",
))  # fmt: skip
"""Headers that say how a message is written, in lower case: which schema it has; its media type; the Java class that
Spring makes of it (upstream spring-kafka `AbstractJavaTypeMapper`); the other key of a changed one (upstream debezium
`ChangeEventCreator`); what a transform moved out of a flattened row (`add.headers`)."""
_NOT_CARRIED = (_APICURIO, "ce_", "bridge.")
"""How the names of others begin: Apicurio's, CloudEvents' (Kafka protocol binding 1.0.2), and the bridge's own."""


def is_carried(name: str) -> bool:
    """True if a header goes on to the messages that are made of its message: it says nothing of how that is written."""
    folded = name.lower()
    return folded not in _OF_THE_MESSAGE and not folded.startswith(_NOT_CARRIED)


def carried_headers(headers: Headers) -> Headers:
    """The headers that the messages made of a message have too, in their order."""
    return tuple(header for header in headers if is_carried(header[0]))


def _unframe_by_header(data: bytes, field: str, headers: Headers) -> FramedBody | None:
    """None where no header names the schema. WireError MALFORMED, UNSUPPORTED_SCHEMA for one that can't be read."""
    values = dict(headers)  # of two the last counts
    encoding_header = f"{_APICURIO}{field}.encoding"
    encoding = values.get(encoding_header)
    if encoding not in (None, b"BINARY"):
        said = (encoding or b"")[:20].decode(errors="replace")
        details = f"the header {encoding_header} says {said}: only BINARY is read (apicurio.avro.encoding)"
        raise WireError("UNSUPPORTED_SCHEMA", where=field, details=details)
    for name, read in _ID_HEADERS[field]:
        if (value := values.get(name)) is not None:
            try:
                return read(value), data, 0, f"{field} (header {name})"
            except ValueError as error:
                raise WireError("MALFORMED", where=field, details=f"the header {name} {error}") from error
    others = [name for name in values if name in [f"{_APICURIO}{field}.{other}" for other in _UNREAD_HEADERS]]
    if others and data[:1] not in (b"\x00", b"\x03"):
        known = f"only {_APICURIO}{field}.globalId and .contentId are read"
        raise WireError("NOT_FRAMED", where=field, details=f"the header {others[0]} names its schema, and {known}")
    return None


# ---------------------------------------------------------------------------------------------- keys and values
def unframe_field(data: bytes, field: str, headers: Headers = ()) -> FramedBody:
    """A key or value → its schema's id and its body; of Glue's zlib form the inflated one.

    WireError NOT_FRAMED, TRUNCATED, TOO_LARGE; MALFORMED for a header or a compressed body that is none.
    """
    if not headers and data[:1] == b"\x00" and 5 <= len(data) <= MAX_MESSAGE and data[1:5] != b"\x00\x00\x00\x00":
        return int.from_bytes(data[1:5], "big", signed=True), data, 5, field  # nearly all
    if headers and (framed := _unframe_by_header(data, field, headers)) is not None:
        check_size(data, field)
        return framed
    schema_id, data, pos = unframe_inflated(data, field)
    return schema_id, data, pos, f"{field} (8-byte schema id)" if pos == _EIGHT_BYTES else field


_EIGHT_BYTES = 9
"""Where the body begins behind 0x00 and an id of 8 bytes."""


def check_size(data: bytes, where: str) -> None:
    """WireError TOO_LARGE of a key or value longer than MAX_MESSAGE, before anything is made of it."""
    if len(data) > MAX_MESSAGE:
        raise WireError("TOO_LARGE", where=where, details=f"{len(data)} bytes, at most {MAX_MESSAGE}")


def json_body(data: bytes) -> bytes:
    """What a JSON Schema serialiser framed, without its schema id; anything else as it is.

    In: a key or value of a format in JSON. Nothing else begins with 0x00 and is a JSON object from the id's end on.
    """
    if data[:1] != b"\x00":
        return data
    pos = _EIGHT_BYTES if data[1:5] == bytes(4) else 5
    return data[pos:] if data[pos : pos + 1] == b"{" and data.rstrip()[-1:] == b"}" else data


def malformed_error(where: str, details: str) -> WireError:
    """The error of a key or value that is no message of its format; details are cut."""
    return WireError("MALFORMED", where=where, details=details[:300])


def inflated(data: bytes, other_than: str) -> bytes:
    """A message in JSON, or what a Snappy block or an LZ4 frame holds. WireError MALFORMED, TOO_LARGE.

    other_than: how the error calls what is neither.
    """
    check_size(data, "value")
    try:
        return compression.decompress(json_body(data), MAX_MESSAGE)
    except ValueError as error:
        raise _not_json(data, other_than, error) from error


def _not_json(data: bytes, other_than: str, error: ValueError) -> WireError:
    return malformed_error("value", with_body_name(f"{other_than}: {reason_of(error)}", data))


def json_object(data: bytes, other_than: str) -> tuple[dict[str, Any], bool]:
    """A message in JSON (`inflated`) → its object, and whether TiCDC wrote U+FFFD for bytes that are not UTF-8 (Go
    escapes that one; one that was there is not escaped). WireError MALFORMED.

    other_than: how the error calls what is no JSON.
    """
    try:
        body = json_exact.decode(json_exact.document(data))
    except ValueError as error:
        raise _not_json(data, other_than, error) from error
    if not isinstance(body, dict):
        raise WireError("MALFORMED", where="value", details=with_body_name("not a JSON object", data))
    return body, b"\\ufffd" in data


def unframe(data: bytes, where: str) -> tuple[SchemaId, int]:
    """Framed message → (schema id, offset of the body). WireError NOT_FRAMED or TRUNCATED."""
    check_size(data, where)
    if not data:
        raise WireError("NOT_FRAMED", where=where, details="it is empty")
    if data[0] == _CONFLUENT:
        if len(data) < 5:
            raise WireError("TRUNCATED", where=where, field="the header", details=f"5 bytes needed, {len(data)} there")
        number = int.from_bytes(data[1:5], "big", signed=True)
        if 0 <= number < 256 and is_open_value(data):  # a length of eight bytes, below 4 GiB
            raise WireError("NOT_FRAMED", where=where, details=with_body_name("", data, json_read=False))
        if not number and len(data) >= _EIGHT_BYTES:  # no registry gives the id 0
            return ApicurioId(EITHER, int.from_bytes(data[5:9], "big")).schema_id, _EIGHT_BYTES
        return number, 5
    if data[0] == _GLUE and len(data) >= 18:
        if data[1]:
            raise WireError("NOT_FRAMED", where=where, details=f"AWS Glue compression {data[1]} is not known")
        return str(UUID(bytes=data[2:18])), 18
    details = with_body_name(f"the first byte is 0x{data[0]:02x}, not 0x00", data, json_read=False)
    raise WireError("NOT_FRAMED", where=where, details=details)


def unframe_inflated(data: bytes, where: str) -> tuple[SchemaId, bytes, int]:
    """As `unframe`, and the buffer that the offset is in: Glue's zlib form is inflated, up to MAX_MESSAGE bytes.

    WireError NOT_FRAMED, TRUNCATED, TOO_LARGE; MALFORMED where the body is no zlib stream.
    """
    if len(data) < 18 or len(data) > MAX_MESSAGE or data[0] != _GLUE or data[1] != _ZLIB:
        schema_id, pos = unframe(data, where)
        return schema_id, data, pos
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data[18:], MAX_MESSAGE)
    except zlib.error as error:
        raise WireError("MALFORMED", where=where, details="the compressed body is no zlib stream") from error
    if stream.unconsumed_tail:
        raise WireError("TOO_LARGE", where=where, details=f"inflated it has more than {MAX_MESSAGE} bytes")
    if not stream.eof:
        raise WireError("TRUNCATED", where=where, field="the compressed body", details=f"{len(data)} bytes there")
    if stream.unused_data:
        raise WireError("TRAILING_BYTES", where=where, count=len(stream.unused_data))
    return str(UUID(bytes=data[2:18])), body, 0


def frame(schema_id: SchemaId, body: bytes) -> bytes:
    """Schema id and body → framed message; a UUID gives Glue's header."""
    if isinstance(schema_id, str):
        return b"\x03\x00" + UUID(schema_id).bytes + body
    return b"\x00" + schema_id.to_bytes(4, "big") + body
