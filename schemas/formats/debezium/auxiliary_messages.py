"""What stands beside the rows on topics of Kafka Connect and Debezium, and which connector wrote a message.

Sources: Debezium's documentation (heartbeats, transaction metadata, notifications, signals, CloudEvents converter,
schema history); Kafka Connect's internal topics (`KafkaOffsetBackingStore`, `KafkaConfigBackingStore`,
`KafkaStatusBackingStore`). Detection and every decoder of the family name them by these tables.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import name_other_form
from ticdc_bridge.schemas.model.errors import Hint

_ROWS_ONLY = "it holds no row; read the topics of the tables only"


@dataclass(frozen=True, slots=True)
class AuxiliaryMessage:
    """A kind of message that is of no table.

    has: the fields it always has; may_have: those it can have besides, None for any; holds: what must be true of it.
    advice: what the reader does about it.
    """

    name: str
    has: frozenset[str]
    may_have: frozenset[str] | None = None
    holds: Callable[[Mapping[str, Any]], bool] = lambda _body: True
    advice: str = _ROWS_ONLY

    def matches(self, body: Mapping[str, Any]) -> bool:
        names = body.keys()
        fits = names >= self.has and (self.may_have is None or names <= self.has | self.may_have)
        return fits and self.holds(body)


def _fields(*names: str) -> frozenset[str]:
    return frozenset(names)


_SIGNALS = (
    "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log", "schema-changes",
    "snapshot-window-open", "snapshot-window-close", "set-binlog-position",
)  # fmt: skip
_STATES = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", "DESTROYED")

AUXILIARY_MESSAGES: tuple[AuxiliaryMessage, ...] = (
    AuxiliaryMessage("a heartbeat of Debezium", _fields("ts_ms"), _fields("ts_us", "ts_ns", "serverName")),
    AuxiliaryMessage(
        "a transaction marker of Debezium (provide.transaction.metadata)", _fields("status", "id"),
        _fields("event_count", "data_collections", "ts_ms", "ts_us", "ts_ns"),
        lambda body: body["status"] in ("BEGIN", "END"),
    ),
    AuxiliaryMessage("a notification of Debezium", _fields("id", "aggregate_type", "type"),
                _fields("additional_data", "timestamp")),
    AuxiliaryMessage(
        "a signal to Debezium", _fields("type"), _fields("id", "data"),
        lambda body: body["type"] in _SIGNALS or isinstance(body.get("data"), Mapping),  # no column holds an object
    ),
    AuxiliaryMessage(
        "a CloudEvents message", _fields("specversion", "type", "source"),
        advice="its row is wrapped in data; use the connector's JSON or Avro converter instead of CloudEvents",
    ),
    AuxiliaryMessage(
        "a record of Debezium's schema history (schema.history.internal.kafka.topic)", _fields("source", "position"),
        advice="it holds the connector's own memory; schema changes for readers are on the topic of topic.prefix",
    ),
    AuxiliaryMessage(
        "an offset that Kafka Connect keeps (offset.storage.topic)", _fields("file", "pos"),
        _fields("ts_sec", "row", "event", "server_id", "gtids", "snapshot", "snapshot_completed", "transaction_id"),
    ),
    AuxiliaryMessage(
        "a connector's settings that Kafka Connect keeps (config.storage.topic)", _fields("properties"), _fields(),
        lambda body: isinstance(body["properties"], Mapping),
    ),
    AuxiliaryMessage(
        "a status that Kafka Connect keeps (status.storage.topic)", _fields("state", "worker_id", "generation"),
        _fields("trace", "version"), lambda body: body["state"] in _STATES,
    ),
)  # fmt: skip


def auxiliary_message(body: Mapping[str, Any]) -> str:
    """What a JSON or Avro body is that is of no table, and what to do about it; "" for anything else."""
    return next((f"{kind.name}: {kind.advice}" for kind in AUXILIARY_MESSAGES if kind.matches(body)), "")


def of_somebody_else(body: Any) -> str:
    """What a body is that TiCDC did not write: of no table, or of a connector; "" where it does not say."""
    if not isinstance(body, Mapping):
        return ""
    source = body.get("source")
    connector = source.get("connector") if isinstance(source, Mapping) else None
    if isinstance(connector, str) and connector != "TiCDC":
        return other_connector(connector)
    is_envelope = "op" in body or any(isinstance(body.get(image), Mapping) for image in ("before", "after"))
    no_source = (
        "an envelope of Debezium without source, so nothing says of which table it is:"
        f" {Hint.FORMAT.of('debezium-mysql')} reads it with the option table ({Hint.READ_OPTIONS})"
    )
    return (
        auxiliary_message(body)
        or name_other_form(body, "debezium")
        or (no_source if is_envelope and not source else "")
    )


_JAVA_TEXT = re.compile(rb"\s*(?:Struct\{|SinkRecord\{|SourceRecord\{|\{[A-Za-z_]\w*=)")


def java_text(data: bytes) -> str:
    """What text is that Java made of a row (`Struct{id=1}`, `{id=1}`), and what to do about it; "" for any other."""
    if not _JAVA_TEXT.match(data[:200]):
        return ""
    return (
        "text of Kafka Connect's StringConverter (Struct{...}), from which no row can be read back; "
        "use the JSON or Avro converter"
    )


READ_BY: dict[str, tuple[str, ...]] = {
    "mysql": ("debezium-mysql",),
    "mariadb": ("debezium-mysql",),
    "tidb": ("debezium-tidb",),
    "TiCDC": ("debezium", "debezium-avro"),
}
"""`source.connector` → the formats that read such messages, the first of them in JSON."""


def check_connector(source: Mapping[str, Any], format_: str) -> None:
    """ValueError where `source.connector` names a connector whose messages the format does not read.

    A source block without it is let through: it was made by hand, or by a version that had none.
    """
    connector = source.get("connector")
    # With source_connector=TiCDC the bridge writes a position, which TiCDC's own messages have not.
    is_ticdc_name = format_ == "debezium-mysql" and connector == "TiCDC" and bool(source.get("file"))
    if isinstance(connector, str) and not is_ticdc_name and format_ not in READ_BY.get(connector, ()):
        raise ValueError(other_connector(connector))


def other_connector(connector: str) -> str:
    """Who wrote a message of this `source.connector`, and with which format it is read."""
    if formats := READ_BY.get(connector):
        return f"source.connector is {connector!r}: read it with {Hint.FORMAT.of(' or '.join(formats))}"
    return f"source.connector is {connector[:40]!r}: {MYSQL_ONLY}"


MYSQL_ONLY = "of Debezium's connectors, those for MySQL and MariaDB (debezium-mysql) and TiDB (debezium-tidb) are read"


OF_OTHERS: dict[str, str] = {
    "lsn": "PostgreSQL or SQL Server", "txId": "PostgreSQL", "xmin": "PostgreSQL", "scn": "Oracle",
    "commit_scn": "Oracle", "lcr_position": "Oracle", "change_lsn": "SQL Server", "commit_lsn": "SQL Server",
    "collection": "MongoDB", "ord": "MongoDB",
}  # fmt: skip
"""Fields of a source block that MySQL's connector lacks → the database whose connector has them."""
