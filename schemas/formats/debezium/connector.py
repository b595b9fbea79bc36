"""Debezium's connectors as the bridge writes them: the `source` block, and the position of a change in it.

Sources: Debezium's documentation of the MySQL connector; measured with 3.6.1.

A position is a function of the message alone, so that each run and each Spark partition gives the same: `file` is
`tidb.<ms of the commit>`, `pos` a number of 63 bits, `row` the number of the row in its message.

    pos of a row with a commit_ts   18 bits: the TSO's logical part | 32: the offset (its lowest) | 13: the partition
    pos without one                                                   50: the offset              | 13: the partition

Where a format's deletes have no commit_ts (TiCDC's Avro), no time orders its rows: all of them have the file `tidb.0`,
and their offsets order them. Such positions begin anew with a new topic.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ticdc_bridge.schemas.formats.base import record_time
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId

VERSION = "3.6.1.Final"
_PARTITION_BITS, _OFFSET_BITS = 13, 32
_LOGICAL, _PARTITION, _OFFSET = (1 << 18) - 1, (1 << _PARTITION_BITS) - 1, (1 << _OFFSET_BITS) - 1
_LONG_OFFSET = (1 << 63 - _PARTITION_BITS) - 1


class Position(NamedTuple):
    """Where a change stands among those of its topic and partition: `file` is `tidb.<ms>`."""

    ms: int
    pos: int
    row: int


def position_of(event: RowChange | DdlEvent, origin: Message) -> Position:
    """The position of an event of the message `origin`."""
    row = event.number if isinstance(event, RowChange) else 0
    offset, partition = origin.offset or 0, (origin.partition or 0) & _PARTITION
    commit_ts = event.commit_ts
    if commit_ts is None or (event.format == "avro" and origin.offset is not None):  # whose deletes have none
        return Position(0, (offset & _LONG_OFFSET) << _PARTITION_BITS | partition, row)
    position = (commit_ts & _LOGICAL) << _OFFSET_BITS | offset & _OFFSET
    return Position(tso_physical_ms(commit_ts), position << _PARTITION_BITS | partition, row)


SourceField = tuple[str, str, bool]
"""(name, Connect type, optional) of a field of the source block; type "": `snapshot`, an enumeration."""

_COMMON: tuple[SourceField, ...] = (
    ("version", "string", False), ("connector", "string", False), ("name", "string", False),
    ("ts_ms", "int64", False), ("snapshot", "", True), ("db", "string", False), ("sequence", "string", True),
    ("ts_us", "int64", True), ("ts_ns", "int64", True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Connector:
    """One of the connectors. format: its name here. title: of the database. package: of its schemas' names. fields: of
    its source block.

    schema_changes: DDL is written as schema changes to the topic `<topic.prefix>`. names_topics: rows go to topics
    `<topic.prefix>.<db>.<table>`, where nobody names others. defaults: of options that are "auto".
    """

    format: str
    title: str
    package: str
    fields: tuple[SourceField, ...]
    schema_changes: bool = False
    names_topics: bool = False
    defaults: tuple[tuple[str, str], ...] = ()

    def chosen(self, options: Options) -> Options:
        """The options, with what this connector does where they say "auto"."""
        chosen: dict[str, Any] = {k: v for k, v in self.defaults if getattr(options, k) == "auto"}
        return replace(options, **chosen)

    def source(
        self, id_: TableId, event: RowChange | DdlEvent, commit_ts: int | None, origin: Message, options: Options
    ) -> dict[str, Any]:
        """The source block of an event. commit_ts: its own, or one made for it; None: ts_ms is Kafka's time."""
        ms = (record_time(origin) or 0) if commit_ts is None else tso_physical_ms(commit_ts)
        position = position_of(event, origin)
        mysql = self.format == MYSQL.format
        sequence = json.dumps([str(n) for n in position], separators=(",", ":"))
        facts = {
            "version": VERSION, "connector": options.source_connector if mysql else "tidb",
            "name": options.topic_prefix or options.cluster_id, "ts_ms": ms,
            "snapshot": "true" if isinstance(event, RowChange) and event.op == "r" else "false", "db": id_.db,
            "sequence": None if mysql else sequence, "ts_us": ms * 1000, "ts_ns": ms * 1_000_000, "table": id_.table,
            "server_id": 0, "gtid": None, "file": f"tidb.{position.ms}", "pos": position.pos, "row": position.row,
            "thread": None, "query": None, "commit_ts": commit_ts,
            "cluster_id": event.extra.get("cluster_id", options.cluster_id),
        }  # fmt: skip
        return {name: facts[name] for name, _, _ in self.fields}


MYSQL = Connector(
    "debezium-mysql",
    "MySQL",
    "io.debezium.connector.mysql",
    (
        *_COMMON, ("table", "string", True), ("server_id", "int64", False), ("gtid", "string", True),
        ("file", "string", False), ("pos", "int64", False), ("row", "int32", False), ("thread", "int64", True),
        ("query", "string", True), ("commit_ts", "int64", True), ("cluster_id", "string", True),  # the last two: ours
    ),
)  # fmt: skip
TIDB = Connector(
    "debezium-tidb",
    "TiDB",
    "io.debezium.connector.tidb",
    (*_COMMON, ("table", "string", False), ("commit_ts", "int64", False), ("cluster_id", "string", True)),
    schema_changes=True,
    names_topics=True,
    defaults=(("binary_handling_mode", "base64"), ("time_precision_mode", "adaptive_time_microseconds")),
)
