"""`/subjects`: registering, looking up, reading and deleting (registry-api.md §3.3)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from service.api import shapes
from service.api.bodies import SCHEMA, body_of, new_schema
from service.api.call import Call, Called
from service.api.schemas import text_of
from service.registry import registering, subjects
from service.registry.model import Stored
from service.registry.naming import version_number

router = APIRouter(prefix="/subjects")

_ENTITY = "RegisterSchemaRequest"
ToRegister = Annotated[dict[str, Any], Depends(body_of("register", _ENTITY, SCHEMA))]
ToLookUp = Annotated[dict[str, Any], Depends(body_of("lookUpSchemaUnderSubject", _ENTITY, SCHEMA))]


@router.get("")
def list_subjects(call: Called) -> Response:
    found = subjects.list_subjects(
        call.registry,
        prefix=call.text("subjectPrefix", subjects.ALL_CONTEXTS),
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
    )
    return call.answer(call.page(found))


@router.post("/{subject}")
def look_up(call: Called, body: ToLookUp) -> Response:
    subject, new = call.segment("subject"), new_schema(body)
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    found = registering.lookup(call.registry, subject, new, normalize=normalize, deleted=deleted)
    return call.answer(shapes.schema(found.stored, call.services.profile, times=found.inlined))


@router.delete("/{subject}")
def delete_subject(call: Called) -> Response:
    permanent = call.flag("permanent")
    return call.answer(subjects.delete_subject(call.registry, call.segment("subject"), permanent=permanent))


@router.get("/{subject}/versions")
def list_versions(call: Called) -> Response:
    found = subjects.list_versions(
        call.registry,
        call.segment("subject"),
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
        negative=call.flag("deletedAsNegative"),
    )
    return call.answer(call.page(found))


@router.post("/{subject}/versions")
def register(call: Called, body: ToRegister) -> Response:
    subject, new = call.segment("subject"), new_schema(body)
    normalize, force = call.flag("normalize"), call.flag("force")
    found = registering.register(call.registry, subject, new, normalize=normalize, force=force)
    return call.answer(shapes.registered(found, call.services.profile))


@router.get("/{subject}/versions/{version}")
def get_version(call: Called) -> Response:
    found = version_of(call)
    return call.answer(shapes.schema(found, call.services.profile, text=text_of(call, found)))


@router.get("/{subject}/versions/{version}/schema")
def get_text(call: Called) -> Response:
    return call.raw(text_of(call, version_of(call)))


@router.get("/{subject}/versions/{version}/referencedby")
def referenced_by(call: Called) -> Response:
    subject, version = call.segment("subject"), version_number(call.segment("version"))
    return call.answer(call.page(subjects.referenced_by(call.registry, subject, version, deleted=call.flag("deleted"))))


@router.delete("/{subject}/versions/{version}")
def delete_version(call: Called) -> Response:
    subject, version = call.segment("subject"), version_number(call.segment("version"))
    return call.answer(subjects.delete_version(call.registry, subject, version, permanent=call.flag("permanent")))


def version_of(call: Call) -> Stored:
    subject, version = call.segment("subject"), version_number(call.segment("version"))
    return subjects.get_version(call.registry, subject, version, deleted=call.flag("deleted"))
