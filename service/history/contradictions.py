"""What rows and messages say against a version that is known: for whoever asks for the version."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from ticdc_bridge.service.history.model import Drift, DriftKind, Key, NameRow, State, key_of
from ticdc_bridge.service.history.times import time_text

WHAT_TO_DO: Final = (
    "give a snapshot of it: POST /history/snapshot, or ticdc-bridge history snapshot, with its SHOW CREATE TABLE"
)
OF_VERSION: Final[tuple[DriftKind, ...]] = ("columns", "type", "flags", "payload")
"""Kinds of drift whose `version_ts` is the commit_ts of the version that they contradict."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """since: the first commit_ts of a row or message that contradicts. count: of them. details: in words, by kind."""

    since: int
    count: int
    kinds: tuple[str, ...]
    details: tuple[str, ...]

    def form(self) -> dict[str, Any]:
        return {
            "since": self.since, "time": time_text(self.since), "count": self.count, "kinds": list(self.kinds),
            "detail": "; ".join(self.details), "what_to_do": WHAT_TO_DO,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.count} rows or messages since commit_ts {self.since} contradict it: {'; '.join(self.details)}"


def contradiction(row: NameRow, to_ts: int | None, drifts: Collection[Drift]) -> Contradiction | None:
    """What of the drift is about this version. to_ts: the commit_ts of the next version, up to which rows have it."""
    own = sorted((one for one in drifts if _is_about(one, row, to_ts)), key=lambda one: one.commit_ts)
    if not own:
        return None
    kinds, details = (tuple(dict.fromkeys(texts)) for texts in ([d.kind for d in own], [d.detail for d in own]))
    return Contradiction(own[0].commit_ts, sum(one.count for one in own), kinds, details)


def _is_about(one: Drift, row: NameRow, to_ts: int | None) -> bool:
    if one.version_ts != row.from_ts or (to_ts is not None and one.commit_ts > to_ts):
        return False
    return one.kind in OF_VERSION or (one.kind == "gap" and row.state is State.GONE)


def by_name(drifts: Collection[Drift]) -> dict[Key, list[Drift]]:
    names: dict[Key, list[Drift]] = {}
    for one in drifts:
        names.setdefault(key_of((one.db, one.table)), []).append(one)
    return names
