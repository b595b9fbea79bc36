"""The topics that a stream reads, as the broker has them: are they those of the checkpoint, how far are they read."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ticdc_bridge.clients.kafka import TopicChoice, extents, newest_offsets, topic_id, topic_ids
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint


class KafkaSource:
    """numbers: of several topics, each source (topic, partition) by its number in positions; None: one topic."""

    def __init__(self, topics: TopicChoice, kafka: KafkaClient, checkpoint: Checkpoint) -> None:
        self.topics, self._kafka, self._checkpoint = topics, kafka, checkpoint
        self.numbers: list[tuple[str, int]] | None = None
        self._counts: dict[str, int] = {}
        self._read: dict[int, int] = {}  # the newest offset of each source that was read since the start

    def find(self) -> None:
        """SetupError KAFKA_UNREACHABLE where Kafka or a topic is not there."""
        if self.topics.only is not None:
            self._ends(self.topics.only)
        else:
            self.topics.find(self._kafka.settings())

    def check(self) -> None:
        """Finds new topics and partitions. SetupError for a topic that is gone or created anew; KAFKA_UNREACHABLE."""
        settings, topic = self._kafka.settings(), self.topics.only
        if topic is not None:
            self._checkpoint.same_topic(topic, topic_id(topic, settings))
            return
        self._counts = self.topics.find(settings)
        self._checkpoint.same_topics(topic_ids(self._counts.keys(), settings))
        self.numbers = self._checkpoint.number_sources(self._counts)

    def partitions(self) -> frozenset[int]:
        """The partitions of the one topic; of several topics the sources' numbers. SetupError KAFKA_UNREACHABLE."""
        return frozenset(self._ends(self.topics.only) if self.topics.only else range(len(self.numbers or ())))

    def count_waiting(self, offsets: Mapping[int, int]) -> dict[str, int]:
        """How many messages wait, by topic. offsets: newest read of each source. SetupError KAFKA_UNREACHABLE."""
        self._read |= offsets
        waiting = Counter[str]()
        if self.topics.only is not None:
            ends = {(self.topics.only, n): (n, end) for n, end in self._ends(self.topics.only).items()}
        else:
            newest = newest_offsets(self._counts, self._kafka.settings())
            ends = {source: (n, newest[source]) for n, source in enumerate(self.numbers or ()) if source in newest}
        for (topic, _), (number, end) in ends.items():
            if number in self._read:
                waiting[topic] += max(end - self._read[number] - 1, 0)
        return dict(waiting)

    def positions(self) -> dict[str, dict[int, int]]:
        """Topic → partition → the offset that is read next, where something was read since the start."""
        only, next_offsets = self.topics.only, defaultdict[str, dict[int, int]](dict)
        for number, offset in self._read.items():
            topic, partition = (only, number) if only is not None else (self.numbers or ())[number]
            next_offsets[topic][partition] = offset + 1
        return dict(next_offsets)

    def _ends(self, topic: str) -> dict[int, int]:
        return {partition: high for partition, (_, high) in extents(topic, self._kafka.settings()).items()}
