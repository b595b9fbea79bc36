"""Delta's protocol (PROTOCOL.md in delta-io/delta) as far as `merge` writes it without Spark, by its objects."""
