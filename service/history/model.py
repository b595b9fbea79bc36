"""What a table history is made of: DDL events as received, and what each name stood for since when.

A history belongs to a changefeed: commit_ts come from one TiDB cluster's clock. Positions in it are (commit_ts,
ordinal): DDL events with one commit_ts (a RENAME swap) count in the order in which a partition brought them.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, Protocol

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso, tso_physical_ms
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history import table_codec


def clean(text: str) -> str:
    """The text without lone surrogates and NUL characters, which are shown as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def tso_of(text: str) -> int:
    """A commit_ts, or an RFC 3339 time: then the last TSO of its millisecond. RegistryError INVALID_TIME."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_TSO:
        return int(text)
    match = _TIME.fullmatch(text)
    if match is not None:
        day, clock, fraction, zone = match.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
            ms = (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
        except (ValueError, OverflowError):
            ms = -1
        if 0 <= ms < tso_physical_ms(MAX_TSO):
            return ms_to_tso(ms + 1) - 1
    raise RegistryError("INVALID_TIME", text=text[:80])


def time_text(tso: int) -> str:
    """The time of a TSO, to the millisecond, in UTC."""
    moment = _EPOCH + timedelta(milliseconds=min(tso_physical_ms(tso), 253_402_300_799_999))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


DEFAULT_CHANGEFEED: Final = "default"


class State(StrEnum):
    """What is known of a name since a position.

    KNOWN: its table, exactly. PARTIAL: something of it, see `TableVersionRow.reason`. ERROR: a DDL could not be read or
    applied, so that nothing is known until a CREATE or a snapshot. UNKNOWN: it was never described. GONE: dropped, or
    renamed away. RELATION: a view or a sequence, which holds no rows.
    """

    KNOWN = "KNOWN"
    PARTIAL = "PARTIAL"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"
    GONE = "GONE"
    RELATION = "RELATION"


class HistoryPosition(NamedTuple):
    """A place in a history: a TSO, and a number that tells apart the events which share it."""

    commit_ts: int
    ordinal: int


LAST_ORDINAL: Final = (1 << 31) - 1
FIRST: Final = HistoryPosition(0, 0)
END: Final = HistoryPosition((1 << 63) - 1, LAST_ORDINAL)


@dataclass(frozen=True, slots=True)
class DdlRecord:
    """A DDL statement (or a snapshot of one table) as it was received.

    mode: "wire", "typed" or "show" (how `query` is written), or "form" for a snapshot without statement, whose table is
    `carried`. carried: the table after the statement, where the message told it (Simple, Debezium). state: pending
    until every partition's watermark has passed commit_ts; failed: sealed, but it could not be read or applied, and
    `error` says why. copies: how often it came. unsealed_source: its source sends no watermarks, so it was sealed on
    arrival.
    """

    changefeed: str
    commit_ts: int
    db: str
    table: str
    query: str
    kind: Literal["ddl", "snapshot"] = "ddl"
    ordinal: int = 0
    seq: int = 0
    ddl_type: int | None = None
    mode: str = "wire"
    sql_mode: str = ""
    format: str = ""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    copies: int = 1
    state: Literal["pending", "sealed", "failed"] = "pending"
    unsealed_source: bool = False
    error: str | None = None
    carried: Table | None = None
    partial: str = ""
    """Snapshots: what of the table is not known ("" for nothing)."""

    @property
    def position(self) -> HistoryPosition:
        return HistoryPosition(self.commit_ts, self.ordinal)

    @property
    def key(self) -> bytes:
        """Equal for the copies of a broadcast event, and for its repetition after a restart."""
        table = table_codec.encode(self.carried) if self.mode == "form" and self.carried is not None else b""
        pieces = (self.kind, self.commit_ts, self.db, self.table, self.query, table.hex())
        return hashlib.sha1("\0".join(map(str, pieces)).encode("utf-8", "replace"), usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class NameRow:
    """What a name stands for from `position` on.

    table_id: of the logical table (a UUID): RENAME keeps it, DROP ends it, RECOVER brings it back. form: the digest of
    its table's form, equal for tables that differ in nothing but their names; for GONE that of the table that was.
    since: the commit_ts from which it is in its state. ddl: seq of the event that made it. dropped: (table_id, form) of
    what RECOVER brings back.
    """

    id: TableId
    position: HistoryPosition
    state: State
    table_id: str = ""
    form: bytes | None = None
    since: int = 0
    reason: str = ""
    ddl: int = 0
    relation: str = ""
    dropped: tuple[str, bytes] | None = None

    @property
    def from_ts(self) -> int:
        """The TSO of the DDL; rows with a greater commit_ts have this version."""
        return self.position.commit_ts

    @property
    def is_live(self) -> bool:
        """True if there is something of this name."""
        return self.state is not State.GONE

    @property
    def has_table(self) -> bool:
        """True if statements about it can be applied."""
        return self.state in (State.KNOWN, State.PARTIAL) and self.form is not None

    @property
    def content(self) -> tuple[object, ...]:
        """All that later statements can feel of it."""
        return self.id, self.state, self.table_id, self.form, self.since, self.reason, self.relation, self.dropped


@dataclass(frozen=True, slots=True)
class TableVersionRow(NameRow):
    """table: None unless KNOWN or PARTIAL; for GONE the one that was. to_ts: commit_ts of the next version, or None."""

    table: Table | None = None
    to_ts: int | None = None


@dataclass(frozen=True, slots=True)
class DatabaseRow:
    """A database from `position` on; charset and collate are "" where its CREATE was not seen. live False: dropped."""

    name: str
    position: HistoryPosition
    live: bool
    charset: str = ""
    collate: str = ""
    ddl: int = 0


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A history as a whole. sealed_ts: every DDL at or below it is known and in order. revision: counts its changes."""

    name: str
    sealed_ts: int = 0
    revision: int = 0
    zone: str = ""
    """The sessions' time zone, in which literal TIMESTAMP defaults in DDL are written; "" where nobody said."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """What is known of a name at a time. version None: nothing yet. pending: how many of its events up to then are not
    sealed. next_ts: the commit_ts of the first version after that."""

    changefeed: HistoryState
    version: TableVersionRow | None
    ddl: DdlRecord | None
    pending: int
    next_ts: int | None


DriftKind = Literal["columns", "type", "flags", "payload", "registry", "gap", "unknown_table", "snapshot"]


@dataclass(frozen=True, slots=True)
class Drift:
    """Something that contradicts the history. It never changes the history. commit_ts: where it was first seen."""

    changefeed: str
    kind: DriftKind
    db: str
    table: str
    commit_ts: int
    detail: str
    version_ts: int | None = None
    count: int = 1
    seq: int = 0
    seen_ms: int = 0


PartitionKey = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Batch:
    """What was read of a changefeed's sources, to be kept in one transaction with how far it was read.

    records: DDL events and snapshots in the order in which they came. offsets: where to read on. expected: where the
    reader had begun, so that two readers of one changefeed find out. watermarks: of each partition, the highest.
    partitions: all there are, so that one which is silent holds the sealing up. seen: rows that fit their versions.
    """

    records: list[DdlRecord] = field(default_factory=list)
    offsets: dict[PartitionKey, int] = field(default_factory=dict)
    expected: dict[PartitionKey, int] = field(default_factory=dict)
    watermarks: dict[PartitionKey, int] = field(default_factory=dict)
    partitions: set[PartitionKey] = field(default_factory=set)
    drift: list[Drift] = field(default_factory=list)
    seen: dict[tuple[tuple[str, str], int], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records or self.offsets or self.watermarks or self.partitions or self.drift or self.seen)


@dataclass(slots=True)
class BatchOutcome:
    """What became of a batch. late: sealed behind others that were sealed before. failed: among those sealed."""

    new: int = 0
    copies: int = 0
    sealed: int = 0
    failed: list[DdlRecord] = field(default_factory=list)
    late: int = 0
    drift: int = 0
    pending: int = 0
    sealed_ts: int = 0


@dataclass(frozen=True, slots=True)
class RebuildOutcome:
    """events: applied again. healed: those that had failed and do not any more. failed: those that still do."""

    events: int = 0
    healed: int = 0
    failed: int = 0


Key = tuple[str, str]
"""A name in lower case: (database, table). "" for the database itself, ALL for every table of it."""
ALL = "\x01"


def key_of(id_: TableId | tuple[str, str]) -> Key:
    return id_[0].lower(), id_[1].lower()


class HistoryRows(Protocol):
    """What names and databases were just before a position."""

    def name(self, key: Key, before: HistoryPosition) -> NameRow | None: ...

    def database(self, db: str, before: HistoryPosition) -> DatabaseRow | None:
        """db in lower case."""

    def names(self, db: str, before: HistoryPosition) -> list[NameRow]:
        """The newest row of each name in a database, in the order of the names."""

    def any_name(self, db: str, before: HistoryPosition) -> NameRow | None:
        """One of `names`, if there are any."""

    def next_name(self, key: Key, after: HistoryPosition) -> NameRow | None:
        """What a name becomes next after a position."""

    def table(self, form: bytes, id_: TableId) -> Table:
        """A form as a table of this name."""

    def keep(self, table: Table) -> bytes:
        """The digest of the table's form, which is stored if it is not yet."""


@dataclass(slots=True)
class EventOutcome:
    """What one event makes of the rows before it. involved: names on which that depends, or which it is about."""

    names: dict[Key, NameRow] = field(default_factory=dict)
    databases: dict[str, DatabaseRow] = field(default_factory=dict)
    involved: set[Key] = field(default_factory=set)
    drift: list[Drift] = field(default_factory=list)
    error: str | None = None


class HistoryTransaction(HistoryRows, Protocol):
    """A history that is being written, in one transaction."""

    def newest(self) -> HistoryPosition:
        """The position of the last sealed event."""

    def next_event(self, after: HistoryPosition, keys: Collection[Key]) -> DdlRecord | None:
        """The first sealed event after a position whose effect depends on one of these names (or perhaps does)."""

    def rows_at(self, position: HistoryPosition) -> tuple[dict[Key, NameRow], dict[str, DatabaseRow]]:
        """The rows that the event there made."""

    def write(self, record: DdlRecord, outcome: EventOutcome, *, again: bool) -> None:
        """Put the event's rows in; again: in the place of those it made before."""


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
    about_row = [
        drift
        for drift in sorted(drifts, key=lambda entry: entry.commit_ts)
        if drift.version_ts == row.from_ts
        and (to_ts is None or drift.commit_ts <= to_ts)
        and (drift.kind in OF_VERSION or (drift.kind == "gap" and row.state is State.GONE))
    ]
    if not about_row:
        return None
    kinds = tuple(dict.fromkeys(drift.kind for drift in about_row))
    details = tuple(dict.fromkeys(drift.detail for drift in about_row))
    return Contradiction(about_row[0].commit_ts, sum(entry.count for entry in about_row), kinds, details)


def by_name(drifts: Collection[Drift]) -> dict[Key, list[Drift]]:
    names: dict[Key, list[Drift]] = {}
    for drift in drifts:
        names.setdefault(key_of((drift.db, drift.table)), []).append(drift)
    return names


class HistoryReader(Protocol):
    """Sealed histories; changefeed None: the only one. RegistryError STORE_…, UNKNOWN_CHANGEFEED where one is named."""

    def changefeeds(self) -> list[HistoryState]:
        """All of them, by name."""

    def changefeed(self, name: str | None = None) -> HistoryState:
        """One of them. RegistryError UNKNOWN_CHANGEFEED, or WHICH_CHANGEFEED where there are several."""

    def catalog_at(self, changefeed: str | None = None, ts: int | None = None) -> Catalog:
        """The tables just after every DDL with commit_ts <= ts (None: now) that are KNOWN, or PARTIAL with columns."""

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
        self, changefeed: str | None = None, db: str | None = None, offset: int = 0, limit: int = 1000, search: str = ""
    ) -> list[NameRow]:
        """The newest row of each name, by name in lower case; part: of those with this text in `db.table`."""
