"""Paths as they were sent: routes match on the undecoded segments, so `a%2Fb` is one subject, as it is to Confluent's.

A trailing slash is served directly, `;x` after a segment is cut off, HEAD is GET without a body, what Jetty refuses is
refused, each answer names its request. `/contexts/{ctx}/…` is every path again: the context goes into the path and the
query, so that routes know qualified subjects only. Long answers are compressed for clients that ask for it; short ones
are not, as that takes more CPU than all the rest of a read.
"""

import asyncio
import gzip
import re
from collections.abc import Iterable
from html import escape
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes, urlencode
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ticdc_bridge.schemas.codec.bounded_cache import LruCache
from ticdc_bridge.service.api.request import V1, compact
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, prefix_of
from ticdc_bridge.service.server.logs import REQUEST_ID

CONTEXTS: Final = "/contexts/"
_SCOPED: Final = ("config", "mode")
_LISTED: Final = ("schemas", "subjects")


def remove_context(path: str, query: bytes) -> tuple[str, bytes]:
    """The path and query that mean the same without `/contexts/{ctx}`. Raises ValueError for a name with a colon."""
    name, *segments = path[len(CONTEXTS) :].split("/")
    name = unquote(name)  # `ctx`, `.ctx` and `:.ctx:` are the same
    context = name[1:-1] if name.startswith(":") and name.endswith(":") and len(name) > 1 else name
    if ":" in context:
        raise ValueError(f"Context name can't contain a colon: {name}")
    context = context if context.startswith(".") else DEFAULT_CONTEXT + context
    prefix = prefix_of(context)
    if not segments:
        return CONTEXTS + quote(context, safe=""), query
    if segments == ["contexts"]:
        return "/contexts", query
    route = [*segments, ""] if len(segments) == 1 and segments[0] in _SCOPED and prefix else segments
    for index, piece in enumerate(segments):
        follows = index + 1 < len(route)
        if follows and (piece == "subjects" or (index == 0 and piece in _SCOPED)):
            route[index + 1] = quote(qualify_subject(unquote(route[index + 1]), prefix), safe="")
            break
    return "/" + "/".join(route), qualify_query("/".join(segments), query, prefix)


def qualify_subject(subject: str, prefix: str) -> str:
    """A subject in the context, unless it names one itself."""
    return subject if subject.startswith((":.", ":*:")) else prefix + subject


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


class RawPaths:
    """ASGI middleware; `scope["path"]` becomes the raw path, which routes decode segment by segment."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get("x-request-id", "").strip() or str(uuid4())
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
            # An HTML page, as the web server in front of Confluent's registry sends it.
            title = f"Error 400 {escape(problem)}"
            text = f"<html><head><title>{title}</title></head><body>{title}</body></html>\n"
            await Response(text, 400, media_type="text/html")(scope, receive, send_with_id)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        # Without matrix parameters and without a trailing slash.
        path, query = "/".join(segment.partition(";")[0] for segment in raw.split("/")), scope.get("query_string", b"")
        path = path[:-1] if len(path) > 1 and path.endswith("/") else path
        if path.startswith(CONTEXTS):
            try:
                path, query = remove_context(path, query)
            except ValueError as error:
                body = compact({"error_code": 400, "message": str(error)})
                await Response(body, 400, media_type=V1)(scope, receive, send_with_id)
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


LONG: Final = 64 * 1024
"""Bytes from which a body is compressed."""
_KEPT: Final = 8 * 1024 * 1024
"""Bytes of bodies and what they are compressed, which are kept: lists and long schemas are asked for again."""


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """True if `Accept-Encoding` names gzip, and does not rule it out (`q=0`)."""
    for name, value in headers:
        for choice in value.lower().split(b",") if name == b"accept-encoding" else ():
            coding, _, weight = choice.replace(b" ", b"").partition(b";q=")
            if coding == b"gzip" and (not weight or weight.strip(b"0.")):
                return True
    return False


class CompressedAnswers:
    """ASGI middleware, the outermost. Pages stay as they are, and so do answers that do not say how long they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: LruCache[bytes, bytes] = LruCache(_KEPT, lambda body, packed: len(body) + len(packed))
        self.find_answer = getattr(app, "find_answer", None)
        """`http_server.Connection` asks it first; it leaves answers that are to be compressed alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "POST") or not accepts_gzip(scope["headers"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                length = headers.get("content-length", "")
                is_page = headers.get("content-type", "").startswith("text/html")
                is_plain = "content-encoding" not in headers and not is_page
                if message["status"] == 200 and length.isdecimal() and int(length) >= LONG and is_plain:
                    start = message
                    return
            if start is not None:
                begun, start = start, None
                message = await self._compress(begun, message)
                await send(begun)
            await send(message)

        await self._app(scope, receive, send_compressed)

    async def _compress(self, start: Message, message: Message) -> Message:
        """The body's message compressed, and the header fields of `start` changed to that; a part of a body is left."""
        if message.get("more_body"):
            return message
        body = message["body"]
        packed = self._kept.get(body)
        if packed is None:
            packed = await asyncio.to_thread(gzip.compress, body, compresslevel=1, mtime=0)
            self._kept.put(body, packed)
        headers = MutableHeaders(scope=start)
        headers["content-encoding"], headers["content-length"] = "gzip", str(len(packed))
        return {**message, "body": packed}
