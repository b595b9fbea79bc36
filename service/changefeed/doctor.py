"""What a changefeed's settings lose or break: its rules, one row each, and the findings.

error: TiCDC refuses or stops, or values change unseen. warning: something is lost, or readers must know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ticdc_bridge.schemas.formats.format_table import FROM_TICDC
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed import settings
from ticdc_bridge.service.changefeed.known_faults import faults
from ticdc_bridge.service.changefeed.setting_checks import EXPRESSIONS, keeps_something
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, Severity, subject_names, topic_name

_WILD = re.compile(r"[*?\[/]")
_JOINED = re.compile(r"\{schema\}_+\{table\}")  # both names may hold `_` themselves


@dataclass(frozen=True, slots=True)
class DoctorRule:
    """when: gives True, or what the rule fits (filled in for {what}); False or [] where it does not fit."""

    id: str
    severity: Severity
    when: Callable[[DoctorInput], bool | list[str]]
    text: str
    fix: str
    source: str


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """A subject as the registry has it. level and mode are those in force."""

    name: str
    level: str
    mode: str = "READWRITE"


@dataclass(frozen=True)
class DoctorInput:
    """subjects: those that rows may be under; None: no registry was asked. tables: names of known tables."""

    feed: ChangefeedSettings
    subjects: tuple[SubjectFacts, ...] | None = None
    tables: tuple[TableId, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def uses(self, *protocols: str) -> bool:
        return self.feed.protocol in protocols

    @cached_property
    def registry(self) -> SplitResult | None:
        url: str | None = self.feed.get("schema-registry")
        if not url:
            return None
        try:
            return urlsplit(url)
        except ValueError:
            return urlsplit("")

    # ---- topics
    def rules(self) -> Iterator[settings.Dispatcher | None]:
        """The dispatchers; None at the end stands for the sink URI's topic, unless a rule takes every table before."""
        for rule in self.feed.dispatchers:
            yield rule
            if "*.*" in rule.matcher and len(rule.matcher) == 1:
                return
        yield None

    def shared_topics(self) -> list[str]:
        """Topics that take the rows of several tables."""
        topics = []
        for rule in self.rules():
            topic = rule.topic if rule is not None and rule.topic else self.feed.topic
            patterns = rule.matcher if rule is not None else self.feed.get("filter.rules")
            if "{table}" not in topic and is_many(patterns) and is_many(self.feed.get("filter.rules")):
                topics.append(topic or "of the sink URI")
        return list(dict.fromkeys(topics))

    def collisions(self) -> list[str]:
        """Known tables that share a subject though their rule names the table."""
        by_subject: dict[str, list[TableId]] = {}
        for table in self.tables:
            rule = self.feed.dispatcher(table)
            if self.feed.replicates(table) and rule is not None and "{table}" in rule.topic:
                subject = subject_names(self.feed.protocol, topic_name(rule.topic, table.db, table.table))[1]
                by_subject.setdefault(subject, []).append(table)
        return [f"{', '.join(map(str, t[:3]))} in {s}" for s, t in by_subject.items() if len(t) > 1]

    def partitions(self, *rules: str) -> list[str]:
        """What the dispatchers with these partition rules are for."""
        return [", ".join(d.matcher) or "no table" for d in self.feed.dispatchers if d.partition in rules]


def is_many(patterns: Iterable[str]) -> bool:
    """True if patterns can fit more than one table."""
    positive = [p for p in patterns if not p.startswith("!")]
    return len(positive) > 1 or any(_WILD.search(p) for p in positive)


def topic_patterns(feed: ChangefeedSettings) -> re.Pattern[str]:
    """What subjects of the changefeed's topics look like."""
    rules = filter(None, [feed.topic, *(d.topic for d in feed.dispatchers)])
    pieces = [re.split(r"(\{[^}]*\})", rule) for rule in rules]
    words = ["".join(".*" if piece.startswith("{") else re.escape(piece) for piece in rule) for rule in pieces]
    either = "|".join(words).replace("\\.", "[._]") or ".*"
    return re.compile(f"(?:{either})-(?:key|value)")


AVRO: Final = ("avro", "debezium-avro")
_AVRO_FILE = "ticdc pkg/sink/codec/avro"
_DEBEZIUM_FILE = "ticdc pkg/sink/codec/debezium"
_OPEN_FILE = "ticdc pkg/sink/codec/open"
_CODEC = "ticdc pkg/sink/codec/common/config.go"
_LARGE_FILE = "ticdc pkg/config/large_message.go"
_ROUTER = "ticdc downstreamadapter/sink/eventrouter"
_EXTENSION: Final = "sink.kafka-config.codec-config.enable-tidb-extension"
_KAFKA: Final = "ticdc pkg/sink/kafka/options.go"
_FILTER: Final = "ticdc pkg/filter"
_LARGE_MESSAGES: Final = "sink.kafka-config.large-message-handle."
_ROW_KEY: Final = "sink.kafka-config.codec-config.output-row-key"
_OF_ROWS: Final = ("all dml", "insert", "update", "delete")
_PORT: Final = re.compile(r":\d+\Z")
_SYSTEM: Final = re.compile(
    r"`?(?:information_schema|performance_schema|metrics_schema|inspection_schema|mysql|sys|tidb_cdc)`?\..*",
    re.IGNORECASE,
)
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def _handles_large(p: DoctorInput, option: str) -> bool:
    return bool(p.feed.get(_LARGE_MESSAGES + "large-message-handle-option") == option)


def _credentials(p: DoctorInput) -> bool:
    return p.registry is not None and "@" in p.registry.netloc


def _subjects_of_levels(p: DoctorInput, *levels: str) -> list[str]:
    return [s.name for s in p.subjects or () if s.level.startswith(levels)]


def _silent_ddl(p: DoctorInput) -> list[str]:
    words = (
        "all ddl", "create", "drop", "add", "alter", "modify", "rename", "truncate", "recover", "rebase", "set default",
        "exchange", "reorganize", "remove", "multi",
    )  # fmt: skip
    events = list[str]()
    for filter_ in p.feed.event_filters:
        ignored = filter_.get("ignore-event") or ()
        events += [e for e in ignored if isinstance(e, str) and e.lower().startswith(words)]
        events += ["ignore-sql"] if filter_.get("ignore-sql") else []
    return events


def _kept_back(p: DoctorInput) -> list[str]:
    found = ["ignore-txn-start-ts"] if p.feed.get("filter.ignore-txn-start-ts") else []
    for filter_ in p.feed.event_filters:
        found += [event for event in settings.texts(filter_.get("ignore-event")) if event in _OF_ROWS]
        found += [name for name in (*EXPRESSIONS, "ignore-update-only-columns") if filter_.get(name)]
    return list(dict.fromkeys(found))


RULES: Final = (
    # ---- values
    DoctorRule("decimal-double", "error",
         lambda p: p.uses("debezium") and p.feed.get("debezium-decimal-handling-mode") == "double",
         "DECIMAL is written as a JSON double: of more than 15 digits the last are lost before anyone can read them",
         "Use avro or debezium-avro; or debezium-decimal-handling-mode=string where your TiCDC has it (2026-09 on)",
         "docs/reference.md"),
    DoctorRule("bigint-unsigned-long", "warning",
         lambda p: p.uses("avro") and p.feed.get("avro-bigint-unsigned-handling-mode") == "long",
         "BIGINT UNSIGNED above 2^63-1 is written as a negative number: only a reader that knows the column's type "
         "puts it right",
         "Set avro-bigint-unsigned-handling-mode=string before the first registration: changing it later "
         "breaks compatibility once", _AVRO_FILE),
    DoctorRule("bigint-unsigned-stops", "error",
         lambda p: p.uses("debezium-avro") and p.feed.get("avro-bigint-unsigned-handling-mode") == "long",
         "BIGINT UNSIGNED above 2^63-1 is an encoding error: the changefeed stops at the row",
         "Set avro-bigint-unsigned-handling-mode=string", _DEBEZIUM_FILE),
    DoctorRule("bigint-unsigned-debezium", "warning",
         lambda p: p.uses("debezium") and p.feed.get("debezium-bigint-unsigned-handling-mode") == "long",
         "BIGINT UNSIGNED above 2^63-1 is written as a negative number",
         "Give readers the table (--ddl); or debezium-bigint-unsigned-handling-mode=string where your TiCDC has it",
         _DEBEZIUM_FILE),
    DoctorRule("decimal-string", "info",
         lambda p: p.uses(*AVRO) and p.feed.get("avro-decimal-handling-mode") == "string",
         "DECIMAL is text: exact, but the schema has no precision and scale any more",
         "Give readers that need a DECIMAL type the table (--ddl or --history)", "docs/reference.md"),
    DoctorRule("null-as-default", "warning", lambda p: p.uses("debezium", "debezium-avro"),
         "A NULL in a column that has a default is written as the default: the two can't be distinguished",
         "Use avro or open; or have no defaults on nullable columns. DATE and TIME columns with a default even stop "
         "the encoder at a NULL", _DEBEZIUM_FILE),
    DoctorRule("virtual-stops", "warning", lambda p: p.uses("debezium", "debezium-avro"),
         "A virtual generated column is listed twice in the schema: debezium-avro can't write such a table, Kafka "
         "Connect can't read it",
         "Leave such columns out with a column selector; STORED is possible in CREATE TABLE only", _DEBEZIUM_FILE),
    DoctorRule("zero-dates", "info", lambda p: p.uses("debezium", "debezium-avro"),
         "Zero and partial dates are written as NULL or as 1970-01-01, years below 100 move",
         "Use avro or open where such dates occur", "docs/reference.md"),
    DoctorRule("timestamp-zone", "warning",
         lambda p: p.uses("avro", "open", "craft", "canal-json") and not p.feed.time_zone,
         "TIMESTAMP is text in the time zone of TiCDC's server, and no message says which",
         "Write the zone down and give it to every reader (--time-zone); keep all TiCDC servers in one zone",
         _AVRO_FILE),
    DoctorRule("no-types", "warning", lambda p: p.uses("open", "craft"),
         "Columns come as type codes: DECIMAL has no precision, TIMESTAMP no fraction, ENUM and SET are numbers",
         "Give readers the tables (--ddl, --ddl stream or --history)", _OPEN_FILE),
    DoctorRule("no-schema", "warning",
         lambda p: p.uses("debezium") and bool(p.feed.get("debezium-disable-schema")),
         "Messages carry no schema: numbers, dates and binary values are bare JSON",
         "Give readers the tables (--ddl), or leave debezium-disable-schema off", _DEBEZIUM_FILE),
    DoctorRule("craft-float", "warning", lambda p: p.uses("craft"),
         "Classic TiCDC damages FLOAT values in Craft, and new TiCDC has no Craft at all (it starts no such "
         "changefeed)",
         "Move to open or avro: `transcode --from craft` reads what is there", "tiflow pkg/sink/codec/craft"),
    DoctorRule("canal-compatible", "warning",
         lambda p: p.uses("canal-json") and bool(p.feed.get("content-compatible")),
         "content-compatible: `old` has the changed columns only, and types are written as Alibaba's Canal does",
         "Leave content-compatible off unless a Canal client needs it", "ticdc pkg/sink/codec/canal"),
    # ---- rows and keys
    DoctorRule("force-replicate-refused", "error",
         lambda p: p.uses(*AVRO) and bool(p.feed.get("force-replicate")),
         "force-replicate is refused with Avro", "Leave force-replicate off, or use another protocol", _CODEC),
    DoctorRule("force-replicate-deletes", "error",
         lambda p: bool(p.feed.get("force-replicate") and p.feed.get("sink.delete-only-output-handle-key-columns")),
         "force-replicate is refused with delete-only-output-handle-key-columns", "Turn one of them off", _CODEC),
    DoctorRule("force-replicate", "warning",
         lambda p: bool(p.feed.get("force-replicate")) and not p.uses(*AVRO),
         "force-replicate sends tables without a handle key: their rows can't be distinguished, so repeats after a "
         "restart become duplicates", "Give each table a primary key, or a unique key over NOT NULL columns", _CODEC),
    DoctorRule("no-primary-key", "info",
         lambda p: p.uses("avro") and not p.feed.get("avro-include-before-value"),
         "A table with a unique key but no PRIMARY KEY has no message key: its deletes are records without key and "
         "value",
         "Give such tables a primary key, or set avro-include-before-value=true where your TiCDC has it",
         _AVRO_FILE),
    DoctorRule("tombstones", "info",
         lambda p: p.uses("avro") and not p.feed.get("avro-include-before-value"),
         "A delete is a key without value: its old values, commit_ts and op are not in the message",
         "avro-include-before-value=true, where your TiCDC has it", _AVRO_FILE),
    DoctorRule("no-extension", "warning",
         lambda p: p.uses("avro", "canal-json") and not p.feed.extension,
         "Without the TiDB extension rows have no commit_ts (Avro: nor an op): they can't be put in order, "
         "deduplicated or matched with a table version", "Set enable-tidb-extension=true", _AVRO_FILE),
    DoctorRule("no-watermark", "warning",
         lambda p: p.uses("debezium", "canal-json") and not p.feed.extension,
         "Without the TiDB extension no watermarks are sent: no history and no reader knows up to which time it is "
         "complete", "Set enable-tidb-extension=true", _DEBEZIUM_FILE),
    DoctorRule("no-ddl", "info", lambda p: p.uses(*AVRO),
         "Avro sends neither DDL nor watermarks: a schema change shows at the next row, and a table history can't be "
         "tracked from it", "Run a second changefeed of the same tables with open or simple for `track`, and check DDL "
         "with `check-ddl`", _AVRO_FILE),
    DoctorRule("avro-watermark", "error",
         lambda p: p.uses(*AVRO) and bool(p.feed.get("avro-enable-watermark")),
         "avro-enable-watermark is TiCDC's own test switch: its DDL and watermark messages have no schema id, and "
         "every Confluent deserializer fails at them (without the extension it does nothing)", "Leave it off",
         _AVRO_FILE),
    DoctorRule("before-missing", "warning",
         lambda p: (p.uses("open") and not p.feed.get("sink.open.output-old-value"))
         or (p.uses("debezium", "debezium-avro") and not p.feed.get("sink.debezium.output-old-value")),
         "Old values are off: inserts look like updates, and consumers that need `before` (Flink) fail",
         "Set output-old-value=true", _DEBEZIUM_FILE),
    DoctorRule("only-updated", "warning",
         lambda p: bool(p.feed.get("only-output-updated-columns")) and p.uses("open", "canal-json"),
         "Old values have the changed columns only; Open writes a column that became NULL without its name",
         "Leave only-output-updated-columns off", _OPEN_FILE),
    DoctorRule("delete-keys-only", "warning",
         lambda p: bool(p.feed.get("sink.delete-only-output-handle-key-columns")),
         "Deletes carry the handle key only: old values can't be kept downstream",
         "Leave delete-only-output-handle-key-columns off where targets need the old row", _OPEN_FILE),
    DoctorRule("raw-changes", "warning",
         lambda p: bool(p.feed.get("sink.kafka-config.output-raw-change-event")),
         "Updates of a primary or unique key are not split: under the new key nothing says that the old one is gone, "
         "unless old values are read", "Leave output-raw-change-event off", "ticdc pkg/eventservice/event_scanner.go"),
    DoctorRule("column-selectors", "warning", lambda p: bool(p.feed.selectors),
         "Column selectors leave columns out: rows are not the table's, and row checksums can't be verified",
         "Be sure that every key column is kept", "ticdc pkg/sink/columnselector"),
    DoctorRule("event-filters", "warning", _silent_ddl,
         "Event filters keep DDL back ({what}): the rows follow it all the same, and a table history misses it",
         "Let DDL through in the changefeed that `track` reads", "ticdc pkg/config/filter.go"),
    DoctorRule("bdr", "warning", lambda p: bool(p.feed.get("bdr-mode")),
         "With bdr-mode DDL of clusters in a BDR role is not sent: a table history misses it",
         "Give `track` snapshots after each DDL", "ticdc pkg/config/replica_config.go"),
    DoctorRule("routing", "warning",
         lambda p: [", ".join(d.matcher) for d in p.feed.dispatchers if d.routes],
         "target-schema and target-table give tables another name downstream ({what}): table definitions must have it "
         "too",
         "Give readers definitions under the new names", "ticdc pkg/config/sink.go"),
    DoctorRule("case-sensitive", "info", lambda p: bool(p.feed.get("case-sensitive")),
         "case-sensitive: filters and dispatchers fit names with exactly these letters; TiDB's own names don't tell "
         "cases apart", "Write patterns as the tables are named", _ROUTER),
    # ---- topics, partitions, sizes
    DoctorRule("one-topic-many-tables", "error", lambda p: p.shared_topics() if p.uses(*AVRO) else [],
         "Topic {what} takes several tables. Avro's subjects are named after the topic, so all of them share one "
         "subject: the second table's schema is refused, and the changefeed stops",
         "Give each table a topic: a dispatcher with matcher ['*.*'] and topic 'tidb_{schema}_{table}'",
         _AVRO_FILE),
    DoctorRule("topic-ambiguous", "info",
         lambda p: [d.topic for d in p.feed.dispatchers if p.uses(*AVRO) and _JOINED.search(d.topic)],
         "In {what} the tables `a_b`.`c` and `a`.`b_c` share a topic, and so a subject; characters that a topic "
         "can't have become `_` as well", "Put a `-` between the names", _ROUTER),
    DoctorRule("topic-collision", "error", lambda p: p.collisions() if p.uses(*AVRO) else [],
         "Different tables share a subject: {what}", "Rename one, or give it a dispatcher of its own", _ROUTER),
    DoctorRule("partition-ts", "warning", lambda p: p.partitions("ts"),
         "Partition rule `ts` ({what}) spreads the rows of one key over all partitions: their order is lost",
         "Use index-value or table", _ROUTER),
    DoctorRule("partition-columns", "warning", lambda p: p.partitions("columns"),
         "Partition rule `columns` ({what}): a row whose columns change moves to another partition, where its order "
         "to the earlier rows is lost", "Use columns of the key that never change, or index-value", _ROUTER),
    DoctorRule("partition-index", "info",
         lambda p: [", ".join(d.matcher) for d in p.feed.dispatchers if d.partition == "index-value" and d.index],
         "index-value by a named index ({what}): the index must be unique and exist in each of the tables, or the "
         "changefeed does not start", "Leave `index` out to use the handle key", _ROUTER),
    DoctorRule("partition-rowid", "warning", lambda p: p.partitions("rowid"),
         "Partition rule `rowid` is read as `index-value` ({what})", "Write index-value", _ROUTER),
    DoctorRule("topics-by-hand", "warning",
         lambda p: any("{" in d.topic for d in p.feed.dispatchers) and p.feed.get("auto-create-topic") is False,
         "Topics are named after tables, and none is made by itself: the changefeed stops at the first row of a new "
         "table",
         "Make the topic before each CREATE TABLE, or leave auto-create-topic on", "ticdc pkg/sink/kafka/options.go"),
    DoctorRule("handle-key-only", "warning", lambda p: _handles_large(p, "handle-key-only"),
         "Rows over max-message-bytes come as their key only: the values must be read from TiDB",
         "Use claim-check, or a larger max-message-bytes; our jobs put such rows into the dead letters with their key",
         _OPEN_FILE),
    DoctorRule("claim-check", "warning", lambda p: _handles_large(p, "claim-check"),
         "Rows over max-message-bytes are in files: readers need the storage",
         "Give readers a copy (--claim-check-dir), and keep the files as long as the topic", _OPEN_FILE),
    DoctorRule("claim-check-nowhere", "error",
         lambda p: _handles_large(p, "claim-check")
         and not p.feed.get("sink.kafka-config.large-message-handle.claim-check-storage-uri"),
         "claim-check has no claim-check-storage-uri: TiCDC refuses it", "Set claim-check-storage-uri", _LARGE_FILE),
    DoctorRule("large-refused", "error",
         lambda p: p.uses("avro", "debezium", "debezium-avro", "craft") and not _handles_large(p, "none"),
         "large-message-handle-option works with open, simple and canal-json only: TiCDC refuses it",
         "Leave it at none, with a max-message-bytes that holds the largest row", _LARGE_FILE),
    DoctorRule("large-canal", "error",
         # TiCDC asks the sink URI alone whether the extension is on, when it checks this.
         lambda p: p.uses("canal-json") and not _handles_large(p, "none") and not (
             p.feed.extension and (not p.feed.scheme or p.feed.origins.get(_EXTENSION) == "sink-uri")),
         "large-message-handle-option with canal-json needs the TiDB extension, and TiCDC looks for it in the sink URI "
         "only: it refuses the changefeed",
         "Add enable-tidb-extension=true to the sink URI, even where the file has it", "ticdc pkg/config/sink.go"),
    DoctorRule("large-compression", "warning",
         lambda p: p.feed.get(_LARGE_MESSAGES + "large-message-handle-compression") not in ("none", "", None),
         "large-message-handle-compression compresses every message: readers must undo it",
         "Our readers do; for others use Kafka's own `compression`", _OPEN_FILE),
    DoctorRule("compression-unknown", "warning",
         lambda p: [c] if (c := str(p.feed.get("compression")).strip().lower()) not in _COMPRESSIONS else [],
         "TiCDC knows no compression {what}: it compresses nothing, and says so in its log only",
         f"Set compression to one of {', '.join(_COMPRESSIONS)}", "ticdc pkg/sink/kafka/sarama_config.go"),
    DoctorRule("small-messages", "warning",
         lambda p: p.feed.is_set("max-message-bytes") and p.feed.get("max-message-bytes") < 1 << 20
         and _handles_large(p, "none"),
         "max-message-bytes is below 1 MiB and large rows are not handled: the changefeed stops at a larger row",
         "Raise max-message-bytes (and the topic's max.message.bytes), or use claim-check", _AVRO_FILE),
    DoctorRule("acks", "error", lambda p: p.feed.get("required-acks") in (0, 1),
         "required-acks below `all`: rows that the broker has taken can vanish with it", "Set required-acks=-1",
         "ticdc pkg/sink/kafka/options.go"),
    # ---- the registry
    DoctorRule("registry-missing", "warning",
         lambda p: p.uses(*AVRO) and p.registry is None and not p.feed.uses_glue,
         "No schema registry is among the settings. It may be given to `cdc cli changefeed create --schema-registry`; "
         "without any TiCDC refuses the changefeed",
         "Give --schema-registry http://HOST:8081 here as well (or schema-registry = … under [sink] of the file)",
         _CODEC),
    DoctorRule("registry-twice", "error", lambda p: p.registry is not None and p.feed.uses_glue,
         "Both schema-registry and glue-schema-registry-config are given: TiCDC refuses it",
         "Take out one of the two", _CODEC),
    DoctorRule("registry-refused", "error",
         lambda p: p.uses("debezium") and (p.registry is not None or p.feed.uses_glue),
         "protocol debezium takes no schema registry: TiCDC refuses it",
         "Use debezium-avro, or take out schema-registry (or glue-schema-registry-config)", _CODEC),
    DoctorRule("registry-credentials", "warning", _credentials,
         "The registry's URL holds credentials: they are stored with the changefeed", "Use a password for this one "
             "alone, and TLS", _CODEC),
    DoctorRule("registry-plain", "warning",
         lambda p: _credentials(p) and p.registry is not None and p.registry.scheme == "http",
         "The registry's credentials go over plain http", "Use https://", _CODEC),
    DoctorRule("registry-cloud", "warning",
         lambda p: p.registry is not None and (p.registry.hostname or "").endswith(".confluent.cloud")
         and not _credentials(p),
         "Confluent Cloud wants an API key and secret: TiCDC's first request is refused without them",
         "Write them into the URL: https://KEY:SECRET@…", _AVRO_FILE),
    DoctorRule("registry-glue", "warning", lambda p: p.feed.uses_glue,
         "AWS Glue: messages begin with 03 00 and a UUID, which Confluent's deserializers do not read; compatibility "
         "is set in Glue", "Give our readers the schemas as a file (--schemas)", _AVRO_FILE),
    DoctorRule("not-null-backward", "warning",
         lambda p: p.uses("avro") and (p.subjects is None or bool(_subjects_of_levels(p, "BACKWARD", "FULL"))),
         "A NOT NULL column added without a default is refused under BACKWARD, a registry's default level: the "
         "changefeed stops at the next row of the table",
         "Check each DDL first with `check-ddl`; add columns with NULL or a default",
         "the TiDB documents: TiCDC Avro Protocol, DDL events and schema changes"),
    DoctorRule("drop-forward", "warning",
         lambda p: _subjects_of_levels(p, "FORWARD", "FULL") if p.uses("avro") else [],
         "Under FORWARD or FULL a NOT NULL column without default can't be dropped: {what}",
         "Check each DDL first with `check-ddl`", "docs/registry.md"),
    DoctorRule("level-none", "info", lambda p: _subjects_of_levels(p, "NONE") if p.uses(*AVRO) else [],
         "The level is NONE, so any change of a schema is taken: {what}",
         "Be sure that consumers read by schema id", "docs/registry.md"),
    DoctorRule("subject-readonly", "error",
         lambda p: [f"{s.name} ({s.mode})" for s in p.subjects or () if s.mode != "READWRITE"] if p.uses(*AVRO) else [],
         "Subjects can't be written: the changefeed stops at the next new schema: {what}",
         "Set their mode to READWRITE", "docs/registry.md"),
    # ---- checksums
    DoctorRule("checksum-refused", "error",
         lambda p: p.uses("avro") and p.feed.checksums and not (
             p.feed.extension and p.feed.get("avro-decimal-handling-mode") == "string"
             and p.feed.get("avro-bigint-unsigned-handling-mode") == "string"),
         "Row checksums in Avro need the TiDB extension and both handling modes `string`: TiCDC refuses it",
         "Set enable-tidb-extension=true, avro-decimal-handling-mode=string, avro-bigint-unsigned-handling-mode=string",
         _CODEC),
    DoctorRule("checksum-selectors", "error", lambda p: p.feed.checksums and bool(p.feed.selectors),
         "Row checksums and column selectors exclude each other: TiCDC refuses it",
         "Take out integrity-check-level, or the [[sink.column-selectors]]",
         "ticdc pkg/config/replica_config.go"),
    DoctorRule("checksum-elsewhere", "warning",
         lambda p: p.feed.checksums and p.uses("open", "craft", "debezium", "debezium-avro", "canal-json"),
         "Row checksums are checked by TiCDC but not sent with this protocol", "Use avro or simple to verify "
             "downstream",
         _AVRO_FILE),
    DoctorRule("checksum-upstream", "info", lambda p: p.feed.checksums,
         "The checksum fields stay empty unless TiDB writes checksums", "SET GLOBAL tidb_enable_row_level_checksum = "
             "ON upstream, before the rows", _AVRO_FILE),
    DoctorRule("checksum-first", "warning", lambda p: p.uses("avro") and p.feed.checksums,
         "After ADD COLUMN … FIRST or AFTER TiCDC's encoder mixes columns up when row checksums are on: a row fails, "
         "or its checksum does not fit", "Add columns at the end only", _AVRO_FILE),
    # ---- the rest
    DoctorRule("not-read-here", "error",
         lambda p: [name] if (name := p.feed.protocol) and name not in FROM_TICDC else [],
         "Protocol {what} is not read by our jobs", f"Use one of {', '.join(FROM_TICDC)}",
         "ticdc pkg/config/sink_protocol.go"),
    DoctorRule("simple-bootstrap", "warning",
         lambda p: p.uses("simple") and (p.feed.get("protocol") != "simple" or min(
             p.feed.get("sink.send-bootstrap-interval-in-sec"), p.feed.get("sink.send-bootstrap-in-msg-count")) <= 0),
         "BOOTSTRAP messages are off: a reader that starts in the middle knows no table until its next DDL",
         "Set send-bootstrap-interval-in-sec and send-bootstrap-in-msg-count above 0, and write the protocol in small "
         "letters", "ticdc pkg/config/sink.go"),
    DoctorRule("insecure", "warning", lambda p: bool(p.feed.get("insecure-skip-verify")),
         "insecure-skip-verify: anyone between TiCDC and Kafka can read and change rows", "Give the CA (ca=…) instead",
         "ticdc pkg/sink/kafka/options.go"),
    DoctorRule("password-in-uri", "warning",
         lambda p: p.feed.origins.get("sink.kafka-config.sasl-password") == "sink-uri",
         "The sink URI holds the SASL password: it is in shell histories and process lists", "Put it into the file",
         "ticdc pkg/sink/kafka/options.go"),
    # ---- rows
    DoctorRule("rows-filtered", "warning", _kept_back,
         "Filters keep rows back ({what}): tables downstream are not TiDB's, and a row that is kept back once may stay "
         "as it was for good", "Let all rows through, and leave out what is not wanted where the messages are read",
         _FILTER),
    DoctorRule("no-table", "warning",
         lambda p: all(_SYSTEM.fullmatch(rule.strip()) for rule in p.feed.get("filter.rules")
                       if keeps_something([rule])),
         "filter.rules let no table through: patterns with `!` only take out, and TiCDC never sends system schemas",
         "Begin with '*.*' or with the tables that are wanted", _FILTER),
    # ---- passed over
    DoctorRule("extension-ignored", "info",
         lambda p: p.uses("open", "craft", "simple") and p.feed.extension,
         "enable-tidb-extension does nothing with this protocol", "Leave it out", _CODEC),
    DoctorRule("row-key-ignored", "warning",
         lambda p: bool(p.feed.get("output-row-key")) and not (
             p.uses("canal-json") and p.feed.extension and p.feed.origins.get(_ROW_KEY) == "sink-uri"),
         "output-row-key does nothing here: TiCDC reads it from the sink URI only, for canal-json with the TiDB "
         "extension", "Write it into the sink URI beside enable-tidb-extension=true, or leave it out", _CODEC),
    DoctorRule("registry-unused", "warning",
         lambda p: p.uses("open", "craft", "simple", "canal-json") and (p.registry is not None or p.feed.uses_glue),
         "The schema registry is not used with this protocol", "Leave it out", _CODEC),
    DoctorRule("avro-settings-ignored", "info",
         lambda p: [name for path in p.feed.origins if (name := path.rpartition(".")[2]).startswith("avro-")]
         if p.feed.protocol and not p.uses(*AVRO) else [],
         "Settings of Avro that do nothing with this protocol: {what}", "Leave them out", _CODEC),
    DoctorRule("login-ignored", "warning",
         lambda p: [name for name in ("sasl-user", "sasl-password")
                    if p.feed.is_set(name) and not p.feed.get("sasl-mechanism")],
         "TiCDC does not log in with {what}: no sasl-mechanism is given", "Set sasl-mechanism, such as PLAIN", _KAFKA),
    DoctorRule("scheme-without-tls", "warning",
         lambda p: p.feed.scheme == "kafka+ssl" and not (p.feed.get("enable-tls") or p.feed.get("ca")),
         "kafka+ssl:// alone does not turn TLS on: TiCDC connects without it",
         "Set enable-tls=true, or ca, cert and key", _KAFKA),
    DoctorRule("claim-check-ignored", "warning",
         lambda p: [name for name in ("claim-check-storage-uri", "claim-check-raw-value")
                    if p.feed.get(_LARGE_MESSAGES + name) and not _handles_large(p, "claim-check")],
         "{what} without large-message-handle-option claim-check does nothing: a row that is too large goes into no "
         "file",
         "Set large-message-handle-option = 'claim-check'", "ticdc pkg/config/large_message.go"),
    DoctorRule("claim-check-local", "warning",
         lambda p: _handles_large(p, "claim-check")
         and bool(uri := p.feed.get(_LARGE_MESSAGES + "claim-check-storage-uri"))
         and (uri.startswith(("file:", "local:")) or "://" not in uri),
         "claim-check-storage-uri is a folder on the disk of each TiCDC server: the files of a table lie where it was "
         "written, and nobody else has them", "Use an object store, or a folder that all servers and readers share",
         "ticdc pkg/sink/kafka/claimcheck"),
    DoctorRule("broker-without-port", "error",
         lambda p: [host for host in p.feed.hosts if p.feed.on_kafka and not _PORT.search(host)],
         "Brokers without a port: {what}. TiCDC's client for Kafka takes none by itself and can't connect",
         "Write HOST:PORT for each broker", _KAFKA),
    DoctorRule("redo-level-unknown", "warning",
         lambda p: [level] if (level := p.feed.get("consistent.level") or "none") not in ("none", "eventual") else [],
         "TiCDC does not know consistent.level {what}: it keeps no redo log, without a warning",
         "Write level = 'eventual', or leave it out", "ticdc pkg/redo/config.go"),
    DoctorRule("other-sinks", "info",
         lambda p: [path for path in p.feed.origins if path.startswith(settings.OTHER_SINKS)]
         + ["safe-mode"] * bool(p.feed.get("safe-mode")) if p.feed.on_kafka else [],
         "Settings of other sinks that do nothing with Kafka: {what}", "Leave them out", "ticdc pkg/config/sink.go"),
)  # fmt: skip

ORDER: Final = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    id: str
    severity: Severity
    text: str
    fix: str
    source: str


def examine(patient: DoctorInput) -> list[Finding]:
    """All findings, the gravest first."""
    findings = list[Finding]()
    for problem in patient.feed.problems:
        refused = problem.severity == "error"
        kind, fix = "settings-refused" if refused else "settings-odd", problem.fix or "Correct it"
        fix += "; `cdc cli changefeed create` refuses it" if refused else ""
        source = "ticdc pkg/config, pkg/sink/codec/common/config.go"
        findings.append(Finding(kind, problem.severity, problem.text, fix, source))
    for fault in faults(patient.feed.protocol, patient.feed):
        # Where nobody says which release runs, it may have the fix.
        severity: Severity = "warning" if patient.feed.ticdc_version or not (fault.until or fault.deed) else "info"
        findings.append(Finding(fault.id, severity, f"{fault.text} ({fault.versions})", fault.fix, fault.source))
    for rule in RULES:
        answer = rule.when(patient)
        if not answer:
            continue
        named = [] if answer is True else answer
        what = ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
        text, fix = rule.text.replace("{what}", what), rule.fix.replace("{what}", what)
        lines = settings.lines_named(f"{text} {fix}", patient.feed.origins)
        fix += f". Set now: {', '.join(lines)}" if lines else ""
        findings.append(Finding(rule.id, rule.severity, text, fix, rule.source))
    return sorted(findings, key=lambda f: ORDER.index(f.severity))


def exit_code(findings: list[Finding], threshold: Severity = "warning") -> int:
    """1 for any finding as grave as the threshold, else 0."""
    return int(any(ORDER.index(f.severity) <= ORDER.index(threshold) for f in findings))
