"""Kafka in and out without Spark, by confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from ticdc_bridge.schemas.model.credentials import mask_settings
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.topics import TopicChoice

T = TypeVar("T", Consumer, Producer, AdminClient)
_TIMEOUT = 10.0
_GONE_AFTER = 5.0
_MOVING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def _ignore_error(error: KafkaError) -> None:
    """Connection trouble is told once, by the call that fails; librdkafka would print every attempt."""


_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)


def _reason(error: KafkaException) -> str:
    """What librdkafka says, without its codes."""
    why: KafkaError = error.args[0]
    away = "it can't be reached (is it the right HOST:PORT, and does it want TLS or SASL? --kafka-config): "
    return (away if why.code() in _AWAY else "") + why.str()


def _client(kind: type[T], config: dict[str, Any]) -> T:
    """A client. SetupError USAGE for settings that librdkafka does not take."""
    try:
        return kind(config)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
        raise SetupError("USAGE", details=f"Kafka settings: {mask_settings(reason, config)}") from error


def read_topic(topic: str, settings: Mapping[str, str], from_offset: int = 0) -> Iterator[Message]:
    """The topic's messages in the order partition, offset, up to the high watermarks seen at the start.

    Each partition is read from `from_offset`, or from its earliest offset where that is later.

    SetupError KAFKA_UNREACHABLE when the broker or the topic can't be had.
    """
    config: dict[str, Any] = {
        "group.id": "ticdc-bridge", "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "enable.partition.eof": False, **settings, "error_cb": _ignore_error, "log_level": 0,
    }  # fmt: skip
    consumer = _client(Consumer, config)
    servers = settings["bootstrap.servers"]
    try:
        ends = {p: _watermarks(consumer, topic, p) for p in _partitions(consumer, topic, servers)}
        for partition, (low, high) in sorted(ends.items()):
            start = max(low, from_offset)
            if start < high:
                yield from _read_partition(consumer, TopicPartition(topic, partition, start), high, servers)
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=_reason(error)) from error
    finally:
        consumer.close()


def read_range(topic: str, partition: int, start: int, end: int, settings: Mapping[str, str]) -> Iterator[Message]:
    """A partition's messages with offsets in [start, end). SetupError KAFKA_UNREACHABLE."""
    config: dict[str, Any] = {
        "group.id": "ticdc-bridge", "enable.auto.commit": False, "auto.offset.reset": "error",
        "enable.partition.eof": False, **settings, "error_cb": _ignore_error, "log_level": 0,
    }  # fmt: skip
    consumer, servers = _client(Consumer, config), settings["bootstrap.servers"]
    try:
        yield from _read_partition(consumer, TopicPartition(topic, partition, start), end, servers)
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=_reason(error)) from error
    finally:
        consumer.close()


def extents(topic: str, settings: Mapping[str, str]) -> dict[int, tuple[int, int]]:
    """(oldest offset, offset after the newest) of each partition. SetupError KAFKA_UNREACHABLE."""
    config = {"group.id": "ticdc-bridge", **settings, "error_cb": _ignore_error, "log_level": 0}
    consumer, servers = _client(Consumer, config), settings["bootstrap.servers"]
    try:
        ranges = {}
        for partition in _partitions(consumer, topic, servers):
            low, high = _watermarks(consumer, topic, partition)
            ranges[partition] = low, high
        return ranges
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=_reason(error)) from error
    finally:
        consumer.close()


def partition_counts(settings: Mapping[str, str], topic: str | None, prefix: str = "") -> dict[str, int]:
    """Partitions of the topic, or of all whose names begin with `prefix`. What is not there (yet) is left out.

    SetupError KAFKA_UNREACHABLE.
    """
    client, servers = (
        _client(AdminClient, {**settings, "error_cb": _ignore_error, "log_level": 0}),
        settings["bootstrap.servers"],
    )
    try:
        topics = (client.list_topics(topic, _TIMEOUT) if topic else client.list_topics(timeout=_TIMEOUT)).topics
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=_reason(error)) from error
    return {n: len(t.partitions) for n, t in topics.items() if t.error is None and n.startswith(prefix)}


def newest_offsets(counts: Mapping[str, int], settings: Mapping[str, str]) -> dict[tuple[str, int], int]:
    """The offset after the newest message of each partition. counts: partitions by topic. What the broker does not tell
    now is left out. SetupError KAFKA_UNREACHABLE.
    """
    client = _client(AdminClient, {**settings, "error_cb": _ignore_error, "log_level": 0})
    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(t, p): latest for t, count in counts.items() for p in range(count)}
    newest = {}
    try:
        for place, answer in client.list_offsets(asked, request_timeout=_TIMEOUT).items() if asked else ():
            with suppress(KafkaException, TimeoutError):
                newest[place.topic, place.partition] = int(answer.result(_TIMEOUT + 1).offset)
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=settings["bootstrap.servers"], details=_reason(error)) from error
    return newest


def topic_ids(topics: Collection[str], settings: Mapping[str, str]) -> dict[str, str]:
    """As `topic_id`, of several topics that are there; without those of which it can't be told."""
    client, ids = _client(AdminClient, {**settings, "error_cb": _ignore_error, "log_level": 0}), dict[str, str]()
    with suppress(KafkaException, ValueError):
        for name, answer in client.describe_topics(TopicCollection([*topics]), request_timeout=_TIMEOUT).items():
            with suppress(KafkaException, TimeoutError, ValueError):
                uuid = str(answer.result(_TIMEOUT + 1).topic_id)
                ids |= {name: uuid} if uuid not in ("None", _NO_ID) else {}
    return ids


def largest_messages(settings: Mapping[str, str], topics: Iterable[str]) -> dict[str, int]:
    """`max.message.bytes` of topics: larger messages a topic refuses. What the broker does not tell is left out."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    sizes = {}
    client = _client(AdminClient, {**settings, "error_cb": _ignore_error, "log_level": 0})
    for resource, answer in client.describe_configs(resources, request_timeout=_TIMEOUT).items() if resources else ():
        with suppress(KafkaException, KeyError, TimeoutError):  # no right to ask, an old broker, or it is away
            sizes[resource.name] = int(answer.result(_TIMEOUT + 1)["max.message.bytes"].value)
    return sizes


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """(oldest offset, offset after the newest). A partition that gets another leader just now is asked again."""
    end = time.monotonic() + _TIMEOUT
    while True:
        try:
            offsets: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)
            return offsets
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > end:
                raise
            time.sleep(0.2)


def topic_id(topic: str, settings: Mapping[str, str]) -> str | None:
    """What the broker knows a topic by: a topic deleted and created anew has another. None where it can't be told.

    SetupError KAFKA_UNREACHABLE when the broker says that there is no such topic.
    """
    servers = settings["bootstrap.servers"]
    client = _client(AdminClient, {**settings, "error_cb": _ignore_error, "log_level": 0})
    end = time.monotonic() + _GONE_AFTER
    while True:
        try:
            answers = client.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT)
            uuid = answers[topic].result(_TIMEOUT + 1).topic_id
            return str(uuid) if uuid is not None and str(uuid) != _NO_ID else None
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None  # an old broker, no right to ask, or it is away for a moment
            if time.monotonic() > end:
                details = f"topic {topic!r}: {error.args[0].str()}"
                raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=details) from error
            time.sleep(0.5)  # a broker that has just started may not know its topics yet
        except (TimeoutError, ValueError):
            return None


def _partitions(client: Consumer | Producer, topic: str, servers: str) -> list[int]:
    metadata = client.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    if metadata.error is not None:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=f"topic {topic!r}: {metadata.error.str()}")
    return list(metadata.partitions)


def _read_partition(consumer: Consumer, start: TopicPartition, high: int, servers: str) -> Iterator[Message]:
    consumer.assign([start])
    position, waited = start.offset, 0
    while position < high:
        batch = consumer.consume(1000, 1.0)
        for record in batch:
            if record.error() is not None:
                raise KafkaException(record.error())
            if record.offset() >= high:  # type: ignore[operator]  # an offset is None only with an error
                return
            yield Message.of_record(record)
        # Offsets without a record (transaction markers, compaction) end before the high watermark: ask where we are.
        position = max(consumer.position([start])[0].offset, position)
        waited = 0 if batch else waited + 1
        if waited > 30:
            details = f"{start.topic} partition {start.partition}: nothing came after offset {position} for 30 s"
            raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=details)


def same_topic_error(topic: str) -> str:
    """Says that a rule for topics names the one that is read."""
    return f"--topic: the rule gives {topic}, the topic that is read: the job would read what it wrote; name other ones"


class TopicWriter:
    """Writes messages to a topic, idempotently and in order; a message keeps its partition (modulo the topic's).

    topic: None: each message has its own. read: topics that none may have.
    """

    def __init__(self, topic: str | None, settings: Mapping[str, str], read: TopicChoice | None = None) -> None:
        self._servers = settings["bootstrap.servers"]
        config: dict[str, Any] = {
            "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", **settings,
            "error_cb": _ignore_error, "log_level": 0,
        }  # fmt: skip
        self._producer = _client(Producer, config)
        self._topic, self._read = topic, read
        self._partitions: dict[str, int] = {}
        self._failed: KafkaError | None = None

    def write(self, message: Message) -> None:
        """Queues a message. SetupError KAFKA_UNREACHABLE when an earlier one could not be written."""
        topic = self._topic or message.topic
        if topic is None:
            raise SetupError("USAGE", details="the message has no topic to write to: give kafka:TOPIC")
        if self._read is not None and self._read.takes(topic):
            raise SetupError("USAGE", details=same_topic_error(topic))
        if topic not in self._partitions:
            self._partitions[topic] = self._count(topic)
        count, partition = self._partitions[topic], -1  # librdkafka's partitioner
        if message.partition is not None and count:
            partition = message.partition % count  # what was in order, in one partition, stays so
        while True:
            try:
                self._producer.produce(
                    topic, message.value, message.key, on_delivery=self._on_delivery,
                    timestamp=message.timestamp or 0, headers=list(message.headers), partition=partition,
                )  # fmt: skip
                break
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as error:
                details = f"topic {topic}: {_reason(error)}"
                raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=details) from error
        self._producer.poll(0)
        self._check()

    def _count(self, topic: str) -> int:
        """Partitions of a topic; 0 for one that is not there yet: the broker makes it, or refuses the first message."""
        try:
            if self._producer.list_topics(topic, timeout=_TIMEOUT).topics[topic].error is not None:
                return 0
            return len(_partitions(self._producer, topic, self._servers))
        except KafkaException as error:
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=_reason(error)) from error

    def _on_delivery(self, error: KafkaError | None, _record: Any) -> None:
        if error is not None:
            self._failed = error

    def _check(self) -> None:
        if self._failed is not None:
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=self._failed.str())

    def close(self) -> None:
        """All messages are acknowledged, or SetupError."""
        left = self._producer.flush(60)
        self._check()
        if left:
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=f"{left} messages not acknowledged")

    def abandon(self) -> None:
        self._producer.purge()


def read_one(topic: str, partition: int, offset: int, settings: Mapping[str, str]) -> Message:
    """The message at an offset. SetupError USAGE when there is none, KAFKA_UNREACHABLE when the broker can't be had."""
    config: dict[str, Any] = {
        "group.id": "ticdc-bridge", "enable.auto.commit": False, "auto.offset.reset": "error",
        **settings, "error_cb": _ignore_error, "log_level": 0,
    }  # fmt: skip
    consumer = _client(Consumer, config)
    servers = settings["bootstrap.servers"]
    try:
        if partition not in _partitions(consumer, topic, servers):
            raise SetupError("USAGE", details=f"topic {topic!r} has no partition {partition}")
        place = TopicPartition(topic, partition, offset)
        low, high = _watermarks(consumer, topic, partition)
        if not low <= offset < high:
            details = f"topic {topic!r} partition {partition} has offsets {low} to {high - 1}, not {offset}"
            raise SetupError("USAGE", details=details)
        message = next(_read_partition(consumer, place, high, servers), None)
    except KafkaException as error:
        raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=_reason(error)) from error
    finally:
        consumer.close()
    if message is None or message.offset != offset:
        details = f"topic {topic!r} partition {partition} has no message at offset {offset}"
        raise SetupError("USAGE", details=f"{details}: compacted away, or a transaction's marker")
    return message
