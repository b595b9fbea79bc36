"""Answers with a digest of the whole exchange, for those who ask for one (`schemas.digest`)."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.digest import ASK, HEADER, MOST, of_exchange

_NAME: Final = HEADER.lower().encode()
_NAME_OF: Final = itemgetter(0)


class Digests:
    """ASGI middleware. Requests that do not ask, and bodies of more than MOST or of unknown length, go through."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _NAME not in map(_NAME_OF, scope["headers"]) or not _asks(scope):
            await self.app(scope, receive, send)
            return
        body = await _body(receive)
        await self.app(scope, _Again(body, receive), _Answering(scope, body, send))


def _asks(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    known = length.isdecimal() and len(length) < 10 and int(length) <= MOST and "transfer-encoding" not in headers
    return known and headers[HEADER] == ASK


async def _body(receive: Receive) -> list[Message]:
    """The request's body, as the messages it came in; the server holds it to the length that was told."""
    messages = []
    while True:
        message = await receive()
        messages.append(message)
        if not message.get("more_body"):
            return messages


class _Again:
    """`receive` of a request whose body was read already."""

    def __init__(self, messages: list[Message], receive: Receive) -> None:
        self._messages = iter(messages)
        self._receive = receive

    async def __call__(self) -> Message:
        return next(self._messages, None) or await self._receive()


class _Answering:
    """`send` that holds the answer until it is whole."""

    def __init__(self, scope: Scope, body: list[Message], send: Send) -> None:
        raw = scope.get("raw_path") or scope["path"].encode()
        query = scope.get("query_string", b"")
        self._asked = scope["method"], raw + (b"?" + query if query else b"")
        self._body = b"".join(message.get("body", b"") for message in body)
        self._send = send
        self._start: Message = {}
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            answer = b"".join(self._parts)
            headers = MutableHeaders(scope=self._start)
            headers[HEADER] = of_exchange(*self._asked, self._start["status"], self._body, answer)
            await self._send(self._start)
            message = {**message, "body": answer}
        await self._send(message)
