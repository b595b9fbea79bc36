"""A real broker: several partitions and topics, inside the service and alone, stopped and started again."""

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.support.history_events import T0, ddl, resolved
from tests.support.kafka import Kafka
from tests.support.service import Client, ended, until
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.testing import running_service

STEP = 1 << 18


def send(kafka: Kafka, topic: str, partition: int, *messages: Message) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for message in messages:
        producer.produce(topic, message.value, message.key, partition=partition)
    assert producer.flush(60) == 0


def test_broadcast_and_watermarks_of_all_partitions(kafka: Kafka, tmp_path: Path) -> None:
    topics = [kafka.create_topic(kafka.topic_name("history"), partitions=n) for n in (2, 1)]
    positions = [(topics[0], 0), (topics[0], 1), (topics[1], 0)]
    create = ddl(T0, "shop", "o", "CREATE TABLE `shop`.`o` (`id` BIGINT PRIMARY KEY)")
    alter = ddl(T0 + 2 * STEP, "shop", "o", "ALTER TABLE `shop`.`o` ADD COLUMN `n` INT", 5)
    config = tmp_path / "track.toml"
    config.write_text(f'[[changefeed]]\nname = "shop"\nin = "kafka:{",".join(topics)}"\nformat = "open"\n')
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    for topic, partition in positions:
        send(kafka, topic, partition, create, resolved(T0 + STEP), Message(None, b"\xffpoison"))
    with running_service(store, track=str(config), **servers(kafka)) as url:
        client = Client(url)
        row = until(lambda: table(client, T0 + STEP))
        assert (row["resolved"], row["columns"], row["ddl"]["copies"]) == (True, 1, 3)
        # one partition is behind: the second statement must wait for it
        for topic, partition in positions[:2]:
            send(kafka, topic, partition, alter, resolved(T0 + 3 * STEP))
        until(lambda: client.get("/history/changefeeds").json[0]["events"]["pending"] == 1)
        row = table(client, T0 + 3 * STEP)
        assert (row["resolved"], row["columns"], row["pending"]) == (False, 1, 1)
        metrics = client.get("/metrics").body.decode()
        assert 'bridge_tracker_errors_total{changefeed="shop",code="' in metrics
        assert 'bridge_history_events{changefeed="shop",state="pending"} 1.0' in metrics
    with running_service(store, track=str(config), **servers(kafka)) as url:
        client = Client(url)
        send(kafka, *positions[2], alter, resolved(T0 + 3 * STEP))
        row = until(lambda: (found := table(client, T0 + 3 * STEP)) and found["resolved"] and found)
        assert (row["columns"], row["ddl"]["copies"]) == (2, 3)
        feed = client.get("/history/changefeeds").json[0]
        assert feed["events"] == {"sealed": 2, "pending": 0, "failed": 0}
        assert {p["next_offset"] for p in feed["partitions"]} == {5}


def servers(kafka: Kafka) -> dict[str, Any]:
    return {"bootstrap_servers": kafka.bootstrap_servers}


def table(client: Client, ts: int) -> Any:
    answer = client.get(f"/history/shop/o/at/{ts}")
    return answer.json if answer.status == 200 else None


def test_alone_until_all_is_resolved(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic(kafka.topic_name("alone"), partitions=2)
    for partition in range(2):
        statements = [ddl(T0 + n * STEP, "d", f"t{n}", f"CREATE TABLE `d`.`t{n}` (`a` INT)") for n in range(20)]
        send(kafka, topic, partition, *statements, resolved(T0 + 20 * STEP))
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    command = ["track", "--in", f"kafka:{topic}", "--store", store, "--until-resolved", "--changefeed", "alone"]
    command += ["--bootstrap-servers", kafka.bootstrap_servers]
    for new, copies in ((20, 20), (0, 0)):
        done = ended(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"new DDL {new}, copies {copies}," in done.stderr.splitlines()[-1]
    opened = open_store(store)
    assert len(HistoryStore(opened).tables("alone")) == 20
    opened.close()


def test_a_broker_that_is_not_there(tmp_path: Path) -> None:
    command = ["track", "--in", "kafka:t", "--bootstrap-servers", "127.0.0.1:1"]
    done = ended(*command, "--store", f"sqlite:///{tmp_path / 'registry.db'}", cwd=tmp_path)
    assert done.returncode == 2
    assert "Kafka at 127.0.0.1:1" in done.stderr
