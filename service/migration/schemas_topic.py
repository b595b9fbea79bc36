"""A `_schemas` topic: read to its end, followed, and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ticdc_bridge.clients.kafka import KafkaErrors, library, make_client
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.migration.progress import Told, ignore_progress
from ticdc_bridge.service.migration.topic_records import TopicRecord

_TIMEOUT: Final = 10.0
_SILENCE: Final = 30
_NO_TIMESTAMP: Final = 0
_ONE: Final = 1
_FLUSH_SECONDS: Final = 60.0


class SchemasTopic:
    """A topic of one partition, as every registry keeps its `_schemas`. Methods raise SetupError KAFKA_UNREACHABLE."""

    def __init__(self, name: str, settings: Mapping[str, str], report: Told = ignore_progress) -> None:
        self.name = name
        self._settings = settings
        self._errors = KafkaErrors(settings["bootstrap.servers"])
        self._told = report
        self._consumer: Any = None
        self._next: int | None = None

    def exists(self) -> bool:
        """Whether there is such a topic."""
        with self._errors:
            metadata = self._reader().list_topics(timeout=_TIMEOUT).topics.get(self.name)
        if metadata is None:
            return False
        if len(metadata.partitions) != _ONE:
            details = f"topic {self.name!r} has {len(metadata.partitions)} partitions; a registry's topic has one"
            raise SetupError("USAGE", details=details)
        return True

    def records(self) -> Iterator[TopicRecord]:
        """What was written since the last call, up to the high watermark of now; the first time, from the beginning."""
        if not self.exists():
            raise SetupError(
                "USAGE", details=f"there is no topic {self.name!r} at {self._settings['bootstrap.servers']}"
            )
        with self._errors:
            reader = self._reader()
            low, high = reader.get_watermark_offsets(library().TopicPartition(self.name, 0), _TIMEOUT)
            start = low if self._next is None else self._next
            if self._next is None:
                reader.assign([library().TopicPartition(self.name, 0, start)])
            self._next, waited = start, 0
            while self._next < high:
                batch = reader.consume(1000, 1.0)
                for message in batch:
                    if message.error() is not None:
                        raise library().KafkaException(message.error())
                    offset = message.offset()
                    if offset is None or offset >= high:
                        # Read too far: begin there the next time.
                        reader.assign([library().TopicPartition(self.name, 0, high)])
                        self._next = high
                        return
                    self._next = offset + 1
                    yield _record(message)
                    self._told("records", offset + 1 - start, high - start)
                # Offsets without a record (compaction, transactions) end before the watermark: ask where we are.
                position = reader.position([library().TopicPartition(self.name, 0)])[0].offset
                self._next = max(self._next, position)
                waited = 0 if batch else waited + 1
                if waited > _SILENCE:
                    details = f"topic {self.name}: nothing came after offset {self._next} for {_SILENCE} s"
                    raise SetupError("KAFKA_UNREACHABLE", servers=self._settings["bootstrap.servers"], details=details)

    def create(self) -> None:
        """Make the topic: one partition, compacted, as registries want it."""
        with self._errors:
            admin = make_client(library().admin.AdminClient, self._settings)
            topic = library().admin.NewTopic(self.name, num_partitions=_ONE, config={"cleanup.policy": "compact"})
            admin.create_topics([topic])[self.name].result(timeout=_TIMEOUT)

    def write(self, records: Iterable[TopicRecord], total: int) -> None:
        """Write records in order, each with its time. An error says how many were written for certain."""
        written = 0
        failed: list[Any] = []

        def on_delivery(error: Any, _message: Any) -> None:
            nonlocal written
            if error is None:
                written += 1
                self._told("written", written, total)
            else:
                failed.append(error)

        with self._errors:
            producer = make_client(library().Producer, {"enable.idempotence": True, "linger.ms": 20, **self._settings})
            for record in records:
                stamp = {} if record.ts is None else {"timestamp": record.ts}
                while True:
                    try:
                        producer.produce(
                            self.name, record.value, record.key, 0, on_delivery=on_delivery, **stamp
                        )  # no partitioner: there is one partition
                        break
                    except BufferError:
                        producer.poll(1.0)
                producer.poll(0)
                if failed:
                    break
            left = producer.flush(_FLUSH_SECONDS)
        if failed or left:
            reason = failed[0].str() if failed else f"no answer within {_FLUSH_SECONDS:g} s"
            details = f"topic {self.name}: {written} of {total} records were written, then: {reason}. Run it again"
            raise SetupError("KAFKA_UNREACHABLE", servers=self._settings["bootstrap.servers"], details=details)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _reader(self) -> Any:
        if self._consumer is None:
            config = {
                "group.id": "ticdc-bridge-moving",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
                **self._settings,
            }
            self._consumer = make_client(library().Consumer, config)
        return self._consumer


def _record(message: Any) -> TopicRecord:
    kind, timestamp = message.timestamp()
    where = f"topic {message.topic()} partition {message.partition()} offset {message.offset()}"
    return TopicRecord(message.key(), message.value(), where, None if kind == _NO_TIMESTAMP else timestamp)
