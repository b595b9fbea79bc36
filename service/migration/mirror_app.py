"""The service of a mirror: reads are answered as ever, writes are refused, `/mirror` and `/metrics` tell how it is."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ticdc_bridge.clients.http import V1, HttpClient, HttpResponse
from ticdc_bridge.schemas.model.errors import BridgeError, RegistryError
from ticdc_bridge.service.api.request import compact
from ticdc_bridge.service.api.routing import Router
from ticdc_bridge.service.migration.mirror import Mirror
from ticdc_bridge.service.registry.names import context_text, normalize_subject
from ticdc_bridge.service.registry.ports import NOTHING, Collect, During, StoreWrapper, StoreWriter

router = Router("/mirror", retry_on_outage=False)
T = TypeVar("T")

_SUBJECT: ContextVar[str | None] = ContextVar("mirrored_subject", default=None)
_LOG: Final = logging.getLogger("service.mirror")
_WRITES: Final = ("POST", "PUT", "DELETE")
_READ_ONLY: Final = 42205
_NOT_FORWARDED: Final = 50003
_NAMED: Final = (b"subjects", b"config", b"mode")


class ReadOnlyStore(StoreWrapper):
    """A store whose every write is refused as a registry in mode READONLY does it. What needs no write works."""

    def write(self) -> AbstractContextManager[StoreWriter]:
        """Raises RegistryError READ_ONLY."""
        subject = _SUBJECT.get()
        raise RegistryError("READ_ONLY", subject=subject or "null", context=context_text(subject))

    def write_each(
        self, collect: Collect[StoreWriter, T], wait_seconds: float, during: During = NOTHING
    ) -> list[T | Exception]:
        """As `write`, for each."""
        refused = RegistryError("READ_ONLY", subject="null", context=context_text(""))
        works, _ = collect()
        return [refused for _ in works]


class SubjectOfRequest:
    """Remembers which subject a request is about, for the refusal."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            _SUBJECT.set(subject_of(scope.get("raw_path") or b""))
        await self._app(scope, receive, send)


class WriteForwarder:
    """Sends on to the upstream what is refused here for being a write, and follows before it answers.

    Everything is asked here first: what is known is answered, and who may not ask learns so here.
    """

    def __init__(self, app: ASGIApp, upstream: HttpClient, mirror: Mirror) -> None:
        self._app, self._upstream, self._mirror = app, upstream, mirror

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WRITES:
            await self._app(scope, receive, send)
            return
        body: list[bytes] = []
        answer: list[Message] = []

        async def keep_message() -> Message:
            message = await receive()
            body.append(message.get("body", b""))
            return message

        async def hold_answer(message: Message) -> None:
            answer.append(message)

        await self._app(scope, keep_message, hold_answer)
        if is_read_only(answer):
            answer = await run_in_threadpool(self._forward, scope, b"".join(body))
        for message in answer:
            await send(message)

    def _forward(self, scope: Scope, body: bytes) -> list[Message]:
        query = scope.get("query_string") or b""
        target = (scope.get("raw_path") or b"").partition(b"?")[0] + (b"?" + query if query else b"")
        sent = json.loads(body) if body.strip() else None
        try:
            response = self._upstream.ask(scope["method"], target.decode("ascii"), sent)
        except BridgeError as error:
            error_body = compact({"error_code": _NOT_FORWARDED, "message": f"Error while forwarding: {error.detail}"})
            return _messages(HttpResponse(500, error_body, V1))
        if response.status < 300:
            try:
                self._mirror.sync(only=subject_of(target))
            except BridgeError as error:
                _LOG.warning("mirror: a write went to the upstream, but following it failed: %s", error.detail)
        return _messages(response)


def is_read_only(answer: list[Message]) -> bool:
    """Whether an answer says no because nothing may be written."""
    if not answer or answer[0].get("status") != 422:
        return False
    body = HttpResponse(422, b"".join(message.get("body", b"") for message in answer[1:])).json
    return isinstance(body, dict) and body.get("error_code") == _READ_ONLY and "read-only" in str(body.get("message"))


def _messages(answer: HttpResponse) -> list[Message]:
    length = str(len(answer.body)).encode()
    headers = [(b"content-length", length)] + ([(b"content-type", answer.media.encode())] if answer.media else [])
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    return [start, {"type": "http.response.body", "body": answer.body}]


def subject_of(raw_path: bytes) -> str | None:
    """The subject in a path, if it names one."""
    parts = raw_path.partition(b"?")[0].strip(b"/").split(b"/")
    context = unquote(parts[1].decode("latin-1")).strip(":") if parts[0] == b"contexts" and len(parts) > 1 else ""
    parts = parts[2:] if context else parts
    if len(parts) < 2 or parts[0] not in _NAMED:
        return None
    subject = normalize_subject(unquote(parts[1].decode("latin-1")))
    return subject if not context or subject.startswith(":") else normalize_subject(f":{context}:{subject}")


class MirrorMetrics(Collector):
    """How the mirror is doing, when Prometheus asks."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._mirror.status()
        gauges = {
            "mirror_differences": ("Answers that differ from the upstream's now", status["differences"]),
            "mirror_stale": ("1: the upstream can't be followed now", int(status["stale_since"] is not None)),
            "mirror_lag_seconds": ("Time since the last sync began; -1 before the first", status["lag_seconds"]),
        }
        for name, (what, value) in gauges.items():
            yield GaugeMetricFamily(name, what, -1 if value is None else value)
        counters = {
            "mirror_syncs": ("Syncs with the upstream", status["syncs"]),
            "mirror_failures": ("Syncs and comparisons that failed", status["failures"]),
            "mirror_changes": ("Changes taken over", status["changes"]),
            "mirror_compared": ("Answers compared", status["compared"]),
        }
        for name, (what, value) in counters.items():
            yield CounterMetricFamily(name, what, value)


@router.declare("GET")  # names every subject of another registry, so for admins
def mirror_status(request: Request) -> Response:
    """How the mirror is doing."""
    mirror = request.app.state.mirror
    assert isinstance(mirror, Mirror)
    return Response(compact(mirror.status()), media_type="application/json")


def install(app: FastAPI, mirror: Mirror) -> None:
    """Show a mirror in its service."""
    app.state.mirror = mirror
    app.include_router(router)
    app.state.metrics.collectors.register(MirrorMetrics(mirror))
