"""How a message says which schema it was written with.

Confluent: 0x00, then the schema id as 4 bytes big-endian (Confluent docs, "Wire format").
AWS Glue: 0x03, a compression byte (0 = none), then a 16-byte UUID (upstream ticdc `avro/decoder.go`).
"""

from __future__ import annotations

from uuid import UUID

from schemas.errors import WireError
from schemas.ports import SchemaId

_CONFLUENT, _GLUE = 0, 3
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
            raise WireError("NOT_FRAMED", where=where, details="compressed AWS Glue messages are not supported")
        return str(UUID(bytes=data[2:18])), 18
    raise WireError("NOT_FRAMED", where=where, details=f"the first byte is 0x{data[0]:02x}, not 0x00")


def frame(schema_id: SchemaId, body: bytes) -> bytes:
    """Schema id and body → framed message; a UUID gives Glue's header."""
    if isinstance(schema_id, str):
        return b"\x03\x00" + UUID(schema_id).bytes + body
    return b"\x00" + schema_id.to_bytes(4, "big") + body
