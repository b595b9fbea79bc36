"""Asking the service's own API, in this process, as whoever asked for the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from fastapi import Request
from starlette.types import ASGIApp, Message

from ticdc_bridge.clients.http import HttpResponse

# What says who the user is.
_CREDENTIALS: Final = ("authorization", "x-request-id")
_OF_CLIENT: Final = ("client", "server", "scheme", "extensions", "state")
_FAILED: Final = 400


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What the API said. value: the JSON of its body, or the text where it is none."""

    status: int
    value: Any

    @property
    def is_ok(self) -> bool:
        return self.status < _FAILED

    @property
    def problem(self) -> str:
        """The API's message of an error, with its code."""
        if not isinstance(self.value, dict):
            return f"{self.status}"
        return f"{self.value.get('message', '')} (error code {self.value.get('error_code', self.status)})"


class ApiError(Exception):
    """The API refused what a page can't do without."""

    def __init__(self, answer: ApiAnswer) -> None:
        super().__init__(answer.problem)
        self.answer = answer


class ApiClient:
    """The API for one request of a page: the app, asked with that client's credentials, address and certificate."""

    def __init__(self, request: Request) -> None:
        self._app: ASGIApp = getattr(request.app.state, "served", request.app)
        self._headers = {name: request.headers[name] for name in _CREDENTIALS if name in request.headers}
        self._headers["host"] = request.url.netloc or "localhost"
        self._scope = {name: request.scope[name] for name in _OF_CLIENT if name in request.scope}

    async def get(self, *path: str, **query: str | int | bool | None) -> ApiAnswer:
        """GET of a path given by its parts, each encoded here."""
        return await self.send("GET", *path, query=query)

    async def send(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> ApiAnswer:
        params = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = (
            "/"
            + "/".join(quote(part, safe="") for part in path)
            + ("?" + urlencode(params, quote_via=quote) if params else "")
        )
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        scope = {**self._scope, "state": dict(self._scope.get("state") or {})}  # a request keeps its body there
        answer = await ask_app(
            self._app, method, target, b"" if body is None else json.dumps(body).encode(), headers, scope
        )
        return ApiAnswer(answer.status, answer.json)

    async def need(self, *path: str, **query: str | int | bool | None) -> Any:
        """The body of a GET. Raises ApiError."""
        answer = await self.get(*path, **query)
        if not answer.is_ok:
            raise ApiError(answer)
        return answer.value


async def ask_app(
    app: ASGIApp, method: str, target: str, body: bytes, headers: Mapping[str, str], scope: Mapping[str, Any] = {}
) -> HttpResponse:
    """Ask an ASGI app without a socket. target: path and query, escaped. scope: what else its scope has."""
    path, _, query = target.partition("?")
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop() if incoming else await never

    async def send(message: Message) -> None:
        sent.append(message)

    request = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
    }
    try:
        await app({**request, **scope}, receive, send)
    except Exception:
        if not sent:
            raise  # else it has answered 500, and raised for the log of a server
    start = next(message for message in sent if message["type"] == "http.response.start")
    media = {name.lower(): value for name, value in start.get("headers", ())}.get(b"content-type", b"").decode()
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return HttpResponse(start["status"], content, media.partition(";")[0].strip().lower())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
