"""`/schemas`: schemas by id, by guid, and all of them."""

from fastapi import Response

from ticdc_bridge.service.api import responses
from ticdc_bridge.service.api.request import ApiCall, java_int
from ticdc_bridge.service.api.routing import KNOWN, PAGE, SCHEMA_FORM, STRING, Called, Parameter, Router
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import schemas
from ticdc_bridge.service.registry.model import StoredVersion
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, context_of, normalize_subject
from ticdc_bridge.service.schema_types.parse import KINDS

router = Router("/schemas")

_PAGE = 1000
_LATEST_ONLY = Parameter("latestOnly", "Only the latest version of each subject")
_ALIASES = Parameter("aliases", "Versions of subjects with an alias that begins so, too")
_RULE_TYPE = Parameter("ruleType", "Only schemas with a rule of this type", STRING)
_ASSOCIATED = (
    Parameter("resourceType", "Schemas associated with resources of this type: there are none", STRING),
    Parameter("associationType", "Schemas with an association of this type: there are none", STRING),
    Parameter("lifecycle", "Schemas with an association that is STRONG or WEAK (none), or NONE without one", STRING),
)
_MAX_ID = Parameter("fetchMaxId", "The answer also says the highest id")


@router.declare("GET", "/types", needs=KNOWN)
async def list_schema_types(call: Called) -> Response:
    """Only what can be registered."""
    return call.answer(list(KINDS))


@router.declare(
    "GET", needs=KNOWN, query=("subjectPrefix", "deleted", _LATEST_ONLY, _ALIASES, _RULE_TYPE, *_ASSOCIATED, *PAGE)
)
def list_schemas(call: Called) -> Response:
    lifecycles = call.texts("lifecycle")
    if not {"NONE", "STRONG", "WEAK"}.issuperset(lifecycles):
        raise RegistryError("ROUTE_NOT_FOUND")
    if "NONE" not in lifecycles and (lifecycles or call.texts("resourceType") or call.texts("associationType")):
        return call.answer([])  # there are no associations
    found = schemas.search(
        call.registry,
        prefix=call.text("subjectPrefix"),
        deleted=call.flag("deleted"),
        latest_only=call.flag("latestOnly"),
        aliases=call.flag("aliases"),
        rule_type=call.text("ruleType"),
    )
    return call.answer([
        responses.schema(stored, view_of_query(call, stored)) | ({"aliases": aliases} if aliases else {})
        for stored, aliases in call.page(found, _PAGE)
    ])  # fmt: skip


@router.declare("GET", "/ids/{id}", needs=KNOWN, query=("subject", _MAX_ID, *SCHEMA_FORM), cacheable=True)
def get_schema(call: Called) -> Response:
    stored = by_id(call)
    max_id = schemas.max_id(call.registry, context_of(stored.subject)) if call.flag("fetchMaxId") else None
    return call.answer(responses.by_id(stored, view_of_query(call, stored), max_id=max_id))


@router.declare("GET", "/ids/{id}/schema", needs=KNOWN, query=("subject", "format"), cacheable=True)
def get_schema_text(call: Called) -> Response:
    return call.raw(text_of_query(call, by_id(call)))


@router.declare("GET", "/ids/{id}/subjects", needs=KNOWN, query=("subject", "deleted", *PAGE))
def list_subjects_of_schema(call: Called) -> Response:
    return call.answer([subject for subject, _ in call.page(holders(call))])


@router.declare("GET", "/ids/{id}/versions", needs=KNOWN, query=("subject", "deleted", *PAGE))
def list_versions_of_schema(call: Called) -> Response:
    return call.answer([{"subject": subject, "version": version} for subject, version in call.page(holders(call))])


@router.declare("GET", "/guids/{guid}", needs=KNOWN, query=("format",))
def get_schema_by_guid(call: Called) -> Response:
    stored = schemas.by_guid(call.registry, call.segment("guid"))
    return call.answer(responses.by_guid(stored, view_of_query(call, stored)))


@router.declare("GET", "/guids/{guid}/ids", needs=KNOWN)
def list_ids_of_guid(call: Called) -> Response:
    ids = schemas.ids_of_guid(call.registry, call.segment("guid"))
    return call.answer([{"context": context, "id": number} for context, number in ids])


def by_id(call: ApiCall) -> StoredVersion:
    return schemas.get(call.registry, java_int(call.segment("id")), subject=normalize_subject(call.text("subject")))


def holders(call: ApiCall) -> list[tuple[str, int]]:
    schema_id, subject = java_int(call.segment("id")), normalize_subject(call.text("subject"))
    return schemas.versions(call.registry, schema_id, subject=subject, deleted=call.flag("deleted"))


def view_of_query(call: ApiCall, stored: StoredVersion) -> responses.SchemaView:
    """The form that those of SCHEMA_FORM ask for which the route declares; formats nobody knows are ignored."""
    tag_names = call.texts("findTags")
    tags = schemas.tags(call.registry, stored, tag_names) if tag_names else []
    qualified = call.text("referenceFormat") == "qualified" and context_of(stored.subject) != DEFAULT_CONTEXT
    return responses.SchemaView(call.services.profile, text_of_query(call, stored), tags, qualified)


def text_of_query(call: ApiCall, stored: StoredVersion) -> str:
    return schemas.format_schema(call.registry, stored, call.text("format"))
