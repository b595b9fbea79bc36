"""Putting events into a history, in whatever order they come.

An event is applied at its own position. If there are later ones, those that depend on a name it changed are applied
anew, in order, until nothing is different from what it was: a late event costs what it changes, not the history.
"""

from __future__ import annotations

from ticdc_bridge.service.history.apply_event import EventApplication
from ticdc_bridge.service.history.model import DdlRecord, EventOutcome, HistoryTransaction, Key


def seal(book: HistoryTransaction, record: DdlRecord) -> EventOutcome:
    """Apply one event, and again the later ones that it concerns."""
    late = record.position < book.newest()
    outcome = EventApplication(book, record).run()
    book.write(record, outcome, again=False)
    if late:
        apply_again(book, record, {*outcome.names, *((db, "") for db in outcome.databases)})
    return outcome


def apply_again(book: HistoryTransaction, record: DdlRecord, dirty: set[Key]) -> int:
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
            _mark(dirty, key, old is not None and new is not None and old.content == new.content)
        for db in databases.keys() | outcome.databases.keys():
            was, now = databases.get(db), outcome.databases.get(db)
            _mark(dirty, (db, ""), was is not None and was == now)
    return count


def _mark(dirty: set[Key], key: Key, same: bool) -> None:
    if same:
        dirty.discard(key)
    else:
        dirty.add(key)
