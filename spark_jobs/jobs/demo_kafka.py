"""`demo --kafka`: a Kafka broker and the service on this machine, with the sample's messages, until Ctrl-C."""

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.endpoints import message_sink
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.jobs.demo import register, sample_files, say, service
from ticdc_bridge.spark_jobs.pipeline.progress import step
from ticdc_bridge.spark_jobs.runtime.kafka_broker import START_SECONDS, prepare_broker

_HISTORY = "shop-history"
"""The topic of Open Protocol, which has the DDL; and the changefeed that the service tracks in it."""


def run(folder: Path, kafka_port: int, port: int) -> int:
    """Serves until Ctrl-C, SIGTERM or the broker's end; the exit code. 0 as a port takes a free one."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(KeyboardInterrupt), sample_files() as samples, _broker(kafka_port) as (servers, broker):
        topics = fill(samples, servers)
        track = ("--bootstrap-servers", servers, "--track", f"{_HISTORY}=kafka:{_HISTORY}")
        with service(folder, port, track) as url:
            register(samples / "shop.schemas.jsonl", url)
            for topic, count in topics.items():
                say(f"topic {topic}: {count} messages")
            say(f"Kafka {servers}, registry {url}, pages {url}/ui; the tutorial goes on from here. Ctrl-C ends them")
            code = broker.wait()
            raise SetupError("USAGE", details=f"the broker ended with exit code {code}: start the demo again")
    return 0


def fill(samples: Path, servers: str) -> dict[str, int]:
    """Sends the samples' messages to their topics; how many each got."""
    counts: dict[str, int] = {}
    sink = message_sink("kafka:", KafkaClient(servers))
    for name in ("shop.messages.jsonl", "shop.invoices.open.jsonl"):
        for message in read_messages(samples / name):
            assert isinstance(message, Message)
            sink.write(message)
            counts[str(message.topic)] = counts.get(str(message.topic), 0) + 1
    sink.close()
    return counts


@contextmanager
def _broker(port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A broker whose data go with it: its address and its process."""
    with tempfile.TemporaryDirectory(prefix="ticdc-bridge-kafka-", ignore_cleanup_errors=True) as name:
        folder, port, controller_port = Path(name), _free_port(port), _free_port(0)
        with step("demo", "starting Kafka"), (folder / "broker.log").open("wb") as log:
            command = prepare_broker(folder, port, controller_port)
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        servers = f"127.0.0.1:{port}"
        try:
            _wait(servers, process, folder / "broker.log")
            yield servers, process
        finally:
            process.terminate()
            process.wait()


def _wait(servers: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a client gets the broker's metadata. SetupError KAFKA_UNREACHABLE with the end of its log."""
    admin, end = AdminClient({"bootstrap.servers": servers, "log_level": 0}), time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(KafkaException):
            if admin.list_topics(timeout=1).brokers:
                return
    raise SetupError("KAFKA_UNREACHABLE", servers=servers, details=f"it did not start: {log.read_text()[-2000:]}")


def _free_port(port: int) -> int:
    """The port, or any that is free for 0. SetupError USAGE where somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise SetupError("USAGE", details=f"port {port}: {error.strerror}: give another --kafka-port") from error
        return int(probe.getsockname()[1])
