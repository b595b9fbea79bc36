"""SQL text → statements, as TiDB's own parser takes it. Nothing here knows a table that is there already."""
