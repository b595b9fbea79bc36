"""What TiCDC refuses of settings whose form is right: bounds, and settings that do not go together.

Sources: pingcap/ticdc `pkg/sink/kafka/options.go` (Apply), `pkg/config/{replica_config,sink,large_message}.go`
(ValidateAndAdjust), `pkg/sink/codec/common/config.go` (Validate), `pkg/filter/{sql_event_filter,expr_filter}.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemas.ddl.parser.cursor import Cursor
from schemas.ddl.parser.expressions import expression
from schemas.ddl.parser.lexer import TYPED
from schemas.model.errors import DdlError
from schemas.model.table_filter import PatternError, TableFilter
from service.changefeed.setting_keys import BY_PATH, BY_URI, KEYS, Key
from service.changefeed.settings import Problem, texts

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_ROUTE = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")
_AVRO: Final = ("avro", "debezium-avro")
_KAFKA: Final = ("kafka", "kafka+ssl")
_LEAST_FLUSH: Final = 50
_REDO_PLACE = re.compile(r"(?:blackhole[\w.+-]*|local|nfs|s3|gcs|gs|azblob|azure|file|noop)://")

# Events that a filter may name (upstream ticdc `pkg/filter/utils.go`, SupportedEventTypes; names of tiflow as well).
_EVENTS: Final = frozenset((
    "all dml", "all ddl", "insert", "update", "delete", "alter table", "create schema", "drop schema",
    "create database", "drop database", "modify schema charset and collate", "create table", "drop table",
    "truncate table", "rename table", "recover table", "modify table comment", "modify table charset and collate",
    "create view", "drop view", "add table partition", "drop table partition", "truncate table partition",
    "exchange partition", "exchange table partition", "reorganize partition", "reorganize table partition",
    "alter table partition", "alter table partitioning", "remove partitioning", "remove table partition",
    "remove table partitioning", "add column", "drop column", "modify column", "set default value", "rebase auto id",
    "add primary key", "drop primary key", "create index", "add index", "drop index", "rename index",
    "alter index visibility", "alter ttl info", "alter ttl remove", "multi schema change", "add foreign key",
    "drop foreign key", "add full text index", "add fulltext index", "create fulltext index", "create hybrid index",
    "add columnar index", "create columnar index", "add vector index", "create vector index", "drop columnar index",
))  # fmt: skip
_EXPRESSIONS: Final = (
    "ignore-insert-value-expr", "ignore-update-new-value-expr", "ignore-update-old-value-expr",
    "ignore-delete-value-expr",
)  # fmt: skip


def problems(
    values: Mapping[str, Any],
    given: Mapping[str, str],
    lists: Mapping[str, Sequence[Mapping[str, Any]]],
    scheme: str,
    protocol: str,
) -> Iterator[Problem]:
    """values: by path, as merged; given: where each is from. lists: the file's lists of tables. scheme: of the sink
    URI, "" where there is none."""
    settings = _Settings(values, scheme, protocol)
    for key in KEYS:
        text = _out_of_bounds(key, values[key.path]) if key.path in values else ""
        if text:
            yield Problem("error", text, f"Change {line_of(key, given)}")
    texts_ = [
        *(rule.text for rule in _RULES if rule.when(settings)),
        *_of_event_filters(lists.get("filter.event-filters", ())),
        *_of_routes(lists.get("sink.dispatchers", ())),
    ]
    yield from (Problem("error", text) for text in texts_)


def line_of(key: Key, given: Mapping[str, str]) -> str:
    """Where a setting stands: `name=` of the sink URI, or its table and name in the file."""
    if given.get(key.path) == "sink-uri":
        return f"{key.uri}=… of the sink URI"
    table, _, name = key.path.rpartition(".")
    return f"{name} = … under [{table}] of the file" if table else f"{name} = … at the top of the file"


# ---- one setting
def seconds(text: str) -> float | None:
    """A duration in Go's form (1h30m, 10s); None for what is none, such as a number without a unit."""
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total


def _out_of_bounds(key: Key, value: Any) -> str:
    """Why TiCDC refuses a value; "" when it takes it."""
    if key.pattern and isinstance(value, str):
        return "" if re.fullmatch(key.pattern, value) else f"{key.name} is {value[:80]!r}: {key.words} is needed"
    number = value
    if key.form == "duration":
        number = seconds(value)
        if number is None:
            return f"{key.name} is {value[:40]!r}: a number with its unit is needed, such as 10s"
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return ""
    unit = "s" if key.form == "duration" else ""
    if key.least is not None and number < key.least:
        least = "more than 0" if 0 < key.least < 1 else f"at least {key.least:g}{unit}"
        return f"{key.name} is {value}: it must be {least}"
    if key.most is not None and number > key.most:
        return f"{key.name} is {value}: it must be at most {key.most:g}{unit}"
    return ""


# ---- settings together
@dataclass(frozen=True, slots=True)
class _Settings:
    values: Mapping[str, Any]
    scheme: str
    protocol: str

    def get(self, name: str) -> Any:
        key = BY_URI.get(name) or BY_PATH[name]
        return self.values.get(key.path, key.default)

    def kafka(self, name: str) -> Any:
        return self.get(f"sink.kafka-config.{name}")

    def glue(self, name: str) -> Any:
        return self.values.get(f"sink.kafka-config.glue-schema-registry-config.{name}")

    @property
    def uses_glue(self) -> bool:
        return any(path.startswith("sink.kafka-config.glue-schema-registry-config.") for path in self.values)

    @property
    def on_kafka(self) -> bool:
        return self.scheme in _KAFKA

    @property
    def mechanism(self) -> str:
        return str(self.get("sasl-mechanism") or "").lower()


@dataclass(frozen=True, slots=True)
class _Rule:
    when: Callable[[_Settings], bool]
    text: str


def _lacks_login(s: _Settings) -> bool:
    return s.mechanism in ("plain", "scram-sha-256", "scram-sha-512") and not (
        s.get("sasl-user") and s.get("sasl-password")
    )


def _files(s: _Settings) -> list[bool]:
    return [bool(s.get(name)) for name in ("ca", "cert", "key")]


def _oauth(s: _Settings) -> list[bool]:
    return [bool(s.kafka(f"sasl-oauth-{name}")) for name in ("client-id", "client-secret", "token-url")]


def _is_no_base64(s: _Settings) -> bool:
    try:
        base64.b64decode(s.kafka("sasl-oauth-client-secret") or "", validate=True)
    except (binascii.Error, ValueError):
        return True
    return False


def _redo(s: _Settings, *names: str) -> list[Any]:
    """Settings of the redo log, which TiCDC checks where it is on; those that are 0 or empty are its defaults."""
    on = s.get("consistent.level") == "eventual"
    return [value for name in names if on and (value := s.get(f"consistent.{name}"))]


def _split(s: _Settings, *names: str) -> list[int]:
    """Settings of tables that are split over nodes, which TiCDC checks where that is on."""
    on = s.get("scheduler.enable-table-across-nodes")
    return [value for name in names if on and (value := s.get(f"scheduler.{name}")) is not None]


_RULES: Final = (
    _Rule(lambda s: any(value < _LEAST_FLUSH for value in _redo(s, "flush-interval", "meta-flush-interval")),
          f"consistent.flush-interval and consistent.meta-flush-interval must be at least {_LEAST_FLUSH}"),
    _Rule(lambda s: any(value not in ("none", "lz4") for value in _redo(s, "compression")),
          "consistent.compression must be none or lz4"),
    _Rule(lambda s: bool(_redo(s, "level")) and not _REDO_PLACE.match(s.get("consistent.storage") or ""),
          "consistent.storage has to be a place for the redo log, such as s3://BUCKET/PATH or nfs:///PATH"),
    _Rule(lambda s: any(n < 0 for n in _split(s, "region-threshold", "write-key-threshold",
                                              "scheduling-task-count-per-node")),
          "scheduler.region-threshold, write-key-threshold and scheduling-task-count-per-node must not be below 0"),
    _Rule(lambda s: any(n <= 0 for n in _split(s, "region-count-per-span")),
          "scheduler.region-count-per-span must be more than 0"),
    _Rule(lambda s: s.on_kafka and bool(s.get("enable-sync-point")),
          "enable-sync-point is on: a sync point is for MySQL and TiDB downstream only, TiCDC refuses it with Kafka"),
    _Rule(lambda s: s.on_kafka and bool(s.get("enable-active-active")),
          "enable-active-active is on: TiCDC refuses it with Kafka"),
    _Rule(_lacks_login, "sasl-mechanism plain or scram needs both sasl-user and sasl-password"),
    _Rule(lambda s: s.mechanism == "oauthbearer" and not all(_oauth(s)),
          "sasl-mechanism oauthbearer needs sasl-oauth-client-id, sasl-oauth-client-secret and sasl-oauth-token-url "
          "in the file"),
    _Rule(lambda s: s.mechanism != "oauthbearer" and any(_oauth(s)),
          "sasl-oauth-… is given, but sasl-mechanism is not oauthbearer"),
    _Rule(_is_no_base64, "sasl-oauth-client-secret is not base64"),
    _Rule(lambda s: any(_files(s)) and not all(_files(s)), "ca, cert and key have to be given together"),
    _Rule(lambda s: all(_files(s)) and s.values.get("sink.kafka-config.enable-tls") is False,
          "ca, cert and key are given, but enable-tls is false"),
    _Rule(lambda s: s.uses_glue and not s.glue("registry-name"), "glue-schema-registry-config has no registry-name"),
    _Rule(lambda s: s.uses_glue and not s.glue("region"), "glue-schema-registry-config has no region"),
    _Rule(lambda s: bool(s.glue("access-key")) and not s.glue("secret-access-key"),
          "glue-schema-registry-config has access-key without secret-access-key"),
    _Rule(lambda s: isinstance(s.get("max-batch-message-bytes"), int) and isinstance(s.get("max-message-bytes"), int)
          and s.get("max-batch-message-bytes") > s.get("max-message-bytes"),
          "max-batch-message-bytes is larger than max-message-bytes"),
    _Rule(lambda s: s.protocol == "open"
          and s.kafka("large-message-handle.large-message-handle-option") == "claim-check"
          and bool(s.kafka("large-message-handle.claim-check-raw-value")),
          "claim-check-raw-value does not go with open-protocol"),
)  # fmt: skip


# ---- lists of tables
def _of_event_filters(filters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in filters:
        where = f"the event filter for {', '.join(texts(one.get('matcher'))) or 'no table'}"
        try:
            TableFilter(texts(one.get("matcher")))
        except PatternError as error:
            yield f"filter.event-filters: {error}"
        for event in texts(one.get("ignore-event")):
            if event not in _EVENTS:
                yield f"{where}: ignore-event {event[:60]!r} is no event that TiCDC knows"
        for pattern in texts(one.get("ignore-sql")):
            try:
                re.compile(pattern)
            except re.error:
                yield f"{where}: ignore-sql {pattern[:60]!r} is no regular expression"
        for name in _EXPRESSIONS:
            text = one.get(name)
            if isinstance(text, str) and text.strip() and _is_cut(text):
                yield (
                    f"{where}: {name} {text[:60]!r} is no SQL expression: classic TiCDC refuses the changefeed, "
                    "new TiCDC stops at the first such row"
                )


def _is_cut(text: str) -> bool:
    """Whether an expression ends too early, or is no SQL at all. What we do not read otherwise, TiDB may."""
    try:
        cursor = Cursor(text, TYPED)
    except DdlError:
        return True
    try:
        expression(cursor)
    except (DdlError, RecursionError):
        return cursor.at == len(cursor.all) - 1
    return cursor.upper == ")"


def _of_routes(dispatchers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in dispatchers:
        for name in ("target-schema", "target-table"):
            text = one.get(name)
            if isinstance(text, str) and not _ROUTE.fullmatch(text):
                yield f"the dispatcher for {texts(one.get('matcher'))}: {name} {text[:60]!r} may hold " + (
                    "{schema} and {table} only besides letters"
                )
