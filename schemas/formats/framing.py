"""How a message says which schema it was written with.

Confluent: 0x00, then the schema id as 4 bytes big-endian (Confluent docs, "Wire format").
AWS Glue: 0x03, a compression byte (0 none, 5 zlib), then a 16-byte UUID (upstream ticdc `avro/decoder.go`, which
knows the first only; awslabs/aws-glue-schema-registry `AWSSchemaRegistryConstants`).
"""

from __future__ import annotations

import zlib
from uuid import UUID

from schemas.codec.byte_signatures import with_body_name
from schemas.model.errors import WireError
from schemas.model.ports import SchemaId

_CONFLUENT, _GLUE, _ZLIB = 0, 3, 5
MAX_MESSAGE = 64 * 1024 * 1024


def unframe(data: bytes, where: str) -> tuple[SchemaId, int]:
    """Framed message → (schema id, offset of the body). WireError NOT_FRAMED or TRUNCATED."""
    if len(data) > MAX_MESSAGE:
        raise WireError("TOO_LARGE", where=where, details=f"{len(data)} bytes, at most {MAX_MESSAGE}")
    if not data:
        raise WireError("NOT_FRAMED", where=where, details="it is empty")
    if data[0] == _CONFLUENT:
        if len(data) < 5:
            raise WireError("TRUNCATED", where=where, field="the header", details=f"5 bytes needed, {len(data)} there")
        return int.from_bytes(data[1:5], "big", signed=True), 5
    if data[0] == _GLUE and len(data) >= 18:
        if data[1]:
            raise WireError("NOT_FRAMED", where=where, details=f"AWS Glue compression {data[1]} is not known")
        return str(UUID(bytes=data[2:18])), 18
    raise WireError(
        "NOT_FRAMED",
        where=where,
        details=with_body_name(f"the first byte is 0x{data[0]:02x}, not 0x00", data, json_read=False),
    )


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
