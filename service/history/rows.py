"""Rows of a history as they are stored, and what the rules need from a store to read them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from schemas.table import Table, TableId
from service.history.model import DatabaseRow, DdlRecord, Drift, Position, State

Key = tuple[str, str]
"""A name in lower case: (database, table). "" for the database itself, ALL for every table of it."""
ALL = "\x01"


def key_of(id_: TableId | tuple[str, str]) -> Key:
    return id_[0].lower(), id_[1].lower()


@dataclass(frozen=True, slots=True)
class NameRow:
    """`model.VersionRow`, with digests of forms in the place of tables. dropped: (table_id, form, name it had)."""

    id: TableId
    position: Position
    state: State
    table_id: str = ""
    form: bytes | None = None
    since: int = 0
    reason: str = ""
    ddl: int = 0
    relation: str = ""
    dropped: tuple[str, bytes] | None = None

    @property
    def live(self) -> bool:
        return self.state is not State.GONE

    @property
    def has_table(self) -> bool:
        """Whether statements about it can be applied."""
        return self.state in (State.KNOWN, State.PARTIAL) and self.form is not None

    @property
    def content(self) -> tuple[object, ...]:
        """All that later statements can feel of it."""
        return (*(self.id, self.state, self.table_id, self.form, self.since, self.reason, self.relation, self.dropped),)


class Rows(Protocol):
    """What names and databases were just before a position."""

    def name(self, key: Key, before: Position) -> NameRow | None: ...

    def database(self, db: str, before: Position) -> DatabaseRow | None:
        """db in lower case."""

    def names(self, db: str, before: Position) -> list[NameRow]:
        """The newest row of each name in a database, in the order of the names."""

    def any_name(self, db: str, before: Position) -> NameRow | None:
        """One of `names`, if there are any."""

    def following(self, key: Key, after: Position) -> NameRow | None:
        """What a name becomes next after a position."""

    def table(self, form: bytes, id_: TableId) -> Table:
        """A form as a table of this name."""

    def keep(self, table: Table) -> bytes:
        """The digest of the table's form, which is stored if it is not yet."""


@dataclass(slots=True)
class Outcome:
    """What one event makes of the rows before it. involved: names on which that depends, or which it is about."""

    names: dict[Key, NameRow] = field(default_factory=dict)
    databases: dict[str, DatabaseRow] = field(default_factory=dict)
    involved: set[Key] = field(default_factory=set)
    drift: list[Drift] = field(default_factory=list)
    error: str | None = None


class Book(Rows, Protocol):
    """A history that is being written, in one transaction."""

    def newest(self) -> Position:
        """The position of the last sealed event."""

    def next_event(self, after: Position, keys: Collection[Key]) -> DdlRecord | None:
        """The first sealed event after a position whose effect depends on one of these names (or perhaps does)."""

    def rows_at(self, position: Position) -> tuple[dict[Key, NameRow], dict[str, DatabaseRow]]:
        """The rows that the event there made."""

    def write(self, record: DdlRecord, outcome: Outcome, *, again: bool) -> None:
        """Put the event's rows in; again: in the place of those it made before."""
