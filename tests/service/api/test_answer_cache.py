"""The hot path answers what the router answers: status, headers and body, whatever was asked and written before."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from tests.support.service import column, record, short_and_long
from ticdc_bridge.service.api.fast_path.answer_cache import AnswerCache, CachedAnswer, CachedAnswers, Key
from ticdc_bridge.service.api.metrics import Tally
from ticdc_bridge.service.registry.ports import ReadKey
from ticdc_bridge.service.server.app import create_app, wrap_served
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.store.transaction import subject_key

Headers = list[tuple[bytes, bytes]]
JSON = (b"content-type", b"application/json")
SCHEMAS = [record("R", column("a")), record("R", column("b", default=1)), '"int"', '{"type":"nope"}']
READS = [
    ("GET", "/schemas/ids/{n}"), ("GET", "/schemas/ids/{n}?fetchMaxId=true"), ("GET", "/schemas/ids/{n}?subject={s}"),
    ("GET", "/schemas/ids/{n}/schema"), ("GET", "/subjects/{s}/versions/latest"),
    ("GET", "/subjects/{s}/versions/{n}?deleted=true"), ("GET", "/subjects/{s}/versions/{n}/schema"),
    ("GET", "/contexts/.c/subjects/{s}/versions/latest/"), ("GET", "/subjects/{s}/versions"), ("GET", "/subjects"),
    ("GET", "/subjects?deleted=true&subjectPrefix=:*:"), ("HEAD", "/subjects/{s}/versions/latest"),
    ("POST", "/subjects/{s}"), ("POST", "/subjects/{s}?normalize=true&deleted=true"),
    ("POST", "/contexts/.c/subjects/{s}"),
]  # fmt: skip
WRITES = [
    ("POST", "/subjects/{s}/versions"), ("POST", "/subjects/{s}/versions"),
    ("POST", "/subjects/%3A.c%3A{s}/versions"), ("DELETE", "/subjects/{s}"),
    ("DELETE", "/subjects/{s}?permanent=true"), ("DELETE", "/subjects/{s}/versions/{n}"), ("PUT", "/config/{s}"),
    ("PUT", "/config"), ("DELETE", "/config/{s}"), ("PUT", "/mode/{s}?force=true"),
]  # fmt: skip
BODIES: dict[str, list[dict[str, Any]]] = {
    "/config": [{"compatibility": "NONE"}, {"alias": "t"}, {"normalize": True}, {"compatibility": "FULL", "alias": ""}],
    "/mode": [{"mode": "READONLY"}, {"mode": "READWRITE"}, {"mode": "IMPORT"}],
}
HEADERS = st.sampled_from([
    [], [(b"accept", b"application/json")], [(b"accept", b"text/html")],
    [(b"accept", b"*/*"), (b"accept", b"text/html")], [(b"x-request-id", b" mine ")], [(b"x-request-id", b"")],
])  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Headers, bytes]:
    method, path = draw(st.sampled_from(READS + WRITES))
    path = path.format(s=draw(st.sampled_from("st")), n=draw(st.integers(1, 3)))
    headers = draw(HEADERS)
    if method not in ("POST", "PUT"):
        return method, path, headers, b""
    bodies = next((some for start, some in BODIES.items() if path.startswith(start)), None)
    body = json.dumps(draw(st.sampled_from(bodies or [{"schema": schema} for schema in SCHEMAS]))).encode()
    kind = draw(st.sampled_from([JSON, JSON, JSON, (b"content-type", b"text/plain")]))
    return method, path, [*headers, kind, (b"content-length", str(len(body)).encode())], body


async def ask(app: ASGIApp, method: str, path: str, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    """One request, its body in two parts."""
    raw, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "scheme": "http", "method": method, "path": raw,
        "raw_path": raw.encode(), "query_string": query.encode(), "headers": headers,
    }  # fmt: skip
    pieces = [body[:3], body[3:]]
    answer: list[Message] = []

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        answer.append(message)

    await app(scope, receive, send)
    return answer[0]["status"], list(answer[0]["headers"]), b"".join(entry.get("body", b"") for entry in answer[1:])


def alike(answer: tuple[int, Headers, bytes]) -> tuple[int, Headers, bytes]:
    """Without what differs from one answer to the next: ids of requests, and times."""
    status, headers, body = answer
    headers = [(name, b"id" if len(value) == 36 and UUID(value.decode()) else value) for name, value in headers]
    headers = [(name.lower(), value) for name, value in headers]
    return status, headers, re.sub(rb'"ts":\d+', b'"ts":0', body)


def at_once(hot: CachedAnswers, method: str, path: str, headers: Headers) -> tuple[int, Headers, bytes] | None:
    """What the server writes for a GET without asking the app."""
    pieces = hot.find_answer(path.encode(), headers) if method == "GET" else None
    if pieces is None:
        return None
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    lines = [line.partition(b": ") for line in head.split(b"\r\n")]
    return alike((200, [(name, value) for name, _, value in lines], body))


@contextmanager
def both(folder: Path, profile: Any) -> Iterator[tuple[CachedAnswers, ASGIApp]]:
    """The app with and without the hot path, each with a store of its own."""
    settings = Settings(store=f"sqlite:///{folder / 'hot.db'}", profile=profile)
    hot = wrap_served(create_app(settings), settings)
    app = create_app(Settings(store=f"sqlite:///{folder / 'app.db'}", profile=profile))
    assert isinstance(hot, CachedAnswers)
    try:
        yield hot, app
    finally:
        hot.store.close()
        app.state.services.registry.store.close()


@short_and_long(6, 25)
@pytest.mark.parametrize("profile", [8, 7])
def test_both_ways_answer_alike(tmp_path_factory: pytest.TempPathFactory, profile: int, examples: int) -> None:
    """Every request comes twice, so that the second time its answer may be a kept one; so do those before it."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(asked=st.lists(requests(), min_size=5, max_size=30))
    def holds(asked: list[tuple[str, str, Headers, bytes]]) -> None:
        async def compare(hot: CachedAnswers, app: ASGIApp) -> None:
            for index, request in enumerate(asked):
                for again in (*asked[max(index - 3, 0) : index + 1], request):
                    answer = alike(await ask(app, *again))
                    assert alike(await ask(hot, *again)) == answer, again
                    assert at_once(hot, *again[:3]) in (None, answer), again

        with both(tmp_path_factory.mktemp("both"), profile) as (hot, app):
            asyncio.run(compare(hot, app))

    holds()


def test_what_is_kept(tmp_path: Path) -> None:
    body = json.dumps({"schema": SCHEMAS[0]}).encode()
    posted: Headers = [JSON, (b"content-length", str(len(body)).encode())]

    async def kept(hot: CachedAnswers) -> list[int]:
        sizes = []
        for method, path in (
            ("POST", "/subjects/s/versions"),  # writes
            ("POST", "/subjects/s/versions"),
            ("GET", "/schemas/ids/1"),
            ("GET", "/schemas/ids/2"),  # 404
            ("GET", "/subjects/s/versions/1"),
            ("GET", "/schemas/types"),  # not a route of ROUTES
            ("GET", "/schemas/ids/1?fetchMaxId=true"),
            ("GET", "/subjects"),
            ("POST", "/subjects/t/versions"),  # a write, of the same id: only what is known of s alone stays
        ):
            await ask(hot, method, path, posted if method == "POST" else [], body)
            sizes.append(len(hot.answers))
        return sizes

    with both(tmp_path, 8) as (hot, _):
        assert asyncio.run(kept(hot)) == [0, 1, 2, 2, 3, 3, 4, 5, 2]


def test_what_is_answered_at_once(tmp_path: Path) -> None:
    """What is kept, once it is known that no other process wrote; nothing that the app has to look at."""

    async def make_ready(hot: CachedAnswers) -> None:
        body = json.dumps({"schema": SCHEMAS[0]}).encode()
        await ask(hot, "POST", "/subjects/s/versions", [JSON, (b"content-length", str(len(body)).encode())], body)
        for _ in range(3):
            await ask(hot, "GET", "/schemas/ids/1", [], b"")

    rows: list[tuple[str, str, Headers, bool]] = [
        ("GET", "/schemas/ids/1", [], True), ("GET", "/schemas/ids/1", [(b"host", b"x")], True),
        ("GET", "/schemas/ids/1", [(b"accept", b"text/html")], False),
        ("GET", "/schemas/ids/1", [(b"x-request-id", b"1")], False), ("GET", "/schemas/ids/1?subject=s", [], False),
        ("GET", "/schemas/ids/2", [], False), ("GET", "/", [], False),
    ]  # fmt: skip
    with both(tmp_path, 8) as (hot, _):
        asyncio.run(make_ready(hot))
        hot._look_at += 3600  # nobody else writes
        assert [at_once(hot, *row[:3]) is not None for row in rows] == [row[3] for row in rows]


S, T = subject_key("s"), subject_key("t")
NAME: Key = ("GET", b"/x", b"", None, None, b"")


def kept(*pieces: ReadKey, size: int = 10) -> CachedAnswer:
    return CachedAnswer([], [], b"", b"", b"", frozenset(pieces), Tally(), size)


def test_what_changed_while_it_was_read_is_not_kept() -> None:
    answers = AnswerCache(1 << 20)
    began = answers.now()
    answers.before_change([S])
    answers.put(NAME, kept(S), began)  # between the two nobody knows which state was read
    assert len(answers) == 0
    answers.after_change([S])
    answers.put(NAME, kept(S), began)
    assert len(answers) == 0
    answers.put(NAME, kept(T), began)
    assert len(answers) == 1
    answers.before_change([T])
    assert len(answers) == 0
    answers.after_change([T])
    began = answers.now()
    for _ in range(1000):
        answers.before_change([S])
        answers.after_change([S])
    answers.put(NAME, kept(T), began)  # too long ago to know
    assert len(answers) == 0
    began = answers.now()
    answers.forget()
    answers.put(NAME, kept(T), began)
    assert len(answers) == 0
    answers.put(NAME, kept(T), answers.now())
    assert len(answers) == 1


def test_the_least_recently_used_goes_first() -> None:
    answers = AnswerCache(limit=30)
    keys: list[Key] = [("GET", str(number).encode(), b"", None, None, b"") for number in range(4)]
    for key in keys[:3]:
        answers.put(key, kept(S), 0)
    assert answers.get(keys[0]) is not None
    answers.put(keys[3], kept(T), 0)
    assert [answers.get(key) is not None for key in keys] == [True, False, True, True]
    answers.put(("GET", b"long", b"", None, None, b""), kept(S, size=31), 0)
    assert len(answers) == 3
