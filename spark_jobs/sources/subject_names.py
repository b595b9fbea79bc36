"""`--subject-strategy`: the subjects that schemas are registered under (Confluent's subject name strategies).

topic: TiCDC's own, `topic-key` and `topic-value`. record: the record's full name. topic-record: `topic-name`. TiCDC's
Avro gives key and value one record name: under the strategies by record the key's subject ends with `-key`, or the two
would be versions of one subject and refuse each other.
"""

from __future__ import annotations

import json
from typing import Literal, get_args

from schemas.model.ports import SchemaId, SchemaSource

Strategy = Literal["topic", "record", "topic-record"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)


class ByRecord:
    """A SchemaSource that registers under the names of records."""

    def __init__(self, schemas: SchemaSource, with_topic: bool) -> None:
        self._schemas, self._with_topic = schemas, with_topic

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        return self._schemas.by_id(schema_id, where)

    def newest(self, subject: str) -> str | None:
        return self._schemas.newest(subject)

    def id_of(self, subject: str, schema: str) -> SchemaId:
        return self._schemas.id_of(self._subject_of_record(subject, schema), schema)

    def _subject_of_record(self, subject: str, schema: str) -> str:
        topic, dash, part = subject.rpartition("-")
        record = json.loads(schema)
        if not (isinstance(record, dict) and dash and part in ("key", "value")):
            return subject  # Debezium's records of DDL and watermarks have their names as subjects already
        name = ".".join(filter(None, (record.get("namespace"), record["name"])))
        suffix = "-key" if part == "key" and "connect.name" not in record else ""  # Debezium's records have one
        return f"{topic}-{name}{suffix}" if self._with_topic else name + suffix


def with_strategy(schemas: SchemaSource, strategy: Strategy) -> SchemaSource:
    """The source, with subjects by this strategy."""
    return schemas if strategy == "topic" else ByRecord(schemas, strategy == "topic-record")
