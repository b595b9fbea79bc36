"""What a real broker says of its topics. Without an answer these functions say nothing, and a guard is gone."""

from tests.support.kafka import Kafka
from ticdc_bridge.clients.kafka import extents, largest_messages, newest_offsets, partition_counts, topic_id, topic_ids


def test_what_a_broker_says_of_topics(kafka: Kafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    topics = [kafka.create_topic(partitions=2, config={"max.message.bytes": str(size)}) for size in (100, 1500)]
    first, second = topics
    assert largest_messages(settings, topics) == {first: 100, second: 1500}
    ids = topic_ids(topics, settings)
    assert ids == {topic: topic_id(topic, settings) for topic in topics}
    assert len(set(ids.values())) == 2
    assert partition_counts(settings, first) == {first: 2}
    assert extents(first, settings) == {0: (0, 0), 1: (0, 0)}
    assert newest_offsets({second: 2}, settings) == {(second, 0): 0, (second, 1): 0}
