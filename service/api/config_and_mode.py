"""`/config` and `/mode` of subjects and of the server."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from schemas.model.errors import RegistryError
from service.api import responses
from service.api.bodies import CONFIG, MODE, body_of
from service.api.request import ApiCall, Called
from service.api.routing import RetriedRoute
from service.registry import config, mode

config_router = APIRouter(prefix="/config", route_class=RetriedRoute)


_CONFIG_ENTITY = "ConfigUpdateRequest"
ServerChanges = Annotated[dict[str, Any], Depends(body_of("updateTopLevelConfig", _CONFIG_ENTITY, CONFIG))]
SubjectChanges = Annotated[dict[str, Any], Depends(body_of("updateSubjectLevelConfig", _CONFIG_ENTITY, CONFIG))]


@config_router.get("")
@config_router.get("/{subject}")
def get_config(call: Called) -> Response:
    settings = config.get(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))
    return call.answer(responses.config(settings))


@config_router.put("")
def put_server_config(call: Called, changes: ServerChanges) -> Response:
    return put_config(call, changes)


@config_router.put("/{subject}")
def put_subject_config(call: Called, changes: SubjectChanges) -> Response:
    return put_config(call, changes)


def put_config(call: ApiCall, changes: dict[str, Any]) -> Response:
    return call.answer(responses.config(config.update(call.registry, call.scope, changes), as_request=True))


@config_router.delete("")
@config_router.delete("/{subject}")
def delete_config(call: Called) -> Response:
    return call.answer(responses.config(config.delete(call.registry, call.scope)))


mode_router = APIRouter(prefix="/mode", route_class=RetriedRoute)


_MODE_ENTITY = "ModeUpdateRequest"
ServerMode = Annotated[dict[str, Any], Depends(body_of("updateTopLevelMode", _MODE_ENTITY, MODE))]
SubjectMode = Annotated[dict[str, Any], Depends(body_of("updateMode", _MODE_ENTITY, MODE))]


@mode_router.get("")
@mode_router.get("/{subject}")
def get_mode(call: Called) -> Response:
    return call.answer({"mode": mode.get(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))})


@mode_router.put("")
def put_server_mode(call: Called, body: ServerMode) -> Response:
    return put_mode(call, body)


@mode_router.put("/{subject}")
def put_subject_mode(call: Called, body: SubjectMode) -> Response:
    return put_mode(call, body)


def put_mode(call: ApiCall, body: dict[str, Any]) -> Response:
    """The answer repeats the request as it was sent; `null` removes a mode."""
    if "mode" not in body:
        raise RegistryError("INVALID_MODE")
    mode.update(call.registry, call.scope, body["mode"], force=call.flag("force"))
    return call.answer({"mode": body["mode"]})


@mode_router.delete("")
@mode_router.delete("/{subject}")
def delete_mode(call: Called) -> Response:
    return call.answer({"mode": mode.delete(call.registry, call.scope, recursive=call.flag("recursive"))})
