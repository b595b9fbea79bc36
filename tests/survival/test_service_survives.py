"""The service in trouble. Afterwards everything it acknowledged is there, versions have no holes, ids are unique."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.service import Client, column, process_service, record
from tests.support.table import check_rows
from tests.survival.acknowledged_writes import Told, schema
from ticdc_bridge.service.testing import running_service

AT_ONCE = 64
SLOW = 500
SOAK = bool(os.environ.get("BRIDGE_SOAK"))


@pytest.fixture
def none(client: Client) -> Client:
    client.level("NONE")
    return client


def register(client: Client, told: Told, subject: str, text: str) -> None:
    try:
        answer = client.register(subject, text)
    except (OSError, HTTPException):
        return
    told.add(subject, text, answer.status, answer.body)


def test_64_registrations_of_one_subject_at_once(none: Client) -> None:
    told = Told()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(AT_ONCE):
            pool.submit(register, none, told, "one", schema(0, number))
    assert told.statuses == {200: AT_ONCE}
    told.check(none)
    assert len(none.get("/subjects/one/versions").json) == AT_ONCE


def test_the_disk_is_full_for_a_while(tmp_path: Path) -> None:
    """The kernel refuses every write that makes a file longer than it is: what SQLite sees of a full disk."""
    with process_service(tmp_path, BRIDGE_STORE_WAIT_SECONDS="3") as (process, client):
        client.level("NONE")
        told = Told()
        for number in range(5):
            register(client, told, "before", schema(0, number))
        client.register("filler", record("filler", *(column(f"c{n}", doc="x" * 400) for n in range(400))))
        size = max(path.stat().st_size for path in tmp_path.iterdir())
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size // 2, hard))
        refused = client.register("during", record("large", *(column(f"c{n}", doc="y" * 400) for n in range(800))))
        assert refused.status in (200, 500), refused.body
        told.add("during", "", 0, b"")
        assert client.get("/subjects/before/versions").json == [1, 2, 3, 4, 5]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        for number in range(5):
            register(client, told, "after", schema(1, number))
        assert told.statuses[200] == 10
        told.check(client)
        assert client.get("/health/ready").status == 200
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        client = Client(url)
        told.check(client)
        assert client.get("/subjects/during/versions").status == (200 if refused.status == 200 else 404)


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}", compatibility="NONE") as url:
        client = Client(url)
        told = Told()
        with sqlite3.connect(tmp_path / "registry.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            writers = [
                threading.Thread(target=register, args=(client, told, "waiting", schema(0, n))) for n in range(8)
            ]
            for writer in writers:
                writer.start()
            assert client.get("/subjects").status == 200  # reading goes on
            writers[0].join(1.0)
            assert all(writer.is_alive() for writer in writers)
            other.execute("COMMIT")
        other.close()
        for writer in writers:
            writer.join()
        assert told.statuses == {200: 8}
        told.check(client)


def test_the_clock_jumps_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    client.level("NONE")
    told = Told()
    for number, jump in enumerate((0, -86_400 * 365, 3_600, -3_600 * 24 * 365 * 60)):
        monkeypatch.setattr(time, "time", lambda jump=jump: now() + jump)
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: int((now() + jump) * 1e9))
        register(client, told, "clock", schema(0, number))
    assert told.statuses == {200: 4}
    told.check(client)
    assert client.get("/subjects/clock/versions/latest").json["version"] == 4


@pytest.fixture
def slow(client: Client) -> Iterator[list[socket.socket]]:
    parts = urlsplit(client.url)
    opened = []
    for number in range(SLOW):
        connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
        body = (
            b"" if number % 2 else b"POST /subjects/slow/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
        )
        connection.sendall(body or b"GET /subjects HTTP/1.1\r\nHost")
        opened.append(connection)
    yield opened
    for connection in opened:
        connection.close()


def test_500_slow_clients_do_not_stop_the_others(client: Client, slow: list[socket.socket]) -> None:
    client.level("NONE")
    told = Told()
    for number in range(20):
        register(client, told, "others", schema(0, number))
    assert told.statuses == {200: 20}
    told.check(client)
    for connection in slow[1::2]:
        connection.sendall(b": x\r\n\r\n")
    assert all(b"200 OK" in connection.recv(4096) for connection in slow[1::2])


def test_large_bodies(client: Client) -> None:
    def check(size: int) -> None:
        told = Told()
        body = b'{"schema":"' + b"x" * (size - 13) + b'"}'
        try:
            status = client.send("POST", "/subjects/large/versions", body).status
        except OSError:
            status = 413  # it hung up on a client that goes on sending
        assert status in (413, 422), status
        register(client, told, "small", schema(0, size))
        assert told.statuses == {200: 1}

    client.level("NONE")
    check_rows([10 * 2**20 - 200, 10 * 2**20 + 1, 60 * 2**20], check)


DEEP = 1000
NESTED = {
    "AVRO": '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP,
    "JSON": '{"properties":{"a":' * DEEP + "{}" + "}}" * DEEP,
    "PROTOBUF": 'syntax = "proto3";' + "".join(f"message M{n} {{" for n in range(DEEP)) + "}" * DEEP,
}


def test_schemas_a_thousand_deep(client: Client) -> None:
    def check(kind: str) -> None:
        for body in (
            {"schema": NESTED[kind], "schemaType": kind},
            {"schema": json.dumps("int"), "metadata": json.loads('{"a":' * 90 + "1" + "}" * 90)},
        ):
            answer = client.send("POST", f"/subjects/deep-{kind}/versions", body)
            assert answer.status in (200, 400, 422), answer.body[:300]
        deep_body = b'{"schema":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        assert client.send("POST", f"/subjects/deep-{kind}/versions", deep_body).status in (400, 422)
        assert client.get("/health/live").status == 200

    check_rows(NESTED, check)


@pytest.mark.parametrize("lives", [1, pytest.param(50 if SOAK else 5, marks=pytest.mark.slow)])
def test_killed_under_load(tmp_path: Path, lives: int) -> None:
    """kill -9 while writers write; after each start all that was ever acknowledged is there. BRIDGE_SOAK: 50 times."""
    told = Told()
    for life in range(lives):
        with process_service(tmp_path) as (process, client):
            client.level("NONE")
            told.check(client)
            before = told.statuses.get(200, 0)
            with ThreadPoolExecutor(8) as pool:
                for number in range(400):
                    pool.submit(register, client, told, f"life{life % 4}", schema(life, number))
                while told.statuses.get(200, 0) - before < 10 + 3 * life % 40:
                    time.sleep(0.001)
                process.kill()
                pool.shutdown(cancel_futures=True)
    with running_service(f"sqlite:///{tmp_path / 'registry.db'}") as url:
        told.check(Client(url))
    assert set(told.statuses) == {200}
