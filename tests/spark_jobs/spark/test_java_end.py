"""A JVM that ended under a job: named by how it ended, and never taken for another trouble."""

import logging
import signal
import socket
import subprocess
import threading
from types import SimpleNamespace

import pyspark
import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters  # type: ignore[import-untyped]
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.core import context

from tests.support.table import check_rows
from ticdc_bridge.spark_jobs.spark import session
from ticdc_bridge.spark_jobs.spark.errors import error_of, java_end

_LOST = Py4JNetworkError("Answer from Java side is empty")
_ENDS = (
    ("kill -9 $$", "was killed (SIGKILL): mostly the system does so where memory is short"),
    ("kill -15 $$", "was stopped (SIGTERM)"), ("kill -11 $$", "was ended by signal 11"),
    ("exit 137", "was killed (SIGKILL)"), ("exit 143", "was stopped (SIGTERM)"),
    ("exit 52", "ran out of memory (exit code 52)"), ("exit 1", "ended with exit code 1: what it printed is above"),
    ("exit 0", "ended with exit code 0"),
)  # fmt: skip


def test_how_the_java_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(row: tuple[str, str]) -> None:
        process = subprocess.Popen(["sh", "-c", row[0]])
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", SimpleNamespace(proc=process))
        end = error_of(_LOST)
        assert end is not None
        assert end.code == "JAVA_ENDED"
        assert end.detail.startswith(f"the Java process of Spark {row[1]}")

    check_rows(_ENDS, check)


def test_a_java_process_that_runs_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor under spark-submit, where only the connection tells; and behind other errors it is found."""
    chained = ValueError("x")
    chained.__cause__ = _LOST
    process = subprocess.Popen(["sleep", "60"])
    rows = [
        (process, ValueError("Connection refused"), ""),
        (None, ConnectionRefusedError("the registry's"), ""),
        (None, _LOST, "can't be reached any more"),
        (None, chained, "can't be reached any more"),
    ]

    def check(row: tuple[subprocess.Popen[bytes] | None, Exception, str]) -> None:
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", SimpleNamespace(proc=row[0]))
        end = java_end(row[1])
        assert (end is None) if not row[2] else (end is not None and row[2] in end.detail)

    try:
        check_rows(rows, check)
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
        early = java_end(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port"))
        assert early is not None
        assert "ended before it was ready" in early.detail
        assert java_end(_LOST) is None
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_stays_what_it_was() -> None:
    """pyspark's own handler fails while the JVM is asked, and Ctrl-C then looks like a defect."""
    before = signal.getsignal(signal.SIGINT)
    with session._no_orphan():  # also between a context, which sets the handler, and its session
        there = vars(context)["signal"]
        there.signal(there.SIGINT, lambda *_: None)
        assert signal.getsignal(signal.SIGINT) is before
    assert vars(context)["signal"] is signal


def test_a_lost_connection_is_not_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """py4j logs what it raises, with a traceback, by a logger that prints."""
    root = logging.getLogger()
    before = root.filters[:]

    def records() -> list[str]:
        caplog.clear()
        with socket.create_server(("127.0.0.1", 0)) as server:
            gone = threading.Thread(target=lambda: server.accept()[0].close(), daemon=True)
            gone.start()
            client = GatewayClient(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
            assert client.send_command("c\n", retry=False) == "x"
            gone.join(9)
        return [record.message for record in caplog.records]

    try:
        root.filters.clear()
        assert "Exception while sending command." in records()
        session._expect_lost_connections()
        session._expect_lost_connections()
        assert len(root.filters) == 1
        assert records() == []
        logging.error("of others")
        assert caplog.records
    finally:
        root.filters[:] = before
