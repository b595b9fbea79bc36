"""SIGTERM: requests that are in progress are finished, then the process ends."""

import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.service import Client, process_service, until


def in_flight(client: Client) -> int:
    text = client.get("/metrics").body.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("schema_registry_requests_in_flight ")]
    return int(float(line.split()[1]))


def test_requests_in_progress_are_finished(tmp_path: Path) -> None:
    """Registrations that wait for a locked store when the signal comes are answered, and lasting."""
    names = [f"held{number}" for number in range(4)]
    with process_service(tmp_path) as (process, client), ThreadPoolExecutor(4) as pool:
        assert client.register("s", '"int"').status == 200
        other = sqlite3.connect(tmp_path / "registry.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        held = [pool.submit(Client(client.url).register, name, '"string"') for name in names]
        until(lambda: in_flight(client) == 1 + len(names))  # this question is one too
        process.send_signal(signal.SIGTERM)
        until(lambda: not listens(client.url))
        other.execute("ROLLBACK")
        other.close()
        assert [entry.result(60).status for entry in held] == [200] * len(names)
        _, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, "ticdc-bridge: stopped\n")
    with process_service(tmp_path) as (_, client):
        assert set(client.get("/subjects").json) == {"s", *names}


def listens(url: str) -> bool:
    try:
        Client(url).get("/")
    except OSError:
        return False
    return True
