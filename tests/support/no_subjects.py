"""A registry of nothing, for dry runs."""

from __future__ import annotations

from collections.abc import Sequence

from service.ddl_check.ports import RegisteredVersion, Rehearsal


class NoSubjects:
    """A registry in which nothing is registered."""

    url = ""

    def rehearse(self, subject: str, schema: str, pending: Sequence[str] = ()) -> Rehearsal:
        return Rehearsal("BACKWARD")

    def newest(self, subject: str) -> RegisteredVersion | None:
        return None

    def find_containing(self, part: str) -> list[str]:
        return []
