"""Answers kept as bytes: the requests that serializers and TiCDC repeat go round the router.

An ASGI app around the FastAPI app. The first time, the app answers, and its answer is kept under everything the app
looked at in the request: path, query, `Accept`, `Content-Type` and body. It is dropped when a part of the store that it
was made from changes (`service.registry.ports`), before the request that changes it is answered. Only 200s of
routes that are `cacheable`, which wrote nothing, are kept; all else, and what is too long, always goes to the app.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Final

from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from ticdc_bridge.service.api.fast_path.registration_batches import ROUTE, RegistrationBatcher
from ticdc_bridge.service.api.metrics import ServiceMetrics, Tally
from ticdc_bridge.service.api.middleware import LONG, accepts_gzip
from ticdc_bridge.service.api.routing import Route, all_routes
from ticdc_bridge.service.registry.deadline import Deadline, current_deadline
from ticdc_bridge.service.registry.ports import ReadKey, ReadSet, current_reads

_LONGEST_BODY: Final = 256 * 1024
_OVERHEAD: Final = 1500
_REMEMBERED: Final = 256
_LOOK_EVERY: Final = 0.05
_LOOK_SECONDS: Final = 1.0
_OK: Final = 200
_REQUEST_ID: Final = b"x-request-id"
_VARY: Final = (b"vary", b"Accept-Encoding")
_FOR_THE_APP: Final = frozenset({_REQUEST_ID, b"content-length", b"transfer-encoding", b"expect"})
"""Headers with which a GET takes the long way."""

Header = tuple[bytes, bytes]
Key = tuple[str, bytes, bytes, bytes | None, bytes | None, bytes]


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer; the request's id goes between `before` and `after`, and between `head` and `tail`, their bytes."""

    before: list[Header]
    after: list[Header]
    head: bytes
    tail: bytes
    body: bytes
    keys: frozenset[ReadKey]
    tally: Tally
    size: int


@dataclass(slots=True)
class AnswerCache:
    """The answers that are kept, the least recently used dropped first. Keeps the promises of ports.Listener."""

    limit: int
    """How many bytes may be kept."""
    _kept: OrderedDict[Key, CachedAnswer] = field(default_factory=OrderedDict)
    _by_key: dict[ReadKey, set[Key]] = field(default_factory=dict)
    _size: int = 0
    _now: int = 0
    _blind: int = 0
    """Changes up to this number are not known any more."""
    _changing: Counter[ReadKey] = field(default_factory=Counter)
    _recent: deque[tuple[int, frozenset[ReadKey]]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key) -> CachedAnswer | None:
        answer = self._kept.get(key)
        if answer is not None:
            try:
                self._kept.move_to_end(key)
            except KeyError:  # dropped by another thread just now
                return None
        return answer

    def now(self) -> int:
        """The time for `put` at which the answer began to be made: a number of changes."""
        return self._now

    def put(self, key: Key, answer: CachedAnswer, began: int) -> None:
        """Keep an answer, unless something it was made from changed meanwhile."""
        with self._lock:
            if key in self._kept or answer.size > self.limit or not self._changing.keys().isdisjoint(answer.keys):
                return
            if began < self._blind or any(
                when > began and not keys.isdisjoint(answer.keys) for when, keys in self._recent
            ):
                return
            self._kept[key] = answer
            self._size += answer.size
            for read_key in answer.keys:
                self._by_key.setdefault(read_key, set()).add(key)
            while self._size > self.limit:
                self._drop(next(iter(self._kept)))

    def before_change(self, keys: Collection[ReadKey]) -> None:
        with self._lock:
            self._changing.update(keys)
            for read_key in keys:
                for key in list(self._by_key.get(read_key, ())):
                    self._drop(key)

    def after_change(self, keys: Collection[ReadKey]) -> None:
        with self._lock:
            self._now += 1
            self._recent.append((self._now, frozenset(keys)))
            if len(self._recent) > _REMEMBERED:
                self._blind, _ = self._recent.popleft()
            for read_key in keys:
                self._changing[read_key] -= 1
                if not self._changing[read_key]:
                    del self._changing[read_key]

    def forget(self) -> None:
        with self._lock:
            self._now += 1
            self._blind = self._now
            self._recent.clear()
            self._kept.clear()
            self._by_key.clear()
            self._size = 0

    def _drop(self, key: Key) -> None:
        answer = self._kept.pop(key)
        self._size -= answer.size
        for read_key in answer.keys:
            keys = self._by_key[read_key]
            keys.discard(key)
            if not keys:
                del self._by_key[read_key]

    def __len__(self) -> int:
        return len(self._kept)


class CachedAnswers:
    """The middleware. Out: what the app would have answered, byte by byte, but for the request's id and the date."""

    def __init__(self, app: FastAPI, lane: RegistrationBatcher, *, log: bool, most_bytes: int) -> None:
        """`lane`: where new schemas go. `log`: every request is to be logged, which the app does; then all go there."""
        self._app, self._lane, self._log, self.store = app, lane, log, lane.store
        self._metrics: ServiceMetrics = app.state.metrics
        self.answers = AnswerCache(most_bytes)
        self.store.listen(self.answers)
        self._ids = request_ids()
        self._look_at = 0.0
        cacheable = (route for route in all_routes(app) if isinstance(route, Route) and route.cacheable)
        self._starts = (*{route.path.partition("{")[0].encode() for route in cacheable}, b"/contexts/")

    def disable(self) -> None:
        """Forgets its answers, and keeps none of requests that are under way."""
        self.answers.limit = 0
        self.answers.forget()

    def find_answer(self, url: bytes, headers: Iterable[Header]) -> list[bytes] | None:
        """The answer to a GET, where nothing has to be waited for: what follows the status line and the server's own
        headers, in pieces. None: the request goes to the app as any other. `url`: as the request has it.
        """
        start = time.perf_counter()
        if self._log or start >= self._look_at or not url.startswith(self._starts):
            return None
        accept = content_type = None
        for name, value in headers:
            if name == b"accept":
                accept = value if accept is None else accept
            elif name == b"content-type":
                content_type = value if content_type is None else content_type
            elif name in _FOR_THE_APP:
                return None
        path, _, query = url.partition(b"?")
        answer = self.answers.get(("GET", path, query, accept, content_type, b""))
        if answer is None or (len(answer.body) >= LONG and accepts_gzip(headers)):
            return None
        answer.tally.add(time.perf_counter() - start)
        return [answer.head, next(self._ids), answer.tail, answer.body]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        if scope["type"] != "http" or not (scope.get("raw_path") or b"").startswith(self._starts):
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "GET":
            body = b""
        elif method == "POST" and is_short(scope):
            message = await receive()
            body = message.get("body", b"")
            while message.get("more_body"):
                message = await receive()
                body += message.get("body", b"")
            receive = replay_body(receive, body, message)
        else:
            await self._app(scope, receive, send)
            return
        accept = content_type = raw_id = None
        for name, value in scope["headers"]:
            if name == b"accept":
                accept = value if accept is None else accept
            elif name == b"content-type":
                content_type = value if content_type is None else content_type
            elif name == _REQUEST_ID:
                raw_id = value if raw_id is None else raw_id
        key = (method, scope["raw_path"], scope["query_string"], accept, content_type, body)
        answer = None if self._log else self.answers.get(key)
        if answer is not None and (start >= self._look_at or method == "POST"):  # another process may have written
            answer = self.answers.get(key) if await self._check_store(method) else None
        request_id = raw_id.decode("latin-1").strip().encode("latin-1") if raw_id else b""
        if answer is not None:
            headers = [*answer.before, (_REQUEST_ID, request_id or next(self._ids)), *answer.after]
            answer.tally.add(time.perf_counter() - start)
            await send({"type": "http.response.start", "status": _OK, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
            return
        patience = Deadline(self.store.wait_seconds)
        patience.start()
        token = current_deadline.set(patience)
        try:
            if self._log or method != "POST" or not await self._register_new(key, request_id, send, start):
                await self._ask(key, scope, receive, send)
        finally:
            current_deadline.reset(token)

    async def _register_new(self, key: Key, request_id: bytes, send: Send, start: float) -> bool:
        """Register a new schema without the app, if that can be."""
        request_id = request_id or next(self._ids)
        request = self._lane.parse_request(*key[1:], request_id=request_id.decode("latin-1"))
        if request is None:
            return False
        self._metrics.in_flight += 1
        try:
            body = await self._lane.register(request)
        finally:
            self._metrics.in_flight -= 1
        if body is None:
            return False
        length, kind = str(len(body)).encode(), request.media_type.encode()
        headers = [(b"content-length", length), (b"content-type", kind), (_REQUEST_ID, request_id), _VARY]
        self._metrics.tally("POST", ROUTE, _OK).add(time.perf_counter() - start)
        await send({"type": "http.response.start", "status": _OK, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    async def _check_store(self, method: str) -> bool:
        """True if it is known now what other processes had written when the request came (a little older for a GET)."""
        began = time.perf_counter()
        looking = self.store.refresh(0.0 if method == "POST" else _LOOK_EVERY)
        if looking is not None:
            waiting = asyncio.wrap_future(looking)
            await asyncio.wait([waiting], timeout=_LOOK_SECONDS)
            if not waiting.done():
                return False
        self._look_at = began + _LOOK_EVERY
        return True

    async def _ask(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer, and keep what it says."""
        answers, reads = self.answers, ReadSet()
        began = answers.now()
        headers: list[Header] = []
        chunks: list[bytes] = []
        status = 0

        async def keep_message(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers.extend(message["headers"])
            else:
                chunks.append(message.get("body", b""))
                if not message.get("more_body") and status == _OK:
                    self._keep(key, headers, b"".join(chunks), reads, began)
            await send(message)

        token = current_reads.set(reads)
        try:
            await self._app(scope, receive, keep_message)
        finally:
            current_reads.reset(token)

    def _keep(self, key: Key, headers: list[Header], body: bytes, reads: ReadSet, began: int) -> None:
        route = reads.route
        if not route or reads.wrote or not reads.keys:
            return
        names = [name for name, _ in headers]
        if names.count(_REQUEST_ID) != 1:
            return
        index = names.index(_REQUEST_ID)
        size = len(body) + len(key[5]) + len(key[1]) + len(key[2]) + _OVERHEAD
        tally = self._metrics.tally(key[0], route, _OK)
        before, after = headers[:index], headers[index + 1 :]
        head, tail = write_headers(before) + _REQUEST_ID + b": ", b"\r\n" + write_headers(after) + b"\r\n"
        answer = CachedAnswer(before, after, head, tail, body, frozenset(reads.keys), tally, size)
        self.answers.put(key, answer, began)


def write_headers(headers: Iterable[Header]) -> bytes:
    """As they stand in a message of HTTP/1.1."""
    return b"".join(b"%b: %b\r\n" % (name.lower(), value) for name, value in headers)


def replay_body(receive: Receive, body: bytes, last: Message) -> Receive:
    """`receive` for an app whose request was read already."""
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    messages = [whole if last["type"] == "http.request" else last]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def is_short(scope: Scope) -> bool:
    """True if the body says how long it is, and is not too long to be kept."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return len(lengths) == 1 and lengths[0].isdigit() and int(lengths[0]) <= _LONGEST_BODY


def request_ids() -> Iterator[bytes]:
    """Random UUIDs (version 4) without end."""
    source = SystemRandom()
    while True:
        digits = source.getrandbits(122 * 64).to_bytes(976, "big").hex()
        for index in range(0, len(digits) - 30, 30):
            d = digits[index : index + 30]
            yield f"{d[:8]}-{d[8:12]}-4{d[12:15]}-a{d[15:18]}-{d[18:30]}".encode()
