"""Coders that several wire formats share. They know bytes, not formats."""
