"""What TiCDC refuses of settings whose form is right: bounds, and settings that do not go together.

Sources: pingcap/ticdc `pkg/sink/kafka/options.go` (Apply), `pkg/config/{replica_config,sink,large_message}.go`
(ValidateAndAdjust), `pkg/sink/codec/common/config.go` (Validate).
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table_filter import PatternError, TableFilter
from ticdc_bridge.service.changefeed import settings
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, Problem, text_of, texts

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_TERM = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_LEAST_FLUSH: Final = 50
_MOST_BATCH: Final = 8192
_UNESCAPED_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_STORAGE = re.compile(r"(?:s3|ks3|gs|gcs|azure|azblob)://[^/?]+|(?:local|file|hdfs)://|(?![A-Za-z][\w+.-]*://).+")
_REDO_LOCATION = re.compile(r"(?:blackhole[\w.+-]*|local|nfs|s3|gcs|gs|azblob|azure|file|noop)://")
Member = Mapping[str, Any]
"""Of a list of tables in the file."""


def problems(feed: ChangefeedSettings, lists: Mapping[str, Sequence[Member]]) -> Iterator[Problem]:
    """The problems of merged settings. lists: the file's lists of tables, by path."""
    values, origins, protocol = feed.values, feed.origins, feed.protocol
    for key in settings.KEYS:
        text = _not_taken(key, values[key.path], origins, protocol) if key.path in values else ""
        if text:
            yield Problem("error", text, f"Change {settings.line_of(key, origins)}")
    for rule in _RULES:
        if rule.when(feed):
            yield Problem("error", rule.text, settings.fix_of(rule.names, origins))
    for number, filter_ in enumerate(lists.get("filter.event-filters", ()), 1):
        yield from _located("filter.event-filters", number, "error", _of_event_filter(filter_))
    for number, dispatcher in enumerate(lists.get("sink.dispatchers", ()), 1):
        yield from _located("sink.dispatchers", number, "error", _of_dispatcher(dispatcher, protocol))
        yield from _located("sink.dispatchers", number, "warning", _passed_over(dispatcher))
    for number, selector in enumerate(lists.get("sink.column-selectors", ()), 1):
        if not keeps_something(texts(selector.get("columns"))):
            text = "a column selector keeps no column, so no key either: TiCDC refuses its tables; begin with '*'"
            yield Problem("error", text, f"Change {settings.line_in_file(f'sink.column-selectors.{number}.columns')}")
    for path, members in lists.items():
        for number, member in enumerate(members, 1):
            before = [] if path == "filter.event-filters" else members[: number - 1]
            yield from _located(path, number, "warning", _of_matcher(member, before))


def read_query(uri: SplitResult) -> tuple[str, list[Problem]]:
    """The query of a sink URI as Go reads it, and what it drops without a warning."""
    kept, found = list[str](), list[Problem]()
    for pair in uri.query.split("&"):
        if ";" not in pair and not _UNESCAPED_PERCENT.search(pair):
            kept.append(pair)
            continue
        name = pair.partition("=")[0][:80]
        text = f"the sink URI has {name} with a bare ; or %: TiCDC drops the whole parameter without a warning"
        found.append(Problem("warning", text, f"Write %3B for ; and %25 for % in {settings.line_in_uri(name)}"))
    if uri.fragment:
        text = "the sink URI has a bare #: TiCDC drops it and all that follows, without a warning"
        found.append(Problem("warning", text, "Write %23 for # in the sink URI"))
    return "&".join(kept), found


# ---- one setting
def seconds(text: str) -> float | None:
    """A duration in Go's form (1h30m, 10s); None for what is none, such as a number without a unit."""
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_TERM.findall(text))
    return -total if text.startswith("-") else total


def _not_taken(key: settings.Key, value: Any, origins: Mapping[str, str], protocol: str) -> str:
    """Why TiCDC refuses a value; "" when it takes it."""
    if key.protocols and protocol and protocol not in key.protocols:
        if key.alone and value not in ("", key.default):
            return f"{key.name}: TiCDC takes it with protocol {' or '.join(key.protocols)} only"
        return ""
    if key.choices and value not in key.choices:
        where = {"sink-uri": "the sink URI has ", "config": "the file has "}.get(origins[key.path], "")
        return f"{where}{key.name} {value[:80]!r}: {' or '.join(key.choices)} is what TiCDC takes"
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
        least = "more than 0" if 0 < key.least < 1 else f"at least {_shown(key.least)}{unit}"
        return f"{key.name} is {value}: it must be {least}"
    if key.most is not None and number > key.most:
        return f"{key.name} is {value}: it must be at most {_shown(key.most)}{unit}"
    return ""


def _shown(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


# ---- settings together
@dataclass(frozen=True, slots=True)
class _Rule:
    """names: of the settings to change, by the URI's name or by path."""

    when: Callable[[ChangefeedSettings], bool]
    text: str
    names: tuple[str, ...]


def _mechanism(s: ChangefeedSettings) -> str:
    return str(s.get("sasl-mechanism") or "").lower()


def _files(s: ChangefeedSettings) -> list[bool]:
    return [bool(s.get(name)) for name in ("ca", "cert", "key")]


def _oauth(s: ChangefeedSettings) -> list[bool]:
    return [bool(s.get(path)) for path in _OAUTH]


def _is_no_base64(s: ChangefeedSettings) -> bool:
    try:
        base64.b64decode(s.get(_OAUTH[1]) or "", validate=True)
    except (binascii.Error, ValueError):
        return True
    return False


def _redo(s: ChangefeedSettings, *names: str) -> list[Any]:
    """Settings of the redo log, which TiCDC checks where it is on; those that are 0 or empty are its defaults."""
    on = s.get("consistent.level") == "eventual"
    return [value for name in names if on and (value := s.get(f"consistent.{name}"))]


def _split(s: ChangefeedSettings, *names: str) -> list[Any]:
    """Settings of tables that are split over nodes, which TiCDC checks where that is on."""
    on = s.get("scheduler.enable-table-across-nodes")
    return [value for name in names if on and (value := s.get(f"scheduler.{name}")) is not None]


_LARGE: Final = "sink.kafka-config.large-message-handle."
_GLUE: Final = "sink.kafka-config.glue-schema-registry-config."
_SCHEDULER: Final = ("region-threshold", "write-key-threshold", "scheduling-task-count-per-node")
_ABOVE_0: Final = ("region-count-per-span", "balance-score-threshold")
_OAUTH: Final = tuple(f"sink.kafka-config.sasl-oauth-{name}" for name in ("client-id", "client-secret", "token-url"))
_RULES: Final = (
    _Rule(lambda s: any(value < _LEAST_FLUSH for value in _redo(s, "flush-interval", "meta-flush-interval")),
          f"consistent.flush-interval and consistent.meta-flush-interval must be at least {_LEAST_FLUSH}",
          ("consistent.flush-interval", "consistent.meta-flush-interval")),
    _Rule(lambda s: any(not 0 <= value <= _MOST_BATCH for value in _redo(s, "event-collector-batch-count")),
          f"consistent.event-collector-batch-count must be 0 to {_MOST_BATCH}",
          ("consistent.event-collector-batch-count",)),
    _Rule(lambda s: any(value not in ("none", "lz4") for value in _redo(s, "compression")),
          "consistent.compression must be none or lz4", ("consistent.compression",)),
    _Rule(lambda s: bool(_redo(s, "level")) and not _REDO_LOCATION.match(s.get("consistent.storage") or ""),
          "consistent.storage has to be a place for the redo log, such as s3://BUCKET/PATH or nfs:///PATH",
          ("consistent.storage",)),
    _Rule(lambda s: any(n < 0 for n in _split(s, *_SCHEDULER)),
          "scheduler.region-threshold, write-key-threshold and scheduling-task-count-per-node must not be below 0",
          tuple(f"scheduler.{name}" for name in _SCHEDULER)),
    _Rule(lambda s: any(n <= 0 for n in _split(s, *_ABOVE_0)),
          f"scheduler.{' and '.join(_ABOVE_0)} must be more than 0", tuple(f"scheduler.{name}" for name in _ABOVE_0)),
    _Rule(lambda s: any(not 0 < n < 1 for n in _split(s, "min-traffic-percentage")),
          "scheduler.min-traffic-percentage must be between 0 and 1", ("scheduler.min-traffic-percentage",)),
    _Rule(lambda s: any(n <= 1 for n in _split(s, "max-traffic-percentage")),
          "scheduler.max-traffic-percentage must be more than 1", ("scheduler.max-traffic-percentage",)),
    _Rule(lambda s: s.on_kafka and bool(s.get("enable-sync-point")),
          "enable-sync-point is on: a sync point is for MySQL and TiDB downstream only, TiCDC refuses it with Kafka",
          ("enable-sync-point",)),
    _Rule(lambda s: s.on_kafka and bool(s.get("enable-active-active")),
          "enable-active-active is on: TiCDC refuses it with Kafka", ("enable-active-active",)),
    _Rule(lambda s: _mechanism(s) in ("plain", "scram-sha-256", "scram-sha-512")
          and not (s.get("sasl-user") and s.get("sasl-password")),
          "sasl-mechanism plain or scram needs both sasl-user and sasl-password",
          ("sasl-mechanism", "sasl-user", "sasl-password")),
    _Rule(lambda s: _mechanism(s) == "oauthbearer" and not all(_oauth(s)),
          "sasl-mechanism oauthbearer needs sasl-oauth-client-id, sasl-oauth-client-secret and sasl-oauth-token-url "
          "in the file", ("sasl-mechanism", *_OAUTH)),
    _Rule(lambda s: _mechanism(s) != "oauthbearer" and any(_oauth(s)),
          "sasl-oauth-… is given, but sasl-mechanism is not oauthbearer", ("sasl-mechanism",)),
    _Rule(_is_no_base64, "sasl-oauth-client-secret is not base64", _OAUTH[1:2]),
    _Rule(lambda s: any(_files(s)) and not all(_files(s)), "ca, cert and key have to be given together",
          ("ca", "cert", "key")),
    _Rule(lambda s: all(_files(s)) and s.values.get("sink.kafka-config.enable-tls") is False,
          "ca, cert and key are given, but enable-tls is false", ("enable-tls",)),
    _Rule(lambda s: s.uses_glue and not s.get(_GLUE + "registry-name"),
          "glue-schema-registry-config has no registry-name", (_GLUE + "registry-name",)),
    _Rule(lambda s: s.uses_glue and not s.get(_GLUE + "region"), "glue-schema-registry-config has no region",
          (_GLUE + "region",)),
    _Rule(lambda s: bool(s.get(_GLUE + "access-key")) and not s.get(_GLUE + "secret-access-key"),
          "glue-schema-registry-config has access-key without secret-access-key", (_GLUE + "secret-access-key",)),
    _Rule(lambda s: s.protocol == "open"
          and s.get(_LARGE + "large-message-handle-option") == "claim-check"
          and bool(s.get(_LARGE + "claim-check-raw-value")),
          "claim-check-raw-value does not go with open-protocol", (_LARGE + "claim-check-raw-value",)),
    _Rule(lambda s: s.get(_LARGE + "large-message-handle-option") == "claim-check"
          and not _STORAGE.match(s.get(_LARGE + "claim-check-storage-uri") or "file://"),
          "claim-check-storage-uri has to be a place that TiCDC knows, such as s3://BUCKET/PATH",
          (_LARGE + "claim-check-storage-uri",)),
    _Rule(lambda s: s.protocol == "simple" and s.get("encoding-format") == "avro"
          and bool(s.get("simple-include-start-ts")),
          "simple-include-start-ts does not go with encoding-format avro",
          ("simple-include-start-ts", "encoding-format")),
)  # fmt: skip

# ---- lists
Found = tuple[str, str]
"""The key of a member, and what is wrong with it."""
_ROUTE = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")

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
EXPRESSIONS: Final = (
    "ignore-insert-value-expr", "ignore-update-new-value-expr", "ignore-update-old-value-expr",
    "ignore-delete-value-expr",
)  # fmt: skip
# Keys of a dispatcher that only one partition rule looks at.
_OF_PARTITION: Final = {"index": "index-value", "columns": "columns"}


def _located(path: str, number: int, severity: settings.Severity, found: Iterator[Found]) -> Iterator[Problem]:
    for name, text in found:
        yield Problem(severity, text, f"Change {settings.line_in_file(f'{path}.{number}.{name}')}")


def _of_matcher(member: Member, before: Sequence[Member]) -> Iterator[Found]:
    """Members that fit no table. before: those that are asked first, where one is enough."""
    patterns = texts(member.get("matcher"))
    if not keeps_something(patterns):
        yield "matcher", f"matcher {list(patterns)} fits no table: TiCDC ignores all of it"
    elif any(texts(other.get("matcher")) == ("*.*",) for other in before):
        yield "matcher", f"matcher {list(patterns)} stands behind one for *.*, which takes every table: move it up"


def keeps_something(patterns: Sequence[str]) -> bool:
    """True if patterns of tables or columns can fit at all: those with `!` only take out."""
    return any(not p.lstrip().startswith(("!", "#")) for p in patterns if p.strip())


# ---- event filters
def _of_event_filter(member: Member) -> Iterator[Found]:
    where = f"the event filter for {', '.join(texts(member.get('matcher'))) or 'no table'}"
    try:
        TableFilter(texts(member.get("matcher")))
    except PatternError as error:
        yield "matcher", f"filter.event-filters: {error}"
    for event in texts(member.get("ignore-event")):
        if event not in _EVENTS:
            yield "ignore-event", f"{where}: ignore-event {event[:60]!r} is no event that TiCDC knows"
    for pattern in texts(member.get("ignore-sql")):
        try:
            re.compile(pattern)
        except re.error:
            yield "ignore-sql", f"{where}: ignore-sql {pattern[:60]!r} is no regular expression"
    for name in EXPRESSIONS:
        text = text_of(member, name)
        if text.strip() and _is_cut(text):
            stops = "classic TiCDC refuses the changefeed, new TiCDC stops at the first such row"
            yield name, f"{where}: {name} {text[:60]!r} is no SQL expression: {stops}"


def _is_cut(text: str) -> bool:
    """True if an expression ends too early, or is no SQL at all. What we do not read otherwise, TiDB may."""
    try:
        cursor = Cursor(text, TYPED)
    except DdlError:
        return True
    try:
        expression(cursor)
    except (DdlError, RecursionError):
        return cursor.at == len(cursor.all) - 1
    return cursor.upper == ")"


# ---- dispatchers
def _of_dispatcher(member: Member, protocol: str) -> Iterator[Found]:
    where = f"the dispatcher for {', '.join(texts(member.get('matcher'))) or 'no table'}"
    if text_of(member, "partition") and text_of(member, "dispatcher"):
        yield "dispatcher", f"{where} has both `dispatcher` and `partition`"
    topic = text_of(member, "topic")
    wrong = settings.expression_error(topic, protocol in ("avro", "debezium-avro"))
    if wrong:
        yield "topic", f"{where}: topic {topic[:80]!r}: {wrong}"
    for name in ("target-schema", "target-table"):
        text = text_of(member, name)
        if not _ROUTE.fullmatch(text):
            yield name, f"{where}: {name} {text[:60]!r} may hold {{schema}} and {{table}} only besides letters"


def _passed_over(member: Member) -> Iterator[Found]:
    where = f"the dispatcher for {', '.join(texts(member.get('matcher'))) or 'no table'}"
    name = "partition" if text_of(member, "partition") else "dispatcher"
    rule = text_of(member, name).lower()
    if rule not in settings.PARTITION_RULES:
        yield name, f"{where}: partition {rule!r} is not known, TiCDC uses `table`"
    if rule == "columns" and not member.get("columns"):
        yield "columns", f"{where}: partition `columns` names no columns, so all rows of a table go to one partition"
    for key, of in _OF_PARTITION.items():
        if member.get(key) and rule != of and not (key == "index" and rule == "rowid"):
            yield key, f"{where}: {key} is for partition `{of}` only: TiCDC ignores it"
