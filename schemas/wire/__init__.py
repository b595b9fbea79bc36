"""Wire formats: each reads messages into change events and writes change events into messages.

A new format is one file and one row of FORMATS.
"""

from __future__ import annotations

from schemas.errors import SetupError
from schemas.wire.avro import AvroDecoder, AvroEncoder
from schemas.wire.base import Format
from schemas.wire.craft import CraftDecoder, CraftEncoder
from schemas.wire.debezium import DebeziumDecoder, DebeziumEncoder

FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("avro", AvroDecoder, AvroEncoder, needs_schemas=True),
        Format("craft", CraftDecoder, CraftEncoder),
        Format("debezium", DebeziumDecoder, DebeziumEncoder, zone="UTC"),
    )
}


def format_named(name: str) -> Format:
    """The format of this name. SetupError USAGE when there is none."""
    if name not in FORMATS:
        raise SetupError("USAGE", details=f"format {name!r} is not known; known: {', '.join(FORMATS)}")
    return FORMATS[name]
