"""Which registered schemas are those of a table's versions, and which are of none: from the schemas' identities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from service.history.derive import Derived, Mode

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Registered:
    subject: str
    version: int
    id: int


class Subjects(Protocol):
    """The registry, as far as links need it."""

    def holding(self, texts: Iterable[str]) -> dict[str, list[Registered]]:
        """Schema text → the subject versions, undeleted, that hold this schema."""


def links(derived: Derived, subjects: Subjects) -> list[Json]:
    """The subject versions with one of the table's schemas, each with the modes in which TiCDC writes it so."""
    modes: dict[tuple[str, str], list[Mode]] = {}
    for one in derived.schemas:
        if one.text is not None:
            modes.setdefault((one.text, one.part), []).append(one.mode)
    held = subjects.holding(text for text, _ in modes)
    found = []
    for (text, part), of in modes.items():
        for holder in held.get(text, ()):
            shown = {"subject": holder.subject, "version": holder.version, "id": holder.id, "part": part}
            found.append({**shown, "modes": [mode.shown() for mode in of]})
    return sorted(found, key=lambda link: (link["subject"], link["version"]))
