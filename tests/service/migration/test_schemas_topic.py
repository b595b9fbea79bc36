"""A real `_schemas` topic on a real broker: exported, imported, followed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.service.migration.test_import_export import command, filled, held
from tests.support.service import GOLDEN, Client
from ticdc_bridge.service.migration.dump_file import read_records
from ticdc_bridge.service.migration.plan import fingerprint
from ticdc_bridge.service.migration.topic_records import TopicRecord
from ticdc_bridge.service.migration.topic_replay import Replay
from ticdc_bridge.service.testing import running_service

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

CONFLUENT, KARAPACE = GOLDEN / "schemas-topic-confluent.tsv", GOLDEN / "schemas-topic-karapace.tsv"


def produce(kafka: Kafka, topic: str, records: Iterable[TopicRecord], nothing: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number, record in enumerate(records, 1):
        producer.produce(topic, nothing if record.value is None else record.value, record.key, 0, timestamp=number)
    assert producer.flush(60) == 0


@pytest.mark.parametrize(("golden", "nothing"), [(CONFLUENT, None), (KARAPACE, b"")])
def test_a_topic_of_another_registry(kafka: Kafka, golden: Path, nothing: bytes | None, tmp_path: Path) -> None:
    """As Confluent and Karapace wrote it; the second deletes with empty values."""
    topic = kafka.create_topic()
    produce(kafka, topic, read_records(str(golden)), nothing)
    brokers = ("--bootstrap-servers", kafka.bootstrap_servers)
    code, _, reported = command("import", f"kafka:{topic}", *brokers, cwd=tmp_path)
    assert code == 0, reported
    found = held(f"sqlite:///{tmp_path / 'registry.db'}")
    expected = Replay().apply_all(read_records(str(golden))).snapshot
    assert fingerprint(found) == fingerprint(expected)
    assert found.versions["s1", 1].ts == 1 + next(
        number for number, record in enumerate(read_records(str(golden))) if b'"s1"' in (record.key or b"")
    )
    code, _, reported = command("import", f"kafka:{topic}", *brokers, cwd=tmp_path)
    assert (code, "import: nothing to do" in reported) == (0, True)


def test_there_and_back(kafka: Kafka, tmp_path: Path) -> None:
    topic, brokers = kafka.topic_name(), ("--bootstrap-servers", kafka.bootstrap_servers)
    source, target = f"sqlite:///{tmp_path / 'source.db'}", f"sqlite:///{tmp_path / 'target.db'}"
    with running_service(store=source) as url:
        filled(Client(url))
    code, _, reported = command("export", f"kafka:{topic}", "--store", source, "--dry-run", *brokers, cwd=tmp_path)
    assert (code, "would be written: 8 versions, 2 soft-deleted versions" in reported) == (0, True)
    for expected in ("written: 8 versions", "nothing to do; 10 versions"):
        code, _, reported = command("export", f"kafka:{topic}", "--store", source, *brokers, cwd=tmp_path)
        assert code == 0, reported
        assert f"export: {expected}" in reported
    settings = tmp_path / "kafka.properties"
    settings.write_text(f"# where\nbootstrap.servers={kafka.bootstrap_servers}\n\nclient.id = moving\n")
    code, _, reported = command(
        "import", f"kafka:{topic}", "--store", target, "--kafka-config", str(settings), cwd=tmp_path
    )
    assert code == 0, reported
    assert fingerprint(held(target)) == fingerprint(held(source))
    times = {key: version.ts for key, version in held(source).versions.items()}
    assert {key: version.ts for key, version in held(target).versions.items()} == times
    # What changed since is added to the topic, and comes over with a second import.
    with running_service(store=source) as url:
        assert Client(url).send("DELETE", "/subjects/s").status == 200
        assert Client(url).register("later", '"int"').status == 200
    code, _, reported = command("export", f"kafka:{topic}", "--store", source, *brokers, cwd=tmp_path)
    assert "export: written: 1 versions, 2 soft deletes, 1 id marks" in reported
    code, _, reported = command("import", f"kafka:{topic}", "--store", target, *brokers, cwd=tmp_path)
    assert code == 0, reported
    assert fingerprint(held(target)) == fingerprint(held(source))
    assert kafka.admin.list_topics(topic).topics[topic].partitions.keys() == {0}


def test_topics_that_will_not_do(kafka: Kafka, tmp_path: Path) -> None:
    brokers = ("--bootstrap-servers", kafka.bootstrap_servers)
    many = kafka.create_topic(partitions=2)
    code, _, reported = command("import", f"kafka:{many}", *brokers, cwd=tmp_path)
    assert (code, "has 2 partitions; a registry's topic has one" in reported) == (2, True)
    code, _, reported = command("import", "kafka:absent", *brokers, cwd=tmp_path)
    assert (code, "there is no topic 'absent'" in reported) == (2, True)
    broken = kafka.create_topic()
    produce(kafka, broken, [*read_records(str(KARAPACE)), TopicRecord(b"{", b"x")])
    code, _, reported = command("import", f"kafka:{broken}", *brokers, cwd=tmp_path)
    assert code == 1
    assert f"topic {broken} partition 0 offset 219: the key is no JSON" in reported
    code, _, reported = command("export", str(KARAPACE), f"kafka:{broken}", *brokers, cwd=tmp_path)
    assert (code, "holds 1 broken records" in reported) == (2, True)
