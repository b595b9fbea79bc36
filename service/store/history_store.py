"""Writing table histories: what was read, and how far it was read, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.service.history import table_codec
from ticdc_bridge.service.history.apply_event import EventApplication, apply_again, seal
from ticdc_bridge.service.history.model import FIRST, Batch, BatchOutcome, DdlRecord, PartitionKey, RebuildOutcome
from ticdc_bridge.service.registry.deadline import retry_until, seconds_left
from ticdc_bridge.service.store import tables as sql
from ticdc_bridge.service.store.history_writer import HistoryRowWriter, NameCache
from ticdc_bridge.service.store.sql_store import SqlStore

_MOST_HEADS = 200_000


class HistoryWriteStore:
    """Changes to histories; each call is one transaction, and is done entirely or not at all."""

    def __init__(self, store: SqlStore, tables: table_codec.TableCache) -> None:
        self._store = store
        self._tables = tables
        self._heads: dict[str, NameCache] = {}
        self._lock = RLock()

    @contextmanager
    def _open_writer(
        self, changefeed: str, zone: str | None = None
    ) -> Iterator[tuple[HistoryRowWriter, Connection, Any]]:
        """A changefeed's book, and its row; made if it is not there. What is remembered of it is worth keeping only if
        the transaction is committed."""
        with self._lock:
            heads = self._heads.setdefault(changefeed, NameCache())
            done = False
            try:
                with self._store.write() as tx:
                    connection = tx.connection
                    feed = _feed(connection, changefeed, zone)
                    if heads.revision != feed.revision or len(heads.names) + len(heads.forms) > _MOST_HEADS:
                        heads.clear()
                    heads.seq = connection.execute(select(func.max(sql.events.c.seq))).scalar() or 0
                    book = HistoryRowWriter(connection, feed.id, changefeed, self._tables, heads)
                    heads.complete = heads.complete or book.newest() == FIRST
                    yield book, connection, feed
                    book.flush()
                    c = sql.changefeeds.c
                    raised = update(sql.changefeeds).where(c.id == feed.id).values(revision=feed.revision + 1)
                    connection.execute(raised)
                heads.revision = feed.revision + 1
                done = True
            finally:
                if not done:
                    heads.clear()
                    heads.revision = -1

    def track(self, changefeed: str, batch: Batch, zone: str | None = None, *, strict: bool = False) -> BatchOutcome:
        """Keep what was read, seal what is resolved. A changefeed that is new begins. zone: see `HistoryState`.

        strict: nothing is kept if an event can't be read or applied; then its DdlError is raised. SetupError
        TRACKED_TWICE where somebody else has read on in the meantime. Held through an outage of the store, as long as
        the request that it is part of.
        """
        return retry_until(lambda: self._track(changefeed, batch, zone, strict), seconds_left(self._store.wait_seconds))

    def _track(self, changefeed: str, batch: Batch, zone: str | None, strict: bool) -> BatchOutcome:
        with self._open_writer(changefeed, zone) as (book, connection, feed):
            result = BatchOutcome(sealed_ts=feed.sealed_ts, drift=len(batch.drift))
            positions = _Partitions(connection, feed.id)
            positions.check(changefeed, batch)
            waiting = list(book.pending_events())  # before the new ones are among them
            arrived = _arrivals(book, batch.records, result)
            positions.put(batch)
            result.sealed_ts = max(feed.sealed_ts, positions.resolved_ts())
            if result.sealed_ts > feed.sealed_ts:
                _resolve(connection, feed.id, result.sealed_ts)
            _seal(book, [*waiting, *arrived], result)
            if strict and result.failed:
                raise DdlError("DDL_NOT_APPLICABLE", details=result.failed[0].error or "")
            for entry in batch.drift:
                book.drift(entry)
            book.flush()
            book.add_seen(batch.seen)
            return result

    def rebuild(self, changefeed: str, *, everything: bool = False) -> RebuildOutcome:
        """Apply again the events that failed, and what depends on them; or make all versions anew.

        Held through an outage of the store, as a request is.
        """
        return retry_until(lambda: self._rebuild(changefeed, everything), self._store.wait_seconds)

    def _rebuild(self, changefeed: str, everything: bool) -> RebuildOutcome:
        with self._open_writer(changefeed) as (book, connection, feed):
            c = sql.events.c
            query = select(sql.events).where(c.changefeed == feed.id).order_by(c.commit_ts, c.ordinal)
            if everything:
                for table in (sql.names, sql.databases, sql.involved):
                    connection.execute(delete(table).where(table.c.changefeed == feed.id))
                self._heads[changefeed].clear()
                records = book.queries.records(query.where(c.state != "pending"))
            else:
                records = book.queries.records(query.where(c.state == "failed"))
            count = healed = failed = 0
            for record in records:
                outcome = EventApplication(book, record).run()
                book.write(record, outcome, again=not everything)
                count += 1
                healed += record.state == "failed" and outcome.error is None
                failed += outcome.error is not None
                if not everything:
                    dirty = {*outcome.names, *((db, "") for db in outcome.databases)}
                    count += apply_again(book, record, dirty)
            return RebuildOutcome(count, healed, failed)


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


def _arrivals(book: HistoryRowWriter, records: list[DdlRecord], result: BatchOutcome) -> list[DdlRecord]:
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


def _seal(book: HistoryRowWriter, records: list[DdlRecord], result: BatchOutcome) -> None:
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


def _resolve(connection: Connection, changefeed: int, sealed_ts: int) -> None:
    c, e = sql.changefeeds.c, sql.events.c
    connection.execute(update(sql.changefeeds).where(c.id == changefeed).values(sealed_ts=sealed_ts))
    # A source that sends watermarks after all has resolved what was sealed before the first of them came.
    done = and_(e.changefeed == changefeed, e.unsealed, e.commit_ts <= sealed_ts, e.topic.is_not(None))
    connection.execute(update(sql.events).where(done).values(unsealed=False))


class _Partitions:
    """How far each partition was read, and its watermark."""

    def __init__(self, connection: Connection, changefeed: int) -> None:
        self._sql, self._changefeed = connection, changefeed
        c = sql.partitions.c
        rows = connection.execute(select(sql.partitions).where(c.changefeed == changefeed))
        self._known: dict[PartitionKey, tuple[int | None, int | None]] = {
            (row.topic, row.part): (row.next_offset, row.watermark) for row in rows
        }

    def check(self, changefeed: str, batch: Batch) -> None:
        for place, expected in batch.expected.items():
            existing = self._known.get(place, (None, None))[0]
            if existing is not None and existing != expected:
                topic, partition = place
                details = f"partition {partition} of {topic} was read to offset {existing}, not {expected}"
                raise SetupError("TRACKED_TWICE", changefeed=changefeed, details=details)

    def put(self, batch: Batch) -> None:
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
