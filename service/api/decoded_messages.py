"""Messages of a topic as people read them: events with the table version they have, or the reason why there is none.

Also dead letters: how many by which reason, and sent again to where they came from (schemas.inputs.replay).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, DETAIL, ORIGIN, REASON, attempts
from ticdc_bridge.schemas.inputs.replay import LetterFilter, replay
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError, WireError
from ticdc_bridge.schemas.model.event import Event, Message, Watermark
from ticdc_bridge.schemas.model.names import topic_subject
from ticdc_bridge.schemas.model.ports import SchemaSource
from ticdc_bridge.schemas.model.table import TableId, TableVersion
from ticdc_bridge.schemas.plain.writer import plain_event
from ticdc_bridge.service.api.kafka_topics import KafkaTopics
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.model import HistoryReader, State, TableVersionRow, time_text

MOST_EVENTS: Final = 50
"""Of one message; how many there are is said."""
_SHOWN_BYTES: Final = 200


class HistoryDefinitions:
    """Table versions of a changefeed's history (schemas.model.ports.TableSource); each table is read once."""

    def __init__(self, history: HistoryReader, changefeed: str) -> None:
        self._history, self._changefeed = history, changefeed
        self._rows: dict[TableId, list[TableVersionRow]] = {}

    def load(self, tables: Iterable[TableId]) -> None:
        """Reads several tables at once."""
        if lacking := {id_.folded for id_ in tables} - self._rows.keys():
            self._rows |= self._history.versions_of(self._changefeed, lacking)

    def row_at(self, table: TableId, commit_ts: int | None) -> TableVersionRow | None:
        """The version that a row with this commit_ts has; None where nothing is known of the table until then."""
        self.load([table])
        rows = self._rows.get(table.folded, [])
        index = len(rows) if commit_ts is None else bisect_left(rows, commit_ts, key=lambda row: row.from_ts)
        return rows[index - 1] if index else None

    # ---- schemas.model.ports.TableSource
    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        row = self.row_at(table, commit_ts)
        if row is None or row.table is None or row.state is not State.KNOWN:
            return None
        return TableVersion(row.from_ts, row.table)

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return None  # Avro's schemas have the types


def check_format(name: str) -> None:
    """RegistryError UNPROCESSABLE for a name that is no format's."""
    try:
        format_named(name)
    except SetupError as error:
        raise RegistryError("UNPROCESSABLE", details=error.detail) from None


def decode_messages(
    messages: Sequence[Message], format_name: str, schemas: SchemaSource, history: HistoryReader, changefeed: str | None
) -> list[dict[str, Any]]:
    """Each message as an object, in order. changefeed: whose history tells versions. SetupError USAGE: no format."""
    tables = None if changefeed is None else HistoryDefinitions(history, changefeed)
    decode = format_named(format_name).decoder(Context(schemas, tables)).decode
    decoded = [(message, *_decode(decode, message)) for message in messages]
    if tables is not None:
        tables.load(TableId(*name) for _, events, _ in decoded for event in events if (name := _table_name(event)))
    return [
        {
            **_position_form(message),
            "format": events[0].format if events else _find_format(message, schemas, format_name),
            "events": [_event_form(event, tables) for event in events[:MOST_EVENTS]],
            "events_total": len(events),
            "error": None if error is None else {"code": error.code, "detail": error.detail},
            "dead_letter": letter_form(message),
        }
        for message, events, error in decoded
    ]


def _decode(decode: Callable[[Message], list[Event]], message: Message) -> tuple[list[Event], BridgeError | None]:
    try:
        return decode(message), None
    except (WireError, SetupError) as error:
        return [], error


def _find_format(message: Message, schemas: SchemaSource, format_name: str) -> str | None:
    """The format of a message that gives no event."""
    if format_name != "auto":
        return format_name
    message_field = "key" if message.value is None else "value"
    subject = topic_subject(message.topic, message_field)
    try:
        return detect_format(
            message.key, message.value, lambda i: schemas.by_id(i, message_field, subject), message.headers
        ).format
    except BridgeError:
        return None


def _position_form(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic, "partition": message.partition, "offset": message.offset,
        "timestamp": message.timestamp, "time": None if message.timestamp is None else time_of(message.timestamp),
        "key": _bytes_form(message.key), "value": _bytes_form(message.value),
        "headers": [{"name": name, "value": _bytes_form(value)} for name, value in message.headers],
    }  # fmt: skip


def _bytes_form(data: bytes | None) -> dict[str, Any] | None:
    """How many bytes, and the first of them: as text where they are text, else in hex."""
    if data is None:
        return None
    try:
        begin = data[:_SHOWN_BYTES].decode("utf-8", "strict" if len(data) <= _SHOWN_BYTES else "ignore")
        if all(entry.isprintable() or entry in "\t\r\n" for entry in begin):
            return {"bytes": len(data), "text": begin}
    except UnicodeDecodeError:
        pass
    return {"bytes": len(data), "hex": data[: _SHOWN_BYTES // 4].hex()}


def letter_form(message: Message) -> dict[str, Any] | None:
    """Why a dead letter is one, by its headers; None for a message that is none."""
    headers = {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers}
    if not headers.get(REASON):
        return None
    names = {"reason": REASON, "detail": DETAIL, "origin": ORIGIN, "attempt": ATTEMPT}
    return {name: headers.get(header) for name, header in names.items()}


def _table_name(event: Event) -> tuple[str, str] | None:
    if isinstance(event, Watermark) or not event.table_name:
        return None
    return event.db, event.table_name


def _event_form(event: Event, tables: HistoryDefinitions | None) -> dict[str, Any]:
    """The plain form, with the time of its commit_ts and the table version that it has or, of DDL, that it made."""
    form, name, commit_ts = plain_event(event), _table_name(event), event.commit_ts
    for at in ("topic", "partition", "offset"):
        del form[at]
    version = None
    if tables is not None and name is not None and commit_ts is not None:
        row = tables.row_at(TableId(*name), commit_ts if form["kind"] == "row" else commit_ts + 1)
        version = None if row is None else {"commit_ts": row.from_ts, "state": str(row.state)}
    return {**form, "commit_time": None if commit_ts is None else time_text(commit_ts), "version": version}


def time_of(milliseconds: int) -> str | None:
    """A message's time in UTC; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (OverflowError, ValueError, OSError):
        return None


MOST_LETTERS: Final = 50_000
_LOOK_SECONDS: Final = 8.0
_REPLAY_SECONDS: Final = 25.0
_SHOWN_ORIGINS: Final = 5


@dataclass(slots=True)
class _Reason:
    """The letters of one reason. example: the newest."""

    count: int = 0
    first: int | None = None
    last: int | None = None
    attempts: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    example: Message | None = None

    def add(self, letter: Message, form: Mapping[str, Any]) -> None:
        self.count += 1
        self.attempts = max(self.attempts, attempts(letter))
        topic = (form["origin"] or "").rsplit("/", 2)
        self.origins[topic[0] if len(topic) == 3 and topic[0] != "-" else "unknown"] += 1
        if letter.timestamp is not None:
            self.first = min(letter.timestamp, letter.timestamp if self.first is None else self.first)
        if self.last is None or (letter.timestamp or 0) >= self.last:
            self.last, self.example = letter.timestamp, letter

    def form(self, reason: str) -> dict[str, Any]:
        assert self.example is not None
        example = letter_form(self.example) or {}
        return {
            "reason": reason, "count": self.count, "attempts": self.attempts,
            "first": None if self.first is None else time_of(self.first),
            "last": None if self.last is None else time_of(self.last),
            "origins": [{"topic": topic, "count": n} for topic, n in self.origins.most_common(_SHOWN_ORIGINS)],
            "example": {"partition": self.example.partition, "offset": self.example.offset,
                        "detail": example.get("detail"), "origin": example.get("origin")},
        }  # fmt: skip


def count_reasons(kafka: KafkaTopics, topic: str) -> dict[str, Any]:
    """The dead letters of a topic by reason, the most frequent first. whole: whether all of the topic was read."""
    messages, extents, is_complete = kafka.read_range(topic, None, MOST_LETTERS, _LOOK_SECONDS)
    reasons, others = dict[str, _Reason](), 0
    for message in messages:
        form = letter_form(message)
        if form is None:
            others += 1
        else:
            reasons.setdefault(form["reason"], _Reason()).add(message, form)
    ordered = sorted(reasons.items(), key=lambda entry: (-entry[1].count, entry[0]))
    return {
        "topic": topic, "messages": sum(high - low for low, high in extents.values()), "read": len(messages),
        "whole": is_complete, "reasons": [entry.form(reason) for reason, entry in ordered], "no_dead_letters": others,
        "ends": {str(partition): high for partition, (_, high) in extents.items()},
    }  # fmt: skip


_NO_SENDER: Final[Any] = SimpleNamespace(write=lambda message: None, close=lambda: None, abandon=lambda: None)
"""Takes the letters of a dry run, which `replay` counts."""


def replay_letters(
    kafka: KafkaTopics, topic: str, letters: LetterFilter, ends: Mapping[int, int] | None, *, dry_run: bool
) -> dict[str, Any]:
    """Sends the chosen letters to the topics they came from; a dry run counts only. ends: those of the messages that
    are looked at, None for all there are now.

    RegistryError UNPROCESSABLE, with nothing sent, for a topic that can't be read whole here, and where a topic that
    letters came from is not there. SetupError KAFKA_UNREACHABLE says how many were sent before.
    """
    messages, extents, is_complete = kafka.read_range(topic, ends, MOST_LETTERS, _REPLAY_SECONDS)
    if not is_complete:
        details = (
            f"Topic {topic} can't be read whole in {_REPLAY_SECONDS:g} s ({MOST_LETTERS} letters and 32 MiB at "
            f"most), and nothing was sent: use ticdc-bridge replay --in kafka:{topic} --out kafka:"
        )
        raise RegistryError("UNPROCESSABLE", details=details)
    planned = replay(lambda: messages, letters, _NO_SENDER)
    wanted: Iterable[str] = (name for name in planned.topics if name is not None)
    missing = sorted(set(wanted) - kafka.names()) if planned.topics else []
    if missing and not dry_run:
        details = f"Topics that letters came from are not there: {', '.join(missing)}. Nothing was sent."
        raise RegistryError("UNPROCESSABLE", details=details)
    counts = planned if dry_run else replay(lambda: messages, letters, kafka.sender())
    return {
        "topic": topic, "dry_run": dry_run, "read": counts.read, "sent": counts.sent,
        "topics": [{"topic": name, "count": n} for name, n in sorted(counts.topics.items(), key=repr)],
        "left_out": [{"why": why, "count": n} for why, n in sorted(counts.left.items())],
        "too_many_attempts": counts.tired, "missing_topics": missing,
        "ends": {str(partition): end for partition, (_, end) in extents.items()},
    }  # fmt: skip
