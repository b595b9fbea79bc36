"""`/schemas`: schemas by id, by guid, and all of them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api import responses
from service.api.request import ApiCall, Called, java_int
from service.api.routing import RetriedRoute
from service.registry import schemas
from service.registry.model import StoredVersion
from service.registry.names import normalize_subject
from service.schema_types.parse import KINDS

router = APIRouter(prefix="/schemas", route_class=RetriedRoute)

_PAGE = 1000


@router.get("/types")
async def types(call: Called) -> Response:
    """Only what can be registered."""
    return call.answer(list(KINDS))


@router.get("")
def search(call: Called) -> Response:
    prefix, deleted = call.text("subjectPrefix"), call.flag("deleted")
    matches = schemas.search(call.registry, prefix=prefix, deleted=deleted, latest_only=call.flag("latestOnly"))
    matches = [] if call.text("ruleType") else matches  # there are no rules
    if call.flag("aliases"):
        both = schemas.with_aliases(call.registry, matches, prefix, deleted=deleted)
        return call.answer(
            [responses.aliased_schema(one, plain_view(call, one.stored)) for one in call.page(both, _PAGE)]
        )
    return call.answer([responses.schema(stored, plain_view(call, stored)) for stored in call.page(matches, _PAGE)])


@router.get("/ids/{id}")
def get(call: Called) -> Response:
    match = by_id(call, max_id=call.flag("fetchMaxId"))
    return call.answer(responses.by_id(match.stored, view_of_query(call, match.stored), max_id=match.max_id))


@router.get("/ids/{id}/schema")
def get_text(call: Called) -> Response:
    return call.raw(view_of_query(call, by_id(call).stored).text)


@router.get("/ids/{id}/subjects")
def subjects(call: Called) -> Response:
    return call.answer([subject for subject, _ in call.page(holders(call))])


@router.get("/ids/{id}/versions")
def versions(call: Called) -> Response:
    return call.answer([{"subject": subject, "version": version} for subject, version in call.page(holders(call))])


@router.get("/guids/{guid}")
def by_guid(call: Called) -> Response:
    stored = schemas.by_guid(call.registry, call.segment("guid"))
    return call.answer(responses.by_guid(stored, view_of_query(call, stored)))


@router.get("/guids/{guid}/ids")
def ids_of_guid(call: Called) -> Response:
    ids = schemas.ids_of_guid(call.registry, call.segment("guid"))
    return call.answer([{"context": context, "id": number} for context, number in ids])


def by_id(call: ApiCall, *, max_id: bool = False) -> schemas.SchemaById:
    schema_id, subject = java_int(call.segment("id")), normalize_subject(call.text("subject"))
    return schemas.get(call.registry, schema_id, subject=subject, max_id=max_id)


def holders(call: ApiCall) -> list[tuple[str, int]]:
    schema_id, subject = java_int(call.segment("id")), normalize_subject(call.text("subject"))
    return schemas.versions(call.registry, schema_id, subject=subject, deleted=call.flag("deleted"))


def view_of_query(call: ApiCall, stored: StoredVersion) -> responses.SchemaView:
    """What the parameters `format`, `findTags` and `referenceFormat` ask for; formats nobody knows are ignored."""
    tag_names = call.texts("findTags")
    tags = schemas.tags(call.registry, stored, tag_names) if tag_names else []
    text = schemas.format_schema(call.registry, stored, call.text("format"))
    return responses.SchemaView(call.services.profile, text, tags, call.text("referenceFormat").lower() == "qualified")


def plain_view(call: ApiCall, stored: StoredVersion) -> responses.SchemaView:
    return responses.SchemaView(call.services.profile, stored.content.text)
