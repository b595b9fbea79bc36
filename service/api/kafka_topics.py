"""Topics as pages look at them: names, last messages, a message by its offset; and messages sent.

No group is joined and no offset committed. Each call blocks, for seconds at most, also where Kafka is away.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.clients import kafka
from ticdc_bridge.schemas.inputs.kafka_settings import client_settings
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.errors import RegistryError

SECONDS: Final = 5.0
MOST_BYTES: Final = 32 << 20
_WIDER: Final = 8
_FLUSH_SECONDS: Final = 30.0

Extents = dict[int, tuple[int, int]]
"""Partition → its oldest offset, and the offset after its newest message."""


@dataclass(frozen=True, slots=True)
class LastMessages:
    """messages: in the order partition, offset. unread: partitions that were not read to their end in time. left_out:
    messages that were too large together. older: before which offset of each partition to go on; empty at the end."""

    messages: list[Message]
    extents: Extents
    older: dict[int, int]
    unread: tuple[int, ...] = ()
    left_out: int = 0


class KafkaTopics:
    """The Kafka of settings. SetupError KAFKA_UNREACHABLE, UNKNOWN_TOPIC, USAGE; RegistryError MESSAGE_NOT_FOUND."""

    def __init__(self, servers: str, config: str) -> None:
        self._servers, self._config = servers, config

    def topics(self, names: Callable[[str], bool], offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
        """Those whose names are wanted, by name: a part of the list as JSON; and how many in all.

        messages: offsets between the oldest and the newest message; None where the broker did not say.
        """
        until = time.monotonic() + SECONDS
        settings = self._settings()
        with kafka.connection(settings) as errors:
            client = kafka.make_client(kafka.library().admin.AdminClient, {**settings, "error_cb": errors})
            every = kafka.find_topics(client, errors, until)
            wanted = sorted(name for name, value in every.items() if value.error is None and names(name))
            some = wanted[offset : offset + limit]
            topic_partitions = [(name, partition) for name in some for partition in every[name].partitions]
            left = max(until - time.monotonic(), 0.5)
            low, high = (kafka.list_offsets(client, topic_partitions, which, left) for which in ("earliest", "latest"))
        rows = []
        for name in some:
            of = [(name, partition) for partition in every[name].partitions]
            counted = all(topic_partition in low and topic_partition in high for topic_partition in of)
            messages = sum(high[topic_partition] - low[topic_partition] for topic_partition in of) if counted else None
            rows.append({"topic": name, "partitions": len(of), "messages": messages})
        return rows, len(wanted)

    def names(self) -> set[str]:
        settings = self._settings()
        with kafka.connection(settings) as errors:
            client = kafka.make_client(kafka.library().admin.AdminClient, {**settings, "error_cb": errors})
            every = kafka.find_topics(client, errors, time.monotonic() + SECONDS)
        return {name for name, value in every.items() if value.error is None}

    def message_at(self, topic: str, partition: int, offset: int) -> Message:
        """RegistryError MESSAGE_NOT_FOUND where there is none at this offset: the next one would be another message."""
        with self._reader(topic, SECONDS) as reader:
            extents = reader.extents
            if partition not in extents:
                details = f"Topic {topic} has no partition {partition}; it has {len(extents)}, counted from 0."
                raise RegistryError("MESSAGE_NOT_FOUND", details=details)
            low, high = extents[partition]
            if not low <= offset < high:
                lines = f"it has those from {low} to before {high}" if high > low else "it has none"
                details = f"{topic}@{partition} has no message {offset}; {lines}."
                raise RegistryError("MESSAGE_NOT_FOUND", details=details)
            for message in reader.read({partition: (offset, offset + 1)}):
                return message
        details = f"{topic}@{partition} has no message {offset}: it was compacted away, or marks a transaction."
        if reader.unread:
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details="it sent no message in time")
        raise RegistryError("MESSAGE_NOT_FOUND", details=details)

    def last_messages(
        self, topic: str, count: int, partition: int | None = None,
        before: Mapping[int, int] = {}, before_ms: int | None = None,
    ) -> LastMessages:  # fmt: skip
        """The newest `count` messages by time, of all partitions or one, before these offsets and time (ms)."""
        with self._reader(topic, SECONDS) as reader:
            every = reader.extents
            if partition is not None and partition not in every:
                details = f"Topic {topic} has no partition {partition}; it has {len(every)}, counted from 0."
                raise RegistryError("MESSAGE_NOT_FOUND", details=details)
            ends = reader.offsets_at(before_ms) if before_ms is not None else {}
            extents = {
                name: (low, max(low, min(high, before.get(name, high), ends.get(name, high))))
                for name, (low, high) in every.items()
                if partition in (None, name)
            }
            newest: list[tuple[tuple[int, int, int], Message]] = []
            times, not_shown = dict[int, int](), dict[int, int]()
            begin = {name: high for name, (_, high) in extents.items()}
            span, seen, size, left_out = count, 0, 0, 0
            # Transactions' markers and compaction leave offsets without a message: then further back.
            while any(begin[entry] > low for entry, (low, _) in extents.items()):
                ranges = {}
                for name, (low, _) in extents.items():
                    start = max(begin[name] - span, low)
                    if start < begin[name]:
                        ranges[name], begin[name] = (start, begin[name]), start
                for message in reader.read(ranges):
                    seen, size = seen + 1, size + _size(message)
                    name, offset = _position(message)
                    # A message is as new as those before it in its partition: pages are without gaps.
                    times[name] = max(times.get(name, 0), message.timestamp or 0)
                    heapq.heappush(newest, ((times[name], offset, name), message))
                    while len(newest) > count or (size > MOST_BYTES and len(newest) > 1):
                        left_out += len(newest) <= count
                        (_, offset, name), popped = heapq.heappop(newest)
                        not_shown[name] = max(not_shown.get(name, 0), offset + 1)
                        size -= _size(popped)
                if seen >= count or reader.unread:
                    break
                span *= _WIDER
            messages = sorted((message for _, message in newest), key=_position)
            older = {
                name: high if name in reader.unread else max(begin[name], not_shown.get(name, low))
                for name, (low, high) in extents.items()
            }
            is_end = all(older[name] <= low for name, (low, _) in extents.items())
            return LastMessages(messages, every, {} if is_end else older, tuple(sorted(reader.unread)), left_out)

    def read_range(
        self, topic: str, ends: Mapping[int, int] | None, most: int, seconds: float
    ) -> tuple[list[Message], Extents, bool]:
        """Messages of a topic up to `ends` (None: all there are now), in the order partition, offset.

        Returns them, the offsets that were meant, and whether that is all: no more than `most` offsets, bytes up to
        MOST_BYTES and what came within `seconds` is read. Of more, the newest of each partition.
        """
        messages, size, is_complete = list[Message](), 0, True
        with self._reader(topic, seconds) as reader:
            extents = {
                name: (low, high if ends is None else max(low, min(high, ends.get(name, low))))
                for name, (low, high) in reader.extents.items()
            }
            share = max(most // max(len(extents), 1), 1)
            if sum(high - low for low, high in extents.values()) > most:
                is_complete = False
                ranges = {name: (max(low, high - share), high) for name, (low, high) in extents.items()}
            else:
                ranges = dict(extents)
            for message in reader.read(ranges):
                size += _size(message)
                if size > MOST_BYTES:
                    is_complete = False
                    break
                messages.append(message)
            is_complete = is_complete and not reader.unread
        return sorted(messages, key=_position), extents, is_complete

    def sender(self) -> kafka.TopicWriter:
        return kafka.TopicWriter(None, self._settings(), must_exist=True, seconds=_FLUSH_SECONDS)

    # ---- clients
    def _settings(self) -> dict[str, str]:
        return client_settings(self._servers or None, Path(self._config) if self._config else None)

    @contextmanager
    def _reader(self, topic: str, seconds: float) -> Iterator[_TopicReader]:
        kafka.check_name(topic)
        until, settings = time.monotonic() + seconds, self._settings()
        settings.pop("group.instance.id", None)
        with kafka.connection(settings) as errors:
            config: dict[str, Any] = {
                **settings, "group.id": "ticdc-bridge-pages", "enable.auto.commit": False,
                "enable.auto.offset.store": False, "auto.offset.reset": "earliest", "allow.auto.create.topics": False,
                "enable.partition.eof": True, "queued.max.messages.kbytes": 8192, "error_cb": errors,
            }  # fmt: skip
            with closing(kafka.make_client(kafka.library().Consumer, config)) as consumer:
                yield _TopicReader(topic, consumer, settings, errors, until)


class _TopicReader:
    """A consumer of one topic, from its metadata to its messages, until a time."""

    def __init__(
        self, topic: str, consumer: Any, settings: Mapping[str, str], errors: kafka.ClientErrors, until: float
    ) -> None:
        self._topic, self._consumer, self._settings, self._until = topic, consumer, settings, until
        self.unread: set[int] = set()
        metadata = kafka.find_topics(self._consumer, errors, self._until, self._topic)[self._topic]
        if metadata.error is not None:
            raise kafka.topic_error(self._consumer, self._topic, metadata.error, errors.servers)
        client = kafka.make_client(kafka.library().admin.AdminClient, {**self._settings, "error_cb": errors})
        positions = [(self._topic, partition) for partition in metadata.partitions]
        low, high = (
            kafka.list_offsets(client, positions, which, max(self._until - time.monotonic(), 0.5))
            for which in ("earliest", "latest")
        )
        for at in positions:
            if at not in low or at not in high:
                details = f"topic {self._topic}: Kafka did not send the offsets of partition {at[1]} in time"
                raise SetupError("KAFKA_UNREACHABLE", servers=errors.servers, details=details)
        self.extents = {at[1]: (low[at], high[at]) for at in sorted(positions)}

    def offsets_at(self, milliseconds: int) -> dict[int, int]:
        """The first offset of each partition with this time or a later one; without those that have none."""
        kinds, left = kafka.library().TopicPartition, max(self._until - time.monotonic(), 0.5)
        asked = [kinds(self._topic, partition, milliseconds) for partition in self.extents]
        found = self._consumer.offsets_for_times(asked, timeout=left)
        if error := next((at.error for at in found if at.error is not None), None):
            raise kafka.library().KafkaException(error)
        return {at.partition: at.offset for at in found if at.offset >= 0}

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
        """The messages of each partition from an offset to before another. What is not read in time is in `unread`."""
        ends = {name: end for name, (start, end) in ranges.items() if start < end}
        if not ends:
            return
        kinds, codes = kafka.library().TopicPartition, kafka.library().KafkaError
        self._consumer.assign([kinds(self._topic, end, ranges[end][0]) for end in ends])
        open_ends = dict(ends)
        while open_ends and (left := self._until - time.monotonic()) > 0:
            for record in self._consumer.consume(500, min(left, kafka.SLICE)):
                topic_partition = record.partition()
                if (error := record.error()) is not None:
                    if error.code() != codes._PARTITION_EOF:
                        raise kafka.library().KafkaException(error)
                    open_ends.pop(topic_partition, None)
                    continue
                if record.offset() < ends[topic_partition] and record.offset() >= ranges[topic_partition][0]:
                    yield Message.of_record(record)
                if record.offset() >= ends[topic_partition] - 1:
                    open_ends.pop(topic_partition, None)
        self.unread |= open_ends.keys()


def _position(message: Message) -> tuple[int, int]:
    return message.partition or 0, message.offset or 0


def _size(message: Message) -> int:
    return len(message.key or b"") + len(message.value or b"")


def make_topics(servers: str, config: str) -> KafkaTopics | None:
    """The Kafka of the settings; None if they name none. SetupError USAGE for a file that is not there."""
    if config and not Path(config).is_file():
        raise SetupError("USAGE", details=f"--kafka-config {config}: there is no such file")
    return KafkaTopics(servers, config) if servers or config else None
