"""One message through the codecs, in-process and in Spark workers alike: bytes → events → plain lines or messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from schemas import checksum
from schemas.errors import SetupError, WireError
from schemas.event import MAX_TSO, Bootstrap, Event, Message, RowChange, Watermark
from schemas.options import Options
from schemas.plain import plain_error, plain_event
from schemas.ports import TableSource
from schemas.wire import format_named
from schemas.wire.base import BatchEncoder, Context, Decoder, Encoder
from spark_jobs.claim_check import ClaimFolder
from spark_jobs.lookup import Schemas
from spark_jobs.summary import kind_of


@dataclass(frozen=True)
class Side:
    """One side of a job: a format with its schemas, options and table definitions. Pickles into workers.

    verify_checksum: rows that come with a row checksum are compared with it.
    """

    format: str
    schemas: Schemas
    options: Options
    tables: TableSource | None = None
    claims: ClaimFolder | None = None
    verify_checksum: bool = False
    learn: bool = False

    def context(self) -> Context:
        return Context(self.schemas, self.tables, self.options, self.claims)

    def decoder(self) -> Decoder:
        return format_named(self.format).decoder(self.context())

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


@dataclass(slots=True)
class Result:
    """What became of one message: its events, what was written for them, and the error if it failed.

    A message whose rows can't all be decoded and written counts as failed as a whole: `events` and `out` are empty.
    checksums: what came of each row's check, where that was asked for. notes: what people should read of it.
    """

    events: list[Event] = field(default_factory=list)
    out: list[Message] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: WireError | None = None


def decode_one(decoder: Decoder, message: Message, verify_checksum: bool = False) -> Result:
    """Message → its events, or the error."""
    try:
        result = _decoded(decoder, message)
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


def transcode_one(decoder: Decoder, encoder: Encoder, message: Message, topic: str | None = None) -> Result:
    """Message → messages of the other format or the error.

    topic: TiCDC's topic rule for what is written, such as tidb_{schema}_{table}; None: the message's own topic.
    """
    try:
        result = _decoded(decoder, message)
        for to, events in groupby(result.events, lambda e: message.topic if topic is None else topic_of(topic, e)):
            _encode(encoder, list(events), message if topic is None else replace(message, topic=to), result)
    except WireError as error:
        return Result(error=error)
    except RecursionError:
        return Result(error=_too_deep())
    return result


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
    db, table = ("", "") if isinstance(event, Watermark) else (event.db, event.table_name)
    topic = _NOT_KAFKA.sub("_", rule.replace("{schema}", db).replace("{table}", table))[:249]
    return {".": "_", "..": "__"}.get(topic, topic)


def encode_event(encoder: Encoder, event: Event, origin: Message, topic: str | None = None) -> Result:
    """An event → what is written for it. WireError. topic: as transcode_one."""
    result = Result([event])
    _encode(encoder, [event], origin if topic is None else replace(origin, topic=topic_of(topic, event)), result)
    return result


_NOT_KAFKA = re.compile(r"[^A-Za-z0-9._-]")


def plain_lines(result: Result, message: Message) -> list[dict[str, Any]]:
    """The plain form of a decoded message: a line per event, or one error line."""
    if result.error is not None:
        return [plain_error(result.error, message)]
    return [plain_event(event, message) for event in result.events]
