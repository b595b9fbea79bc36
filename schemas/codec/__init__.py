"""Bytes and texts of single values, for the formats: numbers, Avro's binary form, JSON, Go's and SQL's texts.

Nothing that knows a message's layout belongs here.
"""
