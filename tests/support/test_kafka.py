"""The broker fixture: topics of a test's own, the log of a broker that does not start, and none outlives its tests."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException

from tests.support.kafka import Kafka
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.runtime import kafka_broker

ROOT = Path(__file__).resolve().parents[2]


def test_topics(kafka: Kafka) -> None:
    assert kafka.topic_name() != kafka.topic_name()
    name = kafka.create_topic(kafka.topic_name("orders"), partitions=4)
    assert len(kafka.admin.list_topics(timeout=30).topics[name].partitions) == 4
    with pytest.raises(KafkaException, match="already exists"):
        kafka.create_topic(name)


@pytest.mark.slow
def test_broker_ends_when_its_test_run_is_killed() -> None:
    script = (
        "from tests.support.kafka import Kafka; kafka = Kafka().start();"
        "print(kafka.bootstrap_servers, kafka.folder, flush=True); input()"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with runner:
        assert runner.stdout is not None
        address, folder = runner.stdout.readline().split()
        port = int(address.partition(":")[2])
        assert _listens(port)
        brokers = psutil.Process(runner.pid).children(recursive=True)
        runner.send_signal(signal.SIGKILL)
    assert brokers
    deadline = time.monotonic() + 60
    while any(map(_runs, brokers)):  # it closes its port before its files
        assert time.monotonic() < deadline, "the broker outlived its test run"
        time.sleep(0.05)
    assert not _listens(port)
    shutil.rmtree(folder)


def test_failure_to_start_shows_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_broker, "_SERVER", "process.roles=nonsense\nlog.dirs={data}\n")
    kafka = Kafka()
    with pytest.raises(SetupError, match="nonsense"):
        kafka.start()
    kafka.stop()
    assert not kafka.folder.exists()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
