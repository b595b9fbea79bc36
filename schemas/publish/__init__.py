"""Table version → the schema text that TiCDC registers (Avro) or puts into messages (Debezium)."""
