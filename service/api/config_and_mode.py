"""`/config` and `/mode` of subjects and of the server."""

from fastapi import Response

from ticdc_bridge.service.api import responses
from ticdc_bridge.service.api.bodies import CONFIG, MODE, Body
from ticdc_bridge.service.api.routing import KNOWN, Called, Parameter, Router
from ticdc_bridge.service.auth import acl
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config

config_router = Router("/config")

_SERVER_CONFIG = Body("updateTopLevelConfig", "ConfigUpdateRequest", CONFIG)
_SUBJECT_CONFIG = Body("updateSubjectLevelConfig", "ConfigUpdateRequest", CONFIG)


@config_router.declare("GET", needs=KNOWN, query=("defaultToGlobal",))
@config_router.declare("GET", "/{subject}", needs=KNOWN, query=("defaultToGlobal",))
def get_config(call: Called) -> Response:
    settings = config.get(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))
    return call.answer(responses.config(settings))


@config_router.declare("PUT", needs=acl.ADMIN, body=_SERVER_CONFIG)
@config_router.declare("PUT", "/{subject}", needs=acl.CONFIG, body=_SUBJECT_CONFIG)
def put_config(call: Called) -> Response:
    return call.answer(responses.config(config.update(call.registry, call.scope, call.body), as_request=True))


@config_router.declare("DELETE", needs=acl.ADMIN)
@config_router.declare("DELETE", "/{subject}", needs=acl.CONFIG)
def delete_config(call: Called) -> Response:
    return call.answer(responses.config(config.delete(call.registry, call.scope)))


mode_router = Router("/mode")

_SERVER_MODE = Body("updateTopLevelMode", "ModeUpdateRequest", MODE)
_SUBJECT_MODE = Body("updateMode", "ModeUpdateRequest", MODE)
_FORCE = Parameter("force", "Change to IMPORT although subjects exist")
_RECURSIVE = Parameter("recursive", "Also the modes of the subjects in the scope")


@mode_router.declare("GET", needs=KNOWN, query=("defaultToGlobal",))
@mode_router.declare("GET", "/{subject}", needs=KNOWN, query=("defaultToGlobal",))
def get_mode(call: Called) -> Response:
    mode = config.get_mode(call.registry, call.scope, default_to_global=call.flag("defaultToGlobal"))
    return call.answer({"mode": mode})


@mode_router.declare("PUT", needs=acl.ADMIN, query=(_FORCE,), body=_SERVER_MODE)
@mode_router.declare("PUT", "/{subject}", needs=acl.CONFIG, query=(_FORCE,), body=_SUBJECT_MODE)
def put_mode(call: Called) -> Response:
    """The answer repeats the request as it was sent; `null` removes a mode."""
    if "mode" not in call.body:
        raise RegistryError("INVALID_MODE")
    config.update_mode(call.registry, call.scope, call.body["mode"], force=call.flag("force"))
    return call.answer({"mode": call.body["mode"]})


@mode_router.declare("DELETE", needs=acl.ADMIN, query=(_RECURSIVE,))
@mode_router.declare("DELETE", "/{subject}", needs=acl.CONFIG, query=(_RECURSIVE,))
def delete_mode(call: Called) -> Response:
    removed = config.delete_mode(call.registry, call.scope, recursive=call.flag("recursive"))
    return call.answer({} if removed is None else {"mode": removed})
