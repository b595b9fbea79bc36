"""Events that could not be read or applied: what they leave unknown, and since when. Everything else goes on."""

from __future__ import annotations

from typing import Final

from ticdc_bridge.schemas.ddl.parser.statements import AlterTable, CreateTable, RenameTables, RenameTo, Statement
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.history.model import (
    DdlRecord,
    EventOutcome,
    EventRows,
    HistoryRows,
    Key,
    NameRow,
    State,
    key_of,
)

_NOT_SEEN: Final = "its CREATE TABLE was not seen"


def record_unread(rows: HistoryRows, record: DdlRecord, error: DdlError) -> EventOutcome:
    """The table that the message names is unknown from here on, unless the message carries it."""
    event_rows = EventRows(rows, record)
    event_rows.out.error = error.detail
    if record.table:
        _put_unknown(
            event_rows, TableId(record.db, record.table), State.ERROR, f"a DDL statement can't be read: {error.detail}"
        )
    return event_rows.out


def record_unapplied(rows: HistoryRows, record: DdlRecord, statement: Statement, error: DdlError) -> EventOutcome:
    """As `record_unread`, of the tables that the statement names."""
    event_rows, db = EventRows(rows, record), record.db
    event_rows.out.error = error.detail
    unseen = error.code == "DDL_UNKNOWN_TABLE"
    state = State.PARTIAL if unseen else State.ERROR
    reason = _NOT_SEEN if unseen else f"a DDL statement can't be applied: {error.detail}"
    match statement:
        case RenameTables():
            _move_names(
                event_rows,
                [(o.in_db(db), n.in_db(db)) for o, n in statement.pairs],
                reason,
            )
        case AlterTable():
            id_ = statement.table.in_db(db)
            renames = [c.new for c in statement.clauses if isinstance(c, RenameTo)]
            if renames:
                _move_names(event_rows, [(id_, n.in_db(db)) for n in renames], reason, keep=False)
            else:
                _put_unknown(event_rows, id_, state, reason)
        case CreateTable():
            _put_unknown(event_rows, statement.table.in_db(db), state, reason)
        case _:
            if record.table:
                _put_unknown(event_rows, TableId(db, record.table), state, reason)
    return event_rows.out


def _put_unknown(rows: EventRows, id_: TableId, state: State, reason: str) -> None:
    key = key_of(id_)
    old = rows.row_before(key)
    carried = rows.record.carried
    table_id = old.table_id if old and old.is_live and old.table_id else rows.new_id(key)
    dropped = old.dropped if old else None
    if carried is not None and key_of(carried.id) == key:
        form = rows.rows.keep(carried)
        more = {"since": rows.position.commit_ts, "reason": rows.record.partial, "dropped": dropped}
        partial = State.PARTIAL if rows.record.partial else State.KNOWN
        rows.put(carried.id, partial, table_id=table_id, form=form, **more)
        return
    if old is not None and old.is_live and not old.has_table and old.state is not State.RELATION:
        state, since, reason = old.state, old.since, old.reason  # it was unknown before, and still is
    else:
        since = rows.position.commit_ts
    rows.put(id_, state, table_id=table_id, since=since, reason=reason, dropped=dropped)


def _move_names(rows: EventRows, pairs: list[tuple[TableId, TableId]], reason: str, *, keep: bool = True) -> None:
    """Renames of which one failed: what is known moves as far as it can. keep: the tables' columns did not change."""
    now: dict[Key, NameRow | None] = {}
    for old, new in pairs:
        row = now[key_of(old)] if key_of(old) in now else rows.row_before(key_of(old))
        now[key_of(old)] = None
        if row is None or not row.is_live:
            moved = NameRow(new, rows.position, State.PARTIAL, rows.new_id(key_of(new)), since=rows.position.commit_ts,
                            reason=_NOT_SEEN)  # fmt: skip
        elif row.has_table and not keep:
            moved = NameRow(new, rows.position, State.ERROR, row.table_id, since=rows.position.commit_ts, reason=reason)
        else:
            moved = row
        now[key_of(new)] = moved
    ids = {key_of(id_): id_ for pair in pairs for id_ in pair}
    for key, moving in now.items():
        there = rows.row_before(key)
        dropped_form = there.dropped if there else None
        if moving is None:
            of = {"table_id": there.table_id, "form": there.form} if there else {}
            rows.put(ids[key], State.GONE, since=rows.position.commit_ts, dropped=dropped_form, **of)
            continue
        more = {"since": moving.since, "reason": moving.reason, "dropped": dropped_form}
        rows.put(ids[key], moving.state, table_id=moving.table_id, form=moving.form, **more)
    carried = rows.record.carried
    if carried is not None and key_of(carried.id) in now:
        _put_unknown(rows, carried.id, State.PARTIAL, reason)
