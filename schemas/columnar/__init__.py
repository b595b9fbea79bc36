"""The batch engine: many messages of one table at once, as numbers and texts in flat arrays (numpy, numba).

Whoever wants a reader or a writer of a format asks here. It reads what it is sure of and leaves the rest to the codec
of single messages (`schemas.formats`), which is the reference; without numba every result is the same. Kernels are in
`kernels`, and nothing else imports numba. Nothing of Arrow or Spark belongs here.
"""

from collections.abc import Mapping

READERS: Mapping[str, str] = {
    "avro": "ticdc_bridge.schemas.columnar.avro_reader:AvroReader",
    "craft": "ticdc_bridge.schemas.columnar.table_dispatch:CraftReader",
    "debezium": "ticdc_bridge.schemas.columnar.table_dispatch:DebeziumReader",
    "open": "ticdc_bridge.schemas.columnar.table_dispatch:OpenReader",
    "open-tiflow": "ticdc_bridge.schemas.columnar.table_dispatch:OpenTiflowReader",
}
"""Formats that are read into cells: what makes a reader, as module:name."""
WRITERS: Mapping[str, str] = {
    "avro": "ticdc_bridge.schemas.columnar.avro_writer:AvroWriter",
    "craft": "ticdc_bridge.schemas.columnar.craft_writer:CraftWriter",
    "debezium": "ticdc_bridge.schemas.columnar.debezium_writer:DebeziumWriter",
}
"""Formats that are written from cells."""
