"""The registered Avro schemas of one table, compiled, and as Spark can read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schemas.errors import WireError
from schemas.names import sanitise_name
from schemas.table import TableId
from schemas.wire.avro_record import Record, compile_record
from schemas.wire.framing import frame
from spark_jobs.columns import MAX_SPARK_PRECISION
from spark_jobs.lookup import Registered, Schemas


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A registered version of a table's key or value schema, compiled."""

    entry: Registered
    record: Record

    @property
    def header(self) -> bytes:
        """The bytes before a record of this schema."""
        return frame(self.entry.id, b"")

    @property
    def readable(self) -> str:
        """Its text as Spark can read it."""
        return spark_schema(self.entry.schema)


def value_schemas(schemas: Schemas, id_: TableId) -> list[WriterSchema]:
    """All registered value schemas of a table, oldest first."""
    return [w for w in of_table(schemas.all(), id_) if w.entry.subject.endswith("-value")]


def of_table(entries: Iterable[Registered], id_: TableId) -> list[WriterSchema]:
    name = TableId(sanitise_name(id_.db), sanitise_name(id_.table))
    found = []
    for entry in entries:
        try:
            described = json.loads(entry.schema)
            if not isinstance(described, dict) or described.get("name") != name.table:
                continue
            if str(described.get("namespace", "")).rpartition(".")[2] == name.db:
                found.append(WriterSchema(entry, compile_record(entry.schema, f"schema id {entry.id}")))
        except (ValueError, WireError):
            continue  # somebody else's schema: not of a TiDB table
    return sorted(found, key=lambda w: (w.entry.subject, w.entry.version))


def spark_schema(text: str) -> str:
    """Schema text as Spark can read it: a decimal beyond 38 digits loses its logical type and comes as bytes."""
    return json.dumps(_readable(json.loads(text)))


def _readable(node: Any) -> Any:
    if isinstance(node, list):
        return [_readable(n) for n in node]
    if not isinstance(node, dict):
        return node
    if node.get("logicalType") == "decimal" and node.get("precision", 0) > MAX_SPARK_PRECISION:
        node = {k: v for k, v in node.items() if k not in ("logicalType", "precision", "scale")}
    return {k: v if k == "default" else _readable(v) for k, v in node.items()}


def once(writers: tuple[WriterSchema, ...]) -> tuple[WriterSchema, ...]:
    """Each id once; the newest version last."""
    return tuple({w.entry.id: w for w in writers}.values())
