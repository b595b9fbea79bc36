"""Answers with a digest of the exchange: only for those who ask, and of what really was asked."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest

from schemas.digest import ASK, HEADER, MOST, of_exchange
from service.testing import running_service
from spark_jobs.http_json import HttpJson


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers[HEADER]
    finally:
        connection.close()


@pytest.mark.parametrize("times", [1, 2])  # the second is answered by the hot path
def test_who_asks_gets_one(times: int) -> None:
    made = json.dumps({"schema": '"string"'}).encode()
    with running_service() as url:
        for method, path, body in (
            ("POST", "/subjects/a%2Fb/versions", made),
            ("GET", "/subjects/a%2fb/versions/1?deleted=true", b""),
            ("GET", "/schemas/ids/1", b""),
            ("GET", "/schemas/ids/99", b""),
            ("GET", "/subjects?subjectPrefix=%3A%2A%3A", b""),
            ("POST", "/subjects/a%2Fb/versions", b"no JSON"),
            ("GET", "/../etc", b""),
            ("POST", "/subjects/x/versions", b"x" * (5 * 1024 * 1024)),
        ):
            for _ in range(times):
                status, answer, none = ask(url, method, path, body or None)
                assert none is None
                again, same, digest = ask(url, method, path, body or None, **{HEADER: ASK})
                assert again == status
                if len(body) > MOST:
                    assert digest is None
                else:
                    assert digest == of_exchange(method, path, status, body, same)
                    assert len(same) == len(answer)


def test_a_server_that_stops_sending_them_is_not_believed() -> None:
    told = of_exchange("GET", "/x", 200, b"", b"{}")
    asked = HttpJson("http://127.0.0.1:1", "--registry")
    assert asked._is_whole(None, "GET", "/x", 200, b"", b"{}")  # another registry
    assert asked._is_whole(told, "GET", "/x", 200, b"", b"{}")
    for status, body, answer, digest in (
        (200, b"", b"{}", None),
        (404, b"", b"{}", None),
        (409, b"{}", b"{}", None),
        (422, b"{}", b"{}", None),  # a schema that was damaged on its way, and the word that asks for a digest, too
        (200, b"", b"[]", told),
        (201, b"", b"{}", told),
        (200, b"1", b"{}", told),
    ):
        assert not asked._is_whole(digest, "GET", "/x", status, body, answer)
    assert not asked._is_whole(told, "GET", "/y", 200, b"", b"{}")
    assert asked._is_whole(None, "GET", "/x", 403, b"", b"{}")  # a proxy's own refusal: an error anyway
    assert asked._is_whole(None, "POST", "/x", 200, b"x" * (MOST + 1), b"{}")  # too long for a digest
