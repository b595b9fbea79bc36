"""A `_schemas` topic, read to its end and written."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ticdc_bridge.clients import kafka
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.migration.progress import ReportProgress, ignore_progress
from ticdc_bridge.service.migration.topic_records import TopicRecord

_TIMEOUT: Final = 10.0


class SchemasTopic:
    """A topic of one partition, as every registry keeps its `_schemas`. Methods raise SetupError KAFKA_UNREACHABLE."""

    def __init__(self, name: str, settings: Mapping[str, str], report: ReportProgress = ignore_progress) -> None:
        self.name = name
        self._settings = settings
        self._report = report

    def exists(self) -> bool:
        """True if there is such a topic. SetupError USAGE for one that is no registry's."""
        count = kafka.partition_counts(self._settings, None).get(self.name)
        if count not in (None, 1):
            raise SetupError("USAGE", details=f"topic {self.name!r} has {count} partitions; a registry's topic has one")
        return count is not None

    def records(self) -> Iterator[TopicRecord]:
        """From the beginning up to the high watermark of now."""
        if not self.exists():
            details = f"there is no topic {self.name!r} at {self._settings['bootstrap.servers']}"
            raise SetupError("USAGE", details=details)
        start, high = kafka.extents(self.name, self._settings)[0]
        for message in kafka.read_range(self.name, 0, start, high, self._settings):
            offset = message.offset or 0
            where = f"topic {self.name} partition 0 offset {offset}"
            yield TopicRecord(message.key, message.value, where, message.timestamp)
            self._report("records", offset + 1 - start, high - start)

    def create(self) -> None:
        """Make the topic: one partition, compacted, as registries want it."""
        with kafka.KafkaErrors(self._settings["bootstrap.servers"]):
            admin = kafka.make_client(kafka.library().admin.AdminClient, self._settings)
            topic = kafka.library().admin.NewTopic(self.name, num_partitions=1, config={"cleanup.policy": "compact"})
            admin.create_topics([topic])[self.name].result(timeout=_TIMEOUT)

    def write(self, records: Iterable[TopicRecord], total: int) -> None:
        """Write records in order, each with its time. An error says how many were written for certain."""
        servers = self._settings["bootstrap.servers"]
        writer = kafka.TopicWriter(self.name, self._settings)
        try:
            for record in records:
                writer.write(Message(record.key, record.value, partition=0, timestamp=record.ts))
                self._report("written", writer.delivered, total)
            writer.close()
        except SetupError as error:
            reason = f"of {total} records, then: {error.fields['details']} Run it again"
            details = f"topic {self.name}: {writer.delivered} {reason}"
            raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=details) from error
        self._report("written", writer.delivered, total)
