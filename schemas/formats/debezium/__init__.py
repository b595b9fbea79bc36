"""The Debezium family: TiCDC's JSON and Avro, and what they share with Debezium's MySQL connector."""
