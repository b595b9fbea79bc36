"""`/config`: compatibility and the other settings of subjects and of the server (registry-api.md §3.4)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from service.api import shapes
from service.api.bodies import CONFIG, body_of
from service.api.call import Called
from service.registry import config

router = APIRouter(prefix="/config")

_ENTITY = "ConfigUpdateRequest"
ServerChanges = Annotated[dict[str, Any], Depends(body_of("updateTopLevelConfig", _ENTITY, CONFIG))]
SubjectChanges = Annotated[dict[str, Any], Depends(body_of("updateSubjectLevelConfig", _ENTITY, CONFIG))]


@router.get("")
def get_server(call: Called) -> Response:
    return call.answer(shapes.config(config.get(call.registry, None, default_to_global=call.flag("defaultToGlobal"))))


@router.get("/{subject}")
def get_subject(call: Called) -> Response:
    subject = call.segment("subject")
    found = config.get(call.registry, subject, default_to_global=call.flag("defaultToGlobal"))
    return call.answer(shapes.config(found))


@router.put("")
def put_server(call: Called, changes: ServerChanges) -> Response:
    return call.answer(shapes.config(config.update(call.registry, None, changes), as_request=True))


@router.put("/{subject}")
def put_subject(call: Called, changes: SubjectChanges) -> Response:
    stored = config.update(call.registry, call.segment("subject"), changes)
    return call.answer(shapes.config(stored, as_request=True))


@router.delete("")
def delete_server(call: Called) -> Response:
    return call.answer(shapes.config(config.delete(call.registry, None)))


@router.delete("/{subject}")
def delete_subject(call: Called) -> Response:
    return call.answer(shapes.config(config.delete(call.registry, call.segment("subject"))))
