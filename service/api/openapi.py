"""The OpenAPI description: what the routes take and answer, as tables.

Routes read their parameters by JAX-RS's rules (`api.request`) and bodies by Jackson's (`api.bodies`), which no
generated description knows; so the paths and methods come from FastAPI and the rest from here.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.request import V1

Json = dict[str, Any]

_PAGE: Final = ("offset", "limit")
_SHOWN: Final = ("format", "referenceFormat", "findTags")
_VERSION: Final = "/subjects/{subject}/versions/{version}"
_ID: Final = "/schemas/ids/{id}"

# (method, path) → names of its query parameters; what is not listed takes none.
QUERY: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("get", "/subjects"): ("subjectPrefix", "deleted", "deletedOnly", *_PAGE),
    ("post", "/subjects/{subject}"): ("normalize", "deleted", "format"),
    ("delete", "/subjects/{subject}"): ("permanent",),
    ("get", "/subjects/{subject}/metadata"): ("key", "value", "deleted", "format"),
    ("get", "/subjects/{subject}/versions"): ("deleted", "deletedOnly", "deletedAsNegative", *_PAGE),
    ("post", "/subjects/{subject}/versions"): ("normalize", "force", "format"),
    ("get", _VERSION): ("deleted", *_SHOWN),
    ("get", f"{_VERSION}/schema"): ("deleted", "format"),
    ("get", f"{_VERSION}/referencedby"): ("deleted", *_PAGE),
    ("post", f"{_VERSION}/tags"): ("format",),
    ("delete", _VERSION): ("permanent",),
    ("get", "/schemas"): ("subjectPrefix", "deleted", "latestOnly", "aliases", "ruleType", *_PAGE),
    ("get", _ID): ("subject", "fetchMaxId", *_SHOWN),
    ("get", f"{_ID}/schema"): ("subject", "format"),
    ("get", f"{_ID}/subjects"): ("subject", "deleted", *_PAGE),
    ("get", f"{_ID}/versions"): ("subject", "deleted", *_PAGE),
    ("get", "/schemas/guids/{guid}"): _SHOWN,
    ("post", "/compatibility/subjects/{subject}/versions"): ("normalize", "verbose"),
    ("post", "/compatibility/subjects/{subject}/versions/{version}"): ("normalize", "verbose"),
    ("get", "/config"): ("defaultToGlobal",),
    ("get", "/config/{subject}"): ("defaultToGlobal",),
    ("get", "/mode"): ("defaultToGlobal",),
    ("get", "/mode/{subject}"): ("defaultToGlobal",),
    ("put", "/mode"): ("force",),
    ("put", "/mode/{subject}"): ("force",),
    ("delete", "/mode"): ("recursive",),
    ("delete", "/mode/{subject}"): ("recursive",),
    ("get", "/contexts"): ("contextPrefix", *_PAGE),
    ("get", "/history/tables"): ("changefeed", "db", *_PAGE),
    ("get", "/history/ddl"): ("changefeed", "from", "to", "db", "table", *_PAGE),
    ("post", "/history/ddl"): ("changefeed",),
    ("post", "/history/snapshot"): ("changefeed",),
    ("get", "/history/drift"): ("changefeed", "registry", *_PAGE),
    ("get", "/history/{db}/{table}/versions"): ("changefeed", "keyspace", "ddl_time_zone", *_PAGE),
    ("get", "/history/{db}/{table}/at/{when}"): ("changefeed", "keyspace", "ddl_time_zone", "inclusive"),
    ("get", "/lineage"): ("job", "topic", "table", "subject", *_PAGE),
}

# A query parameter → what it is for.
TEXTS: Final[dict[str, str]] = {
    "offset": "How many entries of the list to leave out",
    "limit": "How many entries at most",
    "subjectPrefix": "Subjects that begin so: NAME in the default context, :.CONTEXT:NAME in another, :*:NAME in all",
    "contextPrefix": "Contexts that begin so",
    "deleted": "Soft-deleted ones too",
    "deletedOnly": "Only soft-deleted ones",
    "deletedAsNegative": "Soft-deleted versions too, with a minus sign",
    "permanent": "Delete for good what is soft-deleted",
    "latestOnly": "Only the latest version of each subject",
    "aliases": "Versions of subjects with an alias that begins so, too",
    "ruleType": "Schemas with rules of this type: there are none",
    "subject": "The subject whose context has the id",
    "fetchMaxId": "The answer also says the highest id",
    "format": "Another form of the text: resolved (Avro), serialized or ignore_extensions (Protobuf)",
    "referenceFormat": "qualified: subjects of references with their contexts",
    "findTags": "Where a schema has this tag; may come several times, * stands for all",
    "key": "A property of the metadata; may come several times",
    "value": "Its value; may come several times, in the order of the keys",
    "normalize": "Compare and keep the schema in its normal form",
    "force": "Register without the check of compatibility",
    "verbose": "The answer says what is not compatible",
    "defaultToGlobal": "What holds here, from wider scopes where nothing is set",
    "recursive": "The modes of the subjects in the scope too",
    "changefeed": "Its name; not needed where there is one",
    "keyspace": "The changefeed's, the first part of the schemas' namespaces",
    "ddl_time_zone": "The zone of the DDL's session, for TIMESTAMP defaults",
    "db": "Only of this database",
    "table": "Only of this table",
    "from": "Since this commit_ts or RFC 3339 time",
    "to": "Up to this commit_ts or RFC 3339 time",
    "registry": "false leaves out the newest schemas that no version gives",
    "inclusive": "What the table is just after the DDL at this commit_ts",
    "job": "Only rows of this job",
    "topic": "Only rows of this topic",
}
# (how paths begin, parameter) → what it is for there.
TEXTS_BELOW: Final[dict[tuple[str, str], str]] = {
    ("/mode", "force"): "Change to IMPORT in spite of subjects that are there",
    ("/lineage", "table"): "Only rows of this table, as db.table",
    ("/lineage", "subject"): "Only rows whose schema id this subject has",
}
_NUMBERS: Final = frozenset({*_PAGE, "id"})
_STRINGS: Final = frozenset(
    {"subjectPrefix", "contextPrefix", "subject", "ruleType", "format", "referenceFormat", "findTags", "key", "value"}
    | {"version", "guid", "context", "namespace", "name"}
    | {"changefeed", "keyspace", "ddl_time_zone", "db", "table", "when", "from", "to", "job", "topic"}
)

_TEXT: Final[Json] = {"type": ["string", "null"]}
_NUMBER: Final[Json] = {"type": ["integer", "null"], "format": "int32"}
_TSO: Final[Json] = {"type": ["integer", "string", "null"], "format": "int64"}
_FLAG: Final[Json] = {"type": ["boolean", "null"]}
_NAMES: Final[Json] = {"type": "array", "items": {"type": "string"}}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


_METADATA: Final = _object(
    tags={"type": "object", "additionalProperties": _NAMES},
    properties={"type": "object", "additionalProperties": {"type": "string"}},
    sensitive=_NAMES,
)
_TAGS: Final[Json] = {
    "type": "array",
    "items": _object(
        schemaEntity=_object(entityPath=_TEXT, entityType={"enum": ["sr_record", "sr_field"]}), tags=_NAMES
    ),
}
_REFERENCES: Final[Json] = {"type": "array", "items": _object(name=_TEXT, subject=_TEXT, version=_NUMBER)}
_SCHEMA: Final = _object(
    schema=_TEXT,
    schemaType={"enum": ["AVRO", "JSON", "PROTOBUF"]},
    references=_REFERENCES,
    metadata=_METADATA,
    version=_NUMBER,
    id=_NUMBER,
    schemaTagsToAdd=_TAGS,
    schemaTagsToRemove=_TAGS,
    propagateSchemaTags=_FLAG,
)
_CONFIG: Final = _object(
    alias=_TEXT,
    aliasForDeks=_TEXT,
    normalize=_FLAG,
    validateFields=_FLAG,
    validateNewSchemas=_FLAG,
    validateRules=_FLAG,
    compatibility=_TEXT,
    compatibilityPolicy=_TEXT,
    compatibilityGroup=_TEXT,
    defaultMetadata=_METADATA,
    overrideMetadata=_METADATA,
)
_MODE: Final = _object(mode=_TEXT)
_TAGGING: Final = _object(newVersion=_NUMBER, tagsToAdd=_TAGS, tagsToRemove=_TAGS, metadata=_METADATA)

_HISTORY_DDL: Final = _object(
    changefeed=_TEXT, commit_ts=_TSO, time=_TEXT, db=_TEXT, table=_TEXT, query=_TEXT, mode=_TEXT, sql_mode=_TEXT
)
_HISTORY_SNAPSHOT: Final = _object(
    changefeed=_TEXT, commit_ts=_TSO, time=_TEXT, db=_TEXT, table=_TEXT, query=_TEXT, subject=_TEXT, version=_NUMBER,
    message=_object(key_b64=_TEXT, value_b64=_TEXT), format=_TEXT,
)  # fmt: skip

_DRY_RUN: Final = _object(
    db=_TEXT,
    sql=_TEXT,
    sql_mode=_TEXT,
    wire=_FLAG,
    at={"type": ["integer", "string", "null"]},
    changefeed=_object(name=_TEXT, sink_uri=_TEXT, config=_TEXT, keyspace=_TEXT, time_zone=_TEXT),
    tables=_NAMES,
    ddl_time_zone=_TEXT,
)

_LINEAGE: Final = _object(
    job=_TEXT, command=_TEXT, **{"from": _TEXT}, to=_TEXT, source=_TEXT, target=_TEXT,
    tables={
        "type": "array",
        "items": _object(topic=_TEXT, db=_TEXT, table=_TEXT, table_version=_TSO, schema_id=_NUMBER, rows=_TSO),
    },
)  # fmt: skip

# (method, how the path begins or ends) → the body; the first row that fits counts.
BODIES: Final[tuple[tuple[str, re.Pattern[str], Json], ...]] = (
    ("post", re.compile(r".*/tags"), _TAGGING),
    ("post", re.compile(r"/history/ddl"), _HISTORY_DDL),
    ("post", re.compile(r"/history/dry-run"), _DRY_RUN),
    ("post", re.compile(r"/history/snapshot"), _HISTORY_SNAPSHOT),
    ("post", re.compile(r"/lineage"), _LINEAGE),
    ("post", re.compile(r"(/compatibility)?/subjects/.*"), _SCHEMA),
    ("put", re.compile(r"/config.*"), _CONFIG),
    ("put", re.compile(r"/mode.*"), _MODE),
)

_ERRORS: Final = {
    400: "The path or the body can't be read",
    401: "Access is controlled, and nobody who is known asks",
    403: "Whoever asks may not do this",
    404: "Not found, or a number that is none",
    406: "No media type that is offered is accepted",
    429: "Too many passwords wait to be checked",
    500: "The store fails, or is busy for too long",
}
_ERRORS_WITH_BODY: Final = {
    409: "The schema is incompatible",
    413: "The body is too large",
    415: "The body is of a media type that is not read",
}
_REFUSED: Final = {422: "A name, a schema or a value is not valid, or the mode does not allow it"}
_BARE: Final = ("/health/", "/metrics")


def install(app: FastAPI) -> None:
    """Make `app.openapi()`, and so `/openapi.json`, the description built here."""

    def describe() -> Json:
        if not app.openapi_schema:
            app.openapi_schema = description(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def description(app: FastAPI) -> Json:
    spec = get_openapi(title="ticdc-bridge schema registry", version=app.version, routes=app.routes)
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            operation["operationId"] = f"{method}{re.sub('[^A-Za-z0-9]+', '_', path)}".strip("_")
            operation["parameters"] = parameters(method, path)
            if method in ("post", "put"):
                body = next((schema for verb, where, schema in BODIES if verb == method and where.fullmatch(path)), {})
                operation["requestBody"] = {"required": bool(body), "content": {V1: {"schema": body}}}
            operation["responses"] = responses(method, path)
    spec.setdefault("components", {})["schemas"] = {"Error": _object(error_code=_NUMBER, message=_TEXT)}
    return spec


def parameters(method: str, path: str) -> list[Json]:
    inside = [{"name": name, "in": "path", "required": True} for name in re.findall(r"{(\w+)}", path)]
    after = [
        {"name": name, "in": "query", "required": False, "description": description_of(path, name)}
        for name in QUERY.get((method, path), ())
    ]
    return [one | {"schema": kind_of(str(one["name"]))} for one in (*inside, *after)]


def description_of(path: str, name: str) -> str:
    """What a query parameter is for. KeyError where the tables do not say it."""
    own = (text for (head, one), text in TEXTS_BELOW.items() if one == name and path.startswith(head))
    return next(own, None) or TEXTS[name]


def kind_of(name: str) -> Json:
    if name in _NUMBERS:
        return {"type": "integer", "format": "int32"}
    return {"type": "string", "minLength": 1} if name in _STRINGS else {"type": "boolean"}


def responses(method: str, path: str) -> Json:
    """Every status a route can answer with."""
    if path.startswith(_BARE):
        return {"200": {"description": "As it says"}, "500": {"description": _ERRORS[500]}}
    done: Json = {"200": {"description": "Done", "content": {V1: {}}}}
    if (method, path) == ("delete", "/contexts/{context}"):
        done = {"204": {"description": "Done"}}
    errors = _ERRORS | (_ERRORS_WITH_BODY if method in ("post", "put") else {}) | _REFUSED
    if path.startswith("/history/{db}"):
        errors |= {409: "The table is unknown since a DDL that was not understood"}
    error = {V1: {"schema": {"$ref": "#/components/schemas/Error"}}}
    failed = {str(status): {"description": why, "content": error} for status, why in errors.items()}
    return done | failed
