"""Lines of a text that is being written, indented by two spaces, with a bound on the whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_TEXT: Final = 32 * 1024 * 1024
"""Characters; full names in a deeply nested schema could make a text far longer than what was sent."""


class Lines:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = ""
        self._size = 0

    def add(self, text: str) -> None:
        """A line, or several. Blank lines are indented as well, as Confluent does. Raises ValueError when too long."""
        parts = text.rstrip("\n").split("\n") if "\n" in text else (text,)
        for line in parts:
            self._size += len(self._indent) + len(line) + 1
            self._lines.append(self._indent + line)
        if self._size > MAX_TEXT:
            raise ValueError(f"the schema would be written in more than {MAX_TEXT} characters")

    def blank(self) -> None:
        self.add("")

    @contextmanager
    def indented(self) -> Iterator[None]:
        before = self._indent
        self._indent += "  "
        yield
        self._indent = before

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)
