"""Paths as they were sent: routes match on the undecoded segments, so `a%2Fb` is one subject, as it is to Confluent's.

Also here, because they concern every request alike: a trailing slash is served directly, `;x` after a segment is cut
off, HEAD is GET without a body, what Jetty refuses is refused, and each answer names its request.

`/contexts/{ctx}/…` is every path again, with its subjects in a context: the context goes into the path and the query,
so that routes know qualified subjects only.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes, urlencode
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ticdc_bridge.service.api.request import V1, compact
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, prefix_of
from ticdc_bridge.service.server.logs import REQUEST_ID

CONTEXTS: Final = "/contexts/"
_ANY: Final = (":.", ":*:")
_BEFORE_SUBJECT: Final = "subjects"
_SCOPED: Final = ("config", "mode")
_LISTED: Final = ("schemas", "subjects")


def remove_context(path: str, query: bytes) -> tuple[str, bytes]:
    """The path and query that mean the same without `/contexts/{ctx}`. Raises ValueError for a name with a colon."""
    name, *parts = path[len(CONTEXTS) :].split("/")
    context = context_name(unquote(name))
    prefix = prefix_of(context)
    if not parts:
        return CONTEXTS + quote(context, safe=""), query
    if parts == ["contexts"]:
        return "/contexts", query
    route = [*parts, ""] if len(parts) == 1 and parts[0] in _SCOPED and prefix else parts
    for place, part in enumerate(parts):
        follows = place + 1 < len(route)
        if follows and (part == _BEFORE_SUBJECT or (place == 0 and part in _SCOPED)):
            route[place + 1] = quote(qualify_subject(unquote(route[place + 1]), prefix), safe="")
            break
    return "/" + "/".join(route), qualify_query("/".join(parts), query, prefix)


def context_name(text: str) -> str:
    """`ctx`, `.ctx` and `:.ctx:` are the same. Raises ValueError if a colon is left in the name."""
    name = text[1:-1] if text.startswith(":") and text.endswith(":") and len(text) > 1 else text
    if ":" in name:
        raise ValueError(f"Context name can't contain a colon: {text}")
    return name if name.startswith(".") else DEFAULT_CONTEXT + name


def qualify_subject(subject: str, prefix: str) -> str:
    """A subject in the context, unless it names one itself."""
    return subject if subject.startswith(_ANY) else prefix + subject


def qualify_query(route: str, query: bytes, prefix: str) -> bytes:
    """The query with the parameters that name or begin subjects put into the context."""
    name = "subject" if route.startswith("schemas/ids") else "subjectPrefix" if route in _LISTED else None
    if name is None:
        return query
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    subject = next((value for key, value in pairs if key == name), "")
    others = [(key, value) for key, value in pairs if key != name]
    return urlencode([*others, (name, qualify_subject(subject, prefix))]).encode()


_BAD_ESCAPE = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
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

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["Vary"] = "Accept-Encoding"
            await send(message)

        raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        problem = refusal(raw)
        if problem:
            await error_page(problem)(scope, receive, send_with_id)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        path, query = strip_path(raw), scope.get("query_string", b"")
        if path.startswith(CONTEXTS):
            try:
                path, query = remove_context(path, query)
            except ValueError as error:
                await bad_request(str(error))(scope, receive, send_with_id)
                return
        await self._app({**scope, "path": path, "query_string": query, "method": method}, receive, send_with_id)


def refusal(raw: str) -> str | None:
    """Why a path is not served at all, in Jetty's words; None if it is."""
    if _CONTROL.search(raw):
        return "Suspicious Path Character"
    if "%" in raw or not raw.isascii():
        # Decoded loosely, two different paths would be one subject.
        if _BAD_ESCAPE.search(raw):
            return "Bad percent encoding"
        try:
            unquote_to_bytes(raw.encode("latin-1")).decode()
        except UnicodeDecodeError:
            return "Bad UTF8 encoding"
    segments = [segment.partition(";")[0] for segment in raw.split("/")]
    if any(_DOTS.fullmatch(segment) for segment in segments):
        return "Ambiguous URI path segment"
    return "Ambiguous URI empty segment" if "" in segments[1:-1] else None


def strip_path(raw: str) -> str:
    """The path without matrix parameters and without a trailing slash."""
    path = "/".join(segment.partition(";")[0] for segment in raw.split("/"))
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def bad_request(problem: str) -> Response:
    return Response(compact({"error_code": 400, "message": problem}), 400, media_type=V1)


def error_page(problem: str) -> Response:
    """An HTML page, as the web server in front of Confluent's registry sends it."""
    title = f"Error 400 {escape(problem)}"
    page = f"<html><head><title>{title}</title></head><body>{title}</body></html>\n"
    return Response(page, 400, media_type="text/html")
