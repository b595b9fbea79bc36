"""A changefeed's settings, as TiCDC would take them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import avro_subject, topic_part
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.table_filter import TableFilter
from ticdc_bridge.service.changefeed.setting_keys import BY_PATH, BY_URI, KAFKA, WITH_REGISTRY

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
        """Whether the table has another name downstream."""
        return bool(self.target_schema or self.target_table)


def expression_error(rule: str, avro: bool) -> str:
    """Why TiCDC refuses a topic rule; "" when it takes it. A rule with placeholders has, for Avro, both names."""
    if rule == "" or _PLAIN.fullmatch(rule):
        return ""  # the name of one topic
    rest = _PLACEHOLDER.sub("", rule)
    if "{" in rest or "}" in rest:
        return "it may hold {schema} and {table} only"
    if topic_part(rest) != rest:
        return "letters, digits, '.', '_' and '-' are what a topic's name may have"
    names = _PLACEHOLDER.findall(rule)
    if avro and set(names) != {"schema", "table"}:
        return "with Avro it must hold {schema} and {table}"
    return "" if names in (["schema"], ["table"], ["schema", "table"]) else "{schema} comes before {table}, each once"


def topic_name(rule: str, db: str, table: str) -> str:
    """A rule with its names filled in: a character that a topic can't have becomes `_`, 249 bytes are kept."""
    values = {"schema": topic_part(db), "table": topic_part(table)}
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
        return cls(tables, TableFilter(tuple(_as_table(p) for p in columns)))

    def keeps(self, column: str) -> bool:
        """The last pattern that fits decides."""
        return self.columns.matches("c", column)


def _as_table(pattern: str) -> str:
    return "!c." + pattern[1:] if pattern.startswith("!") else "c." + pattern


@dataclass(frozen=True, slots=True)
class ChangefeedSettings:
    """A changefeed's settings.

    values: by the path of the file, as far as anything is set. scheme, topic: of the sink URI. protocol: a name of
    `setting_keys.PROTOCOLS`' right side; "" where none is given. given: settings by path → "sink-uri" or
    "config", or in words where else they stand.
    keyspace: TiCDC's name of the namespace that changefeeds are in. time_zone: of TiCDC's server, in which Avro
    and Open write TIMESTAMP; "" where not said. ticdc_version: of TiCDC, which narrows its known faults; "" for any.
    """

    scheme: str = ""
    hosts: tuple[str, ...] = ()
    topic: str = ""
    protocol: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    dispatchers: tuple[Dispatcher, ...] = ()
    selectors: tuple[ColumnSelector, ...] = ()
    event_filters: tuple[Mapping[str, Any], ...] = ()
    tables: TableFilter = field(default_factory=lambda: TableFilter(("*.*",)))
    keyspace: str = "default"
    time_zone: str = ""
    ticdc_version: str = ""
    problems: tuple[Problem, ...] = ()

    def get(self, name: str) -> Any:
        """A setting by its URI name or its path: what is set, else TiCDC's default."""
        key = BY_URI.get(name) or BY_PATH[name]
        return self.values.get(key.path, key.default)

    def is_given(self, name: str) -> bool:
        key = BY_URI.get(name) or BY_PATH[name]
        return key.path in self.given

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
        return any(path.startswith("sink.kafka-config.glue-schema-registry-config.") for path in self.given)

    @property
    def checksums(self) -> bool:
        return bool(self.get("integrity.integrity-check-level") == "correctness")

    def replicates(self, table: TableId) -> bool:
        """Whether the changefeed's filter lets the table through."""
        return self.tables.matches(table.db, table.table)

    def dispatcher(self, table: TableId) -> Dispatcher | None:
        """The first rule for the table; None means the topic of the sink URI and the partition rule `default`."""
        return next((d for d in self.dispatchers if d.tables.matches(table.db, table.table)), None)

    def topic_of(self, table: TableId) -> str:
        """The table's topic; "" where the settings don't tell."""
        rule = self.dispatcher(table)
        return topic_name(rule.topic, table.db, table.table) if rule and rule.topic else self.topic

    def subjects_of(self, table: TableId) -> tuple[str, str] | None:
        """Key and value subject of the table; None without a registry, or where the topic is not told."""
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

    def errors(self) -> list[str]:
        return [p.text for p in self.problems if p.severity == "error"]

    def require_valid(self) -> ChangefeedSettings:
        """Itself, if TiCDC would take it. SetupError USAGE with everything that it would refuse."""
        errors = self.errors()
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
