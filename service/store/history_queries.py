"""Reading histories: queries on one connection, and rows as `service.history` knows them."""

import json
from collections import defaultdict, namedtuple
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history import model, table_codec
from ticdc_bridge.service.history.model import DatabaseRow, DdlRecord, HistoryPosition, Key, NameRow
from ticdc_bridge.service.store import tables as sql
from ticdc_bridge.service.store.statements import PreparedStatement, chunks

_MOST_KEYS = 100


def before_position(table: Any, position: HistoryPosition) -> sa.ColumnElement[bool]:
    """Rows before a position, which may be of parameters."""
    at = table.c.commit_ts
    return sa.and_(at <= position.commit_ts, sa.or_(at < position.commit_ts, table.c.ordinal < position.ordinal))


def after(table: Any, position: Any) -> sa.ColumnElement[bool]:
    """Rows after a position, or after another row's columns."""
    at = table.c.commit_ts
    return sa.and_(at >= position.commit_ts, sa.or_(at > position.commit_ts, table.c.ordinal > position.ordinal))


_OF_NAME: Final = ("table_id", "since", "reason", "ddl", "relation")
_OF_EVENT: Final = (
    "seq", "commit_ts", "ordinal", "state", "kind", "db", "ddl_type", "query", "mode", "sql_mode", "format", "topic",
    "copies", "error", "partial",
)  # fmt: skip
_OF_DRIFT: Final = ("kind", "db", "commit_ts", "detail", "version_ts", "count", "seq", "seen_ms")
"""Columns that are fields of `service.history.model` as they are; what has another name or form stands below."""


def name_row(row: Any) -> NameRow:
    return NameRow(
        id=TableId(row.db, row.tbl),
        position=HistoryPosition(row.commit_ts, row.ordinal),
        state=model.State(row.state),
        form=row.form and bytes(row.form),
        dropped=row.dropped and (row.dropped_id, bytes(row.dropped)),
        **{name: getattr(row, name) for name in _OF_NAME},
    )


def name_values(changefeed: int, row: NameRow) -> dict[str, Any]:
    key = model.key_of(row.id)
    dropped_id, dropped = row.dropped or (None, None)
    return {
        "changefeed": changefeed, "db_key": key[0], "table_key": key[1], "commit_ts": row.position.commit_ts,
        "ordinal": row.position.ordinal, "db": row.id.db, "tbl": row.id.table, "state": str(row.state),
        "form": row.form, "dropped_id": dropped_id, "dropped": dropped,
        **{name: getattr(row, name) for name in _OF_NAME},
    }  # fmt: skip


def database_row(row: sa.Row[Any]) -> DatabaseRow:
    at = HistoryPosition(row.commit_ts, row.ordinal)
    return DatabaseRow(row.name, at, bool(row.live), row.charset, row.collate, row.ddl)


def database_values(changefeed: int, row: DatabaseRow) -> dict[str, Any]:
    return {
        "changefeed": changefeed, "db_key": row.name.lower(), "commit_ts": row.position.commit_ts,
        "ordinal": row.position.ordinal, "name": row.name, "live": row.live, "charset": row.charset,
        "collate": row.collate, "ddl": row.ddl,
    }  # fmt: skip


def record_row(changefeed: str, row: Any, carried: Table | None) -> DdlRecord:
    return DdlRecord(
        changefeed, table=row.tbl, partition=row.part, offset=row.off, unsealed_source=bool(row.unsealed),
        carried=carried, **{name: getattr(row, name) for name in _OF_EVENT},
    )  # fmt: skip


def record_values(changefeed: int, record: DdlRecord, carried: bytes | None) -> dict[str, Any]:
    name = None if record.carried is None else json.dumps(record.carried.id)
    return {
        "changefeed": changefeed, "key": record.key, "tbl": record.table, "part": record.partition,
        "off": record.offset, "unsealed": record.unsealed_source, "carried": carried, "carried_name": name,
        **{name: getattr(record, name) for name in _OF_EVENT},
    }  # fmt: skip


def drift_row(changefeed: str, row: sa.Row[Any]) -> model.Drift:
    fields = row._mapping  # a Row has a method `count`
    return model.Drift(changefeed, table=row.tbl, **{name: fields[name] for name in _OF_DRIFT})


# Built once: building a statement costs more than answering it.
_NEWEST_FIRST = (sql.names.c.commit_ts.desc(), sql.names.c.ordinal.desc())
_OLDEST_FIRST = (sql.names.c.commit_ts, sql.names.c.ordinal)
_POSITION = HistoryPosition._make(
    sa.bindparam(name, type_=kind) for name, kind in (("ts_", sa.BigInteger), ("ordinal_", sa.Integer))
)
_OF_NAME_ROWS = sa.select(sql.names).where(
    sql.names.c.changefeed == sa.bindparam("feed"),
    sql.names.c.db_key == sa.bindparam("db_"),
    sql.names.c.table_key == sa.bindparam("table_"),
)
_BEFORE = PreparedStatement(
    _OF_NAME_ROWS.where(before_position(sql.names, _POSITION)).order_by(*_NEWEST_FIRST).limit(1)
)
_FOLLOWING = PreparedStatement(_OF_NAME_ROWS.where(after(sql.names, _POSITION)).order_by(*_OLDEST_FIRST).limit(1))
_FORM = PreparedStatement(sa.select(sql.forms.c.body).where(sql.forms.c.form == sa.bindparam("form_")))
_EVENT = PreparedStatement(sa.select(sql.events).where(sql.events.c.seq == sa.bindparam("seq_")))
_Name: Any = namedtuple("_Name", sql.names.c.keys())  # type: ignore[misc]
_Event: Any = namedtuple("_Event", sql.events.c.keys())  # type: ignore[misc]
_PENDING_UP_TO = PreparedStatement(
    sa.select(sa.func.count()).where(
        sql.events.c.changefeed == sa.bindparam("feed"),
        sql.events.c.state == "pending",
        sql.events.c.commit_ts <= sa.bindparam("ts_"),
        sa.func.lower(sql.events.c.db) == sa.bindparam("db_"),
        sa.func.lower(sql.events.c.tbl) == sa.bindparam("table_"),
    )
)


class HistoryQueries:
    """Reads one changefeed's history on a connection. tables: decoded forms, kept beyond it."""

    def __init__(self, connection: sa.Connection, changefeed: int, name: str, tables: table_codec.TableCache) -> None:
        self._sql, self._changefeed, self._changefeed_name, self._tables = connection, changefeed, name, tables

    @property
    def connection(self) -> sa.Connection:
        return self._sql

    # ---- names and databases before a position
    def _at(self, key: Key, position: HistoryPosition) -> dict[str, Any]:
        return {"feed": self._changefeed, "db_": key[0], "table_": key[1], "ts_": position[0], "ordinal_": position[1]}

    def name(self, key: Key, before: HistoryPosition) -> NameRow | None:
        row = _BEFORE(self.connection, **self._at(key, before)).fetchone()
        return None if row is None else name_row(_Name._make(row))

    def database(self, db: str, before: HistoryPosition) -> DatabaseRow | None:
        c = sql.databases.c
        query = sa.select(sql.databases).where(c.changefeed == self._changefeed, c.db_key == db)
        newest = (c.commit_ts.desc(), c.ordinal.desc())
        row = self.connection.execute(
            query.where(before_position(sql.databases, before)).order_by(*newest).limit(1)
        ).first()
        return None if row is None else database_row(row)

    def names(self, db: str, before: HistoryPosition) -> list[NameRow]:
        c = sql.names.c
        query = sa.select(sql.names).where(c.changefeed == self._changefeed, c.db_key == db)
        rows = self.connection.execute(
            query.where(before_position(sql.names, before)).order_by(c.table_key, c.commit_ts, c.ordinal)
        )
        newest = {row.table_key: row for row in rows}
        return [name_row(row) for row in newest.values()]

    def any_name(self, db: str, before: HistoryPosition) -> NameRow | None:
        c = sql.names.c
        query = sa.select(sql.names).where(c.changefeed == self._changefeed, c.db_key == db)
        row = self.connection.execute(query.where(before_position(sql.names, before)).limit(1)).first()
        return None if row is None else name_row(row)

    def histories_of(self, keys: Collection[Key], *, newest: bool = False) -> dict[Key, list[NameRow]]:
        """All rows of each of the names, oldest first, or only the newest."""
        c, rows = sql.names.c, dict[Key, list[NameRow]]({key: [] for key in keys})
        query = (self._newest() if newest else self._all_names()).order_by(c.commit_ts, c.ordinal)
        for some in chunks(keys):
            for row in self.connection.execute(query.where(sa.tuple_(c.db_key, c.table_key).in_(some))):
                rows[row.db_key, row.table_key].append(name_row(row))
        return rows

    def next_name(self, key: Key, after_: HistoryPosition) -> NameRow | None:
        row = _FOLLOWING(self.connection, **self._at(key, after_)).fetchone()
        return None if row is None else name_row(_Name._make(row))

    def rows_between(
        self, start: HistoryPosition, end: HistoryPosition, db: str | None, table: str | None
    ) -> dict[Key, list[NameRow]]:
        """Rows from a position on, before another one, by name, in order; of a table those of its other names too."""
        c, rows = sql.names.c, dict[Key, list[NameRow]]()
        query = self._all_names().where(~before_position(sql.names, start), before_position(sql.names, end))
        wanted = [key == name.lower() for key, name in ((c.db_key, db), (c.table_key, table)) if name]
        if wanted:
            ids = sa.select(c.table_id).where(c.changefeed == self._changefeed, c.table_id != "", *wanted)
            query = query.where(sa.or_(sa.and_(*wanted), c.table_id.in_(ids)))
        for row in self.connection.execute(query.order_by(c.commit_ts, c.ordinal)):
            rows.setdefault((row.db_key, row.table_key), []).append(name_row(row))
        return rows

    def databases_between(
        self, start: HistoryPosition, end: HistoryPosition, db: str | None
    ) -> dict[str, list[DatabaseRow]]:
        """As `rows_between`, of databases."""
        c, rows = sql.databases.c, dict[str, list[DatabaseRow]]()
        query = sa.select(sql.databases).where(c.changefeed == self._changefeed)
        query = query.where(~before_position(sql.databases, start), before_position(sql.databases, end))
        query = query.where(c.db_key == db.lower()) if db else query
        for row in self.connection.execute(query.order_by(c.commit_ts, c.ordinal)):
            rows.setdefault(row.db_key, []).append(database_row(row))
        return rows

    def count_pending(self, ts: int) -> int:
        """How many events up to ts are not sealed."""
        c = sql.events.c
        query = sa.select(sa.func.count()).where(
            c.changefeed == self._changefeed, c.state == "pending", c.commit_ts <= ts
        )
        return int(self.connection.execute(query).scalar_one())

    def pending_up_to(self, key: Key, ts: int) -> int:
        """How many events of a table up to ts are not sealed."""
        of = {"feed": self._changefeed, "db_": key[0], "table_": key[1], "ts_": ts}
        return int(_PENDING_UP_TO(self.connection, **of).fetchone()[0])

    def newest_names(self, db: str | None, offset: int, limit: int, search: str = "") -> list[NameRow]:
        """The newest row of each name that has `search` in it, in the order of the names."""
        c, query = sql.names.c, self._newest()
        if db is not None:
            query = query.where(c.db_key == db.lower())
        if "\0" in search:
            return []  # no name holds it, and PostgreSQL refuses to look for it
        if search:
            name = c.db_key + "." + c.table_key
            query = query.where(sa.func.replace(name, search.lower(), "") != name)
        rows = self.connection.execute(query.order_by(c.db_key, c.table_key).offset(offset).limit(limit))
        return [name_row(row) for row in rows]

    def _all_names(self) -> sa.Select[Any]:
        return sa.select(sql.names).where(sql.names.c.changefeed == self._changefeed)

    def _newest(self) -> sa.Select[Any]:
        c, later = sql.names.c, sql.names.alias()
        same = sa.and_(*(later.c[name] == c[name] for name in ("changefeed", "db_key", "table_key")))
        return self._all_names().where(~sa.exists().where(same, after(later, c)))

    # ---- forms
    def table(self, form: bytes, id_: TableId) -> Table:
        return self.tables({(form, id_)})[form, id_]

    def tables(self, wanted: Collection[tuple[bytes, TableId]]) -> dict[tuple[bytes, TableId], Table]:
        result, missing = dict[tuple[bytes, TableId], Table](), defaultdict[bytes, list[TableId]](list)
        for form, id_ in wanted:
            table = self._tables.get((form, id_))
            if table is None:
                missing[form].append(id_)
            else:
                result[form, id_] = table
        for form, body in self._bodies(missing):
            for id_ in missing[form]:
                result[form, id_] = table_codec.decode(body, id_)
                self._tables.put((form, id_), result[form, id_])
        return result

    def _bodies(self, forms: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        c = sql.forms.c
        if len(forms) == 1:
            [form] = forms
            yield form, bytes(_FORM(self.connection, form_=form).fetchone()[0])
            return
        for some in chunks(forms):
            for form, body in self.connection.execute(sa.select(c.form, c.body).where(c.form.in_(some))):
                yield bytes(form), bytes(body)

    # ---- events
    def records(self, query: sa.Select[Any]) -> list[DdlRecord]:
        return self._records(self.connection.execute(query).all())

    def _records(self, rows: Sequence[Any]) -> list[DdlRecord]:
        carried = [row.carried and (bytes(row.carried), TableId(*json.loads(row.carried_name))) for row in rows]
        tables = self.tables({entry for entry in carried if entry})
        return [
            record_row(self._changefeed_name, row, tables[entry] if entry else None)
            for row, entry in zip(rows, carried, strict=True)
        ]

    def event(self, seq: int) -> DdlRecord | None:
        row = _EVENT(self.connection, seq_=seq).fetchone()
        return None if row is None else self._records([_Event._make(row)])[0]

    def events(self, seqs: Collection[int]) -> list[DdlRecord]:
        c = sql.events.c
        return [
            record for some in chunks(seqs) for record in self.records(sa.select(sql.events).where(c.seq.in_(some)))
        ]

    def pending_events(self) -> list[DdlRecord]:
        c = sql.events.c
        query = sa.select(sql.events).where(c.changefeed == self._changefeed, c.state == "pending")
        return self.records(query.order_by(c.commit_ts, c.ordinal))

    def newest(self) -> HistoryPosition:
        c = sql.events.c
        query = sa.select(c.commit_ts, c.ordinal).where(c.changefeed == self._changefeed, c.state != "pending")
        row = self.connection.execute(query.order_by(c.commit_ts.desc(), c.ordinal.desc()).limit(1)).first()
        return model.FIRST if row is None else HistoryPosition(*row)

    def next_event(self, position: HistoryPosition, keys: Collection[Key]) -> DdlRecord | None:
        c, i = sql.events.c, sql.involved.c
        query = sa.select(i.commit_ts, i.ordinal).where(i.changefeed == self._changefeed, after(sql.involved, position))
        row = self.connection.execute(query.where(_concerns(keys)).order_by(i.commit_ts, i.ordinal).limit(1)).first()
        if row is None:
            return None
        same_position = sa.and_(c.commit_ts == row.commit_ts, c.ordinal == row.ordinal)
        return self.records(sa.select(sql.events).where(c.changefeed == self._changefeed, same_position))[0]

    def rows_at(self, position: HistoryPosition) -> tuple[dict[Key, NameRow], dict[str, DatabaseRow]]:
        results: list[Any] = []
        for table in (sql.names, sql.databases):
            here = sa.and_(table.c.commit_ts == position.commit_ts, table.c.ordinal == position.ordinal)
            query = sa.select(table).where(table.c.changefeed == self._changefeed, here)
            results.append(self.connection.execute(query).all())
        names = [name_row(row) for row in results[0]]
        return {model.key_of(row.id): row for row in names}, {row.db_key: database_row(row) for row in results[1]}


def _concerns(keys: Collection[Key]) -> sa.ColumnElement[bool]:
    """Events that depend on one of the names; with very many names, all those of their databases."""
    i = sql.involved.c
    by_db: dict[str, set[str]] = {}
    for db, table in keys:
        by_db.setdefault(db, {model.ALL}).add(table)
    if sum(map(len, by_db.values())) > _MOST_KEYS:
        return i.db_key.in_(list(by_db))
    return sa.or_(*(sa.and_(i.db_key == db, i.table_key.in_(list(tables))) for db, tables in by_db.items()))
