"""What rules about histories ask of one, as a protocol. `service.store.history_reader` keeps the promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.history.contradictions import Contradiction
from ticdc_bridge.service.history.model import HistoryState, NameRow, TableVersionRow


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

    def versions_of(
        self, changefeed: str | None, ids: Collection[TableId], *, newest: bool = False
    ) -> dict[TableId, list[TableVersionRow]]:
        """All versions of each name, oldest first, or only the newest."""

    def contradictions(
        self, changefeed: str | None, versions: Sequence[tuple[NameRow, int | None]]
    ) -> list[Contradiction | None]:
        """What rows and messages say against each version (with its to_ts), None for nothing."""

    def tables(
        self, changefeed: str | None = None, db: str | None = None, offset: int = 0, limit: int = 1000, part: str = ""
    ) -> list[NameRow]:
        """The newest row of each name, by name in lower case; part: of those with this text in `db.table`."""
