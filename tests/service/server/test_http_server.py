"""What one client can cost the others: long heads, slow requests, too many connections, large schemas."""

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from tests.support.service import TIMEOUT, Client, column, process_service, record
from tests.support.table import check_rows
from ticdc_bridge.service.server.http_server import LARGEST_HEAD, SlowClients
from ticdc_bridge.service.testing import running_service


@contextmanager
def raw(url: str) -> Iterator[socket.socket]:
    split_url = urlsplit(url)
    with socket.create_connection((split_url.hostname or "", split_url.port or 0), timeout=TIMEOUT) as opened:
        yield opened


def everything(opened: socket.socket) -> bytes:
    """What comes until the other side ends the connection."""
    chunks = []
    try:
        while chunk := opened.recv(65536):
            chunks.append(chunk)
    except ConnectionResetError:
        pass
    return b"".join(chunks)


NEVER_ENDING: list[bytes] = [
    b"",
    b"GET /sub",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /subjects/a/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    b"POST /subjects/a/versions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
]


def test_a_request_that_never_ends_is_ended() -> None:
    """All at once: each would wait for the same clock."""
    with running_service(read_seconds=0.1) as url, ThreadPoolExecutor(len(NEVER_ENDING)) as pool:

        def check(begun: bytes) -> None:
            with raw(url) as slow:
                slow.sendall(begun)
                everything(slow)
                assert Client(url).get("/").status == 200

        waiting = {begun: pool.submit(check, begun) for begun in NEVER_ENDING}
        check_rows(NEVER_ENDING, lambda begun: waiting[begun].result())


class Some:
    """A connection as `SlowClients` looks at it."""

    def __init__(self, **pieces: Any) -> None:
        self.aborted: list[bool] = []
        self.transport = SimpleNamespace(abort=lambda: self.aborted.append(True))
        self.scope: object = None
        vars(self).update(pieces)


def test_who_is_too_slow() -> None:
    """By a clock of the test's: only the same request, or the same answer, for longer than allowed."""
    scope, flow = object(), SimpleNamespace(write_paused=False)
    busy = SimpleNamespace(scope=scope, response_complete=False, more_body=False)
    working = Some(scope=scope, cycle=busy, flow=flow)
    idle = Some(scope=scope, cycle=SimpleNamespace(scope=scope, response_complete=True), flow=flow)
    head = Some(scope=object(), cycle=None, flow=flow)
    taking = Some(scope=scope, cycle=busy, flow=SimpleNamespace(write_paused=True))
    slow, all_ = SlowClients(10), (working, idle, head, taking)
    for now in (0.0, 9.0):
        slow.look(all_, now)
    head.scope = object()  # the next request
    slow.look(all_, 10.5)
    assert [bool(entry.aborted) for entry in all_] == [False, False, False, True]
    slow.look(all_, 18.0)
    assert not head.aborted
    slow.look(all_, 20.6)
    assert [bool(entry.aborted) for entry in all_] == [False, False, True, True]


def test_a_head_has_a_largest_size() -> None:
    with running_service() as url:

        def check(begun: bytes) -> None:
            more = b"X: y\r\n" if begun.endswith(b"\n") else b"x" * 6
            with raw(url) as opened:
                try:
                    opened.sendall(begun)
                    for _ in range(4 * LARGEST_HEAD // 600):
                        opened.sendall(more * 100)
                except ConnectionError:
                    pass
                assert everything(opened)[:12] in (b"HTTP/1.1 431", b"")
                assert Client(url).get("/").status == 200

        check_rows([b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n"], check)


def test_a_long_but_allowed_head_is_read() -> None:
    with running_service() as url:
        assert Client(url).get("/", **{"X-Long": "x" * (LARGEST_HEAD // 2)}).status == 200


def test_more_connections_than_allowed() -> None:
    """What counts is how many are open when a request comes; who is refused is told to close."""
    with running_service(max_connections=3) as url:
        with ExitStack() as stack:
            opened = [stack.enter_context(raw(url)) for _ in range(8)]
            for entry in opened:
                entry.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            statuses = {item.recv(100)[:12] for item in opened}
        assert b"HTTP/1.1 503" in statuses
        assert statuses <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert Client(url).get("/").status == 200


GET = b"GET /schemas/ids/1 HTTP/1.1\r\nHost: x\r\n"
CLOSE = b"Connection: close\r\n"
AT_ONCE: dict[str, bytes] = {
    "one": GET + CLOSE + b"\r\n",
    "the first at once": (GET + b"\r\n") * 2 + GET + CLOSE + b"\r\n",
    "behind one of the app": GET.replace(b"schemas/ids", b"subjects/s/versions") + b"X-Request-Id: 1\r\n\r\n"
    + GET + CLOSE + b"\r\n",
    "before one of the app": GET + b"\r\n" + b"GET /subjects/none/versions HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n",
    "HTTP/1.0": b"GET /schemas/ids/1 HTTP/1.0\r\n\r\n",
    "HTTP/1.0 kept alive": b"GET /schemas/ids/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET + CLOSE + b"\r\n",
    "with a body": GET + b"Content-Length: 3\r\n\r\nabc" + GET + CLOSE + b"\r\n",
    "with chunks": GET + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" + GET + CLOSE + b"\r\n",
    "expecting": GET + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\na" + GET + CLOSE + b"\r\n",
    "upgrading": GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "HEAD": b"HEAD /schemas/ids/1 HTTP/1.1\r\nHost: x\r\n\r\n" + GET + CLOSE + b"\r\n",
    "an absolute URL": b"GET http://x/schemas/ids/1 HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n",
    "an escape": b"GET /schemas/ids/%31 HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n",
    "a fragment": b"GET /schemas/ids/1#a HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n",
    "more heads than one may have bytes": (GET + b"\r\n") * (2 * LARGEST_HEAD // len(GET)) + GET + CLOSE + b"\r\n",
}  # fmt: skip


def test_answers_at_hand_are_those_of_the_app() -> None:
    """By a service that has answered the same before, whatever comes on one connection."""
    with running_service() as url, running_service(access_log=True) as by_the_app:  # which keeps no answers at hand
        for entry in (url, by_the_app):
            client = Client(entry)
            assert client.register("s", record("A", column("a"))).status == 200
            assert client.get("/schemas/ids/1").status == client.get("/schemas/ids/1", Accept="*/*").status == 200

        def ask(url: str, requests: bytes) -> bytes:
            with raw(url) as opened, ThreadPoolExecutor(1) as pool:
                sending = pool.submit(opened.sendall, requests)
                answer = everything(opened)
                sending.result()
            return re.sub(rb'(?i)(x-request-id|date): .*\r\n|"ts":[0-9]+', b"", answer)

        def check(name: str) -> None:
            ask(url, GET + CLOSE + b"\r\n")  # so that the store was looked at just now
            answer = ask(url, AT_ONCE[name])
            assert answer == ask(by_the_app, AT_ONCE[name])
            assert b"HTTP/1.1 200 OK" in answer or name == "upgrading"

        check_rows(AT_ONCE, check)


def test_web_pages_may_ask_where_they_are_allowed_to(tmp_path: Path) -> None:
    """CORS: a preflight needs no credentials; its origin, method and headers have to be allowed."""
    users = tmp_path / "users"
    users.write_text("")
    page = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    settings = {"cors_methods": "GET, PUT", "cors_headers": "Authorization", "auth_file": str(users)}

    def origin(client: Client, path: str, method: str, name: str, **headers: str) -> tuple[int, str | None, str | None]:
        answer = client.send(method, path, headers={"Origin": name, **headers})
        allowed = (answer.headers.get(f"access-control-allow-{of}") for of in ("origin", "credentials"))
        return (answer.status, *allowed)  # type: ignore[return-value]

    with running_service(cors_origins="https://a.example, https://*.b.example", **settings) as url:
        client = Client(url)
        for name in ("https://a.example", "https://x.b.example"):
            assert origin(client, "/config", "OPTIONS", name, **page) == (200, name, "true")
            assert origin(client, "/subjects", "GET", name) == (401, name, "true")
        for name in ("https://b.example.evil", "https://aXexample", "null"):
            assert origin(client, "/config", "OPTIONS", name, **page)[:2] == (400, None)
            assert origin(client, "/subjects", "GET", name)[1] is None
        page["Access-Control-Request-Method"] = "DELETE"
        assert origin(client, "/config", "OPTIONS", "https://a.example", **page)[0] == 400
    with running_service(cors_origins="*") as url:
        client = Client(url)
        for _ in range(2):  # the second may be at hand
            assert origin(client, "/schemas/types", "GET", "https://any") == (200, "*", None)
    with running_service() as url:
        assert origin(Client(url), "/schemas/types", "GET", "https://any") == (200, None, None)


def test_500_slow_clients_stop_nobody(tmp_path: Path) -> None:
    """Heads and bodies that never end; whoever sends whole requests is served, and at the end all is there."""
    begun = (
        b"GET /subjects HTTP/1.1\r\nHost: x\r\nX: ",
        b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    )
    with process_service(tmp_path) as (_, client), ExitStack() as stack:
        slow = [stack.enter_context(raw(client.url)) for _ in range(500)]
        for number, entry in enumerate(slow):
            entry.sendall(begun[number % 2])
        for number in range(50):
            assert client.register(f"s{number}", record("A", column("a"))).status == 200
            slow[number].sendall(b" ")
        assert len(client.get("/subjects").json) == 50


def test_schemas_and_references_have_limits() -> None:
    with running_service(max_schema_bytes=2000, max_references=2) as url:
        client = Client(url)
        assert client.register("a", record("A")).status == 200
        answer = client.register("a", record("A", doc="é" * 1000))
        words = "Register operation failed because schema is too large"
        assert (answer.status, answer.json) == (422, {"error_code": 42209, "message": words})
        many = [{"name": str(number), "subject": "a", "version": 1} for number in range(3)]
        for path in ("/subjects/b/versions", "/subjects/b", "/compatibility/subjects/b/versions"):
            answer = client.send("POST", path, {"schema": record("B"), "references": many})
            assert (answer.status, answer.json["error_code"]) == (422, 42201), path
            assert answer.json["message"] == "The schema has 3 references; at most 2 are allowed"
            # Counted before any of them is read.
            answer = client.send("POST", path, {"schema": record("B"), "references": [7] * 100_000})
            assert answer.json["message"] == "The schema has 100000 references; at most 2 are allowed"
        deep = json.dumps({"schema": "[" * 1900})
        assert client.send("POST", "/subjects/c/versions", deep.encode()).error == (422, 42201)
        assert client.send("POST", "/subjects/c/versions", b"[" * 1_000_000).error == (400, 400)
