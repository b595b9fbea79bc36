"""Table histories in the registry's store. Keeps the promises of `service.history.ports`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, and_, func, select

from schemas.ddl.executor.catalog import Catalog
from schemas.ddl.executor.versions import in_utc
from schemas.model.errors import RegistryError
from schemas.model.table import Table
from service.history import lazy_catalog, table_codec
from service.history.model import (
    END,
    LAST_ORDINAL,
    AsOf,
    DdlRecord,
    Drift,
    HistoryPosition,
    HistoryRows,
    HistoryState,
    NameRow,
    Place,
    State,
    TableVersionRow,
    key_of,
)
from service.store import tables as sql
from service.store.history_queries import HistoryQueries, drift_of
from service.store.history_store import HistoryWriteStore
from service.store.sql_store import SqlStore

_DESCRIBED = (State.KNOWN, State.PARTIAL, State.GONE)


class HistoryStore(HistoryWriteStore):
    """Reading; the writing half is `history_store`."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store, table_codec.TableCache())

    # ---- changefeeds
    def changefeeds(self) -> list[HistoryState]:
        with self._store.read() as tx:
            return _changefeeds(tx.connection)

    def changefeed(self, name: str | None = None) -> HistoryState:
        with self._store.read() as tx:
            return _choose_changefeed(tx.connection, name)[1]

    @contextmanager
    def _open_reader(self, name: str | None) -> Iterator[tuple[HistoryQueries, int, HistoryState]]:
        with self._store.read() as tx:
            number, feed = _choose_changefeed(tx.connection, name)
            yield HistoryQueries(tx.connection, number, feed.name, self._tables), number, feed

    # ---- tables
    def catalog_at(self, changefeed: str | None = None, ts: int | None = None) -> Catalog:
        feed = self.changefeed(changefeed)
        return lazy_catalog.catalog(
            _CatalogSnapshot(self, feed.name), END if ts is None else HistoryPosition(ts, LAST_ORDINAL)
        )

    def version_at(
        self, changefeed: str | None, db: str, table: str, ts: int | None = None, *, inclusive: bool = False
    ) -> TableVersionRow | None:
        before = END if ts is None else HistoryPosition(ts, LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key_of((db, table)), before)
            if row is None:
                return None
            following = queries.next_name(key_of((db, table)), row.position)
            return _version(queries, row, feed.zone, following.position.commit_ts if following else None)

    def as_of(self, changefeed: str | None, db: str, table: str, ts: int, *, inclusive: bool = False) -> AsOf:
        key, before = key_of((db, table)), HistoryPosition(ts, LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key, before)
            # The row at `before` itself is not before it.
            at = HistoryPosition(before.commit_ts, before.ordinal - 1) if row is None else row.position
            following = queries.next_name(key, at)
            to_ts = following.position.commit_ts if following else None
            pending = queries.pending_up_to(key, ts)
            if row is None:
                return AsOf(feed, None, None, pending, to_ts)
            return AsOf(feed, _version(queries, row, feed.zone, to_ts), queries.event(row.ddl), pending, to_ts)

    def versions(self, changefeed: str | None, db: str, table: str) -> list[TableVersionRow]:
        with self._open_reader(changefeed) as (queries, _, feed):
            rows = queries.history_of(key_of((db, table)))
            following: list[int | None] = [*(row.position.commit_ts for row in rows[1:]), *([None] if rows else [])]
            # Of several rows at one commit_ts only the last one ever counts.
            return [
                _version(queries, row, feed.zone, to)
                for row, to in zip(rows, following, strict=True)
                if to != row.position.commit_ts
            ]

    def tables(
        self, changefeed: str | None = None, db: str | None = None, offset: int = 0, limit: int = 1000
    ) -> list[TableVersionRow]:
        with self._open_reader(changefeed) as (queries, _, _feed):
            return [_row_with_table(row) for row in queries.newest_names(db, offset, limit)]

    # ---- events
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
        c = sql.events.c
        with self._open_reader(changefeed) as (queries, number, _):
            query = select(sql.events).where(c.changefeed == number)
            if from_ts is not None:
                query = query.where(c.commit_ts >= from_ts)
            if to_ts is not None:
                query = query.where(c.commit_ts <= to_ts)
            if db is not None:
                query = query.where(func.lower(c.db) == db.lower())
            if table is not None:
                query = query.where(func.lower(c.tbl) == table.lower())
            return queries.records(query.order_by(c.commit_ts, c.ordinal).offset(offset).limit(limit))

    def events(self, changefeed: str | None, seqs: list[int]) -> dict[int, DdlRecord]:
        """Events by their seq."""
        with self._open_reader(changefeed) as (queries, _, _feed):
            records = (queries.event(seq) for seq in dict.fromkeys(seqs))
            return {one.seq: one for one in records if one is not None}

    def drift(self, changefeed: str | None = None, offset: int = 0, limit: int = 1000) -> list[Drift]:
        with self._open_reader(changefeed) as (queries, number, feed):
            query = select(sql.drift).where(sql.drift.c.changefeed == number).order_by(sql.drift.c.seq)
            return [drift_of(feed.name, row) for row in queries.connection.execute(query.offset(offset).limit(limit))]

    def count_fitting(self, changefeed: str | None, db: str, table: str) -> dict[int, int]:
        """Version's commit_ts → how many rows were seen that fit it."""
        c, key = sql.seen.c, key_of((db, table))
        with self._open_reader(changefeed) as (queries, number, _feed):
            here = and_(c.changefeed == number, c.db_key == key[0], c.table_key == key[1])
            return {row.version_ts: row.rows for row in queries.connection.execute(select(sql.seen).where(here))}

    def places(self, changefeed: str) -> dict[Place, tuple[int | None, int | None]]:
        c = sql.partitions.c
        with self._store.read() as tx:
            number = tx.connection.execute(
                select(sql.changefeeds.c.id).where(sql.changefeeds.c.name == changefeed)
            ).scalar()
            rows = tx.connection.execute(select(sql.partitions).where(c.changefeed == number))
            return {(row.topic, row.part): (row.next_offset, row.watermark) for row in rows}

    def numbers(self) -> dict[str, dict[str, int]]:
        """Changefeed → state of its events → how many; and its drift records under "drift"."""
        with self._store.read() as tx:
            names = {row.id: row.name for row in tx.connection.execute(select(sql.changefeeds))}
            counts: dict[str, dict[str, int]] = {name: {} for name in names.values()}
            c = sql.events.c
            for number, state, count in tx.connection.execute(
                select(c.changefeed, c.state, func.count()).group_by(c.changefeed, c.state)
            ):
                counts[names[number]][state] = count
            d = sql.drift.c
            for number, count in tx.connection.execute(select(d.changefeed, func.count()).group_by(d.changefeed)):
                counts[names[number]]["drift"] = count
            return counts


class _CatalogSnapshot:
    """Rows of a history, each read in a transaction of its own. Sealed rows change only when an event comes late."""

    def __init__(self, store: HistoryStore, changefeed: str) -> None:
        self._store, self._changefeed = store, changefeed

    def __getattr__(self, name: str) -> Any:
        def read(*arguments: Any) -> Any:
            with self._store._open_reader(self._changefeed) as (queries, _, _feed):
                return getattr(queries, name)(*arguments)

        return read


def _changefeeds(connection: Connection) -> list[HistoryState]:
    return [one for _, one in _all(connection)]


def _all(connection: Connection) -> list[tuple[int, HistoryState]]:
    c = sql.changefeeds.c
    rows = connection.execute(select(sql.changefeeds).order_by(c.name)).all()
    return [(row.id, HistoryState(row.name, row.sealed_ts, row.revision, 0, row.zone)) for row in rows]


def _choose_changefeed(connection: Connection, name: str | None) -> tuple[int, HistoryState]:
    changefeeds = _all(connection)
    if name is None and len(changefeeds) > 1:
        raise RegistryError("WHICH_CHANGEFEED", known=", ".join(one.name for _, one in changefeeds))
    for number, one in changefeeds:
        if name in (None, one.name):
            return number, one
    names = ", ".join(one.name for _, one in changefeeds) or "none yet (python -m service track --help)"
    raise RegistryError("UNKNOWN_CHANGEFEED", changefeed=name or "default", known=names)


def _row_with_table(row: NameRow, table: Table | None = None, to_ts: int | None = None) -> TableVersionRow:
    form = row.form.hex() if row.form else ""
    return TableVersionRow(
        row.id, row.position, row.state, row.table_id, table, row.since, row.reason, row.ddl, row.relation, to_ts, form
    )


def _version(rows: HistoryRows | HistoryQueries, row: NameRow, zone: str, to_ts: int | None) -> TableVersionRow:
    table = rows.table(row.form, row.id) if row.form is not None and row.state in _DESCRIBED else None
    return _row_with_table(row, in_utc(table, zone) if table and zone else table, to_ts)
