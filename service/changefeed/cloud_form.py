"""The settings as TiDB Cloud shows and exports them → the sink URI and the file of TiCDC.

The form is that of `ticloud serverless changefeed` (upstream tidbcloud-cli `internal/cli/serverless/changefeed`): an
object with `dataFormat` and `topicPartitionConfig`, alone or as `kafka` of a changefeed, and `filter` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

Object = Mapping[str, Any]
_PROTOCOLS: Final = {
    "CANAL_JSON": "canal-json", "AVRO": "avro", "OPEN_PROTOCOL": "open-protocol", "DEBEZIUM": "debezium",
}  # fmt: skip
_MECHANISMS: Final = {
    "SASL_PLAIN": "plain", "SASL_SCRAM_SHA_256": "scram-sha-256", "SASL_SCRAM_SHA_512": "scram-sha-512",
}  # fmt: skip
_PARTITIONS: Final = {"TABLE": "table", "INDEX_VALUE": "index-value", "TS": "ts", "COLUMN": "columns"}
_AVRO: Final = "dataFormat.avroConfig."
_GLUE: Final = {
    "region": "region", "name": "registry-name", "accessKeyId": "access-key", "secretAccessKey": "secret-access-key",
}  # fmt: skip


# Our settings, by path → where TiDB Cloud's have them.
_KAFKA_PATH, _CODEC_PATH = "sink.kafka-config.", "sink.kafka-config.codec-config."
PLACES: Final = {
    "sink.protocol": "dataFormat.protocol",
    "sink.schema-registry": _AVRO + "confluentSchemaRegistry",
    _CODEC_PATH + "enable-tidb-extension": "dataFormat.enableTidbExtension",
    _CODEC_PATH + "avro-decimal-handling-mode": _AVRO + "decimalHandlingMode",
    _CODEC_PATH + "avro-bigint-unsigned-handling-mode": _AVRO + "bigintUnsignedHandlingMode",
    _KAFKA_PATH + "compression": "broker.compression",
    _KAFKA_PATH + "kafka-version": "broker.kafkaVersion",
    _KAFKA_PATH + "partition-num": "topicPartitionConfig.partitionNum",
    _KAFKA_PATH + "replication-factor": "topicPartitionConfig.replicationFactor",
    _KAFKA_PATH + "sasl-mechanism": "authentication.authType",
    _KAFKA_PATH + "sasl-user": "authentication.userName",
    _KAFKA_PATH + "sasl-password": "authentication.password",
    _KAFKA_PATH + "enable-tls": "authentication.enableTls",
    "force-replicate": "mode of the filter",
    "filter.rules": "filterRule of the filter",
}


class CloudSettings(NamedTuple):
    """uri: what stands for the sink URI; its host is a placeholder where none is told. document: the file's tables."""

    uri: str
    document: dict[str, Any]


def from_cloud(document: Object) -> CloudSettings | None:
    """None for settings of another form."""
    kafka = next((o for o in _objects(document) if isinstance(o.get("dataFormat"), Mapping)), None)
    if kafka is None:
        return None
    filter_ = next((o for o in _objects(document) if "filterRule" in o), {})
    return CloudSettings(_uri(kafka), _file(kafka, filter_))


def _objects(document: Object, depth: int = 3) -> Iterator[Object]:
    yield document
    for value in document.values():
        if isinstance(value, Mapping) and depth:
            yield from _objects(value, depth - 1)


def _at(document: Object, path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _uri(kafka: Object) -> str:
    partitions = "topicPartitionConfig."
    protocol, tls = str(_at(kafka, "dataFormat.protocol")), _at(kafka, "authentication.enableTls")
    version = str(_at(kafka, "broker.kafkaVersion") or "")
    parameters = {
        "protocol": _PROTOCOLS.get(protocol, protocol),
        "enable-tidb-extension": _flag(_at(kafka, "dataFormat.enableTidbExtension")),
        "avro-decimal-handling-mode": _lower(_at(kafka, _AVRO + "decimalHandlingMode")),
        "avro-bigint-unsigned-handling-mode": _lower(_at(kafka, _AVRO + "bigintUnsignedHandlingMode")),
        "compression": _lower(_at(kafka, "broker.compression")),
        "kafka-version": {"VERSION_2XX": "2.4.0", "VERSION_3XX": "3.0.0"}.get(version, ""),
        "partition-num": _at(kafka, partitions + "partitionNum"),
        "replication-factor": _at(kafka, partitions + "replicationFactor"),
        "sasl-mechanism": _MECHANISMS.get(str(_at(kafka, "authentication.authType")), ""),
        "sasl-user": _at(kafka, "authentication.userName"),
        "sasl-password": _at(kafka, "authentication.password"),
        "enable-tls": _flag(tls) if tls else "",
    }
    if protocol != "AVRO":
        parameters = {name: value for name, value in parameters.items() if not name.startswith("avro-")}
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    hosts = _at(kafka, "network.publicEndpoints") or "tidb-cloud"
    return f"kafka://{hosts}/{_at(kafka, partitions + 'defaultTopic') or ''}?{urlencode(given)}"


def _lower(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""


def _flag(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else ""


def _file(kafka: Object, filter_: Object) -> dict[str, Any]:
    sink: dict[str, Any] = {"dispatchers": list(_dispatchers(kafka))}
    selectors = kafka.get("columnSelectors")
    if selectors:
        sink["column-selectors"] = selectors
    registry = _at(kafka, _AVRO + "confluentSchemaRegistry")
    names = ("endpoint", "schemaRegistryEndpoints")
    url = next((registry[name] for name in names if registry.get(name)), "") if registry else ""
    if url and _at(kafka, "dataFormat.protocol") == "AVRO":
        sink["schema-registry"] = url
    glue = _at(kafka, _AVRO + "awsGlueSchemaRegistry") or {}
    named = {ours: glue[theirs] for theirs, ours in _GLUE.items() if glue.get(theirs)}
    if named and _at(kafka, "dataFormat.protocol") == "AVRO":
        sink["kafka-config"] = {"glue-schema-registry-config": named}
    document: dict[str, Any] = {"sink": sink}
    if filter_:
        rules = [{"matcher": r.get("matcher"), "ignore-event": r.get("ignoreEvent")}
                 for r in filter_.get("eventFilterRule") or () if isinstance(r, Mapping)]  # fmt: skip
        document["filter"] = {"rules": filter_.get("filterRule") or ["*.*"], "event-filters": rules}
        document["force-replicate"] = filter_.get("mode") == "FORCE_SYNC"
    return document


def _dispatchers(kafka: Object) -> Iterator[dict[str, Any]]:
    """One list for partitions and one topic rule for all tables: TiCDC has both in a dispatcher."""
    config: Object = kafka.get("topicPartitionConfig") or {}
    prefix, between, end = (str(config.get(name) or "") for name in ("topicPrefix", "separator", "topicSuffix"))
    topic = {
        "BY_TABLE": f"{prefix}{{schema}}{between}{{table}}{end}", "BY_DATABASE": f"{prefix}{{schema}}{end}",
    }.get(str(config.get("dispatchType")), "")  # fmt: skip
    everything = False
    for one in config.get("partitionDispatchers") or ():
        matcher = one.get("matcher") or ["*.*"]
        everything = everything or matcher == ["*.*"]
        kind = str(one.get("partitionType"))
        rule = {"matcher": matcher, "partition": _PARTITIONS.get(kind, kind.lower()), "topic": topic}
        if kind == "INDEX_VALUE" and one.get("indexName"):
            rule["index"] = one["indexName"]
        if kind == "COLUMN":
            rule["columns"] = one.get("columns") or []
        yield rule
    if topic and not everything:
        yield {"matcher": ["*.*"], "topic": topic}
