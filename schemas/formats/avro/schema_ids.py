"""What TiCDC Avro writes a table with: schema ids of key and value, registered (or looked up) once per table and topic.

`AvroEncoder` and the compiled writer (`avro_writer`) have their ids from here, so that both write the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.record import RowWriter, row_writer
from ticdc_bridge.schemas.model.names import avro_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId, SchemaSource
from ticdc_bridge.schemas.model.table import Column, Table


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A key or value record: its schema's id, its columns in the record's order, and what writes them."""

    id: SchemaId
    columns: tuple[Column, ...]
    write: RowWriter


@dataclass(frozen=True, slots=True)
class KeyValueSchemas:
    """Key and value record of a table on a topic.

    No key: the table has no primary key. No value: for deletes that have none, whose schema TiCDC does not register.
    """

    key: RecordSchema | None
    value: RecordSchema | None


class SchemaIds:
    """Plans by table and topic. options: with the keyspace of this side; an event may come with its own."""

    def __init__(self, schemas: SchemaSource, options: Options) -> None:
        self._schemas, self._options = schemas, options
        self._plans: BoundedCache[tuple[Any, ...], tuple[Table, KeyValueSchemas]] = BoundedCache()

    def of(self, table: Table, topic: str, keyspace: str | None, valued: bool) -> KeyValueSchemas:
        """The plan; the key's schema is registered before the value's.

        WireError as `publish.value_schema` and `SchemaSource.id_of`, SetupError as the latter.
        """
        entry = self._plans.get((topic, id(table), keyspace, valued))
        if entry is not None and entry[0] is table:
            return entry[1]
        options = self._options if keyspace is None else replace(self._options, keyspace=keyspace)
        text, key, value = publish.key_schema(table, options), None, None
        if text is not None:
            key = self._part(topic, "key", text, tuple(c for c in table.columns if c.primary_key), options)
        if valued:
            text = publish.value_schema(table, options)
            value = self._part(topic, "value", text, publish.value_columns(table, options), options)
        plan = KeyValueSchemas(key, value)
        self._plans[topic, id(table), keyspace, valued] = table, plan
        return plan

    def _part(self, topic: str, part: str, text: str, columns: tuple[Column, ...], options: Options) -> RecordSchema:
        return RecordSchema(self._schemas.id_of(avro_subject(topic, part), text), columns, row_writer(columns, options))
