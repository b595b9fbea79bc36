"""Detects the format of messages, explains and compares them, and lists known losses. No format belongs here."""
