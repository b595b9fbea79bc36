"""The two consumers, as somebody starts them, with a real broker and a registry of ours."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support import shop
from tests.support.kafka import Kafka
from tests.support.processes import until
from tests.support.service import ROOT, Client
from tests.support.streams import send
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Topic:
    """The messages of shop.orders, and one that is none of TiCDC's."""

    name: str
    servers: str
    registry: str
    messages: int


@pytest.fixture(scope="module")
def topic(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topic]:
    """The samples, converted to TiCDC's Avro with its extension; and a message that nobody can read."""
    prefix, options = kafka.topic_name(), tmp_path_factory.mktemp("options") / "extension.json"
    name, to_kafka = f"{prefix}_shop_orders", ["--out", "kafka:", "--bootstrap-servers", kafka.bootstrap_servers]
    options.write_text('{"enable_tidb_extension": true}')
    with running_service() as url:
        words = [
            "transcode", "--from", "avro", "--to", "avro", "--schemas", str(shop.SCHEMAS_FILE),
            "--time-zone", shop.ZONE, "--in", str(shop.MESSAGES_FILE), "--to-options", str(options),
            "--to-registry", url, *to_kafka, "--topic", f"{prefix}_{{schema}}_{{table}}",
        ]  # fmt: skip
        assert main(words) == 0
        send(kafka, name, [Message(b"?", b"{}", partition=0)])
        ours = [message for message in shop.messages() if message.topic == "tidb_shop_orders"]
        yield Topic(name, kafka.bootstrap_servers, url, len(ours))


@pytest.mark.parametrize("reader", ["confluent", "fastavro"])
def test_confluent_client(topic: Topic, reader: str) -> None:
    words = ["--topic", topic.name, "--registry", topic.registry, "--bootstrap-servers", topic.servers]
    done = subprocess.run(
        [sys.executable, "examples/confluent-kafka/consume.py", *words, "--reader", reader],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (error,) = done.stderr.splitlines()
    assert error.startswith("partition ")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == topic.messages
    assert sum(row["value"] is None for row in rows) == 28
    paid = next(row["value"] for row in rows if row["key"] == {"order_id": 450000000000, "line": 2} and row["value"])
    assert (paid["price"], paid["status"], paid["_tidb_op"]) == ("76658525.71", "paid", "c")


def test_fastapi(topic: Topic) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"TOPIC": topic.name, "BOOTSTRAP_SERVERS": topic.servers, "REGISTRY": topic.registry,
                "TIME_ZONE": shop.ZONE, "PYTHONPATH": str(ROOT)}  # fmt: skip
    command = [sys.executable, "-m", "uvicorn", "--app-dir", "examples/fastapi", "--port", str(port), "app:app"]
    client = Client(f"http://127.0.0.1:{port}")

    def health() -> dict[str, int]:
        try:
            answer = client.get("/health")
        except ConnectionError:
            return {}
        return dict(answer.json) if answer.status == 200 else {}

    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}) as process:
        try:
            until(lambda: health().get("messages") == topic.messages + 1, "all messages are read", 60)
            reported = client.get("/health").json
            assert (reported["failed"], reported["errors"][0]["code"]) == (1, "NOT_FRAMED")
            changes = client.get("/changes?limit=5").json
            assert [change["table"] for change in changes] == ["orders"] * 5
            row = client.get("/rows/450000000008/1").json
            assert (row["status"], row["price"]) == ("done", "31697907.97")
            deleted = next(change for change in client.get("/changes?limit=300").json if change["op"] == "d")
            assert client.get("/rows/" + "/".join(deleted["before"].values())).status == 404
        finally:
            process.terminate()
        assert process.wait(30) == -signal.SIGTERM  # uvicorn ends itself with the signal after its shutdown
