"""Wire formats: each reads messages into change events and writes change events into messages.

A new format is one file and one row of FORMATS.
"""

from __future__ import annotations

from schemas.errors import SetupError
from schemas.wire.avro import AvroDecoder, AvroEncoder
from schemas.wire.base import Context, Decoder, Format, read_only
from schemas.wire.canal_json import CanalJsonDecoder
from schemas.wire.craft import CraftDecoder, CraftEncoder
from schemas.wire.debezium import DebeziumDecoder, DebeziumEncoder
from schemas.wire.debezium_avro import DebeziumAvroDecoder, DebeziumAvroEncoder
from schemas.wire.debezium_mysql import DebeziumMysqlDecoder, DebeziumMysqlEncoder
from schemas.wire.open_protocol import OpenDecoder, OpenEncoder, OpenTiflowDecoder, OpenTiflowEncoder
from schemas.wire.simple import SimpleDecoder

FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("avro", AvroDecoder, AvroEncoder, needs_schemas=True),
        Format("craft", CraftDecoder, CraftEncoder, carries_ddl=True),
        Format("debezium", DebeziumDecoder, DebeziumEncoder, zone="UTC", carries_ddl=True),
        Format(
            "debezium-avro", DebeziumAvroDecoder, DebeziumAvroEncoder, zone="UTC", needs_schemas=True, carries_ddl=True
        ),
        Format(
            "debezium-mysql", DebeziumMysqlDecoder, DebeziumMysqlEncoder, zone="UTC", uses_schemas=True,
            carries_ddl=True,
        ),
        Format("open", OpenDecoder, OpenEncoder, carries_ddl=True),
        Format("open-tiflow", OpenTiflowDecoder, OpenTiflowEncoder, carries_ddl=True),
        Format("simple", SimpleDecoder, read_only("simple"), carries_ddl=True, in_order=True, writes=False),
        Format("canal-json", CanalJsonDecoder, read_only("canal-json"), carries_ddl=True, writes=False),
    )
}  # fmt: skip


def _auto(context: Context) -> Decoder:
    from schemas.auto import AutoDecoder  # it reads all formats

    return AutoDecoder(context)


AUTO = Format("auto", _auto, read_only("auto"), uses_schemas=True, in_order=True, carries_ddl=True, writes=False)
"""Not a format: each message is read as the one it is in."""


def _plain(context: Context) -> Decoder:
    from schemas.plain_read import PlainDecoder  # it knows all formats

    return PlainDecoder(context)


PLAIN = Format("plain", _plain, read_only("plain"), carries_ddl=True, writes=False)
"""Not a wire format: change events as lines (schemas.plain), a message's value each."""


def format_named(name: str) -> Format:
    """The format of this name, or AUTO. SetupError USAGE when there is none."""
    if name in (AUTO.name, PLAIN.name):
        return AUTO if name == AUTO.name else PLAIN
    if name not in FORMATS:
        raise SetupError("USAGE", details=f"format {name!r} is not known; known: {', '.join(FORMATS)}")
    return FORMATS[name]
