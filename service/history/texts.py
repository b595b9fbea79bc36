"""Texts from messages, as every database keeps them."""

from __future__ import annotations


def clean(text: str) -> str:
    """The text without lone surrogates and NUL characters, which are shown as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
