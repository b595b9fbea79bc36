"""What every route owes: a body within the limit, patience with the store, parameters that are described."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import APIRouter, FastAPI, Response
from starlette.types import Message

from tests.support.access import ADMIN, InProcess, bearer, files
from tests.support.routes import routes
from ticdc_bridge.service.api.routing import Route, Router
from ticdc_bridge.service.history.model import TableVersionRow
from ticdc_bridge.service.registry.deadline import Outage
from ticdc_bridge.service.server.app import create_app, wrap_served
from ticdc_bridge.service.server.settings import Settings
from ticdc_bridge.service.store.history_store import HistoryStore

LIMIT: Final = 1024
CHUNK: Final = 512
MOST_READ: Final = 16 * LIMIT
"""More than is read on of a body that is too large, so that its client sees the answer."""

NOT_HELD: Final = (
    (r"/(|v1/metadata/.*|associations/.*|openapi\.json)", "needs no store"),
    (r"/health/.*", "says how the store is, now"),
    (r"/metrics", "is answered while the store is away"),
    (r"/ui.*", "asks the routes that are held"),
    (r"/kafka/.*", "asks Kafka, within seconds of its own"),
)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    made = create_app(Settings(store=f"sqlite:///{tmp_path / 'r.db'}", max_body_bytes=LIMIT))
    yield made
    made.state.services.registry.store.close()


def test_every_route_that_needs_the_store_is_held_through_its_outage(app: FastAPI) -> None:
    """Or NOT_HELD says why it is not."""
    for method, path, route in routes(app.routes):
        excused = any(re.fullmatch(pattern, path) for pattern, _ in NOT_HELD)
        assert isinstance(route, Route)
        assert route.retry_on_outage is not excused, f"{method} {path}: a row of NOT_HELD?"


def test_every_body_is_held_to_the_limit(app: FastAPI) -> None:
    """A client that never stops sending is answered, and told so by each route that reads its body."""
    readers = set()
    for method, path, _ in routes(app.routes):
        if method == "GET":
            continue
        status, body, read = endless(app, method, re.sub(r"{\w+(:path)?}", "1", path))
        assert read <= MOST_READ, f"{method} {path} reads a body of any size: bodies.limited does not"
        if read > CHUNK:
            readers.add((method, path))
            error_text = b"More than 1024 bytes" if path.startswith("/ui") else b'"error_code":413'
            assert status == 413, (method, path, status)
            assert error_text in body, (method, path, body)
    described = {(method.upper(), path) for path, methods in app.openapi()["paths"].items()
                 for method, entry in methods.items() if entry.get("requestBody", {}).get("required")}  # fmt: skip
    assert {reader for reader in readers if not reader[1].startswith("/ui")} == described
    assert len(readers) > 15


def endless(app: FastAPI, method: str, path: str) -> tuple[int, bytes, int]:
    """The answer to a body without end, and how many bytes of it were read; the client gives up at some time."""
    read, sent = 0, []

    async def receive() -> Message:
        nonlocal read
        if read > 2 * MOST_READ:
            return {"type": "http.disconnect"}
        read += CHUNK
        return {"type": "http.request", "body": b" " * CHUNK, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2),
        "root_path": "", "state": {}, "asgi": {"version": "3.0"},
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(entry.get("body", b"") for entry in sent[1:]), read


class Away(HistoryStore):
    """A store that is away at two moments: when it is asked for changefeeds, and after something was kept."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.outages = {"changefeeds": 2, "version_at": 2}

    def _away(self, name: str) -> None:
        self.outages[name] -= 1
        if self.outages[name] >= 0:
            raise Outage("Read")

    def changefeeds(self, table: Any = None) -> list[Any]:
        self._away("changefeeds")
        return super().changefeeds(table)

    def version_at(self, *asked: Any, **more: Any) -> TableVersionRow | None:
        self._away("version_at")
        return super().version_at(*asked, **more)


def test_a_history_waits_for_the_store_and_keeps_a_statement_once(app: FastAPI) -> None:
    services = app.state.services
    history = Away(services.registry.store)
    app.state.services = replace(services, history=history)
    body = {"commit_ts": 100 << 18, "db": "d", "query": "CREATE TABLE t (a INT PRIMARY KEY)"}
    with closing(InProcess(app)) as client:
        kept = client.send("POST", "/history/ddl", body)
        feeds = client.send("GET", "/history/changefeeds")
    assert (kept.status, kept.json["new"], kept.json["known_already"]) == (200, 1, 0)
    assert [version["table"] for version in kept.json["versions"]] == ["t"]
    assert [entry["changefeed"] for entry in feeds.json] == ["default"]
    assert max(history.outages.values()) < 0  # it was away as often as it was to be


def test_a_route_that_says_nothing(tmp_path: Path) -> None:
    """It is for admins only, waits for the store, and is described; and so is for admins what is no Route of ours."""
    router, plain = Router(), APIRouter()

    @router.declare("GET", "/forgotten/{subject}")
    @plain.get("/plain")
    def answer() -> Response:
        return Response(b"{}")

    settings = Settings(store=f"sqlite:///{tmp_path / 'r.db'}", **files(tmp_path, ADMIN))
    app = create_app(settings)
    app.include_router(router)
    app.include_router(plain)
    with closing(InProcess(wrap_served(app, settings))) as client:
        for path in ("/forgotten/s", "/plain"):
            statuses = [client.send("GET", path, None, who).status for who in (None, bearer("u"), bearer("root"))]
            assert statuses == [401, 403, 200], path
        missing = [client.send("GET", "/nothing", None, who).status for who in (None, bearer("u"), bearer("root"))]
        assert missing == [401, 404, 404]
    route = next(entry for entry in routes(app.routes) if entry[1].startswith("/forgotten"))[2]
    assert (route.retry_on_outage, route.cacheable) == (True, False)
    assert "get" in app.openapi()["paths"]["/forgotten/{subject}"]
    app.state.services.registry.store.close()
