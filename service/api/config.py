"""`/config`: compatibility and the other settings of subjects and of the server (registry-api.md §3.4)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from service.api import shapes
from service.api.bodies import CONFIG, body_of
from service.api.call import Call, Called
from service.api.held import Held
from service.registry import config

router = APIRouter(prefix="/config", route_class=Held)

_ENTITY = "ConfigUpdateRequest"
ServerChanges = Annotated[dict[str, Any], Depends(body_of("updateTopLevelConfig", _ENTITY, CONFIG))]
SubjectChanges = Annotated[dict[str, Any], Depends(body_of("updateSubjectLevelConfig", _ENTITY, CONFIG))]


@router.get("")
@router.get("/{subject}")
def get_config(call: Called) -> Response:
    found = config.get(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))
    return call.answer(shapes.config(found))


@router.put("")
def put_server_config(call: Called, changes: ServerChanges) -> Response:
    return put_config(call, changes)


@router.put("/{subject}")
def put_subject_config(call: Called, changes: SubjectChanges) -> Response:
    return put_config(call, changes)


def put_config(call: Call, changes: dict[str, Any]) -> Response:
    return call.answer(shapes.config(config.update(call.registry, call.scope, changes), as_request=True))


@router.delete("")
@router.delete("/{subject}")
def delete_config(call: Called) -> Response:
    return call.answer(shapes.config(config.delete(call.registry, call.scope)))
