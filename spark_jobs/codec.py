"""One message through the codecs, in-process and in Spark workers alike: bytes → events → plain lines or messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import groupby
from typing import Any

from schemas import checksum
from schemas.claim_folder import ClaimFolder
from schemas.errors import SetupError, WireError
from schemas.event import MAX_TSO, Bootstrap, DdlEvent, Event, Message, RowChange, Watermark
from schemas.options import Options
from schemas.plain import plain_error, plain_event
from schemas.ports import TableSource
from schemas.table import TableId
from schemas.wire import format_named
from schemas.wire.base import BatchEncoder, Context, Decoder, Encoder
from spark_jobs.lookup import Schemas
from spark_jobs.subjects import Strategy, under
from spark_jobs.summary import kind_of
from spark_jobs.table_view import TableView, ViewDecoder

PLAIN = "plain"
"""The format of change events as lines: what `encode` reads."""


@dataclass(frozen=True)
class Side:
    """One side of a job: a format with its schemas, options and table definitions. Pickles into workers.

    verify_checksum: rows that come with a row checksum are compared with it. strategy: the subjects that schemas
    are registered under. view: one table's rows must fit its columns' Spark types.
    """

    format: str
    schemas: Schemas
    options: Options
    tables: TableSource | None = None
    claims: ClaimFolder | None = None
    verify_checksum: bool = False
    learn: bool = False
    strategy: Strategy = "topic"
    view: TableView | None = None

    def context(self) -> Context:
        return Context(under(self.schemas, self.strategy), self.tables, self.options, self.claims)

    def decoder(self) -> Decoder:
        made = format_named(self.format).decoder(self.context())
        return ViewDecoder(made, self.view, self.tables) if self.view else made

    def encoder(self) -> Encoder:
        return format_named(self.format).encoder(self.context())


def check_any_order(side: Side) -> None:
    """SetupError USAGE where Spark, which splits its input, would keep from a message what it needs of earlier ones."""
    if format_named(side.format).in_order and side.tables is None:
        details = (
            f"{side.format} messages may need what earlier ones told, and Spark reads them apart: "
            "give table definitions (--ddl), or run without Spark"
        )
        raise SetupError("USAGE", details=details)


_DELETE, _ROW, _DDL, _WATERMARK = range(4)


@dataclass(frozen=True, slots=True)
class Mark:
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


def mark(event: Event, origin: Message, number: int, count: int = 1) -> Mark:
    """The mark of an event, the `number`th of its message."""
    if isinstance(event, RowChange):
        rank = _DELETE if event.op == "d" else _ROW
        return Mark(event.commit_ts, rank, identity(event, origin, number), count)
    return Mark(event.commit_ts, _DDL if isinstance(event, DdlEvent) else _WATERMARK, b"", count)


def identity(event: RowChange, origin: Message, number: int) -> bytes:
    """What a change is known by, hashed: (db, table, key, commit_ts, op).

    Without a key or a commit_ts: topic, partition, offset and number in the message; b"" where these are not known.
    """
    row = (event.before if event.op == "d" else event.after) or {}
    parts: tuple[Any, ...]
    if event.key and event.commit_ts is not None and all(name in row for name in event.key):
        values = tuple(row[name] for name in event.key)
        parts = (event.db, event.table_name, event.key, values, event.commit_ts, event.op)
    elif origin.offset is None:
        return b""
    else:
        parts = (origin.topic, origin.partition, origin.offset, number)
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).digest()


@dataclass(slots=True)
class Result:
    """What became of one message: its events, what was written for them, and the error if it failed.

    A message whose rows can't all be decoded and written counts as failed as a whole: `events` and `out` are empty.
    checksums: what came of each row's check, where that was asked for. notes: what people should read of it.
    marks: of the events written, in the order of `out` (decode: of `events`), where they were asked for.
    """

    events: list[Event] = field(default_factory=list)
    out: list[Message] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: WireError | None = None
    marks: list[Mark] = field(default_factory=list)

    @property
    def resolved(self) -> int | None:
        """The newest watermark among the events."""
        return max((e.commit_ts for e in self.events if isinstance(e, Watermark)), default=None)


def decode_one(decoder: Decoder, message: Message, verify_checksum: bool = False, marked: bool = False) -> Result:
    """Message → its events, or the error."""
    try:
        result = _decoded(decoder, message)
        if marked:
            result.marks = [mark(event, message, n) for n, event in enumerate(result.events)]
        if verify_checksum:
            _verify(result, message)
        return result
    except WireError as error:
        return Result(error=error)
    except RecursionError:
        return Result(error=_too_deep())


def _verify(result: Result, message: Message) -> None:
    for event in result.events:
        if not isinstance(event, RowChange):
            continue
        checks = checksum.verify(event)
        result.checksums += [check.outcome for check in checks] or ["absent"]
        result.notes += [
            f"{place_of(message)} {event.table.id}: {check}" for check in checks if check.outcome == "mismatch"
        ]


def place_of(message: Message) -> str:
    """topic/partition/offset, `-` for what is not known."""
    return "/".join("-" if part is None else str(part) for part in (message.topic, message.partition, message.offset))


def _decoded(decoder: Decoder, message: Message) -> Result:
    """A message that holds no event (a tombstone after a delete) is counted as skipped, never silently gone."""
    events = decoder.decode(message)
    for event in events:
        if event.commit_ts is not None and not 0 <= event.commit_ts <= MAX_TSO:
            details = f"commit_ts {event.commit_ts} is no TSO (physical ms << 18)"
            raise WireError("MALFORMED", where="value", details=details)
    return Result(events) if events else Result(skipped=["tombstone" if message.value is None else "empty"])


def transcode_one(
    decoder: Decoder, encoder: Encoder, message: Message, topic: str | None = None, marked: bool = False
) -> Result:
    """Message → messages of the other format or the error.

    topic: TiCDC's topic rule for what is written, such as tidb_{schema}_{table}; None: the message's own topic.
    marked: with the marks of what is written; then rows are written one by one, also in formats with batches.
    """
    try:
        read = _decoded(decoder, message)
        if marked:
            for number, event in enumerate(read.events):
                before = len(read.out)
                _encode(encoder, [event], _bound_for(topic, event, message), read)
                if len(read.out) > before:
                    read.marks.append(mark(event, message, number, len(read.out) - before))
            return read
        for to, events in groupby(read.events, lambda e: _bound_for(topic, e, message)):
            _encode(encoder, list(events), to, read)
    except WireError as error:
        return Result(error=error)
    except RecursionError:
        return Result(error=_too_deep())
    return read


def _bound_for(topic: str | None, event: Event, message: Message) -> Message:
    """The message that an event is from, with the topic that what is written goes to."""
    return message if topic is None else replace(message, topic=topic_of(topic, event))


def _encode(encoder: Encoder, events: list[Event], origin: Message, result: Result) -> None:
    """Writes events of one message for one topic; rows of a format with batches go together."""
    rows = [event for event in events if isinstance(event, RowChange)]
    for row in rows:
        if row.key_only and row.op != "d" and not getattr(encoder, "key_only_rows", False):
            details = "the message carries only the key of the row, and the format written has no form for that"
            raise WireError("KEY_ONLY_ROW", table=str(row.table.id), details=details)
    if isinstance(encoder, BatchEncoder) and len(rows) == len(events):
        result.out += encoder.encode_rows(rows, origin)
        return
    for event in events:
        written = [] if isinstance(event, Bootstrap) else encoder.encode(event, origin)
        result.out += written
        if not written:
            result.skipped.append(kind_of(event))


def _too_deep() -> WireError:
    return WireError("MALFORMED", where="value", details="nested too deep")


def topic_of(rule: str, event: Event) -> str:
    """A topic by TiCDC's rule, with {schema} and {table} filled in (upstream ticdc `eventrouter/topic/expression.go`).

    Characters that Kafka does not allow become `_`; a watermark has neither schema nor table.
    """
    return topic_of_table(
        rule, TableId("", "") if isinstance(event, Watermark) else TableId(event.db, event.table_name)
    )


def check_topic_rule(rule: str) -> None:
    """SetupError USAGE for a rule that names no topic, or what no rule knows: its rows would go to a wrong topic."""
    unknown = [found for found in re.findall(r"{[^{}]*}", rule) if found not in ("{schema}", "{table}")]
    if unknown or not rule:
        what = f"{unknown[0]} is not known" if unknown else "it is empty"
        raise SetupError("USAGE", details=f"topic rule {rule!r}: {what}; a rule may have {{schema}} and {{table}}")


def topic_of_table(rule: str, id_: TableId) -> str:
    """The topic that the rule names for a table's rows."""
    topic = _NOT_KAFKA.sub("_", rule.replace("{schema}", id_.db).replace("{table}", id_.table))[:249]
    return {".": "_", "..": "__"}.get(topic, topic)


def encode_event(encoder: Encoder, event: Event, origin: Message, topic: str | None = None) -> Result:
    """An event → what is written for it. WireError. topic: as transcode_one."""
    result = Result([event])
    _encode(encoder, [event], _bound_for(topic, event, origin), result)
    return result


_NOT_KAFKA = re.compile(r"[^A-Za-z0-9._-]")


def plain_lines(result: Result, message: Message) -> list[dict[str, Any]]:
    """The plain form of a decoded message: a line per event, or one error line."""
    if result.error is not None:
        return [plain_error(result.error, message)]
    return [plain_event(event, message) for event in result.events]
