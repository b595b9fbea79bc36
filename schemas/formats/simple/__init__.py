"""TiCDC's Simple protocol, as JSON and as Avro; it is only read."""
