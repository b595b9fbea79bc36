"""Errors as answers: always `{"error_code":N,"message":"…"}`, as Confluent's are."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from ticdc_bridge.schemas.model.errors import ERRORS, BridgeError, ErrorRow
from ticdc_bridge.service.api.request import V1, compact, services

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
    media_type = getattr(request.state, "media_type", V1)
    if error.row.http >= _OF_SERVER:
        reason = error.fields.get("reason")
        _log_failure(request, error.row, f"{error.detail}: {reason}" if reason else error.detail)
    return _answer(request, error.row, error.detail, media_type)


def _log_failure(request: Request, row: ErrorRow, reason: str) -> None:
    _LOG.error("%s %s: %d (%d) %s", request.method, request.scope["path"], row.http, row.error_code, reason)


async def _routing_error(request: Request, error: Exception) -> Response:
    """No such route, or not with this method: answered before any media type is known, so none is named."""
    assert isinstance(error, HTTPException)
    row = ERRORS[_BY_STATUS.get(error.status_code, "BAD_REQUEST")]
    if row.code == "METHOD_NOT_ALLOWED":
        allowed = ", ".join(allowed_methods(request))
        if request.method == "OPTIONS":
            return Response(allowed, headers={"Allow": allowed, "Content-Type": "text/plain"})
        return _answer(request, row, row.template, None, {"Allow": allowed})
    return _answer(request, row, row.template.format(details=error.detail), None)


async def _handle_too_deep(request: Request, error: Exception) -> Response:
    """One schema's depth is bounded; a chain of references can still add up to more than Python walks."""
    media_type = getattr(request.state, "media_type", V1)
    return _answer(request, ERRORS["INVALID_SCHEMA"], "Schema is nested too deeply", media_type)


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    """Nobody is there to read this; it is no failure of ours and not logged as one."""
    return _answer(request, ERRORS["BAD_REQUEST"], "the client hung up", V1)


async def _handle_unforeseen(request: Request, error: Exception) -> Response:
    """A defect of ours; Starlette logs the traceback."""
    row = ERRORS["INTERNAL"]
    _log_failure(request, row, "a defect of this service: the traceback follows")
    return _answer(request, row, row.template, V1)


def _answer(
    request: Request, row: ErrorRow, message: str, media_type: str | None, headers: dict[str, str] | None = None
) -> Response:
    code = _CODES_OF_7.get(row.error_code, row.error_code) if services(request).profile == SEVEN else row.error_code
    body = compact({"error_code": code, "message": message})
    return Response(body, row.http, media_type=media_type, headers=headers)


def allowed_methods(request: Request) -> list[str]:
    """The methods that some route takes for this path."""
    allowed = []
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            allowed += ["HEAD", "GET"] if method == "GET" else [method]
    return [*allowed, "OPTIONS"]
