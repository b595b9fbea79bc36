"""Every error of the bridge is a row of one table.

    BridgeError                 anything we raise on purpose
    ├── RegistryError           a rule of the schema registry says no (has an HTTP status and an error_code)
    ├── WireError               a message, or a value in it, can't be read or written
    │   └── LossyError          … because the target format can't hold the value exactly
    ├── DdlError                a DDL statement can't be read, or does not fit the tables that are known
    └── SetupError              wrong usage, or a part that is needed can't be reached (exit code 2)

A row is (code, HTTP status, registry error_code, message template). The code is also the reason of a dead letter
and the `code` of an error event, so it never changes its meaning. HTTP statuses and registry error_codes are
Confluent's (upstream schema-registry `rest/exceptions/Errors.java`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One kind of error: `template` is filled with the named fields given to the exception."""

    code: str
    http: int
    error_code: int
    template: str


_ROWS = (
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
    ErrorRow("ASSOCIATION_NOT_FOUND", 404, 40410, "Association for '{name}' not found."),
    ErrorRow(
        "INCOMPATIBLE_SCHEMA",
        409,
        40901,
        'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
    ),
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
    # ---- messages that can't be read
    ErrorRow("NOT_FRAMED", 422, 0, "{where}: not framed as messages of this format: {details}"),
    ErrorRow("UNKNOWN_SCHEMA_ID", 422, 0, "{where}: schema id {id} is not known to {source}"),
    ErrorRow("TRUNCATED", 422, 0, "{where}: the message ends in the middle of {field}: {details}"),
    ErrorRow("TRAILING_BYTES", 422, 0, "{where}: {count} bytes are left over after the last field"),
    ErrorRow("MALFORMED", 422, 0, "{where}: {details}"),
    ErrorRow("TOO_LARGE", 422, 0, "{where}: {details}"),
    ErrorRow("EMPTY_RECORD", 422, 0, "{details}"),
    ErrorRow("DEFINITION_MISMATCH", 422, 0, "{details}"),
    ErrorRow("UNSUPPORTED_SCHEMA", 422, 0, "{where}: {details}"),
    ErrorRow("CLAIM_CHECK", 422, 0, "the message's content is in {uri}: {details}"),
    ErrorRow("UNKNOWN_FORMAT", 422, 0, "the format can't be detected: {details}"),
    ErrorRow("BAD_LINE", 422, 0, "{where}: not a line of a message file: {details}"),
    ErrorRow("NOT_DECODED", 422, 0, "the message could not be decoded before: {details}"),
    ErrorRow("TOO_MANY_ATTEMPTS", 422, 0, "{details}"),
    # ---- values that can't be written
    ErrorRow("LOSSY_VALUE", 422, 0, "column {column}: {details}"),
    ErrorRow("INVALID_VALUE", 422, 0, "column {column}: {details}"),
    ErrorRow("TYPE_UNKNOWN", 422, 0, "column {column}: {details}"),
    # ---- DDL that can't be read or applied
    ErrorRow("DDL_SYNTAX", 422, 42261, "line {line}, column {column}: {details}"),
    ErrorRow("DDL_REFUSED", 422, 42265, "line {line}, column {column}: {details}"),
    ErrorRow("DDL_TOO_LONG", 422, 42262,
        "line 1, column 1: the statement has {length} characters; the limit is {limit}"),
    ErrorRow("DDL_NOT_APPLICABLE", 422, 42263, "{details}"),
    ErrorRow("DDL_UNKNOWN_TABLE", 422, 42264, "table {table} is not known here: {details}"),
    ErrorRow("KEY_ONLY_ROW", 422, 0, "{table}: {details}"),
    # ---- usage and start
    ErrorRow("USAGE", 400, 0, "{details}"),
    ErrorRow("STOPPED", 422, 0, "stopped at {where}: {details}"),
    ErrorRow("REGISTRY_UNREACHABLE", 503, 0, "schema registry {url} can't be reached: {details}"),
    ErrorRow("REGISTRY_REFUSED", 502, 0, "schema registry {url} refused {what}: {details}"),
    ErrorRow("HISTORY_BEHIND", 503, 0, "the history of changefeed '{changefeed}' at {url} is behind: {details}"),
    ErrorRow("KAFKA_UNREACHABLE", 503, 50370, "Kafka at {servers}: {details}"),
    ErrorRow("UNKNOWN_TOPIC", 404, 40470, "Topic {topic}: {details}"),
    ErrorRow("STORE_UNREACHABLE", 503, 0, "{place}: {details}"),
    ErrorRow("TRACKED_TWICE", 409, 0, "changefeed '{changefeed}' is tracked by another process too: {details}"),
    ErrorRow("JAVA_MISSING", 503, 0, "{details}"),
    ErrorRow("JAVA_ENDED", 503, 0, "the Java process of Spark {details}"),
    ErrorRow("JAR_MISSING", 503, 0, "{details}"),
)  # fmt: skip

ERRORS: dict[str, ErrorRow] = {row.code: row for row in _ROWS}


class BridgeError(Exception):
    """An error with a code of the table. `fields` fill the row's template; a missing field is a programming error.

    Crosses process borders by pickle (Spark workers): the state is the code and its fields.
    """

    def __init__(self, code: str, **fields: Any) -> None:
        self.row = ERRORS[code]
        self.fields = fields
        text = self.row.template.format(**fields)
        if not text.isascii():  # names of hostile messages may hold what no output can: half a surrogate pair
            text = text.encode("utf-8", "backslashreplace").decode()
        super().__init__(text)

    @property
    def code(self) -> str:
        return self.row.code

    @property
    def detail(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.fields)


class RegistryError(BridgeError):
    """A registry rule says no; the API answers `row.http` with `row.error_code` and the message."""


class WireError(BridgeError):
    """A message or a value that can't be read or written; becomes an error event or a dead letter."""


class LossyError(WireError):
    """The target format can't hold this value exactly."""


class DdlError(BridgeError):
    """A DDL statement that can't be read (DDL_SYNTAX: line and column tell where), that no TiDB reads (DDL_REFUSED), or
    that does not fit the tables known."""


class SetupError(BridgeError):
    """The command can't start or go on: wrong usage, or something it needs is missing. Exit code 2."""


def _rebuild(kind: type[BridgeError], code: str, fields: dict[str, Any]) -> BridgeError:
    return kind(code, **fields)
