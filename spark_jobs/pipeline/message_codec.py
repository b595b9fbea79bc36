"""One message through the codecs, in-process and in Spark workers alike: bytes → events → plain lines or messages."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

from ticdc_bridge.schemas.formats.base import BatchEncoder, Decoder, Encoder
from ticdc_bridge.schemas.formats.definitions import name_definition
from ticdc_bridge.schemas.formats.framing import carried_headers
from ticdc_bridge.schemas.inspect import checksum
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, Bootstrap, DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.plain.writer import plain_error, plain_event
from ticdc_bridge.spark_jobs.pipeline.event_order import order_of
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, MessageResult, mismatches_of, skipped_kind
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.pipeline.topic_rules import topic_by_rule


def decode_message(
    decoder: Decoder, message: Message, verify_checksum: bool = False, marked: bool = False,
    chosen: TableChoice | None = None,
) -> MessageResult:  # fmt: skip
    """Message → its events, or the error. chosen: the tables whose events are taken."""
    try:
        result = _decode(decoder, message)
        if chosen is not None:
            _leave_out(result, chosen)
        if marked:
            result.marks = [order_of(event, message, n) for n, event in enumerate(result.events)]
        for event in result.events if verify_checksum else ():
            if isinstance(event, RowChange):
                checks = checksum.verify(event)
                result.checksums += [check.outcome for check in checks] or ["absent"]
                wrong = (check for check in checks if check.outcome == "mismatch")
                result.notes += [f"{position_text(message)} {event.table.id}: {check}" for check in wrong]
        return result
    except WireError as error:
        return MessageResult(error=error)
    except RecursionError:
        return MessageResult(error=_too_deep_error())


def position_text(message: Message) -> str:
    """topic/partition/offset, `-` for what is not known."""
    return "/".join(
        "-" if piece is None else str(piece) for piece in (message.topic, message.partition, message.offset)
    )


def _decode(decoder: Decoder, message: Message) -> MessageResult:
    """A message that holds no event (a tombstone after a delete) is counted as skipped, never silently gone."""
    events = decoder.decode(message)
    for number, event in enumerate(events):
        if number and isinstance(event, RowChange):
            event.number = number
        if event.commit_ts is not None and not 0 <= event.commit_ts <= MAX_TSO:
            details = f"commit_ts {event.commit_ts} is no TSO (physical ms << 18)"
            raise WireError("MALFORMED", where="value", details=details)
    if events:
        return MessageResult(events)
    return MessageResult(skipped=["tombstone" if message.value is None else "empty"])


def _leave_out(result: MessageResult, chosen: TableChoice) -> None:
    """Takes rows and DDL of other tables out, which are counted; what is of no table stays."""
    named = ((event, event.table_name) for event in result.events if isinstance(event, RowChange | DdlEvent))
    out = {id(event) for event, name in named if name and not chosen.takes(TableId(event.db, name))}
    if out:
        result.events = [event for event in result.events if id(event) not in out]
        result.skipped += [OTHER_TABLE] * len(out)


def transcode_message(
    decoder: Decoder, encoder: Encoder, message: Message, topic: str | None = None, marked: bool = False,
    chosen: TableChoice | None = None,
) -> MessageResult:  # fmt: skip
    """Message → messages of the other format or the error.

    topic: TiCDC's topic rule for what is written, such as tidb_{schema}_{table}; None: the message's own topic.
    marked: with the marks of what is written; then rows are written one by one, also in formats with batches.
    chosen: the tables whose events are taken.
    """
    decoded: list[Event] = []
    try:
        read, message = _decode(decoder, message), _carried(message)
        if chosen is not None:
            _leave_out(read, chosen)
        decoded = read.events
        if marked:
            for number, event in enumerate(read.events):
                before = len(read.out)
                _encode(encoder, [event], _with_topic(topic, event, message, encoder), read)
                if len(read.out) > before:
                    read.marks.append(order_of(event, message, number, len(read.out) - before))
            return read
        for to, events in groupby(read.events, lambda e: _with_topic(topic, e, message, encoder)):
            _encode(encoder, list(events), to, read)
    except WireError as error:
        return MessageResult(error=error, mismatches=mismatches_of(decoded))
    except RecursionError:
        return MessageResult(error=_too_deep_error())
    return read


def _carried(message: Message) -> Message:
    """The message with no other headers than those that go on to what is made of it."""
    return replace(message, headers=carried_headers(message.headers)) if message.headers else message


def _with_topic(topic: str | None, event: Event, message: Message, encoder: Encoder) -> Message:
    """The message that an event is from, with the topic that what is written goes to: by the rule, or the format's."""
    if topic is not None:
        return replace(message, topic=topic_by_rule(topic, event))
    topic_of: Callable[[Event], str | None] | None = getattr(encoder, "topic_of", None)
    chosen = topic_of(event) if topic_of else None
    return message if chosen is None else replace(message, topic=chosen)


def _encode(encoder: Encoder, events: list[Event], origin: Message, result: MessageResult) -> None:
    """Writes events of one message for one topic; rows of a format with batches go together."""
    rows = [event for event in events if isinstance(event, RowChange)]
    try:
        for row in rows:
            if row.key_only and row.op != "d" and not getattr(encoder, "key_only_rows", False):
                details = "the message carries only the key of the row, and the format written has no form for that"
                raise WireError("KEY_ONLY_ROW", table=str(row.table.id), details=details)
        if isinstance(encoder, BatchEncoder) and len(rows) == len(events):
            result.out += encoder.encode_rows(rows, origin)
            return
        for event in events:
            messages = [] if isinstance(event, Bootstrap) else encoder.encode(event, origin)
            result.out += messages
            if not messages:
                result.skipped.append(skipped_kind(event))
    except WireError as error:
        raise name_definition(error, next(iter(rows), None)) from error


def _too_deep_error() -> WireError:
    return WireError("MALFORMED", where="value", details="nested too deep")


def encode_event(encoder: Encoder, event: Event, origin: Message, topic: str | None = None) -> MessageResult:
    """An event → what is written for it. WireError. topic: as transcode_message."""
    result = MessageResult([event])
    _encode(encoder, [event], _with_topic(topic, event, _carried(origin), encoder), result)
    return result


def plain_lines(result: MessageResult, message: Message) -> list[dict[str, Any]]:
    """The plain form of a decoded message: a line per event, or one error line."""
    if result.error is not None:
        return [plain_error(result.error, message)]
    return [plain_event(event, message) for event in result.events]
