"""Rows of tables as they were at one TSO: a dump's files, or a live TiDB."""
