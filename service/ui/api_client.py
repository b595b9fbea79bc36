"""Asking the service's own API, in this process, as whoever asked for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx2
from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

# What says who the user is.
_CREDENTIALS: Final = ("authorization", "x-request-id")
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
    """The API for one request of a page."""

    def __init__(self, request: Request) -> None:
        served: ASGIApp = getattr(request.app.state, "served", request.app)
        headers = {name: request.headers[name] for name in _CREDENTIALS if name in request.headers}
        base = f"{request.url.scheme}://{request.url.netloc or 'localhost'}"
        transport = httpx2.ASGITransport(app=_ClientApp(served, request.scope), raise_app_exceptions=False)
        self._client = httpx2.AsyncClient(transport=transport, base_url=base, headers=headers, follow_redirects=False)

    async def get(self, *path: str, **query: str | int | bool | None) -> ApiAnswer:
        """GET of a path given by its parts, each encoded here."""
        return await self.send("GET", *path, query=query)

    async def send(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> ApiAnswer:
        params = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = "/" + "/".join(quote(part, safe="") for part in path)
        answer = await self._client.request(method, target, params=params, json=body)
        try:
            return ApiAnswer(answer.status_code, answer.json())
        except ValueError:
            return ApiAnswer(answer.status_code, answer.text)

    async def need(self, *path: str, **query: str | int | bool | None) -> Any:
        """The body of a GET. Raises ApiError."""
        answer = await self.get(*path, **query)
        if not answer.is_ok:
            raise ApiError(answer)
        return answer.value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _ClientApp:
    """The app, called from where the page's request came: its client's address and certificate go along."""

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        self._app = app
        self._kept = {
            name: scope[name] for name in ("client", "server", "scheme", "extensions", "state") if name in scope
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, **self._kept}, receive, send)
