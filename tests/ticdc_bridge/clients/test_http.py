"""The one HTTP client: when it tries again, whom it tells its credentials, what it takes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import httpx2
import pytest

from tests.support.registries import Answer, answer, serving
from ticdc_bridge.clients import http
from ticdc_bridge.clients.http import HttpClient, HttpLogin
from ticdc_bridge.schemas.model.errors import SetupError


def test_retry_after_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer(429, b"later", **{"Retry-After": "7"}), answer(200, {"a": 1})]
    pauses: list[float] = []
    monkeypatch.setattr(http.stop_requested, "wait", lambda seconds: pauses.append(seconds))
    with serving(lambda *_: answers.pop(0)) as server:
        assert HttpClient(server.url).need(dict, "/") == {"a": 1}
    assert 3.5 <= pauses[0] <= 7


def test_more_than_it_waits_is_not_waited_for() -> None:
    with serving(lambda *_: answer(503, b"later", **{"Retry-After": "3600"})) as server:
        client = HttpClient(server.url, login=HttpLogin(wait=5))
        assert client.ask("GET", "/").status == 503
        with pytest.raises(SetupError, match=r"HTTP 503: later \(tried for 5 s\)"):
            client.call("GET", "/")
        assert len(server.seen) == 2


def test_credentials_go_to_no_other_host() -> None:
    with serving(lambda *_: answer(200, {})) as other:

        def redirect(_method: str, path: str, _body: Any) -> Answer:
            return answer(200, {}) if path == "/here" else answer(307, b"", Location=TARGETS[path])

        with serving(redirect) as server:
            TARGETS.update({"/there": f"{other.url}/x", "/again": "/here", "/file": "file:///etc/passwd"})
            client = HttpClient(server.url, login=HttpLogin(user="u:p"))
            assert [client.ask("GET", target).status for target in ("/there", "/again", "/file")] == [200, 200, 307]
            assert client.ask("POST", "/there", {}).status == 307, "a POST goes where it was sent"
            assert {path: "authorization" in headers for _, path, headers, *_ in server.seen}["/here"]
    assert ["authorization" in seen[2] for seen in other.seen] == [False]


TARGETS: dict[str, str] = {}


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MAX_BODY", 1 << 16)
    with serving(lambda *_: answer(200, b" " * (1 << 20))) as server, pytest.raises(SetupError) as caught:
        HttpClient(server.url).ask("GET", "/")
    assert caught.value.code == "REGISTRY_REFUSED"


_FORK = """
import os, sys
from ticdc_bridge.clients import http
client = http.HttpClient(sys.argv[1])
assert client.ask("GET", "/").status == 200
child = os.fork()
assert http._connections.cache_info().currsize == (1 if child else 0)
assert client.ask("GET", "/").status == 200
assert not child or os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_has_connections_of_its_own() -> None:
    """As Spark's Python workers are forked."""
    with serving(lambda *_: answer(200, {})) as server:
        subprocess.run([sys.executable, "-c", _FORK, server.url], check=True, timeout=120)
        assert server.paths == ["GET /"] * 3


def test_threads_that_ask_first_share_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a stream and the program around it do. A pool that is lost would leave its sockets open."""
    made: list[httpx2.Client] = []

    class CountedClient(httpx2.Client):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            made.append(self)

    monkeypatch.setattr(httpx2, "Client", CountedClient)
    monkeypatch.setattr(http, "_connections", cache(http._connections.__wrapped__))
    with serving(lambda *_: answer(200, {})) as server, ThreadPoolExecutor(8) as threads:
        together = Barrier(8)

        def ask(_: int) -> int:
            together.wait(60)
            return HttpClient(server.url).ask("GET", "/").status

        assert [*threads.map(ask, range(8))] == [200] * 8
    assert len(made) == 1
    made[0].close()
