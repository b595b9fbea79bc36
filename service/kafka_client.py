"""Clients of Kafka (librdkafka): how they are made, what their failures are called, and one message by its place.

confluent-kafka is imported when the first client is made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from schemas.inputs.kafka_settings import client_settings
from schemas.model.credentials import mask_settings
from schemas.model.errors import BridgeError, SetupError
from schemas.model.event import Message

_NO_TIMESTAMP: Final = 0


def library() -> Any:
    """confluent_kafka. Raises SetupError where it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise SetupError("USAGE", details="Kafka needs confluent-kafka: pip install 'ticdc-bridge[service]'") from None
    return confluent_kafka


def make_client(kind: Callable[[dict[str, Any]], Any], settings: Mapping[str, Any]) -> Any:
    """A client of a kind, such as `library().Consumer`. Raises SetupError for settings that librdkafka does not take.

    Connection trouble is told once, by the call that fails, unless the settings have an `error_cb`.
    """
    try:
        return kind({"error_cb": lambda _error: None, **settings, "log_level": 0})
    except (library().KafkaException, ValueError, TypeError) as error:
        reason = mask_settings(_reason(error), settings)
        raise SetupError("USAGE", details=f"Kafka settings: {reason}") from error


class KafkaErrors:
    """A block in which librdkafka's errors become SetupError KAFKA_UNREACHABLE. told: what else is known of why."""

    def __init__(self, servers: str, told: Callable[[], str] = str) -> None:
        self._servers, self._told = servers, told

    def __enter__(self) -> None:
        library()

    def __exit__(self, kind: Any, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, library().KafkaException):
            raise self.error_of(error) from error

    def error_of(self, error: Any) -> SetupError:
        details = f"{_reason(error)} {self._told()}".strip()
        return SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=details)


def _reason(error: Any) -> str:
    first = error.args[0] if getattr(error, "args", None) else error
    return str(first.str() if hasattr(first, "str") else first)


def message_of(record: Any) -> Message:
    kind, timestamp = record.timestamp()
    headers = tuple((name, value) for name, value in record.headers() or ())
    stamped = None if kind == _NO_TIMESTAMP else timestamp
    return Message(record.key(), record.value(), record.topic(), record.partition(), record.offset(), stamped, headers)


_SECONDS: Final = 5.0
_PLACE: Final = re.compile(r"([A-Za-z0-9._-]{1,249})@([0-9]{1,10}):([0-9]{1,19})")
_MOST_PARTITION: Final = 2**31 - 1
_MOST_OFFSET: Final = 2**63 - 1


class FetchError(ValueError):
    """No message; the text says why."""


def place_of(text: str) -> tuple[str, int, int]:
    """Topic, partition and offset of `TOPIC@PARTITION:OFFSET`. Raises FetchError."""
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > _MOST_PARTITION or int(match[3]) > _MOST_OFFSET:
        raise FetchError(f"{text!r} is no message's place; write TOPIC@PARTITION:OFFSET, such as shop@0:17.")
    return match[1], int(match[2]), int(match[3])


def make_fetcher(servers: str, config: str) -> Callable[[str], Message] | None:
    """`fetch` with the Kafka of the settings; None if they name none."""
    if not servers and not config:
        return None
    return lambda text: fetch(servers, text, config=Path(config) if config else None)


def fetch(servers: str, text: str, seconds: float = _SECONDS, config: Path | None = None) -> Message:
    """The message at `TOPIC@PARTITION:OFFSET`; blocks, about `seconds` at most. Raises FetchError.

    No group is joined and no offset committed. An offset without a message (deleted, compacted, a transaction's
    marker) is an error: the next message would be another one.
    """
    topic, partition, offset = place_of(text)
    until = time.monotonic() + seconds
    try:
        settings = client_settings(servers or None, config)
        own: dict[str, Any] = {
            **settings, "group.id": "ticdc-bridge-explain", "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "allow.auto.create.topics": False,
            "queued.max.messages.kbytes": 1024,
        }  # fmt: skip
        with KafkaErrors(settings["bootstrap.servers"]), closing(make_client(library().Consumer, own)) as consumer:
            where = library().TopicPartition(topic, partition, offset)
            metadata = consumer.list_topics(topic, timeout=seconds).topics[topic]
            if metadata.error is not None:
                raise FetchError(f"Topic {topic}: {metadata.error.str()}")
            if partition not in metadata.partitions:
                raise FetchError(f"Topic {topic} has no partition {partition}; it has {len(metadata.partitions)}.")
            low, high = consumer.get_watermark_offsets(where, timeout=max(until - time.monotonic(), 0.1))
            if not low <= offset < high:
                there = f"it has those from {low} to before {high}"
                raise FetchError(f"{topic}@{partition} has no message {offset}; {there}.")
            consumer.assign([where])
            record = consumer.poll(max(until - time.monotonic(), 0.1))
    except BridgeError as error:
        raise FetchError(error.detail) from error
    if record is None:
        raise FetchError(f"No message came from {text} within {seconds:g} seconds.")
    if (trouble := record.error()) is not None:
        raise FetchError(f"{text}: {trouble.str()}")
    if record.offset() != offset:
        raise FetchError(f"{text} holds no message; the next one is {record.offset()}.")
    return message_of(record)
