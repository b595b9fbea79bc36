"""Debezium's connector for TiDB (its first phase, of 2026): TiCDC's rows in the connectors' envelope.

It has what the MySQL connector has but for the source block (`io.debezium.connector.tidb.Source`), which says commit_ts
and cluster_id. Debezium's own messages have DECIMAL as doubles; the bridge writes it exactly (`decimal_handling_mode`),
the old rows it knows, and DDL as schema changes.
"""

from __future__ import annotations

from dataclasses import replace

from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.connector import TIDB
from ticdc_bridge.schemas.formats.debezium.mysql_connector.decoder import DebeziumMysqlDecoder
from ticdc_bridge.schemas.formats.debezium.mysql_connector.encoder import ConnectorEncoder


class DebeziumTidbDecoder(DebeziumMysqlDecoder):
    """Reads what the TiDB connector and the bridge write: binary columns are base64 where no schema says otherwise."""

    connector = TIDB

    def __init__(self, context: Context) -> None:
        super().__init__(replace(context, options=TIDB.chosen(context.options)))


class DebeziumTidbEncoder(ConnectorEncoder):
    """Writes messages of the TiDB connector."""

    connector = TIDB
