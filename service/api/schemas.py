"""`/schemas`: schemas by id, by guid, and all of them (registry-api.md §3.2)."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api import shapes
from service.api.call import Call, Called, java_int
from service.registry import schemas
from service.registry.kinds import KINDS
from service.registry.model import Stored

router = APIRouter(prefix="/schemas")

_PAGE = 1000


@router.get("/types")
async def types(call: Called) -> Response:
    """Only what can be registered."""
    return call.answer(list(KINDS))


@router.get("")
def search(call: Called) -> Response:
    found = schemas.search(
        call.registry,
        prefix=call.text("subjectPrefix"),
        deleted=call.flag("deleted"),
        latest_only=call.flag("latestOnly"),
    )
    found = [] if call.text("ruleType") else found  # there are no rules
    return call.answer([shapes.schema(stored, call.services.profile) for stored in call.page(found, _PAGE)])


@router.get("/ids/{id}")
def get(call: Called) -> Response:
    found = schemas.get(call.registry, java_int(call.segment("id")), subject=call.text("subject"))
    max_id = found.max_id if call.flag("fetchMaxId") else None
    text = text_of(call, found.stored)
    return call.answer(shapes.by_id(found.stored, call.services.profile, text=text, max_id=max_id))


@router.get("/ids/{id}/schema")
def get_text(call: Called) -> Response:
    found = schemas.get(call.registry, java_int(call.segment("id")), subject=call.text("subject"))
    return call.raw(text_of(call, found.stored))


@router.get("/ids/{id}/subjects")
def subjects(call: Called) -> Response:
    return call.answer([subject for subject, _ in call.page(holders(call))])


@router.get("/ids/{id}/versions")
def versions(call: Called) -> Response:
    return call.answer([{"subject": subject, "version": version} for subject, version in call.page(holders(call))])


@router.get("/guids/{guid}")
def by_guid(call: Called) -> Response:
    found = schemas.by_guid(call.registry, call.segment("guid"))
    return call.answer(shapes.by_guid(found, text=text_of(call, found)))


@router.get("/guids/{guid}/ids")
def ids_of_guid(call: Called) -> Response:
    found = schemas.ids_of_guid(call.registry, call.segment("guid"))
    return call.answer([{"context": context, "id": number} for context, number in found])


def holders(call: Call) -> list[tuple[str, int]]:
    schema_id = java_int(call.segment("id"))
    return schemas.versions(call.registry, schema_id, subject=call.text("subject"), deleted=call.flag("deleted"))


def text_of(call: Call, stored: Stored) -> str:
    """The schema in the `format` asked for; a format nobody knows is ignored."""
    format_ = call.text("format")
    return schemas.formatted_text(call.registry, stored, format_) if format_ else stored.content.text
