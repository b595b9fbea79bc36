"""Golden messages of a real Debezium MySQL connector: their own line form, and the tables of its SQL files."""

import gzip
import json
from functools import cache
from typing import Any

from tests.support.golden import GOLDEN
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId, TableVersion
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

FOLDER = GOLDEN / "debezium-mysql"


@cache
def _lines(name: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def settings(suffix: str = "") -> list[str]:
    """Names of the connector settings that have messages of a kind (`.noschema`, `.avro_confluent`, "": JSON)."""
    names = [p.name.removesuffix(".jsonl.gz") for p in FOLDER.glob("*.jsonl.gz")]
    if suffix:
        return sorted(n.removesuffix(suffix) for n in names if n.endswith(suffix))
    return sorted(n for n in names if "." not in n)


def json_messages(name: str) -> list[Message]:
    """Messages in JSON, in order; a value that is null is a tombstone."""
    lines = _lines(name)
    return [
        Message(_bytes(line["key_json"]), _bytes(line["value_json"]), line["topic"], 0, offset)
        for offset, line in enumerate(lines)
    ]


def avro_messages(name: str) -> list[Message]:
    """Messages in Confluent Avro; those that the connector's converter refused are left out."""
    out = []
    for offset, line in enumerate(_lines(f"{name}.avro_confluent")):
        if "key_error" not in line and "value_error" not in line:
            key, value = (line.get(f"{field}_hex") for field in ("key", "value"))
            pieces = [None if text is None else bytes.fromhex(text) for text in (key, value)]
            out.append(Message(pieces[0], pieces[1], line["topic"], 0, offset))
    return out


def schema_rows(name: str) -> tuple[dict[str, Any], ...]:
    """What the connector's converters registered: rows of subject, id, schema, by."""
    return _lines(f"{name}.avro_schemas")


def avro_schemas(name: str) -> FileSchemas:
    """The schemas that the connector's converters registered."""
    return FileSchemas([RegisteredSchema(row["subject"], 1, row["id"], row["schema"]) for row in schema_rows(name)])


def schema_texts(name: str) -> list[tuple[str, str]]:
    """(schema text, whose converter registered it)."""
    return [(line["schema"], line["by"]) for line in schema_rows(name)]


def documents(name: str) -> list[str]:
    """All keys and values in JSON, without tombstones."""
    return [line[piece] for line in _lines(name) for piece in ("key_json", "value_json") if line[piece]]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class ByName:
    """A TableSource of one version per table, whatever the time."""

    def __init__(self, versions: dict[TableId, TableVersion]) -> None:
        self.versions = versions

    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        return self.versions.get(table)

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        return self.versions.get(table)


def side(schemas: FileSchemas | None = None, tables: ByName | None = None, **options: Any) -> CodecConfig:
    """The reading side of connector messages."""
    return CodecConfig("debezium-mysql", schemas or FileSchemas([]), Options.of(options), tables)
