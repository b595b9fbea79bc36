"""`/compatibility`: would this schema be accepted?"""

from fastapi import Response

from ticdc_bridge.service.api.bodies import SCHEMA, Body, new_schema
from ticdc_bridge.service.api.routing import KNOWN, Called, Router
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import compatibility
from ticdc_bridge.service.registry.names import version_number

router = Router("/compatibility/subjects/{subject}/versions")

_FOR_VERSION = Body("testCompatibilityBySubjectName", "RegisterSchemaRequest", SCHEMA)
_FOR_ALL = Body("testCompatibilityForSubject", "RegisterSchemaRequest", SCHEMA)


@router.declare("POST", needs=KNOWN, query=("normalize", "verbose"), body=_FOR_ALL)
@router.declare("POST", "/{version}", needs=KNOWN, query=("normalize", "verbose"), body=_FOR_VERSION)
def check_compatibility(call: Called) -> Response:
    """With verbose=true an invalid schema is an answer, not an error."""
    verbose, normalize = call.flag("verbose"), call.flag("normalize")
    version = version_number(call.segment("version")) if "version" in call.request.path_params else None
    subject, new = call.subject, new_schema(call.body)
    try:
        messages = compatibility.check(call.registry, subject, version, new, normalize=normalize)
    except RegistryError as error:
        if not verbose or error.code != "INVALID_SCHEMA":
            raise
        messages = [error.detail]
    return call.answer({"is_compatible": not messages, **({"messages": messages} if verbose else {})})
