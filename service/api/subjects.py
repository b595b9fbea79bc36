"""`/subjects`: registering, looking up, reading and deleting."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from service.api import responses
from service.api.bodies import SCHEMA, TAGS, body_of, new_schema, tag_request
from service.api.request import ApiCall, Called
from service.api.routing import RetriedRoute
from service.api.schemas import view_of_query
from service.registry import lookup, subjects
from service.registry import register as registry_register
from service.registry.model import StoredVersion
from service.registry.names import version_number

router = APIRouter(prefix="/subjects", route_class=RetriedRoute)

_ENTITY = "RegisterSchemaRequest"
ToRegister = Annotated[dict[str, Any], Depends(body_of("register", _ENTITY, SCHEMA))]
ToLookUp = Annotated[dict[str, Any], Depends(body_of("lookUpSchemaUnderSubject", _ENTITY, SCHEMA))]

ToTag = Annotated[dict[str, Any], Depends(body_of("modifySchemaTags", "TagSchemaRequest", TAGS))]


@router.get("")
def list_subjects(call: Called) -> Response:
    names = subjects.list_subjects(
        call.registry,
        prefix=call.text("subjectPrefix", subjects.ALL_CONTEXTS),
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
    )
    return call.answer(call.page(names))


@router.post("/{subject}")
def look_up(call: Called, body: ToLookUp) -> Response:
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    match = lookup.lookup(call.registry, call.subject, new_schema(body), normalize=normalize, deleted=deleted)
    return call.answer(responses.schema(match.stored, view_of_query(call, match.stored), times=match.alike))


@router.delete("/{subject}")
def delete_subject(call: Called) -> Response:
    return call.answer(subjects.delete_subject(call.registry, call.subject, permanent=call.flag("permanent")))


@router.get("/{subject}/metadata")
def get_by_metadata(call: Called) -> Response:
    """The latest version with all the properties that `key` and `value` (in pairs) name."""
    properties = dict(zip(call.texts("key"), call.texts("value"), strict=False))
    stored = subjects.with_properties(call.registry, call.subject, properties, deleted=call.flag("deleted"))
    return call.answer(responses.schema(stored, view_of_query(call, stored)))


@router.get("/{subject}/versions")
def list_versions(call: Called) -> Response:
    numbers = subjects.list_versions(
        call.registry,
        call.subject,
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
        negative=call.flag("deletedAsNegative"),
    )
    return call.answer(call.page(numbers))


@router.post("/{subject}/versions")
def register(call: Called, body: ToRegister) -> Response:
    normalize, force = call.flag("normalize"), call.flag("force")
    registration = registry_register.register(
        call.registry, call.subject, new_schema(body), normalize=normalize, force=force
    )
    return call.answer(responses.registration(registration, view_of_query(call, registration.stored)))


@router.get("/{subject}/versions/{version}")
def get_version(call: Called) -> Response:
    stored = version_of(call)
    return call.answer(responses.schema(stored, view_of_query(call, stored)))


@router.get("/{subject}/versions/{version}/schema")
def get_text(call: Called) -> Response:
    stored = version_of(call)
    return call.raw(view_of_query(call, stored).text)


@router.post("/{subject}/versions/{version}/tags")
def tag(call: Called, body: ToTag) -> Response:
    """Register a version again, as the next one, with other tags in it."""
    version = version_number(call.segment("version"))
    registration = registry_register.tag(call.registry, call.subject, version, tag_request(body))
    return call.answer(responses.registration(registration, view_of_query(call, registration.stored)))


@router.get("/{subject}/versions/{version}/referencedby")
def referenced_by(call: Called) -> Response:
    subject, version = call.subject, version_number(call.segment("version"))
    return call.answer(call.page(subjects.referrers_of(call.registry, subject, version, deleted=call.flag("deleted"))))


@router.delete("/{subject}/versions/{version}")
def delete_version(call: Called) -> Response:
    subject, version = call.subject, version_number(call.segment("version"))
    return call.answer(subjects.delete_version(call.registry, subject, version, permanent=call.flag("permanent")))


def version_of(call: ApiCall) -> StoredVersion:
    subject, version = call.subject, version_number(call.segment("version"))
    return subjects.get_version(call.registry, subject, version, deleted=call.flag("deleted"))
