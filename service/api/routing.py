"""Routes: one declaration each, from which rights, the description, waiting and kept answers come.

    @router.declare("GET", "/{subject}/versions", needs=KNOWN, query=("deleted", *PAGE), cacheable=True)

A route that says nothing is for admins only, waits while the store is away (TiCDC stops at the first answer that is not
200), is described, and its answers are not kept. Every path is there again below `/contexts/{context}` (`middleware`).

Reading needs no right here: a subject that may not be read is absent from the registry that the route gets
(`service.auth.filtered_store`), and changes are checked there once more, for the subject that an alias leads to.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import unquote

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute
from starlette.routing import Route as PlainRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.api.bodies import Body, CompleteBody, Json
from ticdc_bridge.service.api.request import (
    USER_ACCESS,
    V1,
    ApiCall,
    UserAccess,
    check_content_type,
    compact,
    negotiate,
    services,
)
from ticdc_bridge.service.auth.acl import ADMIN, METRICS, OF_SERVER, denied_error
from ticdc_bridge.service.errors import RegistryError, http_answer
from ticdc_bridge.service.registry.deadline import Deadline, Outage, current_deadline, pauses
from ticdc_bridge.service.registry.names import BELOW_ALL, SERVER, normalize_subject, prefix_of
from ticdc_bridge.service.registry.ports import current_reads

OPEN: Final = "open"
"""Needs nothing: anybody may ask."""
KNOWN: Final = "known"
"""Needs a name that was proved, and no right."""

_WITH_BODY: Final = ("POST", "PUT")
_GRACE: Final = 0.5  # for what watches its own time, so that it can say why
_LEFT_BEHIND: Final[set[asyncio.Future[Any]]] = set()

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

FLAG: Final[Json] = {"type": "boolean"}
STRING: Final[Json] = {"type": "string", "minLength": 1}
INTEGER: Final[Json] = {"type": "integer", "format": "int32"}


class Parameter(NamedTuple):
    """A query parameter, what it is for, and its JSON Schema. Routes read it by JAX-RS's rules (`request.ApiCall`)."""

    name: str
    text: str
    schema: Json = FLAG


_SHARED: Final = (
    Parameter("offset", "How many entries of the list to leave out", INTEGER),
    Parameter("limit", "How many entries at most", INTEGER),
    Parameter(
        "subjectPrefix",
        "Subjects that begin so: NAME in the default context, :.CONTEXT:NAME in another, :*:NAME in all",
        STRING,
    ),
    Parameter("deleted", "Soft-deleted ones too"),
    Parameter("deletedOnly", "Only soft-deleted ones"),
    Parameter("permanent", "Delete for good what is soft-deleted"),
    Parameter("subject", "The subject whose context has the id", STRING),
    Parameter(
        "format", "Another form of the text: resolved (Avro), serialized or ignore_extensions (Protobuf)", STRING
    ),
    Parameter("referenceFormat", "qualified: subjects of references with their contexts", STRING),
    Parameter("findTags", "Where a schema has this tag; may come several times, * stands for all", STRING),
    Parameter("normalize", "Compare and keep the schema in its normal form"),
    Parameter("verbose", "The answer says what is not compatible"),
    Parameter("defaultToGlobal", "The effective value: from a wider scope if nothing is set here"),
    Parameter("changefeed", "Its name; not needed where there is one", STRING),
    Parameter("keyspace", "The changefeed's, the first part of the schemas' namespaces", STRING),
    Parameter("ddl_time_zone", "The zone of the DDL's session, for TIMESTAMP defaults", STRING),
    Parameter("db", "Only of this database", STRING),
)
PARAMETERS: Final[dict[str, Parameter]] = {entry.name: entry for entry in _SHARED}
"""Those that several routes read. What one route reads alone, its declaration says whole."""
PAGE: Final = ("offset", "limit")
SCHEMA_FORM: Final = ("format", "referenceFormat", "findTags")


class Route(APIRoute):
    """A route with what `Router.declare` says of it.

    On an Outage, if it retries, a request begins again: no request has more than one write transaction, its last.
    """

    def __init__(
        self,
        *arguments: Any,
        needs: str,
        retry_on_outage: bool,
        query: Sequence[str | Parameter] = (),
        body: Body | CompleteBody | None = None,
        cacheable: bool = False,
        answers: dict[int, str] | None = None,
        **more: Any,
    ) -> None:
        self.needs, self.retry_on_outage, self.cacheable, self.body = needs, retry_on_outage, cacheable, body
        self.query = tuple(PARAMETERS[entry] if isinstance(entry, str) else entry for entry in query)
        self.answers = answers or {}
        super().__init__(*arguments, **more)

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()
        if not self.retry_on_outage:
            return handler

        async def handle_with_retries(request: Request) -> Response:
            patience = current_deadline.get() or Deadline(services(request).registry.store.wait_seconds)
            if request.method not in _WITH_BODY:
                patience.start()
            reads = current_reads.get()
            if reads is not None and self.cacheable:
                reads.route = self.path
            token = current_deadline.set(patience)
            try:
                for pause in pauses():
                    try:
                        return await run_in_time(handler(request), patience)
                    except Outage:
                        if patience.seconds_left <= pause:
                            raise
                    await asyncio.sleep(pause)
                raise AssertionError("unreachable")
            finally:
                current_deadline.reset(token)

        return handle_with_retries


class Router(APIRouter):
    def __init__(
        self, prefix: str = "", *, needs: str = ADMIN, retry_on_outage: bool = True, include_in_schema: bool = True
    ) -> None:
        """`needs`: the right that its routes need if they do not say it. The others hold for all of them."""
        route_class = cast(type[Route], partial(Route, needs=needs, retry_on_outage=retry_on_outage))
        super().__init__(prefix=prefix, route_class=route_class, include_in_schema=include_in_schema)

    def declare(
        self,
        method: str,
        path: str = "",
        *,
        needs: str = "",
        query: Sequence[str | Parameter] = (),
        body: Body | CompleteBody | None = None,
        cacheable: bool = False,
        answers: dict[int, str] | None = None,
    ) -> Callable[[Function], Function]:
        """A decorator: the function answers `method` at `path`, which goes on from the router's prefix.

        `needs`: OPEN, KNOWN, or a right of `auth.acl`; one on a subject is needed for the path's {subject} or
        {context}. `query`: parameters, those of PARAMETERS by their names. `body`: what `call.body` is to be.
        `cacheable`: a 200 may be kept until what it was made from changes. `answers`: status → text of statuses that
        other routes do not answer with; one below 300 is in place of 200.
        """
        declared: dict[str, Any] = {"query": query, "body": body, "cacheable": cacheable, "answers": answers}
        if needs:
            declared["needs"] = needs
        route_class = cast(type[Route], partial(self.route_class, **declared))

        def add(function: Function) -> Function:
            self.add_api_route(path, function, methods=[method], route_class_override=route_class)
            return function

        return add


def all_routes(app: FastAPI) -> list[BaseRoute]:
    """The routes of an app and of its routers, in the order in which they are tried."""
    return [context.original_route for context in iter_route_contexts(app.routes)]


async def call(request: Request) -> ApiCall:
    """The call that a route gets. Raises UNSUPPORTED_MEDIA_TYPE, NOT_ACCEPTABLE, and what its body raises."""
    request.state.media_type = V1
    if request.method in _WITH_BODY:
        check_content_type(request.headers.get("content-type"))
    request.state.media_type = None
    request.state.media_type = negotiate(request.headers.get("accept"))
    made = ApiCall(request, services(request), request.state.media_type)
    route: Route = request.scope["route"]
    return made if route.body is None else replace(made, body=await route.body.read(made))


Called = Annotated[ApiCall, Depends(call)]
"""The parameter of every function that answers by the registry's rules."""


async def run_in_time(coroutine: Coroutine[Any, Any, T], patience: Deadline) -> T:
    """The result of `coroutine`. Raises what it raises, and STORE_TIMEOUT when the time is over; its thread goes on."""
    task = asyncio.ensure_future(coroutine)
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

    def forget(left: asyncio.Future[Any]) -> None:
        _LEFT_BEHIND.discard(left)
        if not left.cancelled():
            left.exception()

    task.add_done_callback(forget)
    raise RegistryError("STORE_TIMEOUT", operation="Store", reason="the database takes requests and does not answer")


REFUSED: Final = "bridge.refused"
"""The key of the ASGI scope where the error is, if nobody who is known asks."""

_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="ticdc-bridge", charset="UTF-8", Bearer realm="ticdc-bridge"'}


class Permissions:
    """ASGI middleware inside `RawPaths`: lets through whoever may ask the `Route`; any other route is for admins."""

    def __init__(self, app: ASGIApp, *, routes: FastAPI, open_metrics: bool) -> None:
        """`routes`: the app itself."""
        self._app, self._open = app, (OPEN, METRICS) if open_metrics else (OPEN,)
        self._routes = [cast(PlainRoute, route) for route in all_routes(routes)]
        assert all(isinstance(route, PlainRoute) for route in self._routes), "a mounted app can not say what it needs"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if error is None else refusal(error))(scope, receive, send)

    def _refusal(self, scope: Scope) -> BridgeError | None:
        user: UserAccess | None = scope.get(USER_ACCESS)
        if user is not None and user.access.everything:
            return None
        needs: str | None = None  # none where no route answers
        segments: dict[str, str] = {}
        for route in self._routes:
            match = route.path_regex.match(scope["path"]) if scope["method"] in (route.methods or ()) else None
            if match is not None:
                needs, segments = getattr(route, "needs", ADMIN), match.groupdict()
                break
        if needs in self._open:
            return None
        if user is None:
            refused: BridgeError | None = scope.get(REFUSED)
            return refused or RegistryError("UNAUTHORIZED")
        if needs is None or needs == KNOWN:
            return None
        subject = None
        if needs not in OF_SERVER:  # segments are not decoded yet, as the routes get them
            name = unquote(segments["context" if "context" in segments else "subject"], errors="replace")
            subject = (prefix_of(name) or SERVER) if "context" in segments else normalize_subject(name)
        if subject in (SERVER, BELOW_ALL, ""):
            needs, subject = ADMIN, None
        allowed = user.access.may_serve(needs) if subject is None else user.access.may(needs, subject)
        return None if allowed else denied_error(needs, subject)


def refusal(error: BridgeError) -> Response:
    status, error_code = http_answer(error)
    headers: dict[str, Any] = {401: _CHALLENGE, 429: {"Retry-After": "1"}}.get(status, {})
    body = compact({"error_code": error_code, "message": error.detail})
    return Response(body, status, media_type=V1, headers=headers)
