"""Messages of Debezium's MySQL connector, read and written."""
