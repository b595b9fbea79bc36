"""`demo --kafka`: Kafka and the service with the samples, until a signal."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.service import ROOT, Client
from ticdc_bridge.cli import main
from ticdc_bridge.clients.kafka import extents


@pytest.mark.slow
def test_topics_schemas_and_history_stay_until_the_end(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ticdc_bridge", "demo", "--kafka", "--kafka-port", "0", "--port", "0", "--out"]
    with subprocess.Popen([*words, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        ready = next(line for line in demo.stderr if "Ctrl-C" in line)
        started = psutil.Process(demo.pid).children(recursive=True)
        found = re.search(r"Kafka (\S+), registry (\S+), pages", ready)
        assert found
        counts = {"tidb_shop_customers": 65, "tidb_shop_orders": 208, "shop-history": 7}
        for topic, count in counts.items():
            assert extents(topic, {"bootstrap.servers": found[1]}) == {0: (0, count)}
        client = Client(found[2])
        assert client.get("/subjects/tidb_shop_orders-value/versions/latest").json["id"] == 4
        assert client.get("/history/trackers").json[0]["changefeed"] == "shop-history"
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(60) == 0
    assert len(started) >= 2
    assert not [process for process in started if process.is_running()]


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert main(["demo", "--kafka", "--kafka-port", str(port), "--out", str(tmp_path)]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert f"error USAGE: port {port}: Address already in use: give another --kafka-port" in capsys.readouterr().err
