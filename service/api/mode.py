"""`/mode`: what may be written to a subject, a context or the server (registry-api.md §3.4)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from schemas.errors import RegistryError
from service.api.bodies import MODE, body_of
from service.api.call import Call, Called
from service.api.held import Held
from service.registry import mode

router = APIRouter(prefix="/mode", route_class=Held)

_ENTITY = "ModeUpdateRequest"
ServerMode = Annotated[dict[str, Any], Depends(body_of("updateTopLevelMode", _ENTITY, MODE))]
SubjectMode = Annotated[dict[str, Any], Depends(body_of("updateMode", _ENTITY, MODE))]


@router.get("")
@router.get("/{subject}")
def get_mode(call: Called) -> Response:
    return call.answer({"mode": mode.get(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))})


@router.put("")
def put_server_mode(call: Called, body: ServerMode) -> Response:
    return put_mode(call, body)


@router.put("/{subject}")
def put_subject_mode(call: Called, body: SubjectMode) -> Response:
    return put_mode(call, body)


def put_mode(call: Call, body: dict[str, Any]) -> Response:
    """The answer repeats the request as it was sent; `null` removes a mode."""
    if "mode" not in body:
        raise RegistryError("INVALID_MODE")
    mode.update(call.registry, call.scope, body["mode"], force=call.flag("force"))
    return call.answer({"mode": body["mode"]})


@router.delete("")
@router.delete("/{subject}")
def delete_mode(call: Called) -> Response:
    return call.answer({"mode": mode.delete(call.registry, call.scope, recursive=call.flag("recursive"))})
