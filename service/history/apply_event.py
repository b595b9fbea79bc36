"""One event of a history: from the rows before it to the rows it makes. Nothing is written here.

`seal` takes events in any order: later ones that depend on a name which an event changed are applied anew.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar
from uuid import NAMESPACE_OID, uuid5

from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, Database, Names, Relation
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history import model
from ticdc_bridge.service.history.changes import difference
from ticdc_bridge.service.history.lazy_catalog import LazyNames, catalog
from ticdc_bridge.service.history.model import Key, NameRow, State, key_of
from ticdc_bridge.service.history.statements import involved_names, statement_of

V = TypeVar("V", Table, Relation)
_NOT_SEEN: Final = "its CREATE TABLE was not seen"
_ChangedName = tuple[Key, Table | None, Relation | None, Table | None]
"""A name, its table, its relation, and what was dropped under it."""


class EventApplication:
    """An event about to be applied to the rows before it."""

    def __init__(self, rows: model.HistoryRows, record: model.DdlRecord) -> None:
        self.rows, self.record = rows, record
        self.position = record.position
        self.out = model.EventOutcome()

    def row_before(self, key: Key) -> NameRow | None:
        return self.rows.name(key, self.position)

    def put(self, id_: TableId, state: State, since: int | None = None, **more: object) -> None:
        """since: None: from this event on."""
        since = self.position.commit_ts if since is None else since
        row = NameRow(id_, self.position, state, ddl=self.record.seq, since=since, **more)  # type: ignore[arg-type]
        self.out.names[key_of(id_)] = row

    def new_id(self, key: Key) -> str:
        """The same for the same event, so that a history made anew has the same ids."""
        where = f"{self.record.changefeed}/{self.position.commit_ts}/{self.position.ordinal}/{key[0]}/{key[1]}"
        return str(uuid5(NAMESPACE_OID, where))

    def run(self) -> model.EventOutcome:
        """Never raises DdlError: what can't be read or applied becomes rows that say so."""
        if self.record.mode == "form":
            self.snapshot(self.record.carried)
            return self.out
        try:
            statement = statement_of(self.record)
        except DdlError as error:
            # The table that the message names is unknown from here on, unless the message carries it.
            self.out.error, self.out.involved = error.detail, involved_names(self.record, None)
            if self.record.table:
                id_ = TableId(self.record.db, self.record.table)
                self._put_unknown(id_, State.ERROR, f"a DDL statement can't be read: {error.detail}")
            return self.out
        self.out.involved = involved_names(self.record, statement)
        try:
            if self.record.kind == "snapshot":
                assert isinstance(statement, ddl.CreateTable)
                id_ = statement.table.in_db(self.record.db)
                if not id_.db:
                    raise DdlError("DDL_NOT_APPLICABLE", details=f"which database is {id_.table} in? None is named")
                before = catalog(self.rows, self.position).without_table(id_)
                self.snapshot(apply(before, statement, self.record.db).table(id_))
            else:
                self._apply(statement)
        except DdlError as error:
            self.out.databases.clear()
            self.out.names.clear()
            self._put_unapplied(statement, error)
        return self.out

    def drift(self, kind: model.DriftKind, id_: TableId, detail: str, version_ts: int | None) -> None:
        of = (self.record.changefeed, kind, id_.db, id_.table, self.position.commit_ts, detail, version_ts)
        self.out.drift.append(model.Drift(*of))

    # ---- snapshots
    def snapshot(self, table: Table | None) -> None:
        """A table as it was shown at this position. It replaces what was known of it."""
        if table is None:
            raise DdlError("DDL_NOT_APPLICABLE", details="a snapshot without a table")
        key = key_of(table.id)
        self.out.involved.add(key)
        old = self.row_before(key)
        if old is not None and old.state is State.KNOWN and old.form:
            differs = difference(self.rows.table(old.form, old.id), table)
            if self.record.format:
                # What a message describes does not take the place of what its DDL said. It names the schema by the
                # time at which TiDB began to change it, so it may be that of the DDL which follows.
                if differs and not self._is_next(key, table):
                    details = f"a message's table differs from the history: {differs}"
                    self.drift("snapshot", table.id, details, old.since)
                return
            if differs:
                self.drift("snapshot", table.id, f"a snapshot differs from the history: {differs}", old.since)
        partial = self.record.partial
        self.put(
            table.id,
            State.PARTIAL if partial else State.KNOWN,
            table_id=old.table_id if old and old.is_live and old.table_id else self.new_id(key),
            form=self.rows.keep(table),
            reason=partial,
            dropped=old.dropped if old else None,
        )

    def _is_next(self, key: Key, table: Table) -> bool:
        row = self.rows.next_name(key, self.position)
        return row is not None and row.form is not None and not difference(self.rows.table(row.form, row.id), table)

    # ---- statements
    def _apply(self, statement: ddl.Statement) -> None:
        before = catalog(self.rows, self.position)
        if isinstance(statement, ddl.CreateTable):
            before = self._forget_existing(before, statement)
        elif (
            isinstance(statement, ddl.CreateDatabase)
            and self.rows.database(statement.name.lower(), self.position) is None
        ):
            # It may be known by tables that were shown; what it is itself is known only now.
            before = replace(before, databases=before.databases.without(statement.name))
        after = apply(before, statement, self.record.db)
        moved = self._find_moved(statement)
        for changed in self._changed_names(after):
            self._row(changed, moved, created=isinstance(statement, ddl.CreateTable))
        self._drop_unknown(statement)
        if isinstance(statement, ddl.FlashbackDatabase):
            self._keep_dropped(statement)
        carried = self.record.carried
        row = self.out.names.get(key_of(carried.id)) if carried is not None else None
        if carried is None or row is None or row.form is None or not row.is_live:
            return
        if differs := difference(self.rows.table(row.form, row.id), carried):
            detail = f"the message's own table differs from what its statement gives: {differs}"
            self.drift("payload", carried.id, detail, self.position.commit_ts)

    def _forget_existing(self, before: Catalog, statement: ddl.CreateTable) -> Catalog:
        """TiDB accepted the CREATE, so what was there has gone unseen; the CREATE says all about what is there now."""
        id_ = statement.table.in_db(self.record.db)
        table = before.table(id_)
        if table is None or statement.if_not_exists or statement.temporary == "local":
            return before
        row = self.row_before(key_of(id_))
        detail = "CREATE TABLE of a table that was there: its DROP was not seen"
        self.drift("gap", table.id, detail, row.since if row else None)
        return before.without_table(id_)

    def _changed_names(self, after: Catalog) -> Iterator[_ChangedName]:
        """Each name that the statement changed."""
        databases = after.databases
        assert isinstance(databases, LazyNames)
        for db, database in databases.changes.items():
            self._database(db, database)
            if database is None:
                continue
            dropped = _changes(database.dropped)
            for name in dict.fromkeys((*_changes(database.tables), *_changes(database.relations), *dropped)):
                yield (db, name), database.tables.get(name), database.relations.get(name), dropped.get(name)

    def _database(self, db: str, database: Database | None) -> None:
        old = self.rows.database(db, self.position)
        if database is None:
            name = next((row.id.db for row in self.rows.names(db, self.position)), db)
            charset, collate = (old.charset, old.collate) if old else ("", "")
            of = (old.name if old else name, self.position, False, charset, collate, self.record.seq)
            self.out.databases[db] = model.DatabaseRow(*of)
            for row in self.rows.names(db, self.position):
                if row.is_live:
                    self._put_gone(row)
            return
        old_charset = (old.charset, old.collate) if old and old.live else ("", "")
        if old_charset != tuple(database.charset) or (old is not None and not old.live):
            self.out.databases[db] = model.DatabaseRow(
                database.name, self.position, True, *database.charset, ddl=self.record.seq
            )

    def _put_gone(self, row: NameRow, dropped: tuple[str, bytes] | None = None) -> None:
        dropped = dropped or row.dropped
        self.put(row.id, State.GONE, table_id=row.table_id, form=row.form, relation=row.relation, dropped=dropped)

    def _row(self, changed: _ChangedName, moved: dict[Key, NameRow], *, created: bool) -> None:
        key, table, relation, dropped = changed
        old = self.row_before(key)
        dropped_form = old.dropped if old else None
        if dropped is not None and old is not None:
            # TRUNCATE: the logical table goes on, so what FLASHBACK brings back of its rows is another one.
            dropped_form = ("" if table else old.table_id, self.rows.keep(dropped))
        elif key in moved and moved[key].dropped is not None and dropped_form == moved[key].dropped:
            dropped_form = None  # it is back
        if table is None and relation is None:
            if old is not None and old.is_live:
                self._put_gone(old, dropped_form)
            return
        if relation is not None:
            self.put(relation.id, State.RELATION, relation=relation.kind, dropped=dropped_form)
            return
        assert table is not None
        source = moved.get(key) or (old if old and old.is_live and not created else None)
        partial = source if source is not None and source.state is State.PARTIAL else None
        self.put(
            table.id,
            State.PARTIAL if partial else State.KNOWN,
            table_id=source.table_id if source and source.table_id else self.new_id(key),
            form=self.rows.keep(table),
            since=partial.since if partial else None,
            reason=partial.reason if partial else "",
            dropped=dropped_form,
        )

    def _find_moved(self, statement: ddl.Statement) -> dict[Key, NameRow]:
        """New name → the row of the logical table that has it after the statement, where names change."""
        db, moved_rows = self.record.db, dict[Key, NameRow | None]()

        def now(name: ddl.TableName) -> NameRow | None:
            key = key_of(name.in_db(db))
            return moved_rows[key] if key in moved_rows else self.row_before(key)

        match statement:
            case ddl.RenameTables():
                for old, new in statement.pairs:
                    row = now(old)
                    moved_rows[key_of(old.in_db(db))], moved_rows[key_of(new.in_db(db))] = None, row
            case ddl.AlterTable():
                for clause in statement.clauses:
                    if isinstance(clause, ddl.RenameTo):
                        moved_rows[key_of(clause.new.in_db(db))] = now(statement.table)
            case ddl.CreateTable() if statement.like:
                like = now(statement.like)
                key = key_of(statement.table.in_db(db))
                if like is not None and like.state is State.PARTIAL:  # a copy knows no more than what it is copied from
                    moved_rows[key] = NameRow(
                        like.id, like.position, like.state, self.new_id(key), None, like.since, like.reason
                    )
            case ddl.RecoverTable() if statement.table:
                row = now(statement.table)
                if row is not None and row.dropped is not None:
                    key = key_of(statement.table._replace(table=statement.new or statement.table.table).in_db(db))
                    moved_rows[key] = NameRow(row.id, row.position, State.KNOWN, *row.dropped, dropped=row.dropped)
            case ddl.FlashbackDatabase():
                name = (statement.new or statement.name).lower()
                for row in self.rows.names(statement.name.lower(), self.position):
                    moved_rows[name, row.id.table.lower()] = row
        # Only what a RECOVER brings back is no longer to be brought back.
        recovered = isinstance(statement, ddl.RecoverTable)
        return {
            key: row if recovered else replace(row, dropped=None) for key, row in moved_rows.items() if row is not None
        }

    def _drop_unknown(self, statement: ddl.Statement) -> None:
        """Dropping what is not known makes it gone all the same."""
        if isinstance(statement, ddl.DropDatabase) and statement.name.lower() not in self.out.databases:
            if self.rows.names(statement.name.lower(), self.position) or not statement.if_exists:
                self._database(statement.name.lower(), None)
            return
        if not isinstance(statement, ddl.DropTables) or statement.temporary == "local":
            return
        for name in statement.tables:
            id_ = name.in_db(self.record.db)
            old = self.row_before(key_of(id_))
            if key_of(id_) in self.out.names:
                continue
            if old is None or old.state in (State.PARTIAL, State.ERROR, State.UNKNOWN):
                self.put(id_, State.GONE, table_id=old.table_id if old else "", dropped=old.dropped if old else None)

    def _keep_dropped(self, statement: ddl.FlashbackDatabase) -> None:
        """What was dropped or truncated before its database was: that comes back as itself, so FLASHBACK TABLE finds
        it."""
        name = statement.name.lower()
        gone = self.rows.database(name, self.position)
        made = self.rows.database(name, gone.position) if gone else None
        for row in self.rows.names(name, self.position):
            if row.dropped is None or (made is not None and row.position < made.position):
                continue
            id_ = TableId(statement.new or row.id.db, row.id.table)
            if back := self.out.names.get(key_of(id_)):
                self.out.names[key_of(id_)] = replace(back, dropped=row.dropped)
            else:
                self.put(id_, State.GONE, table_id=row.table_id, form=row.form, since=row.since, dropped=row.dropped)

    # ---- statements that fail
    def _put_unapplied(self, statement: ddl.Statement, error: DdlError) -> None:
        """The tables that a statement names are unknown from here on, unless the message carries them."""
        db, self.out.error = self.record.db, error.detail
        unseen = error.code == "DDL_UNKNOWN_TABLE"
        state = State.PARTIAL if unseen else State.ERROR
        reason = _NOT_SEEN if unseen else f"a DDL statement can't be applied: {error.detail}"
        match statement:
            case ddl.RenameTables():
                self._move_names([(o.in_db(db), n.in_db(db)) for o, n in statement.pairs], reason)
            case ddl.AlterTable():
                id_ = statement.table.in_db(db)
                renames = [c.new for c in statement.clauses if isinstance(c, ddl.RenameTo)]
                if renames:
                    self._move_names([(id_, n.in_db(db)) for n in renames], reason, keep=False)
                else:
                    self._put_unknown(id_, state, reason)
            case ddl.CreateTable():
                self._put_unknown(statement.table.in_db(db), state, reason)
            case _ if self.record.table:
                self._put_unknown(TableId(db, self.record.table), state, reason)

    def _put_unknown(self, id_: TableId, state: State, reason: str) -> None:
        key, carried, since = key_of(id_), self.record.carried, self.position.commit_ts
        old = self.row_before(key)
        table_id = old.table_id if old and old.is_live and old.table_id else self.new_id(key)
        dropped, form = old.dropped if old else None, None
        if carried is not None and key_of(carried.id) == key:
            id_, form, reason = carried.id, self.rows.keep(carried), self.record.partial
            state = State.PARTIAL if reason else State.KNOWN
        elif old is not None and old.is_live and not old.has_table and old.state is not State.RELATION:
            state, since, reason = old.state, old.since, old.reason  # it was unknown before, and still is
        self.put(id_, state, table_id=table_id, form=form, since=since, reason=reason, dropped=dropped)

    def _move_names(self, pairs: list[tuple[TableId, TableId]], reason: str, *, keep: bool = True) -> None:
        """Renames of which one failed: what is known moves as far as it can. keep: the tables' columns did not
        change."""
        now, at, ts = dict[Key, NameRow | None](), self.position, self.position.commit_ts
        for old, new in pairs:
            row = now[key_of(old)] if key_of(old) in now else self.row_before(key_of(old))
            now[key_of(old)] = None
            if row is None or not row.is_live:
                row = NameRow(new, at, State.PARTIAL, self.new_id(key_of(new)), since=ts, reason=_NOT_SEEN)
            elif row.has_table and not keep:
                row = NameRow(new, at, State.ERROR, row.table_id, since=ts, reason=reason)
            now[key_of(new)] = row
        ids = {key_of(id_): id_ for pair in pairs for id_ in pair}
        for key, moving in now.items():
            existing = self.row_before(key)
            dropped_form = existing.dropped if existing else None
            if moving is None:
                of = {"table_id": existing.table_id, "form": existing.form} if existing else {}
                self.put(ids[key], State.GONE, since=ts, dropped=dropped_form, **of)
                continue
            more = {"form": moving.form, "reason": moving.reason, "dropped": dropped_form}
            self.put(ids[key], moving.state, since=moving.since, table_id=moving.table_id, **more)
        carried = self.record.carried
        if carried is not None and key_of(carried.id) in now:
            self._put_unknown(carried.id, State.PARTIAL, reason)


def _changes(names: Names[V]) -> dict[str, V | None]:
    """What a statement changed; in a database that it made, all that is there."""
    return dict(names.changes) if isinstance(names, LazyNames) else {name.id.table.lower(): name for name in names}


def seal(book: model.HistoryTransaction, record: model.DdlRecord) -> model.EventOutcome:
    """Apply one event, and again the later ones that it concerns."""
    late = record.position < book.newest()
    outcome = EventApplication(book, record).run()
    book.write(record, outcome, again=False)
    if late:
        apply_again(book, record, {*outcome.names, *((db, "") for db in outcome.databases)})
    return outcome


def apply_again(book: model.HistoryTransaction, record: model.DdlRecord, dirty: set[Key]) -> int:
    """Apply anew the events after `record` that depend on names which are not what they were. How many that were."""
    at, count = record.position, 0
    while dirty:
        following = book.next_event(at, dirty)
        if following is None:
            break
        names, databases = book.rows_at(following.position)
        outcome = EventApplication(book, following).run()
        book.write(following, outcome, again=True)
        at, count = following.position, count + 1
        for key in names.keys() | outcome.names.keys():
            old, new = names.get(key), outcome.names.get(key)
            same = old is not None and new is not None and old.content == new.content
            (dirty.discard if same else dirty.add)(key)
        for db in databases.keys() | outcome.databases.keys():
            was = databases.get(db)
            (dirty.discard if was is not None and was == outcome.databases.get(db) else dirty.add)((db, ""))
    return count
