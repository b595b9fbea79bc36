"""Errors as answers: always `{"error_code":N,"message":"…"}`, as Confluent's are."""

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
_LOG: Final = logging.getLogger("service")


def install(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _routing_error)
    for kind in (BridgeError, RecursionError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _handle_error)


async def _handle_error(request: Request, error: Exception) -> Response:
    """An error of ours as it is. A defect is logged, and its traceback by Starlette."""
    media_type = getattr(request.state, "media_type", V1)
    match error:
        case BridgeError():
            answered = error
        case RecursionError():  # the depth of a schema is bounded; a chain of references can still add up to more
            answered = RegistryError("INVALID_SCHEMA", details="Schema is nested too deeply")
        case ClientDisconnect():  # nobody is there to read this, and it is no failure to be logged
            answered, media_type = RegistryError("BAD_REQUEST", details="the client hung up"), V1
        case _:
            answered = RegistryError("INTERNAL", reason="a defect of this service: the traceback follows")
            media_type = V1
    answer = http_answer(answered)
    if answer[0] >= 500:
        reason = answered.fields.get("reason")
        why = f"{answered.detail}: {reason}" if reason else answered.detail
        _LOG.error("%s %s: %d (%d) %s", request.method, request.scope["path"], *answer, why)
    return _answer(request, answer, answered.detail, media_type)


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


def _answer(
    request: Request, codes: tuple[int, int], detail: str, media_type: str | None, headers: dict[str, str] | None = None
) -> Response:
    status, code = codes
    code = _CODES_OF_7.get(code, code) if services(request).profile == SEVEN else code
    return Response(compact({"error_code": code, "message": detail}), status, media_type=media_type, headers=headers)


def allowed_methods(request: Request) -> list[str]:
    allowed = []
    for method in ("GET", "POST", "PUT", "DELETE"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            allowed += ["HEAD", "GET"] if method == "GET" else [method]
    return [*allowed, "OPTIONS"]
