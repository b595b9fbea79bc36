"""Paths as they were sent: routes match on the undecoded segments, so `a%2Fb` is one subject (registry-api.md §0.2-3).

Also here, because they concern every request alike: a trailing slash is served directly, `;x` after a segment is cut
off, HEAD is GET without a body, what Jetty refuses is refused, and each answer names its request.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.call import compact
from service.api.context_paths import CONTEXTS, within_context
from service.api.media import V1
from service.logs import REQUEST_ID

_CONTROL = re.compile(r"[\x00-\x20\x7f]|%[01][0-9a-f]|%7f", re.IGNORECASE)
_DOTS = re.compile(r"(\.|%2e){2}", re.IGNORECASE)
_REQUEST_ID: Final = "x-request-id"


class RawPaths:
    """ASGI middleware; `scope["path"]` becomes the raw path, which routes decode segment by segment."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get(_REQUEST_ID, "").strip() or str(uuid4())
        REQUEST_ID.set(request_id)

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["Vary"] = "Accept-Encoding"
            await send(message)

        raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        problem = refusal(raw)
        if problem:
            await refused(problem)(scope, receive, send_named)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        path, query = plain(raw), scope.get("query_string", b"")
        if path.startswith(CONTEXTS):
            try:
                path, query = within_context(path, query)
            except ValueError as error:
                await bad_request(str(error))(scope, receive, send_named)
                return
        await self._app({**scope, "path": path, "query_string": query, "method": method}, receive, send_named)


def refusal(raw: str) -> str | None:
    """Why a path is not served at all, in Jetty's words; None if it is."""
    if _CONTROL.search(raw):
        return "Suspicious Path Character"
    segments = [segment.partition(";")[0] for segment in raw.split("/")]
    if any(_DOTS.fullmatch(segment) for segment in segments):
        return "Ambiguous URI path segment"
    return "Ambiguous URI empty segment" if "" in segments[1:-1] else None


def plain(raw: str) -> str:
    """The path without matrix parameters and without a trailing slash."""
    path = "/".join(segment.partition(";")[0] for segment in raw.split("/"))
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def bad_request(problem: str) -> Response:
    return Response(compact({"error_code": 400, "message": problem}), 400, media_type=V1)


def refused(problem: str) -> Response:
    """An HTML page, as the web server in front of Confluent's registry sends it."""
    title = f"Error 400 {escape(problem)}"
    page = f"<html><head><title>{title}</title></head><body>{title}</body></html>\n"
    return Response(page, 400, media_type="text/html")
