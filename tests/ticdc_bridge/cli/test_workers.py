"""`serve --workers N`: several processes on one port that are one service."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.command_process import Command
from tests.support.service import Client, column, ended, listening_at, record, serve, until, workers_of
from tests.support.table import check_rows

CONNECTIONS = 12
"""So many that each worker has some of them."""


class Line:
    """A connection that is kept, so that one worker answers on it."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def served(folder: Path, store: str = "", *arguments: str, workers: int = 2) -> Iterator[tuple[Command, str]]:
    url = store or f"sqlite:///{folder / 'registry.db'}"
    with serve("--port", "0", "--store", url, "--workers", str(workers), *arguments, cwd=folder) as process:
        try:
            yield process, listening_at(process)
        finally:
            process.kill()


@contextmanager
def lines(url: str) -> Iterator[list[Line]]:
    with ExitStack() as stack:
        opened = [Line(url) for _ in range(CONNECTIONS)]
        for line in opened:
            stack.callback(line.close)
            assert line.send("GET", "/")[0] == 200
        yield opened


def schema(number: int) -> str:
    return record("R", column(f"c{number}", default=0))


def test_what_one_worker_did_every_other_knows_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as (process, url), lines(url) as all_lines:
        assert len(workers_of(process.pid)) == 2
        first = all_lines[0]
        assert first.send("PUT", "/config", {"compatibility": "NONE"})[0] == 200

        def everywhere(path: str, expected: tuple[int, Any]) -> None:
            for _ in range(2):  # the second time from what is kept
                assert [line.send("GET", path) for line in all_lines] == [expected] * CONNECTIONS, path

        for number, line in enumerate(all_lines, start=1):
            assert line.send("POST", "/subjects/s/versions", {"schema": schema(number)})[0] == 200
            everywhere("/subjects/s/versions", (200, list(range(1, number + 1))))
            everywhere("/subjects/s/versions/latest", all_lines[-1].send("GET", f"/subjects/s/versions/{number}"))
        for level, line in zip(("FULL", "NONE", "FORWARD"), all_lines, strict=False):
            assert line.send("PUT", "/config/s", {"compatibility": level})[0] == 200
            everywhere("/config/s", (200, {"compatibilityLevel": level}))
        for mode, line in zip(("READONLY", "READWRITE"), all_lines[5:], strict=False):
            assert line.send("PUT", "/mode/s", {"mode": mode})[0] == 200
            everywhere("/mode/s", (200, {"mode": mode}))
        assert all_lines[3].send("DELETE", "/subjects/s/versions/2") == (200, 2)
        everywhere("/subjects/s/versions", (200, [1, *range(3, CONNECTIONS + 1)]))

        text = Client(url).get("/metrics").body.decode()
        count = (
            r'schema_registry_requests_total\{method="POST",path="/subjects/\{subject\}/versions",status="200"\} (\S+)'
        )
        found = re.search(count, text)
        assert found, text
        assert float(found[1]) == CONNECTIONS  # of all workers, whichever is asked
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "ticdc-bridge: stopped\n")


def test_a_worker_that_died_is_replaced(tmp_path: Path) -> None:
    with served(tmp_path) as (process, url):
        client = Client(url)
        assert client.register("s", schema(1)).json["id"] == 1
        before = workers_of(process.pid)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(workers_of(process.pid)) == 2 and before[0] not in workers_of(process.pid))
        for number in range(2, 12):
            assert client.register("t", schema(number % 2)).status == 200
            assert client.get("/schemas/ids/1").json["schema"] == json.dumps(
                json.loads(schema(1)), separators=(",", ":")
            )
        assert 'schema_registry_registrations_total{status="success"} 11.0' in client.get("/metrics").body.decode()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert re.fullmatch(
        r"ticdc-bridge: warning: worker 1 \(process \d+\) ended with exit code -9; another one takes its place\n"
        r"ticdc-bridge: stopped\n",
        stderr,
    )


def test_workers_stop_when_their_supervisor_was_killed(tmp_path: Path) -> None:
    with served(tmp_path) as (process, url):
        workers = workers_of(process.pid)
        assert Client(url).get("/").status == 200
        process.kill()
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--workers", "0"), "workers: Input should be greater than or equal to 1"),
    (("--workers", "65"), "workers: Input should be less than or equal to 64"),
    (("--workers", "two"), "Invalid value for '--workers'"),
    (("--workers", "2", "--store", "sqlite:///:memory:"), "write sqlite:///PATH (a file)"),
    (("--workers", "2", "--store", "sqlite:///none/r.db"), "does not exist"),
    (("--workers", "2", "--auth-file", "none.txt"), "none.txt"),
    (("--workers", "2", "--tls-cert", "none.pem"), "none.pem"),
    (("--workers", "2", "--track", "none.toml"), "none.toml"),
]


def test_what_workers_can_not_start_with(tmp_path: Path) -> None:
    def check(row: tuple[tuple[str, ...], str]) -> None:
        arguments, message = row
        done = ended("serve", "--port", "0", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") < 8
        assert "Traceback" not in done.stderr

    check_rows(REFUSED, check)


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as (_, url):
        port = str(urlsplit(url).port)
        for workers in ("1", "2"):
            done = ended("serve", "--port", port, "--workers", workers, cwd=tmp_path)
            assert (done.returncode, "Address already in use" in done.stderr) == (2, True)


@pytest.mark.slow
def test_random_requests_on_all_connections(tmp_path: Path, store_url: str) -> None:
    """After each write, by whichever worker, all connections answer what that one answers."""
    chance = random.Random(1)
    with served(tmp_path, store_url, workers=3) as (_, url), lines(url) as all_lines:
        assert all_lines[0].send("PUT", "/config", {"compatibility": "NONE"})[0] == 200
        acts: list[Callable[[str], tuple[str, str, Any]]] = [
            lambda s: ("POST", f"/subjects/{s}/versions", {"schema": schema(chance.randrange(9))}),
            lambda s: ("POST", f"/subjects/{s}/versions", {"schema": schema(chance.randrange(9))}),
            lambda s: ("DELETE", f"/subjects/{s}/versions/latest", None),
            lambda s: ("DELETE", f"/subjects/{s}", None),
            lambda s: ("DELETE", f"/subjects/{s}?permanent=true", None),
            lambda s: ("PUT", f"/config/{s}", {"compatibility": chance.choice(["NONE", "FULL"])}),
            lambda s: ("DELETE", f"/config/{s}", None),
            lambda s: ("PUT", f"/mode/{s}", {"mode": chance.choice(["READWRITE", "IMPORT"])}),
        ]
        for _ in range(100):
            subject = f"s{chance.randrange(3)}"
            writer = chance.choice(all_lines)
            writer.send(*chance.choice(acts)(subject))
            for path in (
                f"/subjects/{subject}/versions",
                f"/subjects/{subject}/versions/latest",
                "/subjects",
                f"/config/{subject}?defaultToGlobal=true",
                f"/mode/{subject}?defaultToGlobal=true",
                f"/schemas/ids/{chance.randrange(1, 10)}/versions",
            ):
                answers = [line.send("GET", path) for line in all_lines]
                assert all(answer == answers[0] for answer in answers), path
