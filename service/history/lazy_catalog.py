"""A catalog whose tables are read from the store when a statement asks for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from ticdc_bridge.schemas.ddl.executor.catalog import FIRST_DATABASE, Catalog, Database, Names, Relation
from ticdc_bridge.schemas.ddl.executor.charsets import DEFAULT, UNKNOWN, Charset
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history.model import DatabaseRow, HistoryPosition, HistoryRows, NameRow, State

V = TypeVar("V")


class LazyNames(Names[V]):
    """Names that are loaded one by one; `changes` (lower case) is what statements made of them, None for gone."""

    __slots__ = ("_list", "_load", "changes")

    def __init__(
        self,
        load: Callable[[str], V | None],
        list_: Callable[[], Iterable[tuple[str, V]]],
        changes: Mapping[str, V | None] | None = None,
    ) -> None:
        super().__init__()
        self._load, self._list = load, list_
        self.changes: Mapping[str, V | None] = changes or {}

    def get(self, name: str) -> V | None:
        key = name.lower()
        return self.changes[key] if key in self.changes else self._load(key)

    def with_(self, name: str, value: V | None) -> Names[V]:
        return LazyNames(self._load, self._list, {**self.changes, name.lower(): value})

    def __iter__(self) -> Iterator[V]:
        yield from (value for key, value in self._list() if key not in self.changes)
        yield from (value for value in self.changes.values() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def catalog(rows: HistoryRows, before: HistoryPosition) -> Catalog:
    """The catalog just before a position."""
    return Catalog(
        LazyNames(lambda db: _database(rows, db, before), _refuse_listing),
        LazyNames(lambda db: _gone_database(rows, db, before), _refuse_listing),
    )


def _refuse_listing() -> Iterable[tuple[str, Database]]:
    raise NotImplementedError("no statement is about all databases")


def _database(rows: HistoryRows, db: str, before: HistoryPosition) -> Database | None:
    row = rows.database(db, before)
    if row is not None:
        charset = Charset(row.charset, row.collate)
        return _with_names(rows, Database(row.name, charset), before, row) if row.live else None
    if db == FIRST_DATABASE:
        return _with_names(rows, Database(FIRST_DATABASE, DEFAULT), before, None)
    known = rows.any_name(db, before)  # its CREATE was not seen: known by its tables
    return _with_names(rows, Database(known.id.db, UNKNOWN), before, None) if known else None


def _with_names(rows: HistoryRows, database: Database, before: HistoryPosition, row: DatabaseRow | None) -> Database:
    db = database.name.lower()

    def names(read: Callable[[NameRow | None], V | None]) -> LazyNames[V]:
        return LazyNames(
            lambda key: read(rows.name((db, key), before)),
            lambda: [(r.id.table.lower(), value) for r in rows.names(db, before) if (value := read(r)) is not None],
        )

    def dropped_table(name_row: NameRow | None) -> Table | None:
        # What was dropped before the database itself was made anew is gone for good.
        if name_row is None or name_row.dropped is None or (row is not None and name_row.position < row.position):
            return None
        return rows.table(name_row.dropped[1], name_row.id)

    tables = names(lambda r: rows.table(r.form, r.id) if r is not None and r.has_table and r.form else None)
    relations = names(lambda r: Relation(r.relation, r.id) if r is not None and r.state is State.RELATION else None)
    return Database(database.name, database.charset, tables, relations, names(dropped_table))


def _gone_database(rows: HistoryRows, db: str, before: HistoryPosition) -> Database | None:
    """What FLASHBACK DATABASE can bring back: the tables that went when the database went."""
    row = rows.database(db, before)
    if row is None or row.live:
        return None

    def tables() -> list[tuple[str, Table]]:
        last = [r for r in rows.names(db, before) if r.position == row.position and r.form and not r.relation]
        return [(r.id.table.lower(), rows.table(r.form, TableId(row.name, r.id.table))) for r in last if r.form]

    by_name = dict[str, Table]()

    def entry(key: str) -> Table | None:
        by_name.update({} if by_name else tables())
        return by_name.get(key)

    return Database(row.name, Charset(row.charset, row.collate), LazyNames(entry, tables))
