"""A real Kafka broker (KRaft, one node) for tests, from the pinned jars, on free loopback ports."""

from __future__ import annotations

import atexit
import itertools
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support import watchdog
from ticdc_bridge.spark_jobs.runtime.kafka_broker import START_SECONDS, prepare_broker

STOP_SECONDS = 20
ATTEMPTS = 3


class KafkaDidNotStart(RuntimeError):
    """The broker ended, or gave no metadata in time; the message ends with its log."""


class Broker:
    """A broker that runs somewhere: `bootstrap_servers` is for any client, `folder` holds its settings and logs."""

    def __init__(self, bootstrap_servers: str, folder: Path, client: Mapping[str, str] | None = None) -> None:
        """client: what librdkafka needs to be let in."""
        self.bootstrap_servers, self.folder, self.client = bootstrap_servers, folder, dict(client or {})
        self._names = itertools.count(1)
        self._run_id = uuid.uuid4().hex[:8]

    @property
    def log(self) -> str:
        """All that the broker has printed so far."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    @property
    def admin(self) -> AdminClient:
        """A new admin client for this broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client})

    def topic_name(self, prefix: str = "topic") -> str:
        """A name that no other test uses."""
        return f"{prefix}-{self._run_id}-{next(self._names)}"

    def create_topic(self, name: str | None = None, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic; returns once the broker has it.

        In: its name (default: a unique one), the number of partitions, topic settings. Out: the name.
        Errors: confluent_kafka.KafkaException, for instance when it exists.
        """
        name = name or self.topic_name()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        admin = self.admin
        admin.create_topics([topic])[name].result(timeout=30)
        deadline = time.monotonic() + 30
        while True:
            found = admin.list_topics(name, timeout=30).topics[name]
            if found.error is None and len(found.partitions) == partitions:
                return name
            if time.monotonic() > deadline:
                raise KafkaDidNotStart(f"topic {name} was created, but the broker's metadata lack it\n{self._tail()}")

    def _tail(self) -> str:
        return f"--- the end of the log (all of it: {self.folder}) ---\n{self.log[-6000:]}"


class Kafka(Broker):
    """A broker of the caller's own; use it as a context manager. Its folder is kept when a start fails.

    alive: a file that the owner holds a lock on (`tests/support/sharing.py`): then the broker outlives this process.
    """

    def __init__(
        self, settings: str = "", client: Mapping[str, str] | None = None, *, alive: Path | None = None
    ) -> None:
        """settings: more lines of server.properties; client: what librdkafka needs to be let in."""
        super().__init__("", Path(tempfile.mkdtemp(prefix="bridge-kafka-")), client)
        self._settings, self._alive = settings, alive
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []
        self._log = self.folder / "broker.log"

    def start(self) -> Kafka:
        """Format the storage and start the broker; returns when a client gets its metadata.

        Errors: KafkaDidNotStart with the end of the log; SetupError as of prepare_broker.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start_once(attempt)
            except KafkaDidNotStart as error:
                if attempt == ATTEMPTS or not isinstance(error, _PortTaken):
                    atexit.unregister(self.stop)  # the folder stays for whoever looks into it
                    raise
            else:
                return self
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """End the broker and everything it started, and remove its folder; harmless when repeated."""
        self._end_process()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def down(self, *, crash: bool = False) -> None:
        """End the broker and keep its data: cleanly, or as a crash does."""
        assert self._process is not None
        if crash:
            for broker in psutil.Process(self._process.pid).children():
                broker.kill()
        self._end_process()

    def up(self) -> None:
        """Start the broker on the data and the ports that it had before; returns when a client gets its metadata."""
        with self._log.open("ab") as out:
            self._process = watchdog.start(self._command, out, self._alive, self.folder)
        self._wait_until_ready()

    def __enter__(self) -> Kafka:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start_once(self, attempt: int) -> None:
        broker, controller = free_ports(2)
        folder = self.folder / str(attempt)
        folder.mkdir()
        self._command = prepare_broker(folder, broker, controller, self._settings)
        self._log = self.folder / f"broker-{attempt}.log"
        if self._alive is None:
            atexit.register(self.stop)
        self.bootstrap_servers = f"127.0.0.1:{broker}"
        self.up()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **self.client})
        while True:
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
            if (code := self._process.poll()) is not None:
                self._end_process()
                kind = _PortTaken if "Address already in use" in self.log else KafkaDidNotStart
                raise kind(f"the broker ended with exit code {code} while starting\n{self._tail()}")
            if time.monotonic() > deadline:
                self._end_process()
                raise KafkaDidNotStart(f"the broker gave no metadata within {START_SECONDS} s\n{self._tail()}")

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        watchdog.release(process)  # the watchdog ends the broker and then itself
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _PortTaken(KafkaDidNotStart):
    """Somebody took a port between choosing and binding it."""


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports
