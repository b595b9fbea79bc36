"""The service in trouble. Afterwards everything it acknowledged is there, versions have no holes, ids are unique."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.support.service import Client, column, process_service, record
from tests.survival.acknowledged_writes import Told, schema
from ticdc_bridge.service.testing import running_service

AT_ONCE = 64


@pytest.fixture
def none(client: Client) -> Client:
    client.level("NONE")
    return client


def register(client: Client, reported: Told, subject: str, text: str) -> None:
    try:
        answer = client.register(subject, text)
    except (OSError, HTTPException):
        return
    reported.add(subject, text, answer.status, answer.body)


def test_64_registrations_of_one_subject_at_once(none: Client) -> None:
    reported = Told()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(AT_ONCE):
            pool.submit(register, none, reported, "one", schema(0, number))
    assert reported.statuses == {200: AT_ONCE}
    reported.check(none)
    assert len(none.get("/subjects/one/versions").json) == AT_ONCE


def test_the_disk_is_full_for_a_while(tmp_path: Path) -> None:
    """The kernel refuses every write that makes a file longer than it is: what SQLite sees of a full disk."""
    with process_service(tmp_path, BRIDGE_STORE_WAIT_SECONDS="3") as (process, client):
        client.level("NONE")
        reported = Told()
        for number in range(5):
            register(client, reported, "before", schema(0, number))
        client.register("filler", record("filler", *(column(f"c{n}", doc="x" * 400) for n in range(400))))
        size = max(path.stat().st_size for path in tmp_path.iterdir())
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size // 2, hard))
        refused = client.register("during", record("large", *(column(f"c{n}", doc="y" * 400) for n in range(800))))
        assert refused.status in (200, 500), refused.body
        reported.add("during", "", 0, b"")
        assert client.get("/subjects/before/versions").json == [1, 2, 3, 4, 5]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        for number in range(5):
            register(client, reported, "after", schema(1, number))
        assert reported.statuses[200] == 10
        reported.check(client)
        assert client.get("/health/ready").status == 200
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        client = Client(url)
        reported.check(client)
        assert client.get("/subjects/during/versions").status == (200 if refused.status == 200 else 404)


def test_the_clock_jumps_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    client.level("NONE")
    reported = Told()
    for number, jump in enumerate((0, -86_400 * 365, 3_600, -3_600 * 24 * 365 * 60)):
        monkeypatch.setattr(time, "time", lambda jump=jump: now() + jump)
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: int((now() + jump) * 1e9))
        register(client, reported, "clock", schema(0, number))
    assert reported.statuses == {200: 4}
    reported.check(client)
    assert client.get("/subjects/clock/versions/latest").json["version"] == 4
