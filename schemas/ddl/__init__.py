"""TiDB's DDL: `parser` makes statements of texts, `executor` applies them to a catalog of tables."""
