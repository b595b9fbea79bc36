"""The tracker through trouble with its broker: restarts, crashes, partitions added; DDL twice, out of order, poison."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from tests.support.history_events import T0, ddl, everything, resolved, write
from tests.support.kafka import Kafka
from tests.support.service import Client, until
from ticdc_bridge.clients import kafka
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.service.tracker import sources as source
from ticdc_bridge.service.tracker.config import TrackedChangefeed
from ticdc_bridge.service.tracker.tracker import tracker_of

STEP = 1 << 18
LOT = 60
TABLES = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker of this module's own, to stop and to kill."""
    # A killed broker is let in again when its old session has timed out.
    with Kafka("broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n") as broker:
        yield broker


def statement(number: int) -> Message:
    table = f"t{number % TABLES}"
    if number < TABLES:
        return ddl(T0 + number * STEP, "d", table, f"CREATE TABLE `d`.`{table}` (`id` BIGINT PRIMARY KEY)")
    return ddl(T0 + number * STEP, "d", table, f"ALTER TABLE `d`.`{table}` ADD COLUMN `c{number}` DECIMAL(10,2)", 5)


class Feed:
    """A changefeed as it comes through retries: lots of DDL to every partition, and what was sent."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self.topic = kafka, topic
        self.partitions = 2
        self.producer = self._producer()
        self.sent = 0
        self.copies: Counter[int] = Counter()
        self.ends: Counter[int] = Counter()
        self._chance = random.Random(11)

    def lot(self) -> None:
        """Another lot: shuffled between watermarks, some of it twice, what was sealed before once more, and poison."""
        first, self.sent = self.sent, self.sent + LOT
        for partition in range(self.partitions):
            for begin in range(first, self.sent, 10):
                block = list(range(begin, begin + 10))
                block += self._chance.choices(range(begin + 10), k=3)
                self._chance.shuffle(block)
                for number in block:
                    self._send(partition, statement(number))
                    self.copies[T0 + number * STEP] += 1
                self._send(partition, Message(b"\x00\x01", b"\xffpoison"), resolved(T0 + (begin + 9) * STEP))

    def grow(self, partitions: int) -> None:
        """More partitions, which get what is sent from now on."""
        admin = self._kafka.admin
        admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(timeout=30)
        self.partitions = partitions
        self.producer = self._producer()  # another would know of the partitions only after a while

    def flush(self) -> None:
        assert self.producer.flush(60) == 0

    def _producer(self) -> Producer:
        # Idempotence: what is sent again after a cut is not in the topic twice, so counts can be exact.
        settings = {"enable.idempotence": True, "reconnect.backoff.max.ms": 200, "log_level": 0}
        return Producer({"bootstrap.servers": self._kafka.bootstrap_servers, **settings})

    def _send(self, partition: int, *messages: Message) -> None:
        for message in messages:
            self.producer.produce(self.topic, message.value, message.key, partition=partition)
            self.ends[partition] += 1


@pytest.mark.slow
def test_restarts_crashes_and_new_partitions(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost and nothing taken twice: each message counts once, whatever happened between it and the store."""
    monkeypatch.setattr(source, "_LOOK_EVERY", 0.2)
    monkeypatch.setattr(kafka, "_TIMEOUT", 2.0)
    feed = Feed(broker, broker.create_topic(broker.topic_name("trouble"), partitions=2))
    config = tmp_path / "track.toml"
    (tmp_path / "kafka.properties").write_text("reconnect.backoff.max.ms=200\n")
    config.write_text(
        f'[[changefeed]]\nname = "c"\nin = "kafka:{feed.topic}"\nformat = "open"\n'
        f'kafka-config = "{tmp_path / "kafka.properties"}"\n'
    )
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    settings = {"track": str(config), "bootstrap_servers": broker.bootstrap_servers, "log_level": "error"}

    def sealed(client: Client) -> int:
        feeds = client.get("/history/changefeeds").json
        return int(feeds[0]["events"]["sealed"]) if feeds else 0

    with running_service(store, **settings) as url:
        client = Client(url)

        def went_on(before: int) -> bool:
            return sealed(client) > before

        for crash in (False, True):
            before = feed.sent
            feed.lot()
            until(partial(went_on, before))
            broker.down(crash=crash)
            feed.lot()  # waits in the producer
            broker.up()
            feed.flush()
        until(lambda: sealed(client) == feed.sent)
        feed.grow(4)
        until(lambda: len(client.get("/history/changefeeds").json[0]["partitions"]) == 4)
        feed.lot()
        feed.flush()
        # The service stops somewhere in this lot, and the next one goes on from the offsets that it kept.
    with running_service(store, **settings) as url:
        client = Client(url)
        feed.lot()
        feed.flush()
        until(lambda: sealed(client) == feed.sent)

        def offsets() -> dict[int, int]:
            found = client.get("/history/changefeeds").json[0]
            return {partition["partition"]: partition["next_offset"] for partition in found["partitions"]}

        until(lambda: offsets() == dict(feed.ends))
        assert client.get("/health/ready").status == 200
    opened, other = open_store(store), open_store(f"sqlite:///{tmp_path / 'truth.db'}")
    truth = HistoryStore(other)
    file = write(tmp_path / "truth.jsonl", [*map(statement, range(feed.sent)), resolved(T0 + feed.sent * STEP)])
    tracker_of(TrackedChangefeed("c", (), file), truth, other, most=1000).run()
    history = HistoryStore(opened)
    assert {entry.commit_ts: entry.copies for entry in history.ddl("c", limit=99_999)} == dict(feed.copies)
    assert everything(history, "c") == everything(truth, "c")
    opened.close()
    other.close()
