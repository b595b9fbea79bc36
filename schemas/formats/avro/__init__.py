"""TiCDC's Avro: messages, records by their schemas, and the schemas that TiCDC registers."""
