"""One message through the codecs, in-process and in Spark workers alike: bytes → events → plain lines or messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from schemas.errors import WireError
from schemas.event import Event, Message, RowChange, Watermark
from schemas.options import Options
from schemas.plain import plain_error, plain_event
from schemas.wire import format_named
from schemas.wire.base import BatchEncoder, Context, Decoder, Encoder
from spark_jobs.definitions import Definitions
from spark_jobs.lookup import Schemas
from spark_jobs.summary import kind_of


@dataclass(frozen=True)
class Side:
    """One side of a job: a format with its schemas, options and table definitions. Pickles into workers."""

    format: str
    schemas: Schemas
    options: Options
    tables: Definitions | None = None

    def context(self) -> Context:
        return Context(self.schemas, self.tables, self.options)

    def decoder(self) -> Decoder:
        return format_named(self.format).decoder(self.context())

    def encoder(self) -> Encoder:
        return format_named(self.format).encoder(self.context())


@dataclass(slots=True)
class Result:
    """What became of one message: its events, what was written for them, and the error if it failed.

    A message whose rows can't all be decoded and written counts as failed as a whole: `events` and `out` are empty.
    """

    events: list[Event] = field(default_factory=list)
    out: list[Message] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    error: WireError | None = None


def decode_one(decoder: Decoder, message: Message) -> Result:
    """Message → its events, or the error."""
    try:
        return _decoded(decoder, message)
    except WireError as error:
        return Result(error=error)
    except RecursionError:
        return Result(error=_too_deep())


def _decoded(decoder: Decoder, message: Message) -> Result:
    """A message that holds no event (a tombstone after a delete) is counted as skipped, never silently gone."""
    events = decoder.decode(message)
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
    if isinstance(encoder, BatchEncoder) and len(rows) == len(events):
        result.out += encoder.encode_rows(rows, origin)
        return
    for event in events:
        written = encoder.encode(event, origin)
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


_NOT_KAFKA = re.compile(r"[^A-Za-z0-9._-]")


def plain_lines(result: Result, message: Message) -> list[dict[str, Any]]:
    """The plain form of a decoded message: a line per event, or one error line."""
    if result.error is not None:
        return [plain_error(result.error, message)]
    return [plain_event(event, message) for event in result.events]
