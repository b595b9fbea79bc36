"""Errors as answers: always `{"error_code":N,"message":"…"}`, as Confluent's are."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.api.request import V1, compact, services
from ticdc_bridge.service.errors import RegistryError, http_answer

SEVEN: Final = 7
_CODES_OF_7: Final = {40901: 409}
_BY_STATUS: Final = {404: "ROUTE_NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
_OF_SERVER: Final = 500
_LOG: Final = logging.getLogger("service")
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")


def install(app: FastAPI) -> None:
    """Add the handlers of everything that can be raised."""
    app.add_exception_handler(BridgeError, _bridge_error)
    app.add_exception_handler(HTTPException, _routing_error)
    app.add_exception_handler(RecursionError, _handle_too_deep)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_exception_handler(Exception, _handle_unforeseen)


async def _bridge_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BridgeError)
    answer = http_answer(error)
    if answer[0] >= _OF_SERVER:
        reason = error.fields.get("reason")
        _log_failure(request, answer, f"{error.detail}: {reason}" if reason else error.detail)
    return _answer(request, answer, error.detail, getattr(request.state, "media_type", V1))


def _log_failure(request: Request, answer: tuple[int, int], reason: str) -> None:
    _LOG.error("%s %s: %d (%d) %s", request.method, request.scope["path"], *answer, reason)


async def _routing_error(request: Request, error: Exception) -> Response:
    """No such route, or not with this method: answered before any media type is known, so none is named."""
    assert isinstance(error, HTTPException)
    refused = RegistryError(_BY_STATUS.get(error.status_code, "BAD_REQUEST"), details=error.detail)
    headers = None
    if refused.code == "METHOD_NOT_ALLOWED":
        headers = {"Allow": ", ".join(allowed_methods(request))}
        if request.method == "OPTIONS":
            return Response(headers["Allow"], headers={**headers, "Content-Type": "text/plain"})
    return _answer(request, http_answer(refused), refused.detail, None, headers)


async def _handle_too_deep(request: Request, error: Exception) -> Response:
    """One schema's depth is bounded; a chain of references can still add up to more than Python walks."""
    too_deep = RegistryError("INVALID_SCHEMA", details="Schema is nested too deeply")
    return _answer(request, http_answer(too_deep), too_deep.detail, getattr(request.state, "media_type", V1))


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    """Nobody is there to read this; it is no failure of ours and not logged as one."""
    return _answer(request, http_answer(RegistryError("BAD_REQUEST", details="")), "the client hung up", V1)


async def _handle_unforeseen(request: Request, error: Exception) -> Response:
    """A defect of ours; Starlette logs the traceback."""
    defect = RegistryError("INTERNAL")
    _log_failure(request, http_answer(defect), "a defect of this service: the traceback follows")
    return _answer(request, http_answer(defect), defect.detail, V1)


def _answer(
    request: Request,
    answer: tuple[int, int],
    message: str,
    media_type: str | None,
    headers: dict[str, str] | None = None,
) -> Response:
    status, code = answer
    code = _CODES_OF_7.get(code, code) if services(request).profile == SEVEN else code
    return Response(compact({"error_code": code, "message": message}), status, media_type=media_type, headers=headers)


def allowed_methods(request: Request) -> list[str]:
    """The methods that some route takes for this path."""
    allowed = []
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            allowed += ["HEAD", "GET"] if method == "GET" else [method]
    return [*allowed, "OPTIONS"]
