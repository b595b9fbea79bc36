"""Which parts of the store an answer was made from, so that it can be kept until one of them changes.

A transaction notes what it reads in the read set of the request it works for, and tells the store's listeners what it
changed. A part is coarser than a query: all of a subject, all that holds an id, the config or mode of a scope.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

Part = tuple[str, ...]
ANYTHING: Final[Part] = ("anything",)
"""Changes with every write (the store adds it): lists, counts, and whatever has no part of its own."""
CONTEXTS: Final[Part] = ("contexts",)


@dataclass(slots=True)
class ReadSet:
    """The parts that a request read, whether it went on to write, and the path of the route that answered it."""

    parts: set[Part] = field(default_factory=set)
    wrote: bool = False
    route: str = ""


current_reads: ContextVar[ReadSet | None] = ContextVar("reads", default=None)
"""Set for the time of a request whose answer may be kept; threads that work for it inherit it."""


class Listener(Protocol):
    """Told of each change. From `before_change` to `after_change` it must not trust what it reads about these parts."""

    def before_change(self, parts: Collection[Part]) -> None:
        """These parts are about to change."""

    def after_change(self, parts: Collection[Part]) -> None:
        """The change is there for every reader, or was given up."""

    def forget(self) -> None:
        """Anything may have changed, e.g. because another process wrote."""
