"""Table histories in the registry's store. Keeps the promises of `service.history.model`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.versions import in_utc
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history import lazy_catalog, table_codec
from ticdc_bridge.service.history.diff import HistorySpan, Period
from ticdc_bridge.service.history.model import (
    END,
    FIRST,
    LAST_ORDINAL,
    OF_VERSION,
    AsOf,
    Contradiction,
    DdlRecord,
    Drift,
    HistoryPosition,
    HistoryState,
    Key,
    NameRow,
    PartitionKey,
    State,
    TableVersionRow,
    by_name,
    contradiction,
    key_of,
)
from ticdc_bridge.service.store import tables as sql
from ticdc_bridge.service.store.history_queries import HistoryQueries, drift_row
from ticdc_bridge.service.store.history_store import HistoryWriteStore
from ticdc_bridge.service.store.sql_store import SqlStore
from ticdc_bridge.service.store.statements import PreparedStatement, chunks

_AT_ONCE = 200  # tables whose versions are read together
_BACKWARDS = "the end, commit_ts {}, is before the start, commit_ts {}: give the earlier time first"
_DESCRIBED = (State.KNOWN, State.PARTIAL, State.GONE)
_OF_FEED = tuple(field.name for field in fields(HistoryState))
_FEED = sql.changefeeds.c
_CHANGEFEEDS = PreparedStatement(select(_FEED.id, *(_FEED[name] for name in _OF_FEED)).order_by(_FEED.name))
_OF_ROW = tuple(field.name for field in fields(NameRow))


class HistoryStore(HistoryWriteStore):
    """Reading; the writing half is `history_store`."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store, table_codec.table_cache())

    # ---- changefeeds
    def changefeeds(self, table: TableId | None = None) -> list[HistoryState]:
        c, key = sql.names.c, key_of(table or ("", ""))
        with self._store.read() as tx:
            feeds = _all(tx.connection)
            if table is not None:
                query = select(c.changefeed).distinct().where(c.db_key == key[0], c.table_key == key[1])
                known = set(tx.connection.execute(query).scalars())
                feeds = [feed for feed in feeds if feed[0] in known]
        return [feed for _, feed in feeds]

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
        with self._open_reader(changefeed) as (_, number, feed):
            rows = _CatalogSnapshot(self._store, number, feed.name, self._tables)
        return lazy_catalog.catalog(rows, END if ts is None else HistoryPosition(ts, LAST_ORDINAL))

    def version_at(
        self, changefeed: str | None, db: str, table: str, ts: int | None = None, *, inclusive: bool = False
    ) -> TableVersionRow | None:
        key, before = key_of((db, table)), END if ts is None else HistoryPosition(ts, LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key, before)
            if row is None:
                return None
            following = queries.next_name(key, row.position)
            return _versions(queries, feed, [(row, following.from_ts if following else None)])[0]

    def as_of(self, changefeed: str | None, db: str, table: str, ts: int, *, inclusive: bool = False) -> AsOf:
        """`version_at` with all that belongs to the answer."""
        key, before = key_of((db, table)), HistoryPosition(ts, LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key, before)
            # The row at `before` itself is not before it.
            at = HistoryPosition(before.commit_ts, before.ordinal - 1) if row is None else row.position
            following = queries.next_name(key, at)
            to_ts = following.from_ts if following else None
            pending = queries.pending_up_to(key, ts)
            if row is None:
                return AsOf(feed, None, None, pending, to_ts)
            [version] = _versions(queries, feed, [(row, to_ts)])
            return AsOf(feed, version, queries.event(row.ddl), pending, to_ts)

    def versions(
        self,
        changefeed: str | None,
        db: str,
        table: str,
        offset: int = 0,
        limit: int | None = None,
        *,
        newest_first: bool = False,
    ) -> tuple[list[TableVersionRow], int]:
        """Versions of a name, and how many there are in all."""
        key, end = key_of((db, table)), None if limit is None else offset + limit
        with self._open_reader(changefeed) as (queries, _, feed):
            spans = _spans(queries.histories_of([key])[key])[:: -1 if newest_first else 1]
            return _versions(queries, feed, spans[offset:end]), len(spans)

    def versions_of(
        self, changefeed: str | None, ids: Collection[TableId], *, newest: bool = False
    ) -> dict[TableId, list[TableVersionRow]]:
        with self._open_reader(changefeed) as (queries, _, feed):
            rows = queries.histories_of({key_of(id_) for id_ in ids}, newest=newest)
            spans = [span for of in rows.values() for span in _spans(of)]
            by_key = dict[Key, list[TableVersionRow]]()
            for version in _versions(queries, feed, spans):
                by_key.setdefault(key_of(version.id), []).append(version)
            return {id_: by_key.get(key_of(id_), []) for id_ in ids}

    def tables(
        self, changefeed: str | None = None, db: str | None = None, offset: int = 0, limit: int = 1000, search: str = ""
    ) -> list[NameRow]:
        with self._open_reader(changefeed) as (queries, _, _feed):
            return queries.newest_names(db, offset, limit, search)

    def span(
        self, changefeed: str | None, period: Period, db: str | None = None, table: str | None = None
    ) -> HistorySpan:
        """Events between two times, of all tables, a database's or one. RegistryError TABLE_NOT_KNOWN for a
        table, or a database, of which nothing is known until the end; UNPROCESSABLE for an end before the start, and a
        table without database.
        """
        if period.to_ts < period.from_ts:
            raise RegistryError("UNPROCESSABLE", details=_BACKWARDS.format(period.to_ts, period.from_ts))
        start, end = (HistoryPosition(ts, LAST_ORDINAL if period.inclusive else 0) for ts in period[:2])
        with self._open_reader(changefeed) as (queries, number, feed):
            _check_known(queries, feed, end, db, table)
            rows = queries.rows_between(start, end, db, table)
            contradicted = _contradicted(queries, number, feed, (start, end), (db, table))
            names = {key: (queries.name(key, start), rows.get(key, [])) for key in {**rows, **contradicted}}
            changed = {} if table else queries.databases_between(start, end, db)
            databases = {name: (queries.database(name, start), some) for name, some in changed.items()}
            every = [row for before, some in names.values() for row in (before, *some) if row is not None]
            forms = {(row.form, row.id) for row in every if row.has_table and row.form is not None}
            tables = _in_zone(queries.tables(forms), feed)
            seqs = {row.ddl for some in rows.values() for row in some}
            seqs |= {row.ddl for some in changed.values() for row in some}
            events = {event.seq: event for event in queries.events(seqs)}
            pending = queries.count_pending(period.to_ts)
            return HistorySpan(feed, period, names, databases, events, tables, contradicted, pending)

    def histories(
        self, changefeed: str | None, db: str | None = None, table: str | None = None
    ) -> Iterator[list[tuple[TableVersionRow, Contradiction | None]]]:
        """All versions of each name, oldest first, with what contradicts them; names by database and table."""
        start, of = 0, [NameRow(TableId(db, table), FIRST, State.UNKNOWN)] if db and table else None
        while rows := of or self.tables(changefeed, db, start, _AT_ONCE):
            versions = self.versions_of(changefeed, [row.id for row in rows])
            every = [(entry, entry.to_ts) for some in versions.values() for entry in some]
            against = iter(self.contradictions(changefeed, every))
            yield from ([(entry, next(against)) for entry in some] for some in versions.values() if some)
            start += len(rows)
            if of:
                return

    def check_known(self, changefeed: str | None, db: str | None, table: str | None = None) -> None:
        """RegistryError TABLE_NOT_KNOWN where nothing of a database or a table was ever seen."""
        with self._open_reader(changefeed) as (queries, _, feed):
            _check_known(queries, feed, END, db, table)

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
        """DDL events with from_ts <= commit_ts <= to_ts, in order, pending ones too.

        Of a table: those that name it, and those that made or ended a version of its name (a rename, a DROP DATABASE).
        """
        c = sql.events.c
        with self._open_reader(changefeed) as (queries, number, _):
            query = select(sql.events).where(c.changefeed == number)
            if from_ts is not None:
                query = query.where(c.commit_ts >= from_ts)
            if to_ts is not None:
                query = query.where(c.commit_ts <= to_ts)
            if db or table:
                made = select(sql.names.c.ddl).where(sql.names.c.changefeed == number)
                for key, name in ((sql.names.c.db_key, db), (sql.names.c.table_key, table)):
                    made = made.where(key == name.lower()) if name else made
                of_table = _of_table(select(c.seq).where(c.changefeed == number), c, db, table)
                query = query.where(or_(c.seq.in_(of_table), c.seq.in_(made)))
            return queries.records(query.order_by(c.commit_ts, c.ordinal).offset(offset).limit(limit))

    def events(self, changefeed: str | None, seqs: list[int]) -> dict[int, DdlRecord]:
        """Events by their seq."""
        with self._open_reader(changefeed) as (queries, _, _feed):
            return {event.seq: event for event in queries.events(seqs)}

    def drift(
        self,
        changefeed: str | None = None,
        db: str | None = None,
        table: str | None = None,
        offset: int = 0,
        limit: int = 1000,
    ) -> list[Drift]:
        """Contradictions of the history, oldest first."""
        c = sql.drift.c
        with self._open_reader(changefeed) as (queries, number, feed):
            query = _of_table(select(sql.drift), c, db, table).where(c.changefeed == number).order_by(c.seq)
            return [drift_row(feed.name, row) for row in queries.connection.execute(query.offset(offset).limit(limit))]

    def contradictions(
        self, changefeed: str | None, versions: Sequence[tuple[NameRow, int | None]]
    ) -> list[Contradiction | None]:
        """What rows and messages say against each version (with its to_ts), None for nothing."""
        c, drifts = sql.drift.c, list[Drift]()
        with self._open_reader(changefeed) as (queries, number, feed):
            query = select(sql.drift).where(c.changefeed == number, c.kind.in_((*OF_VERSION, "gap")))
            for some in chunks({row.from_ts for row, _ in versions}):
                rows = queries.connection.execute(query.where(c.version_ts.in_(some)).order_by(c.seq))
                drifts += [drift_row(feed.name, row) for row in rows]
        names = by_name(drifts)
        return [contradiction(row, to_ts, names.get(key_of(row.id), ())) for row, to_ts in versions]

    def count_fitting(self, changefeed: str | None, db: str, table: str) -> dict[int, int]:
        """Version's commit_ts → how many rows were seen that fit it."""
        c, key = sql.seen.c, key_of((db, table))
        with self._open_reader(changefeed) as (queries, number, _feed):
            here = and_(c.changefeed == number, c.db_key == key[0], c.table_key == key[1])
            return {row.version_ts: row.rows for row in queries.connection.execute(select(sql.seen).where(here))}

    def places(self) -> dict[str, dict[PartitionKey, tuple[int | None, int | None]]]:
        """Changefeed → where to read on, and the watermark, of each partition that was ever read."""
        c, feeds, positions = (
            sql.partitions.c,
            sql.changefeeds.c,
            dict[str, dict[PartitionKey, tuple[int | None, int | None]]](),
        )
        query = select(sql.partitions, feeds.name).join_from(sql.partitions, sql.changefeeds, feeds.id == c.changefeed)
        with self._store.read() as tx:
            for row in tx.connection.execute(query):
                positions.setdefault(row.name, {})[row.topic, row.part] = (row.next_offset, row.watermark)
        return positions

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
    """Rows of a history, each read when it is asked for. Sealed rows change only when an event comes late."""

    def __init__(self, store: SqlStore, *history: Any) -> None:
        self._store, self._history, self._answers = store, history, dict[Any, Any]()

    def __getattr__(self, name: str) -> Any:
        def read(*arguments: Any) -> Any:
            asked = (name, arguments)
            if asked not in self._answers:
                with self._store.read() as tx:
                    self._answers[asked] = getattr(HistoryQueries(tx.connection, *self._history), name)(*arguments)
            return self._answers[asked]

        return read


def _of_table(query: Select[Any], c: Any, db: str | None, table: str | None) -> Select[Any]:
    for column, name in ((c.db, db), (c.tbl, table)):
        if name is not None:  # SQLite has lower case for ASCII alone
            query = query.where(or_(func.lower(column) == name.lower(), column == name))
    return query


def _all(connection: Connection) -> list[tuple[int, HistoryState]]:
    return [(id_, HistoryState(**dict(zip(_OF_FEED, rest, strict=True)))) for id_, *rest in _CHANGEFEEDS(connection)]


def _choose_changefeed(connection: Connection, name: str | None) -> tuple[int, HistoryState]:
    changefeeds = _all(connection)
    if name is None and len(changefeeds) > 1:
        raise RegistryError("WHICH_CHANGEFEED", known=", ".join(item.name for _, item in changefeeds))
    for number, entry in changefeeds:
        if name in (None, entry.name):
            return number, entry
    names = ", ".join(item.name for _, item in changefeeds) or "none yet (ticdc-bridge track --help)"
    raise RegistryError("UNKNOWN_CHANGEFEED", changefeed=name or "default", known=names)


def _spans(rows: list[NameRow]) -> list[tuple[NameRow, int | None]]:
    """Rows of a name, each with the commit_ts of the next. Of several at one commit_ts only the last one counts."""
    following: list[int | None] = [*(row.from_ts for row in rows[1:]), None]
    return [(row, to_ts) for row, to_ts in zip(rows, following, strict=False) if to_ts != row.from_ts]


def _versions(
    queries: HistoryQueries, feed: HistoryState, spans: Sequence[tuple[NameRow, int | None]]
) -> list[TableVersionRow]:
    """Rows with their tables, defaults in UTC where the changefeed's zone is known."""
    described = {(row.form, row.id) for row, _ in spans if row.form is not None and row.state in _DESCRIBED}
    tables: dict[Any, Table] = _in_zone(queries.tables(described), feed)
    return [
        TableVersionRow(
            **{name: getattr(row, name) for name in _OF_ROW},
            table=tables.get((row.form, row.id)) if row.state in _DESCRIBED else None,
            to_ts=to_ts,
        )
        for row, to_ts in spans
    ]


def _in_zone(tables: dict[Any, Table], feed: HistoryState) -> dict[Any, Table]:
    """Tables with defaults in UTC, where the changefeed's zone is known."""
    return {name: in_utc(table, feed.zone) for name, table in tables.items()} if feed.zone else tables


def _check_known(
    queries: HistoryQueries, feed: HistoryState, before: HistoryPosition, db: str | None, table: str | None
) -> None:
    if table and not db:
        raise RegistryError("UNPROCESSABLE", details=f"which database is table {table} in? Give db too")
    if db is None:
        return
    row = queries.name(key_of((db, table)), before) if table else queries.any_name(db.lower(), before)
    if row is None and (table or queries.database(db.lower(), before) is None):
        details = "" if before == END else f": nothing of it was seen up to commit_ts {before.commit_ts}"
        raise RegistryError("TABLE_NOT_KNOWN", table=f"{db}.{table or '*'}", changefeed=feed.name, details=details)


def _contradicted(
    queries: HistoryQueries,
    number: int,
    feed: HistoryState,
    ends: tuple[HistoryPosition, HistoryPosition],
    of: tuple[str | None, str | None],
) -> dict[Key, Contradiction]:
    """What rows and messages between two positions say against the versions that stand at the second."""
    c, result = sql.drift.c, dict[Key, Contradiction]()
    query = _of_table(select(sql.drift), c, *of).where(c.changefeed == number, c.kind.in_(OF_VERSION))
    query = query.where(c.commit_ts > ends[0].commit_ts, c.commit_ts <= ends[1].commit_ts).order_by(c.seq)
    drifts = [drift_row(feed.name, row) for row in queries.connection.execute(query)]
    for key, some in by_name(drifts).items():
        row = queries.name(key, ends[1])
        against = None if row is None else contradiction(row, None, some)
        if against is not None:
            result[key] = against
    return result
