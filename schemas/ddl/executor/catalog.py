"""All databases and tables as they are at one moment. Immutable: a statement gives another catalog.

Copying a dict of 10,000 tables for each statement would make a history quadratic, so names live in a fixed number of
small dicts, of which a change copies one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT, UNKNOWN, Charset
from ticdc_bridge.schemas.model.table import Table, TableId

_BUCKETS = 256
V = TypeVar("V")


class Names(Generic[V]):
    """Names → values; names are the same whatever the case of their letters. Iteration: in no order of importance."""

    __slots__ = ("_buckets", "_count")

    def __init__(self, buckets: tuple[dict[str, V], ...] = ({},) * _BUCKETS, count: int = 0) -> None:
        self._buckets = buckets
        self._count = count

    def get(self, name: str) -> V | None:
        key = name.lower()
        return self._buckets[hash(key) % _BUCKETS].get(key)

    def without(self, name: str) -> Names[V]:
        return self if self.get(name) is None else self.with_(name, None)

    def with_(self, name: str, value: V | None) -> Names[V]:
        """With this value for a name; None: with none."""
        key = name.lower()
        at = hash(key) % _BUCKETS
        bucket = dict(self._buckets[at])
        before = len(bucket)
        if value is None:
            bucket.pop(key, None)
        else:
            bucket[key] = value
        return Names((*self._buckets[:at], bucket, *self._buckets[at + 1 :]), self._count + len(bucket) - before)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[V]:
        for bucket in self._buckets:
            yield from bucket.values()


@dataclass(frozen=True, slots=True)
class Relation:
    """A view or a sequence: a name that holds no rows."""

    kind: str
    id: TableId


@dataclass(frozen=True, slots=True)
class Database:
    """charset UNKNOWN: the history began after its CREATE DATABASE."""

    name: str
    charset: Charset = UNKNOWN
    tables: Names[Table] = field(default_factory=Names)
    relations: Names[Relation] = field(default_factory=Names)
    dropped: Names[Table] = field(default_factory=Names)

    def objects(self) -> list[TableId]:
        """Tables, views and sequences, by name."""
        return sorted([t.id for t in self.tables] + [r.id for r in self.relations])

    def with_table(self, table: Table) -> Database:
        return replace(self, tables=self.tables.with_(table.id.table, table))


@dataclass(frozen=True, slots=True)
class Catalog:
    """Databases by name. `dropped` keeps what RECOVER TABLE and FLASHBACK can bring back: the newest of each name."""

    databases: Names[Database] = field(default_factory=Names)
    dropped: Names[Database] = field(default_factory=Names)

    def table(self, id_: TableId) -> Table | None:
        """A table, whatever the case of the letters it is asked by."""
        database = self.databases.get(id_.db)
        return database.tables.get(id_.table) if database else None

    def exists(self, id_: TableId) -> TableId | None:
        """A table's, view's or sequence's name as it is written in the catalog."""
        database = self.databases.get(id_.db)
        if database is None:
            return None
        entry = database.tables.get(id_.table) or database.relations.get(id_.table)
        return entry.id if entry else None

    def relation(self, id_: TableId) -> Relation | None:
        """The view or sequence of a name."""
        database = self.databases.get(id_.db)
        return database.relations.get(id_.table) if database else None

    def without_table(self, id_: TableId) -> Catalog:
        """As if the table had never been seen."""
        database = self.databases.get(id_.db)
        if database is None or database.tables.get(id_.table) is None:
            return self
        return self.with_database(replace(database, tables=database.tables.without(id_.table)))

    def described_tables(self) -> list[Table]:
        """Tables whose details are known: none where tables are read from a store, which keeps no details."""
        databases = self.databases if type(self.databases) is Names else ()
        return [table for database in databases for table in database.tables if table.details]

    def with_table(self, table: Table) -> Catalog:
        """With this table in the place of the one of its name."""
        database = self.databases.get(table.id.db) or Database(table.id.db)
        return self.with_database(database.with_table(table))

    def with_database(self, database: Database) -> Catalog:
        return replace(self, databases=self.databases.with_(database.name, database))


FIRST_DATABASE: Final = "test"
"""The one that a new cluster has."""


def new_catalog() -> Catalog:
    """A cluster's first moment: its first database, empty."""
    return Catalog().with_database(Database(FIRST_DATABASE, DEFAULT))
