"""A `_schemas` topic: read to its end, followed, and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from schemas.model.errors import SetupError
from service.migration.http_client import Told, ignore_progress
from service.migration.topic_records import TopicRecord

if TYPE_CHECKING:
    from confluent_kafka import Consumer

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
        self._told = report
        self._consumer: Consumer | None = None
        self._next: int | None = None

    def exists(self) -> bool:
        """Whether there is such a topic."""
        with _KafkaErrors(self._settings):
            metadata = self._reader().list_topics(timeout=_TIMEOUT).topics.get(self.name)
        if metadata is None:
            return False
        if len(metadata.partitions) != _ONE:
            details = f"topic {self.name!r} has {len(metadata.partitions)} partitions; a registry's topic has one"
            raise SetupError("USAGE", details=details)
        return True

    def records(self) -> Iterator[TopicRecord]:
        """What was written since the last call, up to the high watermark of now; the first time, from the beginning."""
        from confluent_kafka import KafkaException, TopicPartition

        if not self.exists():
            raise SetupError(
                "USAGE", details=f"there is no topic {self.name!r} at {self._settings['bootstrap.servers']}"
            )
        with _KafkaErrors(self._settings):
            reader = self._reader()
            low, high = reader.get_watermark_offsets(TopicPartition(self.name, 0), _TIMEOUT)
            start = low if self._next is None else self._next
            if self._next is None:
                reader.assign([TopicPartition(self.name, 0, start)])
            self._next, waited = start, 0
            while self._next < high:
                batch = reader.consume(1000, 1.0)
                for message in batch:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    offset = message.offset()
                    if offset is None or offset >= high:
                        # Read too far: begin there the next time.
                        reader.assign([TopicPartition(self.name, 0, high)])
                        self._next = high
                        return
                    self._next = offset + 1
                    yield _record(message)
                    self._told("records", offset + 1 - start, high - start)
                # Offsets without a record (compaction, transactions) end before the watermark: ask where we are.
                position = reader.position([TopicPartition(self.name, 0)])[0].offset
                self._next = max(self._next, position)
                waited = 0 if batch else waited + 1
                if waited > _SILENCE:
                    details = f"topic {self.name}: nothing came after offset {self._next} for {_SILENCE} s"
                    raise SetupError("KAFKA_UNREACHABLE", servers=self._settings["bootstrap.servers"], details=details)

    def create(self) -> None:
        """Make the topic: one partition, compacted, as registries want it."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        with _KafkaErrors(self._settings):
            admin = _client(AdminClient, dict(self._settings))
            topic = NewTopic(self.name, num_partitions=_ONE, config={"cleanup.policy": "compact"})
            admin.create_topics([topic])[self.name].result(timeout=_TIMEOUT)

    def write(self, records: Iterable[TopicRecord], total: int) -> None:
        """Write records in order, each with its time. An error says how many were written for certain."""
        from confluent_kafka import KafkaError, Producer

        written = 0
        failed: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Any) -> None:
            nonlocal written
            if error is None:
                written += 1
                self._told("written", written, total)
            else:
                failed.append(error)

        with _KafkaErrors(self._settings):
            producer = _client(Producer, {"enable.idempotence": True, "linger.ms": 20, **self._settings})
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

    def _reader(self) -> Consumer:
        if self._consumer is None:
            from confluent_kafka import Consumer

            config = {
                "group.id": "ticdc-bridge-moving",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
                **self._settings,
            }
            self._consumer = _client(Consumer, config)
        return self._consumer


class _KafkaErrors:
    """Turns librdkafka's errors into ours."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._servers = settings["bootstrap.servers"]

    def __enter__(self) -> None:
        kafka()

    def __exit__(self, kind: Any, error: BaseException | None, at: Any) -> None:
        if error is not None and isinstance(error, kafka().KafkaException):
            first = error.args[0] if error.args else error
            details = first.str() if hasattr(first, "str") else str(first)
            raise SetupError("KAFKA_UNREACHABLE", servers=self._servers, details=details) from error


def kafka() -> Any:
    """The client library. Raises SetupError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise SetupError("USAGE", details="topics need confluent-kafka: pip install 'ticdc-bridge[service]'") from None
    return confluent_kafka


def _client(kind: Any, config: dict[str, Any]) -> Any:
    try:
        return kind({**config, "error_cb": _ignore_error, "log_level": 0})
    except (kafka().KafkaException, ValueError, TypeError) as error:
        raise SetupError("USAGE", details=f"Kafka settings: {error}") from error


def _ignore_error(_error: Any) -> None:
    """Connection trouble is told once, by the call that fails."""


def _record(message: Any) -> TopicRecord:
    kind, timestamp = message.timestamp()
    where = f"topic {message.topic()} partition {message.partition()} offset {message.offset()}"
    return TopicRecord(message.key(), message.value(), where, None if kind == _NO_TIMESTAMP else timestamp)
