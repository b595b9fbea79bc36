"""The errors that service and jobs share: each is a row of one table.

    BridgeError                 anything we raise on purpose
    ├── WireError               a message, or a value in it, can't be read or written
    │   └── LossyError          … because the target format can't hold the value exactly
    ├── DdlError                a DDL statement can't be read, or does not fit the tables that are known
    ├── SetupError              wrong usage, or a part that is needed can't be reached (exit code 2)
    └── RegistryError           a rule of the registry says no (service.errors, with the answers over HTTP)

A row is a code and the template of its text. The code is also the reason of a dead letter and the `code` of an error
event, so it never changes its meaning.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final

ERRORS: Final[Mapping[str, str]] = {
    # ---- messages that can't be read
    "NOT_FRAMED": "{where}: not framed as messages of this format: {details}",
    "UNKNOWN_SCHEMA_ID": "{where}: schema id {id} is not known to {source}",
    "TRUNCATED": "{where}: the message ends in the middle of {field}: {details}",
    "TRAILING_BYTES": "{where}: {count} bytes are left over after the last field",
    "MALFORMED": "{where}: {details}",
    "TOO_LARGE": "{where}: {details}",
    "EMPTY_RECORD": "{details}",
    "DEFINITION_MISMATCH": "{details}",
    "UNSUPPORTED_SCHEMA": "{where}: {details}",
    "CLAIM_CHECK": "the message's content is in {uri}: {details}",
    "UNKNOWN_FORMAT": "the format can't be detected: {details}",
    "BAD_LINE": "{where}: not a line of a message file: {details}",
    "NOT_DECODED": "the message could not be decoded before: {details}",
    "TOO_MANY_ATTEMPTS": "{details}",
    # ---- values that can't be written
    "SCHEMA_NOT_FOUND": "Schema not found",
    "LOSSY_VALUE": "column {column}: {details}",
    "INVALID_VALUE": "column {column}: {details}",
    "TYPE_UNKNOWN": "column {column}: {details}",
    # ---- DDL that can't be read or applied
    "DDL_SYNTAX": "line {line}, column {column}: {details}",
    "DDL_REFUSED": "line {line}, column {column}: {details}",
    "DDL_TOO_LONG": "line 1, column 1: the statement has {length} characters; the limit is {limit}",
    "DDL_NOT_APPLICABLE": "{details}",
    "DDL_UNKNOWN_TABLE": "table {table} is not known here: {details}",
    "KEY_ONLY_ROW": "{table}: {details}",
    # ---- usage and start
    "USAGE": "{details}",
    "STOPPED": "stopped at {where}: {details}",
    "REGISTRY_UNREACHABLE": "{service} {url} can't be reached: {details}",
    "REGISTRY_REFUSED": "{service} {url} refused {what}: {details}",
    "HISTORY_BEHIND": "the history of changefeed '{changefeed}' at {url} is behind: {details}",
    "KAFKA_UNREACHABLE": "Kafka at {servers}: {details}",
    "UNKNOWN_TOPIC": "Topic {topic}: {details}",
    "STORE_UNREACHABLE": "{place}: {details}",
    "TIDB_UNREACHABLE": "TiDB at {place}: {details}",
    "TRACKED_TWICE": "changefeed '{changefeed}' is tracked by another process too: {details}",
    "JAVA_MISSING": "{details}",
    "JAVA_ENDED": "the Java process of Spark {details}",
    "JAR_MISSING": "{details}",
}  # fmt: skip
"""Code → template of the text, filled with the named fields that the exception is given."""


class BridgeError(Exception):
    """An error with a code of the table. `fields` fill the row's template; a missing field is a programming error.

    Crosses process borders by pickle (Spark workers): the state is the code and its fields.
    """

    templates: ClassVar[Mapping[str, str]] = ERRORS

    def __init__(self, code: str, **fields: Any) -> None:
        self.code = code
        self.fields = fields
        text = self.templates[code].format(**fields)
        if not text.isascii():  # names of hostile messages may hold what no output can: half a surrogate pair
            text = text.encode("utf-8", "backslashreplace").decode()
        super().__init__(text)

    @property
    def detail(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.code, **self.fields), ()


class WireError(BridgeError):
    """A message or a value that can't be read or written; becomes an error event or a dead letter."""


class LossyError(WireError):
    """The target format can't hold this value exactly."""


class DdlError(BridgeError):
    """A DDL statement that can't be read (DDL_SYNTAX: line and column tell where), that no TiDB reads (DDL_REFUSED), or
    that does not fit the tables known."""


class SetupError(BridgeError):
    """The command can't start or go on: wrong usage, or something it needs is missing. Exit code 2."""


# ---- what texts advise to give
class Hint(Enum):
    """What an error advises to give. The value is how the command line calls it.

    A text that names a hint reads in the words of the caller (`hints_as`) when it is made. So it is made in a function,
    not when a module is imported.
    """

    CHANGEFEED = "--changefeed NAME"
    CHANGELOG = "--changelog"
    CLAIM_CHECKS = "--claim-check-dir"
    DDL_TIME_ZONE = "--ddl-time-zone"
    DDL = "--ddl"
    DDL_FILE = "--ddl FILE"
    ENGINE = "--engine"
    FORMAT = "--format"
    HISTORY = "--history"
    HISTORY_URL = "--history URL"
    LOAD_NEW = "ticdc-bridge load --source mysql://… --table {table} --out PLACE"
    LOAD_REPLACE = "ticdc-bridge load --source mysql://… --table {table} --out PLACE --replace"
    ON_LOSSY_FLAG = "--on-lossy flag"
    READ_OPTIONS = "--from-options"
    REGISTRY = "--registry"
    REGISTRY_URL = "--registry URL"
    SCHEMAS = "--schemas"
    SCHEMAS_FILE = "--schemas FILE"
    TABLE = "--table"
    TIME = "--time"
    TOPIC = "--topic"
    TYPES = "--types"
    WITHOUT_KEY_APPEND = "--without-key append"

    def __str__(self) -> str:
        return _words.get().get(self, self.value)

    def of(self, value: str) -> str:
        """With a value: `--types exact`; in Python `types="exact"`, or `format=avro` where the words have no quote."""
        words = str(self)
        if words.endswith("="):
            return f"{words}{value}"
        return f'{words}{value}"' if words.endswith('="') else f"{words} {value}"


_words: ContextVar[Mapping[Hint, str]] = ContextVar("hint words", default={})  # noqa: B039 - it is not changed


@contextmanager
def hints_as(words: Mapping[Hint, str]) -> Iterator[None]:
    """Texts made within name hints by these words; by the command line's those that are not among them."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def hint_words() -> Mapping[Hint, str]:
    """The caller's words, to be taken to where its work is done: a worker process has none."""
    return _words.get()


def iterate_with_hints(words: Mapping[Hint, str], items: Iterator[Any]) -> Iterator[Any]:
    """The items, each made as within `hints_as`; the caller's words hold between them."""
    context, end = copy_context(), object()
    context.run(_words.set, words)
    while (item := context.run(next, items, end)) is not end:
        yield item
