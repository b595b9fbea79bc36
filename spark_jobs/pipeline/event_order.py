"""Which change events are one, and what comes before what."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from ticdc_bridge.schemas.formats.base import complete_before
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange

_DELETE, _ROW, _DDL, _WATERMARK = range(4)


@dataclass(frozen=True, slots=True)
class EventOrder:
    """What a stage after the codec needs of an event: its place in time, and what tells it from others.

    rank: the order at one commit_ts (a delete, other rows, DDL, a watermark). id: of a row, b"" where it has none.
    count: how many messages (or lines) were written for it.
    """

    commit_ts: int | None
    rank: int
    id: bytes
    count: int = 1

    @property
    def is_row(self) -> bool:
        return self.rank <= _ROW


def order_of(event: Event, origin: Message, number: int, count: int = 1) -> EventOrder:
    """The mark of an event, the `number`th of its message."""
    if isinstance(event, RowChange):
        rank = _DELETE if event.op == "d" else _ROW
        return EventOrder(event.commit_ts, rank, change_id(event, origin, number), count)
    return EventOrder(event.commit_ts, _DDL if isinstance(event, DdlEvent) else _WATERMARK, b"", count)


def change_id(event: RowChange, origin: Message, number: int) -> bytes:
    """What a change is known by, hashed: (db, table, key, commit_ts, op).

    Without a key or a commit_ts: topic, partition, offset and number in the message; b"" where these are not known.
    """
    row = (event.before if event.op == "d" else event.after) or {}
    pieces: tuple[Any, ...]
    if event.key and event.commit_ts is not None and all(name in row for name in event.key):
        values = tuple(row[name] for name in event.key)
        pieces = (event.db, event.table_name, event.key, values, event.commit_ts, event.op)
    elif origin.offset is None:
        return b""
    else:
        pieces = (origin.topic, origin.partition, origin.offset, number)
    return blake2b(repr(pieces).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def split_key_change(event: RowChange) -> Iterator[RowChange]:
    """An update that changes the key as what it is to everybody who knows rows by keys: a delete and an insert."""
    before, after = event.before or {}, event.after or {}
    both = (name for name in event.key if name in before and name in after)
    if event.op == "u" and any(before[name] != after[name] for name in both):
        yield replace(event, op="d", after=None, before=complete_before(event), flags=list(event.flags))
        yield replace(event, op="c", before=None)
    else:
        yield event
