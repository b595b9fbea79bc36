"""`--subject-strategy`: the subjects that schemas are registered under (Confluent's subject name strategies).

topic: TiCDC's own, `topic-key` and `topic-value`. record: the record's full name. topic-record: `topic-name`. TiCDC's
Avro gives key and value one record name: under the strategies by record the key's subject ends with `-key`, or the two
would be versions of one subject and refuse each other.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource

Strategy = Literal["topic", "record", "topic-record"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)


class ByRecord:
    """A SchemaSource that registers under the names of records."""

    def __init__(self, schemas: SchemaSource, with_topic: bool) -> None:
        self._schemas, self._with_topic = schemas, with_topic
        self.by_id, self.newest = schemas.by_id, schemas.newest

    def id_of(self, subject: str, schema: str) -> SchemaId:
        topic, dash, field = subject.rpartition("-")
        record = json.loads(schema)
        if isinstance(record, dict) and dash and field in ("key", "value"):
            name = record_name(record)
            suffix = "-key" if field == "key" and "connect.name" not in record else ""  # Debezium's records have one
            subject = f"{topic}-{name}{suffix}" if self._with_topic else name + suffix
        # Debezium's records of DDL and watermarks have their names as subjects already.
        return self._schemas.id_of(subject, schema)


def record_name(record: Mapping[str, Any]) -> str:
    """The full name of a record's schema."""
    name = str(record.get("name", ""))
    return name if "." in name else ".".join(filter(None, (record.get("namespace"), name)))


def without_context(subject: str) -> str:
    """`:.context:subject` → `subject`."""
    return subject.partition(":")[2].partition(":")[2] if subject.startswith(":.") else subject


def topics_of_subjects(subjects: Iterable[str]) -> frozenset[str] | None:
    """The topics that subjects are of; None where one is called otherwise than `topic-key` or `topic-value`."""
    pieces = [without_context(subject).rpartition("-") for subject in subjects]
    if any(not dash or piece not in ("key", "value") or "." in topic for topic, dash, piece in pieces):
        return None  # by record: `default.db.table`, `default.db.table-key`, `topic-default.db.table`
    return frozenset(topic for topic, _, _ in pieces)


def is_of_topic(registered: str, subject: str, name: str) -> bool:
    """True if a schema that is registered under a subject may be that of a topic's messages, by any of the strategies.

    subject: the topic's, `topic-key` or `topic-value` (key or value is of no account); name: the record's full name. A
    mirrored topic has the name of its cluster before its own (MirrorMaker's `DefaultReplicationPolicy`), and its
    schemas have not.
    """
    registered = without_context(registered)
    topic, topic_name = subject.rpartition("-")[0], registered
    if registered in (name, f"{name}-key", f"{topic}-{name}", f"{topic}-{name}-key"):
        return True
    if registered.endswith(("-key", "-value")):
        topic_name = registered.rpartition("-")[0]
    names = topic.split(".")
    by_ticdc = ("_".join(names[n:]) for n in range(len(names)))  # its Avro has `_` for each dot of the topic
    return topic == topic_name or topic_name in by_ticdc or topic.endswith("." + topic_name)


def with_strategy(schemas: SchemaSource, strategy: Strategy) -> SchemaSource:
    """The source, with subjects by this strategy."""
    return schemas if strategy == "topic" else ByRecord(schemas, strategy == "topic-record")
