"""What readers and writers of table histories are given, as protocols. `service.store.history_reader` keeps the
promises.
"""

from __future__ import annotations

from typing import Protocol

from schemas.ddl.executor.catalog import Catalog
from service.history.model import (
    AsOf,
    Batch,
    BatchOutcome,
    DdlRecord,
    Drift,
    HistoryState,
    Place,
    RebuildOutcome,
    TableVersionRow,
)


class HistoryReader(Protocol):
    """Sealed histories. Errors: RegistryError STORE_FAILED or STORE_TIMEOUT; UNKNOWN_CHANGEFEED where one is named.

    changefeed: None means the only one there is.
    """

    def changefeeds(self) -> list[HistoryState]:
        """All of them, by name."""

    def changefeed(self, name: str | None = None) -> HistoryState:
        """One of them. RegistryError UNKNOWN_CHANGEFEED, or WHICH_CHANGEFEED where there are several."""

    def catalog_at(self, changefeed: str | None = None, ts: int | None = None) -> Catalog:
        """The tables as they are just after every DDL with commit_ts <= ts (None: now); read when they are asked for.

        Tables that are not KNOWN or PARTIAL with columns are not in it.
        """

    def version_at(
        self, changefeed: str | None, db: str, table: str, ts: int | None = None, *, inclusive: bool = False
    ) -> TableVersionRow | None:
        """The newest version with commit_ts < ts (<= with `inclusive`); without ts the newest. None: nothing is known
        of this name until ts."""

    def as_of(self, changefeed: str | None, db: str, table: str, ts: int, *, inclusive: bool = False) -> AsOf:
        """`version_at` with all that belongs to the answer."""

    def versions(self, changefeed: str | None, db: str, table: str) -> list[TableVersionRow]:
        """All versions of a name, oldest first; with `to_ts`."""

    def tables(
        self, changefeed: str | None = None, db: str | None = None, offset: int = 0, limit: int = 1000
    ) -> list[TableVersionRow]:
        """The newest version of each name, by name in lower case; without their tables."""

    def ddl(
        self,
        changefeed: str | None = None,
        from_ts: int | None = None,
        to_ts: int | None = None,
        db: str | None = None,
        table: str | None = None,
        offset: int = 0,
        limit: int = 1000,
    ) -> list[DdlRecord]:
        """DDL events with from_ts <= commit_ts <= to_ts, in order, pending ones too."""

    def drift(self, changefeed: str | None = None, offset: int = 0, limit: int = 1000) -> list[Drift]:
        """What contradicts the history, oldest first."""

    def events(self, changefeed: str | None, seqs: list[int]) -> dict[int, DdlRecord]:
        """Events by their seq."""

    def count_fitting(self, changefeed: str | None, db: str, table: str) -> dict[int, int]:
        """Version's commit_ts → how many rows were seen that fit it."""

    def numbers(self) -> dict[str, dict[str, int]]:
        """Changefeed → state of its events → how many; its drift records are under "drift"."""

    def places(self, changefeed: str) -> dict[Place, tuple[int | None, int | None]]:
        """Where to read on, and the watermark, of each partition that was ever read."""


class HistoryWriter(Protocol):
    """Changes to histories; each call is one transaction, and is done entirely or not at all."""

    def track(self, changefeed: str, batch: Batch, zone: str | None = None, *, strict: bool = False) -> BatchOutcome:
        """Keep what was read, seal what is resolved. A changefeed that is new begins. zone: see `HistoryState`.

        strict: nothing is kept if an event can't be read or applied; then its DdlError is raised. SetupError
        TRACKED_TWICE where somebody else has read on in the meantime.
        """

    def rebuild(self, changefeed: str, *, everything: bool = False) -> RebuildOutcome:
        """Apply again the events that failed, and what depends on them; or make all versions anew."""


class History(HistoryReader, HistoryWriter, Protocol):
    """Both halves."""
