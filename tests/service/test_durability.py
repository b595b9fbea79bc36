"""What was answered with 200 is there after kill -9, and ids go on where they were."""

from __future__ import annotations

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.support import Client, column, process_service, record

ROUNDS = 4
WRITERS = 3
BEFORE_THE_KILL = 25


def write_until_killed(client: Client, prefix: str, answered: dict[str, int], enough: threading.Event) -> None:
    """Register schema after schema, each in a subject of its own, until the server is gone."""
    for number in range(100_000):
        subject = f"{prefix}-{number}"
        try:
            answer = client.register(subject, record("R", column(subject.replace("-", "_"))))
        except (OSError, http.client.HTTPException):
            return
        assert answer.status == 200, answer.body
        answered[subject] = answer.json["id"]
        if len(answered) >= BEFORE_THE_KILL:
            enough.set()


def test_answered_writes_survive_a_kill(tmp_path: Path) -> None:
    answered: dict[str, int] = {}
    for round_ in range(ROUNDS):
        fresh: dict[str, int] = {}
        enough = threading.Event()
        with process_service(tmp_path) as (process, client), ThreadPoolExecutor(WRITERS) as pool:
            there = set(client.get("/subjects").json)
            assert answered.keys() <= there
            for writer in range(WRITERS):
                pool.submit(write_until_killed, client, f"r{round_}-{writer}", fresh, enough)
            assert enough.wait(60)
            process.kill()
        assert len(fresh) >= BEFORE_THE_KILL
        answered |= fresh
    with process_service(tmp_path) as (_, client):
        for subject, schema_id in answered.items():
            assert client.get(f"/subjects/{subject}/versions/1").json["id"] == schema_id
        ids = [client.get(f"/subjects/{subject}/versions/1").json["id"] for subject in client.get("/subjects").json]
        assert len(ids) == len(set(ids)), "two schemas have one id"
        next_id = client.register("last", '"int"').json["id"]
        assert next_id == max(ids) + 1


@pytest.mark.parametrize("permanent", [False, True])
def test_deletions_and_configs_survive(tmp_path: Path, permanent: bool) -> None:
    with process_service(tmp_path) as (process, client):
        client.register("s", '"int"')
        client.level("FULL", "other")
        client.send("DELETE", "/subjects/s")
        if permanent:
            client.send("DELETE", "/subjects/s?permanent=true")
        process.kill()
    with process_service(tmp_path) as (_, client):
        assert client.get("/subjects?deleted=true").json == ([] if permanent else ["s"])
        assert client.get("/config/other").json == {"compatibilityLevel": "FULL"}
        assert client.register("t", '"int"').json["id"] == (2 if permanent else 1)
