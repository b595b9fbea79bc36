"""Kafka Connect's schemas and values, as Debezium uses them. Nothing of TiCDC."""
