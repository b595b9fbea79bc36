"""Which change events are one, and what comes before what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from ticdc_bridge.schemas.model.errors import WireError
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
    """What a change is known by, hashed: (db, table, key, commit_ts, op); its binlog position for the commit_ts.

    Without a key or either of them: topic, partition, offset and number in the message; b"" where these are not known.
    """
    row = (event.before if event.op == "d" else event.after) or {}
    parts: tuple[Any, ...]
    time = event.commit_ts if event.commit_ts is not None else binlog_position(event)
    if event.key and time is not None and all(name in row for name in event.key):
        values = tuple(row[name] for name in event.key)
        parts = (event.db, event.table_name, event.key, values, time, event.op)
    elif origin.offset is None:
        return b""
    else:
        parts = (origin.topic, origin.partition, origin.offset, number)
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).digest()


BINLOG_ORDER = "binlog_order"
"""Flag of a change in `merge` whose commit_ts is the number of its binlog position."""


class BinlogPosition(NamedTuple):
    """Where a change without commit_ts stands in MySQL's binlog: positions compare as the changes were made.

    file: the number of the binlog file. gtid: tells the transactions of two servers apart, and orders nothing.
    """

    streamed: bool  # a snapshot's rows come first
    file: int
    pos: int
    row: int
    gtid: str | None = None

    @property
    def number(self) -> int:
        """The position in 63 bits, 0 for a snapshot's row: 20 bits of the file, 32 of pos and 11 of the row.

        A row above 2,047 goes on into pos: the next event begins after all rows of this one, of a byte each at least.
        WireError INVALID_VALUE for a position that is larger.
        """
        if self.file >= 1 << 20 or self.pos >= 1 << 32:
            details = (
                f"file number {self.file}, pos {self.pos}: at most {(1 << 20) - 1} and {(1 << 32) - 1} are ordered"
            )
            raise WireError("INVALID_VALUE", column="source", details=details)
        return (self.file << 43) + (self.pos << 11) + self.row if self.streamed else 0


def binlog_position(event: RowChange) -> BinlogPosition | None:
    """The position of a change that Debezium's MySQL or MariaDB connector read; None where its source tells none."""
    source = event.extra.get("source")
    if event.commit_ts is not None or not isinstance(source, dict):
        return None
    file, pos, row, gtid = (source.get(name) for name in ("file", "pos", "row", "gtid"))
    suffix = file.rpartition(".")[2] if isinstance(file, str) else ""
    if not (suffix.isascii() and suffix.isdigit()) or type(pos) is not int or pos < 0:
        return None
    row = row if type(row) is int and row >= 0 else 0
    return BinlogPosition(event.op != "r", int(suffix), pos, row, gtid if isinstance(gtid, str) else None)


BINLOG_SERVER = "binlog_server:"
"""Flag of such a change: whose transaction it is, and which (`binlog_server`)."""
_MYSQL_GTID = re.compile(r"([0-9a-fA-F-]{36}(?::\w+)?):(\d+)")
_MARIADB_GTID = re.compile(r"(\d+)-\d+-(\d+)")


def binlog_server(event: RowChange) -> tuple[str, int] | None:
    """Which server's transaction a change of the connector is of, and the transaction's number there.

    By its GTID: MySQL's UUID with the tag, MariaDB's domain. Without one by source.server_id, and the number is 0. None
    where neither is told, and for a snapshot's row.
    """
    source = event.extra.get("source")
    if not isinstance(source, dict) or event.op == "r":
        return None
    gtid, server = source.get("gtid"), source.get("server_id")
    match = isinstance(gtid, str) and (_MYSQL_GTID.fullmatch(gtid) or _MARIADB_GTID.fullmatch(gtid))
    if match:
        return match[1].lower(), int(match[2])
    return (f"server_id {server}", 0) if type(server) is int and server > 0 else None


def split_key_change(event: RowChange) -> Iterator[RowChange]:
    """An update that changes the key as what it is to everybody who knows rows by keys: a delete and an insert."""
    before, after = event.before or {}, event.after or {}
    both = (name for name in event.key if name in before and name in after)
    if event.op == "u" and any(before[name] != after[name] for name in both):
        yield replace(event, op="d", after=None, before={**after, **before}, flags=list(event.flags))
        yield replace(event, op="c", before=None)
    else:
        yield event
