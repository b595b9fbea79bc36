"""One difference between two JSON schemas, and giving up on finding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from service.registry.compat.json_messages import rendered


class Undecided(Exception):
    """The comparison would take too much; the message says of what."""


# A path is a chain from the last step to the first: (step, rest), so that differences can share its end.
_Path = tuple[str, Any] | None


@dataclass(frozen=True, slots=True)
class Difference:
    """`path` leads from the compared schemas to the place."""

    type: str
    path: _Path = None

    def below(self, *steps: str) -> Difference:
        """The same difference as seen from further up."""
        path = self.path
        for step in reversed(steps):
            path = (step, path)
        return Difference(self.type, path)

    def steps(self) -> Iterator[str]:
        path = self.path
        while path is not None:
            yield path[0]
            path = path[1]

    def message(self, reader: str, writer: str) -> str:
        """Confluent's text; `reader` and `writer` are the words "new" and "old" in the order of the direction."""
        return rendered(self.type, self.steps(), reader, writer)
