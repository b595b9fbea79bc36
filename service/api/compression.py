"""Long answers compressed for clients that ask for it, as Confluent's server does with all answers.

Short ones are sent as they are: to compress 8 kB takes more CPU than all the rest of a read.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ticdc_bridge.schemas.codec.bounded_cache import LruCache

LONG: Final = 64 * 1024
"""Bytes from which a body is compressed."""
_KEPT: Final = 8 * 1024 * 1024
"""Bytes of bodies and what they are compressed, which are kept: lists and long schemas are asked for again."""
_LEVEL: Final = 1
_OK: Final = 200
_METHODS: Final = ("GET", "POST")
_PAGE: Final = "text/html"


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """True if `Accept-Encoding` names gzip, and does not rule it out (`q=0`)."""
    for name, value in headers:
        for part in value.lower().split(b",") if name == b"accept-encoding" else ():
            coding, _, weight = part.replace(b" ", b"").partition(b";q=")
            if coding == b"gzip" and (not weight or weight.strip(b"0.")):
                return True
    return False


class CompressedAnswers:
    """ASGI middleware, the outermost. Pages stay as they are, and so do answers that do not say how long they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: LruCache[bytes, bytes] = LruCache(_KEPT, lambda body, packed: len(body) + len(packed))
        self.find_answer = getattr(app, "find_answer", None)
        """What `http_server.Connection` asks; it leaves answers that are to be compressed alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS or not accepts_gzip(scope["headers"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and is_long(message):
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
            packed = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
            self._kept.put(body, packed)
        headers = MutableHeaders(scope=start)
        headers["content-encoding"], headers["content-length"] = "gzip", str(len(packed))
        return {**message, "body": packed}


def is_long(start: Message) -> bool:
    """True if what follows is worth compressing."""
    headers = MutableHeaders(scope=start)
    length = headers.get("content-length", "")
    plain = "content-encoding" not in headers and not headers.get("content-type", "").startswith(_PAGE)
    return start["status"] == _OK and length.isdecimal() and int(length) >= LONG and plain
