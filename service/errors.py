"""Errors of the registry's rules and of the API, and how every error is answered over HTTP.

HTTP statuses and error codes are Confluent's (upstream schema-registry `rest/exceptions/Errors.java`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from ticdc_bridge.schemas.model.errors import BridgeError


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """An error of the API: its code here, HTTP status, the `error_code` of the answer, and the template of its text."""

    code: str
    http: int
    error_code: int
    template: str


REGISTRY_ERRORS: Final = {row.code: row for row in (
    # ---- schema registry: found or not
    ErrorRow("SUBJECT_NOT_FOUND", 404, 40401, "Subject '{subject}' not found."),
    ErrorRow("VERSION_NOT_FOUND", 404, 40402, "Version {version} not found."),
    ErrorRow("SCHEMA_NOT_FOUND", 404, 40403, "Schema not found"),
    ErrorRow("SCHEMA_ID_NOT_FOUND", 404, 40403, "Schema {id} not found"),
    ErrorRow("SUBJECT_SOFT_DELETED", 404, 40404,
        "Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"),
    ErrorRow("SUBJECT_NOT_SOFT_DELETED", 404, 40405,
        "Subject '{subject}' was not deleted first before being permanently deleted"),
    ErrorRow("VERSION_SOFT_DELETED", 404, 40406,
        "Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"),
    ErrorRow("VERSION_NOT_SOFT_DELETED", 404, 40407,
        "Subject '{subject}' Version {version} was not deleted first before being permanently deleted"),
    ErrorRow("COMPATIBILITY_NOT_CONFIGURED", 404, 40408,
        "Subject '{subject}' does not have subject-level compatibility configured"),
    ErrorRow("MODE_NOT_CONFIGURED", 404, 40409, "Subject '{subject}' does not have subject-level mode configured"),
    # ---- schema registry: refused
    ErrorRow("INCOMPATIBLE_SCHEMA", 409, 40901,
        'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]'),
    ErrorRow("INVALID_SCHEMA", 422, 42201, "{details}"),
    ErrorRow("INVALID_VERSION", 422, 42202,
        "The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] "
        'and the string "latest"'),
    ErrorRow("INVALID_COMPATIBILITY_LEVEL", 422, 42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"),
    ErrorRow("INVALID_MODE", 422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."),
    ErrorRow("FORWARD_NOT_GLOBAL", 422, 42204, "Forward mode only supported on global level"),
    ErrorRow("NOT_IN_IMPORT_MODE", 422, 42205, "Subject {subject} in context {context} is not in import mode"),
    ErrorRow("NOT_IN_READ_WRITE_MODE", 422, 42205, "Subject {subject} in context {context} is not in read-write mode"),
    ErrorRow("READ_ONLY", 422, 42205, "Subject {subject} in context {context} is in read-only mode"),
    ErrorRow("MODES_FIXED", 422, 42205, "Mode changes are not allowed"),
    ErrorRow("SUBJECTS_EXIST", 422, 42205, "Cannot import since found existing subjects"),
    ErrorRow("ID_TAKEN", 422, 42205, "Overwrite new schema with id {id} in context {context} is not permitted."),
    ErrorRow("VERSION_TAKEN", 422, 42205,
        "Overwrite version {version} of subject {subject} with another schema is not permitted."),
    ErrorRow("REFERENCED", 422, 42206,
        "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}."),
    ErrorRow("INVALID_SUBJECT", 422, 42208, "The specified subject '{subject}' is not a valid."),
    ErrorRow("CONTEXT_NOT_EMPTY", 422, 42211, "The specified context '{context}' is not empty."),
    ErrorRow("SCHEMA_TOO_LARGE", 422, 42209, "Register operation failed because schema is too large"),
    ErrorRow("TOO_MANY_REFERENCES", 422, 42201, "The schema has {count} references; at most {limit} are allowed"),
    ErrorRow("UNAUTHORIZED", 401, 401, "Unauthorized"),
    ErrorRow("FORBIDDEN", 403, 40301, "User is denied operation {operation} on {what}"),
    ErrorRow("TOO_MANY_LOGINS", 429, 429, "Too many new credentials at once"),
    # ---- table histories
    ErrorRow("UNKNOWN_CHANGEFEED", 404, 40450, "Changefeed '{changefeed}' not found; there are: {known}"),
    ErrorRow("TABLE_NOT_KNOWN", 404, 40451,
        "Table {table} is not in the history of changefeed '{changefeed}'{details}"),
    ErrorRow("TABLE_NOT_YET", 404, 40452, "Table {table} is unknown until commit_ts {until}: {details}"),
    ErrorRow("TABLE_GONE", 404, 40453, "Table {table} is gone since commit_ts {since}: {details}"),
    ErrorRow("TABLE_UNKNOWN_SINCE", 409, 40951, "Table {table} is unknown since commit_ts {since}: {details}"),
    ErrorRow("WHICH_CHANGEFEED", 422, 42250,
        "There are several changefeeds: choose one with ?changefeed=NAME, of {known}"),
    ErrorRow("INVALID_TIME", 422, 42251, "'{text}' is neither a commit_ts (a TSO) nor an RFC 3339 time"),
    ErrorRow("UNPROCESSABLE", 422, 422, "{details}"),
    ErrorRow("MESSAGE_NOT_FOUND", 404, 40471, "{details}"),
    ErrorRow("NO_KAFKA", 422, 42270,
        "This service is not connected to Kafka: set BRIDGE_BOOTSTRAP_SERVERS=HOST:PORT "
        "(SASL, TLS: BRIDGE_KAFKA_CONFIG)"),
    ErrorRow("KAFKA_SETTINGS", 422, 42271, "{details}"),
    ErrorRow("BAD_REQUEST", 400, 400, "{details}"),
    ErrorRow("ROUTE_NOT_FOUND", 404, 404, "HTTP 404 Not Found"),
    ErrorRow("METHOD_NOT_ALLOWED", 405, 405, "HTTP 405 Method Not Allowed"),
    ErrorRow("REQUEST_TOO_LARGE", 413, 413, "The request is larger than {limit} bytes"),
    ErrorRow("NOT_ACCEPTABLE", 406, 406, "HTTP 406 Not Acceptable"),
    ErrorRow("UNSUPPORTED_MEDIA_TYPE", 415, 415, "HTTP 415 Unsupported Media Type"),
    ErrorRow("STORE_FAILED", 500, 50001, "Error in the backend data store: {details}"),
    ErrorRow("STORE_TIMEOUT", 500, 50002, "{operation} operation timed out"),
    ErrorRow("INTERNAL", 500, 500, "Internal Server Error"),
)}  # fmt: skip
SHARED_ANSWERS: Final = {
    "DDL_SYNTAX": (422, 42261), "DDL_REFUSED": (422, 42265), "DDL_TOO_LONG": (422, 42262),
    "DDL_NOT_APPLICABLE": (422, 42263), "DDL_UNKNOWN_TABLE": (422, 42264), "USAGE": (400, 0),
    "REGISTRY_UNREACHABLE": (503, 0), "REGISTRY_REFUSED": (502, 0), "KAFKA_UNREACHABLE": (503, 50370),
    "UNKNOWN_TOPIC": (404, 40470), "STORE_UNREACHABLE": (503, 0), "TRACKED_TWICE": (409, 0),
}  # fmt: skip
"""HTTP status and `error_code` of errors that the jobs have too (schemas.model.errors); 422 and 0 for others."""


class RegistryError(BridgeError):
    """A rule of the registry, or of the API, says no."""

    templates: ClassVar[Mapping[str, str]] = {row.code: row.template for row in REGISTRY_ERRORS.values()}

    @property
    def row(self) -> ErrorRow:
        return REGISTRY_ERRORS[self.code]


def http_answer(error: BridgeError) -> tuple[int, int]:
    """The HTTP status and the `error_code` that an error is answered with."""
    if isinstance(error, RegistryError):
        return error.row.http, error.row.error_code
    return SHARED_ANSWERS.get(error.code, (422, 0))
