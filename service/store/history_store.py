"""Table histories in the registry's store. Keeps the promises of `service.history.model`."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from threading import RLock
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, update

from ticdc_bridge.schemas.codec.bounded_cache import LruCache
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.versions import in_utc
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history import lazy_catalog, model, table_codec
from ticdc_bridge.service.history.apply_event import EventApplication, apply_again, seal
from ticdc_bridge.service.history.diff import HistorySpan, Period
from ticdc_bridge.service.history.model import (
    DdlRecord,
    HistoryPosition,
    HistoryState,
    Key,
    NameRow,
    TableVersionRow,
    key_of,
)
from ticdc_bridge.service.registry.deadline import retry_until, seconds_left
from ticdc_bridge.service.store import tables as sql
from ticdc_bridge.service.store.history_queries import HistoryQueries, drift_row
from ticdc_bridge.service.store.history_writer import HistoryRowWriter, NameCache
from ticdc_bridge.service.store.sql_store import SqlStore
from ticdc_bridge.service.store.statements import PreparedStatement, chunks

_MOST_HEADS = 200_000
_MOST_COLUMNS = 250_000
_AT_ONCE = 200  # tables whose versions are read together
_BACKWARDS = "the end, commit_ts {}, is before the start, commit_ts {}: give the earlier time first"
_DESCRIBED = (model.State.KNOWN, model.State.PARTIAL, model.State.GONE)
_OF_FEED = tuple(field.name for field in fields(HistoryState))
_FEED = sql.changefeeds.c
_CHANGEFEEDS = PreparedStatement(select(_FEED.id, *(_FEED[name] for name in _OF_FEED)).order_by(_FEED.name))
_OF_ROW = tuple(field.name for field in fields(NameRow))


class HistoryStore:
    """Reads and writes histories. A call that writes is one transaction, and is done entirely or not at all."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._tables: table_codec.TableCache = LruCache(_MOST_COLUMNS, lambda _key, table: len(table.columns))
        self._heads: dict[str, NameCache] = {}
        self._lock = RLock()

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
        return lazy_catalog.catalog(rows, model.END if ts is None else HistoryPosition(ts, model.LAST_ORDINAL))

    def version_at(
        self, changefeed: str | None, db: str, table: str, ts: int | None = None, *, inclusive: bool = False
    ) -> TableVersionRow | None:
        key = key_of((db, table))
        before = model.END if ts is None else HistoryPosition(ts, model.LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key, before)
            if row is None:
                return None
            following = queries.next_name(key, row.position)
            return _versions(queries, feed, [(row, following.from_ts if following else None)])[0]

    def as_of(self, changefeed: str | None, db: str, table: str, ts: int, *, inclusive: bool = False) -> model.AsOf:
        """`version_at` with all that belongs to the answer."""
        key, before = key_of((db, table)), HistoryPosition(ts, model.LAST_ORDINAL if inclusive else 0)
        with self._open_reader(changefeed) as (queries, _, feed):
            row = queries.name(key, before)
            # The row at `before` itself is not before it.
            at = HistoryPosition(before.commit_ts, before.ordinal - 1) if row is None else row.position
            following = queries.next_name(key, at)
            to_ts = following.from_ts if following else None
            pending = queries.pending_up_to(key, ts)
            if row is None:
                return model.AsOf(feed, None, None, pending, to_ts)
            [version] = _versions(queries, feed, [(row, to_ts)])
            return model.AsOf(feed, version, queries.event(row.ddl), pending, to_ts)

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
        start, end = (HistoryPosition(ts, model.LAST_ORDINAL if period.inclusive else 0) for ts in period[:2])
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
    ) -> Iterator[list[tuple[TableVersionRow, model.Contradiction | None]]]:
        """All versions of each name, oldest first, with what contradicts them; names by database and table."""
        start, of = 0, [NameRow(TableId(db, table), model.FIRST, model.State.UNKNOWN)] if db and table else None
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
            _check_known(queries, feed, model.END, db, table)

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
        with self._open_reader(changefeed) as (queries, _, _feed):
            return {event.seq: event for event in queries.events(seqs)}

    def drift(
        self, changefeed: str, db: str | None = None, table: str | None = None, offset: int = 0, limit: int = 1000
    ) -> list[model.Drift]:
        """Contradictions of the history, oldest first."""
        c = sql.drift.c
        with self._open_reader(changefeed) as (queries, number, feed):
            query = _of_table(select(sql.drift), c, db, table).where(c.changefeed == number).order_by(c.seq)
            return [drift_row(feed.name, row) for row in queries.connection.execute(query.offset(offset).limit(limit))]

    def contradictions(
        self, changefeed: str | None, versions: Sequence[tuple[NameRow, int | None]]
    ) -> list[model.Contradiction | None]:
        """The contradiction of each version (with its to_ts) by rows and messages; None where there is none."""
        c, drifts = sql.drift.c, list[model.Drift]()
        with self._open_reader(changefeed) as (queries, number, feed):
            query = select(sql.drift).where(c.changefeed == number, c.kind.in_((*model.OF_VERSION, "gap")))
            for some in chunks({row.from_ts for row, _ in versions}):
                rows = queries.connection.execute(query.where(c.version_ts.in_(some)).order_by(c.seq))
                drifts += [drift_row(feed.name, row) for row in rows]
        names = model.by_name(drifts)
        return [model.contradiction(row, to_ts, names.get(key_of(row.id), ())) for row, to_ts in versions]

    def count_fitting(self, changefeed: str | None, db: str, table: str) -> dict[int, int]:
        """Version's commit_ts → how many rows were seen that fit it."""
        c, key = sql.seen.c, key_of((db, table))
        with self._open_reader(changefeed) as (queries, number, _feed):
            here = and_(c.changefeed == number, c.db_key == key[0], c.table_key == key[1])
            return {row.version_ts: row.rows for row in queries.connection.execute(select(sql.seen).where(here))}

    def partitions(self) -> dict[str, dict[model.PartitionKey, tuple[int | None, int | None]]]:
        """Changefeed → where to read on, and the watermark, of each partition that was ever read."""
        positions = dict[str, dict[model.PartitionKey, tuple[int | None, int | None]]]()
        same = _FEED.id == sql.partitions.c.changefeed
        query = select(sql.partitions, _FEED.name).join_from(sql.partitions, sql.changefeeds, same)
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

    # ---- writing
    @contextmanager
    def _open_writer(
        self, changefeed: str, zone: str | None = None
    ) -> Iterator[tuple[HistoryRowWriter, Connection, Any]]:
        """A changefeed's book, and its row; made if it is not there. What is remembered of it is worth keeping only if
        the transaction is committed."""
        with self._lock:
            heads = self._heads.setdefault(changefeed, NameCache())
            try:
                with self._store.write() as tx:
                    connection = tx.connection
                    feed = _feed(connection, changefeed, zone)
                    if heads.revision != feed.revision or len(heads.names) + len(heads.forms) > _MOST_HEADS:
                        heads.clear()
                    heads.seq = connection.execute(select(func.max(sql.events.c.seq))).scalar() or 0
                    book = HistoryRowWriter(connection, feed.id, changefeed, self._tables, heads)
                    heads.complete = heads.complete or book.newest() == model.FIRST
                    yield book, connection, feed
                    book.flush()
                    c = sql.changefeeds.c
                    raised = update(sql.changefeeds).where(c.id == feed.id).values(revision=feed.revision + 1)
                    connection.execute(raised)
                heads.revision = feed.revision + 1
            except BaseException:
                heads.clear()
                heads.revision = -1
                raise

    def track(
        self, changefeed: str, batch: model.Batch, zone: str | None = None, *, strict: bool = False
    ) -> model.BatchOutcome:
        """Keep what was read, seal what is resolved. A changefeed that is new begins. zone: see `HistoryState`.

        strict: nothing is kept if an event can't be read or applied; then its DdlError is raised. SetupError
        TRACKED_TWICE where somebody else has read on in the meantime. Held through an outage of the store, as long as
        the request that it is part of.
        """
        return retry_until(lambda: self._track(changefeed, batch, zone, strict), seconds_left(self._store.wait_seconds))

    def _track(self, changefeed: str, batch: model.Batch, zone: str | None, strict: bool) -> model.BatchOutcome:
        with self._open_writer(changefeed, zone) as (book, connection, feed):
            result = model.BatchOutcome(sealed_ts=feed.sealed_ts, drift=len(batch.drift))
            positions = _Partitions(connection, feed.id)
            positions.check(changefeed, batch)
            waiting = list(book.pending_events())  # before the new ones are among them
            arrived = _arrivals(book, batch.records, result)
            positions.put(batch)
            result.sealed_ts = max(feed.sealed_ts, positions.resolved_ts())
            if result.sealed_ts > feed.sealed_ts:
                c, e = sql.changefeeds.c, sql.events.c
                connection.execute(update(sql.changefeeds).where(c.id == feed.id).values(sealed_ts=result.sealed_ts))
                # A source that sends watermarks after all has resolved what was sealed before the first of them came.
                done = and_(e.changefeed == feed.id, e.unsealed, e.commit_ts <= result.sealed_ts, e.topic.is_not(None))
                connection.execute(update(sql.events).where(done).values(unsealed=False))
            _seal(book, [*waiting, *arrived], result)
            if strict and result.failed:
                raise DdlError("DDL_NOT_APPLICABLE", details=result.failed[0].error or "")
            for entry in batch.drift:
                book.drift(entry)
            book.flush()
            book.add_seen(batch.seen)
            return result

    def rebuild(self, changefeed: str, *, everything: bool = False) -> model.RebuildOutcome:
        """Apply again events that failed and what depends on them, or all; held through an outage as a request is."""
        return retry_until(lambda: self._rebuild(changefeed, everything), self._store.wait_seconds)

    def _rebuild(self, changefeed: str, everything: bool) -> model.RebuildOutcome:
        with self._open_writer(changefeed) as (book, connection, feed):
            c = sql.events.c
            query = select(sql.events).where(c.changefeed == feed.id).order_by(c.commit_ts, c.ordinal)
            if everything:
                for table in (sql.names, sql.databases, sql.involved):
                    connection.execute(delete(table).where(table.c.changefeed == feed.id))
                self._heads[changefeed].clear()
                records = book.records(query.where(c.state != "pending"))
            else:
                records = book.records(query.where(c.state == "failed"))
            count = healed = failed = 0
            for record in records:
                outcome = EventApplication(book, record).run()
                book.write(record, outcome, again=not everything)
                count += 1
                healed += record.state == "failed" and outcome.error is None
                failed += outcome.error is not None
                if not everything:
                    count += apply_again(book, record, {*outcome.names, *((db, "") for db in outcome.databases)})
            return model.RebuildOutcome(count, healed, failed)


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
        raise RegistryError("UNPROCESSABLE", details=f"which database is table {table} in? Give the database too")
    if db is None:
        return
    row = queries.name(key_of((db, table)), before) if table else queries.any_name(db.lower(), before)
    if row is None and (table or queries.database(db.lower(), before) is None):
        details = "" if before == model.END else f": nothing of it was seen up to commit_ts {before.commit_ts}"
        raise RegistryError("TABLE_NOT_KNOWN", table=f"{db}.{table or '*'}", changefeed=feed.name, details=details)


def _contradicted(
    queries: HistoryQueries,
    number: int,
    feed: HistoryState,
    ends: tuple[HistoryPosition, HistoryPosition],
    of: tuple[str | None, str | None],
) -> dict[Key, model.Contradiction]:
    """Contradictions by rows and messages between two positions, of the versions that stand at the second."""
    c, result = sql.drift.c, dict[Key, model.Contradiction]()
    query = _of_table(select(sql.drift), c, *of).where(c.changefeed == number, c.kind.in_(model.OF_VERSION))
    query = query.where(c.commit_ts > ends[0].commit_ts, c.commit_ts <= ends[1].commit_ts).order_by(c.seq)
    for key, some in model.by_name([drift_row(feed.name, row) for row in queries.connection.execute(query)]).items():
        row = queries.name(key, ends[1])
        against = None if row is None else model.contradiction(row, None, some)
        if against is not None:
            result[key] = against
    return result


# ---- writing
def _feed(connection: Connection, name: str, zone: str | None) -> Any:
    c = sql.changefeeds.c
    query = select(sql.changefeeds).where(c.name == name)
    row = connection.execute(query).first()
    if row is None:
        connection.execute(insert(sql.changefeeds).values(name=name, sealed_ts=0, revision=0, zone=zone or ""))
    elif zone is not None and row.zone != zone:
        connection.execute(update(sql.changefeeds).where(c.id == row.id).values(zone=zone))
    else:
        return row
    return connection.execute(query).one()


def _arrivals(book: HistoryRowWriter, records: list[DdlRecord], result: model.BatchOutcome) -> list[DdlRecord]:
    """The events that are new, numbered; the copies of known ones are counted."""
    seqs = book.find_known(record.key for record in records)
    new: dict[bytes, DdlRecord] = {}
    copies: Counter[int] = Counter()
    for record in records:
        if record.key in seqs:
            copies[seqs[record.key]] += record.copies
        elif record.key in new:
            before = new[record.key]
            new[record.key] = replace(before, copies=before.copies + record.copies)
        else:
            new[record.key] = record
    result.new, result.copies = len(new), len(records) - len(new)
    book.add_copies(dict(copies))
    ordinals = book.ordinals(record.commit_ts for record in new.values())
    arrived = []
    for record in new.values():
        ordinals[record.commit_ts] = ordinals.get(record.commit_ts, -1) + 1
        arrived.append(book.add_event(replace(record, ordinal=ordinals[record.commit_ts], state="pending")))
    return arrived


def _seal(book: HistoryRowWriter, records: list[DdlRecord], result: model.BatchOutcome) -> None:
    """Seal in order what is resolved, what nobody will ever resolve, and what a person said."""
    waiting = []
    for record in sorted(records, key=lambda r: r.position):
        sealed = record.unsealed_source or not record.format
        if not sealed and record.commit_ts > result.sealed_ts:
            waiting.append(record)
            continue
        result.late += record.position < book.newest()
        outcome = seal(book, record)
        result.sealed += 1
        result.drift += len(outcome.drift)
        if outcome.error is not None:
            result.failed.append(replace(record, error=outcome.error, state="failed"))
    book.set_pending(waiting)
    result.pending = len(waiting)


class _Partitions:
    """How far each partition was read, and its watermark."""

    def __init__(self, connection: Connection, changefeed: int) -> None:
        self._sql, self._changefeed = connection, changefeed
        rows = connection.execute(select(sql.partitions).where(sql.partitions.c.changefeed == changefeed))
        self._known: dict[model.PartitionKey, tuple[int | None, int | None]] = {
            (row.topic, row.part): (row.next_offset, row.watermark) for row in rows
        }

    def check(self, changefeed: str, batch: model.Batch) -> None:
        for at, expected in batch.expected.items():
            existing = self._known.get(at, (None, None))[0]
            if existing is not None and existing != expected:
                topic, partition = at
                details = f"partition {partition} of {topic} was read to offset {existing}, not {expected}"
                raise SetupError("TRACKED_TWICE", changefeed=changefeed, details=details)

    def put(self, batch: model.Batch) -> None:
        for partition in {*batch.offsets, *batch.watermarks, *batch.partitions}:
            offset, watermark = self._known.get(partition, (None, None))
            # A changefeed that starts again repeats itself: what was resolved once stays resolved.
            highest = max((w for w in (watermark, batch.watermarks.get(partition)) if w is not None), default=None)
            now = (batch.offsets.get(partition, offset), highest)
            if partition not in self._known:
                row = {"topic": partition[0], "part": partition[1], "next_offset": now[0], "watermark": now[1]}
                self._sql.execute(insert(sql.partitions), row | {"changefeed": self._changefeed})
            elif now != (offset, watermark):
                c = sql.partitions.c
                here = and_(c.changefeed == self._changefeed, c.topic == partition[0], c.part == partition[1])
                self._sql.execute(update(sql.partitions).where(here).values(next_offset=now[0], watermark=now[1]))
            self._known[partition] = now

    def resolved_ts(self) -> int:
        """The lowest watermark, 0 while a partition has none."""
        return min((watermark or 0 for _, watermark in self._known.values()), default=0)
