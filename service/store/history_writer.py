"""One changefeed's history while it is written, in one transaction.

What is new is collected and written at the end, or before something that only the database knows is read.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, select, update

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.history import model, table_codec
from ticdc_bridge.service.history.model import DatabaseRow, DdlRecord, HistoryPosition, Key, NameRow
from ticdc_bridge.service.store import tables as sql
from ticdc_bridge.service.store.history_queries import HistoryQueries, database_values, name_values, record_values
from ticdc_bridge.service.store.statements import chunks

K = TypeVar("K", Key, str)
R = TypeVar("R", NameRow, DatabaseRow)


@dataclass(slots=True)
class NameCache:
    """A process's cache of a history between its transactions; worth nothing once `revision` has gone on."""

    revision: int = -1
    names: dict[Key, NameRow | None] = field(default_factory=dict)
    databases: dict[str, DatabaseRow | None] = field(default_factory=dict)
    named: dict[str, NameRow] = field(default_factory=dict)
    newest: HistoryPosition | None = None
    pending: list[DdlRecord] | None = None
    forms: set[bytes] = field(default_factory=set)
    seq: int = 0
    complete: bool = False
    """Every name and database there is is kept: the history was empty when they began to be."""

    def clear(self) -> None:
        self.names.clear()
        self.databases.clear()
        self.named.clear()
        self.forms.clear()
        self.newest = self.pending = None
        self.complete = False


class HistoryRowWriter(HistoryQueries):
    """Keeps the promises of `service.history.model.HistoryTransaction`. `flush` writes what is left."""

    def __init__(
        self, connection: Connection, changefeed: int, name: str, tables: table_codec.TableCache, heads: NameCache
    ) -> None:
        super().__init__(connection, changefeed, name, tables)
        self._heads = heads
        self._written = HistoryQueries(connection, changefeed, name, tables)
        """Reads what is written already, and writes nothing before."""
        self._arrived: dict[int, DdlRecord] = {}
        self._settled: dict[int, DdlRecord] = {}
        self._rows: dict[Any, list[dict[str, Any]]] = {}
        self._unwritten: set[Key | str] = set()
        self._drift: dict[bytes, tuple[model.Drift, bool]] = {}
        self._forms: dict[bytes, bytes] = {}

    @property
    def connection(self) -> Connection:
        """What is asked on it sees all that is new."""
        self.flush()
        return self._sql

    # ---- Rows
    def name(self, key: Key, before: HistoryPosition) -> NameRow | None:
        return self._row(self._heads.names, key, before, self._written.name)

    def database(self, db: str, before: HistoryPosition) -> DatabaseRow | None:
        return self._row(self._heads.databases, db, before, self._written.database)

    def _row(
        self, heads: dict[K, R | None], key: K, before: HistoryPosition, read: Callable[[K, HistoryPosition], R | None]
    ) -> R | None:
        if key not in heads:
            if self._heads.complete:
                return None
            if key in self._unwritten:
                self.flush()
            heads[key] = read(key, model.END)
        head = heads[key]
        if head is None or head.position < before:
            return head
        self.flush()
        return read(key, before)

    def any_name(self, db: str, before: HistoryPosition) -> NameRow | None:
        head = self._heads.named.get(db)
        if head is not None and head.position < before:
            return head
        row = super().any_name(db, before)
        if row is not None:
            self._heads.named[db] = row
        return row

    def keep(self, table: Table) -> bytes:
        body = table_codec.encode(table)
        form = table_codec.digest(body)
        if form not in self._heads.forms:
            self._forms[form] = body
            self._heads.forms.add(form)
        self._tables.put((form, table.id), table)
        return form

    # ---- Book
    def newest(self) -> HistoryPosition:
        if self._heads.newest is None:
            self._heads.newest = super().newest()
        return self._heads.newest

    def write(self, record: DdlRecord, outcome: model.EventOutcome, *, again: bool) -> None:
        if again:
            self._remove(record.position)
        else:
            self._heads.newest = max(self.newest(), record.position)
        for key, row in outcome.names.items():
            self._put(sql.names, name_values(self._changefeed, row))
            self._remember(self._heads.names, key, row)
            self._heads.named.setdefault(key[0], row)
        for db, database in outcome.databases.items():
            self._put(sql.databases, database_values(self._changefeed, database))
            self._remember(self._heads.databases, db, database)
        for db, table in sorted(outcome.involved):
            position = {"commit_ts": record.commit_ts, "ordinal": record.ordinal}
            self._put(sql.involved, {"changefeed": self._changefeed, "db_key": db, "table_key": table, **position})
        state: Any = "sealed" if outcome.error is None else "failed"
        done = replace(record, state=state, error=outcome.error)
        if record.seq in self._arrived:
            self._arrived[record.seq] = done
        else:
            self._settled[record.seq] = done
        for entry in outcome.drift:
            self.drift(entry, counted=False)

    def _remember(self, heads: dict[Any, Any], key: Any, row: NameRow | DatabaseRow) -> None:
        self._unwritten.add(key)
        if (key in heads or self._heads.complete) and (heads.get(key) is None or heads[key].position <= row.position):
            heads[key] = row

    def _remove(self, position: HistoryPosition) -> None:
        """The rows that an event made, to make way for others."""
        self._heads.complete = False
        names, databases = self.rows_at(position)
        for key in names:
            self._heads.names.pop(key, None)
        for db in databases:
            self._heads.databases.pop(db, None)
        self._heads.named.clear()
        for table in (sql.names, sql.databases, sql.involved):
            here = and_(table.c.commit_ts == position.commit_ts, table.c.ordinal == position.ordinal)
            self._sql.execute(delete(table).where(table.c.changefeed == self._changefeed, here))

    # ---- events
    def pending_events(self) -> list[DdlRecord]:
        if self._heads.pending is None:
            self._heads.pending = super().pending_events()
        return self._heads.pending

    def set_pending(self, records: list[DdlRecord]) -> None:
        self._heads.pending = records

    def add_event(self, record: DdlRecord) -> DdlRecord:
        """A new event: it gets its number. Written with the state that it has in the end."""
        self._heads.seq += 1
        numbered = replace(record, seq=self._heads.seq)
        self._arrived[numbered.seq] = numbered
        return numbered

    def find_known(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Which events are there already, by their seq."""
        c, seqs = sql.events.c, dict[bytes, int]()
        query = select(c.key, c.seq).where(c.changefeed == self._changefeed)
        for some in chunks(keys):
            seqs.update({bytes(row.key): row.seq for row in self.connection.execute(query.where(c.key.in_(some)))})
        return seqs

    def ordinals(self, times: Iterable[int]) -> dict[int, int]:
        """commit_ts → the highest ordinal there, where there is one."""
        c, highest = sql.events.c, dict[int, int]()
        query = select(c.commit_ts, func.max(c.ordinal)).where(c.changefeed == self._changefeed).group_by(c.commit_ts)
        for some in chunks(times):
            highest |= dict(self.connection.execute(query.where(c.commit_ts.in_(some))).all())
        return highest

    def add_copies(self, counts: dict[int, int]) -> None:
        """Counts repeated deliveries of stored events."""
        if counts:
            c = sql.events.c
            add = update(sql.events).where(c.seq == bindparam("of")).values(copies=c.copies + bindparam("more"))
            self.connection.execute(add, [{"of": seq, "more": more} for seq, more in counts.items()])

    # ---- drift
    def drift(self, drift: model.Drift, *, counted: bool = True) -> None:
        """counted: seen once more; else it is the same thing, found again."""
        pieces = (drift.kind, drift.db, drift.table, drift.version_ts, drift.detail)
        key = hashlib.sha1(repr(pieces).encode("utf-8", "replace"), usedforsecurity=False).digest()
        if key in self._drift:
            before = self._drift[key][0]
            first = min(before.commit_ts, drift.commit_ts)
            drift = replace(before, count=before.count + (drift.count if counted else 0), commit_ts=first)
        self._drift[key] = (drift, counted)

    def add_seen(self, rows: dict[tuple[Key, int], int]) -> None:
        """Rows that fit their versions: (name, version's commit_ts) → how many."""
        c = sql.seen.c
        for (key, version_ts), count in rows.items():
            position = {
                "changefeed": self._changefeed, "db_key": key[0], "table_key": key[1], "version_ts": version_ts,
            }  # fmt: skip
            here = and_(*(c[name] == value for name, value in position.items()))
            if not self._sql.execute(update(sql.seen).where(here).values(rows=c.rows + count)).rowcount:
                self._sql.execute(insert(sql.seen), position | {"rows": count})

    # ---- writing
    def _put(self, table: Any, values: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(values)

    def flush(self) -> None:
        arrived, self._arrived = self._arrived, {}
        settled_records, self._settled = self._settled, {}
        rows, self._rows = self._rows, {}
        self._unwritten.clear()
        for record in arrived.values():
            carried = None if record.carried is None else self.keep(record.carried)
            rows.setdefault(sql.events, []).append(record_values(self._changefeed, record, carried))
        new, self._forms = self._forms, {}
        for some in chunks(new):
            for (form,) in self._sql.execute(select(sql.forms.c.form).where(sql.forms.c.form.in_(some))):
                del new[bytes(form)]
        if new:
            self._sql.execute(insert(sql.forms), [{"form": form, "body": body} for form, body in new.items()])
        for table, values in rows.items():
            self._sql.execute(insert(table), values)
        if settled_records:
            set_ = update(sql.events).where(sql.events.c.seq == bindparam("of"))
            what = set_.values(state=bindparam("now"), error=bindparam("why"))
            self._sql.execute(what, [{"of": s, "now": r.state, "why": r.error} for s, r in settled_records.items()])
        drift, self._drift = self._drift, {}
        d, now = sql.drift.c, time.time_ns() // 1_000_000
        for key, (entry, counted) in drift.items():
            here = and_(d.changefeed == self._changefeed, d.key == key)
            if self._sql.execute(select(d.seq).where(here)).first() is None:
                found = {
                    "changefeed": self._changefeed, "key": key, "kind": entry.kind, "db": model.clean(entry.db),
                    "tbl": model.clean(entry.table), "commit_ts": entry.commit_ts, "version_ts": entry.version_ts,
                    "detail": model.clean(entry.detail), "count": entry.count, "seen_ms": now,
                }  # fmt: skip
                self._sql.execute(insert(sql.drift), found)
            elif counted:
                first = case((d.commit_ts > entry.commit_ts, entry.commit_ts), else_=d.commit_ts)
                more = {"count": d["count"] + entry.count, "seen_ms": now, "commit_ts": first}
                self._sql.execute(update(sql.drift).where(here).values(more))
