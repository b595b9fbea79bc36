"""What a dry run asks of a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """A registered version. `id` 0: not known."""

    subject: str
    version: int
    id: int
    schema: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a registration would get, nothing written.

    level: the compatibility level in force; own_level: it is the subject's own config. newest: the newest undeleted
    version. same: the version that has this schema already. refusal: code of `schemas.model.errors`, "" when it would
    be accepted; messages: the registry's own words about it. warnings: what an accepted schema changes unseen by the
    rules (logical types).
    """

    level: str
    newest: RegisteredVersion | None = None
    same: RegisteredVersion | None = None
    refusal: str = ""
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    own_level: bool = False


class SubjectLookup(Protocol):
    """A schema registry, read only."""

    @property
    def url(self) -> str:
        """Where clients reach it, for the commands of an advice; "" where not known."""
        ...

    def rehearse(self, subject: str, schema: str, pending: Sequence[str] = ()) -> Rehearsal:
        """As if `schema` were registered after `pending`, which are taken as registered in this order."""
        ...

    def newest(self, subject: str) -> RegisteredVersion | None: ...

    def find_containing(self, part: str) -> list[str]:
        """Subjects whose name has `part` in it, whatever the case of the letters."""
        ...
