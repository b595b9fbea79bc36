"""Wire formats: each reads messages into change events and writes change events into messages.

A new format is one folder and one row of FORMATS, or a `Format` that another distribution names under its entry points
`ticdc_bridge.formats`. What may come on top, each in a table of its own: how it is detected
(`inspect.format_detection`), where its fields are (a decoder's `trace`, or `inspect.explain`), what it loses
(`inspect.losses`), readers and writers of batches (`schemas.columnar`).
"""

from ticdc_bridge.schemas.formats.avro.decoder import AvroDecoder
from ticdc_bridge.schemas.formats.avro.encoder import AvroEncoder
from ticdc_bridge.schemas.formats.base import Format, refuse_encoder
from ticdc_bridge.schemas.formats.canal_json.decoder import CanalJsonDecoder
from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.formats.debezium import ticdc
from ticdc_bridge.schemas.formats.debezium.mysql_connector.decoder import DebeziumMysqlDecoder, DebeziumTidbDecoder
from ticdc_bridge.schemas.formats.debezium.mysql_connector.encoder import DebeziumMysqlEncoder, DebeziumTidbEncoder
from ticdc_bridge.schemas.formats.open_protocol.decoder import OpenDecoder, OpenTiflowDecoder
from ticdc_bridge.schemas.formats.open_protocol.encoder import OpenEncoder, OpenTiflowEncoder
from ticdc_bridge.schemas.formats.simple.decoder import SimpleDecoder
from ticdc_bridge.schemas.model.plugins import plugins

FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("avro", AvroDecoder, AvroEncoder, needs_schemas=True, protocols=("avro", "flat-avro")),
        Format("craft", CraftDecoder, CraftEncoder, carries_ddl=True, protocols=("craft",)),
        Format("debezium", ticdc.DebeziumDecoder, ticdc.DebeziumEncoder, zone="UTC", carries_ddl=True,
               protocols=("debezium",)),
        Format("debezium-avro", ticdc.DebeziumAvroDecoder, ticdc.DebeziumAvroEncoder, zone="UTC", needs_schemas=True,
               carries_ddl=True, protocols=("debezium-avro",)),
        Format("debezium-mysql", DebeziumMysqlDecoder, DebeziumMysqlEncoder, zone="UTC", uses_schemas=True,
               carries_ddl=True),
        Format("debezium-tidb", DebeziumTidbDecoder, DebeziumTidbEncoder, zone="UTC", uses_schemas=True,
               carries_ddl=True, names_topics=True),
        Format("open", OpenDecoder, OpenEncoder, carries_ddl=True, protocols=("default", "open-protocol")),
        Format("open-tiflow", OpenTiflowDecoder, OpenTiflowEncoder, carries_ddl=True),
        Format("simple", SimpleDecoder, refuse_encoder("simple"), carries_ddl=True, in_order=True, writes=False,
               protocols=("simple",)),
        Format("canal-json", CanalJsonDecoder, refuse_encoder("canal-json"), carries_ddl=True, writes=False,
               protocols=("canal-json",)),
    )
}  # fmt: skip
FORMATS |= {name: entry.load() for name, entry in plugins("ticdc_bridge.formats", FORMATS).items()}

PROTOCOLS: dict[str, str] = {protocol: row.name for row in FORMATS.values() for protocol in row.protocols}
"""TiCDC's name of a protocol → the format."""


def format_name(text: str) -> str:
    """The name of a format that is named so, or as TiCDC names its protocol (`open-protocol`); else the text itself."""
    return text if text in FORMATS else PROTOCOLS.get(text, text)


WRITTEN: tuple[str, ...] = tuple(row.name for row in FORMATS.values() if row.writes)
FROM_TICDC: tuple[str, ...] = tuple(row.name for row in FORMATS.values() if row.protocols)
"""The formats that TiCDC has a protocol for."""
WITH_SCHEMA_IDS: tuple[str, ...] = tuple(row.name for row in FORMATS.values() if row.needs_schemas or row.uses_schemas)
"""The formats whose messages may name a schema of a registry."""
