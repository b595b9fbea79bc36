"""A small real HTTP server that plays a schema registry, well or badly."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.golden import Golden

Answer = tuple[int, bytes, dict[str, str]]
Respond = Callable[[str, str, bytes], Answer]


@dataclass
class Server:
    """`port`, and what came in: (method, path, headers in lower case, body)."""

    port: int
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.seen]


def answer(status: int, body: Any, **headers: str) -> Answer:
    """An answer in JSON; bytes stay as they are."""
    return status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers


@contextmanager
def serving(
    respond: Respond, port: int = 0, asked: Callable[[str, int], None] = lambda path, client: None
) -> Iterator[Server]:
    """A server on a port (0: a free one) that answers by `respond(method, path, body)`.

    asked: called before, with the path and the client's port.
    """

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            asked(self.path, self.client_address[1])
            status, content, headers = respond(self.command, self.path, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = do  # the names http.server calls

        def log_message(self, format: str, *args: Any) -> None:
            """Not on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as http:
        server = Server(http.server_address[1])
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


def golden_registry(golden: Golden) -> Respond:
    """Answers by the schemas that TiCDC registered in a golden case."""
    rows = golden.meta["registered_schemas"]

    def respond(method: str, path: str, body: bytes) -> Answer:
        if path == "/":
            return answer(200, {})
        path = path.partition("?")[0]
        if path.startswith("/schemas/ids/"):
            held = [row for row in rows if str(row["id"]) == path.split("/")[3]]
            if not held:
                return answer(404, {"error_code": 40403, "message": "Schema not found"})
            if path.endswith("/versions"):
                return answer(200, [{"subject": row["subject"], "version": row["version"]} for row in held])
            return answer(200, {"schema": held[0]["schema"]})
        subject = path.split("/")[2]
        found = [row for row in rows if row["subject"] == subject]
        if not found:
            return answer(404, {"error_code": 40401, "message": "Subject not found."})
        if method == "POST":
            text = json.loads(body)["schema"]
            ids = [row["id"] for row in found if row["schema"] == text]
            return answer(200, {"id": ids[0]}) if ids else answer(409, {"error_code": 40901, "message": "no"})
        return answer(200, max(found, key=lambda row: int(row["version"])))

    return respond
