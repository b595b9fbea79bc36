"""`/compatibility`: would this schema be accepted?"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from schemas.model.errors import RegistryError
from service.api.bodies import SCHEMA, body_of, new_schema
from service.api.request import ApiCall, Called
from service.api.routing import RetriedRoute
from service.registry import compatibility
from service.registry.names import version_number

router = APIRouter(prefix="/compatibility/subjects/{subject}/versions", route_class=RetriedRoute)

_ENTITY = "RegisterSchemaRequest"
ForOne = Annotated[dict[str, Any], Depends(body_of("testCompatibilityBySubjectName", _ENTITY, SCHEMA))]
ForAll = Annotated[dict[str, Any], Depends(body_of("testCompatibilityForSubject", _ENTITY, SCHEMA))]


@router.post("")
def against_all(call: Called, body: ForAll) -> Response:
    return verdict(call, None, body)


@router.post("/{version}")
def against_one(call: Called, body: ForOne) -> Response:
    return verdict(call, version_number(call.segment("version")), body)


def verdict(call: ApiCall, version: int | None, body: dict[str, Any]) -> Response:
    """With verbose=true an invalid schema is an answer, not an error."""
    verbose, normalize = call.flag("verbose"), call.flag("normalize")
    subject, new = call.subject, new_schema(body)
    try:
        messages = compatibility.check(call.registry, subject, version, new, normalize=normalize)
    except RegistryError as error:
        if not verbose or error.code != "INVALID_SCHEMA":
            raise
        messages = [error.detail]
    return call.answer({"is_compatible": not messages, **({"messages": messages} if verbose else {})})
