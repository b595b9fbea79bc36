"""`/subjects`: registering, looking up, reading and deleting. `/overview`: what pages show of many of them; ours."""

from fastapi import Response

from ticdc_bridge.service.api import responses
from ticdc_bridge.service.api.bodies import SCHEMA, TAGS, Body, new_schema, tag_request
from ticdc_bridge.service.api.request import ApiCall
from ticdc_bridge.service.api.routing import INTEGER, KNOWN, PAGE, SCHEMA_FORM, STRING, Called, Parameter, Router
from ticdc_bridge.service.api.schemas import text_of_query, view_of_query
from ticdc_bridge.service.auth.acl import DELETE, WRITE
from ticdc_bridge.service.registry import register as registry_register
from ticdc_bridge.service.registry import subjects
from ticdc_bridge.service.registry.model import StoredVersion
from ticdc_bridge.service.registry.names import normalize_subject, version_number

router = Router("/subjects")

_LOOK_UP = Body("lookUpSchemaUnderSubject", "RegisterSchemaRequest", SCHEMA)
_REGISTER = Body("register", "RegisterSchemaRequest", SCHEMA)
_VERSION = "/{subject}/versions/{version}"
_NEGATIVE = Parameter("deletedAsNegative", "Include soft-deleted versions, with a minus sign")
_FORCE = Parameter("force", "Register without the check of compatibility")
_KEY = Parameter("key", "A property of the metadata; may come several times", STRING)
_VALUE = Parameter("value", "Its value; may come several times, in the order of the keys", STRING)


@router.declare("GET", needs=KNOWN, query=("subjectPrefix", "deleted", "deletedOnly", *PAGE), cacheable=True)
def list_subjects(call: Called) -> Response:
    prefix = call.text("subjectPrefix", subjects.ALL_CONTEXTS)
    deleted, only = call.flag("deleted"), call.flag("deletedOnly")
    names = subjects.list_subjects(call.registry, prefix=prefix, deleted=deleted, deleted_only=only)
    return call.answer(call.page(names))


@router.declare(
    "POST", "/{subject}", needs=KNOWN, query=("normalize", "deleted", "format"), body=_LOOK_UP, cacheable=True
)
def look_up_schema(call: Called) -> Response:
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    new = new_schema(call.body)
    match = registry_register.lookup(call.registry, call.subject, new, normalize=normalize, deleted=deleted)
    return call.answer(responses.schema(match.stored, view_of_query(call, match.stored), times=match.alike))


@router.declare("DELETE", "/{subject}", needs=DELETE, query=("permanent",))
def delete_subject(call: Called) -> Response:
    return call.answer(subjects.delete_subject(call.registry, call.subject, permanent=call.flag("permanent")))


@router.declare("GET", "/{subject}/metadata", needs=KNOWN, query=(_KEY, _VALUE, "deleted", "format"))
def get_version_by_metadata(call: Called) -> Response:
    """The latest version with all the properties that `key` and `value` (in pairs) name."""
    properties = dict(zip(call.texts("key"), call.texts("value"), strict=False))
    stored = subjects.with_properties(call.registry, call.subject, properties, deleted=call.flag("deleted"))
    return call.answer(responses.schema(stored, view_of_query(call, stored)))


@router.declare(
    "GET", "/{subject}/versions", needs=KNOWN, query=("deleted", "deletedOnly", _NEGATIVE, *PAGE), cacheable=True
)
def list_versions(call: Called) -> Response:
    deleted, only, negative = call.flag("deleted"), call.flag("deletedOnly"), call.flag("deletedAsNegative")
    numbers = subjects.list_versions(call.registry, call.subject, deleted=deleted, deleted_only=only, negative=negative)
    return call.answer(call.page(numbers))


@router.declare(
    "POST", "/{subject}/versions", needs=WRITE, query=("normalize", _FORCE, "format"), body=_REGISTER, cacheable=True
)
def register_schema(call: Called) -> Response:
    normalize, force = call.flag("normalize"), call.flag("force")
    registration = registry_register.register(
        call.registry, call.subject, new_schema(call.body), normalize=normalize, force=force
    )
    return call.answer(responses.registration(registration, view_of_query(call, registration.stored)))


@router.declare("GET", _VERSION, needs=KNOWN, query=("deleted", *SCHEMA_FORM), cacheable=True)
def get_version(call: Called) -> Response:
    stored = version_of(call)
    return call.answer(responses.schema(stored, view_of_query(call, stored)))


@router.declare("GET", f"{_VERSION}/schema", needs=KNOWN, query=("deleted", "format"), cacheable=True)
def get_version_text(call: Called) -> Response:
    return call.raw(text_of_query(call, version_of(call)))


@router.declare("POST", f"{_VERSION}/tags", needs=WRITE, body=Body("modifyTags", "TagSchemaRequest", TAGS))
def tag_version(call: Called) -> Response:
    """Register a version again, as the next one, with other tags in it."""
    version = version_number(call.segment("version"))
    registration = registry_register.tag(call.registry, call.subject, version, tag_request(call.body))
    return call.answer(responses.registration(registration, view_of_query(call, registration.stored)))


@router.declare("GET", f"{_VERSION}/referencedby", needs=KNOWN, query=("deleted", *PAGE))
def list_referencing_ids(call: Called) -> Response:
    subject, version = call.subject, version_number(call.segment("version"))
    return call.answer(call.page(subjects.referrers_of(call.registry, subject, version, deleted=call.flag("deleted"))))


@router.declare("DELETE", _VERSION, needs=DELETE, query=("permanent",))
def delete_version(call: Called) -> Response:
    subject, version = call.subject, version_number(call.segment("version"))
    return call.answer(subjects.delete_version(call.registry, subject, version, permanent=call.flag("permanent")))


def version_of(call: ApiCall) -> StoredVersion:
    subject, version = call.subject, version_number(call.segment("version"))
    return subjects.get_version(call.registry, subject, version, deleted=call.flag("deleted"))


overview_router = Router("/overview")
_LARGEST_OVERVIEW = 1000
_FOUND_BY = (
    Parameter("name", "Only subjects with this text in their names, whatever its case", STRING),
    Parameter("id", "Only subjects with a version that has this id, in any context", INTEGER),
    Parameter("column", "Only subjects whose latest schema has a field with this text in its name", STRING),
    Parameter("subject", "This subject alone, whatever it has", STRING),
)


@overview_router.declare("GET", needs=KNOWN, query=(*_FOUND_BY, "deleted", *PAGE))
def list_overviews(call: Called) -> Response:
    """Subjects with their versions and the settings in force; `total` counts those of all pages."""
    name, schema_id, column = call.text("name"), call.integer("id", -1), call.text("column")
    deleted, subject = call.flag("deleted"), normalize_subject(call.text("subject"))
    with call.registry.store.read():
        names = [subject]
        if not subject:
            number = None if schema_id < 0 else schema_id
            names = subjects.find_subjects(call.registry, name=name, schema_id=number, column=column, deleted=deleted)
        shown = subjects.describe_subjects(call.registry, call.page(names, _LARGEST_OVERVIEW))
    return call.answer({"total": len(names), "subjects": list(map(responses.overview, shown))})
