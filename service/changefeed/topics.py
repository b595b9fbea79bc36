"""Which topic, partition rule and subjects a table's rows have.

Sources: pingcap/ticdc `downstreamadapter/sink/eventrouter/` (event_router.go, topic/expression.go,
partition/generator.go), `pkg/sink/codec/avro/helper.go` (sanitizeTopic), `pkg/sink/codec/debezium/avro.go`
(debeziumAvroSubject).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ticdc_bridge.schemas.model.names import avro_subject, topic_part
from ticdc_bridge.schemas.model.table_filter import TableFilter

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
