"""What a request needs, as a table: method and path → operation. What is not in the table is for admins only.

Reading needs nothing here: a subject that may not be read is absent from the registry that the route gets
(`service.auth.filtered_store`), and changes are checked there once more, for the subject that an alias leads to.

A request waits while the store is away, instead of failing: TiCDC stops at the first answer that is not 200.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from schemas.model.errors import BridgeError, RegistryError
from service.api.request import V1, compact
from service.api.services import USER_ACCESS, UserAccess, services
from service.auth.acl import ADMIN, CONFIG, DELETE, HISTORY, METRICS, OF_SERVER, WRITE, denied_error
from service.registry.deadline import Deadline, Outage, current_deadline, pauses
from service.registry.model import prefix_of
from service.registry.names import BELOW_ALL, SERVER, normalize_subject

_WITH_BODY: Final = ("POST", "PUT")
_GRACE: Final = 0.5  # for what watches its own time, so that it can say why
_LEFT_BEHIND: Final[set[asyncio.Future[Any]]] = set()


T = TypeVar("T")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class RetriedRoute(APIRoute):
    """A route whose requests are tried again, from the beginning, while the store raises Outage and there is time.

    Outage means that nothing was written, and no request has more than one write transaction, which is its last. A
    database that takes a request and never answers is given up when the time is over.
    """

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle_with_retries(request: Request) -> Response:
            patience = current_deadline.get() or Deadline(services(request).registry.store.wait_seconds)
            if request.method not in _WITH_BODY:
                patience.start()
            token = current_deadline.set(patience)
            try:
                return await retry_request(lambda: handler(request), patience)
            finally:
                current_deadline.reset(token)

        return handle_with_retries


async def retry_request(work: Callable[[], Coroutine[Any, Any, Response]], patience: Deadline) -> Response:
    for pause in pauses():
        try:
            return await run_in_time(work(), patience)
        except Outage:
            if patience.seconds_left <= pause:
                raise
        await asyncio.sleep(pause)
    raise AssertionError("unreachable")


async def run_in_time(work: Coroutine[Any, Any, T], patience: Deadline) -> T:
    """What `work` gives. Raises what it raises, and STORE_TIMEOUT when the time is over; `work` then goes on alone.

    A thread that waits for the database can't be stopped; what it finds out comes too late for this request.
    """
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=patience.seconds_left + _GRACE)
            if done:
                return task.result()
            if patience.seconds_left == 0:
                break
    except asyncio.CancelledError:
        task.cancel()
        raise
    _LEFT_BEHIND.add(task)
    task.add_done_callback(_forget)
    raise RegistryError("STORE_TIMEOUT", operation="Store")


def _forget(task: asyncio.Future[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()


REFUSED: Final = "bridge.refused"
"""The key of the ASGI scope where the error is, if nobody who is known asks."""


OPEN: Final = "open"
KNOWN: Final = "known"
_REST: Final = "{...}"
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="ticdc-bridge", charset="UTF-8", Bearer realm="ticdc-bridge"'}
_RETRY: Final = {"Retry-After": "1"}


# (method, path as the app's routes have it, operation). OPEN: anybody; KNOWN: whoever proved a name. An operation on a
# subject is on the path's {subject} or {context}. `{...}` at the end stands for any rest.
PERMISSIONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("GET", "/", KNOWN),
    ("POST", "/", KNOWN),
    ("GET", "/v1/metadata/id", KNOWN),
    ("GET", "/v1/metadata/version", KNOWN),
    ("GET", "/v1/metadata/deployment", KNOWN),
    *((method, "/associations/{...}", KNOWN) for method in ("GET", "POST", "PUT", "DELETE")),  # there never are any
    ("GET", "/openapi.json", KNOWN),
    ("GET", "/health/{...}", OPEN),
    ("GET", "/metrics", METRICS),
    ("GET", "/subjects", KNOWN),
    ("POST", "/subjects/{subject}", KNOWN),
    ("DELETE", "/subjects/{subject}", DELETE),
    ("GET", "/subjects/{subject}/metadata", KNOWN),
    ("GET", "/subjects/{subject}/versions", KNOWN),
    ("POST", "/subjects/{subject}/versions", WRITE),
    ("GET", "/subjects/{subject}/versions/{version}", KNOWN),
    ("DELETE", "/subjects/{subject}/versions/{version}", DELETE),
    ("GET", "/subjects/{subject}/versions/{version}/schema", KNOWN),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", KNOWN),
    ("POST", "/subjects/{subject}/versions/{version}/tags", WRITE),
    ("GET", "/schemas/{...}", KNOWN),
    ("GET", "/schemas", KNOWN),
    ("POST", "/compatibility/subjects/{subject}/versions", KNOWN),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", KNOWN),
    ("GET", "/config", KNOWN),
    ("PUT", "/config", ADMIN),
    ("DELETE", "/config", ADMIN),
    ("GET", "/config/{subject}", KNOWN),
    ("PUT", "/config/{subject}", CONFIG),
    ("DELETE", "/config/{subject}", CONFIG),
    ("GET", "/mode", KNOWN),
    ("PUT", "/mode", ADMIN),
    ("DELETE", "/mode", ADMIN),
    ("GET", "/mode/{subject}", KNOWN),
    ("PUT", "/mode/{subject}", CONFIG),
    ("DELETE", "/mode/{subject}", CONFIG),
    ("GET", "/contexts", KNOWN),
    ("GET", "/contexts/{context}", KNOWN),
    ("DELETE", "/contexts/{context}", DELETE),
    ("GET", "/history", HISTORY),
    ("GET", "/history/{...}", HISTORY),
    ("POST", "/history/dry-run", HISTORY),
    ("POST", "/history/ddl", ADMIN),
    ("POST", "/history/snapshot", ADMIN),
    ("GET", "/mirror", ADMIN),  # names every subject of another registry
    ("GET", "/lineage", HISTORY),
    ("POST", "/lineage", HISTORY),
    # Pages ask this API in their user's name, so they show and change what the user may.
    ("GET", "/ui", KNOWN),
    ("GET", "/ui/{...}", KNOWN),
    ("POST", "/ui/{...}", KNOWN),
)


@dataclass(frozen=True, slots=True)
class Need:
    """An operation, and the subject or scope it is on (None: the server)."""

    operation: str
    subject: str | None = None


class Node:
    """A step of the paths in the table."""

    __slots__ = ("named", "operations", "rest", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, Node] = {}
        self.named: tuple[str, Node] | None = None
        self.operations: dict[str, str] = {}
        self.rest: dict[str, str] = {}


def tree(table: tuple[tuple[str, str, str], ...] = PERMISSIONS) -> Node:
    root = Node()
    for method, path, operation in table:
        node = root
        *steps, last = path[1:].split("/")
        for step in (*steps, *(() if last == _REST else (last,))):
            if step.startswith("{"):
                if node.named is None:
                    node.named = (step[1:-1], Node())
                node = node.named[1]
            else:
                node = node.steps.setdefault(step, Node())
        (node.rest if last == _REST else node.operations)[method] = operation
    return root


_TREE: Final = tree()


def need(method: str, path: str, root: Node = _TREE) -> Need | None:
    """What a request needs; None if the table does not know it. `path` is not decoded yet, as the routes get it."""
    node, segments = root, path[1:].split("/")
    parameters: dict[str, str] = {}
    rest: str | None = None
    for place, segment in enumerate(segments):
        rest = node.rest.get(method, rest)
        following = node.steps.get(segment)
        if following is None and node.named is not None and (segment or place):
            name, following = node.named
            parameters[name] = segment
        if following is None:
            return Need(rest) if rest is not None else None
        node = following
    operation = node.operations.get(method, rest)
    return None if operation is None else _need_for(operation, parameters)


def _need_for(operation: str, parameters: dict[str, str]) -> Need:
    if operation in (OPEN, KNOWN, *OF_SERVER):
        return Need(operation)
    if "context" in parameters:
        scope = prefix_of(unquote(parameters["context"], errors="replace")) or SERVER
    else:
        scope = normalize_subject(unquote(parameters["subject"], errors="replace"))
    return Need(ADMIN) if scope in (SERVER, BELOW_ALL, "") else Need(operation, scope)


class Permissions:
    """ASGI middleware inside `RawPaths`: lets through what the table allows whoever asks."""

    def __init__(self, app: ASGIApp, *, routes: FastAPI, open_metrics: bool) -> None:
        """`routes`: the app itself, to tell a path that is not there from one that is for admins only."""
        self._app, self._routes, self._open_metrics = app, routes, open_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error = self._refusal(scope)
        if error is None:
            await self._app(scope, receive, send)
        else:
            await refusal(error)(scope, receive, send)

    def _refusal(self, scope: Scope) -> BridgeError | None:
        needed = need(scope["method"], scope["path"])
        if needed is not None and (needed.operation == OPEN or (needed.operation == METRICS and self._open_metrics)):
            return None
        user: UserAccess | None = scope.get(USER_ACCESS)
        if user is None:
            refused: BridgeError | None = scope.get(REFUSED)
            return refused or RegistryError("UNAUTHORIZED")
        access = user.access
        if access.everything or (needed is not None and needed.operation == KNOWN):
            return None
        if needed is None:
            return denied_error(ADMIN, None) if self._is_there(scope) else None
        if needed.subject is not None:
            return (
                None if access.may(needed.operation, needed.subject) else denied_error(needed.operation, needed.subject)
            )
        return None if access.may_serve(needed.operation) else denied_error(needed.operation, None)

    def _is_there(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in self._routes.router.routes)


def refusal(error: BridgeError) -> Response:
    headers: dict[str, Any] = {401: _CHALLENGE, 429: _RETRY}.get(error.row.http, {})
    body = compact({"error_code": error.row.error_code, "message": error.detail})
    return Response(body, error.row.http, media_type=V1, headers=headers)
