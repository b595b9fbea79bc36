"""A changefeed's settings, as TiCDC would take them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from ticdc_bridge.schemas.formats.format_table import FORMATS, FROM_TICDC
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import avro_subject, topic_label
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.table_filter import TableFilter

Form = Literal["text", "flag", "number", "real", "texts", "numbers", "duration"]
_INT16, _INT32 = 32_767, 2_147_483_647


@dataclass(frozen=True, slots=True)
class Key:
    """A setting. path: where it stands in the TOML file; uri: its name in the sink URI, "" where it has none.

    default: TiCDC's. choices: the only values it takes, () for any. protocols: those with which `choices` are looked
    at, () for all; `alone`: with any other protocol, another value than the default is refused. needs_text: an empty
    text is not "not set". zero_wins: `false` or 0 in the URI replaces what the file says; TiCDC's merge drops such a
    value for all other settings (mergo.WithOverride skips zero values). secret: never shown. least, most: of a number,
    in seconds of a duration. pattern: of a text, described by `words`.
    A "duration" is a number with a unit (10s); the file's own may be nanoseconds, those that the URI has may not.
    """

    path: str
    form: Form = "text"
    uri: str = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    zero_wins: bool = False
    secret: bool = False
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    words: str = ""
    protocols: tuple[str, ...] = ()
    alone: bool = False
    needs_text: bool = False

    @property
    def name(self) -> str:
        """How messages call it: by the URI's name, else by its path."""
        return self.uri or self.path


_SINK, _KAFKA = "sink.", "sink.kafka-config."
_CODEC, _LARGE = _KAFKA + "codec-config.", _KAFKA + "large-message-handle."
_GLUE = _KAFKA + "glue-schema-registry-config."
_MODES = {"decimal": ("precise", "string"), "bigint": ("long", "string")}
_AVRO, _DEBEZIUM = ("avro", "debezium-avro"), ("debezium",)

KEYS: Final[tuple[Key, ...]] = (
    # ---- what rows look like
    Key(_SINK + "protocol", uri="protocol"),
    Key(_SINK + "schema-registry", uri="schema-registry"),
    Key(_CODEC + "enable-tidb-extension", "flag", "enable-tidb-extension", False),
    Key(_CODEC + "max-batch-size", "number", "max-batch-size", 16, least=1),
    Key(_CODEC + "avro-enable-watermark", "flag", "avro-enable-watermark", False),
    Key(_CODEC + "avro-decimal-handling-mode", "text", "avro-decimal-handling-mode", "precise", _MODES["decimal"],
        protocols=_AVRO),
    Key(_CODEC + "avro-bigint-unsigned-handling-mode", "text", "avro-bigint-unsigned-handling-mode", "long",
        _MODES["bigint"], protocols=_AVRO),
    Key(_CODEC + "avro-include-before-value", "flag", "avro-include-before-value", False),
    Key(_CODEC + "encoding-format", "text", "encoding-format", "json", ("json", "avro"),
        protocols=("simple",)),
    Key(_CODEC + "output-row-key", "flag", "output-row-key", False),
    Key(_SINK + "only-output-updated-columns", "flag", "only-output-updated-columns", False),
    Key(_SINK + "delete-only-output-handle-key-columns", "flag", default=False),
    Key(_SINK + "content-compatible", "flag", "content-compatible", False),
    Key(_SINK + "debezium-disable-schema", "flag", "debezium-disable-schema", False),
    Key(_SINK + "debezium.output-old-value", "flag", default=True),
    Key(_SINK + "debezium.include-start-ts", "flag", "debezium-include-start-ts", False, zero_wins=True,
        protocols=_DEBEZIUM, alone=True),
    Key(_SINK + "debezium.decimal-handling-mode", "text", "debezium-decimal-handling-mode", "double",
        ("double", "string"), zero_wins=True, protocols=_DEBEZIUM, alone=True, needs_text=True),
    Key(_SINK + "debezium.bigint-unsigned-handling-mode", "text", "debezium-bigint-unsigned-handling-mode", "long",
        _MODES["bigint"], zero_wins=True, protocols=_DEBEZIUM, alone=True, needs_text=True),
    Key(_SINK + "debezium.binary-handling-mode", "text", "debezium-binary-handling-mode", "base64",
        ("bytes", "base64", "base64-url-safe", "hex"), zero_wins=True, protocols=_DEBEZIUM, alone=True,
        needs_text=True),
    Key(_SINK + "open.output-old-value", "flag", default=True),
    Key(_SINK + "simple.include-start-ts", "flag", "simple-include-start-ts", False, zero_wins=True,
        protocols=("simple",), alone=True),
    Key(_LARGE + "large-message-handle-option", default="none", choices=("none", "claim-check", "handle-key-only")),
    Key(_LARGE + "large-message-handle-compression", default="none", choices=("none", "snappy", "lz4")),
    Key(_LARGE + "claim-check-storage-uri"),
    Key(_LARGE + "claim-check-raw-value", "flag", default=False),
    Key(_KAFKA + "output-raw-change-event", "flag", default=False),
    Key("integrity.integrity-check-level", default="none", choices=("none", "correctness"), needs_text=True),
    Key("integrity.corruption-handle-level", default="warn", choices=("warn", "error"), needs_text=True),
    # ---- which rows there are
    Key("force-replicate", "flag", default=False),
    Key("case-sensitive", "flag", default=False),
    Key("ignore-ineligible-table", "flag", default=False),
    Key("bdr-mode", "flag", default=False),
    Key("enable-active-active", "flag", default=False),
    Key("filter.rules", "texts", default=("*.*",)),
    Key("filter.ignore-txn-start-ts", "numbers", default=()),
    # ---- Kafka
    Key(_KAFKA + "partition-num", "number", "partition-num", least=1, most=_INT32),
    Key(_KAFKA + "replication-factor", "number", "replication-factor", 1, least=1, most=_INT16),
    Key(_KAFKA + "kafka-version", "text", "kafka-version", pattern=r"v?(0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+)",
        words="a version such as 2.4.0", needs_text=True),
    Key(_KAFKA + "max-message-bytes", "number", "max-message-bytes", 10 * 1024 * 1024, least=1),
    Key("sink-uri.max-retry", "number", "max-retry"),  # the file has no such key
    Key(_KAFKA + "compression", "text", "compression", "none"),
    Key(_KAFKA + "kafka-client-id", "text", "kafka-client-id", pattern=r"[A-Za-z0-9._-]+",
        words="letters, digits, '.', '_' and '-'"),
    Key(_KAFKA + "auto-create-topic", "flag", "auto-create-topic", True),
    *(Key(_KAFKA + name, "duration", name, least=0.000000001) for name in (
        "dial-timeout", "write-timeout", "read-timeout",
    )),
    Key(_KAFKA + "required-acks", "number", "required-acks", -1, least=-1, most=1),
    Key(_KAFKA + "sasl-mechanism", uri="sasl-mechanism",
        choices=("plain", "scram-sha-256", "scram-sha-512", "gssapi", "oauthbearer")),
    Key(_KAFKA + "sasl-gssapi-auth-type", uri="sasl-gssapi-auth-type", choices=("user", "keytab")),
    *(Key(_KAFKA + name, uri=name, secret=name.endswith("password")) for name in (
        "sasl-user", "sasl-password", "sasl-gssapi-keytab-path",
        "sasl-gssapi-kerberos-config-path", "sasl-gssapi-service-name", "sasl-gssapi-user", "sasl-gssapi-password",
        "sasl-gssapi-realm",
    )),
    Key(_KAFKA + "sasl-gssapi-disable-pafxfast", "flag", "sasl-gssapi-disable-pafxfast"),
    *(Key(_KAFKA + "sasl-oauth-" + name, secret=name == "client-secret") for name in (
        "client-id", "client-secret", "token-url", "grant-type", "audience",
    )),
    Key(_KAFKA + "sasl-oauth-scopes", "texts"),
    Key(_KAFKA + "enable-tls", "flag", "enable-tls", False),
    Key(_KAFKA + "ca", uri="ca"),
    Key(_KAFKA + "cert", uri="cert"),
    Key(_KAFKA + "key", uri="key", secret=True),
    Key(_KAFKA + "insecure-skip-verify", "flag", "insecure-skip-verify", False),
    *(Key(_GLUE + name, secret=name not in ("registry-name", "region")) for name in (
        "registry-name", "region", "access-key", "secret-access-key", "token",
    )),
    # ---- read, and of no consequence to a row's schema
    Key(_SINK + "transaction-atomicity", uri="transaction-atomicity", choices=("none",)),
    Key(_SINK + "encoder-concurrency", "number", least=0),
    Key(_SINK + "terminator"),
    Key(_SINK + "date-separator"),
    Key(_SINK + "enable-partition-separator", "flag"),
    Key(_SINK + "file-index-digit", "number"),
    Key(_SINK + "enable-kafka-sink-v2", "flag"),
    Key(_SINK + "safe-mode", "flag", "safe-mode"),
    Key(_SINK + "advance-timeout-in-sec", "number", least=0),
    Key(_SINK + "send-bootstrap-interval-in-sec", "number", default=120),
    Key(_SINK + "send-bootstrap-in-msg-count", "number", default=10_000, least=-_INT32, most=_INT32),
    Key(_SINK + "send-bootstrap-to-all-partition", "flag", default=True),
    Key(_SINK + "send-all-bootstrap-at-start", "flag", default=False),
    Key("sql-mode"),
    Key("performance-mode", choices=("throughput", "low-latency")),
    *(Key(name, "duration") for name in ("sync-point-interval", "sync-point-retention")),
    Key("changefeed-error-stuck-duration", "duration", least=1800),
    Key("active-active-progress-interval", "duration", least=0.000000001),
    Key("active-active-sync-stats-interval", "duration", least=0),
    *(Key(name, "flag") for name in ("check-gc-safe-point", "enable-sync-point", "enable-table-monitor")),
    Key("memory-quota", "number", least=0),
    Key("event-collector-batch-count", "number", least=0, most=8192),
    Key("event-collector-batch-bytes", "number", least=0),
    # ---- of other tables, those that TiCDC checks
    *(Key(f"consistent.{name}") for name in ("level", "storage", "compression")),
    *(Key(f"consistent.{name}", "number") for name in (
        "flush-interval", "meta-flush-interval", "event-collector-batch-count",
    )),
    Key("scheduler.enable-table-across-nodes", "flag", default=False),
    *(Key(f"scheduler.{name}", "number") for name in (
        "region-threshold", "region-count-per-span", "write-key-threshold", "scheduling-task-count-per-node",
        "balance-score-threshold",
    )),
    *(Key(f"scheduler.{name}-traffic-percentage", "real") for name in ("min", "max")),
    Key("scheduler.region-count-refresh-interval", "duration", least=0.000000001),
)  # fmt: skip


def _keys(**forms: str) -> dict[str, Form]:
    return {word: cast("Form", form) for form, words in forms.items() for word in words.split()}


KAFKA: Final = ("kafka", "kafka+ssl")

# Tables of the file that say nothing about what a Kafka message holds → the keys that TiCDC knows, new or classic, with
# their forms. Those of KEYS are left out.
OTHER_TABLES: Final[dict[str, dict[str, Form]]] = {
    "mounter": _keys(number="worker-num"),
    "consistent": _keys(
        number="max-log-size encoding-worker-num flush-worker-num flush-concurrency", flag="use-file-backend",
    ),
    "consistent.memory-usage": _keys(number="memory-quota-percentage"),
    "scheduler": _keys(number="region-per-span", flag="enable-splittable-check force-split"),
    "synced-status": _keys(number="synced-check-interval checkpoint-interval"),
    "sink.csv": _keys(
        text="delimiter quote null binary-encoding-method",
        flag="include-commit-ts output-old-value output-handle-key output-field-header",
    ),
    "sink.mysql-config": _keys(
        number="worker-count max-txn-row max-multi-update-row-size max-multi-update-row",
        text="tidb-txn-mode ssl-ca ssl-cert ssl-key time-zone write-timeout read-timeout timeout async-ddl-timeout",
        flag="enable-batch-dml enable-multi-statement enable-cache-prepared-statement",
    ),
    "sink.cloud-storage-config": _keys(
        number="worker-count file-size spool-disk-quota file-expiration-days flush-concurrency",
        text="flush-interval spool-base-dir file-cleanup-cron-spec",
        flag="output-column-id use-table-id-as-path output-raw-change-event",
    ),
}  # fmt: skip
# Tables that another sink than Kafka's looks at.
OTHER_SINKS: Final = ("sink.csv.", "sink.mysql-config.", "sink.cloud-storage-config.")
# Tables that are taken as they are.
FREE: Final = ("sink.pulsar-config", "sink.iceberg-config", "sink.outbox")

# Lists of tables in the file → the keys that one of their members has, with their forms.
LISTS: Final[dict[str, dict[str, Form]]] = {
    "sink.dispatchers": _keys(
        texts="matcher columns", text="dispatcher partition index topic target-schema target-table",
    ),
    "sink.column-selectors": _keys(texts="matcher columns"),
    "filter.event-filters": _keys(
        texts="matcher ignore-event ignore-sql ignore-update-only-columns",
        text="ignore-insert-value-expr ignore-update-new-value-expr ignore-update-old-value-expr "
        "ignore-delete-value-expr",
    ),
}  # fmt: skip
# Keys that TiCDC had once → what to know instead.
GONE: Final = {"enable-old-value": "old values are always there since 7.x: leave it out"}
# Taken from the URI by other parts of TiCDC.
OTHER_URI: Final = ("namespace", "keyspace", "time-zone", "timezone", "cluster-id", "version")

BY_PATH: Final = {key.path: key for key in KEYS}
BY_URI: Final = {key.uri: key for key in KEYS if key.uri}

# The protocols by all the names that TiCDC reads them by → the name used here: the format's, where it is one of ours.
PROTOCOLS: Final = {
    **{protocol: name for name, row in FORMATS.items() for protocol in row.protocols},
    **{protocol: protocol for protocol in ("canal", "maxwell", "csv", "outbox-json")},
}
WITH_REGISTRY: Final = tuple(name for name in FROM_TICDC if FORMATS[name].needs_schemas)

# Names of one word are words of plain sentences, too.
_NAMES: Final = {key.path.rpartition(".")[2]: key for key in KEYS if "-" in key.path.rpartition(".")[2]} | {
    key.uri: key for key in KEYS if "-" in key.uri
}
_NAME = re.compile(r"[a-z][\w-]*")


def line_of(key: Key, origins: Mapping[str, str]) -> str:
    """origins: settings by path → "sink-uri", "config", or in words where else they stand. A setting that is not
    given: where the file would have it."""
    path = origins.get(key.path, "config")
    return {"sink-uri": line_in_uri(key.uri), "config": line_in_file(key.path)}.get(path, path)


def line_in_uri(name: str) -> str:
    return f"{name}=… of the sink URI"


def line_in_file(path: str) -> str:
    """path: of the setting; its member of a list of tables is `sink.dispatchers.2.topic`."""
    table, _, name = path.rpartition(".")
    names = table.rpartition(".")
    if names[2].isdecimal():
        return f"{name} = … in [[{names[0]}]] number {names[2]} of the file"
    return f"{name} = … under [{table}] of the file" if table else f"{name} = … at the top of the file"


def fix_of(names: Iterable[str], origins: Mapping[str, str]) -> str:
    """What to change of settings that do not go together. names: of the URI, or paths."""
    keys = [BY_URI.get(name) or BY_PATH[name] for name in names]
    lines = [line_of(key, origins) for key in keys if key.path in origins]
    missing = [line_in_file(key.path) for key in keys if key.path not in origins]
    pieces = [f"change {' and '.join(lines)}" if lines else "", f"add {' and '.join(missing)}" if missing else ""]
    text = ", or ".join(piece for piece in pieces if piece)
    return text[:1].upper() + text[1:]


def lines_named(text: str, origins: Mapping[str, str]) -> list[str]:
    """Where the settings that a text names stand now, as far as they are given."""
    keys = [_NAMES[name] for name in _NAME.findall(text) if name in _NAMES]
    return [line_of(key, origins) for key in dict.fromkeys(keys) if key.path in origins]


MAX_TOPIC: Final = 249
_PLACEHOLDER = re.compile(r"\{(schema|table)\}")
_PLAIN = re.compile(r"[A-Za-z0-9._\-]+")
PARTITION_RULES: Final = ("", "default", "table", "ts", "index-value", "rowid", "columns")


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """One member of `[[sink.dispatchers]]`; topic "" is the topic of the sink URI."""

    tables: TableFilter
    matcher: tuple[str, ...]
    topic: str = ""
    partition: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()
    target_schema: str = ""
    target_table: str = ""

    @property
    def routes(self) -> bool:
        """True if the table has another name downstream."""
        return bool(self.target_schema or self.target_table)


def expression_error(rule: str, avro: bool) -> str:
    """Why TiCDC refuses a topic rule; "" when it takes it. A rule with placeholders has, for Avro, both names."""
    if rule == "" or _PLAIN.fullmatch(rule):
        return ""  # the name of one topic
    rest = _PLACEHOLDER.sub("", rule)
    if "{" in rest or "}" in rest:
        return "it may hold {schema} and {table} only"
    if topic_label(rest) != rest:
        return "letters, digits, '.', '_' and '-' are what a topic's name may have"
    names = _PLACEHOLDER.findall(rule)
    if avro and set(names) != {"schema", "table"}:
        return "with Avro it must hold {schema} and {table}"
    return "" if names in (["schema"], ["table"], ["schema", "table"]) else "{schema} comes before {table}, each once"


def topic_name(rule: str, db: str, table: str) -> str:
    """A rule with its names filled in: a character that a topic can't have becomes `_`, 249 bytes are kept."""
    values = {"schema": topic_label(db), "table": topic_label(table)}
    name = _PLACEHOLDER.sub(lambda m: values.get(m[1], m[0]), rule)[:MAX_TOPIC]
    return {".": "_", "..": "__"}.get(name, name)


def subject_names(protocol: str, topic: str) -> tuple[str, str]:
    """Key and value subject of a topic."""
    if protocol == "avro":
        return avro_subject(topic, "key"), avro_subject(topic, "value")
    return f"{topic}-key", f"{topic}-value"


Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about how the settings are written. error: TiCDC refuses them. fix: what to change, if known."""

    severity: Severity
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    """One member of `[[sink.column-selectors]]`: of these tables' columns, only those of the patterns are sent."""

    tables: TableFilter
    columns: TableFilter

    @classmethod
    def of(cls, tables: TableFilter, columns: tuple[str, ...]) -> ColumnSelector:
        """Raises PatternError."""
        return cls(tables, TableFilter(tuple("!c." + p[1:] if p.startswith("!") else "c." + p for p in columns)))

    def keeps(self, column: str) -> bool:
        """The last pattern that fits decides."""
        return self.columns.matches("c", column)


@dataclass(frozen=True, slots=True)
class ChangefeedSettings:
    """A changefeed's settings.

    values: by the path of the file, as far as anything is set. scheme, topic: of the sink URI. protocol: a name of
    `PROTOCOLS`' right side; "" where none is given. origins: as `line_of` has them. keyspace: TiCDC's name of the
    namespace that changefeeds are in. time_zone: of TiCDC's server, in which Avro and Open write TIMESTAMP; "" where
    not said. ticdc_version: of TiCDC, which narrows its known faults; "" for any. accepted: ids of warnings that the
    service does not show.
    """

    scheme: str = ""
    hosts: tuple[str, ...] = ()
    topic: str = ""
    protocol: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    dispatchers: tuple[Dispatcher, ...] = ()
    selectors: tuple[ColumnSelector, ...] = ()
    event_filters: tuple[Mapping[str, Any], ...] = ()
    tables: TableFilter = field(default_factory=lambda: TableFilter(("*.*",)))
    keyspace: str = "default"
    time_zone: str = ""
    ticdc_version: str = ""
    problems: tuple[Problem, ...] = ()
    accepted: frozenset[str] = frozenset()

    def get(self, name: str) -> Any:
        """A setting by its URI name or its path: what is set, else TiCDC's default."""
        key = BY_URI.get(name) or BY_PATH[name]
        return self.values.get(key.path, key.default)

    def is_set(self, name: str) -> bool:
        return (BY_URI.get(name) or BY_PATH[name]).path in self.origins

    @property
    def on_kafka(self) -> bool:
        return self.scheme in KAFKA

    @property
    def uses_registry(self) -> bool:
        return self.protocol in WITH_REGISTRY

    @property
    def extension(self) -> bool:
        return bool(self.get("enable-tidb-extension"))

    @property
    def uses_glue(self) -> bool:
        return any(path.startswith("sink.kafka-config.glue-schema-registry-config.") for path in self.origins)

    @property
    def checksums(self) -> bool:
        return bool(self.get("integrity.integrity-check-level") == "correctness")

    def replicates(self, table: TableId) -> bool:
        """True if the changefeed's filter lets the table through."""
        return self.tables.matches(table.db, table.table)

    def dispatcher(self, table: TableId) -> Dispatcher | None:
        """The first rule for the table; None means the topic of the sink URI and the partition rule `default`."""
        return next((d for d in self.dispatchers if d.tables.matches(table.db, table.table)), None)

    def topic_of(self, table: TableId) -> str:
        """The table's topic; "" where the settings don't tell."""
        rule = self.dispatcher(table)
        return topic_name(rule.topic, table.db, table.table) if rule and rule.topic else self.topic

    def subjects_of(self, table: TableId) -> tuple[str, str] | None:
        """Key and value subject of the table; None without a registry, or where the topic is not known."""
        topic = self.topic_of(table)
        return subject_names(self.protocol, topic) if topic and self.uses_registry else None

    def sent_table(self, table: Table) -> Table:
        """The table with the columns that rows carry: column selectors leave some out."""
        selector = next((s for s in self.selectors if s.tables.matches(table.id.db, table.id.table)), None)
        if selector is None:
            return table
        return replace(table, columns=tuple(c for c in table.columns if selector.keeps(c.name)))

    def options(self) -> Options:
        """The options by which schemas.formats writes this changefeed's schemas."""
        return Options(
            enable_tidb_extension=self.extension,
            avro_decimal_handling_mode=str(self.get("avro-decimal-handling-mode")),
            avro_bigint_unsigned_handling_mode=str(self.get("avro-bigint-unsigned-handling-mode")),
            avro_include_before_value=bool(self.get("avro-include-before-value")) and self.protocol == "avro",
            avro_enable_watermark=bool(self.get("avro-enable-watermark")),
            debezium_disable_schema=bool(self.get("debezium-disable-schema")),
            debezium_include_start_ts=bool(self.get("debezium-include-start-ts")),
            enable_row_checksum=self.checksums and self.protocol == "avro",
            keyspace=self.keyspace,
        )

    def require_valid(self) -> ChangefeedSettings:
        """Itself, if TiCDC would take it. SetupError USAGE with everything that it would refuse."""
        errors = [p.text for p in self.problems if p.severity == "error"]
        if errors:
            raise SetupError("USAGE", details="the changefeed's settings: " + "; ".join(errors))
        return self


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one text; anything else is none."""
    if isinstance(value, str):
        return (value,)
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, Sequence) else ()


def text_of(member: Mapping[str, Any], name: str) -> str:
    """A text of a table; "" where it has none."""
    value = member.get(name, "")
    return value if isinstance(value, str) else ""
