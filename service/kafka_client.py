"""Kafka as the service reads it: one message of a topic, TOPIC@PARTITION:OFFSET, by a consumer of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from schemas.inputs.kafka_settings import client_settings
from schemas.model.errors import BridgeError
from schemas.model.event import Message

_NO_TIMESTAMP: Final = 0


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
    try:
        from confluent_kafka import Consumer, KafkaException, TopicPartition
    except ImportError:
        raise FetchError("Kafka needs the package confluent-kafka, which is not installed here.") from None
    until = time.monotonic() + seconds
    try:
        settings = client_settings(servers or None, config)
    except BridgeError as error:
        raise FetchError(error.detail) from None
    of: dict[str, Any] = {
        **settings, "group.id": "ticdc-bridge-explain", "enable.auto.commit": False,
        "enable.auto.offset.store": False, "auto.offset.reset": "error", "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": 1024, "log_level": 0,
    }  # fmt: skip
    where = TopicPartition(topic, partition, offset)
    consumer = None
    try:
        consumer = Consumer(of)
        metadata = consumer.list_topics(topic, timeout=seconds).topics[topic]
        if metadata.error is not None:
            raise FetchError(f"Topic {topic}: {metadata.error.str()}")
        if partition not in metadata.partitions:
            raise FetchError(f"Topic {topic} has no partition {partition}; it has {len(metadata.partitions)}.")
        low, high = consumer.get_watermark_offsets(where, timeout=max(until - time.monotonic(), 0.1))
        if not low <= offset < high:
            raise FetchError(f"{topic}@{partition} has no message {offset}; it has those from {low} to before {high}.")
        consumer.assign([where])
        record = consumer.poll(max(until - time.monotonic(), 0.1))
    except (KafkaException, BridgeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else error.detail
        raise FetchError(f"Kafka at {settings['bootstrap.servers']}: {reason}") from error
    finally:
        if consumer is not None:
            consumer.close()
    if record is None:
        raise FetchError(f"No message came from {text} within {seconds:g} seconds.")
    if (trouble := record.error()) is not None:
        raise FetchError(f"{text}: {trouble.str()}")
    if record.offset() != offset:
        raise FetchError(f"{text} holds no message; the next one is {record.offset()}.")
    return message_of(record)
